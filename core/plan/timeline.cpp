// SPDX-License-Identifier: Apache-2.0
#include "core/plan/timeline.hpp"

#include <algorithm>
#include <numeric>

namespace hone {

namespace {

// The bytes of a read that dies here go to a write that may have them.
void share_in_place(const WorkList& work, std::span<const int32_t> sequence, Timeline& t) {
  const auto owner = [&](int32_t i) {
    while (t.instances[static_cast<size_t>(i)].shares >= 0)
      i = t.instances[static_cast<size_t>(i)].shares;
    return i;
  };
  for (size_t p = 0; p < sequence.size(); ++p) {
    const Work& w = work.steps[static_cast<size_t>(sequence[p])];
    for (const MayShare m : w.may_share) {
      const int32_t to = t.writes(p, w)[m.write];
      const int32_t from = owner(t.reads(p)[m.read]);
      Instance& a = t.instances[static_cast<size_t>(to)];
      Instance& b = t.instances[static_cast<size_t>(from)];
      const int32_t now = static_cast<int32_t>(p);
      if (to == from || a.shares >= 0 || a.first != now || b.last != now ||
          work.bytes[static_cast<size_t>(b.buffer)] < work.bytes[static_cast<size_t>(a.buffer)])
        continue;
      a.shares = from;
      b.last = a.last;
    }
  }
}

}  // namespace

Timeline follow(const WorkList& work, std::span<const int32_t> sequence) {
  Timeline t;
  follow(work, sequence, t);
  return t;
}

void follow(const WorkList& work, std::span<const int32_t> sequence, Timeline& t) {
  t.instances.clear();
  t.operands.clear();
  t.first_operand.clear();
  t.current.assign(work.bytes.size(), -1);
  t.done.assign(work.steps.size(), 0);
  t.cost = 0;
  for (size_t p = 0; p < sequence.size(); ++p) {
    const size_t s = static_cast<size_t>(sequence[p]);
    const Work& w = work.steps[s];
    const int32_t now = static_cast<int32_t>(p);
    t.cost += w.cost;
    t.first_operand.push_back(t.operands.size());
    for (int32_t b : w.reads) {
      const int32_t i = t.current[static_cast<size_t>(b)];
      t.operands.push_back(i);
      if (i >= 0) t.instances[static_cast<size_t>(i)].last = now;
    }
    for (int32_t b : w.writes) {
      int32_t& i = t.current[static_cast<size_t>(b)];
      // A buffer that several steps fill is one life, as is one that a step changes in place.
      if (i < 0 || (t.done[s] && w.repeatable)) {
        i = static_cast<int32_t>(t.instances.size());
        t.instances.push_back({b, now, now, -1});
      }
      t.instances[static_cast<size_t>(i)].last = now;
      t.operands.push_back(i);
    }
    t.done[s] = 1;
  }
  share_in_place(work, sequence, t);
  t.change.assign(sequence.size() + 1, 0);
  for (const Instance& i : t.instances) {
    if (i.shares >= 0) continue;
    t.change[static_cast<size_t>(i.first)] += work.bytes[static_cast<size_t>(i.buffer)];
    t.change[static_cast<size_t>(i.last) + 1] -= work.bytes[static_cast<size_t>(i.buffer)];
  }
  int64_t live = 0;
  t.peak = 0;
  for (size_t p = 0; p < sequence.size(); ++p) {
    live += t.change[p];
    t.peak = std::max(t.peak, live + work.steps[static_cast<size_t>(sequence[p])].scratch);
  }
}

Sequence once_each(const WorkList& work) {
  Sequence all(work.steps.size());
  std::iota(all.begin(), all.end(), 0);
  return all;
}

bool is_valid(const WorkList& work, std::span<const int32_t> sequence) {
  std::vector<bool> written(work.bytes.size(), false), done(work.steps.size(), false);
  int32_t states = 0;
  for (const Work& w : work.steps) {
    for (int32_t x : w.state_reads) states = std::max(states, x + 1);
    for (int32_t x : w.state_writes) states = std::max(states, x + 1);
  }
  std::vector<bool> overwritten(static_cast<size_t>(states), false);
  for (int32_t s : sequence) {
    if (s < 0 || static_cast<size_t>(s) >= work.steps.size()) return false;
    const Work& w = work.steps[static_cast<size_t>(s)];
    if (done[static_cast<size_t>(s)] && !w.repeatable) return false;
    for (int32_t b : w.reads)
      if (!written[static_cast<size_t>(b)]) return false;
    for (int32_t b : w.state_reads)
      if (overwritten[static_cast<size_t>(b)]) return false;
    for (int32_t b : w.writes) written[static_cast<size_t>(b)] = true;
    for (int32_t x : w.state_writes) overwritten[static_cast<size_t>(x)] = true;
    done[static_cast<size_t>(s)] = true;
  }
  return std::all_of(done.begin(), done.end(), [](bool d) { return d; });
}

}  // namespace hone
