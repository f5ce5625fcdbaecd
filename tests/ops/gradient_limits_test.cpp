// SPDX-License-Identifier: Apache-2.0
// Gradients where a formula has a factor of 0 beside one that is infinite, and in types that end
// soon. What is expected is what PyTorch gives, where it gives a number.
#include <cmath>

#include "hone/op_attrs_index.hpp"
#include "hone/vision_attrs.hpp"
#include "tests/ops/graded.hpp"

namespace hone::test {

namespace {

constexpr double kInf = INFINITY;

// The gradient of f(x), summed with the weights `seed`.
template <class F>
TensorData gradient(F f, const TensorData& x, const TensorData& seed) {
  Graded t;
  const Value y = f(t.input(x));
  return t.gradients(y, t.b.constant(seed))[0];
}
template <class F>
TensorData gradient(F f, const TensorData& x) {
  Graded t;
  return t.gradients(ops::sum(f(t.input(x)), {{}, false}))[0];
}
// d^2/dx^2, elementwise.
template <class F>
TensorData curvature(F f, const TensorData& x) {
  Graded t;
  const Value in = t.input(x);
  const Value first[] = {in};
  const auto g = must(differentiate(t.b, ops::sum(f(in), {{}, false}), first));
  return t.gradients(ops::sum(g[0], {{}, false}))[0];
}

Value emit(const OpDef& op, Value x, Attrs attrs = {}) {
  return x.builder().emit(op, {x}, std::move(attrs));
}

TensorData half(std::initializer_list<double> values) {
  return tensor_of<f16>({static_cast<int64_t>(values.size())}, values);
}

}  // namespace

TEST_CASE("C15: the gradient of a power by its base, at zero and below") {
  struct Want {
    double exponent;
    std::vector<double> x, slope, bend;
  };
  const Want wants[] = {{0, {0, -2}, {0, 0}, {0, 0}},      {1, {0, -2}, {1, 1}, {0, 0}},
                        {2, {0, -2}, {0, -4}, {2, 2}},     {3, {0, -2}, {0, 12}, {0, -12}},
                        {1.5, {0, 4}, {0, 3}, {}},         {0.5, {0, 4}, {kInf, 0.25}, {}},
                        {-1, {0, 4}, {-kInf, -0.0625}, {}}};
  for (const Want& w : wants)
    for (const bool constant : {true, false}) {
      CAPTURE(w.exponent);
      CAPTURE(constant);
      const TensorData x = tensor_from({DType::f32, {2}}, w.x);
      const auto power = [&](Value v) {
        Builder& b = v.builder();
        if (constant) return ops::pow(v, b.scalar(w.exponent, DType::f32));
        return ops::pow(v, b.constant(floats({w.exponent, w.exponent})));
      };
      CHECK(all_close(gradient(power, x), tensor_from({DType::f32, {2}}, w.slope), 1e-6, 0));
      if (!w.bend.empty())
        CHECK(all_close(curvature(power, x), tensor_from({DType::f32, {2}}, w.bend), 1e-6, 0));
    }
}

TEST_CASE("C15: the gradient of a power by its exponent, at base zero") {
  const auto power = [](Value v) {
    return ops::pow(v.builder().constant(floats({0, 0, 0, 0})), v);
  };
  CHECK(all_close(gradient(power, floats({0, 1, -1, 0.5})), floats({0, 0, -kInf, 0}), 0, 0));
}

TEST_CASE("C15: the gradient of a norm of zeros is zero") {
  const Attrs all = ReduceAttrs{{}, false};
  const auto l2 = [&](Value v) { return emit(op::l2_norm, v, all); };
  CHECK(all_close(gradient(l2, floats({0, 0})), floats({0, 0}), 0, 0));
  CHECK(all_close(gradient(l2, floats({3, 4})), floats({0.6, 0.8}), 1e-6, 0));
  CHECK(all_close(curvature(l2, floats({0, 0})), floats({0, 0}), 0, 0));
  const TensorData planes = tensor_of<float>({1, 1, 4}, {0, 0, 3, 4}),
                   zeros = tensor_of<float>({1, 1, 2}, {0, 0});
  for (const int64_t p : {1, 2, 3}) {
    CAPTURE(p);
    const PoolAttrs pairs{.kernel = {2}, .strides = {2}};
    const TensorData g = gradient(
        [&](Value v) {
          return emit(op::lp_pool, v, LpPoolAttrs{p, pairs});
        },
        planes);
    CHECK_EQ(g.at(0), 0);
    CHECK_EQ(g.at(1), 0);
    const double norm = std::pow(std::pow(3, p) + std::pow(4, p), 1.0 / static_cast<double>(p));
    CHECK_EQ(g.at(3), doctest::Approx(std::pow(4 / norm, p - 1)));
    const auto global = [&](Value v) { return emit(op::global_lp_pool, v, NormOrderAttrs{p}); };
    CHECK(all_close(gradient(global, zeros), zeros, 0, 0));
  }
}

TEST_CASE("C15: what is divided by its norm or deviation has finite gradients where that is zero") {
  const TensorData x = tensor_of<float>({2, 2}, {3, 4, 0, 0}),
                   seed = tensor_of<float>({2, 2}, {1, 0, 1, 2});
  const auto slope = [&](int64_t p) {
    return gradient([&](Value v) { return emit(op::lp_norm, v, LpNormAttrs{1, p}); }, x, seed);
  };
  CHECK(all_close(slope(2), tensor_of<float>({2, 2}, {0.128, -0.096, 0, 0}), 1e-5, 0));
  CHECK(all_close(slope(1), tensor_of<float>({2, 2}, {4. / 49, -3. / 49, 0, 0}), 1e-5, 0));
  const auto normal = [](Value v) { return emit(op::mean_variance_norm, v, AxesAttrs{{1}}); };
  const TensorData equal = tensor_of<float>({1, 2}, {2, 2});
  CHECK(all_close(gradient(normal, equal, tensor_of<float>({1, 2}, {1, 1})),
                  tensor_of<float>({1, 2}, {0, 0}), 0, 0));
  const TensorData steep = gradient(normal, equal, tensor_of<float>({1, 2}, {1, 0}));
  CHECK(all_close(steep, tensor_of<float>({1, 2}, {5e8, -5e8}), 1e-6, 0));
}

TEST_CASE("C15: gradients beside minus infinity, at corners and where functions are flat") {
  const auto unary = [](const OpDef& op, std::initializer_list<double> x) {
    return gradient([&](Value v) { return emit(op, v); }, floats(x));
  };
  CHECK(all_close(unary(op::abs, {0, -2, 3}), floats({0, -1, 1}), 0, 0));
  CHECK(all_close(unary(op::sign, {0, -2, 3}), floats({0, 0, 0}), 0, 0));
  CHECK(all_close(unary(op::relu, {0, -2, 3}), floats({0, 0, 1}), 0, 0));
  CHECK(all_close(unary(op::softplus, {200, -200}), floats({1, 0}), 0, 0));
  CHECK(all_close(unary(op::sigmoid, {-kInf, kInf, 200}), floats({0, 0, 0}), 0, 0));
  CHECK(all_close(unary(op::tanh, {-kInf, kInf}), floats({0, 0}), 0, 0));
  CHECK(all_close(unary(op::silu, {-200, 200}), floats({0, 1}), 0, 1e-30));
  CHECK(all_close(unary(op::hard_swish, {-200, 200}), floats({0, 1}), 0, 0));
  CHECK(all_close(unary(op::erf, {-200, 200}), floats({0, 0}), 0, 0));
  const auto elu = [](Value v) { return emit(op::elu, v, AlphaAttrs{1}); };
  CHECK(all_close(gradient(elu, floats({-kInf, 200, 0})), floats({0, 1, 1}), 0, 0));
  const TensorData masked = floats({-kInf, 1, 1}), seed = floats({0, 1, 0});
  CHECK(all_close(gradient([](Value v) { return ops::log_softmax(v, 0); }, masked, seed),
                  floats({0, 0.5, -0.5}), 1e-6, 0));
  CHECK(all_close(gradient([](Value v) { return ops::softmax(v, 0); }, masked, seed),
                  floats({0, 0.25, -0.25}), 1e-6, 0));
  CHECK(all_close(
      gradient([](Value v) { return ops::softmax(v, 0); }, floats({-kInf, -kInf, -kInf}), seed),
      floats({0, 0, 0}), 0, 0));
}

TEST_CASE("C15: the tanh of gelu is flat where the square of a half float is infinite") {
  for (const GeluForm form : {GeluForm::tanh, GeluForm::erf}) {
    const auto gelu = [&](Value v) { return emit(op::gelu, v, GeluAttrs{form}); };
    CHECK(all_close(gradient(gelu, half({300, -300, 65504, -65504, 0})), half({1, 0, 1, 0, 0.5}), 0,
                    0));
  }
}

TEST_CASE("C17: the gradient of a mean in f16 keeps its digits over many elements") {
  // 1 / 10^6 is 17 units of the smallest number that f16 has.
  const int64_t n = 1000000;
  Graded t;
  const Value x = t.input(must(TensorData::zeros({DType::f16, {n}})));
  const Value seed = t.b.constant(tensor_of<f16>({}, {1000}));
  const TensorData g = t.gradients(ops::mean(x, {{}, false}), seed)[0];
  const double want = static_cast<float>(f16(0.001f));
  CHECK_EQ(g.at(0), want);
  CHECK_EQ(g.at(n - 1), want);
}

TEST_CASE("C17: norms of half floats are taken in f32") {
  const auto value = [](const OpDef& op, const Attrs& attrs, const TensorData& x) {
    Graded t;
    const Value y = emit(op, t.input(x), attrs);
    return must(run_graph(t.g, t.data, std::vector<ValueId>{y.id()}))[0];
  };
  const Attrs all = ReduceAttrs{{}, false};
  CHECK(all_close(value(op::l2_norm, all, half({300, 400})), tensor_of<f16>({}, {500}), 0, 0));
  CHECK(
      all_close(value(op::l2_norm, all, half({3e-5, 4e-5})), tensor_of<f16>({}, {5e-5}), 2e-3, 0));
  const TensorData plane = tensor_of<f16>({1, 1, 2}, {300, 400});
  CHECK(all_close(value(op::global_lp_pool, NormOrderAttrs{2}, plane),
                  tensor_of<f16>({1, 1, 1}, {500}), 0, 0));
  CHECK(all_close(value(op::lp_pool, LpPoolAttrs{2, {.kernel = {2}}}, plane),
                  tensor_of<f16>({1, 1, 1}, {500}), 0, 0));
  CHECK(all_close(value(op::lp_norm, LpNormAttrs{-1, 2}, plane),
                  tensor_of<f16>({1, 1, 2}, {0.6, 0.8}), 1e-3, 0));
  CHECK(all_close(
      value(op::mean_variance_norm, AxesAttrs{{2}}, tensor_of<f16>({1, 1, 2}, {-400, 400})),
      tensor_of<f16>({1, 1, 2}, {-1, 1}), 0, 0));
  CHECK(all_close(value(op::mean_variance_norm, AxesAttrs{{2}}, tensor_of<f16>({1, 1, 2}, {2, 2})),
                  tensor_of<f16>({1, 1, 2}, {0, 0}), 0, 0));
  CHECK(all_close(value(op::lrn, LrnAttrs{.size = 1, .alpha = 1, .beta = 0.5, .bias = 0}, plane),
                  tensor_of<f16>({1, 1, 2}, {1, 1}), 1e-3, 0));
}

TEST_CASE("C17: updates of half floats that meet in one place all count") {
  // In bf16 a sum that grows by ones would end at 256, in f16 at 2048.
  const int64_t n = 5000;
  for (const DType t : {DType::bf16, DType::f16}) {
    Graded g;
    const Value data = g.input(tensor_from({t, {1}}, {0}));
    const Value ones = g.input(tensor_from({t, {n}}, std::vector<double>(size_t{n}, 1)));
    const Value at = g.b.constant(must(TensorData::zeros({DType::i64, {n}})));
    const Value rows = g.b.constant(must(TensorData::zeros({DType::i64, {n, 1}})));
    const Value sums[] = {
        g.b.emit(op::scatter_elements, {data, at, ones}, ScatterAttrs{0, ScatterMode::add}),
        g.b.emit(op::scatter_nd, {data, rows, ones}, ScatterNdAttrs{ScatterMode::add, 0}),
        ops::index_sum(ones, at, 0, 1)};
    for (const Value& sum : sums) {
      const auto out = must(run_graph(g.g, g.data, std::vector<ValueId>{sum.id()}));
      CHECK(all_close(out[0], tensor_from({t, {1}}, {5000}), 0, 0));
    }
  }
}

// 3 rows of 4, and 2 rows of 3 that go into them along axis 0. Expected are PyTorch's numbers.
TEST_CASE("C18: gradients of every scatter whose indices cover a part of the data") {
  const TensorData data = tensor_of<float>({3, 4}, {1, 2, 3, 4, 5, 6, 0, 8, 2, 2, 2, 2}),
                   updates = tensor_of<float>({2, 3}, {2, 0, 3, 5, 1, 6}),
                   weights = tensor_of<float>({3, 4}, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12});
  struct Want {
    ScatterMode mode;
    TensorData by_data, by_updates;
  };
  const Want wants[] = {
      {ScatterMode::add, weights, tensor_of<float>({2, 3}, {1, 10, 3, 9, 2, 7})},
      {ScatterMode::mul, tensor_of<float>({3, 4}, {2, 2, 9, 4, 5, 6, 42, 8, 45, 0, 11, 12}),
       tensor_of<float>({2, 3}, {1, 20, 9, 18, 4, 0})},
      {ScatterMode::max, tensor_of<float>({3, 4}, {0, 2, 1.5, 4, 5, 6, 0, 8, 0, 10, 11, 12}),
       tensor_of<float>({2, 3}, {1, 0, 1.5, 9, 0, 7})},
      {ScatterMode::min, tensor_of<float>({3, 4}, {1, 0, 1.5, 4, 5, 6, 7, 8, 9, 0, 11, 12}),
       tensor_of<float>({2, 3}, {0, 10, 1.5, 0, 2, 0})},
      {ScatterMode::assign, tensor_of<float>({3, 4}, {0, 0, 0, 4, 5, 6, 0, 8, 0, 0, 11, 12}),
       tensor_of<float>({2, 3}, {1, 10, 3, 9, 2, 7})}};
  for (const Want& w : wants) {
    CAPTURE(static_cast<int>(w.mode));
    for (const bool by_position : {false, true}) {
      Graded t;
      const Value x = t.input(data), u = t.input(updates);
      const Value indices = t.b.constant(tensor_of<int64_t>({2, 3}, {0, 2, 0, 2, 0, 1}));
      const Value positions =
          t.b.constant(tensor_of<int64_t>({2, 3, 2}, {0, 0, 2, 1, 0, 2, 2, 0, 0, 1, 1, 2}));
      const Value y =
          by_position ? t.b.emit(op::scatter_nd, {x, positions, u}, ScatterNdAttrs{w.mode, 0})
                      : t.b.emit(op::scatter_elements, {x, indices, u}, ScatterAttrs{0, w.mode});
      const auto grads = t.gradients(y, t.b.constant(weights));
      CHECK(all_close(grads[0], w.by_data, 0, 0));
      CHECK(all_close(grads[1], w.by_updates, 0, 0));
    }
  }
  Graded t;
  const Value at = t.b.constant(tensor_of<int64_t>({2, 3}, {0, 2, 0, 2, 0, 1}));
  const Value picked = t.b.emit(op::gather_elements, {t.input(data), at}, AxisAttrs{0});
  const auto grads =
      t.gradients(picked, t.b.constant(tensor_of<float>({2, 3}, {1, 2, 3, 4, 5, 6})));
  CHECK(all_close(grads[0], tensor_of<float>({3, 4}, {1, 5, 3, 0, 0, 0, 6, 0, 4, 2, 0, 0}), 0, 0));
}

}  // namespace hone::test
