// SPDX-License-Identifier: Apache-2.0
#include "core/plan/fit.hpp"

#include <algorithm>
#include <limits>

#include "core/plan/recompute.hpp"

namespace hone {

namespace {

// The steps in an order whose peak is lower, and their old numbers.
struct Ordered {
  explicit Ordered(const WorkList& work) : number(better_order(work)) {
    list.bytes = work.bytes;
    for (int32_t s : number) list.steps.push_back(work.steps[static_cast<size_t>(s)]);
  }
  Sequence numbered(const Sequence& runs) const {
    Sequence out;
    for (int32_t s : runs) out.push_back(number[static_cast<size_t>(s)]);
    return out;
  }
  Sequence number;
  WorkList list;
};

Result<Placement> pack(const WorkList& work, Sequence runs, const PackingOptions& options) {
  HONE_ENSURE(is_valid(work, runs));
  Placement out = unpacked(work, std::move(runs));
  HONE_ASSIGN(out.arena, plan_arena(out.packing.lifetimes, options));
  return out;
}

// An arena that fits need not be made smaller.
int64_t goal(int64_t room) { return room == kNoLimit ? 0 : room; }

// Live bytes within the limit are not yet an arena within it: what packing loses is taken off the
// limit and the runs are chosen again.
Result<std::optional<Placement>> fit(const Ordered& ordered, const WorkList& work, int64_t limit) {
  constexpr int kTries = 6;
  int64_t room = limit;
  for (int i = 0; i < kTries; ++i) {
    std::optional<Recomputation> runs = recompute_within(ordered.list, room);
    if (!runs) break;
    HONE_ASSIGN(Placement placed,
                pack(work, ordered.numbered(runs->sequence), {.goal_bytes = goal(limit)}));
    if (placed.arena.bytes <= limit) return std::optional<Placement>(std::move(placed));
    room -= std::max<int64_t>(placed.arena.bytes - limit, limit / 1000);
  }
  return std::optional<Placement>();
}

Result<Placement> tightest(const Ordered& ordered, const WorkList& work) {
  return pack(work, ordered.numbered(smallest(ordered.list).sequence), {});
}

}  // namespace

Placement unpacked(const WorkList& work, Sequence runs) {
  Placement placement{std::move(runs), {}, {}, {}};
  placement.timeline = follow(work, placement.runs);
  const Timeline& t = placement.timeline;
  Packing& out = placement.packing;
  for (size_t i = 0; i < t.instances.size(); ++i) {
    const Instance& life = t.instances[i];
    if (life.shares >= 0) continue;
    out.lifetimes.push_back({work.bytes[static_cast<size_t>(life.buffer)], life.first, life.last});
    out.instances.push_back(static_cast<int32_t>(i));
  }
  for (size_t k = 0; k < placement.runs.size(); ++k) {
    const int64_t scratch = work.steps[static_cast<size_t>(placement.runs[k])].scratch;
    if (scratch == 0) continue;
    const int32_t at = static_cast<int32_t>(k);
    out.lifetimes.push_back({scratch, at, at});
    out.scratch_of.push_back(at);
  }
  return placement;
}

Result<std::optional<Placement>> fit(const WorkList& work, int64_t room) {
  const Ordered ordered(work);
  HONE_ASSIGN(std::optional<Placement> placed, fit(ordered, work, room));
  if (placed || room < floor_bytes(work)) return placed;
  HONE_ASSIGN(placed, tightest(ordered, work));
  if (placed->arena.bytes > room) placed.reset();
  return placed;
}

Result<Placement> frugal(const WorkList& work, double share) {
  constexpr int64_t kWorthwhile = int64_t{1} << 20;  // bytes
  const Ordered ordered(work);
  HONE_ASSIGN(std::optional<Placement> best, fit(ordered, work, kNoLimit));
  HONE_ENSURE(best.has_value());
  const double most = best->timeline.cost * (1 + share);
  // Where the cost passes the share, by a quick look; what is taken is then made with care.
  const RecomputeOptions quick{.tries = 4, .improved = 1, .trials = 100, .effort = 0};
  int64_t high = best->arena.bytes, low = std::max(floor_bytes(work), high / 4);
  for (int i = 0; i < 5 && high - low > kWorthwhile / 4; ++i) {
    const int64_t middle = low + (high - low) / 2;
    const auto runs = recompute_within(ordered.list, middle, quick);
    (runs && runs->cost <= most ? high : low) = middle;
  }
  if (best->arena.bytes - high < kWorthwhile) return std::move(*best);
  HONE_ASSIGN(std::optional<Placement> smaller, fit(ordered, work, high));
  const bool pays = smaller && smaller->timeline.cost <= most &&
                    smaller->arena.bytes + kWorthwhile <= best->arena.bytes;
  return std::move(pays ? *smaller : *best);
}

Result<Placement> tightest(const WorkList& work) { return tightest(Ordered(work), work); }

Status search(const WorkList& work, int64_t room, const std::function<bool()>& keep_going,
              Placement& best) {
  const Ordered ordered(work);
  const PackingOptions deep{.goal_bytes = goal(room),
                            .max_work = std::numeric_limits<int64_t>::max(),
                            .keep_going = [&](const ArenaPlan&) { return keep_going(); }};
  RecomputeOptions options;
  options.keep_going = &keep_going;
  // First as usual but more of it, then from one random valuation after the other.
  constexpr uint32_t kRounds = 1 << 20;
  for (uint32_t round = 0; round < kRounds && keep_going(); ++round) {
    options.seed = round;
    if (round < 2) {
      options.improved *= 2;
      options.trials *= 4;
      options.visits *= 4;
      options.effort *= 4;
    }
    const std::optional<Recomputation> runs = recompute_within(ordered.list, room, options);
    if (!runs || runs->cost > best.timeline.cost) continue;
    HONE_ASSIGN(Placement placed, pack(work, ordered.numbered(runs->sequence), deep));
    const bool better =
        placed.timeline.cost < best.timeline.cost || placed.arena.bytes < best.arena.bytes;
    if (placed.arena.bytes <= room && better) best = std::move(placed);
    if (best.runs.size() == work.steps.size() && best.arena.end == PackingEnd::at_bound) break;
  }
  return {};
}

}  // namespace hone
