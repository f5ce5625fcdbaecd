// SPDX-License-Identifier: Apache-2.0
// Tensors as values: making, looking, sticky errors, printing, writing in place.
#include "hone/tensor.hpp"

#include <cmath>

#include "hone/builder.hpp"
#include "hone/eager.hpp"
#include "tests/support/check.hpp"
#include "tests/support/tensors.hpp"

namespace hone {
namespace {

TEST_CASE("a tensor computes at once") {
  const Tensor a = Tensor::of<float>({1, 2, 4});
  const Tensor b = (a * 2 + 1) / a - 1;
  CHECK_EQ(b.to_vector<float>(), std::vector<float>{2, 1.5f, 1.25f});
  CHECK_EQ(a.to_vector<int>(), std::vector<int>{1, 2, 4});
}

TEST_CASE("factories make what they say") {
  CHECK_EQ(Tensor::zeros({2, 3}).type(), TensorType{DType::f32, {2, 3}});
  CHECK_EQ(Tensor::full({2}, 7, DType::i32).to_vector<int>(), std::vector<int>{7, 7});
  CHECK_EQ(Tensor::arange(4).to_vector<int64_t>(), std::vector<int64_t>{0, 1, 2, 3});
  CHECK_EQ(Tensor::arange(1, 2, 0.25, DType::f64).to_vector<double>(),
           std::vector<double>{1, 1.25, 1.5, 1.75});
  CHECK_EQ(Tensor::arange(5, 5).numel(), 0);
  CHECK_EQ(Tensor::linspace(0, 1, 3).to_vector<float>(), std::vector<float>{0, 0.5f, 1});
  CHECK_EQ(Tensor::eye(2).to_vector<float>(), std::vector<float>{1, 0, 0, 1});
  CHECK_EQ(Tensor::from(std::vector<int64_t>{1, 2}, {2, 1}).at({1, 0}), 2);
  CHECK_ERROR(Tensor::from(std::vector<float>{1, 2}, {3}).status(), Code::invalid_argument,
              "needs 12 bytes, got 8");
  CHECK_ERROR(Tensor::arange(0, 1, 0).status(), Code::invalid_argument, "steps of 0");
}

TEST_CASE(
    "integer draws stay in range, repeat for a seed, and permutations have every number once") {
  Generator rng(3), again(3);
  const std::vector<int64_t> a = Tensor::randint({100}, rng, -2, 3).to_vector<int64_t>();
  CHECK_EQ(a, Tensor::randint({100}, again, -2, 3).to_vector<int64_t>());
  for (int64_t v : a) CHECK((v >= -2 && v < 3));
  std::vector<int64_t> order = Tensor::randperm(50, rng).to_vector<int64_t>();
  CHECK_NE(order, Tensor::arange(50).to_vector<int64_t>());
  std::sort(order.begin(), order.end());
  CHECK_EQ(order, Tensor::arange(50).to_vector<int64_t>());
}

TEST_CASE("elements are read with bounds checked") {
  const Tensor t = Tensor::of<float>({1, 2, 3, 4}, {2, 2});
  CHECK_EQ(t.at({1, -1}), 4);
  CHECK(std::isnan(t.at({2, 0})));
  CHECK(std::isnan(t.at({0})));
  CHECK_EQ(t.size(-1), 2);
  CHECK_EQ(t.size(5), 0);
  CHECK_EQ(Tensor::scalar(2.5).item<double>(), 2.5);
  CHECK(std::isnan(t.item<float>()));
}

TEST_CASE("an error sticks to the tensor it made and travels") {
  const Tensor a = Tensor::zeros({2}), b = Tensor::zeros({3});
  const Tensor c = (a + b).exp() * 2;
  CHECK_FALSE(c.ok());
  CHECK_EQ(c.status().message(), (a + b).status().message());
  CHECK_ERROR(c.status(), Code::invalid_argument, "add: ");
  CHECK_ERROR(c.backward(), Code::invalid_argument, "add: ");
  CHECK(std::isnan(c.item<float>()));
  CHECK_EQ(c.shape().rank(), 0);
  CHECK(c.to_vector<float>().empty());
}

TEST_CASE("an undefined tensor is named when it is used") {
  const Tensor none;
  CHECK_ERROR((Tensor::zeros({2}) + none).status(), Code::invalid_argument,
              "add: operand 1 is an undefined tensor");
  CHECK_ERROR(none.exp().status(), Code::invalid_argument, "exp: operand 0 is an undefined tensor");
  CHECK_ERROR(none.status(), Code::invalid_argument, "undefined");
  Tensor t;
  t.add_(1);
  CHECK_FALSE(t.ok());
}

TEST_CASE("a number that the dtype cannot hold is refused") {
  CHECK_ERROR((Tensor::arange(3) * 0.5).status(), Code::invalid_argument,
              "0.5 is not a whole number");
  CHECK_EQ((Tensor::arange(3) * 2).to_vector<int>(), std::vector<int>{0, 2, 4});
}

TEST_CASE("copies of a handle are one tensor, results are others") {
  Tensor a = Tensor::of<float>({1, 2});
  Tensor same = a;
  Tensor other = a.detach();
  a.add_(1);
  CHECK_EQ(same.to_vector<float>(), std::vector<float>{2, 3});
  CHECK_EQ(other.to_vector<float>(), std::vector<float>{1, 2});
  a += other;
  CHECK_EQ(same.to_vector<float>(), std::vector<float>{3, 5});
}

TEST_CASE("data handed out does not change with later writes") {
  Tensor a = Tensor::of<float>({1, 2});
  const TensorData before = a.data();
  a.mul_(10);
  CHECK_EQ(before.at(0), 1);
  CHECK_EQ(a.at({0}), 10);
}

TEST_CASE("a write in place keeps the type") {
  Tensor a = Tensor::zeros({2});
  a.add_(Tensor::zeros({3, 2}));
  CHECK_ERROR(a.status(), Code::invalid_argument,
              "add_: the result is f32[3, 2], the tensor written to f32[2]");
}

TEST_CASE("fill, clip and copy write in place") {
  Tensor a = Tensor::of<float>({1, 2});
  CHECK_EQ(a.fill_(4).to_vector<float>(), std::vector<float>{4, 4});
  CHECK_EQ(a.zero_().to_vector<float>(), std::vector<float>{0, 0});
  Tensor source = Tensor::of<int32_t>({5, 6});
  CHECK_EQ(a.copy_(source).to_vector<float>(), std::vector<float>{5, 6});
  CHECK_EQ(a.dtype(), DType::f32);
  Tensor b = Tensor::of<float>({0, 0});
  b.copy_(a);
  b.add_(1);
  CHECK_EQ(a.to_vector<float>(), std::vector<float>{5, 6});
}

TEST_CASE("a tensor prints its values and what it is to the gradient") {
  CHECK_EQ(to_string(Tensor::of<float>({1, 2, 6})), "f32[3] min 1 max 6 mean 3 nan 0 [1, 2, 6]");
  Tensor w = Tensor::of<float>({1, 2, 3, 4}, {2, 2});
  w.requires_grad_().set_name("w");
  CHECK_EQ(to_string(w),
           "'w' f32[2, 2] min 1 max 4 mean 2.5 nan 0\n[[1, 2],\n [3, 4]]\nwants a gradient, has "
           "none yet");
  NameScope scope("block.0");
  const std::string text = to_string(w.exp());
  CHECK_NE(text.find("made by exp #"), std::string::npos);
  CHECK_NE(text.find(" 'block.0'"), std::string::npos);
  CHECK_EQ(to_string(Tensor()), "undefined tensor");
  CHECK_EQ(to_string(Tensor::error(invalid("no"))), "tensor with an error: invalid argument: no");
}

TEST_CASE("an observer sees every operation, and what it does itself is not seen") {
  std::vector<std::string> seen;
  const Tensor x = Tensor::of<float>({1, 2});
  {
    Observer watch([&](const OpEvent& e) {
      seen.push_back(format("{} '{}' {}", e.op, e.name, e.outputs[0].type()));
      (void)(e.outputs[0] + 1);
    });
    NameScope outer("net"), inner("head");
    (void)(x + x).exp();
  }
  (void)x.neg();
  CHECK_EQ(seen, std::vector<std::string>{"add 'net.head' f32[2]", "exp 'net.head' f32[2]"});
}

TEST_CASE("shapes may be computed") {
  const Tensor x = Tensor::arange(12);
  const Tensor shape = apply(op::shape_of, {Tensor::zeros({3, 4})});
  CHECK_EQ(apply(op::reshape_dyn, {x, shape}).shape(), Shape{3, 4});
}

TEST_CASE("a model graph is run node by node") {
  Graph g;
  Builder b(g, Composites::keep);
  const Value x = b.input({DType::f32, {g.dim("n")}}, "x");
  const Value w = b.state(StateRole::parameter, test::tensor_of<float>({1}, {3}), "w");
  b.output(b.emit(op::mul, {x, w}), "y");
  Tensor weight = Tensor::of<float>({5}).requires_grad_();
  const Tensor inputs[] = {Tensor::of<float>({1, 2})}, states[] = {weight};
  const std::vector<Tensor> y = test::must(interpret(g, inputs, states));
  CHECK_EQ(y[0].to_vector<float>(), std::vector<float>{5, 10});
  CHECK_OK(y[0].sum().backward());
  CHECK_EQ(weight.grad().item<float>(), 3);
  CHECK_ERROR(interpret(g, {}, states), Code::invalid_argument, "has 1 inputs, got 0");
  CHECK_ERROR(interpret(g, inputs, {}), Code::invalid_argument, "more states");
}

TEST_CASE("tensors come apart, turn round, and repeat as in PyTorch") {
  const Tensor x = Tensor::arange(10).reshape({5, 2});
  const std::vector<Tensor> chunks = x.chunk(3);
  REQUIRE_EQ(chunks.size(), 3u);
  CHECK_EQ(chunks[2].shape(), Shape{1, 2});
  CHECK_EQ(x.chunk(4).size(), 3u);  // pieces of two
  CHECK_ERROR(x.chunk(0)[0].status(), Code::invalid_argument, "0 pieces");
  const std::vector<Tensor> columns = x.unbind(-1);
  REQUIRE_EQ(columns.size(), 2u);
  CHECK_EQ(columns[1].to_vector<int>(), std::vector<int>{1, 3, 5, 7, 9});
  CHECK_ERROR(x.unbind(2)[0].status(), Code::invalid_argument, "axis 2");
  CHECK_EQ(x.flip({0, 1}).to_vector<int>(), std::vector<int>{9, 8, 7, 6, 5, 4, 3, 2, 1, 0});
  CHECK_EQ(x.flip({-1}).slice(0, 0, 2).to_vector<int>(), std::vector<int>{1, 0, 3, 2});
  const Tensor pair = Tensor::of<int>({1, 2});
  CHECK_EQ(pair.repeat({2}).to_vector<int>(), std::vector<int>{1, 2, 1, 2});
  CHECK_EQ(pair.repeat({2, 1}).shape(), Shape{2, 2});
  CHECK_EQ(pair.repeat({2, 1, 3}).shape(), Shape{2, 1, 6});
  CHECK_ERROR(x.repeat({2}).status(), Code::invalid_argument, "tile");
  CHECK_EQ(Tensor::of<double>({1, 3}).std().item<double>(), doctest::Approx(std::sqrt(2.0)));
}

TEST_CASE("the engine takes threads when told to, and gives the same values") {
  const Tensor a(test::random_tensor({DType::f32, {64, 64}}, 1)),
      b(test::random_tensor({DType::f32, {64, 64}}, 2));
  const Tensor alone = (a * b).exp();
  set_eager_threads(2);
  const Tensor together = (a * b).exp();
  set_eager_threads(1);
  CHECK(test::same_bits(alone.data(), together.data()));
}

TEST_CASE("the first NaN is found by its operation") {
  std::string first;
  Observer watch([&](const OpEvent& e) {
    for (const Tensor& t : e.outputs)
      for (int64_t i = 0; i < t.numel() && first.empty(); ++i)
        if (std::isnan(t.data().at(i))) first = format("{} '{}'", e.op, e.name);
  });
  NameScope scope("loss");
  (void)(Tensor::of<float>({1, -1}).log() * 2);
  CHECK_EQ(first, "log 'loss'");
}

}  // namespace
}  // namespace hone
