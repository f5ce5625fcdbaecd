// SPDX-License-Identifier: Apache-2.0
// A memory plan as tables, as a picture and as a page.
#pragma once

#include <string>
#include <vector>

#include "hone/plan_detail.hpp"
#include "hone/session.hpp"

namespace hone::cli {

struct PlanView {
  std::string title;  ///< "Training step (AdamW) of unet.onnx, x [8, 3, 64, 64]".
  PlanInfo info;
  PlanDetail detail;
};

/// Rows of text for a table; the first is its header.
using Rows = std::vector<std::vector<std::string>>;

/// What the uses of memory are called.
std::string_view name_of(PlanUse use);
std::string_view name_of(PlanPhase phase);
/// Bytes in use beside the arena: parameters, optimizer state, packed weights, results.
int64_t fixed_bytes(const PlanInfo& info);

/// Where the peak goes to: parameters, optimizer state, arena, ..., limit.
Rows totals(const PlanView& view);
/// What keeping the limit costs, as a sentence; empty when nothing is run again.
std::string cost_of_limit(const PlanInfo& info);
/// The step with the most live bytes, as a sentence.
std::string peak_sentence(const PlanView& view);
/// Bytes that are live at the peak, by use, as a sentence.
std::string peak_by_use(const PlanDetail& detail);
/// The largest buffers at the peak.
Rows largest_at_peak(const PlanDetail& detail, size_t most, size_t name_width);
/// The largest buffers of all.
Rows largest(const PlanDetail& detail, size_t most, size_t name_width);

/// All of that for a terminal.
std::string plan_text(const PlanView& view);
/// The arena over time: a complete SVG file.
std::string plan_svg(const PlanView& view);
/// The picture with an explanation and the tables: a complete HTML file.
std::string plan_html(const PlanView& view);

}  // namespace hone::cli
