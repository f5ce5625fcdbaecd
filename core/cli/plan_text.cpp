// SPDX-License-Identifier: Apache-2.0
// A memory plan as sentences and tables.
#include <algorithm>

#include "core/cli/markup.hpp"
#include "core/cli/plan_view.hpp"
#include "core/cli/terminal.hpp"

namespace hone::cli {

namespace {

std::string steps_text(const PlanBuffer& b) {
  return b.first == b.last ? format("{}", b.first) : format("{} to {}", b.first, b.last);
}

Rows rows_of(std::vector<const PlanBuffer*> buffers, size_t most, size_t name_width) {
  std::stable_sort(buffers.begin(), buffers.end(),
                   [](const PlanBuffer* a, const PlanBuffer* b) { return a->bytes > b->bytes; });
  Rows out = {{"size", "what", "shape", "held in steps", "why"}};
  for (const PlanBuffer* b : buffers) {
    if (out.size() > most) break;
    out.push_back({bytes_text(b->bytes), shortened(b->name, name_width), printable(b->type),
                   steps_text(*b), std::string(name_of(b->use))});
  }
  return out;
}

std::string table_text(const Rows& rows) {
  Table table(rows[0]);
  for (size_t i = 1; i < rows.size(); ++i) table.add(rows[i]);
  return table.text();
}

bool live_at_peak(const PlanDetail& d, const PlanBuffer& b) {
  return b.first <= d.peak_step && d.peak_step <= b.last;
}

}  // namespace

std::string_view name_of(PlanUse use) {
  switch (use) {
    case PlanUse::kept:
      return "kept for the backward pass";
    case PlanUse::passing:
      return "forward only";
    case PlanUse::gradient:
      return "gradient";
    case PlanUse::work:
      return "scratch, conversion";
    case PlanUse::again:
      return "computed again";
  }
  return "";
}

std::string_view name_of(PlanPhase phase) {
  switch (phase) {
    case PlanPhase::forward:
      return "forward";
    case PlanPhase::backward:
      return "backward";
    case PlanPhase::update:
      return "update";
  }
  return "";
}

int64_t fixed_bytes(const PlanInfo& info) { return info.peak_bytes - info.arena_bytes; }

Rows totals(const PlanView& view) {
  const PlanInfo& p = view.info;
  Rows out = {{"memory", "size", ""}};
  const auto line = [&](std::string what, int64_t bytes, std::string note = {}) {
    out.push_back({std::move(what), bytes_text(bytes), std::move(note)});
  };
  line("parameters and buffers", p.state_bytes - p.optimizer_bytes);
  if (view.detail.trains) line("optimizer state", p.optimizer_bytes);
  if (p.packed_bytes > 0) line("weights in a kernel's layout", p.packed_bytes);
  if (p.file_bytes > 0)
    line("weights and states in files", p.window_bytes,
         format("the most at a time, of {}", bytes_text(p.file_bytes)));
  const int64_t rest = fixed_bytes(p) - p.state_bytes - p.packed_bytes - p.window_bytes;
  if (rest > 0) line("results and other plans", rest);
  const double over = p.lower_bound_bytes > 0
                          ? 100 * static_cast<double>(p.arena_bytes - p.lower_bound_bytes) /
                                static_cast<double>(p.lower_bound_bytes)
                          : 0;
  line(
      view.detail.trains ? "arena: activations, gradients, scratch" : "arena: activations, scratch",
      p.arena_bytes,
      format("live at once: {}; packing adds {} %", bytes_text(p.lower_bound_bytes),
             number_text(over, 2)));
  line("peak", p.peak_bytes);
  if (p.limit_bytes > 0) line("limit", p.limit_bytes);
  return out;
}

std::string cost_of_limit(const PlanInfo& p) {
  if (p.repeated_steps == 0) return {};
  return format(
      "{}, {} of {} steps are second runs of what had been given up: about {} % more time "
      "(estimated).",
      p.limit_bytes > 0 ? "To keep the limit" : "So that less is kept",
      count_text(p.repeated_steps), count_text(p.steps), number_text(100 * p.extra_time, 2));
}

std::string peak_sentence(const PlanView& view) {
  const PlanDetail& d = view.detail;
  if (d.peak_step < 0) return "There are no steps, and nothing is held.";
  const PlanStep& s = d.steps[static_cast<size_t>(d.peak_step)];
  return format(
      "The arena is fullest at step {} of {}{}: {} live during {}.", count_text(d.peak_step),
      count_text(static_cast<int64_t>(d.steps.size())),
      d.trains ? format(" ({}{})", name_of(s.phase), s.again ? ", run again" : "") : std::string(),
      bytes_text(d.peak_bytes()), shortened(s.name, 120));
}

std::string peak_by_use(const PlanDetail& d) {
  int64_t bytes[kPlanUses] = {}, count[kPlanUses] = {};
  for (const PlanBuffer& b : d.buffers)
    if (live_at_peak(d, b)) {
      bytes[static_cast<int>(b.use)] += b.bytes;
      ++count[static_cast<int>(b.use)];
    }
  std::string out;
  for (int u = 0; u < kPlanUses; ++u)
    if (count[u] > 0)
      out += format("{}{} {} in {} buffer{}", out.empty() ? "" : "; ",
                    name_of(static_cast<PlanUse>(u)), bytes_text(bytes[u]), count_text(count[u]),
                    count[u] == 1 ? "" : "s");
  return out.empty() ? out : out + ".";
}

Rows largest_at_peak(const PlanDetail& d, size_t most, size_t name_width) {
  std::vector<const PlanBuffer*> live;
  for (const PlanBuffer& b : d.buffers)
    if (live_at_peak(d, b)) live.push_back(&b);
  return rows_of(std::move(live), most, name_width);
}

Rows largest(const PlanDetail& d, size_t most, size_t name_width) {
  std::vector<const PlanBuffer*> all;
  for (const PlanBuffer& b : d.buffers) all.push_back(&b);
  return rows_of(std::move(all), most, name_width);
}

std::string plan_text(const PlanView& view) {
  constexpr size_t kRows = 12, kWidth = 48;
  std::string out = printable(view.title) + "\n\n" + table_text(totals(view)) + "\n";
  if (const std::string cost = cost_of_limit(view.info); !cost.empty()) out += cost + "\n\n";
  out += peak_sentence(view) + "\n";
  if (view.detail.buffers.empty()) return out;
  out += "By use: " + peak_by_use(view.detail) + " The largest of them:\n\n" +
         table_text(largest_at_peak(view.detail, kRows, kWidth)) +
         "\nThe largest buffers of all steps:\n\n" +
         table_text(largest(view.detail, kRows, kWidth));
  return out;
}

}  // namespace hone::cli
