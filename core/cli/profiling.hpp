// SPDX-License-Identifier: Apache-2.0
// Profiles as people and trace viewers read them.
#pragma once

#include <string>

#include "hone/profile.hpp"

namespace hone::cli {

/// Time by operator and kernel, then the slowest steps: milliseconds a run, share, achieved Gflop/s
/// and GB/s (of the operands' sizes: caches may serve part of it). `runs` were profiled.
std::string profile_text(const Profile& profile, int64_t runs);

/// The events in the Trace Event Format that chrome://tracing and ui.perfetto.dev open: one
/// complete event a step, a row for each program.
std::string trace_json(const Profile& profile);

}  // namespace hone::cli
