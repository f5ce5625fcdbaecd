// SPDX-License-Identifier: Apache-2.0
// Recording of operations into a model graph.
#include "core/runtime/tracer.hpp"

namespace hone::detail {

void Tracer::bind(const Tensor& t, Value v) {
  const std::shared_ptr<Var>& var = t.impl()->var;
  values_[var.get()] = v;
  kept_.push_back(var);
}

void Tracer::input(const Tensor& t, const Shape& shape, std::string name) {
  bind(t, builder_.input({t.dtype(), shape}, std::move(name)));
}

void Tracer::declare(const Tensor& t, StateRole role, std::string name) {
  declared_[t.impl()->var.get()] = {role, std::move(name)};
  kept_.push_back(t.impl()->var);
}

Value Tracer::value_of(const Tensor& t) {
  if (!t.defined()) return {};
  if (const auto known = values_.find(t.impl()->var.get()); known != values_.end())
    return known->second;
  Value v;
  if (const auto state = declared_.find(t.impl()->var.get()); state != declared_.end()) {
    v = builder_.state(state->second.role, t.data(), state->second.name);
    graph_.value(v.id()).trainable = t.requires_grad();
  } else {
    v = builder_.constant(t.data());
  }
  bind(t, v);
  return v;
}

Status Tracer::record(const OpDef& op, const Attrs& attrs, std::span<const Tensor> inputs,
                      std::span<const Tensor> outputs, std::string_view scope) {
  std::vector<Value> values;
  for (const Tensor& t : inputs) values.push_back(value_of(t));
  builder_.set_scope(std::string(scope));
  const std::vector<Value> made =
      builder_.emit_all(op, values, attrs, static_cast<int>(outputs.size()));
  if (!builder_.status().ok()) return builder_.status();
  HONE_ENSURE(made.size() == outputs.size());
  for (size_t i = 0; i < made.size(); ++i) bind(outputs[i], made[i]);
  return {};
}

void Tracer::output(const Tensor& t, std::string name) {
  builder_.output(value_of(t), std::move(name));
}

}  // namespace hone::detail
