// SPDX-License-Identifier: Apache-2.0
// Packing of buffers with lifetimes into one arena.
#pragma once

#include <functional>
#include <limits>
#include <span>
#include <string_view>
#include <vector>

#include "hone/status.hpp"
#include "hone/tensor_data.hpp"

namespace hone {

/// A limit in bytes that is none.
inline constexpr int64_t kNoLimit = std::numeric_limits<int64_t>::max();

/// A buffer that is live during steps [first, last], both included.
struct Lifetime {
  int64_t bytes = 0;
  int32_t first = 0, last = 0;
};

/// Why the planner stopped.
enum class PackingEnd : uint8_t {
  at_bound,     ///< The arena is as small as the lower bound: nothing smaller exists.
  proved,       ///< Above the lower bound, but the search has shown that nothing smaller exists.
  at_goal,      ///< As small as was asked for; something smaller may exist.
  out_of_work,  ///< `max_work` is used up; something smaller may exist.
  cancelled,    ///< `keep_going` said no; something smaller may exist.
};

struct ArenaPlan {
  std::vector<int64_t> offsets;  ///< One for each lifetime, multiples of the alignment.
  int64_t bytes = 0;             ///< Size of the arena.
  /// Largest sum of simultaneously live (aligned) bytes: no plan is smaller.
  int64_t lower_bound = 0;
  std::string_view strategy;  ///< What found it: a heuristic, or "search".
  PackingEnd end = PackingEnd::out_of_work;
  int64_t work = 0;  ///< What the search did, in the unit of PackingOptions::max_work.
};

struct PackingOptions {
  /// Offsets are multiples of it, sizes are rounded up to it. Positive.
  int64_t alignment = static_cast<int64_t>(kAlignment);
  /// An arena of so many bytes is small enough; 0: stop only at the lower bound.
  int64_t goal_bytes = 0;
  /// How much to search when the heuristics miss the goal, in visits to a buffer at a moment (a few
  /// nanoseconds each). The same number gives the same plan on every machine. 0: do not search.
  int64_t max_work = 20'000'000;
  /// Asked now and then during the search, with the best plan so far; false ends the search.
  std::function<bool(const ArenaPlan& best)> keep_going;
};

/// Tries several heuristics, then searches, and keeps the smallest arena. The result is verified.
/// Errors: invalid_argument (negative size, last before first, sizes whose sum is beyond 2^60,
/// alignment that is not positive).
Result<ArenaPlan> plan_arena(std::span<const Lifetime> lifetimes,
                             const PackingOptions& options = {});

/// No two buffers that are live together overlap, all lie within the arena, offsets are aligned.
bool is_valid(const ArenaPlan& plan, std::span<const Lifetime> lifetimes,
              int64_t alignment = static_cast<int64_t>(kAlignment));

}  // namespace hone
