// SPDX-License-Identifier: Apache-2.0
// Profiles of sessions and trainers.
#include "hone/profile.hpp"

#include <algorithm>
#include <set>

#include "core/base/platform.hpp"
#include "tests/runtime/models.hpp"

namespace hone::test {

namespace {

int64_t total_ns(const Profile& p) {
  int64_t sum = 0;
  for (const ProfileRow& r : p.rows) sum += r.total_ns;
  return sum;
}

TrainerOptions training() {
  TrainerOptions o;
  o.loss = cross_entropy_loss;
  return o;
}

}  // namespace

TEST_CASE("a session that was not asked has no profile, and none after the end of one") {
  Session s = must(Session::create(small_mlp()));
  const std::vector<TensorData> in = {random_tensor({DType::f32, {4, 3}}, 1)};
  REQUIRE(s.run(in).ok());
  CHECK(s.profile().rows.empty());
  s.start_profile();
  REQUIRE(s.run(in).ok());
  CHECK_FALSE(s.profile().rows.empty());
  s.stop_profile();
  REQUIRE(s.run(in).ok());
  CHECK(s.profile().rows.empty());
}

TEST_CASE("a profile has each step of each program once, with as many runs as there were") {
  Session s = must(Session::create(small_mlp(), {.kernels = Kernels::reference}));
  s.start_profile();
  const std::vector<TensorData> four = {random_tensor({DType::f32, {4, 3}}, 1)};
  const std::vector<TensorData> six = {random_tensor({DType::f32, {6, 3}}, 1)};
  for (int i = 0; i < 3; ++i) REQUIRE(s.run(four).ok());
  REQUIRE(s.run(six).ok());
  const Profile p = s.profile();
  const Shape shapes[] = {{4, 3}, {6, 3}};
  size_t at = 0;
  for (int32_t program = 0; program < 2; ++program) {
    const PlanDetail plan = must(s.plan_detail(std::span<const Shape>(&shapes[program], 1)));
    for (size_t i = 0; i < plan.steps.size(); ++i, ++at) {
      REQUIRE_LT(at, p.rows.size());
      const ProfileRow& r = p.rows[at];
      CAPTURE(r.name);
      CHECK_EQ(r.program, program);
      CHECK_EQ(r.step, static_cast<int32_t>(i));
      CHECK_EQ(r.name, plan.steps[i].name);
      CHECK_EQ(r.kernel, plan.steps[i].kernel);
      CHECK_EQ(r.runs, program == 0 ? 3 : 1);
    }
  }
  CHECK_EQ(at, p.rows.size());
  CHECK(p.events.empty());
}

TEST_CASE("a profile knows the work of a step: arithmetic, and the bytes of its operands") {
  Model m;
  Builder b(m.graph);
  const Value x = b.input({DType::f32, {2, 3}}, "x");
  b.output(ops::matmul(x, b.constant(random_tensor({DType::f32, {3, 5}}, 1), "w")), "y");
  REQUIRE_OK(b.status());
  Session s = must(Session::create(m, {.kernels = Kernels::reference}));
  s.start_profile();
  const std::vector<TensorData> in = {random_tensor({DType::f32, {2, 3}}, 2)};
  REQUIRE(s.run(in).ok());
  const Profile p = s.profile();
  REQUIRE_EQ(p.rows.size(), 1);
  CHECK_EQ(p.rows[0].op, "matmul");
  CHECK_EQ(p.rows[0].flops, 2 * 2 * 3 * 5);
  CHECK_EQ(p.rows[0].bytes, 4 * (2 * 3 + 3 * 5 + 2 * 5));
}

TEST_CASE("the durations of steps add up to no more than the time that passed") {
  Trainer t = must(Trainer::create(small_mlp(), training()));
  const auto batch = two_clouds(16, 1);
  REQUIRE(t.step(batch).ok());
  const int64_t before = platform::now_ns();
  t.start_profile({.max_events = 10000});
  for (int i = 0; i < 5; ++i) REQUIRE(t.step(batch).ok());
  const Profile p = t.profile();
  const int64_t passed = platform::now_ns() - before;
  CHECK_GE(p.origin_ns, before);
  CHECK_LE(total_ns(p), passed);
  CHECK_GT(total_ns(p), 0);
  // Events are the same durations one by one, and do not overlap.
  CHECK_EQ(p.events.size(), 5 * p.rows.size());
  std::vector<int64_t> of_row(p.rows.size(), 0);
  int64_t end = 0;
  for (const ProfileEvent& e : p.events) {
    CHECK_GE(e.start_ns, end);
    end = e.start_ns + e.duration_ns;
    of_row[static_cast<size_t>(e.row)] += e.duration_ns;
  }
  CHECK_LE(end, passed);
  for (size_t i = 0; i < p.rows.size(); ++i) CHECK_EQ(of_row[i], p.rows[i].total_ns);
}

TEST_CASE(
    "a training step's profile has its three phases, and evaluation is a program of its own") {
  Trainer t = must(Trainer::create(small_mlp(), training()));
  const auto batch = two_clouds(16, 1);
  t.start_profile();
  REQUIRE(t.step(batch).ok());
  REQUIRE(t.step(batch).ok());
  REQUIRE(t.evaluate(batch).ok());
  const Profile p = t.profile();
  std::set<PlanPhase> phases;
  int64_t step_rows = 0;
  for (const ProfileRow& r : p.rows) {
    CHECK_EQ(r.runs, r.program == 0 ? 2 : 1);
    if (r.program > 0) continue;
    ++step_rows;
    phases.insert(r.phase);
  }
  CHECK_EQ(phases.size(), 3);
  CHECK_EQ(step_rows, must(t.plan(batch)).steps);
  CHECK_LT(step_rows, static_cast<int64_t>(p.rows.size()));
  const bool updates = std::any_of(p.rows.begin(), p.rows.end(), [](const ProfileRow& r) {
    return r.name.find("update of fc1.weight") != std::string::npos;
  });
  CHECK(updates);
}

TEST_CASE("events stop at the end of a run when their room is used up, the sums go on") {
  Session s = must(Session::create(small_mlp(), {.kernels = Kernels::reference}));
  const std::vector<TensorData> in = {random_tensor({DType::f32, {4, 3}}, 1)};
  const Shape shape{4, 3};
  const int64_t steps = must(s.plan(std::span<const Shape>(&shape, 1))).steps;
  s.start_profile({.max_events = 2 * steps + 1});
  for (int i = 0; i < 4; ++i) REQUIRE(s.run(in).ok());
  const Profile p = s.profile();
  CHECK_EQ(static_cast<int64_t>(p.events.size()), 2 * steps);
  for (const ProfileRow& r : p.rows) CHECK_EQ(r.runs, 4);
}

TEST_CASE("a profile goes on when a memory limit changes the steps, with rows for the new ones") {
  Trainer t = must(Trainer::create(small_mlp(), training()));
  const auto batch = two_clouds(64, 1);
  t.start_profile();
  REQUIRE(t.step(batch).ok());
  const size_t before = t.profile().rows.size();
  REQUIRE_OK(t.set_memory_limit(must(t.smallest_memory_limit(batch))));
  REQUIRE(t.step(batch).ok());
  const Profile p = t.profile();
  REQUIRE_GT(p.rows.size(), before);
  CHECK_EQ(static_cast<int64_t>(p.rows.size() - before), must(t.plan(batch)).steps);
  for (const ProfileRow& r : p.rows) CHECK_EQ(r.runs, 1);
}

}  // namespace hone::test
