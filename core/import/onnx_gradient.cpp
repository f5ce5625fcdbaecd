// SPDX-License-Identifier: Apache-2.0
// Derivatives within an imported graph: ai.onnx.preview.training's Gradient.
#include "core/import/onnx_importer.hpp"
#include "hone/autodiff.hpp"
#include "hone/op_attrs.hpp"
#include "hone/op_table.hpp"

namespace hone::onnx {

namespace {

// Appends d(sum of y)/d(x) for each x. Errors: unsupported (shapes that are not known yet,
// operators without a gradient), invalid_argument (no floating point).
Result<std::vector<Value>> gradients_within(Builder& b, Value y, std::span<const Value> xs) {
  for (const ValueInfo& v : b.graph().values)
    if (!v.typed || !v.type.shape.concrete())
      return unsupported("where shapes are not known before the model runs");
  const TensorType type = b.graph().type(y.id());
  const auto dims = type.shape.dims();
  Value ones;
  if (type.shape.rank() > 0)
    ones = b.emit(op::fill, {}, FillAttrs{{dims.begin(), dims.end()}, type.dtype, 1});
  return differentiate(b, y, xs, ones);
}

}  // namespace

// dy/dx for each x that the attribute xs names, of what the graph has computed so far. The inputs
// are the values of xs and zs; others than those would be another graph.
Status Importer::import_gradient(const NodeProto& n, const std::string& name, const Body& body) {
  std::vector<std::string_view> names;
  std::string_view y;
  size_t count = 0;
  for (const AttributeProto& a : n.attributes) {
    if (a.name == "y") y = a.s;
    if (a.name == "xs") count = a.strings.size();
    if (a.name == "xs" || a.name == "zs")
      names.insert(a.name == "xs" ? names.begin() : names.end(), a.strings.begin(),
                   a.strings.end());
  }
  const auto target = body.scope.find(y);
  if (count == 0 || names.size() != n.inputs.size() || target == body.scope.end())
    return invalid_model("node '{}' (Gradient): has {} inputs for {} names, and y '{}'", name,
                         n.inputs.size(), names.size(), y);
  std::vector<Value> inputs;
  HONE_ASSIGN(const bool complete, resolve_inputs(n, name, body, inputs));
  if (!complete || !target->second.valid()) return {};
  for (size_t i = 0; i < inputs.size(); ++i) {
    const auto named = body.scope.find(names[i]);
    if (named != body.scope.end() && named->second.valid() && inputs[i].valid() &&
        named->second.id() == inputs[i].id())
      continue;
    missing("Gradient-1 at values that the graph has not computed with", name);
    return {};
  }
  b_.set_scope(name);
  const auto grads = gradients_within(b_, target->second, std::span(inputs).first(count));
  if (grads.status().code() == Code::unsupported) {
    missing(format("Gradient-1 {}", grads.status().message()), name);
    return {};
  }
  if (!grads.ok()) return invalid_model("node '{}': {}", name, grads.status().message());
  for (size_t k = 0; k < n.outputs.size() && k < count; ++k) {
    if (n.outputs[k].empty()) continue;
    body.scope[n.outputs[k]] = (*grads)[k];
    give_name((*grads)[k], format("{}{}", body.prefix, n.outputs[k]));
  }
  return builder_status();
}

}  // namespace hone::onnx
