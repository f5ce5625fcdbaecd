// SPDX-License-Identifier: Apache-2.0
// A better order of the same runs. A step that reads something large for the last time and writes
// something small (the mask of a clip, wanted in backward only) runs as soon as it can; one that
// reads what lives on anyway and writes something large runs as late as it can. Neither costs time.
#include <algorithm>
#include <queue>

#include "core/plan/timeline.hpp"

namespace hone {

namespace {

size_t at(int32_t i) { return static_cast<size_t>(i); }

// Who writes and reads each buffer, by position.
struct Uses {
  std::vector<int32_t> written;             // -1: by several steps
  std::vector<std::vector<int32_t>> reads;  // in order, each position once
};

Uses uses_in(const WorkList& work, const Sequence& order) {
  Uses u;
  u.written.assign(work.bytes.size(), -1);
  u.reads.resize(work.bytes.size());
  std::vector<int> writers(work.bytes.size(), 0);
  for (size_t p = 0; p < order.size(); ++p) {
    const Work& w = work.steps[at(order[p])];
    const int32_t now = static_cast<int32_t>(p);
    for (int32_t b : w.reads)
      if (u.reads[at(b)].empty() || u.reads[at(b)].back() != now) u.reads[at(b)].push_back(now);
    for (int32_t b : w.writes) u.written[at(b)] = ++writers[at(b)] == 1 ? now : -1;
  }
  for (size_t b = 0; b < writers.size(); ++b)
    if (writers[b] != 1) u.written[b] = -1;
  return u;
}

// Bytes times positions that moving the step forward to just behind `anchor` wins.
struct Move {
  int32_t anchor = 0;
  double gain = 0;
};

Move sooner(const WorkList& work, const Uses& u, const Work& w, int32_t now) {
  Move m{-1, 0};
  for (int32_t b : w.reads) {
    if (u.written[at(b)] < 0) return {now, 0};
    m.anchor = std::max(m.anchor, u.written[at(b)]);
    const std::vector<int32_t>& reads = u.reads[at(b)];
    if (reads.back() == now && reads.size() > 1)
      m.anchor = std::max(m.anchor, reads[reads.size() - 2]);
  }
  const double distance = now - m.anchor - 1;
  for (int32_t b : w.reads)
    if (u.reads[at(b)].back() == now) m.gain += static_cast<double>(work.bytes[at(b)]) * distance;
  for (int32_t b : w.writes) m.gain -= static_cast<double>(work.bytes[at(b)]) * distance;
  return m;
}

// The same for moving it back to just before its first reader.
Move later(const WorkList& work, const Uses& u, const Work& w, int32_t now, int32_t until) {
  int32_t first = until;
  for (int32_t b : w.writes)
    if (!u.reads[at(b)].empty()) first = std::min(first, u.reads[at(b)].front());
  Move m{first - 1, 0};
  const double distance = m.anchor - now;
  if (distance <= 0) return {now, 0};
  for (int32_t b : w.writes) m.gain += static_cast<double>(work.bytes[at(b)]) * distance;
  for (int32_t b : w.reads) {
    const int32_t last = u.reads[at(b)].back();
    const int32_t other = last != now                 ? last
                          : u.reads[at(b)].size() > 1 ? u.reads[at(b)][u.reads[at(b)].size() - 2]
                                                      : u.written[at(b)];
    const double longer = std::max(0, m.anchor - std::max(now, other));
    m.gain -= static_cast<double>(work.bytes[at(b)]) * longer;
  }
  return m;
}

// Which steps must come before which, whatever the order.
class Dependencies {
 public:
  explicit Dependencies(const WorkList& work)
      : after_(work.steps.size()), waits_(after_.size(), 0) {
    std::vector<std::vector<int32_t>> readers(work.bytes.size()), state_readers;
    std::vector<int32_t> writer(work.bytes.size(), -1);
    int32_t fixed = -1;
    for (size_t i = 0; i < work.steps.size(); ++i) {
      const Work& w = work.steps[i];
      const int32_t s = static_cast<int32_t>(i);
      for (int32_t b : w.reads) {
        add(writer[at(b)], s);
        readers[at(b)].push_back(s);
      }
      for (int32_t b : w.writes) {
        add(writer[at(b)], s);
        if (writer[at(b)] >= 0)
          for (int32_t r : readers[at(b)]) add(r, s);
        writer[at(b)] = s;
      }
      for (int32_t x : w.state_reads) {
        if (state_readers.size() <= at(x)) state_readers.resize(at(x) + 1);
        state_readers[at(x)].push_back(s);
      }
      for (int32_t x : w.state_writes)
        if (at(x) < state_readers.size())
          for (int32_t r : state_readers[at(x)]) add(r, s);
      if (w.repeatable) continue;
      add(fixed, s);  // what leaves the arena keeps its order
      fixed = s;
    }
  }

  // The order that `keys` ask for, as far as dependencies allow.
  Sequence sorted(const std::vector<double>& keys) const {
    using Entry = std::pair<double, int32_t>;
    std::priority_queue<Entry, std::vector<Entry>, std::greater<>> ready;
    std::vector<int> waits = waits_;
    for (size_t s = 0; s < waits.size(); ++s)
      if (waits[s] == 0) ready.emplace(keys[s], static_cast<int32_t>(s));
    Sequence out;
    while (!ready.empty()) {
      const int32_t s = ready.top().second;
      ready.pop();
      out.push_back(s);
      for (int32_t next : after_[at(s)])
        if (--waits[at(next)] == 0) ready.emplace(keys[at(next)], next);
    }
    return out;
  }

 private:
  void add(int32_t before, int32_t after) {
    if (before < 0 || before == after) return;
    after_[at(before)].push_back(after);
    ++waits_[at(after)];
  }
  std::vector<std::vector<int32_t>> after_;
  std::vector<int> waits_;
};

// Where each step would like to stand, by step; whether any would like to move.
bool wishes(const WorkList& work, const Sequence& order, std::vector<double>& keys) {
  const Uses u = uses_in(work, order);
  bool any = false;
  for (size_t p = 0; p < order.size(); ++p) {
    const Work& w = work.steps[at(order[p])];
    const int32_t now = static_cast<int32_t>(p);
    double& key = keys[at(order[p])];
    key = now;
    if (!w.repeatable || w.reads.empty()) continue;
    const Move early = sooner(work, u, w, now);
    const Move late = later(work, u, w, now, static_cast<int32_t>(order.size()));
    if (early.gain > 0 && early.gain >= late.gain)
      key = early.anchor + 0.5;
    else if (late.gain > 0)
      key = late.anchor + 0.5;
    any = any || key != now;
  }
  return any;
}

}  // namespace

Sequence better_order(const WorkList& work) {
  constexpr int kPasses = 6;
  const Dependencies dependencies(work);
  Sequence best = once_each(work), order = best;
  int64_t peak = follow(work, best).peak;
  std::vector<double> keys(order.size());
  for (int i = 0; i < kPasses && wishes(work, order, keys); ++i) {
    order = dependencies.sorted(keys);
    if (!is_valid(work, order)) break;
    const int64_t now = follow(work, order).peak;
    if (now >= peak) continue;
    peak = now;
    best = order;
  }
  return best;
}

}  // namespace hone
