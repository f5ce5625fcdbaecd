// SPDX-License-Identifier: Apache-2.0
// Functions that emit operators.
#include "hone/ops.hpp"

#include <algorithm>

namespace hone {

namespace {
// One operand is a number: it becomes a scalar constant of the other's dtype.
Value number(Value like, double v) {
  return like.valid() ? like.builder().scalar(v, like.dtype()) : Value();
}
Value emit(const OpDef& op, Value a, Attrs attrs = {}) {
  return a.valid() ? a.builder().emit(op, {a}, std::move(attrs)) : Value();
}
Value emit(const OpDef& op, Value a, Value b, Attrs attrs = {}) {
  return a.valid() && b.valid() ? a.builder().emit(op, {a, b}, std::move(attrs)) : Value();
}
}  // namespace

Value operator+(Value a, Value b) { return ops::add(a, b); }
Value operator-(Value a, Value b) { return ops::sub(a, b); }
Value operator*(Value a, Value b) { return ops::mul(a, b); }
Value operator/(Value a, Value b) { return ops::div(a, b); }
Value operator-(Value a) { return ops::neg(a); }
Value operator+(Value a, double b) { return a + number(a, b); }
Value operator-(Value a, double b) { return a - number(a, b); }
Value operator*(Value a, double b) { return a * number(a, b); }
Value operator/(Value a, double b) { return a / number(a, b); }
Value operator+(double a, Value b) { return number(b, a) + b; }
Value operator-(double a, Value b) { return number(b, a) - b; }
Value operator*(double a, Value b) { return number(b, a) * b; }
Value operator/(double a, Value b) { return number(b, a) / b; }

namespace ops {

// clang-format off
#define HONE_UNARY(name) \
  Value name(Value x) { return emit(op::name, x); }
HONE_UNARY(neg)
HONE_UNARY(abs)
HONE_UNARY(exp)
HONE_UNARY(log)
HONE_UNARY(sqrt)
HONE_UNARY(rsqrt)
HONE_UNARY(reciprocal)
HONE_UNARY(sin) HONE_UNARY(cos) HONE_UNARY(tanh) HONE_UNARY(erf) HONE_UNARY(sign) HONE_UNARY(floor)
HONE_UNARY(ceil) HONE_UNARY(round) HONE_UNARY(logical_not) HONE_UNARY(is_nan)
HONE_UNARY(identity) HONE_UNARY(stop_gradient) HONE_UNARY(relu) HONE_UNARY(sigmoid)
HONE_UNARY(silu) HONE_UNARY(hard_swish) HONE_UNARY(softplus)
#undef HONE_UNARY
// clang-format on

// clang-format off
#define HONE_BINARY(name) \
  Value name(Value a, Value b) { return emit(op::name, a, b); }
HONE_BINARY(add) HONE_BINARY(sub) HONE_BINARY(mul) HONE_BINARY(div) HONE_BINARY(pow)
HONE_BINARY(maximum) HONE_BINARY(minimum) HONE_BINARY(mod) HONE_BINARY(equal)
HONE_BINARY(less) HONE_BINARY(less_equal) HONE_BINARY(greater)
HONE_BINARY(greater_equal) HONE_BINARY(logical_and)
HONE_BINARY(logical_or) HONE_BINARY(logical_xor)
#undef HONE_BINARY
    // clang-format on

    Value where(Value condition, Value a, Value b) {
  return condition.valid() && a.valid() && b.valid()
             ? a.builder().emit(op::where, {condition, a, b})
             : Value();
}
Value square(Value x) { return x * x; }
Value cast(Value x, DType to) {
  return !x.valid() || x.dtype() == to ? x : emit(op::cast, x, CastAttrs{to});
}
Value clip(Value x, double low, double high) { return emit(op::clip, x, ClipAttrs{low, high}); }

Value sum(Value x, ReduceAttrs attrs) { return emit(op::sum, x, std::move(attrs)); }
Value mean(Value x, ReduceAttrs attrs) { return emit(op::mean, x, std::move(attrs)); }
Value max(Value x, ReduceAttrs attrs) { return emit(op::max, x, std::move(attrs)); }
Value min(Value x, ReduceAttrs attrs) { return emit(op::min, x, std::move(attrs)); }

Value sum_to(Value x, const Shape& shape) {
  if (!x.valid() || x.shape() == shape) return x;
  const int lead = x.shape().rank() - shape.rank();
  ReduceAttrs attrs;
  for (int i = 0; i < x.shape().rank(); ++i)
    if (i < lead || (shape[i - lead] == 1 && x.shape()[i] != 1)) attrs.axes.push_back(i);
  return reshape(attrs.axes.empty() ? x : sum(x, attrs), shape);
}

Value reshape(Value x, const Shape& shape) {
  if (!x.valid() || x.shape() == shape) return x;
  return emit(op::reshape, x, ShapeAttrs{{shape.begin(), shape.end()}, true});
}
Value expand(Value x, const Shape& shape) {
  if (!x.valid() || x.shape() == shape) return x;
  return emit(op::expand, x, ShapeAttrs{{shape.begin(), shape.end()}, true});
}
Value transpose(Value x, std::span<const int64_t> perm) {
  return emit(op::transpose, x, PermAttrs{{perm.begin(), perm.end()}});
}
Value swap_last_two(Value x) {
  if (!x.valid()) return x;
  std::vector<int64_t> perm;
  const int rank = x.shape().rank();
  for (int i = 0; i < rank; ++i)
    perm.push_back(i < rank - 2 ? i : i == rank - 2 ? rank - 1 : rank - 2);
  return transpose(x, perm);
}
Value concat(std::span<const Value> parts, int64_t axis) {
  const bool valid = std::all_of(parts.begin(), parts.end(), [](Value v) { return v.valid(); });
  return valid && !parts.empty() ? parts[0].builder().emit(op::concat, parts, AxisAttrs{axis})
                                 : Value();
}
Value slice(Value x, int64_t axis, int64_t start, int64_t end) {
  return emit(op::slice, x, SliceAttrs{{start}, {end}, {axis}, {}});
}

Value fill(Builder& b, const TensorType& type, double value) {
  return b.emit(op::fill, {}, FillAttrs{{type.shape.begin(), type.shape.end()}, type.dtype, value});
}
Value zeros_like(Value x) { return x.valid() ? fill(x.builder(), x.type(), 0) : x; }
Value ones_like(Value x) { return x.valid() ? fill(x.builder(), x.type(), 1) : x; }

Value gather(Value x, Value indices, int64_t axis) {
  return emit(op::gather, x, indices, AxisAttrs{axis});
}
Value index_sum(Value updates, Value indices, int64_t axis, int64_t size) {
  return emit(op::index_sum, updates, indices, IndexSumAttrs{axis, size});
}

Value matmul(Value a, Value b, MatmulAttrs attrs) {
  if (!a.valid() || !b.valid()) return {};
  // A vector is a row on the left and a column on the right; its extra axis goes again.
  const bool row = a.shape().rank() == 1, column = b.shape().rank() == 1;
  if (row) a = emit(op::unsqueeze, a, AxesAttrs{{attrs.trans_a ? 1 : 0}});
  if (column) b = emit(op::unsqueeze, b, AxesAttrs{{attrs.trans_b ? 0 : 1}});
  const Value y = emit(op::matmul, a, b, attrs);
  AxesAttrs extra;
  if (row) extra.axes.push_back(-2);
  if (column) extra.axes.push_back(-1);
  return extra.axes.empty() ? y : emit(op::squeeze, y, extra);
}
Value softmax(Value x, int64_t axis) { return emit(op::softmax, x, AxisAttrs{axis}); }
Value log_softmax(Value x, int64_t axis) { return emit(op::log_softmax, x, AxisAttrs{axis}); }

}  // namespace ops

}  // namespace hone
