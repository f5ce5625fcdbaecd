// SPDX-License-Identifier: Apache-2.0
// Which steps to run a second time so that training fits into less memory.
#pragma once

#include <functional>
#include <optional>

#include "core/plan/timeline.hpp"

namespace hone {

/// How hard to look.
struct RecomputeOptions {
  int tries = 12;        ///< Ways to value a buffer, and margins, that are tried.
  int improved = 2;      ///< The cheapest of them are improved ...
  int trials = 1000;     ///< ... by this many single changes each at most.
  size_t effort = 5000;  ///< Steps that may be rehearsed more to come from a good way to a better.
  size_t visits = 1'500'000;  ///< Steps that these trials may follow in all.
  uint32_t seed = 0;          ///< Above 0: buffers are valued at random, up to thrice or a third.
  double excess = 20;  ///< A sequence that costs more than this many times the steps is given up.
  /// Asked now and then once there is a sequence to return: false ends the search.
  const std::function<bool()>* keep_going = nullptr;
  bool goes_on() const { return !keep_going || (*keep_going)(); }
};

struct Recomputation {
  Sequence sequence;
  int64_t peak = 0;  ///< Largest sum of live bytes.
  double cost = 0;   ///< Of all runs; the steps' own cost when nothing is repeated.
};

/// As `recompute`, without looking for what would have fitted instead: that takes longer than to
/// see that a limit is too small.
std::optional<Recomputation> recompute_within(const WorkList& work, int64_t limit,
                                              const RecomputeOptions& options = {});

/// The cheapest sequence found whose peak is at most `limit` bytes. Errors: out_of_memory (with the
/// smallest peak that was found instead).
Result<Recomputation> recompute(const WorkList& work, int64_t limit,
                                const RecomputeOptions& options = {});

/// What single steps need at once: no sequence has a smaller peak.
int64_t floor_bytes(const WorkList& work);

/// The sequence with the smallest peak that was found, whatever it costs (within options.excess).
Recomputation smallest(const WorkList& work, const RecomputeOptions& options = {});

}  // namespace hone
