// SPDX-License-Identifier: Apache-2.0
// The body of If, Loop or Scan becomes a graph of its own. What it uses from outside becomes an
// input of it, small constants are copied into it, and its weights become the model's.
#include "core/import/onnx_importer.hpp"
#include "hone/specialise.hpp"

namespace hone::onnx {

// Puts a value from outside into `scope` of this body: a constant as such, anything else as an
// input. Whether there is one of that name.
bool Importer::capture(std::string_view name, Scope& scope) {
  if (!outer_) return false;
  auto found = outer_scope_->find(name);
  if (found == outer_scope_->end()) {
    if (!outer_->capture(name, *outer_scope_)) return false;
    found = outer_scope_->find(name);
  }
  const Value from = found->second;
  Value& to = scope[name];
  if (!from.valid()) return true;
  const TensorData* data = outer_->b_.constant_data(from);
  if (data && data->bytes() <= kFoldLimitBytes) {
    to = b_.constant(*data);
  } else {
    to = take(from, std::string(name));
  }
  state_.set_narrow(to, outer_->state_.narrow_of(from));
  return true;
}

// The input of this body for a value from outside; one, however many names the value has.
Value Importer::take(Value from, std::string name) {
  for (size_t i = 0; i < captured_.size(); ++i)
    if (captured_[i].id() == from.id())
      return {&b_, graph_.inputs[graph_.inputs.size() - captured_.size() + i]};
  captured_.push_back(from);
  return add_input(std::move(name), outer_->state_.known(from));
}

Value Importer::add_input(std::string name, Known what) {
  while (!names_.insert(name).second) name += "_";
  const Value v = b_.untyped_input(std::move(name));
  state_.set_known(v, what);
  return v;
}

// Weights of a body are the model's: they live in the outermost graph.
Status Importer::add_body_weights(const GraphProto& g, Scope& scope, const std::string& prefix) {
  if (g.sparse_initializers) missing("a sparse initializer in a body", prefix);
  ModelProto alone = model_;
  alone.graph = g;
  const auto kinds = classify_weights(alone, tensors_, options_);
  for (const TensorProto& t : g.initializers) {
    if (scope.contains(t.name)) return invalid_model("the initializer '{}' occurs twice", t.name);
    auto data = tensors_.read(t, NarrowElements::widen);
    if (data.status().code() == Code::unsupported) {
      missing(data.status().message(), prefix);
      scope[t.name];
      continue;
    }
    if (!data.ok()) return data.status();
    if (kinds.at(t.name) == Weight::constant) {
      scope[t.name] = b_.constant(std::move(*data));
      state_.set_narrow(scope[t.name], narrow_of(t.data_type));
      continue;
    }
    scope[t.name] =
        lift(std::move(*data), prefix + std::string(t.name), std::string(t.name), kinds.at(t.name));
  }
  return {};
}

// A weight of the outermost graph, as a value of this one.
Value Importer::lift(TensorData data, std::string long_name, std::string name, Weight kind) {
  if (!outer_) {
    if (!names_.insert(name).second) {
      name = std::move(long_name);
      while (!names_.insert(name).second) name += "_";
    }
    return add_weight(std::move(data), std::move(name), kind);
  }
  const Value outside = outer_->lift(std::move(data), std::move(long_name), name, kind);
  return take(outside, std::move(name));
}

// Imports a body whose own inputs are of these kinds; what it captures follows them.
Status Importer::import_body(GraphProto g, std::span<const Known> own, const Body& from,
                             const std::string& prefix) {
  hoist_constants(g);
  if (from.depth >= kMaxCallDepth)
    return invalid_model("node '{}': bodies nest deeper than {}", prefix, kMaxCallDepth);
  graph_.name = g.name;
  if (g.inputs.size() != own.size())
    return invalid_model("node '{}': its body '{}' has {} inputs, expected {}", prefix, g.name,
                         g.inputs.size(), own.size());
  Scope scope;
  Names read;
  for (size_t i = 0; i < own.size(); ++i) {
    const ValueInfoProto& v = g.inputs[i];
    Known what = own[i];
    if (v.has_shape) what.rank = static_cast<int>(v.dims.size());
    if (!scope.emplace(v.name, add_input(std::string(v.name), what)).second)
      return invalid_model("node '{}': its body has the input '{}' twice", prefix, v.name);
  }
  HONE_TRY(add_body_weights(g, scope, prefix));
  collect_read(g.nodes, read);
  for (const ValueInfoProto& o : g.outputs) read.insert(o.name);
  HONE_TRY(import_nodes(g.nodes, {scope, read, from.opsets, prefix, from.depth + 1}));
  for (size_t i = 0; i < g.outputs.size(); ++i) {
    const std::string_view name = g.outputs[i].name;
    if (!scope.contains(name) && !capture(name, scope))
      return invalid_model("node '{}': nothing makes the output '{}' of its body", prefix, name);
    const Value v = scope[name];
    if (v.valid() && state_.narrow_of(v) != NarrowType::none)
      missing(format("an output of a body of {}", name_of(state_.narrow_of(v))), prefix);
    results_.push_back(v.valid() ? state_.known(v) : Known());
    if (v.valid()) b_.output(v, format("out_{}", i));
  }
  HONE_TRY(builder_status());
  HONE_TRY(remove_dead(graph_));
  outer_->imported_ = imported_;
  for (Missing& m : state_.missing) outer_->state_.missing.push_back(std::move(m));
  return {};
}

// The body, taking all of `captured` (values of the outer graph) after its own inputs.
GraphPtr Importer::finish_body(size_t own, std::span<const Value> captured) {
  std::vector<ValueId> inputs(graph_.inputs.begin(),
                              graph_.inputs.begin() + static_cast<std::ptrdiff_t>(own));
  for (const Value& v : captured) {
    size_t i = 0;
    while (i < captured_.size() && captured_[i].id() != v.id()) ++i;
    if (i < captured_.size()) {
      inputs.push_back(graph_.inputs[own + i]);
    } else {
      inputs.push_back(add_input("unused", {}).id());
    }
  }
  graph_.inputs = std::move(inputs);
  return std::make_shared<const Graph>(std::move(graph_));
}

}  // namespace hone::onnx
