// SPDX-License-Identifier: Apache-2.0
// Checkpointed regions: computed again in the backward pass, to the same bits, in define-by-run
// code and in the plans of models that were traced from it.
#include "tests/nn/memory_models.hpp"

namespace hone::test {

namespace {

// Blocks with what could go wrong the second time: batch norm, dropout.
struct Blocks : nn::Module {
  explicit Blocks(uint64_t seed) : rng(seed), head(12, 4, rng) {
    for (int i = 0; i < 3; ++i) {
      auto block = std::make_unique<nn::Sequential>();
      block->add<nn::Conv2d>(i == 0 ? 3 : 12, 12, 3, rng, nn::ConvOptions{.padding = 1});
      block->add<nn::BatchNorm>(12);
      block->add<nn::Relu>();
      block->add<nn::Dropout>(0.2, rng);
      block->add<nn::Conv2d>(12, 12, 3, rng, nn::ConvOptions{.padding = 1});
      block->add<nn::Gelu>();
      add_child(format("block{}", i), *block);
      blocks.push_back(std::move(block));
    }
    add_child("head", head);
  }
  std::string kind() const override { return "Blocks"; }
  Tensor operator()(Tensor x) {
    NameScope scope = enter();
    for (auto& block : blocks) x = (*block)(x);
    return head(x.mean({2, 3}));
  }
  Blocks& checkpoint_all() {
    for (auto& block : blocks) block->checkpoint();
    return *this;
  }
  Generator rng;
  std::vector<std::unique_ptr<nn::Sequential>> blocks;
  nn::Linear head;
};

std::vector<TensorData> gradients(Blocks& net, const Tensor& x, Retain retain = Retain::nothing) {
  const Tensor loss = loss::cross_entropy(net(x), Tensor(labels(x.size(0))));
  REQUIRE_OK(loss.backward(retain));
  std::vector<TensorData> out = {loss.data()};
  for (const Tensor& p : net.parameters()) out.push_back(p.grad().data());
  for (const NamedTensor& t : net.state_dict()) out.push_back(must(t.data.clone()));
  return out;
}

void check_same(const std::vector<TensorData>& a, const std::vector<TensorData>& b) {
  REQUIRE_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) CHECK(same_bits(a[i], b[i]));
}

Model traced(Blocks& net) {
  const TracedFn forward = [&](std::span<const Tensor> x) {
    return std::vector<Tensor>{net(x[0])};
  };
  const TraceInput in[] = {{"x", example({2, 3, 12, 12}), {"n"}}};
  return must(nn::trace(net, forward, in, {"logits"}));
}

int regions(const Graph& g) {
  int most = 0;
  for (const Node& n : g.nodes) most = std::max(most, n.region);
  return most;
}

}  // namespace

TEST_CASE(
    "gradients of checkpointed regions are the same bits, statistics and random numbers too") {
  Blocks plain(1), marked(1);
  marked.checkpoint_all();
  for (int i = 0; i < 2; ++i) {
    plain.zero_grad();
    marked.zero_grad();
    const Tensor x(random_tensor({DType::f32, {4, 3, 12, 12}}, 5));
    check_same(gradients(plain, x), gradients(marked, x));
  }
}

TEST_CASE("a region may be any code, lie in another, be differentiated twice") {
  const Tensor w = Tensor(random_tensor({DType::f64, {5}}, 3, 0.2, 1)).requires_grad_();
  const auto formula = [&](bool marked) {
    const auto inner = [&](const Tensor& x) { return (x * w).exp().sin(); };
    const auto outer = [&](const Tensor& x) {
      const Tensor y = marked ? checkpoint([&] { return inner(x); }) : inner(x);
      return (y * y + w).log();
    };
    const Tensor x = w * 2.0;
    return (marked ? checkpoint([&] { return outer(x); }) : outer(x)).sum();
  };
  std::vector<TensorData> results[2];
  for (const bool marked : {false, true}) {
    const Tensor g = grad(formula(marked), w, Retain::gradient);
    const Tensor second = grad((g * g).sum(), w);
    REQUIRE_OK(second.status());
    results[marked] = {g.data(), second.data()};
  }
  check_same(results[0], results[1]);
}

TEST_CASE("a record with regions may be gone through twice, and says what was overwritten") {
  const auto run = [](bool marked) {
    const Tensor w = Tensor(random_tensor({DType::f32, {6}}, 3)).requires_grad_();
    const auto inside = [&] { return (w * 3.0).exp().tanh(); };
    const Tensor y = (marked ? checkpoint(inside) : inside()).sum();
    REQUIRE_OK(y.backward(Retain::graph));
    REQUIRE_OK(y.backward());
    return w.grad().data();
  };
  CHECK(same_bits(run(false), run(true)));
  const Tensor w = Tensor(random_tensor({DType::f32, {6}}, 3)).requires_grad_();
  Tensor x = w * 1.0;
  const Tensor y = checkpoint([&] { return x.exp().tanh(); }).sum();
  x.add_(1);
  CHECK_ERROR(y.backward(), Code::invalid_argument, "has written to it in place since");
}

TEST_CASE("a traced model carries the marks, through its file and into the plan of a step") {
  Blocks net(1);
  const Model plain = traced(net);
  const Model marked = traced(net.checkpoint_all());
  CHECK_EQ(regions(plain.graph), 0);
  CHECK_EQ(regions(marked.graph), 3);
  const auto bytes = std::make_shared<std::vector<std::byte>>(must(save_model(marked)));
  const Model loaded = must(load_model(*bytes, bytes));
  CHECK_EQ(regions(loaded.graph), 3);

  const std::vector<NamedTensor> batch = {{"x", random_tensor({DType::f32, {8, 3, 12, 12}}, 5)},
                                          {"label", labels(8)}};
  Trainer a = must(Trainer::create(plain, options(0))),
          b = must(Trainer::create(loaded, options(0)));
  const PlanInfo all = must(a.plan(batch)), ends = must(b.plan(batch));
  CHECK_EQ(all.repeated_steps, 0);
  CHECK_GT(ends.repeated_steps, 0);
  CHECK_GT(ends.extra_time, 0);
  CHECK_LT(static_cast<double>(ends.arena_bytes), 0.75 * static_cast<double>(all.arena_bytes));
  for (int i = 0; i < 3; ++i) CHECK_EQ(must(a.step(batch)).loss, must(b.step(batch)).loss);
  check_same_states(a, b);

  // A limit goes further, and still changes no bit.
  const int64_t least = must(b.smallest_memory_limit(batch));
  CHECK_LT(least, ends.peak_bytes);
  REQUIRE_OK(b.set_memory_limit(least));
  for (int i = 0; i < 2; ++i) CHECK_EQ(must(a.step(batch)).loss, must(b.step(batch)).loss);
  check_same_states(a, b);
}

TEST_CASE("marks leave inference as it is") {
  Blocks net(1);
  const Model plain = traced(net), marked = traced(net.checkpoint_all());
  Session a = must(Session::create(plain)), b = must(Session::create(marked));
  const Shape shapes[] = {{4, 3, 12, 12}};
  CHECK_EQ(must(a.plan(shapes)).steps, must(b.plan(shapes)).steps);
  CHECK_EQ(must(b.plan(shapes)).repeated_steps, 0);
  const TensorData in[] = {random_tensor({DType::f32, {4, 3, 12, 12}}, 5)};
  CHECK(same_bits(must(a.run(in))[0], must(b.run(in))[0]));
}

}  // namespace hone::test
