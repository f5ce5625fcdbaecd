// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "tests/ops/gradient_check.hpp"

namespace hone::test {

namespace {

TensorData one(double v, DType t = DType::f32) { return tensor_from({t, {1}}, {v}); }
TensorData scalar(double v, DType t = DType::f32) { return tensor_from({t, {}}, {v}); }
TensorData step(double v) { return scalar(v, DType::i64); }
std::vector<TensorData> run(const OpDef& op, const Attrs& attrs,
                            std::initializer_list<TensorData> in) {
  return must(evaluate(op, attrs, in));
}

// A parameter that starts at 1 and its state, moved by gradients of 1, 2, 3 with a learning rate of
// 0.1.
struct Walk {
  double param = 1, velocity = 0;
};
Walk sgd_walk(const SgdAttrs& attrs) {
  Walk w;
  for (int k = 1; k <= 3; ++k) {
    const auto out = run(op::sgd_update, attrs,
                         {one(w.param, DType::f64), one(w.velocity, DType::f64), one(k, DType::f64),
                          scalar(0.1, DType::f64), step(k)});
    w = {out[0].at(0), out[1].at(0)};
  }
  return w;
}

}  // namespace

TEST_CASE("sgd_update without velocity steps against the gradient") {
  const auto out =
      run(op::sgd_update, SgdAttrs{.weight_decay = 0.5}, {one(2), {}, one(3), scalar(0.1)});
  REQUIRE_EQ(out.size(), 1);
  CHECK(all_close(out[0], one(2 - 0.1 * (3 + 0.5 * 2)), 1e-6, 0));
}

TEST_CASE("sgd_update takes PyTorch's steps with momentum, dampening and nesterov") {
  // velocities 1, 2.5, 4.25
  const Walk plain = sgd_walk({.momentum = 0.5});
  CHECK_EQ(plain.velocity, doctest::Approx(4.25));
  CHECK_EQ(plain.param, doctest::Approx(1 - 0.1 * (1 + 2.5 + 4.25)));
  // The first velocity is the gradient itself: 1, 0.5 + 0.8 * 2, 1.05 + 0.8 * 3
  const Walk damped = sgd_walk({.momentum = 0.5, .dampening = 0.2});
  CHECK_EQ(damped.velocity, doctest::Approx(3.45));
  CHECK_EQ(damped.param, doctest::Approx(1 - 0.1 * (1 + 2.1 + 3.45)));
  const Walk nesterov = sgd_walk({.momentum = 0.5, .nesterov = true});
  CHECK_EQ(nesterov.param, doctest::Approx(1 - 0.1 * (1 + 0.5 + 2 + 1.25 + 3 + 2.125)));
}

TEST_CASE("C21: AdamW decays the weight itself, Adam with L2 goes through the gradient") {
  const auto adamw = run(op::adam_update, AdamAttrs{.weight_decay = 0.1, .decoupled = true},
                         {one(1), one(0), one(0), one(0), scalar(0.1), step(1)});
  CHECK(all_close(adamw[0], one(0.99), 1e-6, 0));
  const auto l2 = run(op::adam_update, AdamAttrs{.weight_decay = 0.1},
                      {one(1), one(0), one(0), one(0), scalar(0.1), step(1)});
  CHECK(all_close(l2[0], one(0.9), 1e-6, 0));
}

TEST_CASE("C21: moments are f32 for narrower weights, which keep what half a float would lose") {
  for (const DType t : {DType::f16, DType::bf16}) {
    const auto out = run(op::adam_update, AdamAttrs{.weight_decay = 0.1, .decoupled = true},
                         {one(1, t), one(0), one(0), one(1e-4, t), scalar(0.1), step(1)});
    REQUIRE_EQ(out[2].dtype(), DType::f32);
    CHECK_EQ(out[1].dtype(), DType::f32);
    CHECK_EQ(out[2].at(0), doctest::Approx(1e-11).epsilon(0.02));  // 0 in f16
  }
}

TEST_CASE("C23: bias is corrected, and epsilon is added to the corrected root") {
  const auto a = run(op::adam_update, {}, {one(1), one(0), one(0), one(1), scalar(0.1), step(1)});
  CHECK(all_close(a[0], one(0.9), 1e-6, 0));
  const auto b = run(op::adam_update, {}, {one(0), one(0), one(0), one(1e-8), scalar(1), step(1)});
  CHECK(all_close(b[0], one(-0.5), 1e-5, 0));
}

TEST_CASE("adam_update over several steps agrees with the formula") {
  const AdamAttrs attrs{.beta1 = 0.8, .beta2 = 0.9, .eps = 1e-3, .weight_decay = 0.2};
  for (const bool decoupled : {false, true}) {
    AdamAttrs a = attrs;
    a.decoupled = decoupled;
    double w = 1, m = 0, v = 0;
    TensorData tw = one(1, DType::f64), tm = one(0, DType::f64), tv = one(0, DType::f64);
    for (int k = 1; k <= 4; ++k) {
      const double raw = k - 2.5, g = decoupled ? raw : raw + 0.2 * w;
      m = 0.8 * m + 0.2 * g;
      v = 0.9 * v + 0.1 * g * g;
      if (decoupled) w *= 1 - 0.05 * 0.2;
      w -= 0.05 * (m / (1 - std::pow(0.8, k))) / (std::sqrt(v / (1 - std::pow(0.9, k))) + 1e-3);
      const auto out = run(op::adam_update, a,
                           {tw, tm, tv, one(raw, DType::f64), scalar(0.05, DType::f64), step(k)});
      tw = out[0], tm = out[1], tv = out[2];
      CHECK_EQ(tw.at(0), doctest::Approx(w).epsilon(1e-12));
      CHECK_EQ(tm.at(0), doctest::Approx(m).epsilon(1e-12));
      CHECK_EQ(tv.at(0), doctest::Approx(v).epsilon(1e-12));
    }
  }
}

TEST_CASE("16-bit parameters have f32 moments and take gradients of either type") {
  for (const DType t : {DType::f16, DType::bf16})
    for (const DType g : {t, DType::f32}) {
      const auto out =
          run(op::adam_update, {}, {one(1, t), one(0), one(0), one(1, g), scalar(0.5), step(1)});
      CHECK(same_bits(out[0], one(0.5, t)));
      CHECK_EQ(out[1].dtype(), DType::f32);
      const auto sgd = run(op::sgd_update, SgdAttrs{.momentum = 0.5},
                           {one(1, t), one(0), one(1, g), scalar(0.5)});
      CHECK(same_bits(sgd[0], one(0.5, t)));
      CHECK_EQ(sgd[1].dtype(), DType::f32);
    }
}

TEST_CASE("optimizer kernels agree with their decompositions") {
  const TensorData p = random_tensor({DType::f32, {5}}, 1), g = random_tensor({DType::f32, {5}}, 2);
  const TensorData m = random_tensor({DType::f32, {5}}, 3),
                   v = random_tensor({DType::f32, {5}}, 4, 0, 1);
  const auto check = [&](const OpDef& op, const Attrs& attrs, const std::vector<TensorData>& in) {
    const auto got = must(evaluate(op, attrs, in)),
               want = must(evaluate_decomposition(op, attrs, in));
    for (size_t i = 0; i < got.size(); ++i) CHECK(all_close(got[i], want[i], 1e-5, 1e-6));
  };
  for (const double k : {1.0, 7.0}) {
    check(op::sgd_update, SgdAttrs{0.9, 0.3, 0.1, false}, {p, m, g, scalar(0.1), step(k)});
    check(op::adam_update, AdamAttrs{.weight_decay = 0.1}, {p, m, v, g, scalar(0.1), step(k)});
    check(op::adam_update, AdamAttrs{.weight_decay = 0.1, .decoupled = true},
          {p, m, v, g, scalar(0.1), scalar(k)});
  }
  check(op::sgd_update, SgdAttrs{.momentum = 0.9, .nesterov = true}, {p, m, g, scalar(0.1)});
  check(op::sgd_update, SgdAttrs{.weight_decay = 0.1}, {p, {}, g, scalar(0.1)});
}

TEST_CASE("a step of an optimizer can be differentiated") {
  const auto d = [](double lo, double hi, uint64_t seed) {
    return random_tensor({DType::f64, {3}}, seed, lo, hi);
  };
  check_gradient(op::sgd_update, SgdAttrs{0.9, 0, 0.1, true},
                 {d(-1, 1, 1), d(-1, 1, 2), d(-1, 1, 3), scalar(0.1, DType::f64)});
  check_gradient(
      op::adam_update, AdamAttrs{.weight_decay = 0.1, .decoupled = true},
      {d(-1, 1, 1), d(-1, 1, 2), d(0.5, 1, 3), d(-1, 1, 4), scalar(0.1, DType::f64), step(3)});
}

TEST_CASE("optimizers say what does not fit") {
  const TensorData w = random_tensor({DType::f16, {2}}, 1),
                   wide = random_tensor({DType::f32, {2}}, 1);
  CHECK_ERROR(evaluate(op::adam_update, {}, {w, w, w, w, scalar(0.1), step(1)}),
              Code::invalid_argument,
              "adam_update: the first moment is f16[2], expected f32[2] for a parameter f16[2]");
  CHECK_ERROR(evaluate(op::adam_update, {}, {w, wide, wide, one(1), scalar(0.1), step(1)}),
              Code::invalid_argument, "the gradient is f32[1], the parameter f16[2]");
  CHECK_ERROR(evaluate(op::adam_update, {}, {w, wide, wide, w, one(0.1), step(1)}),
              Code::invalid_argument,
              "the learning rate is f32[1], expected a floating-point scalar");
  CHECK_ERROR(evaluate(op::adam_update, {}, {w, wide, wide, w, scalar(0.1), step(0)}),
              Code::invalid_argument, "the step is 0; steps count from 1");
  CHECK_ERROR(evaluate(op::sgd_update, SgdAttrs{.momentum = 0.9}, {w, {}, w, scalar(0.1)}),
              Code::invalid_argument, "momentum is 0.9, but there is no velocity");
  CHECK_ERROR(evaluate(op::sgd_update, SgdAttrs{.momentum = 0.9, .dampening = 0.1},
                       {w, wide, w, scalar(0.1)}),
              Code::invalid_argument, "the step (input 4) is missing");
  CHECK_ERROR(evaluate(op::sgd_update, SgdAttrs{.nesterov = true}, {w, wide, w, scalar(0.1)}),
              Code::invalid_argument, "nesterov needs momentum");
}

}  // namespace hone::test
