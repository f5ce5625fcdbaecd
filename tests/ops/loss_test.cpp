// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "hone/autodiff.hpp"
#include "tests/ops/gradient_check.hpp"

namespace hone::test {

namespace {

TensorData doubles(const Shape& shape, uint64_t seed) {
  return random_tensor({DType::f64, shape}, seed, -2, 2);
}
TensorData labels(const Shape& shape, std::initializer_list<double> v) {
  return tensor_of<int64_t>(shape, v);
}
TensorData run(const OpDef& op, const Attrs& attrs, std::initializer_list<TensorData> in) {
  return must(evaluate(op, attrs, in))[0];
}
// The loss of logits and labels, and its gradient by the logits for an upstream gradient of 1.
std::pair<double, TensorData> loss_and_grad(const CrossEntropyAttrs& attrs,
                                            const TensorData& logits, const TensorData& y) {
  const TensorData loss = run(op::cross_entropy, attrs, {logits, y});
  const TensorData one = tensor_from(loss.type(), {1});
  return {loss.at(0), run(op::cross_entropy_grad, attrs, {logits, y, {}, one})};
}
double log_softmax_at(std::initializer_list<double> z, size_t i) {
  double sum = 0;
  for (double v : z) sum += std::exp(v);
  return z.begin()[i] - std::log(sum);
}

}  // namespace

TEST_CASE("C28a: smoothing leaves ignored rows out") {
  const auto [loss, grad] = loss_and_grad(
      {.label_smoothing = 0.2}, tensor_of<float>({2, 2}, {2, 0, 5, -5}), labels({2}, {0, -100}));
  CHECK_EQ(loss, doctest::Approx(0.326928).epsilon(1e-6));
  const double p = 1 / (1 + std::exp(-2.0));
  CHECK(all_close(grad, tensor_of<float>({2, 2}, {p - 0.9, 1 - p - 0.1, 0, 0}), 1e-6, 1e-7));
}

TEST_CASE("C28b: when all rows are ignored, loss and gradient are zero") {
  for (const double smoothing : {0.0, 0.2}) {
    const auto [loss, grad] =
        loss_and_grad({.label_smoothing = smoothing}, tensor_of<float>({2, 2}, {2, 0, 5, -5}),
                      labels({2}, {-100, -100}));
    CHECK_EQ(loss, 0);
    CHECK(same_bits(grad, tensor_of<float>({2, 2}, {0, 0, 0, 0})));
  }
}

TEST_CASE("C28c: what stands in an ignored row does not matter") {
  for (const float what : {-INFINITY, INFINITY, NAN}) {
    const auto [loss, grad] =
        loss_and_grad({}, tensor_of<float>({2, 2}, {2, 0, what, what}), labels({2}, {0, -100}));
    CHECK_EQ(loss, doctest::Approx(0.126928).epsilon(1e-5));
    CHECK_EQ(grad.at(2), 0);
    CHECK_EQ(grad.at(3), 0);
  }
}

TEST_CASE("cross_entropy: class weights with an ignored row, as in PyTorch") {
  const TensorData z = tensor_of<double>({3, 2}, {2, 0, 1, 1, 0, 3}), y = labels({3}, {0, -100, 1});
  const TensorData w = tensor_of<double>({2}, {0.5, 2});
  const double a = -log_softmax_at({2, 0}, 0), b = -log_softmax_at({0, 3}, 1);
  CHECK_EQ(run(op::cross_entropy, CrossEntropyAttrs{}, {z, y, w}).at(0),
           doctest::Approx((0.5 * a + 2 * b) / 2.5));
  CHECK_EQ(run(op::cross_entropy, CrossEntropyAttrs{.reduction = Reduction::sum}, {z, y, w}).at(0),
           doctest::Approx(0.5 * a + 2 * b));
  CHECK(
      all_close(run(op::cross_entropy, CrossEntropyAttrs{.reduction = Reduction::none}, {z, y, w}),
                tensor_of<double>({3}, {0.5 * a, 0, 2 * b}), 1e-12, 0));
  // Smoothing takes 0.1 / 2 of each class's weighted term.
  const double other_a = -log_softmax_at({2, 0}, 1), other_b = -log_softmax_at({0, 3}, 0);
  const double smooth = 0.05 * (0.5 * a + 2 * other_a + 2 * b + 0.5 * other_b);
  CHECK_EQ(run(op::cross_entropy, CrossEntropyAttrs{.label_smoothing = 0.1}, {z, y, w}).at(0),
           doctest::Approx((0.9 * (0.5 * a + 2 * b) + smooth) / 2.5));
}

TEST_CASE("cross_entropy takes the class axis wherever it is") {
  const TensorData middle = tensor_of<double>({1, 2, 2}, {2, 1, 0, 4});  // (N, C, positions)
  const TensorData last = tensor_of<double>({1, 2, 2}, {2, 0, 1, 4});    // (N, positions, C)
  const double want = -(log_softmax_at({2, 0}, 0) + log_softmax_at({1, 4}, 1)) / 2;
  CHECK_EQ(run(op::cross_entropy, CrossEntropyAttrs{}, {middle, labels({1, 2}, {0, 1})}).at(0),
           doctest::Approx(want));
  CHECK_EQ(
      run(op::cross_entropy, CrossEntropyAttrs{.axis = -1}, {last, labels({1, 2}, {0, 1})}).at(0),
      doctest::Approx(want));
  CHECK_EQ(
      run(op::cross_entropy, CrossEntropyAttrs{}, {tensor_of<double>({2}, {2, 0}), labels({}, {0})})
          .at(0),
      doctest::Approx(-log_softmax_at({2, 0}, 0)));
}

TEST_CASE("cross_entropy takes i32 labels and half floats, whose loss is f32") {
  const TensorData y = tensor_of<int32_t>({2}, {0, 1});
  for (const DType t : {DType::f16, DType::bf16}) {
    const TensorData z = tensor_from({t, {2, 2}}, {2, 0, 0, 30000});
    const TensorData loss = run(op::cross_entropy, {}, {z, y});
    REQUIRE_EQ(loss.dtype(), DType::f32);
    CHECK_EQ(loss.at(0), doctest::Approx(0.126928 / 2).epsilon(1e-5));
    CHECK_EQ(run(op::cross_entropy_grad, {}, {z, y, {}, tensor_of<float>({}, {1})}).dtype(), t);
  }
}

TEST_CASE("cross_entropy stays finite for certain and impossible labels") {
  const auto [loss, grad] =
      loss_and_grad({}, tensor_of<float>({2, 2}, {1e30, -1e30, 0, -INFINITY}), labels({2}, {0, 0}));
  CHECK_EQ(loss, 0);
  CHECK(all_close(grad, tensor_of<float>({2, 2}, {0, 0, 0, 0}), 0, 0));
}

TEST_CASE(
    "cross_entropy names a label that is out of range, its position and the number of classes") {
  const TensorData z = random_tensor({DType::f32, {3, 10}}, 1);
  CHECK_ERROR(evaluate(op::cross_entropy, {}, {z, labels({3}, {1, 2, 10})}), Code::invalid_argument,
              "cross_entropy: the label 10 at position 2 is outside [0, 10): there are 10 classes");
  CHECK_ERROR(evaluate(op::cross_entropy, {}, {z, labels({3}, {1, -1, 2})}), Code::invalid_argument,
              "the label -1 at position 1");
  CHECK_ERROR(evaluate(op::cross_entropy_grad, {},
                       {z, labels({3}, {1, 2, 10}), {}, tensor_of<float>({}, {1})}),
              Code::invalid_argument, "the label 10 at position 2");
}

TEST_CASE("cross_entropy says that it wants indices when it is given one-hot labels") {
  const TensorData z = random_tensor({DType::f32, {3, 10}}, 1);
  const std::string_view message =
      "cross_entropy: expects class indices (i32 or i64) of shape [3] as labels, got f32[3, 10]; "
      "if these are one-hot or "
      "probabilities, take their argmax over the class axis 1 first";
  CHECK_ERROR(evaluate(op::cross_entropy, {}, {z, z}), Code::invalid_argument, message);
  CHECK_ERROR(evaluate(op::cross_entropy, {}, {z, random_tensor({DType::i64, {3, 10}}, 1)}),
              Code::invalid_argument, "got i64[3, 10]; if these are one-hot");
  CHECK_ERROR(evaluate(op::cross_entropy, {}, {z, random_tensor({DType::f32, {3}}, 1)}),
              Code::invalid_argument, "got f32[3]");
  CHECK_ERROR(
      evaluate(op::cross_entropy, {}, {z, labels({2}, {0, 1})}), Code::invalid_argument,
      "labels have shape [2], expected [3]: that of the logits [3, 10] without the class axis 1");
  CHECK_ERROR(evaluate(op::cross_entropy, {},
                       {z, labels({3}, {0, 1, 2}), random_tensor({DType::f32, {3}}, 1)}),
              Code::invalid_argument,
              "class weights have shape [3], expected one for each of 10 classes");
  CHECK_ERROR(evaluate(op::cross_entropy, CrossEntropyAttrs{.label_smoothing = 2},
                       {z, labels({3}, {0, 1, 2})}),
              Code::invalid_argument, "label_smoothing is 2");
}

namespace {
std::vector<CrossEntropyAttrs> all_attrs() {
  std::vector<CrossEntropyAttrs> all;
  for (const double smoothing : {0.0, 0.3})
    for (const Reduction r : {Reduction::mean, Reduction::sum, Reduction::none})
      all.push_back({.ignore_index = 1, .label_smoothing = smoothing, .reduction = r});
  return all;
}
}  // namespace

TEST_CASE("cross_entropy and its gradient agree with their decompositions") {
  for (const CrossEntropyAttrs& attrs : all_attrs())
    for (const bool weighted : {false, true}) {
      const TensorData z = doubles({2, 3, 2}, 1), y = labels({2, 2}, {0, 1, 2, 2});
      const TensorData w = weighted ? tensor_of<double>({3}, {0.5, 1, 2}) : TensorData();
      const std::vector<TensorData> in = {z, y, w};
      const TensorData loss = must(evaluate(op::cross_entropy, attrs, in))[0];
      CHECK(all_close(must(evaluate_decomposition(op::cross_entropy, attrs, in))[0], loss, 1e-12,
                      1e-12));
      const std::vector<TensorData> grad_in = {z, y, w, random_tensor(loss.type(), 5)};
      CHECK(all_close(must(evaluate_decomposition(op::cross_entropy_grad, attrs, grad_in))[0],
                      must(evaluate(op::cross_entropy_grad, attrs, grad_in))[0], 1e-12, 1e-12));
    }
}

TEST_CASE("cross_entropy has first and second derivatives") {
  for (const CrossEntropyAttrs& attrs : all_attrs())
    for (const bool weighted : {false, true}) {
      const GraphFunction f = [&](Builder& b, std::span<const Value> in) {
        const Value w = weighted ? b.constant(tensor_of<double>({3}, {0.5, 1, 2})) : Value();
        return std::vector<Value>{b.emit(op::cross_entropy, {in[0], in[1], w}, attrs)};
      };
      check_gradient(f,
                     std::vector<TensorData>{doubles({2, 3, 2}, 1), labels({2, 2}, {0, 1, 2, 2})},
                     Order::second);
    }
}

// ---- losses written with operators

namespace {

enum class Loss : uint8_t { mse, l1, smooth_l1, huber, bce };
GraphFunction loss_function(Loss which, Reduction reduction = Reduction::none) {
  return [=](Builder&, std::span<const Value> in) -> std::vector<Value> {
    switch (which) {
      case Loss::mse:
        return {loss::mse(in[0], in[1], reduction)};
      case Loss::l1:
        return {loss::l1(in[0], in[1], reduction)};
      case Loss::smooth_l1:
        return {loss::smooth_l1(in[0], in[1], 0.5, reduction)};
      case Loss::huber:
        return {loss::huber(in[0], in[1], 0.5, reduction)};
      case Loss::bce:
        break;
    }
    return {loss::bce_with_logits(in[0], in[1], reduction)};
  };
}
TensorData losses_of(Loss which, const TensorData& x, const TensorData& t,
                     Reduction r = Reduction::none) {
  return must(evaluate(loss_function(which, r), std::vector<TensorData>{x, t}))[0];
}
// d(sum of losses)/dx
TensorData slope(Loss which, const TensorData& x, const TensorData& t) {
  const GraphFunction f = [=](Builder& b, std::span<const Value> in) -> std::vector<Value> {
    auto grads = differentiate(b, loss_function(which, Reduction::sum)(b, in)[0], in.first(1));
    if (grads.ok()) return *grads;
    b.fail(grads.status());
    return {Value()};
  };
  return must(evaluate(f, std::vector<TensorData>{x, t}))[0];
}

}  // namespace

TEST_CASE("losses have the values of their formulas") {
  const TensorData x = tensor_of<double>({4}, {0, 1, 0.25, -2}),
                   t = tensor_of<double>({4}, {0, 0, 0, 0});
  CHECK(all_close(losses_of(Loss::mse, x, t), tensor_of<double>({4}, {0, 1, 0.0625, 4}), 1e-12, 0));
  CHECK(all_close(losses_of(Loss::l1, x, t), tensor_of<double>({4}, {0, 1, 0.25, 2}), 1e-12, 0));
  CHECK(all_close(losses_of(Loss::smooth_l1, x, t), tensor_of<double>({4}, {0, 0.75, 0.0625, 1.75}),
                  1e-12, 0));
  CHECK(all_close(losses_of(Loss::huber, x, t), tensor_of<double>({4}, {0, 0.375, 0.03125, 0.875}),
                  1e-12, 0));
  CHECK(all_close(losses_of(Loss::mse, x, t, Reduction::mean), tensor_of<double>({}, {5.0625 / 4}),
                  1e-12, 0));
  CHECK(all_close(losses_of(Loss::mse, x, t, Reduction::sum), tensor_of<double>({}, {5.0625}),
                  1e-12, 0));
}

TEST_CASE("bce_with_logits is finite and keeps its digits for every finite logit") {
  const TensorData z = tensor_of<float>({5}, {0, 20, -20, 1e30, -1e30}),
                   t = tensor_of<float>({5}, {1, 1, 0, 1, 1});
  const double small = std::log1p(std::exp(-20.0));
  CHECK(all_close(losses_of(Loss::bce, z, t),
                  tensor_of<float>({5}, {std::log(2.0), small, small, 0, 1e30}), 1e-6, 0));
  CHECK(all_close(slope(Loss::bce, z, t), tensor_of<float>({5}, {-0.5, -small, small, 0, -1}), 1e-6,
                  0));
}

TEST_CASE("losses have the right slope where prediction and target meet, and far away") {
  const TensorData x = tensor_of<float>({3}, {0, 1e20, -1e20}),
                   t = tensor_of<float>({3}, {0, 0, 0});
  CHECK(all_close(slope(Loss::mse, x, t), tensor_of<float>({3}, {0, 2e20, -2e20}), 1e-6, 0));
  CHECK(all_close(slope(Loss::l1, x, t), tensor_of<float>({3}, {0, 1, -1}), 1e-6, 0));
  CHECK(all_close(slope(Loss::smooth_l1, x, t), tensor_of<float>({3}, {0, 1, -1}), 1e-6, 0));
  CHECK(all_close(slope(Loss::huber, x, t), tensor_of<float>({3}, {0, 0.5, -0.5}), 1e-6, 0));
}

TEST_CASE("losses have first and second derivatives") {
  for (const Loss which : {Loss::mse, Loss::l1, Loss::smooth_l1, Loss::huber, Loss::bce})
    for (const Reduction r : {Reduction::none, Reduction::mean})
      check_gradient(loss_function(which, r),
                     std::vector<TensorData>{doubles({2, 3}, 1), doubles({2, 3}, 2)},
                     Order::second);
}

TEST_CASE("losses of half floats are f32") {
  const TensorData x = tensor_of<f16>({2}, {300, -300}), t = tensor_of<f16>({2}, {0, 0});
  CHECK(all_close(losses_of(Loss::mse, x, t, Reduction::mean), tensor_of<float>({}, {90000}), 1e-6,
                  0));
}

TEST_CASE("losses refuse shapes that would broadcast") {
  CHECK_ERROR(evaluate(loss_function(Loss::mse),
                       std::vector<TensorData>{doubles({3, 1}, 1), doubles({3}, 2)}),
              Code::invalid_argument, "mse: the prediction is f64[3, 1], the target f64[3]");
}

}  // namespace hone::test
