// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "hone/specialise.hpp"
#include "tests/ops/gradient_check.hpp"

namespace hone::test {

namespace {

TensorData doubles(const Shape& shape, uint64_t seed) {
  return random_tensor({DType::f64, shape}, seed);
}
TensorData positive(const Shape& shape, uint64_t seed) {
  return random_tensor({DType::f64, shape}, seed, 0.5, 2);
}
TensorData as(DType t, const TensorData& x) { return must(cast(x, t)); }

double tolerance(DType t) {
  return t == DType::f64 ? 1e-12 : t == DType::f32 ? 1e-5 : t == DType::f16 ? 3e-3 : 2e-2;
}

// The kernel's outputs in `t` against the decomposition's in double.
void check_kernel(const OpDef& op, const Attrs& attrs, const std::vector<TensorData>& in, DType t,
                  int line = __builtin_LINE()) {
  std::vector<TensorData> narrow, same;
  for (const TensorData& x : in) {
    narrow.push_back(x.defined() ? as(t, x) : x);
    same.push_back(x.defined() ? as(DType::f64, narrow.back()) : x);
  }
  const auto got = must(evaluate(op, attrs, narrow)),
             want = must(evaluate_decomposition(op, attrs, same));
  REQUIRE_EQ(got.size(), want.size());
  for (size_t i = 0; i < got.size(); ++i) {
    const Closeness c = all_close(as(DType::f64, got[i]), want[i], tolerance(t), tolerance(t));
    if (!c)
      ADD_FAIL_CHECK_AT(__FILE__, line,
                        format("{} output {} in {}: {}", op.name, i, t, c.difference));
  }
}

constexpr DType kFloats[] = {DType::f64, DType::f32, DType::f16, DType::bf16};

// batch_norm over one channel holding `x`, with running mean 0 and variance 1.
Graph one_channel_model(const BatchNormAttrs& attrs, int64_t batch) {
  Graph g;
  Builder b(g, Composites::keep);
  const auto state = [&](StateRole role, double v, const char* name) {
    return b.state(role, tensor_of<float>({1}, {v}), name);
  };
  const Value x = b.input({DType::f32, {batch, 1}}, "x");
  const Value scale = state(StateRole::parameter, 1, "scale"),
              bias = state(StateRole::parameter, 0, "bias");
  const Value mean = state(StateRole::buffer, 0, "mean"), var = state(StateRole::buffer, 1, "var");
  b.output(b.emit(op::batch_norm, {x, scale, bias, mean, var}, attrs), "y");
  REQUIRE_OK(b.status());
  return g;
}

// The output and the updated running mean and variance of one training step.
std::vector<TensorData> train_step(const BatchNormAttrs& attrs) {
  const Graph model = one_channel_model(attrs, 2);
  const Shape shapes[] = {{2, 1}};
  const Graph g = must(specialise(model, shapes, {.mode = Mode::train}));
  REQUIRE_EQ(g.updates.size(), 2);
  const std::vector<ValueId> wanted = {g.outputs[0].value, g.updates[0].next, g.updates[1].next};
  return must(evaluate(g, std::vector<TensorData>{tensor_of<float>({2, 1}, {1, 3})}, wanted));
}

}  // namespace

TEST_CASE(
    "C27: running statistics move once a step, with the unbiased or the population variance") {
  const auto torch = train_step({.eps = 0});
  CHECK(all_close(torch[0], tensor_of<float>({2, 1}, {-1, 1}), 1e-6, 0));
  CHECK(all_close(torch[1], tensor_of<float>({1}, {0.2}), 1e-6, 0));
  CHECK(all_close(torch[2], tensor_of<float>({1}, {1.1}), 1e-6, 0));
  const auto onnx = train_step({.eps = 0, .unbiased = false});
  CHECK(all_close(onnx[0], tensor_of<float>({2, 1}, {-1, 1}), 1e-6, 0));
  CHECK(all_close(onnx[2], tensor_of<float>({1}, {1.0}), 1e-6, 0));
}

TEST_CASE("training a batch norm needs two values for each channel") {
  const Graph model = one_channel_model({}, 1);
  const Shape shapes[] = {{1, 1}};
  CHECK_ERROR(specialise(model, shapes, {.mode = Mode::train}), Code::invalid_argument,
              "batch_norm: in training it needs more than one value for each channel, got f32[1, "
              "1]; use a larger batch");
  CHECK_OK(specialise(model, shapes, {.mode = Mode::infer}));
}

TEST_CASE("batch_norm in inference uses the statistics it is given") {
  const auto y = must(evaluate(op::batch_norm, BatchNormAttrs{.eps = 0},
                               {tensor_of<float>({1, 2, 2}, {1, 3, 5, 5}),
                                tensor_of<float>({2}, {1, 2}), tensor_of<float>({2}, {0, 10}),
                                tensor_of<float>({2}, {2, 4}), tensor_of<float>({2}, {4, 0.25})}));
  CHECK(all_close(y[0], tensor_of<float>({1, 2, 2}, {-0.5, 0.5, 14, 14}), 1e-6, 0));
}

TEST_CASE("batch norm kernels agree with their decompositions in every type") {
  for (const DType t : kFloats) {
    const TensorData x = doubles({3, 2, 5}, 1), scale = doubles({2}, 2), bias = doubles({2}, 3);
    check_kernel(op::batch_norm, {}, {x, scale, bias, doubles({2}, 4), positive({2}, 5)}, t);
    check_kernel(op::batch_norm_train, NormAttrs{}, {x, scale, bias}, t);
    check_kernel(op::batch_norm_grad, NormAttrs{},
                 {x, scale, doubles({2}, 4), positive({2}, 5), doubles({3, 2, 5}, 6)}, t);
  }
  check_kernel(op::batch_norm_train, NormAttrs{},
               {doubles({3, 2}, 1), doubles({2}, 2), doubles({2}, 3)}, DType::f32);
}

TEST_CASE("batch norm statistics keep their digits far from zero") {
  TensorData x = tensor_of<float>({4, 1}, {16777216, 16777218, 16777216, 16777218});
  const auto out = must(evaluate(op::batch_norm_train, NormAttrs{.eps = 0},
                                 {x, tensor_of<float>({1}, {1}), tensor_of<float>({1}, {0})}));
  CHECK_EQ(out[1].at(0), 16777216);  // 16777217 has no float
  CHECK_EQ(out[2].at(0), 1);
}

TEST_CASE("batch norm has first and second derivatives, through its statistics too") {
  const TensorData x = doubles({3, 2, 2}, 1), scale = doubles({2}, 2), bias = doubles({2}, 3);
  check_gradient(op::batch_norm_train, NormAttrs{.eps = 0.1}, {x, scale, bias}, Order::second);
  check_gradient(op::batch_norm_grad, NormAttrs{.eps = 0.1},
                 {x, scale, doubles({2}, 4), positive({2}, 5), doubles({3, 2, 2}, 6)});
  check_gradient(op::batch_norm, BatchNormAttrs{.eps = 0.1},
                 {x, scale, bias, doubles({2}, 4), positive({2}, 5)}, Order::second);
  const GraphFunction only_y = [](Builder& b, std::span<const Value> in) {
    return std::vector<Value>{b.emit(op::batch_norm_train, in, NormAttrs{.eps = 0.1})};
  };
  check_gradient(only_y, std::vector<TensorData>{x, scale, bias}, Order::second);
}

TEST_CASE("layer_norm centres and scales each row") {
  const auto out = must(evaluate(op::layer_norm, NormAttrs{.eps = 0},
                                 {tensor_of<float>({2, 2}, {1, 3, 10, 30}),
                                  tensor_of<float>({2}, {1, 2}), tensor_of<float>({2}, {0, 5})}));
  CHECK(all_close(out[0], tensor_of<float>({2, 2}, {-1, 7, -1, 7}), 1e-6, 0));
  CHECK(all_close(out[1], tensor_of<float>({2, 1}, {2, 20}), 1e-6, 0));
  CHECK(all_close(out[2], tensor_of<float>({2, 1}, {1, 0.1}), 1e-6, 0));
}

TEST_CASE("layer norm kernels agree with their decompositions in every type") {
  for (const DType t : kFloats)
    for (const int64_t axis : {0, 1, -1}) {
      const TensorData x = doubles({3, 2, 5}, 1), gy = doubles({3, 2, 5}, 6);
      const Shape d(x.shape().dims().subspan(static_cast<size_t>(axis < 0 ? 2 : axis)));
      const Shape rows = axis == 0 ? Shape{1, 1, 1} : axis == 1 ? Shape{3, 1, 1} : Shape{3, 2, 1};
      const NormAttrs attrs{1e-5, axis};
      check_kernel(op::layer_norm, attrs, {x, doubles(d, 2), doubles(d, 3)}, t);
      check_kernel(op::layer_norm, attrs, {x}, t);
      check_kernel(op::layer_norm, attrs, {x, {}, doubles(d, 3)}, t);
      check_kernel(op::layer_norm_grad, attrs,
                   {x, doubles(d, 2), doubles(rows, 4), positive(rows, 5), gy}, t);
      check_kernel(op::layer_norm_grad, attrs, {x, {}, doubles(rows, 4), positive(rows, 5), gy}, t);
    }
  // More columns than one block of the parameters' gradients.
  check_kernel(op::layer_norm_grad, NormAttrs{},
               {doubles({3, 130}, 1), doubles({130}, 2), doubles({3, 1}, 4), positive({3, 1}, 5),
                doubles({3, 130}, 6)},
               DType::f32);
}

TEST_CASE("the other normalisations are what their names say") {
  const TensorData x = tensor_of<float>({1, 4, 1}, {1, 3, 10, 30}),
                   one = tensor_of<float>({4}, {1, 1, 1, 2});
  const auto y = must(evaluate(op::group_norm, GroupNormAttrs{2, 0},
                               {x, one, tensor_of<float>({4}, {0, 0, 0, 5})}));
  CHECK(all_close(y[0], tensor_of<float>({1, 4, 1}, {-1, 1, -1, 7}), 1e-6, 0));
  const TensorData planes = tensor_of<float>({1, 2, 2}, {1, 3, 10, 30});
  const auto z =
      must(evaluate(op::instance_norm, NormAttrs{.eps = 0},
                    {planes, tensor_of<float>({2}, {1, 2}), tensor_of<float>({2}, {0, 1})}));
  CHECK(all_close(z[0], tensor_of<float>({1, 2, 2}, {-1, 1, -1, 3}), 1e-6, 0));
  const auto r = must(evaluate(op::rms_norm, NormAttrs{.eps = 0},
                               {tensor_of<float>({1, 2}, {3, 4}), tensor_of<float>({2}, {1, 2})}));
  CHECK(all_close(r[0], tensor_of<float>({1, 2}, {3 / std::sqrt(12.5), 8 / std::sqrt(12.5)}), 1e-6,
                  0));
}

TEST_CASE("layer, group, instance and RMS norm have first and second derivatives") {
  const TensorData x = doubles({2, 2, 3}, 1);
  check_gradient(op::layer_norm, NormAttrs{0.1, -1}, {x, doubles({3}, 2), doubles({3}, 3)},
                 Order::second);
  check_gradient(op::layer_norm, NormAttrs{0.1, 1}, {x}, Order::second);
  const GraphFunction only_y = [](Builder& b, std::span<const Value> in) {
    return std::vector<Value>{b.emit(op::layer_norm, in, NormAttrs{0.1, 1})};
  };
  check_gradient(only_y, std::vector<TensorData>{x, doubles({2, 3}, 2), doubles({2, 3}, 3)},
                 Order::second);
  check_gradient(op::group_norm, GroupNormAttrs{2, 0.1},
                 {doubles({2, 4, 2}, 1), doubles({4}, 2), doubles({4}, 3)}, Order::second);
  check_gradient(op::instance_norm, NormAttrs{.eps = 0.1}, {x, doubles({2}, 2), doubles({2}, 3)},
                 Order::second);
  check_gradient(op::rms_norm, NormAttrs{0.1, -1}, {x, doubles({3}, 2)}, Order::second);
}

TEST_CASE("normalisations say what does not fit") {
  const auto f = [](Shape s) { return random_tensor({DType::f32, s}, 1); };
  CHECK_ERROR(evaluate(op::batch_norm_train, NormAttrs{}, {f({2, 3, 4}), f({8}), f({3})}),
              Code::invalid_argument,
              "batch_norm_train: scale has shape [8], expected [3] for an input f32[2, 3, 4]");
  CHECK_ERROR(evaluate(op::batch_norm_train, NormAttrs{}, {f({0, 3}), f({3}), f({3})}),
              Code::invalid_argument, "has no elements to take statistics of");
  CHECK_ERROR(evaluate(op::batch_norm, {}, {f({4}), f({4}), f({4}), f({4}), f({4})}),
              Code::invalid_argument, "expected at least 2");
  CHECK_ERROR(evaluate(op::layer_norm, NormAttrs{}, {f({2, 3}), f({2})}), Code::invalid_argument,
              "layer_norm: scale has shape [2], expected [3]");
  CHECK_ERROR(
      evaluate(op::layer_norm, NormAttrs{}, {f({2, 3}), random_tensor({DType::f64, {3}}, 1)}),
      Code::invalid_argument, "scale is f64[3], the input f32[2, 3]");
  CHECK_ERROR(evaluate(op::group_norm, GroupNormAttrs{.groups = 2}, {f({2, 3})}),
              Code::invalid_argument, "3 channels do not split into 2 groups");
}

}  // namespace hone::test
