// SPDX-License-Identifier: Apache-2.0
// A profile as tables, as JSON, and as a trace for Chrome's and Perfetto's viewers.
#pragma once

#include <string>

#include "core/cli/machine.hpp"
#include "hone/profile.hpp"

namespace hone::cli {

struct ProfileView {
  Profile profile;
  MachineSpeed machine;  ///< Zeros where it was not measured: no shares of the peak then.
  int64_t runs = 0;      ///< Inferences or training steps that were profiled.
  bool trains = false;
};

/// Steps that are carried out alike, by the operator and its kernel.
struct ProfileGroup {
  std::string op, kernel;
  int64_t steps = 0;  ///< Of a run.
  int64_t total_ns = 0;
  double flops = 0, bytes = 0;  ///< Of all runs.
};

/// The groups, the slowest first.
std::vector<ProfileGroup> group_profile(const Profile& profile);

/// Steps in two classes, by what bounds them on this machine: arithmetic, when they compute more
/// for each byte than the machine does at its peaks, or memory.
struct ProfileBound {
  double time_share = 0;  ///< Of the time of all steps.
  double of_peak = 0;     ///< Reached of what bounds it.
};
struct ProfileBounds {
  double balance = 0;  ///< Floating-point operations a byte where the two peaks meet.
  ProfileBound arithmetic, memory;
};
ProfileBounds profile_bounds(const Profile& profile, const MachineSpeed& machine);

/// Tables: operators, phases of a training step, the slowest steps.
std::string profile_text(const ProfileView& view);

/// One JSON object.
std::string profile_json(const ProfileView& view);

/// A stretch of time beside the steps.
struct TraceSpan {
  std::string name;
  int64_t start_ns = 0;  ///< On the clock of Profile::origin_ns.
  int64_t duration_ns = 0;
};

/// The profile's events in the trace event format (a JSON object with "traceEvents", times in
/// microseconds): one complete event a run of a step, and `spans` in a row of their own.
std::string trace_json(const Profile& profile, const std::vector<TraceSpan>& spans);

}  // namespace hone::cli
