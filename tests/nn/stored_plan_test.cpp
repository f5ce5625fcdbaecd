// SPDX-License-Identifier: Apache-2.0
// Plans that are searched for once and kept with the model.
#include <algorithm>
#include <limits>

#include "hone/session.hpp"
#include "tests/nn/memory_models.hpp"
#include "tests/support/temp_dir.hpp"

namespace hone::test {

namespace {

int64_t halfway(const Subject& s) {
  Trainer t = must(Trainer::create(s.model, options(0)));
  const int64_t least = must(t.smallest_memory_limit(s.batch));
  return least + (must(t.plan(s.batch)).peak_bytes - least) / 4;
}

// The same model with what a short search finds for it.
Model with_plan(const Subject& s, int64_t limit) {
  Trainer t = must(Trainer::create(s.model, options(limit)));
  Model m = s.model;
  m.plans = {must(t.search_plan(s.batch, 0.05))};
  return m;
}

}  // namespace

TEST_CASE(
    "a plan that was searched for is no worse, is used from then on and comes with the file") {
  const TempDir dir;
  for (const auto& make : {convolutions, attention, recurrent}) {
    const Subject s = make();
    CAPTURE(s.name);
    const int64_t limit = halfway(s);
    Trainer plain = must(Trainer::create(s.model, options(limit)));
    const PlanInfo before = must(plain.plan(s.batch));
    CHECK_FALSE(before.stored);
    CHECK_GT(before.repeated_steps, 0);

    Trainer searching = must(Trainer::create(s.model, options(limit)));
    const double first = must(searching.step(s.batch)).loss;
    CHECK_EQ(first, must(plain.step(s.batch)).loss);
    Model m = s.model;
    m.plans = {must(searching.search_plan(s.batch, 0.05))};
    const PlanInfo searched = must(searching.plan(s.batch));
    CHECK_LE(searched.peak_bytes, limit);
    CHECK_LE(searched.extra_time, before.extra_time);
    CHECK_EQ(must(searching.step(s.batch)).loss, must(plain.step(s.batch)).loss);

    REQUIRE_OK(save_model(m, dir.file("planned.hone")));
    const Model loaded = must(load_model(dir.file("planned.hone")));
    Trainer later = must(Trainer::create(loaded, options(limit)));
    const PlanInfo stored = must(later.plan(s.batch));
    CHECK(stored.stored);
    CHECK_EQ(stored.arena_bytes, searched.arena_bytes);
    CHECK_EQ(stored.extra_time, doctest::Approx(searched.extra_time));
    CHECK_EQ(must(later.step(s.batch)).loss, first);
    CHECK_LE(must(later.step(s.batch)).loss, first + 10);
    check_same_states(later, searching);
    CHECK_EQ(must(later.snapshot()).plans.size(), 1);
  }
}

TEST_CASE("a stored plan serves the limits it was made for, and no others") {
  const Subject s = convolutions();
  const int64_t limit = halfway(s);
  const Model m = with_plan(s, limit);
  Trainer free = must(Trainer::create(s.model, options(0)));
  const int64_t least = must(free.smallest_memory_limit(s.batch));
  Trainer t = must(Trainer::create(m, options(limit)));
  CHECK(must(t.plan(s.batch)).stored);
  // Without a limit nothing needs to run again; below it the plan does not fit.
  for (const int64_t other : {int64_t{0}, least}) {
    REQUIRE_OK(t.set_memory_limit(other));
    CHECK_FALSE(must(t.plan(s.batch)).stored);
    CHECK_EQ(must(t.step(s.batch)).loss, must(free.step(s.batch)).loss);
  }
  REQUIRE_OK(t.set_memory_limit(limit));
  CHECK(must(t.plan(s.batch)).stored);
  CHECK_EQ(must(t.step(s.batch)).loss, must(free.step(s.batch)).loss);
  check_same_states(free, t);
  // Other shapes, another optimizer: other steps.
  const std::vector<NamedTensor> fewer = {{"x", random_tensor({DType::f32, {3, 3, 16, 16}}, 6)},
                                          {"label", labels(3)}};
  CHECK_FALSE(must(t.plan(fewer)).stored);
  TrainerOptions o = options(limit);
  o.optimizer.kind = OptimizerKind::sgd;
  Trainer sgd = must(Trainer::create(m, o));
  CHECK_FALSE(must(sgd.plan(s.batch)).stored);
}

TEST_CASE("a plan that is none for its steps is passed over") {
  const Subject s = convolutions();
  const int64_t limit = halfway(s);
  const Model good = with_plan(s, limit);
  Trainer free = must(Trainer::create(s.model, options(0)));
  const double loss = must(free.step(s.batch)).loss;
  using Damage = void (*)(StoredPlan&);
  const Damage damages[] = {
      [](StoredPlan& p) { p.runs.clear(); },
      [](StoredPlan& p) { p.runs.pop_back(); },
      [](StoredPlan& p) { p.runs[3] = -1; },
      [](StoredPlan& p) { p.runs[3] = std::numeric_limits<int32_t>::max(); },
      [](StoredPlan& p) { std::reverse(p.runs.begin(), p.runs.end()); },
      [](StoredPlan& p) { p.runs.insert(p.runs.end(), p.runs.begin(), p.runs.end()); },
      [](StoredPlan& p) { p.offsets.pop_back(); },
      [](StoredPlan& p) { p.offsets.assign(p.offsets.size(), 0); },
      [](StoredPlan& p) { p.offsets[0] = -64; },
      [](StoredPlan& p) { p.offsets[0] += 4; },
      [](StoredPlan& p) { p.offsets[0] = std::numeric_limits<int64_t>::max() - 63; },
      [](StoredPlan& p) { p.offsets[0] = p.bytes; },
      [](StoredPlan& p) { p.bytes = 0; },
      [](StoredPlan& p) { p.bytes = -64; },
      [](StoredPlan& p) { p.bytes = std::numeric_limits<int64_t>::max(); },
      [](StoredPlan& p) { ++p.problem; },
  };
  for (size_t i = 0; i < std::size(damages); ++i) {
    CAPTURE(i);
    Model m = good;
    damages[i](m.plans[0]);
    Trainer t = must(Trainer::create(m, options(limit)));
    const PlanInfo plan = must(t.plan(s.batch));
    CHECK_FALSE(plan.stored);
    CHECK_LE(plan.peak_bytes, limit);
    CHECK_EQ(must(t.step(s.batch)).loss, loss);
  }
}

TEST_CASE("sessions use stored plans too") {
  const Subject s = convolutions();
  const TensorData in[] = {s.batch[0].data};
  const Shape shapes[] = {in[0].shape()};
  Session plain = must(Session::create(s.model));
  const std::vector<TensorData> want = must(plain.run(in));
  Model m = s.model;
  m.plans = {must(plain.search_plan(shapes, 0.01))};
  CHECK(same_bits(must(plain.run(in))[0], want[0]));
  Session later = must(Session::create(m));
  CHECK(must(later.plan(shapes)).stored);
  CHECK(same_bits(must(later.run(in))[0], want[0]));
  // One that would take a terabyte.
  Model vast = m;
  vast.plans[0].bytes = int64_t{1} << 40;
  vast.plans[0].offsets[0] = vast.plans[0].bytes - (1 << 20);
  Session unimpressed = must(Session::create(vast));
  CHECK_FALSE(must(unimpressed.plan(shapes)).stored);
  CHECK(same_bits(must(unimpressed.run(in))[0], want[0]));
  CHECK_ERROR(plain.search_plan(shapes, -1), Code::invalid_argument, "0 or more seconds");
}

}  // namespace hone::test
