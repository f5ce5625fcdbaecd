// SPDX-License-Identifier: Apache-2.0
// Times the steps of the programs that an engine runs.
#pragma once

#include "core/base/platform.hpp"
#include "core/runtime/engine.hpp"
#include "hone/profile.hpp"

namespace hone {

/// The clock is read once a step: the end of one is the start of the next, so durations leave no
/// gap within a run, and what a call of the clock takes (some 30 ns) counts with the step.
class Profiler {
 public:
  /// `id` is not 0, and no other profiler of the same engine had it.
  Profiler(uint64_t id, const ProfileOptions& options);

  /// Before a run of `steps` steps: makes the program's rows if it has not run under this profiler
  /// before.
  void begin(Compiled& c, size_t steps);
  /// After each step of that run.
  void end_step(const Compiled& c, size_t step) {
    const int64_t now = platform::now_ns();
    const size_t row = c.first_row + step;
    ProfileRow& r = profile_.rows[row];
    if (r.runs++ == 0) r.start_ns = last_ns_ - profile_.origin_ns;
    r.total_ns += now - last_ns_;
    if (keeps_events_)
      profile_.events.push_back(
          {static_cast<int32_t>(row), last_ns_ - profile_.origin_ns, now - last_ns_});
    last_ns_ = now;
  }
  const Profile& profile() const { return profile_; }

 private:
  void add_rows(const Program& p);

  uint64_t id_;
  int64_t max_events_;
  bool keeps_events_ = false;  // during this run
  bool full_ = false;
  int64_t last_ns_ = 0;
  int32_t programs_ = 0;
  Profile profile_;
};

}  // namespace hone
