// SPDX-License-Identifier: Apache-2.0
#include "hone/loss_scaler.hpp"

#include <cmath>

#include "hone/schedule.hpp"
#include "tests/support/check.hpp"

namespace hone {
namespace {

using test::must;

Tensor parameter(double value, DType dtype = DType::f32) {
  return Tensor::scalar(value, dtype).requires_grad_();
}

TEST_CASE("C24: a skipped step moves neither weights nor counts, and gradients are unscaled once") {
  Tensor w = parameter(1);
  Optimizer optimizer = optim::sgd({w}, 0.1);
  const Schedule rate = schedule::steps(0.1, 1, 0.5);
  LossScaler scaler({.scale = 65536});

  REQUIRE_OK(scaler.scaled(w * INFINITY).backward());
  CHECK(must(scaler.step(optimizer)) == ScaledStep::skipped);
  scaler.update();
  CHECK_EQ(w.item<double>(), 1);
  CHECK_EQ(scaler.scale(), 32768);
  CHECK_EQ(optimizer.steps(), 0);
  CHECK_EQ(rate(optimizer.steps()), 0.1);

  optimizer.zero_grad();
  REQUIRE_OK(scaler.scaled(w * 2).backward());
  CHECK_EQ(w.grad().item<double>(), 2 * 32768);
  REQUIRE_OK(scaler.unscale(optimizer));
  CHECK_EQ(must(clip_grad_norm(std::vector{w}, 10)), 2);
  CHECK(must(scaler.step(optimizer)) == ScaledStep::taken);
  CHECK_EQ(w.grad().item<double>(), 2);
  CHECK_EQ(w.item<double>(), doctest::Approx(0.8).epsilon(1e-6));
  CHECK_EQ(optimizer.steps(), 1);
  CHECK_EQ(rate(optimizer.steps()), 0.05);
}

TEST_CASE("C24: unscaling or stepping twice before an update is an error that changes nothing") {
  Tensor w = parameter(1);
  Optimizer optimizer = optim::sgd({w}, 0.1);
  LossScaler scaler;
  REQUIRE_OK(scaler.scaled(w * 2).backward());
  REQUIRE_OK(scaler.unscale(optimizer));
  CHECK_ERROR(scaler.unscale(optimizer), Code::invalid_argument, "have been unscaled since");
  CHECK_EQ(w.grad().item<double>(), 2);
  CHECK(must(scaler.step(optimizer)) == ScaledStep::taken);
  CHECK_ERROR(scaler.step(optimizer), Code::invalid_argument, "has stepped since");
  CHECK_EQ(optimizer.steps(), 1);
  scaler.update();
  CHECK_OK(scaler.unscale(optimizer));
}

TEST_CASE("C24: steps skipped by hand do not hold the scaler up") {
  Tensor w = parameter(1);
  Optimizer optimizer = optim::sgd({w}, 0.1);
  LossScaler scaler({.scale = 1024});
  scaler.update();  // nothing has happened: nothing to learn from
  CHECK_EQ(scaler.scale(), 1024);
  CHECK_EQ(scaler.good_steps(), 0);
  for (const double slope : {2.0, static_cast<double>(NAN)}) {
    optimizer.zero_grad();
    REQUIRE_OK(scaler.scaled(w * slope).backward());
    REQUIRE_OK(scaler.unscale(optimizer));
    scaler.update();  // without a step
  }
  CHECK_EQ(scaler.scale(), 512);
  optimizer.zero_grad();
  REQUIRE_OK(scaler.scaled(w * 2).backward());
  CHECK(must(scaler.step(optimizer)) == ScaledStep::taken);
  CHECK_EQ(w.item<double>(), doctest::Approx(0.8).epsilon(1e-6));
}

TEST_CASE("the scale grows after enough good steps, and one overflow begins the count anew") {
  Tensor w = parameter(0);
  Optimizer optimizer = optim::sgd({w}, 0);
  LossScaler scaler({.scale = 8, .growth = 4, .growth_interval = 3});
  const auto iterate = [&](double slope) {
    optimizer.zero_grad();
    REQUIRE_OK(scaler.scaled(w * slope).backward());
    REQUIRE_OK(scaler.step(optimizer));
    scaler.update();
    return scaler.scale();
  };
  CHECK_EQ(iterate(1), 8);
  CHECK_EQ(iterate(1), 8);
  CHECK_EQ(iterate(INFINITY), 4);
  CHECK_EQ(iterate(1), 4);
  CHECK_EQ(iterate(1), 4);
  CHECK_EQ(scaler.good_steps(), 2);
  LossScaler other;
  other.restore(scaler.scale(), scaler.good_steps());
  CHECK_EQ(iterate(1), 16);
  CHECK_EQ(other.scale(), 4);
  CHECK_EQ(other.good_steps(), 2);
}

TEST_CASE("a gradient too small for 16 bits arrives through the scale") {
  for (const bool scaling : {false, true}) {
    // dL/dw = 2^-26, half of the smallest number that f16 has, rounds to 0.
    Tensor w = parameter(1, DType::f16);
    Optimizer optimizer = optim::sgd({w}, 65536);
    LossScaler scaler({.scale = scaling ? 1024.0 : 1.0});
    REQUIRE_OK(scaler.scaled(w.to_f32() * std::ldexp(1.0, -26)).backward());
    CHECK(must(scaler.step(optimizer)) == ScaledStep::taken);
    CHECK_EQ(w.grad().item<double>(), scaling ? std::ldexp(1.0, -26) : 0);
    CHECK_EQ(w.item<double>(), scaling ? 1 - std::ldexp(1.0, -10) : 1);
  }
}

TEST_CASE("an overflow in one optimizer leaves the other's step alone, and lowers the scale once") {
  Tensor a = parameter(1), b = parameter(1);
  Optimizer first = optim::sgd({a}, 1), second = optim::sgd({b}, 1);
  LossScaler scaler({.scale = 4});
  REQUIRE_OK(scaler.scaled(a * INFINITY + b).backward());
  REQUIRE_OK(scaler.unscale(second));
  CHECK(must(scaler.step(first)) == ScaledStep::skipped);
  CHECK(must(scaler.step(second)) == ScaledStep::taken);
  scaler.update();
  CHECK_EQ(a.item<double>(), 1);
  CHECK_EQ(b.item<double>(), 0);
  CHECK_EQ(scaler.scale(), 2);
}

TEST_CASE("bad options of loss scaling are refused by name") {
  Tensor w = parameter(1);
  Optimizer optimizer = optim::sgd({w}, 1);
  const auto refused = [&](const LossScalerOptions& o, std::string_view what) {
    LossScaler scaler(o);
    CHECK_ERROR(scaler.step(optimizer), Code::invalid_argument, what);
  };
  refused({.scale = 0}, "the scale must be a number above 0, got 0");
  refused({.scale = INFINITY}, "the scale");
  refused({.growth = 0.5}, "growth must be 1 or more");
  refused({.backoff = 1}, "backoff must be between 0 and 1");
  refused({.growth_interval = 0}, "growth_interval");
}

}  // namespace
}  // namespace hone
