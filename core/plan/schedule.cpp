// SPDX-License-Identifier: Apache-2.0
// The order in which nodes run.
#include <algorithm>
#include <queue>

#include "core/plan/program.hpp"

namespace hone {

namespace {

// A node that replaces states: its pairwise outputs become the next content of the states it reads.
bool is_update(const Graph& g, const Node& n) {
  if (n.op->inplace != Inplace::pairwise) return false;
  for (size_t k = 0; k < n.outputs.size() && k < n.inputs.size(); ++k)
    if (n.inputs[k] != kNone && g.value(n.inputs[k]).kind == ValueKind::state) return true;
  return false;
}

}  // namespace

// Topological order by a ready list. An update also waits for the earlier readers of the states it
// overwrites, and runs as soon as it can; the other nodes keep the graph's order. Waiting only ever
// points to earlier nodes, so there is no cycle.
std::vector<NodeId> schedule(const Graph& g) {
  const size_t count = g.nodes.size();
  std::vector<std::vector<NodeId>> readers(g.values.size());  // of states
  std::vector<std::vector<NodeId>> before(count), after(count);
  std::vector<bool> update(count, false);
  for (size_t n = 0; n < count; ++n) {
    const Node& node = g.nodes[n];
    const NodeId id = static_cast<NodeId>(n);
    update[n] = is_update(g, node);
    for (ValueId v : node.inputs)
      if (v != kNone && g.value(v).producer != kNone) before[n].push_back(g.value(v).producer);
    if (update[n])
      for (size_t k = 0; k < node.outputs.size() && k < node.inputs.size(); ++k)
        if (node.inputs[k] != kNone)
          for (NodeId r : readers[static_cast<size_t>(node.inputs[k])]) before[n].push_back(r);
    for (ValueId v : node.inputs)
      if (v != kNone && g.value(v).kind == ValueKind::state)
        readers[static_cast<size_t>(v)].push_back(id);
    std::sort(before[n].begin(), before[n].end());
    before[n].erase(std::unique(before[n].begin(), before[n].end()), before[n].end());
    for (NodeId p : before[n]) after[static_cast<size_t>(p)].push_back(id);
  }
  std::vector<size_t> waits(count);
  std::priority_queue<NodeId, std::vector<NodeId>, std::greater<>> ready;
  std::vector<NodeId> ready_updates;
  const auto release = [&](NodeId n) {
    if (update[static_cast<size_t>(n)])
      ready_updates.push_back(n);
    else
      ready.push(n);
  };
  for (size_t n = 0; n < count; ++n)
    if ((waits[n] = before[n].size()) == 0) release(static_cast<NodeId>(n));
  std::vector<NodeId> order;
  while (!ready.empty() || !ready_updates.empty()) {
    NodeId n = kNone;
    if (!ready_updates.empty()) {
      n = ready_updates.back();
      ready_updates.pop_back();
    } else {
      n = ready.top();
      ready.pop();
    }
    order.push_back(n);
    for (NodeId a : after[static_cast<size_t>(n)])
      if (--waits[static_cast<size_t>(a)] == 0) release(a);
  }
  return order;
}

}  // namespace hone
