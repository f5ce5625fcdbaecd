// SPDX-License-Identifier: Apache-2.0
// Where the time of runs goes, step by step.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "hone/plan_detail.hpp"

namespace hone {

struct ProfileOptions {
  /// Single runs of steps that are kept with their moments, for a trace: the first so many, cut at
  /// the end of a run of a program. Their memory, 24 bytes each, is taken at the start.
  int64_t max_events = 0;
};

/// One step of one program. Programs are numbered in the order in which they first ran; one is made
/// for each combination of input shapes, and trainers have others for the loss alone.
struct ProfileRow {
  int32_t program = 0;
  int32_t step = 0;
  std::string name;    ///< As in plans: "conv2d 'stem.0'", "backward of 'act.1' (mul)".
  std::string op;      ///< The operator; empty for what only moves data.
  std::string kernel;  ///< What carries it out: "onednn.conv", "reference".
  PlanPhase phase = PlanPhase::forward;
  double flops = 0;   ///< Of one run, as the operator counts them.
  int64_t bytes = 0;  ///< Sizes of the buffers that it reads and writes, each once: of one run.
  int64_t runs = 0;
  int64_t start_ns = 0;  ///< Of the first run, after the start of the profile.
  int64_t total_ns = 0;  ///< Of all runs.
};

/// One run of a step.
struct ProfileEvent {
  int32_t row = 0;       ///< Index into Profile::rows.
  int64_t start_ns = 0;  ///< After the start of the profile.
  int64_t duration_ns = 0;
};

struct Profile {
  std::vector<ProfileRow> rows;  ///< Program by program, step by step.
  std::vector<ProfileEvent> events;
  int64_t origin_ns = 0;  ///< The start of the profile on the system's steady clock.
};

}  // namespace hone
