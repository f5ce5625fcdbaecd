// SPDX-License-Identifier: Apache-2.0
// Functions that emit operators: how gradient rules, decompositions, losses and backends write
// graphs. Each emits one node (or its decomposition) through the builder of its first operand.
// Broadcasting is NumPy's. For what an operator means see its definition.
#pragma once

#include "hone/op_attrs.hpp"
#include "hone/op_table.hpp"

namespace hone {

// Arithmetic with broadcasting; both operands of one dtype. A number takes the dtype of the other
// operand.
Value operator+(Value a, Value b);
Value operator-(Value a, Value b);
Value operator*(Value a, Value b);
Value operator/(Value a, Value b);
Value operator-(Value a);
Value operator+(Value a, double b);
Value operator-(Value a, double b);
Value operator*(Value a, double b);
Value operator/(Value a, double b);
Value operator+(double a, Value b);
Value operator-(double a, Value b);
Value operator*(double a, Value b);
Value operator/(double a, Value b);

namespace ops {

// clang-format off
#define HONE_UNARY(name) Value name(Value x);
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
#define HONE_BINARY(name) Value name(Value a, Value b);
HONE_BINARY(add) HONE_BINARY(sub) HONE_BINARY(mul) HONE_BINARY(div) HONE_BINARY(pow)
HONE_BINARY(maximum) HONE_BINARY(minimum) HONE_BINARY(mod) HONE_BINARY(equal)
HONE_BINARY(less) HONE_BINARY(less_equal) HONE_BINARY(greater)
HONE_BINARY(greater_equal) HONE_BINARY(logical_and)
HONE_BINARY(logical_or) HONE_BINARY(logical_xor)
#undef HONE_BINARY
    // clang-format on

    Value where(Value condition, Value a, Value b);
Value square(Value x);
Value cast(Value x, DType to);  ///< Nothing is emitted when the dtype is that already.
Value clip(Value x, double low, double high);

Value sum(Value x, ReduceAttrs attrs = {});
Value mean(Value x, ReduceAttrs attrs = {});
Value max(Value x, ReduceAttrs attrs = {});
Value min(Value x, ReduceAttrs attrs = {});
/// Sums x over the axes along which `shape` was broadcast to x's shape; nothing is emitted when
/// they are equal.
Value sum_to(Value x, const Shape& shape);

Value reshape(Value x, const Shape& shape);  ///< Nothing is emitted when the shape is that already.
Value expand(Value x, const Shape& shape);   ///< Broadcasts to exactly `shape`; nothing when equal.
Value transpose(Value x, std::span<const int64_t> perm);
Value swap_last_two(Value x);
Value concat(std::span<const Value> parts, int64_t axis);
Value slice(Value x, int64_t axis, int64_t start, int64_t end);
/// A tensor of one value.
Value fill(Builder& b, const TensorType& type, double value);
Value zeros_like(Value x);
Value ones_like(Value x);

Value gather(Value x, Value indices, int64_t axis);
Value index_sum(Value updates, Value indices, int64_t axis, int64_t size);

Value matmul(Value a, Value b, MatmulAttrs attrs = {});
Value softmax(Value x, int64_t axis);
Value log_softmax(Value x, int64_t axis);

}  // namespace ops

// ---- losses, built from operators; the caller has made dtypes equal

namespace loss {
Value cross_entropy(Value logits, Value labels, CrossEntropyAttrs attrs, Value weights = {});
Value mse(Value x, Value target, Reduction reduction = Reduction::mean);
Value l1(Value x, Value target, Reduction reduction = Reduction::mean);
/// 0.5 d^2 / beta where |d| < beta, |d| - 0.5 beta elsewhere (torch SmoothL1Loss).
Value smooth_l1(Value x, Value target, double beta = 1.0, Reduction reduction = Reduction::mean);
/// 0.5 d^2 where |d| < delta, delta (|d| - 0.5 delta) elsewhere (torch HuberLoss).
Value huber(Value x, Value target, double delta = 1.0, Reduction reduction = Reduction::mean);
/// max(z, 0) - z t + log(1 + exp(-|z|)), finite for every finite z.
Value bce_with_logits(Value logits, Value target, Reduction reduction = Reduction::mean);
}  // namespace loss

}  // namespace hone
