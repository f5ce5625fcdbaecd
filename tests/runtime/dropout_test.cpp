// SPDX-License-Identifier: Apache-2.0
// What is computed again to save memory draws the random numbers of the forward pass.
#include <algorithm>

#include "hone/eager.hpp"
#include "hone/functional.hpp"
#include "tests/runtime/models.hpp"

namespace hone::test {

namespace {

// w: 64 ones; y = dropout(w, 0.5), through a chain of steps that are the identity where y is 0 or
// 2: y = y^2 / 2. Each keeps an activation, so there is something to compute again. The buffer
// "seen" takes y; the loss is the sum of y.
Model dropped_ones(int links) {
  Model m;
  Builder b(m.graph, Composites::keep);
  const Value x = b.input({DType::f32, {64}}, "x");
  const TensorData ones = tensor_from({DType::f32, {64}}, std::vector<double>(64, 1));
  const Value w = b.state(StateRole::parameter, ones, "w");
  const Value seen =
      b.state(StateRole::buffer, must(TensorData::zeros({DType::f32, {64}})), "seen");
  Value y = b.emit(op::dropout, {w + x}, DropoutAttrs{0.5, 0});
  for (int i = 0; i < links; ++i) y = ops::square(y) * 0.5;
  b.output(y, "y");
  m.graph.updates.push_back({seen.id(), y.id()});
  REQUIRE_OK(b.status());
  return m;
}

TensorData state_of(const Trainer& t, std::string_view name) {
  for (const StateTensor& s : must(t.save()).entries)
    if (s.name == name) return s.data;
  FAIL("no state");
  return {};
}

// One step of SGD with rate 1 within `budget` (0 to 1) of the memory between the least that works
// and what it takes without a limit.
struct Stepped {
  TensorData y, gradient;
  double loss = 0;
  int64_t repeated = 0;
};
Stepped step_within(const Model& m, double budget) {
  TrainerOptions o;
  o.loss = [](Builder&, const NamedValues& outputs, const NamedValues&) -> Result<Value> {
    HONE_ASSIGN(const Value y, outputs.find("y"));
    return ops::sum(y, {{}, false});
  };
  o.optimizer = {.kind = OptimizerKind::sgd, .lr = 1};
  o.seed = 7;
  const std::vector<NamedTensor> batch = {{"x", must(TensorData::zeros({DType::f32, {64}}))}};
  Trainer t = must(Trainer::create(m, o));
  const int64_t most = must(t.plan(batch)).peak_bytes;
  const int64_t least = must(t.smallest_memory_limit(batch));
  if (budget < 1)
    REQUIRE_OK(t.set_memory_limit(
        least + static_cast<int64_t>(budget * static_cast<double>(most - least))));
  Stepped s;
  s.repeated = must(t.plan(batch)).repeated_steps;
  s.loss = must(t.step(batch)).loss;
  s.y = state_of(t, "seen");
  const TensorData w = state_of(t, "w");
  s.gradient = must(w.clone());
  for (int64_t i = 0; i < 64; ++i) s.gradient.as_mutable<float>()[i] = 1 - w.as<float>()[i];
  return s;
}

}  // namespace

TEST_CASE("C26: the gradient of dropout is its own mask, whatever memory there is") {
  for (const int links : {0, 6}) {
    const Model m = dropped_ones(links);
    const Stepped whole = step_within(m, 1);
    // d(y^2 / 2) = y dy: 2 for each link where y is 2, and 0 where it is 0.
    const double slope = static_cast<double>(1 << links);
    int64_t kept = 0;
    for (int64_t i = 0; i < 64; ++i) {
      const double y = whole.y.at(i);
      REQUIRE((y == 0 || y == 2));
      CHECK_EQ(whole.gradient.at(i), y * slope);
      kept += y != 0;
    }
    CHECK_GT(kept, 0);
    CHECK_LT(kept, 64);
    CHECK_EQ(whole.loss, 2.0 * static_cast<double>(kept));
    for (const double budget : {0.5, 0.0}) {
      CAPTURE(links);
      CAPTURE(budget);
      const Stepped s = step_within(m, budget);
      if (links > 0) CHECK_GT(s.repeated, 0);
      CHECK_EQ(s.loss, whole.loss);
      CHECK(same_bits(s.y, whole.y));
      CHECK(same_bits(s.gradient, whole.gradient));
    }
  }
}

TEST_CASE("C26: a checkpointed region replays dropout with the same mask") {
  for (const bool marked : {false, true}) {
    Tensor x = Tensor::ones({64});
    x.requires_grad_();
    Generator rng(7);
    const auto region = [&] { return dropout(x, 0.5, rng).relu(); };
    const Tensor y = marked ? checkpoint(region) : region();
    REQUIRE_OK(y.sum().backward());
    CHECK(same_bits(x.grad().data(), y.data()));
    const std::vector<float> values = y.to_vector<float>();
    CHECK_GT(std::count(values.begin(), values.end(), 0.0f), 0);
    CHECK_GT(std::count(values.begin(), values.end(), 2.0f), 0);
  }
}

}  // namespace hone::test
