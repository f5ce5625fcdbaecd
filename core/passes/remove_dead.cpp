// SPDX-License-Identifier: Apache-2.0
// Dead-code elimination, and renumbering so that ids stay dense.
#include "hone/op.hpp"
#include "hone/specialise.hpp"

namespace hone {

Status remove_dead(Graph& g) {
  std::vector<bool> live(g.values.size(), false);
  const auto keep = [&](ValueId v) {
    if (v != kNone) live[static_cast<size_t>(v)] = true;
  };
  for (size_t i = 0; i < g.values.size(); ++i)
    if (g.values[i].kind == ValueKind::input || g.values[i].kind == ValueKind::state)
      live[i] = true;
  for (const GraphOutput& o : g.outputs) keep(o.value);
  for (const StateUpdate& u : g.updates) keep(u.next);
  std::vector<bool> live_node(g.nodes.size(), false);
  for (size_t n = g.nodes.size(); n-- > 0;) {
    for (ValueId v : g.nodes[n].outputs)
      if (live[static_cast<size_t>(v)]) live_node[n] = true;
    if (!live_node[n]) continue;
    for (ValueId v : g.nodes[n].inputs) keep(v);
    for (ValueId v : g.nodes[n].outputs)
      keep(v);  // a live node keeps all its outputs: kernels write them
  }
  std::vector<NodeId> node_map(g.nodes.size(), kNone);
  std::vector<Node> nodes;
  for (size_t n = 0; n < g.nodes.size(); ++n)
    if (live_node[n]) {
      node_map[n] = static_cast<NodeId>(nodes.size());
      nodes.push_back(std::move(g.nodes[n]));
    }
  std::vector<ValueId> value_map(g.values.size(), kNone);
  std::deque<ValueInfo> values;
  for (size_t i = 0; i < g.values.size(); ++i) {
    if (!live[i]) continue;
    value_map[i] = static_cast<ValueId>(values.size());
    values.push_back(std::move(g.values[i]));
    if (values.back().producer != kNone)
      values.back().producer = node_map[static_cast<size_t>(values.back().producer)];
  }
  const auto renumber = [&](ValueId& v) {
    if (v != kNone) v = value_map[static_cast<size_t>(v)];
  };
  for (Node& n : nodes) {
    for (ValueId& v : n.inputs) renumber(v);
    for (ValueId& v : n.outputs) renumber(v);
  }
  for (ValueId& v : g.inputs) renumber(v);
  for (GraphOutput& o : g.outputs) renumber(o.value);
  for (StateUpdate& u : g.updates) {
    renumber(u.state);
    renumber(u.next);
  }
  g.nodes = std::move(nodes);
  g.values = std::move(values);
  return {};
}

}  // namespace hone
