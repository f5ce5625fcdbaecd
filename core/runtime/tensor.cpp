// SPDX-License-Identifier: Apache-2.0
// Tensors: looking at them, their gradients' settings, printing.
#include "hone/tensor.hpp"

#include <cmath>

#include "core/runtime/eager_engine.hpp"

namespace hone {

Tensor::Tensor(TensorData data) {
  if (data.defined()) impl_ = detail::make_tensor(std::move(data)).impl_;
}

Tensor Tensor::error(Status status) {
  assert(!status.ok());
  auto impl = std::make_shared<detail::TensorImpl>();
  impl->var = std::make_shared<detail::Var>();
  impl->status = std::move(status);
  return Tensor(std::move(impl));
}

bool Tensor::ok() const { return impl_ && impl_->status.ok(); }

Status Tensor::status() const { return impl_ ? impl_->status : invalid("the tensor is undefined"); }

const TensorType& Tensor::type() const {
  static constexpr TensorType kNothing;
  return ok() ? impl_->var->type : kNothing;
}

int64_t Tensor::size(int axis) const {
  const int rank = dim();
  if (axis < 0) axis += rank;
  return axis >= 0 && axis < rank ? shape()[axis] : 0;
}

TensorData Tensor::data() const { return ok() ? impl_->storage->data : TensorData(); }

double Tensor::value_at(int64_t i, int64_t wanted_numel) const {
  return ok() && numel() == wanted_numel ? impl_->storage->data.at(i) : std::nan("");
}
int64_t Tensor::int_at(int64_t i, int64_t wanted_numel) const {
  return ok() && numel() == wanted_numel ? impl_->storage->data.int_at(i) : 0;
}

double Tensor::at(std::initializer_list<int64_t> index) const {
  if (!ok() || static_cast<int>(index.size()) != dim()) return std::nan("");
  int64_t flat = 0;
  int axis = 0;
  for (int64_t i : index) {
    const int64_t extent = shape()[axis++];
    if (i < 0) i += extent;
    if (i < 0 || i >= extent) return std::nan("");
    flat = flat * extent + i;
  }
  return impl_->storage->data.at(flat);
}

const std::string& Tensor::name() const {
  static const std::string kUnnamed;
  return impl_ ? impl_->var->name : kUnnamed;
}

Tensor& Tensor::set_name(std::string name) {
  if (impl_) impl_->var->name = std::move(name);
  return *this;
}

// ---- gradients

Tensor& Tensor::requires_grad_(bool on) {
  if (!ok()) return *this;
  if (!is_float(dtype()) && on)
    impl_->status = invalid("requires_grad_: {} is not floating point", type());
  else if (impl_->var->producer)
    impl_->status = invalid("requires_grad_: the tensor was made by {}; only leaves can be told",
                            label(*impl_->var->producer));
  else
    impl_->var->requires_grad = on;
  return *this;
}

bool Tensor::requires_grad() const { return ok() && impl_->var->requires_grad; }
bool Tensor::is_leaf() const { return !ok() || !impl_->var->producer; }
Tensor Tensor::grad() const { return impl_ ? impl_->var->grad : Tensor(); }

void Tensor::set_grad(Tensor grad) {
  if (impl_) impl_->var->grad = std::move(grad);
}

Tensor& Tensor::retain_grad() {
  if (impl_) impl_->var->retain_grad = true;
  return *this;
}

int64_t Tensor::register_hook(GradientHook hook) {
  if (!impl_) return 0;
  auto& hooks = impl_->var->hooks;
  const int64_t id = hooks.empty() ? 1 : hooks.back().first + 1;
  hooks.emplace_back(id, std::move(hook));
  return id;
}

void Tensor::remove_hook(int64_t id) {
  if (impl_) std::erase_if(impl_->var->hooks, [&](const auto& h) { return h.first == id; });
}

Tensor Tensor::detach() const {
  if (!ok()) return *this;
  return detail::make_tensor(impl_->storage->data);
}

// ---- printing

std::string to_string(const Tensor& t) {
  if (!t.defined()) return "undefined tensor";
  if (!t.ok())
    return format("tensor with an error: {}: {}", to_string(t.status().code()),
                  t.status().message());
  const detail::Var& var = *t.impl()->var;
  std::string out = var.name.empty() ? "" : format("'{}' ", var.name);
  out += describe(t.data());
  if (var.producer)
    out += format("\nmade by {}{}", label(*var.producer),
                  var.producer->freed ? ", whose record is freed" : "");
  else if (var.requires_grad)
    out += format("\nwants a gradient, has {}", var.grad.defined() ? "one" : "none yet");
  return out;
}

}  // namespace hone
