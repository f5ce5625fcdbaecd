// SPDX-License-Identifier: Apache-2.0
// Gradients with known values, where differences cannot tell: at zeros and ties, in low precision.
#include <cmath>

#include "tests/ops/graded.hpp"

namespace hone::test {

TEST_CASE("C15a: the squared error of equal numbers has gradient 0") {
  for (const bool constant_exponent : {true, false}) {
    Graded t;
    const Value d = t.input(floats({0})) - t.b.constant(floats({0}));
    const Value two = constant_exponent ? t.b.scalar(2, DType::f32) : t.input(floats({2}));
    const Value loss = ops::sum(ops::pow(d, two), {{}, false});
    const auto grads = t.gradients(loss);
    CHECK(all_close(grads[0], floats({0}), 0, 0));
  }
}

TEST_CASE("C15b: (a - b)^b at a = b = 1 has finite gradients") {
  Graded t;
  const Value a = t.input(floats({1, 1})), b = t.input(floats({1, 1}));
  const Value y = ops::pow(a - b, b);
  const auto grads = t.gradients(y, t.b.constant(floats({123, 123})));
  CHECK(all_close(grads[0], floats({123, 123}), 0, 0));
  CHECK(all_close(grads[1], floats({-123, -123}), 0, 0));
}

TEST_CASE(
    "the gradient of clip passes from bound to bound, and nowhere where a bound is beyond all") {
  const auto slope = [](double low, double high) {
    Graded t;
    const Value y = ops::clip(t.input(floats({-1, 0, 3, 6, 7})), low, high);
    return t.gradients(y, t.b.constant(floats({1, 1, 1, 1, 1})))[0];
  };
  CHECK(all_close(slope(0, 6), floats({0, 1, 1, 1, 0}), 0, 0));
  CHECK(all_close(slope(0, INFINITY), floats({0, 1, 1, 1, 1}), 0, 0));
  CHECK(all_close(slope(-INFINITY, 6), floats({1, 1, 1, 1, 0}), 0, 0));
  CHECK(all_close(slope(-INFINITY, INFINITY), floats({1, 1, 1, 1, 1}), 0, 0));
  CHECK(all_close(slope(INFINITY, INFINITY), floats({0, 0, 0, 0, 0}), 0, 0));
  CHECK(all_close(slope(-INFINITY, -INFINITY), floats({0, 0, 0, 0, 0}), 0, 0));
}

TEST_CASE("C17: the gradient of a maximum over 70000 ties in f16 is shared, not lost") {
  Graded t;
  const TensorType type{DType::f16, {70000}};
  const Value x = t.input(
      must(cast(tensor_from({DType::f32, {70000}}, std::vector<double>(70000, 1)), DType::f16)));
  const TensorData g = t.gradients(ops::max(x, {{}, false}))[0];
  CHECK_EQ(to_string(g.type()), to_string(type));
  const double share = static_cast<float>(f16(1.0f / 70000));
  CHECK(share == doctest::Approx(1.4305e-5).epsilon(1e-4));
  double sum = 0;
  for (int64_t i = 0; i < g.numel(); ++i) sum += g.at(i);
  CHECK(sum == doctest::Approx(70000 * share));
  CHECK_EQ(g.at(69999), share);
}

TEST_CASE("C18: gradients of scatter with data, indices and updates of different lengths") {
  for (const ScatterMode mode : {ScatterMode::add, ScatterMode::assign}) {
    Graded t;
    const Value data = t.input(floats({0, 0, 0}));
    const Value indices = t.b.constant(tensor_of<int64_t>({2}, {2, 0}));
    const Value updates = t.input(floats({10, 20}));
    const Value out =
        t.b.emit(op::scatter_elements, {data, indices, updates}, ScatterAttrs{0, mode});
    const Value weights = t.b.constant(floats({1, 2, 3}));
    const auto grads = t.gradients(ops::sum(out * weights, {{}, false}));
    const bool add = mode == ScatterMode::add;
    CHECK(all_close(grads[0], add ? floats({1, 2, 3}) : floats({0, 2, 0}), 0, 0));
    CHECK(all_close(grads[1], floats({3, 1}), 0, 0));
  }
}

TEST_CASE("equal operands share the gradient of maximum and minimum") {
  for (const auto extremum : {ops::maximum, ops::minimum}) {
    Graded t;
    const Value a = t.input(floats({1, 2})), b = t.input(floats({1, 2}));
    const auto grads = t.gradients(extremum(a, b), t.b.constant(floats({4, 6})));
    CHECK(all_close(grads[0], floats({2, 3}), 0, 0));
    CHECK(all_close(grads[1], floats({2, 3}), 0, 0));
  }
}

TEST_CASE("the product's gradient is right at one zero and at two") {
  Graded t;
  const Value x = t.input(tensor_of<float>({2, 3}, {2, 0, 3, 0, 0, 5}));
  const Value y = t.b.emit(op::prod, {x}, ReduceAttrs{{1}, false});
  const auto grads = t.gradients(y, t.b.constant(floats({1, 1})));
  CHECK(all_close(grads[0], tensor_of<float>({2, 3}, {0, 6, 0, 0, 0, 0}), 0, 0));
}

TEST_CASE("gradients stop at stop_gradient and at comparisons") {
  Graded t;
  const Value x = t.input(floats({1, 2}));
  const Value y = ops::stop_gradient(x) * x +
                  ops::cast(ops::greater(x, t.b.scalar(1.5, DType::f32)), DType::f32);
  const auto grads = t.gradients(ops::sum(y, {{}, false}));
  CHECK(all_close(grads[0], floats({1, 2}), 0, 0));
}

}  // namespace hone::test
