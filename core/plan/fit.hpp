// SPDX-License-Identifier: Apache-2.0
// An order of runs and a place for every life: what planning comes to.
#pragma once

#include <functional>
#include <optional>

#include "core/plan/timeline.hpp"

namespace hone {

/// Lives and scratch of a sequence, as they are packed.
struct Packing {
  std::vector<Lifetime> lifetimes;
  std::vector<int32_t> instances;   ///< Those that own their bytes.
  std::vector<int32_t> scratch_of;  ///< Positions in the sequence; their lifetimes come last.
};

struct Placement {
  Sequence runs;
  Timeline timeline;
  Packing packing;
  ArenaPlan arena;
};

/// Everything but the arena, of a sequence that is valid.
Placement unpacked(const WorkList& work, Sequence runs);

/// The cheapest placement found within `room` bytes, or nothing. Errors: as plan_arena.
Result<std::optional<Placement>> fit(const WorkList& work, int64_t room);

/// Without a limit: one that runs steps again for at most `share` of the time of all steps, by
/// their costs, and has the smallest arena found for that. Errors: as plan_arena.
Result<Placement> frugal(const WorkList& work, double share);

/// The one with the smallest arena found, whatever it costs.
Result<Placement> tightest(const WorkList& work);

/// Looks for a cheaper one, or one of the same cost in a smaller arena, while `keep_going` says so.
Status search(const WorkList& work, int64_t room, const std::function<bool()>& keep_going,
              Placement& best);

}  // namespace hone
