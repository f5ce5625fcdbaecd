// SPDX-License-Identifier: Apache-2.0
// Training within a memory limit: the same bits as without one, within the bytes that were
// promised.
#include "tests/nn/memory_models.hpp"

namespace hone::test {

TEST_CASE("a memory limit changes no bit of parameters, moments, statistics and losses") {
  for (const auto& make : {convolutions, attention, recurrent}) {
    const Subject s = make();
    CAPTURE(s.name);
    Trainer free = must(Trainer::create(s.model, options(0)));
    const PlanInfo plan = must(free.plan(s.batch));
    const int64_t least = must(free.smallest_memory_limit(s.batch));
    CHECK_LT(least, plan.peak_bytes);
    std::vector<double> losses;
    for (int i = 0; i < 3; ++i) losses.push_back(must(free.step(s.batch)).loss);
    for (const double share : {0.75, 0.5, 0.25, 0.0}) {
      const int64_t limit =
          least + static_cast<int64_t>(share * static_cast<double>(plan.peak_bytes - least));
      CAPTURE(limit);
      Trainer bound = must(Trainer::create(s.model, options(limit)));
      const PlanInfo small = must(bound.plan(s.batch));
      CHECK_LE(small.peak_bytes, limit);
      CHECK_GT(small.repeated_steps, 0);
      CHECK_GT(small.extra_time, 0);
      for (int i = 0; i < 3; ++i)
        CHECK_EQ(must(bound.step(s.batch)).loss, losses[static_cast<size_t>(i)]);
      check_same_states(free, bound);
    }
  }
}

TEST_CASE("without a limit a small share of time is spent on keeping less, and no bit changes") {
  Subject s = convolutions();
  s.batch = {{"x", random_tensor({DType::f32, {128, 3, 16, 16}}, 5)}, {"label", labels(128)}};
  TrainerOptions o = options(0);
  o.recompute_share = 0;
  Trainer keeps_all = must(Trainer::create(s.model, o));
  const PlanInfo all = must(keeps_all.plan(s.batch));
  CHECK_EQ(all.repeated_steps, 0);
  int64_t before = all.peak_bytes;
  for (const double share : {0.05, 0.2}) {
    CAPTURE(share);
    o.recompute_share = share;
    Trainer frugal = must(Trainer::create(s.model, o));
    const PlanInfo plan = must(frugal.plan(s.batch));
    CHECK_GT(plan.repeated_steps, 0);
    CHECK_LE(plan.extra_time, share);
    CHECK_LT(plan.peak_bytes, before - (before >> 4));
    before = plan.peak_bytes;
    Trainer same = must(Trainer::create(s.model, [&] {
      TrainerOptions none = o;
      none.recompute_share = 0;
      return none;
    }()));
    for (int i = 0; i < 2; ++i)
      CHECK_EQ(must(frugal.step(s.batch)).loss, must(same.step(s.batch)).loss);
    check_same_states(same, frugal);
    // A limit that suffices for all of it is used, and goes away again.
    REQUIRE_OK(frugal.set_memory_limit(all.peak_bytes));
    CHECK_EQ(must(frugal.plan(s.batch)).repeated_steps, 0);
    REQUIRE_OK(frugal.set_memory_limit(0));
    CHECK_EQ(must(frugal.plan(s.batch)).peak_bytes, plan.peak_bytes);
  }
  o.recompute_share = -1;
  CHECK_ERROR(Trainer::create(s.model, o).status(), Code::invalid_argument, "recompute_share");
}

TEST_CASE("gradients on their own keep a limit too") {
  const Subject s = convolutions();
  Trainer free = must(Trainer::create(s.model, options(0)));
  const auto expected = must(free.gradients(s.batch));
  const int64_t least = must(free.smallest_memory_limit(s.batch));
  Trainer bound = must(Trainer::create(s.model, options(least + (least >> 2))));
  const auto got = must(bound.gradients(s.batch));
  REQUIRE_EQ(got.size(), expected.size());
  for (size_t i = 0; i < got.size(); ++i) CHECK(same_bits(got[i].data, expected[i].data));
}

TEST_CASE("an impossible limit names the smallest that works, and that one works") {
  const Subject s = convolutions();
  Trainer t = must(Trainer::create(s.model, options(100_KiB)));
  const Status refused = t.step(s.batch).status();
  CHECK_ERROR(refused, Code::out_of_memory, "the smallest that works is");
  CHECK_ERROR(refused, Code::out_of_memory, "plain SGD");
  CHECK_ERROR(refused, Code::out_of_memory, "half the batch");
  const int64_t least = must(t.smallest_memory_limit(s.batch));
  CHECK(std::string(refused.message()).find(format("{} bytes", least)) != std::string::npos);
  Trainer exact = must(Trainer::create(s.model, options(least)));
  CHECK(exact.step(s.batch).ok());
  CHECK_EQ(t.steps(), 0);
}

TEST_CASE("the limit may change between steps and nothing is lost") {
  const Subject s = convolutions();
  Trainer free = must(Trainer::create(s.model, options(0)));
  Trainer changing = must(Trainer::create(s.model, options(0)));
  const int64_t peak = must(changing.plan(s.batch)).peak_bytes;
  const int64_t least = must(changing.smallest_memory_limit(s.batch));
  const int64_t limits[] = {0, (peak + least) / 2, least, peak, 0};
  for (const int64_t limit : limits) {
    REQUIRE_OK(changing.set_memory_limit(limit));
    const PlanInfo plan = must(changing.plan(s.batch));
    if (limit > 0) CHECK_LE(plan.peak_bytes, limit);
    CHECK_EQ(must(changing.step(s.batch)).loss, must(free.step(s.batch)).loss);
    CHECK_EQ(must(changing.evaluate(s.batch)), must(free.evaluate(s.batch)));
  }
  CHECK_ERROR(changing.set_memory_limit(least / 2), Code::out_of_memory, "the limit stays at none");
  CHECK_ERROR(changing.set_memory_limit(-1), Code::invalid_argument, "below 0");
  CHECK_EQ(must(changing.step(s.batch)).loss, must(free.step(s.batch)).loss);
  check_same_states(free, changing);
}

TEST_CASE("evaluation, prediction and other shapes keep the limit of the step") {
  const Subject s = convolutions();
  std::vector<NamedTensor> smaller = {{"x", random_tensor({DType::f32, {5, 3, 16, 16}}, 6)},
                                      {"label", labels(5)}};
  Trainer free = must(Trainer::create(s.model, options(0)));
  const int64_t least = must(free.smallest_memory_limit(s.batch));
  Trainer bound = must(Trainer::create(s.model, options(least + 64_KiB)));
  for (int i = 0; i < 3; ++i) {
    CHECK_EQ(must(bound.step(s.batch)).loss, must(free.step(s.batch)).loss);
    CHECK_EQ(must(bound.evaluate(s.batch)), must(free.evaluate(s.batch)));
    CHECK(same_bits(must(bound.predict({&s.batch[0], 1}))[0],
                    must(free.predict({&s.batch[0], 1}))[0]));
    CHECK_EQ(must(bound.step(smaller)).loss, must(free.step(smaller)).loss);
    CHECK_LE(must(bound.plan(s.batch)).peak_bytes, least + 64_KiB);
  }
  check_same_states(free, bound);
}

TEST_CASE("what a limit refuses leaves the trainer as it was") {
  const Subject s = convolutions();
  Trainer t = must(Trainer::create(s.model, options(0)));
  const int64_t least = must(t.smallest_memory_limit(s.batch));
  Trainer bound = must(Trainer::create(s.model, options(least)));
  REQUIRE_OK(bound.step(s.batch));
  const bool fits = bound.accumulate(s.batch).ok();  // with the sums it may or may not
  const Status after = bound.step(s.batch).status();
  CHECK((fits || after.ok()));
  CHECK((after.ok() || after.code() == Code::out_of_memory));
  if (after.ok()) CHECK_LE(must(bound.plan(s.batch)).peak_bytes, least);
  TrainerOptions parts = options(0);
  parts.micro_batches = 2;
  Trainer a = must(Trainer::create(s.model, parts));
  parts.session.memory_limit = must(a.smallest_memory_limit(s.batch));
  Trainer b = must(Trainer::create(s.model, parts));
  for (int i = 0; i < 2; ++i) CHECK_EQ(must(b.step(s.batch)).loss, must(a.step(s.batch)).loss);
  CHECK_LE(must(b.plan(s.batch)).peak_bytes, parts.session.memory_limit);
}

TEST_CASE("what is not trained is not kept") {
  const Subject s = convolutions();
  TrainerOptions all = options(0), last = options(0), biases = options(0);
  last.trainable = "12.*";  // the linear layer behind the pooling
  biases.trainable = "*.bias";
  Trainer a = must(Trainer::create(s.model, all)), b = must(Trainer::create(s.model, last)),
          c = must(Trainer::create(s.model, biases));
  const PlanInfo whole = must(a.plan(s.batch)), head = must(b.plan(s.batch)),
                 only = must(c.plan(s.batch));
  CHECK_LT(static_cast<double>(head.arena_bytes), 0.6 * static_cast<double>(whole.arena_bytes));
  CHECK_LT(head.state_bytes, whole.state_bytes);
  CHECK_LT(only.arena_bytes, whole.arena_bytes);
}

TEST_CASE("a session keeps a limit or says what is too large") {
  const Subject s = convolutions();
  Session session = must(Session::create(s.model, {}));
  const TensorData in[] = {s.batch[0].data};
  const Shape shapes[] = {in[0].shape()};
  const auto expected = must(session.run(in));
  const PlanInfo plan = must(session.plan(shapes));
  REQUIRE_OK(session.set_memory_limit(plan.peak_bytes));
  CHECK(same_bits(must(session.run(in))[0], expected[0]));
  CHECK_ERROR(session.set_memory_limit(16), Code::out_of_memory, "the weights alone");
  REQUIRE_OK(session.set_memory_limit(plan.state_bytes + 64));
  CHECK_ERROR(session.run(in), Code::out_of_memory, "the smallest that works is");
  REQUIRE_OK(session.set_memory_limit(0));
  CHECK(same_bits(must(session.run(in))[0], expected[0]));
}

}  // namespace hone::test
