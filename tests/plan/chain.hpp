// SPDX-License-Identifier: Apache-2.0
// Chains of steps with their gradients, and an exact search for small programs.
#pragma once

#include <map>
#include <queue>
#include <vector>

#include "core/plan/timeline.hpp"

namespace hone::test {

/// x -> a1 -> ... -> an, then backward: step n+i reads a(n-i) and the gradient. A gradient takes
/// the bytes of its result and twice its time.
inline WorkList chain(const std::vector<int64_t>& bytes, const std::vector<double>& costs) {
  WorkList w;
  const int32_t n = static_cast<int32_t>(bytes.size());
  for (const int64_t b : bytes) w.bytes.push_back(b);
  for (int32_t i = 0; i < n; ++i) {
    Work f;
    if (i > 0) f.reads = {i - 1};
    f.writes = {i};
    f.cost = costs[static_cast<size_t>(i)];
    w.steps.push_back(f);
  }
  for (int32_t i = n; i-- > 0;) {
    Work b;
    b.reads = {i};
    if (i + 1 < n) b.reads.push_back(n + i + 1);
    b.writes = {n + i};
    b.cost = 2 * costs[static_cast<size_t>(i)];
    w.steps.push_back(b);
  }
  for (const int64_t b : bytes) w.bytes.push_back(b);
  return w;
}

/// The cheapest way within `limit` bytes, by Dijkstra over (next step, which buffers are there);
/// below 0: there is none. Without sharing in place.
inline double cheapest(const WorkList& w, int64_t limit) {
  using State = std::pair<size_t, uint32_t>;
  std::map<State, double> seen;
  std::priority_queue<std::pair<double, State>, std::vector<std::pair<double, State>>,
                      std::greater<>>
      queue;
  queue.push({0, {0, 0}});
  const auto bytes_of = [&](uint32_t set) {
    int64_t sum = 0;
    for (size_t b = 0; b < w.bytes.size(); ++b)
      if (set >> b & 1u) sum += w.bytes[b];
    return sum;
  };
  while (!queue.empty()) {
    const auto [cost, state] = queue.top();
    queue.pop();
    if (!seen.emplace(state, cost).second) continue;
    const auto [next, there] = state;
    if (next == w.steps.size()) return cost;
    for (size_t b = 0; b < w.bytes.size(); ++b)
      if (there >> b & 1u) queue.push({cost, {next, there & ~(1u << b)}});
    for (size_t s = 0; s <= next; ++s) {
      uint32_t with = there;
      bool ready = true;
      for (int32_t r : w.steps[s].reads) ready = ready && (there >> r & 1u);
      for (int32_t r : w.steps[s].writes) with |= 1u << r;
      if (!ready || bytes_of(with) > limit) continue;
      queue.push({cost + w.steps[s].cost, {s == next ? next + 1 : next, with}});
    }
  }
  return -1;
}

}  // namespace hone::test
