// SPDX-License-Identifier: Apache-2.0
// Packing of buffers with lifetimes into one arena.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "hone/status.hpp"

namespace hone {

/// A buffer that is live during steps [first, last], both included.
struct Lifetime {
  int64_t bytes = 0;
  int32_t first = 0, last = 0;
};

struct ArenaPlan {
  std::vector<int64_t> offsets;  ///< One for each lifetime, multiples of kAlignment.
  int64_t bytes = 0;             ///< Size of the arena.
  int64_t lower_bound =
      0;  ///< Largest sum of simultaneously live (aligned) bytes: no plan is smaller.
  std::string_view strategy;  ///< The heuristic that found it.
};

/// Tries several heuristics and keeps the smallest arena. The result is verified.
/// Errors: invalid_argument (negative size, last before first).
Result<ArenaPlan> plan_arena(std::span<const Lifetime> lifetimes);

/// No two buffers that are live together overlap, all lie within the arena, offsets are aligned.
bool is_valid(const ArenaPlan& plan, std::span<const Lifetime> lifetimes);

}  // namespace hone
