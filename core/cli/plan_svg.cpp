// SPDX-License-Identifier: Apache-2.0
// The picture of a memory plan. Steps go from left to right; the upper chart has the arena's
// addresses from bottom to top, the lower one adds up all memory in use.
#include <algorithm>
#include <cmath>
#include <cstdio>

#include "core/cli/markup.hpp"
#include "core/cli/plan_view.hpp"
#include "core/cli/terminal.hpp"

namespace hone::cli {

namespace {

// Places, in pixels.
constexpr double kWidth = 1200, kLeft = 92, kPlotWidth = 1084;
constexpr double kArenaTop = 172, kArenaHeight = 440;
constexpr double kRowHeight = 9, kRowGap = 3;
constexpr double kSumHeight = 190;
// Rectangles smaller than this, in square pixels, are drawn together and have no label.
constexpr double kTiny = 0.5;

// Colours that stay apart for the colour-blind: Okabe and Ito, "Color Universal Design" (2008).
constexpr const char* kStyle = R"xml(<style>
text{font:12px system-ui,-apple-system,'Segoe UI','DejaVu Sans',sans-serif;fill:#222}
.t{font-size:19px;font-weight:600}.n{fill:#555}.b{font-weight:600}.e{text-anchor:end}.m{text-anchor:middle}
.l{font-size:10px;pointer-events:none}.w{fill:#fff}
.kept{fill:#0072b2}.passing{fill:#56b4e9}.gradient{fill:#e69f00}.work{fill:#f0e442}.again{fill:url(#again)}
.forward{fill:#56b4e9}.backward{fill:#e69f00}.update{fill:#009e73}
.parameters{fill:#5b6670}.optimizer{fill:#93a0a9}.other{fill:#c3ccd2}
.edge rect{stroke:#fff;stroke-width:.6}.dense *{stroke-width:.5}
.dense .kept{stroke:#0072b2}.dense .passing{stroke:#56b4e9}.dense .gradient{stroke:#e69f00}.dense .work{stroke:#f0e442}.dense .again{stroke:#cc79a7}
.grid{stroke:#ddd}.loss{stroke:#555;stroke-dasharray:1 3}.frame{fill:none;stroke:#999}.peak{stroke:#000;stroke-width:1.5;stroke-dasharray:5 3}
.limit{stroke:#d55e00;stroke-width:2}
.limit-text{fill:#a84300;font-weight:600;paint-order:stroke;stroke:#fff;stroke-width:4px;stroke-linejoin:round}
</style>
<defs><pattern id="again" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">
<rect width="6" height="6" fill="#cc79a7"/><rect width="2" height="6" fill="#a84e80"/></pattern></defs>
)xml";

constexpr const char* kClass[kPlanUses] = {"kept", "passing", "gradient", "work", "again"};

std::string num(double v) {
  char buf[32];
  std::snprintf(buf, sizeof buf, "%.2f", v);
  std::string s = buf;
  s.erase(s.find_last_not_of('0') + 1);
  if (s.back() == '.') s.pop_back();
  return s == "-0" ? "0" : s;
}

std::string text(double x, double y, std::string_view content, std::string_view classes = "") {
  std::string out = format("<text x=\"{}\" y=\"{}\"", num(x), num(y));
  if (!classes.empty()) out += format(" class=\"{}\"", classes);
  return out + format(">{}</text>\n", xml_text(content));
}

std::string line(double x1, double y1, double x2, double y2, std::string_view classes) {
  return format("<line x1=\"{}\" y1=\"{}\" x2=\"{}\" y2=\"{}\" class=\"{}\"/>\n", num(x1), num(y1),
                num(x2), num(y2), classes);
}

std::string box(double x, double y, double w, double h, std::string_view classes) {
  return format("<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" class=\"{}\"/>\n", num(x),
                num(y), num(w), num(h), classes);
}

// A distance between marks of an axis, 1, 2 or 5 times a power of ten, that makes about `marks`.
double mark_distance(double range, double marks) {
  const double least = range / marks;
  const double power = std::pow(10, std::floor(std::log10(least)));
  for (const double f : {1.0, 2.0, 5.0})
    if (f * power >= least) return f * power;
  return 10 * power;
}

class Picture {
 public:
  explicit Picture(const PlanView& view) : v_(view), d_(view.detail), info_(view.info) {
    steps_ = std::max<double>(1, static_cast<double>(d_.steps.size()));
    fixed_ = fixed_bytes(info_);
    if (info_.limit_bytes > 0) arena_limit_ = std::max<int64_t>(0, info_.limit_bytes - fixed_);
    arena_top_ = std::max<int64_t>(1, d_.arena_bytes);
    if (arena_limit_ > d_.arena_bytes && arena_limit_ < d_.arena_bytes + d_.arena_bytes / 5)
      arena_top_ = arena_limit_;
    sum_top_ = std::max<int64_t>(1, info_.peak_bytes);
    if (info_.limit_bytes > sum_top_ && info_.limit_bytes < 2 * sum_top_)
      sum_top_ = info_.limit_bytes;
    sum_top_ += sum_top_ / 20;
  }

  std::string draw() {
    header();
    arena();
    phases();
    sums();
    peak();
    const double height = sum_bottom() + 44;
    return format(
               "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{}\" height=\"{}\" viewBox=\"0 0 "
               "{} {}\" role=\"img\">\n<title>{}</title>\n<desc>{}</desc>\n",
               num(kWidth), num(height), num(kWidth), num(height), xml_text(v_.title),
               xml_text(peak_sentence(v_))) +
           kStyle + box(0, 0, kWidth, height, "page") + "<style>.page{fill:#fff}</style>\n" + out_ +
           "</svg>\n";
  }

 private:
  double x(double step) const { return kLeft + kPlotWidth * step / steps_; }
  double arena_y(int64_t bytes) const {
    return kArenaTop +
           kArenaHeight * (1 - static_cast<double>(bytes) / static_cast<double>(arena_top_));
  }
  double sum_top() const { return kArenaTop + kArenaHeight + 76; }
  double sum_bottom() const { return sum_top() + kSumHeight; }
  double sum_y(int64_t bytes) const {
    return sum_bottom() - kSumHeight * static_cast<double>(bytes) / static_cast<double>(sum_top_);
  }

  void header() {
    out_ += text(kLeft, 30, shortened(v_.title, 90), "t");
    std::string sum = format("Peak {}", bytes_text(info_.peak_bytes));
    if (info_.limit_bytes > 0) sum += format(" of a limit of {}", bytes_text(info_.limit_bytes));
    sum += format(": parameters and buffers {}",
                  bytes_text(info_.state_bytes - info_.optimizer_bytes));
    if (d_.trains) sum += format(", optimizer state {}", bytes_text(info_.optimizer_bytes));
    if (info_.packed_bytes > 0)
      sum += format(", weights in a kernel's layout {}", bytes_text(info_.packed_bytes));
    sum += format(", arena {}.", bytes_text(d_.arena_bytes));
    out_ += text(kLeft, 53, sum, "b");
    if (const std::string cost = cost_of_limit(info_); !cost.empty())
      out_ += text(kLeft, 71, cost, "b");
    out_ += text(kLeft, 93,
                 "How to read it: each rectangle is a piece of memory; from left to right it "
                 "spans the steps during which it is held, from bottom to top the addresses it "
                 "has; point at one for its name.",
                 "n");
    out_ += text(kLeft, 110,
                 "The dashed line is the step that needs most: what it crosses makes the peak. "
                 "The lower chart adds up all memory in use at each step.",
                 "n");
    legend();
  }

  void legend() {
    bool used[kPlanUses] = {};
    for (const PlanBuffer& b : d_.buffers) used[static_cast<int>(b.use)] = true;
    double at = kLeft;
    for (int u = 0; u < kPlanUses; ++u) {
      if (!used[u]) continue;
      const std::string_view name = name_of(static_cast<PlanUse>(u));
      out_ += box(at, 123, 14, 12, kClass[u]);
      out_ += text(at + 19, 133, name);
      at += 50 + 6.5 * static_cast<double>(name.size());
    }
    out_ += box(at, 123, 14, 12, "frame") + text(at + 19, 133, "not in use");
  }

  // "70 MiB" rather than "70.0 MiB".
  static std::string bytes_at(double v) {
    std::string out = bytes_text(static_cast<int64_t>(v + 0.5));
    if (const size_t zero = out.find(".0 "); zero != std::string::npos) out.erase(zero, 2);
    return out;
  }

  // Marks with their bytes on the left, from 0 to `top` over `height` pixels above `bottom`.
  void byte_axis(int64_t top, double bottom, double height, double marks) {
    double unit = 1;
    while (static_cast<double>(top) / unit >= 1024) unit *= 1024;
    const double every =
        std::max(1.0, mark_distance(static_cast<double>(top) / unit, marks) * unit);
    for (double v = 0; v <= static_cast<double>(top); v += every) {
      const double y = bottom - height * v / static_cast<double>(top);
      out_ += line(kLeft, y, kLeft + kPlotWidth, y, "grid");
      out_ += text(kLeft - 6, y + 4, bytes_at(v), "n e");
    }
  }

  std::string title_of(const PlanBuffer& b) const {
    std::string t = shortened(b.name, 200);
    if (!b.type.empty()) t += "\n" + b.type;
    t += format("\n{} at address {}{}", bytes_text(b.bytes), count_text(b.offset),
                b.in_place ? ", in place of what was there" : "");
    t += format("\nheld from step {} to {}", count_text(b.first), count_text(b.last));
    t += format("\nmade by: {}{}", shortened(d_.steps[static_cast<size_t>(b.first)].name, 200),
                b.use == PlanUse::again ? " (run again)" : "");
    t += format("\n{}", name_of(b.use));
    // xml_text takes line ends for control characters.
    std::string out;
    for (size_t from = 0; from <= t.size();) {
      const size_t to = std::min(t.find('\n', from), t.size());
      out += (from > 0 ? "&#10;" : "") + xml_text(std::string_view(t).substr(from, to - from));
      from = to + 1;
    }
    return out;
  }

  void arena() {
    const double bottom = kArenaTop + kArenaHeight;
    byte_axis(arena_top_, bottom, kArenaHeight, 8);
    std::string tiny[kPlanUses], labels;
    // Few have white borders; many get thin ones of their own colour, or they would fade to white.
    out_ += d_.buffers.size() < 1500 ? "<g class=\"edge\">\n" : "<g class=\"dense\">\n";
    for (const PlanBuffer& b : d_.buffers) {
      const double x0 = x(b.first), w = x(b.last + 1) - x0;
      const double y0 = arena_y(b.offset + b.bytes), h = arena_y(b.offset) - y0;
      if (w * h < kTiny) {
        tiny[static_cast<int>(b.use)] +=
            format("M{} {}h{}v{}h-{}z", num(x0), num(y0), num(w), num(h), num(w));
        continue;
      }
      out_ += format(
          "<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" class=\"life {}\"><title>{}</title>"
          "</rect>\n",
          num(x0), num(y0), num(w), num(h), kClass[static_cast<int>(b.use)], title_of(b));
      labels += label_in(b, x0, y0, w, h);
    }
    for (int u = 0; u < kPlanUses; ++u)
      if (!tiny[u].empty()) out_ += format("<path d=\"{}\" class=\"{}\"/>\n", tiny[u], kClass[u]);
    out_ += "</g>\n" + labels;
    out_ += box(kLeft, kArenaTop, kPlotWidth, kArenaHeight, "frame");
    out_ += vertical_text("address in the arena", kArenaTop + kArenaHeight / 2);
    if (arena_limit_ > 0 && arena_limit_ <= arena_top_) {
      const double y = arena_y(arena_limit_);
      out_ += line(kLeft, y, kLeft + kPlotWidth, y, "limit");
      out_ += text(kLeft + kPlotWidth - 5, y + 16,
                   format("what the limit leaves for the arena: {}", bytes_text(arena_limit_)),
                   "limit-text e");
    }
  }

  std::string vertical_text(std::string_view content, double y) const {
    return format("<text transform=\"translate(16 {}) rotate(-90)\" class=\"n m\">{}</text>\n",
                  num(y), xml_text(content));
  }

  // The name inside, where it can be read.
  std::string label_in(const PlanBuffer& b, double x0, double y0, double w, double h) const {
    constexpr double kCharacter = 5.7;
    const double room = (w - 8) / kCharacter;
    const size_t length = shortened(b.name, 200).size();
    if (h < 12 || room < std::min(14.0, static_cast<double>(length))) return {};
    return text(x0 + 4, y0 + h / 2 + 3.5, shortened(b.name, static_cast<size_t>(room)),
                b.use == PlanUse::kept ? "l w" : "l");
  }

  // One row for each kind of step, marked where such steps run; then the steps' numbers.
  void phases() {
    const double top = kArenaTop + kArenaHeight + 8;
    double y = top;
    const auto row = [&](std::string_view name, std::string_view classes, auto is) {
      std::string marks;
      for (size_t i = 0; i < d_.steps.size(); ++i) {
        if (!is(d_.steps[i])) continue;
        const size_t from = i;
        while (i + 1 < d_.steps.size() && is(d_.steps[i + 1])) ++i;
        const double x0 = x(static_cast<double>(from));
        marks += box(x0, y, x(static_cast<double>(i + 1)) - x0, kRowHeight, classes);
      }
      if (marks.empty()) return;
      out_ += text(kLeft - 6, y + kRowHeight, name, "n e") + marks;
      y += kRowHeight + kRowGap;
    };
    const auto first_run = [](PlanPhase p) {
      return [p](const PlanStep& s) { return s.phase == p && !s.again; };
    };
    row("forward", "forward", first_run(PlanPhase::forward));
    if (d_.loss_step >= 0) {
      const double at = x(d_.loss_step + 1);
      out_ += line(at, kArenaTop, at, sum_bottom(), "loss");
      out_ += text(at + 4, top + kRowHeight, "loss", "n");
    }
    row("run again", "again", [](const PlanStep& s) { return s.again; });
    row("backward", "backward", first_run(PlanPhase::backward));
    row("update", "update", first_run(PlanPhase::update));
  }

  // Where one colour lies on another: bytes at each column of the chart.
  void sums() {
    byte_axis(sum_top_, sum_bottom(), kSumHeight, 5);
    const int64_t parameters = info_.state_bytes - info_.optimizer_bytes;
    int64_t base = 0;
    const auto band = [&](int64_t bytes, std::string_view classes, std::string_view name) {
      if (bytes <= 0) return;
      const double y = sum_y(base + bytes), h = sum_y(base) - y;
      out_ += box(kLeft, y, kPlotWidth, h, classes);
      if (h >= 13)
        out_ += text(kLeft + 6, y + h / 2 + 4, format("{}: {}", name, bytes_text(bytes)),
                     classes == "parameters" ? "w" : "");
      base += bytes;
    };
    band(parameters, "parameters", "parameters and buffers");
    band(info_.optimizer_bytes, "optimizer", "optimizer state");
    band(fixed_ - info_.state_bytes, "other",
         info_.file_bytes > 0 ? "packed weights, results, read from files"
                              : "packed weights and results");
    stack();
    out_ += box(kLeft, sum_top(), kPlotWidth, kSumHeight, "frame");
    out_ += vertical_text("memory in use", sum_top() + kSumHeight / 2);
    if (info_.limit_bytes > 0 && info_.limit_bytes <= sum_top_) {
      const double y = sum_y(info_.limit_bytes);
      out_ += line(kLeft, y, kLeft + kPlotWidth, y, "limit");
      out_ += text(kLeft + kPlotWidth - 5, y + 16,
                   format("memory limit: {}", bytes_text(info_.limit_bytes)), "limit-text e");
    }
    const double every = std::max(1.0, mark_distance(steps_, 14));
    for (double s = 0; s <= steps_; s += every) {
      out_ += line(x(s), sum_bottom(), x(s), sum_bottom() + 4, "frame");
      out_ += text(x(s), sum_bottom() + 17, count_text(static_cast<int64_t>(s)), "n m");
    }
    out_ += text(kLeft + kPlotWidth / 2, sum_bottom() + 34, "steps, in the order in which they run",
                 "n m");
  }

  // Live bytes by use over what is always there. A column is a pixel or a step, whichever is wider;
  // of several steps it shows the fullest.
  void stack() {
    if (d_.steps.empty()) return;
    std::vector<std::vector<int64_t>> live(kPlanUses, std::vector<int64_t>(d_.steps.size() + 1, 0));
    for (const PlanBuffer& b : d_.buffers) {
      std::vector<int64_t>& change = live[static_cast<size_t>(b.use)];
      change[static_cast<size_t>(b.first)] += b.bytes;
      change[static_cast<size_t>(b.last) + 1] -= b.bytes;
    }
    for (auto& of_use : live)
      for (size_t i = 1; i < of_use.size(); ++i) of_use[i] += of_use[i - 1];
    const size_t columns = std::min(d_.steps.size(), static_cast<size_t>(kPlotWidth));
    std::vector<size_t> shown, starts;
    for (size_t c = 0; c < columns; ++c) {
      const size_t from = c * d_.steps.size() / columns, to = (c + 1) * d_.steps.size() / columns;
      const auto begin = d_.live_bytes.begin();
      const auto fullest = std::max_element(begin + static_cast<std::ptrdiff_t>(from),
                                            begin + static_cast<std::ptrdiff_t>(to));
      starts.push_back(from);
      shown.push_back(static_cast<size_t>(fullest - begin));
    }
    starts.push_back(d_.steps.size());
    std::vector<int64_t> base(columns, fixed_);
    for (int u = 0; u < kPlanUses; ++u) {
      std::string over, under;
      bool any = false;
      for (size_t c = 0; c < columns; ++c) {
        const int64_t bytes = live[static_cast<size_t>(u)][shown[c]];
        any = any || bytes > 0;
        const std::string x0 = num(x(static_cast<double>(starts[c])));
        const std::string x1 = num(x(static_cast<double>(starts[c + 1])));
        const std::string y = num(sum_y(base[c] + bytes)), y_base = num(sum_y(base[c]));
        over += format("{}{} {}H{}", c == 0 ? "M" : "L", x0, y, x1);
        under = format("L{} {}H{}", x1, y_base, x0) + under;
        base[c] += bytes;
      }
      if (any) out_ += format("<path d=\"{}{}z\" class=\"{}\"/>\n", over, under, kClass[u]);
    }
  }

  void peak() {
    if (d_.peak_step < 0) return;
    const double at = x(d_.peak_step + 0.5);
    out_ += line(at, kArenaTop - 8, at, sum_bottom(), "peak");
    // The label goes to the side with more room.
    constexpr double kCharacter = 7.6;
    const bool right = at < kLeft + kPlotWidth / 2;
    const double room = right ? kLeft + kPlotWidth - at : at - kLeft;
    const std::string what =
        format("Peak: {} live at step {}, ", bytes_text(d_.peak_bytes()), count_text(d_.peak_step));
    const size_t left = static_cast<size_t>(std::max(16.0, room / kCharacter)) - what.size();
    out_ += text(right ? at - 4 : at + 4, kArenaTop - 13,
                 what + shortened(d_.steps[static_cast<size_t>(d_.peak_step)].name,
                                  std::min<size_t>(left, 100)),
                 right ? "b" : "b e");
  }

  const PlanView& v_;
  const PlanDetail& d_;
  const PlanInfo& info_;
  double steps_ = 1;
  int64_t fixed_ = 0, arena_limit_ = 0, arena_top_ = 1, sum_top_ = 1;
  std::string out_;
};

}  // namespace

std::string plan_svg(const PlanView& view) { return Picture(view).draw(); }

}  // namespace hone::cli
