// SPDX-License-Identifier: Apache-2.0
// Running of nodes as they are emitted.
#include "core/runtime/running_builder.hpp"

#include "core/runtime/eager_engine.hpp"

namespace hone {

namespace {

// Contents that shape rules may ask for: small integers. They cannot carry a gradient.
bool is_small_integer(const TensorType& type) {
  constexpr int64_t kMostBytes = 1024;
  return (type.dtype == DType::i64 || type.dtype == DType::i32) && type.bytes() <= kMostBytes;
}

}  // namespace

// Composites are kept: `apply` writes them out, one level at a time, and a trace records them as
// they were said.
RunningBuilder::RunningBuilder() : Builder(owned, Composites::keep) {
  set_scope(detail::eager().scope);
}

void RunningBuilder::keep(ValueId id, Tensor t) {
  ValueInfo& info = graph().value(id);
  if (info.kind != ValueKind::state && is_small_integer(info.type)) {
    info.kind = ValueKind::constant;
    info.data = t.data();
  }
  if (tensors_.size() <= static_cast<size_t>(id)) tensors_.resize(static_cast<size_t>(id) + 1);
  tensors_[static_cast<size_t>(id)] = std::move(t);
}

Value RunningBuilder::add(const Tensor& t) {
  if (!t.defined()) return {};
  const Value v = input(t.type(), {});
  keep(v.id(), t);
  return v;
}

Value RunningBuilder::add_state(StateRole role, const Tensor& t, std::string name) {
  const Value v = state(role, t.data(), std::move(name));
  keep(v.id(), t);
  return v;
}

Tensor RunningBuilder::tensor(Value v) {
  if (!status().ok()) return Tensor::error(status());
  if (!v.valid()) return Tensor::error(internal("a formula gave no value"));
  const size_t i = static_cast<size_t>(v.id());
  if (i >= tensors_.size() || !tensors_[i].defined())
    keep(v.id(), detail::make_tensor(graph().value(v.id()).data));
  return tensors_[i];
}

Status RunningBuilder::appended(NodeId id) {
  const Node node = graph().node(id);  // a copy: `keep` and nested emissions move the original
  std::vector<Tensor> inputs;
  for (ValueId v : node.inputs) inputs.push_back(v == kNone ? Tensor() : tensor({this, v}));
  detail::Restore<std::string> scope(detail::eager().scope, node.name);
  std::vector<Tensor> outs = apply_all(*node.op, inputs, node.attrs);
  for (const Tensor& t : outs)
    if (!t.ok()) return t.status();
  HONE_ENSURE(outs.size() == node.outputs.size());
  for (size_t i = 0; i < outs.size(); ++i) keep(node.outputs[i], std::move(outs[i]));
  return {};
}

}  // namespace hone
