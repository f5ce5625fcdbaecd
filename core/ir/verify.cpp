// SPDX-License-Identifier: Apache-2.0
// The checker that runs between passes.
#include <algorithm>
#include <unordered_set>

#include "hone/op.hpp"

namespace hone {

namespace {

Status verify_node(const Graph& g, NodeId id, const std::vector<bool>& ready) {
  const Node& n = g.node(id);
  if (!n.op) return internal("node {} has no operator", id);
  if (n.attrs.schema() != n.op->attrs)
    return internal("{}: attributes belong to another operator", label(n));
  std::vector<const TensorType*> types;
  std::vector<const TensorData*> constants;
  bool typed = true;
  for (ValueId v : n.inputs) {
    if (v != kNone && (v < 0 || v >= static_cast<ValueId>(g.values.size())))
      return internal("{}: input id {} does not exist", label(n), v);
    if (v != kNone && !ready[static_cast<size_t>(v)])
      return internal("{}: uses value {} before it is made", label(n), v);
    const ValueInfo* info = v == kNone ? nullptr : &g.value(v);
    if (info && (!info->typed || !info->type.shape.concrete())) typed = false;
    types.push_back(info ? &info->type : nullptr);
    constants.push_back(info && info->kind == ValueKind::constant ? &info->data : nullptr);
  }
  for (size_t i = 0; i < n.outputs.size(); ++i) {
    const ValueId v = n.outputs[i];
    if (v < 0 || v >= static_cast<ValueId>(g.values.size()))
      return internal("{}: output id {} does not exist", label(n), v);
    const ValueInfo& info = g.value(v);
    if (info.kind != ValueKind::node || info.producer != id ||
        info.output_index != static_cast<int32_t>(i))
      return internal("{}: output value {} does not point back to it", label(n), v);
  }
  if (!typed) return {};
  auto inferred = infer(*n.op, n.name, types, constants, n.attrs);
  const bool open =
      std::none_of(n.outputs.begin(), n.outputs.end(), [&](ValueId v) { return g.value(v).typed; });
  if (open && inferred.status().code() == Code::unsupported)
    return {};  // its shape depends on data
  HONE_ASSIGN(const std::vector<TensorType> outs, std::move(inferred));
  if (outs.size() < n.outputs.size())
    return internal("{}: has {} outputs, its rule gives {}", label(n), n.outputs.size(),
                    outs.size());
  for (size_t i = 0; i < n.outputs.size(); ++i) {
    const ValueInfo& info = g.value(n.outputs[i]);
    if (info.typed && info.type != outs[i])
      return internal("{}: output {} is {}, its rule gives {}", label(n), i, info.type, outs[i]);
  }
  return {};
}

}  // namespace

Status verify(const Graph& g) {
  std::vector<bool> ready(g.values.size(), false);
  std::unordered_set<std::string_view> names;
  for (size_t i = 0; i < g.values.size(); ++i) {
    const ValueInfo& v = g.values[i];
    if (v.kind == ValueKind::node) {
      if (v.producer < 0 || v.producer >= static_cast<NodeId>(g.nodes.size()))
        return internal("value {} has no producer", i);
      continue;
    }
    ready[i] = true;
    if (!v.typed && v.kind != ValueKind::input)
      return internal("value {} '{}' has no type", i, v.name);
    if (!v.name.empty() && !names.insert(v.name).second)
      return internal("the name '{}' is used twice", v.name);
    if (v.kind == ValueKind::constant || v.kind == ValueKind::state) {
      if (!v.data.defined()) return internal("value {} '{}' has no data", i, v.name);
      if (v.data.type() != v.type)
        return internal("value {} '{}' is {}, its data {}", i, v.name, v.type, v.data.type());
    }
  }
  for (size_t i = 0; i < g.nodes.size(); ++i) {
    HONE_TRY(verify_node(g, static_cast<NodeId>(i), ready));
    for (ValueId v : g.nodes[i].outputs) ready[static_cast<size_t>(v)] = true;
  }
  const auto exists = [&](ValueId v) {
    return v >= 0 && v < static_cast<ValueId>(g.values.size()) && ready[static_cast<size_t>(v)];
  };
  for (ValueId v : g.inputs)
    if (!exists(v) || g.value(v).kind != ValueKind::input)
      return internal("graph input {} is not an input value", v);
  for (const GraphOutput& o : g.outputs)
    if (!exists(o.value)) return internal("graph output '{}' is not a value", o.name);
  for (const StateUpdate& u : g.updates) {
    if (!exists(u.state) || !exists(u.next) || g.value(u.state).kind != ValueKind::state)
      return internal("a state update names a value that does not exist or is no state");
    if (g.value(u.next).typed && g.type(u.state) != g.type(u.next))
      return internal("state '{}' is {}, its update {}", g.value(u.state).name, g.type(u.state),
                      g.type(u.next));
  }
  return {};
}

}  // namespace hone
