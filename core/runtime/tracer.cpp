// SPDX-License-Identifier: Apache-2.0
// Recording of operations into a model graph.
#include "core/runtime/tracer.hpp"

namespace hone::detail {

void Tracer::bind(std::shared_ptr<Var> var, Value v) {
  values_[var.get()] = v;
  types_.resize(graph_.values.size());
  types_[static_cast<size_t>(v.id())] = var->type;
  kept_.push_back(std::move(var));
}

void Tracer::input(const Tensor& t, const Shape& shape, std::string name) {
  bind(t.impl()->var, builder_.input({t.dtype(), shape}, std::move(name)));
}

void Tracer::declare(const Tensor& t, StateRole role, std::string name) {
  const std::shared_ptr<Var>& var = t.impl()->var;
  if (!declared_at_.try_emplace(var.get(), declared_.size()).second) return;
  declared_.push_back({role, std::move(name), t, var, t.data(), t.impl()->storage->version});
}

Value Tracer::state_of(const Declared& d) {
  if (const auto known = values_.find(d.var.get()); known != values_.end()) return known->second;
  const Value v = builder_.state(d.role, d.data, d.name);
  graph_.value(v.id()).trainable = d.role == StateRole::parameter && d.var->requires_grad;
  bind(d.var, v);
  return v;
}

Value Tracer::value_of(const Tensor& t) {
  if (!t.defined()) return {};
  const std::shared_ptr<Var>& var = t.impl()->var;
  if (const auto known = values_.find(var.get()); known != values_.end()) return known->second;
  if (!declared_at_.count(var.get()) && var->requires_grad) {
    const std::string name = var->name.empty() || graph_.find(var->name) != kNone
                                 ? format("parameter_{}", declared_.size())
                                 : var->name;
    declare(t, StateRole::parameter, name);
  }
  if (const auto at = declared_at_.find(var.get()); at != declared_at_.end())
    return state_of(declared_[at->second]);
  const Value v = builder_.constant(t.data());
  bind(var, v);
  return v;
}

Status Tracer::record(const OpDef& op, const Attrs& attrs, std::span<const Tensor> inputs,
                      std::span<const Tensor> outputs, std::string_view scope, int64_t region) {
  std::vector<Value> values;
  for (const Tensor& t : inputs) values.push_back(value_of(t));
  builder_.set_scope(std::string(scope));
  if (region != 0 && region != last_region_) ++regions_, last_region_ = region;
  builder_.set_region(region != 0 ? regions_ : 0);
  const std::vector<Value> made =
      builder_.emit_all(op, values, attrs, static_cast<int>(outputs.size()));
  if (!builder_.status().ok()) return builder_.status();
  HONE_ENSURE(made.size() == outputs.size());
  for (size_t i = 0; i < made.size(); ++i) bind(outputs[i].impl()->var, made[i]);
  return {};
}

void Tracer::end_states() {
  for (size_t i = 0; i < declared_.size(); ++i) {
    const Declared& d = declared_[i];
    TensorImpl& impl = *d.tensor.impl();
    if (impl.var == d.var) continue;
    graph_.updates.push_back({state_of(d).id(), value_of(d.tensor).id()});
    impl.var = d.var;
    impl.storage->data = d.data;
    impl.storage->version = d.version;
  }
}

std::vector<TensorType> Tracer::types() && {
  types_.resize(graph_.values.size());
  return std::move(types_);
}

}  // namespace hone::detail
