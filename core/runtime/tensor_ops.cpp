// SPDX-License-Identifier: Apache-2.0
// The methods that compute: each is one operator, or a few.
#include <cmath>

#include "core/runtime/eager_engine.hpp"
#include "hone/ops.hpp"

namespace hone {

namespace {

// A number as a scalar of the dtype of the tensor it meets.
Tensor number(const Tensor& like, double v) {
  if (!like.ok()) return like.defined() ? like : Tensor::error(like.status());
  if (!is_float(like.dtype()) && v != std::floor(v))
    return Tensor::error(invalid("{} is not a whole number, the tensor is {}", v, like.type()));
  auto wide = TensorData::scalar_of(v);
  return detail::make_tensor(wide.ok() ? cast(*wide, like.dtype()) : std::move(wide));
}

bool is_half(const Tensor& x) {
  return x.ok() && (x.dtype() == DType::f16 || x.dtype() == DType::bf16);
}

Tensor reduce(const OpDef& op, const Tensor& x, std::vector<int64_t> axes, KeepDims keep) {
  return apply(op, {x}, ReduceAttrs{std::move(axes), keep == KeepDims::yes});
}

}  // namespace

// ---- arithmetic

Tensor operator+(const Tensor& a, const Tensor& b) { return apply(op::add, {a, b}); }
Tensor operator-(const Tensor& a, const Tensor& b) { return apply(op::sub, {a, b}); }
Tensor operator*(const Tensor& a, const Tensor& b) { return apply(op::mul, {a, b}); }
Tensor operator/(const Tensor& a, const Tensor& b) { return apply(op::div, {a, b}); }
Tensor operator+(const Tensor& a, double b) { return a + number(a, b); }
Tensor operator-(const Tensor& a, double b) { return a - number(a, b); }
Tensor operator*(const Tensor& a, double b) { return a * number(a, b); }
Tensor operator/(const Tensor& a, double b) { return a / number(a, b); }
Tensor operator+(double a, const Tensor& b) { return number(b, a) + b; }
Tensor operator-(double a, const Tensor& b) { return number(b, a) - b; }
Tensor operator*(double a, const Tensor& b) { return number(b, a) * b; }
Tensor operator/(double a, const Tensor& b) { return number(b, a) / b; }
Tensor Tensor::pow(const Tensor& exponent) const { return apply(op::pow, {*this, exponent}); }
Tensor Tensor::pow(double exponent) const { return pow(number(*this, exponent)); }
Tensor Tensor::maximum(const Tensor& o) const { return apply(op::maximum, {*this, o}); }
Tensor Tensor::minimum(const Tensor& o) const { return apply(op::minimum, {*this, o}); }
Tensor Tensor::mod(const Tensor& o) const { return apply(op::mod, {*this, o}); }

// ---- elementwise

// clang-format off
#define HONE_METHOD(name) \
  Tensor Tensor::name() const { return apply(op::name, {*this}); }
HONE_METHOD(neg)
HONE_METHOD(abs)
HONE_METHOD(exp)
HONE_METHOD(log)
HONE_METHOD(sqrt)
HONE_METHOD(rsqrt)
HONE_METHOD(reciprocal)
HONE_METHOD(sin)
HONE_METHOD(cos) HONE_METHOD(tanh) HONE_METHOD(erf) HONE_METHOD(sign) HONE_METHOD(floor)
HONE_METHOD(ceil) HONE_METHOD(round) HONE_METHOD(is_nan) HONE_METHOD(relu) HONE_METHOD(sigmoid)
HONE_METHOD(silu) HONE_METHOD(hard_swish) HONE_METHOD(softplus) HONE_METHOD(logical_not)
#undef HONE_METHOD
    // clang-format on

    Tensor Tensor::square() const {
  return *this * *this;
}
Tensor Tensor::gelu(GeluForm form) const { return apply(op::gelu, {*this}, GeluAttrs{form}); }
Tensor Tensor::hard_sigmoid(double alpha, double beta) const {
  return apply(op::hard_sigmoid, {*this}, AlphaBetaAttrs{alpha, beta});
}
Tensor Tensor::leaky_relu(double slope) const {
  return apply(op::leaky_relu, {*this}, AlphaAttrs{slope});
}
Tensor Tensor::elu(double alpha) const { return apply(op::elu, {*this}, AlphaAttrs{alpha}); }
Tensor Tensor::clip(double low, double high) const {
  return apply(op::clip, {*this}, ClipAttrs{low, high});
}
Tensor Tensor::softmax(int64_t axis) const { return apply(op::softmax, {*this}, AxisAttrs{axis}); }
Tensor Tensor::log_softmax(int64_t axis) const {
  return apply(op::log_softmax, {*this}, AxisAttrs{axis});
}
Tensor Tensor::to(DType dtype) const {
  return ok() && this->dtype() == dtype ? *this : apply(op::cast, {*this}, CastAttrs{dtype});
}

// ---- comparison

Tensor Tensor::eq(const Tensor& o) const { return apply(op::equal, {*this, o}); }
Tensor Tensor::ne(const Tensor& o) const { return eq(o).logical_not(); }
Tensor Tensor::lt(const Tensor& o) const { return apply(op::less, {*this, o}); }
Tensor Tensor::le(const Tensor& o) const { return apply(op::less_equal, {*this, o}); }
Tensor Tensor::gt(const Tensor& o) const { return apply(op::greater, {*this, o}); }
Tensor Tensor::ge(const Tensor& o) const { return apply(op::greater_equal, {*this, o}); }
Tensor Tensor::eq(double v) const { return eq(number(*this, v)); }
Tensor Tensor::ne(double v) const { return ne(number(*this, v)); }
Tensor Tensor::lt(double v) const { return lt(number(*this, v)); }
Tensor Tensor::le(double v) const { return le(number(*this, v)); }
Tensor Tensor::gt(double v) const { return gt(number(*this, v)); }
Tensor Tensor::ge(double v) const { return ge(number(*this, v)); }
Tensor Tensor::logical_and(const Tensor& o) const { return apply(op::logical_and, {*this, o}); }
Tensor Tensor::logical_or(const Tensor& o) const { return apply(op::logical_or, {*this, o}); }
Tensor Tensor::logical_xor(const Tensor& o) const { return apply(op::logical_xor, {*this, o}); }

// ---- reductions

Tensor Tensor::sum(std::vector<int64_t> axes, KeepDims keep) const {
  return reduce(op::sum, *this, std::move(axes), keep);
}
Tensor Tensor::mean(std::vector<int64_t> axes, KeepDims keep) const {
  return reduce(op::mean, *this, std::move(axes), keep);
}
Tensor Tensor::max(std::vector<int64_t> axes, KeepDims keep) const {
  return reduce(op::max, *this, std::move(axes), keep);
}
Tensor Tensor::min(std::vector<int64_t> axes, KeepDims keep) const {
  return reduce(op::min, *this, std::move(axes), keep);
}
Tensor Tensor::prod(std::vector<int64_t> axes, KeepDims keep) const {
  return reduce(op::prod, *this, std::move(axes), keep);
}
Tensor Tensor::var(std::vector<int64_t> axes, KeepDims keep, double correction) const {
  // Squares of half floats soon overflow, and so do their sums and counts.
  if (is_half(*this)) return to_f32().var(std::move(axes), keep, correction).to(dtype());
  const Tensor squares = (*this - mean(axes, KeepDims::yes)).square();
  if (correction == 0) return squares.mean(std::move(axes), keep);
  const Tensor total = squares.sum(std::move(axes), keep);
  const int64_t count = total.numel() ? numel() / total.numel() : 0;
  return total / (static_cast<double>(count) - correction);
}
Tensor Tensor::std(std::vector<int64_t> axes, KeepDims keep, double correction) const {
  if (is_half(*this)) return to_f32().std(std::move(axes), keep, correction).to(dtype());
  // The root's slope is infinite where all are equal; the gradient there is 0, as PyTorch's.
  const Tensor v = var(std::move(axes), keep, correction), equal = v.eq(0.0);
  return v.masked_fill(equal, 1).sqrt().masked_fill(equal, 0);
}
Tensor Tensor::norm(std::vector<int64_t> axes, KeepDims keep) const {
  return reduce(op::l2_norm, *this, std::move(axes), keep);
}
Tensor Tensor::argmax(int64_t axis, KeepDims keep) const {
  return apply(op::argmax, {*this}, ArgAttrs{axis, keep == KeepDims::yes, false});
}
Tensor Tensor::argmin(int64_t axis, KeepDims keep) const {
  return apply(op::argmin, {*this}, ArgAttrs{axis, keep == KeepDims::yes, false});
}
Tensor Tensor::cumsum(int64_t axis) const {
  return apply(op::cumsum, {*this}, CumsumAttrs{axis, false, false});
}

}  // namespace hone
