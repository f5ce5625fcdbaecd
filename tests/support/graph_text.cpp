// SPDX-License-Identifier: Apache-2.0
#include "tests/support/graph_text.hpp"

#include "core/base/checksum.hpp"
#include "hone/op.hpp"

namespace hone::test {

namespace {

std::string content(const TensorData& t) { return format("{} {}", t.type(), xxh64(t.as_bytes())); }

std::string reference(const Graph& g, ValueId id) {
  if (id == kNone) return "-";
  const ValueInfo& v = g.value(id);
  switch (v.kind) {
    case ValueKind::node:
      return format("%{}.{}", v.producer, v.output_index);
    case ValueKind::constant:
      return format("<{}>", content(v.data));
    default:
      return format("'{}'", v.name);
  }
}

}  // namespace

std::string graph_text(const Graph& g) {
  constexpr std::string_view kRoles[] = {"parameter", "buffer", "optimizer", "rng"};
  std::string out = format("graph {}\n", g.name);
  for (ValueId id : g.inputs)
    out += format("input {} {}{}\n", reference(g, id), g.value(id).type.dtype,
                  to_string(g, g.value(id).type.shape));
  for (const ValueInfo& v : g.values)
    if (v.kind == ValueKind::state)
      out += format("{}{} '{}' {}\n", v.trainable ? "" : "frozen ",
                    kRoles[static_cast<size_t>(v.role)], v.name, content(v.data));
  for (size_t i = 0; i < g.nodes.size(); ++i) {
    const Node& n = g.nodes[i];
    out += format("%{} {} [{}]", i, n.op->name, to_string(n.attrs, AttrText::all));
    for (ValueId id : n.inputs) out += " " + reference(g, id);
    for (ValueId id : n.outputs)
      out += g.value(id).typed ? format(" -> {}", g.type(id)) : std::string(" -> ?");
    out += "\n";
  }
  for (const GraphOutput& o : g.outputs)
    out += format("output '{}' {} {}\n", o.name, reference(g, o.value),
                  o.has_declared ? to_string(g, o.declared) : "");
  for (const StateUpdate& u : g.updates)
    out += format("update {} {}\n", reference(g, u.state), reference(g, u.next));
  return out;
}

std::string operators(const Graph& g) {
  std::string all;
  for (const Node& n : g.nodes) all += format("{}{}", all.empty() ? "" : " ", n.op->name);
  return all;
}

}  // namespace hone::test
