// SPDX-License-Identifier: Apache-2.0
// Graphs as text.
#include "hone/op.hpp"

namespace hone {

namespace {

std::string value_name(const Graph& g, ValueId id) {
  if (id == kNone) return "-";
  const ValueInfo& v = g.value(id);
  return v.name.empty() ? format("%{}", id) : format("%{}:{}", id, v.name);
}

std::string value_type(const Graph& g, const ValueInfo& v) {
  if (!v.typed) return "?";
  return std::string(to_string(v.type.dtype)) + to_string(g, v.type.shape);
}

}  // namespace

std::string to_string(const Graph& g, const Shape& shape) {
  std::string out = "[";
  for (int i = 0; i < shape.rank(); ++i) {
    if (i) out += ", ";
    const int64_t d = shape[i];
    const size_t k = static_cast<size_t>(-(d + 1));
    out += d >= 0 ? format("{}", d) : k < g.dim_names.size() ? g.dim_names[k] : std::string("?");
  }
  return out + "]";
}

std::string label(const Node& node) {
  return node.name.empty() ? std::string(node.op->name)
                           : format("{} '{}'", node.op->name, node.name);
}

std::string print(const Graph& g) {
  constexpr std::string_view kRoles[] = {"parameter", "buffer", "optimizer", "rng"};
  std::string out = format("graph {}\n", g.name.empty() ? "(unnamed)" : g.name);
  for (ValueId id : g.inputs)
    out += format("  input {} {}\n", value_name(g, id), value_type(g, g.value(id)));
  for (size_t i = 0; i < g.values.size(); ++i) {
    const ValueInfo& v = g.values[i];
    const std::string name = value_name(g, static_cast<ValueId>(i));
    if (v.kind == ValueKind::constant) out += format("  constant {} {}\n", name, value_type(g, v));
    if (v.kind == ValueKind::state)
      out +=
          format("  {}{} {} {}\n", v.role == StateRole::parameter && !v.trainable ? "frozen " : "",
                 kRoles[static_cast<int>(v.role)], name, value_type(g, v));
  }
  for (const Node& n : g.nodes) {
    out += "  ";
    for (size_t i = 0; i < n.outputs.size(); ++i)
      out += format("{}{}", i ? ", " : "", value_name(g, n.outputs[i]));
    out += format(" = {}(", n.op->name);
    for (size_t i = 0; i < n.inputs.size(); ++i)
      out += format("{}{}", i ? ", " : "", value_name(g, n.inputs[i]));
    const std::string attrs = to_string(n.attrs, AttrText::changed);
    out += format("){}{}{}", attrs.empty() ? "" : " {", attrs, attrs.empty() ? "" : "}");
    if (!n.outputs.empty()) out += " : " + value_type(g, g.value(n.outputs[0]));
    out += n.name.empty() ? "\n" : format("  # {}\n", n.name);
  }
  for (const GraphOutput& o : g.outputs)
    out += format("  output {} = {}\n", o.name, value_name(g, o.value));
  for (const StateUpdate& u : g.updates)
    out += format("  update {} <- {}\n", value_name(g, u.state), value_name(g, u.next));
  return out;
}

}  // namespace hone
