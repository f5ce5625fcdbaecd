// SPDX-License-Identifier: Apache-2.0
// Writing to tensors in place.
#include "core/runtime/eager_engine.hpp"

namespace hone {

using detail::write_in_place;

Tensor& Tensor::add_(const Tensor& o, Place where) {
  return write_in_place(*this, *this + o, "add_", where);
}
Tensor& Tensor::sub_(const Tensor& o, Place where) {
  return write_in_place(*this, *this - o, "sub_", where);
}
Tensor& Tensor::mul_(const Tensor& o, Place where) {
  return write_in_place(*this, *this * o, "mul_", where);
}
Tensor& Tensor::div_(const Tensor& o, Place where) {
  return write_in_place(*this, *this / o, "div_", where);
}
Tensor& Tensor::add_(double v, Place where) {
  return write_in_place(*this, *this + v, "add_", where);
}
Tensor& Tensor::sub_(double v, Place where) {
  return write_in_place(*this, *this - v, "sub_", where);
}
Tensor& Tensor::mul_(double v, Place where) {
  return write_in_place(*this, *this * v, "mul_", where);
}
Tensor& Tensor::div_(double v, Place where) {
  return write_in_place(*this, *this / v, "div_", where);
}

Tensor& Tensor::clip_(double low, double high, Place where) {
  return write_in_place(*this, clip(low, high), "clip_", where);
}

Tensor& Tensor::copy_(const Tensor& o, Place where) {
  Tensor values = o.to(dtype());
  if (ok() && values.ok() && values.shape() != shape())
    values = values.expand({shape().begin(), shape().end()});
  // A write takes a tensor of its own: `o` itself would be tied to this one.
  if (values.impl() == o.impl() && values.ok()) values = apply(op::identity, {values});
  return write_in_place(*this, std::move(values), "copy_", where);
}

Tensor& Tensor::fill_(double v, Place where) {
  return write_in_place(*this, full(shape(), v, dtype()), v == 0 ? "zero_" : "fill_", where);
}

Tensor& Tensor::set_data(TensorData data, Place where) {
  if (!impl_) *this = error(status());
  if (!ok()) return *this;
  if (!data.defined()) impl_->status = invalid("set_data: there is no data");
  if (impl_->var->producer)
    impl_->status =
        invalid("set_data: the tensor was made by {}, it is no leaf", label(*impl_->var->producer));
  if (!ok()) return *this;
  detail::Storage& storage = *impl_->storage;
  if (data.type() != type()) {  // what was recorded keeps the old type
    impl_->var = std::make_shared<detail::Var>(*impl_->var);
    impl_->var->type = data.type();
  }
  impl_->var->grad = {};
  storage.data = std::move(data);
  ++storage.version;
  storage.writer = format("set_data at {}:{}", where.file, where.line);
  return *this;
}

}  // namespace hone
