// SPDX-License-Identifier: Apache-2.0
// Gradients of define-by-run code.
#include <cmath>

#include "hone/eager.hpp"
#include "hone/functional.hpp"
#include "hone/op.hpp"
#include "hone/ops.hpp"
#include "tests/support/check.hpp"
#include "tests/support/tensors.hpp"

namespace hone {
namespace {

using Fn = std::function<Tensor(const std::vector<Tensor>&)>;

std::vector<double> values(const Tensor& t) { return t.to_vector<double>(); }

// Compares the gradients of `fn`, a scalar, with central differences in double.
void check_gradients(const Fn& fn, std::vector<Tensor> inputs, double tolerance = 1e-6) {
  for (Tensor& t : inputs) t.requires_grad_();
  CHECK_OK(fn(inputs).backward());
  constexpr double kStep = 1e-5;
  for (size_t k = 0; k < inputs.size(); ++k) {
    const std::vector<double> got = values(inputs[k].grad());
    REQUIRE_EQ(static_cast<int64_t>(got.size()), inputs[k].numel());
    for (int64_t i = 0; i < inputs[k].numel(); ++i) {
      const auto shifted = [&](double by) {
        std::vector<double> moved = values(inputs[k]);
        moved[static_cast<size_t>(i)] += by;
        std::vector<Tensor> in = inputs;
        in[k] = Tensor::from(moved, inputs[k].shape());
        return fn(in).item<double>();
      };
      const double want = (shifted(kStep) - shifted(-kStep)) / (2 * kStep);
      CHECK_MESSAGE(
          std::fabs(got[static_cast<size_t>(i)] - want) <= tolerance * (1 + std::fabs(want)),
          "input ", k, " element ", i, ": ", got[static_cast<size_t>(i)], " and ", want);
    }
  }
}

Tensor rand64(const Shape& shape, uint64_t seed, double lo = -1, double hi = 1) {
  return Tensor(test::random_tensor({DType::f64, shape}, seed, lo, hi));
}

TEST_CASE("gradients follow the chain rule") {
  check_gradients([](const auto& in) { return (in[0].exp() * in[1] + in[0]).sum(); },
                  {rand64({3}, 1), rand64({3}, 2)});
  check_gradients([](const auto& in) { return (in[0].tanh() / in[1].square()).mean(); },
                  {rand64({4}, 1), rand64({4}, 2, 1, 2)});
  check_gradients([](const auto& in) { return matmul(in[0], in[1]).square().sum(); },
                  {rand64({2, 3}, 1), rand64({3, 2}, 2)});
}

TEST_CASE("gradients sum over what broadcasting repeated") {
  check_gradients([](const auto& in) { return (in[0] * in[1] - in[2]).square().sum(); },
                  {rand64({2, 3}, 1), rand64({3}, 2), rand64({2, 1}, 3)});
  Tensor b = Tensor::zeros({1}).requires_grad_();
  CHECK_OK((Tensor::ones({4, 5}) + b).sum().backward());
  CHECK_EQ(b.grad().type(), TensorType{DType::f32, {1}});
  CHECK_EQ(b.grad().item<float>(), 20);
}

TEST_CASE("gradients accumulate until they are dropped") {
  Tensor w = Tensor::of<float>({1, 2}).requires_grad_();
  CHECK_OK((w * 3).sum().backward());
  CHECK_OK((w * 4).sum().backward());
  CHECK_EQ(w.grad().to_vector<float>(), std::vector<float>{7, 7});
  w.zero_grad();
  CHECK_FALSE(w.grad().defined());
  CHECK_OK(w.sum().backward());
  CHECK_EQ(w.grad().to_vector<float>(), std::vector<float>{1, 1});
}

TEST_CASE("two leaves with equal gradients do not share one tensor") {
  Tensor a = Tensor::of<float>({1}).requires_grad_(), b = Tensor::of<float>({2}).requires_grad_();
  CHECK_OK((a + b).sum().backward());
  a.grad().mul_(5);
  CHECK_EQ(a.grad().item<float>(), 5);
  CHECK_EQ(b.grad().item<float>(), 1);
}

TEST_CASE("a tensor used twice gets both gradients") {
  Tensor x = Tensor::of<float>({3}).requires_grad_();
  const Tensor y = x * x;
  CHECK_OK((y * y + y).sum().backward());
  CHECK_EQ(x.grad().item<float>(), 4 * 27 + 6);
}

TEST_CASE("nothing is recorded under NoGrad, nor for inputs that want no gradient") {
  Tensor w = Tensor::of<float>({1}).requires_grad_();
  {
    NoGrad no_grad;
    CHECK_FALSE((w * 2).requires_grad());
  }
  CHECK((w * 2).requires_grad());
  const Tensor plain = Tensor::of<float>({1}) * 2;
  CHECK_FALSE(plain.requires_grad());
  CHECK_ERROR(plain.sum().backward(), Code::invalid_argument, "nothing was recorded");
}

TEST_CASE("a detached tensor stops the gradient") {
  Tensor x = Tensor::of<float>({3}).requires_grad_();
  CHECK_OK((x * x.detach()).sum().backward());
  CHECK_EQ(x.grad().item<float>(), 3);
}

TEST_CASE("only floating point wants gradients, and only leaves are told") {
  Tensor i = Tensor::arange(3);
  CHECK_ERROR(i.requires_grad_().status(), Code::invalid_argument, "i64[3] is not floating point");
  Tensor x = Tensor::of<float>({3}).requires_grad_();
  Tensor y = x * 2;
  CHECK_FALSE(y.is_leaf());
  CHECK_ERROR(y.requires_grad_().status(), Code::invalid_argument, "only leaves");
}

TEST_CASE("a gradient needs one element or a seed") {
  Tensor x = Tensor::of<float>({1, 2}).requires_grad_();
  CHECK_ERROR((x * 2).backward(), Code::invalid_argument, "not a scalar");
  CHECK_OK((x * x).backward(Retain::nothing, Tensor::of<float>({10, 100})));
  CHECK_EQ(x.grad().to_vector<float>(), std::vector<float>{20, 400});
  CHECK_ERROR((x * 2).backward(Retain::nothing, Tensor::of<float>({1})), Code::invalid_argument,
              "the seed is f32[1]");
}

TEST_CASE("the record is freed by backward unless asked to stay") {
  Tensor x = Tensor::of<float>({2}).requires_grad_();
  const Tensor loss = (x * x).sum();
  CHECK_OK(loss.backward(Retain::graph));
  CHECK_OK(loss.backward());
  CHECK_EQ(x.grad().item<float>(), 8);
  CHECK_ERROR(loss.backward(), Code::invalid_argument, "was freed by an earlier backward");
  CHECK_NE(to_string(loss).find("whose record is freed"), std::string::npos);
}

TEST_CASE("second derivatives") {
  Tensor x = Tensor::of<double>({0.5, 2}).requires_grad_();
  const Tensor first = grad((x.square() * x).sum(), x, Retain::gradient);
  CHECK_EQ(first.to_vector<double>(), std::vector<double>{0.75, 12});
  const Tensor second = grad(first.sum(), x, Retain::gradient);
  CHECK_EQ(second.to_vector<double>(), std::vector<double>{3, 12});
  const Tensor third = grad(second.sum(), x);
  CHECK_EQ(third.to_vector<double>(), std::vector<double>{6, 6});
}

TEST_CASE("a gradient penalty is differentiated through the gradient") {
  check_gradients(
      [](const std::vector<Tensor>& in) {
        Tensor x = rand64({4, 3}, 9).requires_grad_();
        const Tensor score = matmul(matmul(x, in[0]).tanh(), in[1]).sum();
        const Tensor slope = grad(score, x, Retain::gradient);
        return (slope.square().sum({1}).sqrt() - 1).square().mean();
      },
      {rand64({3, 5}, 1), rand64({5, 1}, 2)}, 1e-5);
}

TEST_CASE("grad leaves accumulated gradients alone and takes several outputs") {
  Tensor x = Tensor::of<float>({2}).requires_grad_(), y = Tensor::of<float>({3}).requires_grad_();
  Tensor unused = Tensor::of<float>({1, 1}).requires_grad_();
  const Tensor outputs[] = {x * y, (x * x).sum()}, inputs[] = {x, y, unused};
  const Tensor seeds[] = {Tensor::of<float>({10})};
  const std::vector<Tensor> g = test::must(grad(outputs, inputs, Retain::nothing, seeds));
  CHECK_EQ(g[0].item<float>(), 34);
  CHECK_EQ(g[1].item<float>(), 20);
  CHECK_EQ(g[2].to_vector<float>(), std::vector<float>{0, 0});
  CHECK_FALSE(x.grad().defined());
  CHECK_ERROR(grad(x * x, Tensor::of<float>({1})).status(), Code::invalid_argument,
              "wants no gradient");
}

TEST_CASE("lengths may differ from call to call, with plain loops and branches") {
  Tensor w = Tensor::of<float>({0.5f}).requires_grad_();
  for (int length : {1, 4, 2}) {
    Tensor h = Tensor::ones({1});
    for (int t = 0; t < length; ++t) {
      h = h * w;
      if (t % 2 == 1) h = h + 1;
    }
    w.zero_grad();
    CHECK_OK(h.sum().backward());
    // length 4: ((w w + 1) w w + 1), its derivative 4 w^3 + 2 w
    const float want = length == 1 ? 1.0f : length == 2 ? 1.0f : 1.5f;
    CHECK_EQ(w.grad().item<float>(), want);
  }
}

TEST_CASE("a value written in place although the gradient needs it: the error names both places") {
  Tensor x = Tensor::of<float>({1, 2}).requires_grad_();
  Tensor h;
  {
    NameScope scope("encoder.0");
    h = x * 2;
  }
  Tensor loss = (h * h).sum();
  h.add_(1);
  const int line = __LINE__ - 1;
  const Status s = loss.backward();
  CHECK_ERROR(s, Code::invalid_argument, "the gradient of mul #");
  CHECK_ERROR(s, Code::invalid_argument, "but add_ #");
  CHECK_ERROR(s, Code::invalid_argument,
              format("autograd_test.cpp:{} has written to it in place since", line));
  Tensor y = x.exp();
  y.mul_(2);
  const Status own_output = y.sum().backward();
  CHECK_ERROR(own_output, Code::invalid_argument, "the gradient of exp #");
  CHECK_ERROR(own_output, Code::invalid_argument, "mul_ #");
}

TEST_CASE("a write in place that the gradient can bear is recorded") {
  Tensor x = Tensor::of<float>({1, 2}).requires_grad_();
  Tensor h = x * 3;
  h.add_(1);
  h.mul_(2);
  CHECK_OK((h * h).sum().backward());
  CHECK_EQ(x.grad().to_vector<float>(), std::vector<float>{2 * 8 * 6, 2 * 14 * 6});
}

TEST_CASE("in-place writes to leaves that want gradients need NoGrad") {
  Tensor w = Tensor::of<float>({1, 2}).requires_grad_();
  Tensor same = w;
  {
    NoGrad no_grad;
    w -= Tensor::of<float>({1, 1});
  }
  CHECK(w.ok());
  CHECK(w.requires_grad());
  CHECK_EQ(same.to_vector<float>(), std::vector<float>{0, 1});
  w.add_(1);
  CHECK_ERROR(w.status(), Code::invalid_argument, "a leaf that wants a gradient");
}

TEST_CASE("hooks and retained gradients look at intermediates") {
  Tensor x = Tensor::of<float>({2}).requires_grad_();
  std::vector<float> seen;
  Tensor loss, kept;
  {
    Tensor h = x * 3;
    const int64_t id = h.register_hook([&](const Tensor& g) { seen.push_back(-g.item<float>()); });
    h.register_hook([&](const Tensor& g) { seen.push_back(g.item<float>()); });
    h.remove_hook(id);
    kept = h * 2;
    kept.retain_grad();
    loss = (kept * h).sum();
  }
  x.register_hook([&](const Tensor& g) { seen.push_back(g.item<float>()); });
  CHECK_OK(loss.backward());
  CHECK_EQ(seen, std::vector<float>{24, 72});
  CHECK_EQ(kept.grad().item<float>(), 6);
}

TEST_CASE("an operator whose gradient is zero passes nothing on") {
  Tensor x = Tensor::of<float>({2.5f}).requires_grad_();
  CHECK_EQ(grad((x.floor() * x).sum(), x).item<float>(), 2);
}

// Twice its input, by someone who wrote no gradient.
constexpr OpDef kTwice = {
    .name = "twice",
    .infer = [](InferCtx& c) -> Status {
      c.out(c.in(0));
      return {};
    },
    .kernel = [](const KernelArgs& args) -> Status {
      for (int64_t i = 0; i < args.in[0].numel(); ++i)
        args.output<float>(0)[i] = 2 * args.input<float>(0)[i];
      return {};
    },
};

TEST_CASE("an operator without a gradient is named, with the path to it") {
  Tensor x = Tensor::of<float>({1, 2}).requires_grad_();
  Tensor y;
  {
    NameScope scope("custom");
    y = apply(kTwice, {x});
  }
  CHECK_EQ(y.to_vector<float>(), std::vector<float>{2, 4});
  const Status s = y.exp().sum().backward();
  CHECK_ERROR(s, Code::unsupported,
              "no gradient is known for twice 'custom' (path from the target: sum -> exp -> twice "
              "'custom')");
}

TEST_CASE("C20: all operators without a gradient are named in one error") {
  const Tensor x = Tensor::of<float>({1, 2}).requires_grad_();
  Tensor y = x;
  for (const char* name : {"one", "two"}) {
    NameScope scope(name);
    y = apply(kTwice, {y});
  }
  const Status s = y.sum().backward();
  CHECK_ERROR(s, Code::unsupported, "no gradient is known for twice 'one' (path");
  CHECK_ERROR(s, Code::unsupported, "; twice 'two' (path");
}

TEST_CASE("formulas written for graphs serve tensors") {
  Tensor x = Tensor::of<float>({1, 3}).requires_grad_();
  const Tensor target = Tensor::of<float>({0, 1});
  const Tensor in[] = {x, target};
  const Tensor loss =
      compose(in, [](std::span<const Value> v) { return ops::square(v[0] - v[1]) * 0.5; });
  CHECK_EQ(loss.to_vector<float>(), std::vector<float>{0.5f, 2});
  CHECK_OK(loss.sum().backward());
  CHECK_EQ(x.grad().to_vector<float>(), std::vector<float>{1, 2});
}

TEST_CASE("memory is free again after backward and when handles go") {
  Tensor w = Tensor::of<float>({1, 2}).requires_grad_();
  CHECK_OK((w * w).sum().backward());
  const EagerCounts before = eager_counts();
  {
    const Tensor loss = (w.exp() * w + 1).square().sum();
    CHECK(eager_counts().operations > before.operations);
    CHECK_OK(loss.backward());
  }
  CHECK_EQ(eager_counts().operations, before.operations);
  CHECK_EQ(eager_counts().tensors, before.tensors);
  {
    const Tensor slope = grad((w * w * w).sum(), w, Retain::gradient);
    (void)grad(slope.sum(), w, Retain::graph);
  }
  CHECK_EQ(eager_counts().operations, before.operations);
  CHECK_EQ(eager_counts().tensors, before.tensors);
}

TEST_CASE("a record keeps alive only what gradients read") {
  Tensor w = Tensor::of<float>({1, 2}).requires_grad_();
  const Tensor c = Tensor::of<float>({3, 4});
  Tensor sum = w + c, product = w * c, power = w.exp();
  const TensorData sums = sum.data(), products = product.data(), powers = power.data();
  const Tensor loss = (sum + product + power).sum();
  sum = product = power = Tensor();
  CHECK_EQ(sums.use_count(), 1);
  CHECK_EQ(products.use_count(), 1);
  CHECK_EQ(powers.use_count(), 2);  // exp's gradient is its output
  CHECK_OK(loss.backward());
  CHECK_EQ(powers.use_count(), 1);
}

TEST_CASE("a record of a hundred thousand operations is differentiated and freed") {
  Tensor x = Tensor::of<float>({1}).requires_grad_();
  {
    Tensor unused = x;
    for (int i = 0; i < 100000; ++i) unused = unused + x;
  }
  Tensor y = x;
  for (int i = 0; i < 20000; ++i) y = y + x;
  CHECK_OK(y.sum().backward());
  CHECK_EQ(x.grad().item<float>(), 20001);
}

}  // namespace
}  // namespace hone
