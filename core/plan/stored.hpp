// SPDX-License-Identifier: Apache-2.0
// Plans that were made before: recognised by the problem they solve, and used when they are sound.
#pragma once

#include "core/plan/fit.hpp"
#include "hone/stored_plan.hpp"

namespace hone {

/// Steps, sizes and who reads and writes what, as one number.
uint64_t problem_of(const WorkList& work);

/// Of the plans for this problem that fit into `room` the one made for the least room, or one that
/// runs no step twice. Nothing where there is none, or where what the file says is no plan for
/// these steps.
std::optional<Placement> stored_placement(const WorkList& work, uint64_t problem, int64_t room,
                                          std::span<const StoredPlan> stored);

}  // namespace hone
