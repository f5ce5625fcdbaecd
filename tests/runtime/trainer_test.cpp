// SPDX-License-Identifier: Apache-2.0
#include "hone/trainer.hpp"

#include <cmath>
#include <limits>

#include "tests/runtime/models.hpp"

namespace hone::test {

namespace {

TrainerOptions options(OptimizerOptions optimizer = {}) {
  TrainerOptions o;
  o.loss = cross_entropy_loss;
  o.optimizer = optimizer;
  return o;
}

TensorData state_of(const Trainer& t, std::string_view name) {
  const Trainer::State s = must(t.save());
  for (const auto& e : s.entries)
    if (e.name == name) return e.data;
  FAIL("no state " << std::string(name));
  return {};
}

}  // namespace

TEST_CASE("training lowers the loss and leaves the model alone") {
  const Model m = small_mlp();
  const TensorData before = must(m.graph.value(m.graph.find("fc1.weight")).data.clone());
  Trainer t = must(Trainer::create(m, options({.lr = 0.02})));
  const auto batch = two_clouds(64, 7);
  const double first = must(t.step(batch)).loss;
  double last = first;
  for (int i = 0; i < 150; ++i) last = must(t.step(batch)).loss;
  CHECK_LT(last, 0.25 * first);
  CHECK_EQ(t.steps(), 151);
  CHECK(same_bits(m.graph.value(m.graph.find("fc1.weight")).data, before));
  CHECK_LT(must(t.evaluate(batch)), last + 1e-3);
}

TEST_CASE("one step of gradient descent moves each parameter against its gradient") {
  const Model m = small_mlp(WithDropout::no, DType::f64);
  Trainer t = must(Trainer::create(m, options({.kind = OptimizerKind::sgd, .lr = 0.1})));
  const auto batch = two_clouds(5, 3, DType::f64);
  const auto grads = must(t.gradients(batch));
  REQUIRE_EQ(grads.size(), 4);
  const TensorData before = state_of(t, grads[0].name);
  REQUIRE_OK(t.step(batch));
  const TensorData after = state_of(t, grads[0].name);
  for (int64_t i = 0; i < before.numel(); ++i)
    CHECK_EQ(after.at(i), doctest::Approx(before.at(i) - 0.1 * grads[0].data.at(i)).epsilon(1e-12));
}

TEST_CASE("dampening leaves the first step's velocity whole") {
  // torch.optim.SGD: v1 = g1, v2 = momentum v1 + (1 - dampening) g2.
  const Model m = small_mlp(WithDropout::no, DType::f64);
  Trainer t = must(Trainer::create(
      m, options({.kind = OptimizerKind::sgd, .lr = 0.1, .momentum = 0.9, .dampening = 0.5})));
  const auto batch = two_clouds(5, 3, DType::f64);
  const double g1 = must(t.gradients(batch))[0].data.at(0);
  REQUIRE_OK(t.step(batch));
  CHECK_EQ(state_of(t, "fc1.weight/velocity").at(0), doctest::Approx(g1).epsilon(1e-12));
  const double g2 = must(t.gradients(batch))[0].data.at(0);
  REQUIRE_OK(t.step(batch));
  CHECK_EQ(state_of(t, "fc1.weight/velocity").at(0),
           doctest::Approx(0.9 * g1 + 0.5 * g2).epsilon(1e-12));
}

TEST_CASE("gradients agree with differences of the loss") {
  const Model m = small_mlp(WithDropout::no, DType::f64);
  const auto batch = two_clouds(6, 4, DType::f64);
  Trainer t = must(Trainer::create(m, options()));
  const auto grads = must(t.gradients(batch));
  for (const NamedTensor& g : grads)
    for (int64_t i = 0; i < g.data.numel(); i += 3) {
      const double h = 1e-6;
      double value[2];
      for (int side = 0; side < 2; ++side) {
        Model moved = m;
        ValueInfo& v = moved.graph.value(moved.graph.find(g.name));
        v.data = must(v.data.clone());
        v.data.as_mutable<double>()[i] += side ? h : -h;
        value[side] = must(must(Trainer::create(moved, options())).evaluate(batch));
      }
      CHECK_EQ(g.data.at(i), doctest::Approx((value[1] - value[0]) / (2 * h)).epsilon(1e-6));
    }
}

TEST_CASE("clipping scales all gradients to the global norm") {
  const Model m = small_mlp(WithDropout::no, DType::f64);
  const auto batch = two_clouds(6, 4, DType::f64);
  TrainerOptions o = options({.kind = OptimizerKind::sgd, .lr = 1});
  o.clip_norm = 1e-3;
  Trainer t = must(Trainer::create(m, o));
  const auto grads = must(t.gradients(batch));
  double norm = 0;
  for (const NamedTensor& g : grads)
    for (int64_t i = 0; i < g.data.numel(); ++i) norm += g.data.at(i) * g.data.at(i);
  norm = std::sqrt(norm);
  const TensorData before = state_of(t, "fc2.bias");
  CHECK_EQ(must(t.step(batch)).grad_norm, doctest::Approx(norm).epsilon(1e-6));
  const TensorData after = state_of(t, "fc2.bias");
  CHECK_EQ(before.at(0) - after.at(0),
           doctest::Approx(grads[3].data.at(0) * 1e-3 / (norm + 1e-6)).epsilon(1e-5));
}

TEST_CASE("frozen parameters keep their bits and need no gradient") {
  const Model m = small_mlp();
  TrainerOptions o = options({.lr = 0.1});
  o.trainable = "fc2.*";
  Trainer t = must(Trainer::create(m, o));
  CHECK_EQ(t.trainable(), std::vector<std::string>{"fc2.weight", "fc2.bias"});
  const TensorData frozen = state_of(t, "fc1.weight"), moving = state_of(t, "fc2.weight");
  REQUIRE_OK(t.step(two_clouds(8, 1)));
  CHECK(same_bits(state_of(t, "fc1.weight"), frozen));
  CHECK_FALSE(same_bits(state_of(t, "fc2.weight"), moving));
  CHECK_EQ(must(t.gradients(two_clouds(8, 1))).size(), 2);
  o.trainable = "nothing*";
  CHECK_ERROR(Trainer::create(m, o), Code::invalid_argument,
              "no parameter matches trainable pattern 'nothing*'");
}

TEST_CASE("a saved state goes on bit for bit, dropout and moments included") {
  const Model m = small_mlp(WithDropout::yes);
  TrainerOptions o = options({.lr = 0.01});
  o.seed = 11;
  Trainer a = must(Trainer::create(m, o));
  for (int i = 0; i < 3; ++i) REQUIRE_OK(a.step(two_clouds(8, static_cast<uint64_t>(i))));
  const Trainer::State saved = must(a.save());
  Trainer b = must(Trainer::create(m, o));
  REQUIRE_OK(b.restore(saved));
  for (uint64_t i = 3; i < 6; ++i) {
    const double la = must(a.step(two_clouds(8, i))).loss, lb = must(b.step(two_clouds(8, i))).loss;
    CHECK_EQ(la, lb);
  }
  CHECK(same_bits(state_of(a, "fc1.weight"), state_of(b, "fc1.weight")));
}

TEST_CASE("a state that does not fit is refused with every difference named, and nothing changes") {
  const Model m = small_mlp();
  Trainer t = must(Trainer::create(m, options()));
  Trainer::State s = must(t.save());
  s.entries[0].data = random_tensor({DType::f32, {2, 2}}, 1);
  s.entries[1].name = "else";
  const Status status = t.restore(s);
  CHECK_ERROR(status, Code::invalid_argument, "'fc1.weight' is f32[2, 2], the model has f32[3, 8]");
  CHECK_ERROR(status, Code::invalid_argument, "'fc1.bias' is missing");
  CHECK_ERROR(status, Code::invalid_argument, "'else' is not in the model");
}

TEST_CASE("dropout draws a new mask each step and the same masks for the same seed") {
  const Model m = small_mlp(WithDropout::yes);
  TrainerOptions o = options({.kind = OptimizerKind::sgd, .lr = 0});
  const auto losses = [&](uint64_t seed) {
    o.seed = seed;
    Trainer t = must(Trainer::create(m, o));
    std::vector<double> out;
    for (int i = 0; i < 3; ++i) out.push_back(must(t.step(two_clouds(16, 1))).loss);
    return out;
  };
  const auto a = losses(1), b = losses(1), c = losses(2);
  CHECK_EQ(a, b);
  CHECK_NE(a, c);
  CHECK_NE(a[0], a[1]);
}

TEST_CASE("a loss that is not finite stops the step before anything changes") {
  const Model m = small_mlp();
  Trainer t = must(Trainer::create(m, options({.lr = 0.1})));
  auto batch = two_clouds(4, 1);
  REQUIRE_OK(t.step(batch));
  const TensorData before = state_of(t, "fc1.weight");
  TensorData broken = must(batch[0].data.clone());
  broken.as_mutable<float>()[0] = std::numeric_limits<float>::quiet_NaN();
  auto bad = batch;
  bad[0].data = broken;
  CHECK_ERROR(t.step(bad), Code::invalid_argument,
              "the loss of step 1 is nan: nothing was updated");
  CHECK(same_bits(state_of(t, "fc1.weight"), before));
  CHECK_EQ(t.steps(), 1);
  CHECK_OK(t.step(batch));
}

TEST_CASE("bad batches are refused with a sentence") {
  const Model m = small_mlp();
  Trainer t = must(Trainer::create(m, options()));
  const auto good = two_clouds(4, 1);
  std::vector<NamedTensor> batch = {good[1]};
  CHECK_ERROR(t.step(batch), Code::invalid_argument, "the batch lacks the model's input 'x'");
  batch = {good[0]};
  CHECK_ERROR(t.step(batch), Code::not_found, "there is no 'label'");
  batch = {good[0], {"label", tensor_of<int64_t>({4}, {0, 1, 2, 0})}};
  CHECK_ERROR(t.step(batch), Code::invalid_argument, "2");
  batch = {good[0], {"label", random_tensor({DType::f32, {4, 2}}, 1)}};
  CHECK_ERROR(t.step(batch), Code::invalid_argument, "class ind");
  batch = {{"x", random_tensor({DType::f32, {4, 5}}, 1)}, good[1]};
  CHECK_ERROR(t.step(batch), Code::invalid_argument, "axis 1 is 5, the model expects 3");
  CHECK_OK(t.step(good));
}

TEST_CASE("mistaken options are refused") {
  const Model m = small_mlp();
  TrainerOptions o = options({.lr = -1});
  CHECK_ERROR(Trainer::create(m, o), Code::invalid_argument, "learning rate");
  o = options();
  o.loss = nullptr;
  CHECK_ERROR(Trainer::create(m, o), Code::invalid_argument, "needs a loss");
  o = options({.kind = OptimizerKind::sgd, .nesterov = true});
  CHECK_ERROR(Trainer::create(m, o), Code::invalid_argument, "Nesterov");
  o = options({.beta1 = 1});
  CHECK_ERROR(Trainer::create(m, o), Code::invalid_argument, "beta1");
}

}  // namespace hone::test
