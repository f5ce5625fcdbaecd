// SPDX-License-Identifier: Apache-2.0
// A memory plan as a page: the picture, how to read it, and the tables.
#include "core/cli/markup.hpp"
#include "core/cli/plan_view.hpp"

namespace hone::cli {

namespace {

constexpr const char* kHead = R"(<meta name="viewport" content="width=device-width">
<style>
body{font:15px/1.5 system-ui,-apple-system,'Segoe UI',sans-serif;color:#222;background:#fff;margin:24px auto;max-width:1200px;padding:0 16px}
h1{font-size:22px}h2{font-size:17px;margin-top:28px}svg{max-width:100%;height:auto}
table{border-collapse:collapse}th,td{text-align:left;padding:3px 14px 3px 0;border-bottom:1px solid #ddd;vertical-align:top}
td:nth-child(2){overflow-wrap:anywhere}dt{font-weight:600}dd{margin:0 0 8px 0}
</style>
)";

// For readers who have never seen a memory plan.
constexpr const char* kExplanation = R"(<h2>What this is</h2>
<p>Before the first step runs, every piece of memory that it takes is given its place in one block, the <b>arena</b>. Two things may have
the same address when they are not needed at the same time. In the upper chart time goes from left to right, one step after the other, and
addresses go from bottom to top: a wide rectangle is something that is held for long, a tall one something large. White is memory that is not
in use then. Point at a rectangle for its name, size and life.</p>
<p>The lower chart adds up what is always there (parameters, optimizer state) and what is live in the arena; its highest point is the peak.</p>
)";
constexpr const char* kTraining =
    R"(<p>Training first goes <b>forward</b> to the loss, then <b>backward</b> from it. Going back, most steps need what the forward pass computed, so that is <b>kept</b>:
it piles up until the loss is reached and is given back one by one on the way back. That is why the peak is often near the middle. A parameter is <b>updated</b> as soon as
its gradient is complete. When there is a memory limit, some of what is cheap to compute is not kept but <b>computed again</b> when it is needed; results stay the same to the bit.</p>
)";

std::string table(const Rows& rows) {
  std::string out = "<table>\n";
  for (size_t r = 0; r < rows.size(); ++r) {
    const std::string_view cell = r == 0 ? "th" : "td";
    out += "<tr>";
    for (const std::string& c : rows[r]) out += format("<{}>{}</{}>", cell, xml_text(c), cell);
    out += "</tr>\n";
  }
  return out + "</table>\n";
}

}  // namespace

std::string plan_html(const PlanView& view) {
  constexpr size_t kRows = 25, kWidth = 160;
  const std::string title = xml_text(view.title);
  std::string out = format(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n"
      "<title>{}</title>\n{}<h1>Memory plan</h1>\n",
      title, kHead);
  out += plan_svg(view) + kExplanation;
  if (view.detail.trains) out += kTraining;
  out += "<h2>All memory</h2>\n" + table(totals(view));
  if (const std::string cost = cost_of_limit(view.info); !cost.empty())
    out += format("<p>{}</p>\n", xml_text(cost));
  out += format("<h2>What makes the peak</h2>\n<p>{} By use: {}</p>\n",
                xml_text(peak_sentence(view)), xml_text(peak_by_use(view.detail)));
  out += table(largest_at_peak(view.detail, kRows, kWidth));
  out += "<h2>The largest buffers of all steps</h2>\n" + table(largest(view.detail, kRows, kWidth));
  return out + "</html>\n";
}

}  // namespace hone::cli
