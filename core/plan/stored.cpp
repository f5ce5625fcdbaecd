// SPDX-License-Identifier: Apache-2.0
#include "core/plan/stored.hpp"

#include <algorithm>

#include "core/base/checksum.hpp"
#include "core/plan/recompute.hpp"

namespace hone {

namespace {

class Hash {
 public:
  template <class T>
  void add(const T& v) {
    hash_.update(std::as_bytes(std::span<const T, 1>(&v, 1)));
  }
  template <class T>
  void add(const std::vector<T>& v) {
    add(v.size());
    hash_.update(std::as_bytes(std::span<const T>(v)));
  }
  uint64_t finish() const { return hash_.finish(); }

 private:
  Xxh64 hash_;
};

// What the planner keeps to by itself: outputs are there before the states change that change after
// them, so that a step can be given up when its loss is not finite.
bool keeps_outputs_first(const WorkList& work, const Sequence& runs) {
  int32_t last_output = -1;
  for (size_t s = 0; s < work.steps.size(); ++s)
    if (work.steps[s].gives_output) last_output = static_cast<int32_t>(s);
  bool given = last_output < 0;
  for (int32_t s : runs) {
    given |= s == last_output;
    if (!given && s > last_output && !work.steps[static_cast<size_t>(s)].state_writes.empty())
      return false;
  }
  return true;
}

}  // namespace

uint64_t problem_of(const WorkList& work) {
  Hash h;
  h.add(work.bytes);
  h.add(work.steps.size());
  for (const Work& w : work.steps) {
    h.add(w.reads);
    h.add(w.writes);
    h.add(w.state_reads);
    h.add(w.state_writes);
    h.add(w.may_share.size());
    for (const MayShare m : w.may_share) {
      h.add(m.write);
      h.add(m.read);
    }
    h.add(w.scratch);
    h.add(w.cost);
    h.add(w.gives_output);
    h.add(w.repeatable);
  }
  return h.finish();
}

std::optional<Placement> stored_placement(const WorkList& work, uint64_t problem, int64_t room,
                                          std::span<const StoredPlan> stored) {
  const StoredPlan* best = nullptr;
  for (const StoredPlan& p : stored) {
    const bool fits = p.problem == problem && p.bytes <= room &&
                      (room <= p.room || p.runs.size() == work.steps.size());
    if (fits && (!best || p.room < best->room)) best = &p;
  }
  if (!best || !is_valid(work, best->runs) || !keeps_outputs_first(work, best->runs))
    return std::nullopt;
  const auto outside = [&](int64_t offset) { return offset < 0 || offset > best->bytes; };
  if (std::any_of(best->offsets.begin(), best->offsets.end(), outside)) return std::nullopt;
  Placement out = unpacked(work, best->runs);
  double once = 0;
  for (const Work& w : work.steps) once += w.cost;
  // So that a forged plan takes neither time nor memory without end.
  if (out.timeline.cost > RecomputeOptions().excess * once || best->bytes < 0 ||
      best->bytes > 2 * out.timeline.peak)
    return std::nullopt;
  out.arena.offsets = best->offsets;
  out.arena.bytes = best->bytes;
  out.arena.lower_bound = out.timeline.peak;
  out.arena.strategy = "stored";
  out.arena.end = best->bytes == out.timeline.peak ? PackingEnd::at_bound : PackingEnd::at_goal;
  if (!is_valid(out.arena, out.packing.lifetimes)) return std::nullopt;
  return out;
}

}  // namespace hone
