// SPDX-License-Identifier: Apache-2.0
// The rules of a graph that comes from a file or goes into one.
#include <unordered_set>

#include "core/model/graph_io.hpp"
#include "hone/op.hpp"

namespace hone {

namespace {

Status check_dims(const Graph& g, const Shape& shape, std::string_view who) {
  for (int64_t d : shape)
    if (d < 0 && d < -static_cast<int64_t>(g.dim_names.size()))
      return invalid("{}: extent {} names a dimension of {} that the graph has", who, d,
                     g.dim_names.size());
  return {};
}

Status check_dim_names(const Graph& g) {
  std::unordered_set<std::string_view> names;
  for (const std::string& name : g.dim_names) {
    if (name.empty()) return invalid("a dimension has no name");
    if (!names.insert(name).second) return invalid("the dimension '{}' is named twice", name);
  }
  return {};
}

Status check_values(const Graph& g, bool is_body) {
  std::vector<bool> is_listed(g.values.size());
  for (ValueId v : g.inputs) {
    const size_t i = static_cast<size_t>(v);
    if (is_listed[i]) return invalid("the input '{}' is listed twice", g.value(v).name);
    is_listed[i] = true;
  }
  for (size_t i = 0; i < g.values.size(); ++i) {
    const ValueInfo& v = g.values[i];
    const std::string who = format("value {} '{}'", i, v.name);
    if (v.typed) HONE_TRY(check_dims(g, v.type.shape, who));
    if (v.kind == ValueKind::input && !v.typed && !is_body)
      return invalid("{}: is an input without a type", who);
    if (v.kind == ValueKind::state && is_body)
      return invalid("{}: is a state, which a body cannot have", who);
    if (v.kind == ValueKind::input && !is_listed[i])
      return invalid("{}: is an input that the graph does not list", who);
    if ((v.kind == ValueKind::input || v.kind == ValueKind::state) && v.name.empty())
      return invalid("{}: an input or state needs a name", who);
    if (v.data.defined() && !v.type.shape.concrete())
      return invalid("{}: has data but no definite shape", who);
  }
  return {};
}

// The IR's verifier checks arity by inference, which waits until types are known.
Status check_node(const Node& n) {
  const int count = static_cast<int>(n.inputs.size());
  if (count < n.op->min_inputs || count > n.op->max_inputs)
    return invalid("{}: takes {} to {} inputs, has {}", label(n), n.op->min_inputs,
                   n.op->max_inputs, count);
  for (int i = 0; i < n.op->min_inputs; ++i)
    if (n.inputs[static_cast<size_t>(i)] == kNone)
      return invalid("{}: input {} is missing", label(n), i);
  if (n.outputs.empty()) return invalid("{}: has no outputs", label(n));
  return {};
}

Status check_outputs(const Graph& g) {
  std::unordered_set<std::string_view> names;
  if (g.outputs.empty()) return invalid("the graph has no outputs");
  for (const GraphOutput& o : g.outputs) {
    if (o.name.empty()) return invalid("an output has no name");
    if (!names.insert(o.name).second) return invalid("two outputs have the name '{}'", o.name);
    if (o.has_declared) HONE_TRY(check_dims(g, o.declared, format("output '{}'", o.name)));
  }
  return {};
}

Status check_updates(const Graph& g) {
  std::unordered_set<ValueId> states;
  for (const StateUpdate& u : g.updates)
    if (!states.insert(u.state).second)
      return invalid("the state '{}' is updated twice", g.value(u.state).name);
  return {};
}

Status check_any(const Graph& g, bool is_body);

// Checks the bodies of a node.
class CheckBodies final : public SomeFields {
 public:
  Status status;
  using SomeFields::field;
  void field(std::string_view name, GraphPtr& v) override {
    if (!status.ok()) return;
    status = v ? check_any(*v, true).with_context(name) : invalid("the body '{}' is missing", name);
  }
};

Status check_any(const Graph& g, bool is_body) {
  const Status s = verify(g);
  if (!s.ok()) return s.code() == Code::internal ? Status(Code::invalid_argument, s.message()) : s;
  HONE_TRY(check_dim_names(g));
  HONE_TRY(check_values(g, is_body));
  for (const Node& n : g.nodes) {
    HONE_TRY(check_node(n));
    CheckBodies bodies;
    n.attrs.visit(bodies);
    HONE_TRY(bodies.status.with_context(label(n)));
  }
  HONE_TRY(check_outputs(g));
  return check_updates(g);
}

}  // namespace

Status check_graph(const Graph& g) { return check_any(g, false); }

}  // namespace hone
