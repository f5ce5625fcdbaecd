// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "tests/ops/gradient_check.hpp"

namespace hone::test {

namespace {

TensorData doubles(const Shape& shape, uint64_t seed) {
  return random_tensor({DType::f64, shape}, seed, -3, 3);
}
TensorData run(const OpDef& op, int64_t axis, const TensorData& x) {
  return must(evaluate(op, AxisAttrs{axis}, {x}))[0];
}

}  // namespace

TEST_CASE("softmax gives probabilities along any axis, in every float type") {
  const std::vector<double> x = {0, std::log(3.0), std::log(2.0), std::log(2.0)};
  for (const DType t : {DType::f64, DType::f32, DType::f16, DType::bf16}) {
    const double tol = t == DType::f64   ? 1e-12
                       : t == DType::f32 ? 1e-6
                       : t == DType::f16 ? 2e-3
                                         : 1e-2;
    CHECK(all_close(run(op::softmax, 1, tensor_from({t, {2, 2}}, x)),
                    tensor_from({t, {2, 2}}, {0.25, 0.75, 0.5, 0.5}), tol, 0));
    CHECK(all_close(run(op::softmax, -2, tensor_from({t, {2, 2}}, x)),
                    tensor_from({t, {2, 2}}, {1. / 3, 0.6, 2. / 3, 0.4}), tol, 0));
    CHECK(all_close(
        run(op::log_softmax, 1, tensor_from({t, {2, 2}}, x)),
        tensor_from({t, {2, 2}}, {std::log(0.25), std::log(0.75), std::log(0.5), std::log(0.5)}),
        tol, 0));
  }
}

TEST_CASE("softmax of large numbers neither overflows nor loses its sum") {
  CHECK(all_close(run(op::softmax, 0, tensor_of<float>({3}, {1e30, 1e30, -1e30})),
                  tensor_of<float>({3}, {0.5, 0.5, 0}), 1e-6, 0));
  CHECK(all_close(run(op::log_softmax, 0, tensor_of<float>({2}, {1000, 0})),
                  tensor_of<float>({2}, {0, -1000}), 1e-6, 0));
  CHECK(same_bits(run(op::softmax, 1, tensor_of<float>({2, 1}, {5, -5})),
                  tensor_of<float>({2, 1}, {1, 1})));
}

TEST_CASE("softmax of -inf: masked elements get nothing, a wholly masked line is zero") {
  const double low = -INFINITY;
  CHECK(all_close(run(op::softmax, 1, tensor_of<float>({2, 2}, {low, 3, low, low})),
                  tensor_of<float>({2, 2}, {0, 1, 0, 0}), 0, 0));
  CHECK(all_close(run(op::log_softmax, 1, tensor_of<float>({2, 2}, {low, 3, low, low})),
                  tensor_of<float>({2, 2}, {low, 0, low, low}), 0, 0));
  CHECK(all_close(run(op::softmax, 0, tensor_of<float>({2}, {NAN, 1})),
                  tensor_of<float>({2}, {NAN, NAN}), 0, 0));
}

TEST_CASE("softmax and its decomposition agree, masked lines included") {
  const double low = -INFINITY;
  for (const DType t : {DType::f64, DType::f32, DType::f16})
    for (const OpDef* op : {&op::softmax, &op::log_softmax})
      for (const int64_t axis : {0, 1}) {
        const std::vector<TensorData> x = {tensor_from({t, {2, 3}}, {low, low, 1, low, 2, 3})};
        const double tol = t == DType::f16 ? 2e-3 : 1e-6;
        CHECK(all_close(must(evaluate_decomposition(*op, AxisAttrs{axis}, x))[0],
                        run(*op, axis, x[0]), tol, tol));
      }
}

TEST_CASE("softmax and log_softmax have first and second derivatives") {
  for (const OpDef* op : {&op::softmax, &op::log_softmax})
    for (const int64_t axis : {0, 1, 2})
      check_gradient(*op, AxisAttrs{axis}, {doubles({2, 3, 2}, 1)}, Order::second);
}

TEST_CASE("softmax says what does not fit") {
  CHECK_ERROR(evaluate(op::softmax, AxisAttrs{2}, {doubles({2, 2}, 1)}), Code::invalid_argument,
              "softmax: axis 2 does not exist");
  CHECK_ERROR(evaluate(op::softmax, {}, {tensor_of<int32_t>({1}, {1})}), Code::invalid_argument,
              "expected floating point");
}

}  // namespace hone::test
