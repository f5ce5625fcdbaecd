// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "tests/ops/gradient_check.hpp"

namespace hone::test {

namespace {

TensorData doubles(const Shape& shape, uint64_t seed) {
  return random_tensor({DType::f64, shape}, seed);
}
TensorData one_to(int n, const Shape& shape) {
  std::vector<double> v;
  for (int i = 1; i <= n; ++i) v.push_back(i);
  return tensor_from({DType::f32, shape}, v);
}
TensorData run(const OpDef& op, const Attrs& attrs, std::initializer_list<TensorData> in) {
  return must(evaluate(op, attrs, in))[0];
}

}  // namespace

TEST_CASE("C01: the divisor of a mean counts declared padding and nothing beyond it") {
  PoolAttrs attrs{.kernel = {3, 3},
                  .strides = {2, 2},
                  .pads_begin = {1, 1},
                  .pads_end = {1, 1},
                  .ceil_mode = true,
                  .count_include_pad = true};
  const TensorData x = one_to(16, {1, 1, 4, 4});
  CHECK(all_close(
      run(op::avg_pool, attrs, {x}),
      tensor_of<float>({1, 1, 3, 3}, {14. / 9, 10. / 3, 2, 19. / 3, 11, 6, 4.5, 7.5, 4}), 1e-6, 0));
  attrs.legacy_divisor = true;
  CHECK(all_close(
      run(op::avg_pool, attrs, {x}),
      tensor_of<float>({1, 1, 3, 3}, {14. / 9, 10. / 3, 4. / 3, 19. / 3, 11, 4, 3, 5, 16. / 9}),
      1e-6, 0));
}

TEST_CASE("C03: no window without input is made") {
  const PoolAttrs attrs{.kernel = {1}, .strides = {3}, .ceil_mode = true};
  const TensorData x = tensor_of<float>({1, 1, 3}, {1, 2, 3});
  CHECK(same_bits(run(op::max_pool, attrs, {x}), tensor_of<float>({1, 1, 1}, {1})));
  CHECK(same_bits(run(op::avg_pool, attrs, {x}), tensor_of<float>({1, 1, 1}, {1})));
}

TEST_CASE("avg_pool without count_include_pad divides by the elements it covers") {
  const PoolAttrs attrs{.kernel = {3}, .strides = {2}, .pads_begin = {1}, .pads_end = {1}};
  CHECK(all_close(run(op::avg_pool, attrs, {one_to(4, {1, 1, 4})}),
                  tensor_of<float>({1, 1, 2}, {1.5, 3}), 1e-6, 0));
}

TEST_CASE("max_pool takes maxima of windows; padding never wins") {
  const PoolAttrs attrs{.kernel = {2, 2}, .strides = {2, 2}};
  CHECK(same_bits(run(op::max_pool, attrs, {one_to(16, {1, 1, 4, 4})}),
                  tensor_of<float>({1, 1, 2, 2}, {6, 8, 14, 16})));
  const PoolAttrs padded{.kernel = {3}, .strides = {2}, .pads_begin = {1}, .pads_end = {1}};
  for (const DType t :
       {DType::f64, DType::f32, DType::f16, DType::bf16, DType::i8, DType::i32, DType::i64})
    CHECK(same_bits(run(op::max_pool, padded, {tensor_from({t, {1, 1, 3}}, {-5, -3, -4})}),
                    tensor_from({t, {1, 1, 2}}, {-3, -3})));
  const PoolAttrs dilated{.kernel = {2}, .dilations = {2}};
  CHECK(same_bits(run(op::max_pool, dilated, {tensor_of<float>({1, 1, 4}, {4, 9, 1, 2})}),
                  tensor_of<float>({1, 1, 2}, {4, 9})));
}

TEST_CASE("max_pool takes a NaN where there is one, and an infinity") {
  const PoolAttrs attrs{.kernel = {2}, .strides = {2}};
  const double nan = NAN, low = -INFINITY;
  CHECK(
      all_close(run(op::max_pool, attrs, {tensor_of<float>({1, 1, 6}, {1, nan, nan, 2, low, low})}),
                tensor_of<float>({1, 1, 3}, {nan, nan, low}), 0, 0));
}

TEST_CASE("the gradient of max_pool goes to the first maximum, and adds up where windows overlap") {
  const PoolAttrs attrs{.kernel = {2}};
  for (const DType t : {DType::f64, DType::f32, DType::f16, DType::bf16}) {
    const TensorData x = tensor_from({t, {1, 1, 4}}, {1, 3, 3, 0}),
                     gy = tensor_from({t, {1, 1, 3}}, {1, 2, 4});
    CHECK(same_bits(run(op::max_pool_grad, attrs, {x, gy}),
                    tensor_from({t, {1, 1, 4}}, {0, 3, 4, 0})));
    const TensorData v = tensor_from({t, {1, 1, 4}}, {10, 20, 30, 40});
    CHECK(same_bits(run(op::max_pool_pick, attrs, {x, v}),
                    tensor_from({t, {1, 1, 3}}, {20, 20, 30})));
  }
}

TEST_CASE("pooling has first and second derivatives") {
  const std::vector<PoolAttrs> all = {
      {.kernel = {2, 2}},
      {.kernel = {3, 2},
       .strides = {2, 1},
       .pads_begin = {1, 0},
       .pads_end = {1, 1},
       .count_include_pad = true},
      {.kernel = {2, 3}, .strides = {2, 2}, .ceil_mode = true},
      {.kernel = {2, 2}, .dilations = {2, 1}},
      {.kernel = {3, 3}, .strides = {2, 2}, .auto_pad = AutoPad::same_upper},
  };
  for (const PoolAttrs& attrs : all) {
    check_gradient(op::max_pool, attrs, {doubles({2, 1, 4, 5}, 1)}, Order::second);
    check_gradient(op::avg_pool, attrs, {doubles({2, 1, 4, 5}, 1)}, Order::second);
  }
  check_gradient(op::avg_pool, PoolAttrs{.kernel = {2}, .strides = {2}}, {doubles({1, 2, 5}, 1)});
  check_gradient(op::avg_pool, PoolAttrs{.kernel = {2, 2, 2}}, {doubles({1, 1, 3, 2, 3}, 1)});
  check_gradient(op::global_avg_pool, {}, {doubles({2, 2, 3, 2}, 1)}, Order::second);
  check_gradient(op::global_max_pool, {}, {doubles({2, 2, 3, 2}, 1)}, Order::second);
}

TEST_CASE("avg_pool_grad is avg_pool's adjoint in every type") {
  const PoolAttrs attrs{.kernel = {2}};
  for (const DType t : {DType::f64, DType::f32, DType::f16, DType::bf16})
    CHECK(same_bits(run(op::avg_pool_grad, PoolGradAttrs{{1, 1, 3}, attrs},
                        {tensor_from({t, {1, 1, 2}}, {2, 4})}),
                    tensor_from({t, {1, 1, 3}}, {1, 3, 2})));
}

TEST_CASE("pooling says what does not fit") {
  const TensorData x = one_to(4, {1, 1, 4});
  CHECK_ERROR(evaluate(op::max_pool, PoolAttrs{.kernel = {5}}, {x}), Code::invalid_argument,
              "max_pool: on spatial axis 0 the kernel spans 5, the padded input only 4");
  CHECK_ERROR(evaluate(op::max_pool, PoolAttrs{.kernel = {2, 2}}, {x}), Code::invalid_argument,
              "the kernel has 2 axes, the input 1 spatial ones");
  CHECK_ERROR(
      evaluate(op::avg_pool, PoolAttrs{.kernel = {2}}, {tensor_of<int32_t>({1, 1, 2}, {1, 2})}),
      Code::invalid_argument, "expected floating point");
  CHECK_ERROR(evaluate(op::max_pool_grad, PoolAttrs{.kernel = {2}}, {x, x}), Code::invalid_argument,
              "the output's gradient is [1, 1, 4], expected [1, 1, 3]");
  CHECK_ERROR(evaluate(op::global_avg_pool, {}, {tensor_of<float>({2, 2}, {1, 2, 3, 4})}),
              Code::invalid_argument, "expected at least 3");
}

}  // namespace hone::test
