// SPDX-License-Identifier: Apache-2.0
// Element-wise expressions: every operator on ordinary and on special numbers, broadcasting, tiles
// and their ends, and what is fused into one step.
#include <cmath>
#include <limits>

#include "tests/backends/harness.hpp"

namespace hone::test {

namespace {

const Backend* vector() { return cpu::backend_of(cpu::Family::vector); }

constexpr const OpDef* kUnary[] = {
    &op::neg,   &op::abs,  &op::exp,      &op::tanh,         &op::erf,        &op::sign,
    &op::floor, &op::ceil, &op::round,    &op::relu,         &op::sigmoid,    &op::silu,
    &op::gelu,  &op::elu,  &op::softplus, &op::hard_sigmoid, &op::hard_swish, &op::leaky_relu,
    &op::log,   &op::sqrt, &op::rsqrt,    &op::reciprocal,   &op::clip};
constexpr const OpDef* kBinary[] = {&op::add, &op::sub,     &op::mul,
                                    &op::div, &op::maximum, &op::minimum};
constexpr const OpDef* kComparisons[] = {&op::equal, &op::less, &op::less_equal, &op::greater,
                                         &op::greater_equal};

TensorData special_numbers() {
  const double inf = std::numeric_limits<double>::infinity(), nan = std::nan("");
  return tensor_from(
      {DType::f32, {39}},
      {0,    -0.0, 1,    -1,   0.5,   -0.5, 1e-8,  -1e-8, 1e-38, 3,    -3,    3.94, -3.96,
       5,    -6,   6,    9.1,  -9.1,  20,   -20,   87,    -87,   88.8, -88.8, 89.5, -104,
       -110, 200,  -200, 1e10, -1e10, 3e38, -3e38, inf,   -inf,  nan,  2.5,   -2.5, 0.949});
}

Value emit(Builder& b, const OpDef& op, Value x) {
  if (&op == &op::clip) return b.emit(op, {x}, ClipAttrs{-0.25, 2});
  return b.emit(op, {x});
}

}  // namespace

TEST_CASE("every function agrees with its reference kernel, special numbers included") {
  if (!vector()) return;  // not built: nothing to say
  for (const OpDef* op : kUnary) {
    INFO(std::string(op->name));
    Case c;
    const Value y = emit(c.builder(), *op, c.input(special_numbers(), "x"));
    c.check(y, *vector());
    CHECK(c.steps(*vector()) == "vector.pointwise");
    Case many;
    const TensorData x = random_tensor({DType::f32, {37, 141}}, 5, -9, 9);
    many.check(emit(many.builder(), *op, many.input(x, "x")), *vector());
  }
  Case tanh_form;
  const Value x = tanh_form.input(special_numbers(), "x");
  tanh_form.check(tanh_form.builder().emit(op::gelu, {x}, GeluAttrs{GeluForm::tanh}), *vector());
}

TEST_CASE("operators on pairs agree with their reference kernels, special numbers included") {
  if (!vector()) return;
  for (const OpDef* op : kBinary) {
    INFO(std::string(op->name));
    Case c;
    const Value x = c.input(special_numbers(), "x");
    const Value column = c.builder().emit(op::reshape, {x}, ShapeAttrs{{39, 1}});
    c.check(c.builder().emit(*op, {x, column}), *vector());
  }
  for (const OpDef* op : kComparisons) {
    INFO(std::string(op->name));
    Case c;
    const Value x = c.input(special_numbers(), "x");
    const Value column = c.builder().emit(op::reshape, {x}, ShapeAttrs{{39, 1}});
    const Value mask = c.builder().emit(*op, {x, column});
    const Value other =
        c.builder().emit(op::logical_not, {c.builder().emit(op::greater, {x, column})});
    const Value both = c.builder().emit(op::logical_xor, {mask, other});
    c.check(ops::where(both, x, column), *vector());
    CHECK(c.steps(*vector()) == "vector.pointwise");
  }
}

TEST_CASE("operands broadcast along any axes, whatever the size of rows") {
  if (!vector()) return;
  for (const Shape& out : {Shape{3, 4, 5}, Shape{2, 3, 1500}, Shape{700, 3}, Shape{1, 1, 1},
                           Shape{5, 1, 1030}, Shape{2, 9, 2, 31}})
    for (unsigned bits = 0; bits < 8; ++bits) {
      Shape other = out;
      for (int i = 0; i < out.rank(); ++i)
        if (bits >> i & 1) other[i] = 1;
      INFO(to_string(out), " and ", to_string(other));
      Case c;
      const Value x = c.input(out, "x", 1), y = c.input(other, "y", 2);
      const Value mask = ops::greater(y, c.builder().scalar(0, DType::f32));
      c.check(ops::where(mask, x * y, x - 2.0 * y), *vector());
    }
}

TEST_CASE("a comparison's result is a tensor of booleans where others read it") {
  if (!vector()) return;
  Case c;
  const Value x = c.input({3, 333}, "x", 1), y = c.input({333}, "y", 2);
  const Value mask = ops::greater(x, y);
  const Value count = ops::sum(ops::cast(mask, DType::f32), {.axes = {1}});
  c.check(ops::where(mask, x, y) + count, *vector());
}

TEST_CASE("a chain is one step; what two steps read is made once") {
  if (!vector()) return;
  Case c;
  const Value x = c.input({64, 65}, "x", 1), y = c.input({64, 65}, "y", 2);
  const Value shared = ops::exp(x) * 0.5;
  const Value a = ops::tanh(shared + y) * shared;
  const Value total = ops::sum(shared, {.axes = {1}});
  c.check(a / total, *vector());
  CHECK(c.steps(*vector()) == "vector.pointwise reference vector.pointwise");
}

TEST_CASE("longer chains than one step holds are cut") {
  if (!vector()) return;
  Case c;
  Value x = c.input({2, 700}, "x", 1);
  for (int i = 0; i < 60; ++i) x = ops::tanh(x + 0.01 * i);
  c.check(x, *vector());
}

TEST_CASE("an expand is an operand of another shape") {
  if (!vector()) return;
  Case c;
  const Value x = c.input({5, 1}, "x", 1), y = c.input({4, 5, 6}, "y", 2);
  c.check(c.builder().emit(op::expand, {x}, ShapeAttrs{{4, 5, 6}}) * y, *vector());
  CHECK(c.steps(*vector()) == "vector.pointwise");
}

}  // namespace hone::test
