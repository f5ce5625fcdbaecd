// SPDX-License-Identifier: Apache-2.0
// Optimizers against their formulas, and define-by-run training against planned training.
#include "hone/optim.hpp"

#include <cmath>

#include "hone/nn.hpp"
#include "hone/ops.hpp"
#include "tests/support/check.hpp"
#include "tests/support/tensors.hpp"

namespace hone {
namespace {

Tensor rand32(const Shape& shape, uint64_t seed) {
  return Tensor(test::random_tensor({DType::f32, shape}, seed));
}

Tensor parameter(double value) { return Tensor::scalar(value, DType::f64).requires_grad_(); }

TEST_CASE("SGD with momentum and decay follows its formula") {
  Tensor w = parameter(1);
  Optimizer optimizer = optim::momentum({w}, 0.1, 0.9, 0.01);
  double want = 1, velocity = 0;
  for (int i = 0; i < 4; ++i) {
    optimizer.zero_grad();
    CHECK_OK((w * w).backward());
    CHECK_OK(optimizer.step());
    velocity = 0.9 * velocity + (2 * want + 0.01 * want);
    want -= 0.1 * velocity;
    CHECK(std::fabs(w.item<double>() - want) < 1e-7);  // the rate is an f32 0.1
  }
  CHECK_EQ(optimizer.steps(), 4);
}

TEST_CASE("Adam and AdamW follow their formulas") {
  for (const bool decoupled : {false, true}) {
    Tensor w = parameter(1);
    Optimizer optimizer = decoupled ? optim::adamw({w}, 0.1, 0.5) : optim::adam({w}, 0.1, 0.5);
    double want = 1, m = 0, v = 0;
    for (int i = 1; i <= 4; ++i) {
      optimizer.zero_grad();
      CHECK_OK((w * w).backward());
      CHECK_OK(optimizer.step());
      double g = 2 * want;
      if (decoupled)
        want -= 0.1 * 0.5 * want;
      else
        g += 0.5 * want;
      m = 0.9 * m + 0.1 * g;
      v = 0.999 * v + 0.001 * g * g;
      want -= 0.1 * (m / (1 - std::pow(0.9, i))) / (std::sqrt(v / (1 - std::pow(0.999, i))) + 1e-8);
      CHECK(std::fabs(w.item<double>() - want) < 1e-7);
    }
  }
}

TEST_CASE("groups have rates of their own, and parameters without a gradient stay") {
  Tensor a = parameter(1), b = parameter(1), unused = parameter(5);
  Optimizer optimizer({{{a, unused}, {.kind = OptimizerKind::sgd, .lr = 0.5}},
                       {{b}, {.kind = OptimizerKind::sgd, .lr = 0.25}}});
  CHECK_OK((a + b).backward());
  CHECK_OK(optimizer.step());
  CHECK_EQ(a.item<double>(), 0.5);
  CHECK_EQ(b.item<double>(), 0.75);
  CHECK_EQ(unused.item<double>(), 5);
  optimizer.set_lr(1);
  CHECK_OK(optimizer.step());
  CHECK_EQ(a.item<double>(), -0.5);
}

TEST_CASE("an error in a gradient stops the step before anything changed") {
  Tensor a = parameter(1), b = parameter(1);
  a.set_grad(Tensor::scalar(1, DType::f64));
  b.set_grad(Tensor::zeros({2}, DType::f64));
  b.set_name("b");
  Optimizer optimizer = optim::sgd({a, b}, 1);
  CHECK_ERROR(optimizer.step(), Code::invalid_argument, "b: sgd_update");
  CHECK_EQ(a.item<double>(), 1);
}

TEST_CASE("a saved optimizer goes on bit for bit") {
  const auto train = [](Tensor& w, Optimizer& optimizer, int steps) {
    for (int i = 0; i < steps; ++i) {
      optimizer.zero_grad();
      CHECK_OK((w.square() * w).sum().backward());
      CHECK_OK(optimizer.step());
    }
  };
  Tensor w = rand32({3}, 1).requires_grad_();
  Optimizer optimizer = optim::adamw({w}, 0.1);
  train(w, optimizer, 3);
  Tensor copy = w.detach().requires_grad_();
  Optimizer resumed = optim::adamw({copy}, 0.1);
  REQUIRE_OK(resumed.load_state(optimizer.state()));
  train(w, optimizer, 3);
  train(copy, resumed, 3);
  CHECK(test::same_bits(w.data(), copy.data()));
  CHECK_EQ(resumed.steps(), 6);
  const NamedTensor foreign[] = {{"7/m", test::tensor_of<float>({3}, {1, 2, 3})}};
  CHECK_ERROR(resumed.load_state(foreign), Code::invalid_argument, "'7/m' f32[3]");
}

TEST_CASE("clipping scales to the global norm and leaves small gradients alone") {
  Tensor a = parameter(0), b = parameter(0), none = parameter(0);
  const auto set = [&](double x, double y) {
    a.set_grad(Tensor::scalar(x, DType::f64));
    b.set_grad(Tensor::scalar(y, DType::f64));
  };
  const Tensor all[] = {a, b, none};
  set(3, 4);
  CHECK(std::fabs(test::must(clip_grad_norm(all, 1)) - 5) < 1e-6);
  CHECK(std::fabs(a.grad().item<double>() - 0.6) < 1e-6);
  set(0.3, 0.4);
  CHECK(std::fabs(test::must(clip_grad_norm(all, 1)) - 0.5) < 1e-6);
  CHECK_EQ(a.grad().item<double>(), 0.3);
}

TEST_CASE("clipping keeps half gradients whose scale is no number of f16") {
  // The norm is 60000; scaled by 1e-3 / 60000, less than half of the smallest number that f16 has.
  Tensor w = Tensor::zeros({4}, DType::f16).requires_grad_();
  w.set_grad(Tensor::full({4}, 30000, DType::f16));
  CHECK_EQ(test::must(clip_grad_norm(std::vector{w}, 1e-3)), 60000);
  CHECK_EQ(w.grad().dtype(), DType::f16);
  CHECK_EQ(w.grad().at({0}), doctest::Approx(5e-4).epsilon(1e-3));
}

// ---- training

TEST_CASE("a small network fits exclusive or") {
  Generator rng(4);
  nn::Sequential net;
  net.add<nn::Linear>(2, 8, rng);
  net.add<nn::Tanh>();
  net.add<nn::Linear>(8, 2, rng);
  const Tensor x = Tensor::of<float>({0, 0, 0, 1, 1, 0, 1, 1}, {4, 2}),
               y = Tensor::of<int64_t>({0, 1, 1, 0});
  Optimizer optimizer = optim::adam(net.parameters(), 0.05);
  for (int step = 0; step < 200; ++step) {
    optimizer.zero_grad();
    REQUIRE_OK(loss::cross_entropy(net(x), y).backward());
    REQUIRE_OK(optimizer.step());
  }
  CHECK(loss::cross_entropy(net(x), y).item<double>() < 0.01);
  CHECK_EQ(net(x).argmax(1).to_vector<int>(), std::vector<int>{0, 1, 1, 0});
}

class SmallCnn : public nn::Module {
 public:
  explicit SmallCnn(Generator& rng) : conv(1, 4, 3, rng, {.padding = 1}), norm(4), fc(4, 2, rng) {
    add_child("conv", conv);
    add_child("norm", norm);
    add_child("fc", fc);
  }
  Tensor operator()(const Tensor& x) {
    return fc(global_avg_pool(max_pool(norm(conv(x)).relu(), {.kernel = {2, 2}, .strides = {2, 2}}))
                  .flatten(1));
  }
  nn::Conv2d conv;
  nn::BatchNorm2d norm;
  nn::Linear fc;
};

// Class 1 has a vertical edge, class 0 a horizontal one.
Tensor edges(const Tensor& labels, uint64_t seed) {
  std::vector<float> out;
  const std::vector<int64_t> y = labels.to_vector<int64_t>();
  for (int64_t label : y)
    for (int i = 0; i < 64; ++i) out.push_back((label ? i % 8 : i / 8) < 4 ? 1.0f : 0.0f);
  return Tensor::from(out, {static_cast<int64_t>(y.size()), 1, 8, 8}) +
         rand32({static_cast<int64_t>(y.size()), 1, 8, 8}, seed) * 0.5;
}

TEST_CASE("a small convolutional network fits edges") {
  Generator rng(4);
  SmallCnn net(rng);
  Optimizer optimizer = optim::momentum(net.parameters(), 0.1);
  for (int step = 0; step < 60; ++step) {
    const Tensor y = Tensor::randint({16}, rng, 0, 2);
    optimizer.zero_grad();
    REQUIRE_OK(loss::cross_entropy(net(edges(y, 50 + static_cast<uint64_t>(step))), y).backward());
    REQUIRE_OK(optimizer.step());
  }
  net.eval();
  const Tensor y = Tensor::randint({64}, rng, 0, 2);
  CHECK(net(edges(y, 1)).argmax(1).eq(y).to_f32().mean().item<double>() > 0.95);
}

TEST_CASE("define-by-run training and planned training of the traced model give the same bits") {
  Generator rng(4);
  SmallCnn net(rng);
  const TraceInput in[] = {{"x", rand32({4, 1, 8, 8}, 1), {"batch"}}};
  const auto forward = [&](std::span<const Tensor> x) { return std::vector<Tensor>{net(x[0])}; };
  const Model model = test::must(nn::trace(net, forward, in, {"logits"}));
  TrainerOptions options;
  options.loss = [](Builder&, const NamedValues& outputs,
                    const NamedValues& targets) -> Result<Value> {
    HONE_ASSIGN(const Value logits, outputs.find("logits"));
    HONE_ASSIGN(const Value label, targets.find("label"));
    return loss::cross_entropy(logits, label, CrossEntropyAttrs{});
  };
  options.optimizer = {.kind = OptimizerKind::adamw, .lr = 0.01, .weight_decay = 0.1};
  options.clip_norm = 0.5;
  Trainer trainer = test::must(Trainer::create(model, options));
  Optimizer optimizer(net.parameters(), options.optimizer);
  const std::vector<Tensor> parameters = net.parameters();
  for (uint64_t step = 0; step < 5; ++step) {
    const Tensor y = Tensor::randint({6}, rng, 0, 2), x = edges(y, 70 + step);
    optimizer.zero_grad();
    const Tensor eager_loss = loss::cross_entropy(net(x), y);
    REQUIRE_OK(eager_loss.backward());
    REQUIRE_OK(clip_grad_norm(parameters, 0.5));
    REQUIRE_OK(optimizer.step());
    const NamedTensor batch[] = {{"x", x.data()}, {"label", y.data()}};
    const StepResult planned = test::must(trainer.step(batch));
    CHECK_EQ(planned.loss, eager_loss.item<double>());
  }
  const Model trained = test::must(trainer.snapshot());
  for (const NamedTensor& t : net.state_dict()) {
    const ValueInfo* state = find_state(trained, t.name);
    if (t.name == "norm.num_batches_tracked") continue;
    REQUIRE(state != nullptr);
    INFO(t.name);
    CHECK(test::same_bits(state->data, t.data));
  }
}

}  // namespace
}  // namespace hone
