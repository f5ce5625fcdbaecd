// SPDX-License-Identifier: Apache-2.0
// Gradients of several batches for one update.
#include <cmath>

#include "tests/runtime/models.hpp"

namespace hone::test {

namespace {

// loss = mean over the targets of target * w: the gradient by w is the targets' mean.
Model one_weight() {
  Model m;
  Builder b(m.graph, Composites::keep);
  const Value x = b.input({DType::f32, {m.graph.dim("N")}}, "x");
  const Value w = b.state(StateRole::parameter, tensor_of<float>({1}, {0}), "w");
  b.output(x * w, "y");
  REQUIRE_OK(b.status());
  return m;
}

TrainerOptions options() {
  TrainerOptions o;
  o.loss = [](Builder&, const NamedValues& outputs, const NamedValues& targets) -> Result<Value> {
    HONE_ASSIGN(const Value y, outputs.find("y"));
    HONE_ASSIGN(const Value counts, targets.find("counts"));
    const Value total = ops::sum(counts, {.keepdims = false});
    return ops::sum(y * counts, {.keepdims = false}) /
           ops::maximum(total, y.builder().scalar(1, DType::f32));
  };
  o.count_targets = [](Builder&, const NamedValues&, const NamedValues& targets) -> Result<Value> {
    HONE_ASSIGN(const Value counts, targets.find("counts"));
    return ops::sum(counts, {.keepdims = false});
  };
  o.optimizer = {.kind = OptimizerKind::sgd, .lr = 1};
  return o;
}

std::vector<NamedTensor> tokens(const std::vector<double>& gradients,
                                const std::vector<double>& counts) {
  const int64_t n = static_cast<int64_t>(gradients.size());
  return {{"x", tensor_from({DType::f32, {n}}, gradients)},
          {"counts", tensor_from({DType::f32, {n}}, counts)}};
}

double weight(const Trainer& t) {
  const Model m = must(t.snapshot());
  return m.graph.value(m.graph.find("w")).data.at(0);
}

}  // namespace

TEST_CASE("C25: micro-batches count by their targets") {
  Trainer t = must(Trainer::create(one_weight(), options()));
  REQUIRE_OK(t.accumulate(tokens({1}, {1})));
  REQUIRE_OK(t.accumulate(tokens({3, 3, 3}, {1, 1, 1})));
  REQUIRE_OK(t.apply());
  CHECK_EQ(weight(t), -2.5);
  // A partial window is applied; one without targets changes nothing and divides by nothing.
  REQUIRE_OK(t.accumulate(tokens({2, 2}, {1, 1})));
  REQUIRE_OK(t.apply());
  CHECK_EQ(weight(t), -4.5);
  REQUIRE_OK(t.accumulate(tokens({5, 5}, {0, 0})));
  const StepResult none = must(t.apply());
  CHECK_EQ(none.loss, 0);
  CHECK_EQ(weight(t), -4.5);
  REQUIRE_OK(t.apply());
  CHECK_EQ(weight(t), -4.5);
  CHECK_EQ(t.steps(), 4);
}

TEST_CASE("micro-batches in one step give the whole batch's update") {
  const Model m = small_mlp(WithDropout::no, DType::f64);
  TrainerOptions whole;
  whole.loss = cross_entropy_loss;
  whole.clip_norm = 0.05;
  TrainerOptions cut = whole;
  cut.micro_batches = 3;
  Trainer a = must(Trainer::create(m, whole)), b = must(Trainer::create(m, cut));
  for (uint64_t i = 0; i < 4; ++i) {
    const auto batch = two_clouds(8, i, DType::f64);  // 3 + 3 + 2
    const StepResult x = must(a.step(batch)), y = must(b.step(batch));
    CHECK_EQ(x.loss, doctest::Approx(y.loss).epsilon(1e-6));
    CHECK_EQ(x.grad_norm, doctest::Approx(y.grad_norm).epsilon(1e-6));
  }
  const Model x = must(a.snapshot()), y = must(b.snapshot());
  for (const char* name : {"fc1.weight", "fc1.bias", "fc2.weight", "fc2.bias"})
    CHECK(all_close(x.graph.value(x.graph.find(name)).data, y.graph.value(y.graph.find(name)).data,
                    1e-5, 1e-7));
}

TEST_CASE("a bad micro-batch drops the step and nothing else") {
  TrainerOptions o = options();
  o.micro_batches = 2;
  Trainer t = must(Trainer::create(one_weight(), o));
  CHECK_ERROR(t.step(tokens({1, NAN}, {1, 1})), Code::invalid_argument, "nothing was updated");
  CHECK_EQ(weight(t), 0);
  CHECK_EQ(t.steps(), 0);
  REQUIRE_OK(t.step(tokens({1, 2}, {1, 1})));
  CHECK_EQ(weight(t), -1.5);
  std::vector<NamedTensor> uneven = tokens({1, 2}, {1, 1});
  uneven[1].data = tensor_of<float>({3}, {1, 1, 1});
  CHECK_ERROR(t.step(uneven), Code::invalid_argument, "the same leading extent");
}

TEST_CASE("gradients that wait are not saved, and forgotten when another state is restored") {
  Trainer t = must(Trainer::create(one_weight(), options()));
  const Trainer::State at_first = must(t.save());
  REQUIRE_OK(t.accumulate(tokens({1}, {1})));
  CHECK_EQ(must(t.save()).entries.size(), at_first.entries.size());
  REQUIRE_OK(t.restore(at_first));
  REQUIRE_OK(t.apply());
  CHECK_EQ(weight(t), 0);
}

}  // namespace hone::test
