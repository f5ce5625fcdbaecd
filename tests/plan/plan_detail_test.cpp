// SPDX-License-Identifier: Apache-2.0
// Plans in full: that they are what they say, and that people can read the names.
#include "hone/plan_detail.hpp"

#include <algorithm>

#include "core/plan/program.hpp"
#include "hone/onnx.hpp"
#include "tests/runtime/models.hpp"
#include "tests/support/source_path.hpp"

namespace hone::test {

namespace {

Result<Value> squares(Builder&, const NamedValues& outputs, const NamedValues&) {
  return ops::mean(ops::square(outputs.items()[0].second), {.keepdims = false});
}

struct Planned {
  PlanInfo info;
  PlanDetail detail;
};

Planned plan_training(const Model& m, std::span<const NamedTensor> batch, int64_t limit = 0) {
  TrainerOptions o;
  o.loss = squares;
  o.session.memory_limit = limit;
  Trainer t = must(Trainer::create(m, o));
  return {must(t.plan(batch)), must(t.plan_detail(batch))};
}

Model segment() { return must(open_model(source_path("tests/golden/train_segment/model.onnx"))); }
std::vector<NamedTensor> segment_batch() {
  return {{"input", random_tensor({DType::f32, {16, 1, 8, 8}}, 1)}};
}

int64_t least(const Model& m, std::span<const NamedTensor> batch) {
  TrainerOptions o;
  o.loss = squares;
  Trainer t = must(Trainer::create(m, o));
  return must(t.smallest_memory_limit(batch));
}

// Every two that share a byte and a step, and every one outside the arena or the steps.
std::string clashes(const PlanDetail& d) {
  std::string out;
  for (size_t i = 0; i < d.buffers.size(); ++i) {
    const PlanBuffer& a = d.buffers[i];
    if (a.bytes <= 0 || a.offset < 0 || a.offset + a.bytes > d.arena_bytes || a.first < 0 ||
        a.last < a.first || static_cast<size_t>(a.last) >= d.steps.size())
      out += format("'{}' is out of bounds; ", a.name);
    for (size_t k = 0; k < i; ++k) {
      const PlanBuffer& b = d.buffers[k];
      if (a.first <= b.last && b.first <= a.last && a.offset < b.offset + b.bytes &&
          b.offset < a.offset + a.bytes)
        out += format("'{}' and '{}' overlap; ", a.name, b.name);
    }
  }
  return out;
}

const PlanBuffer* find(const PlanDetail& d, std::string_view name, PlanUse use) {
  for (const PlanBuffer& b : d.buffers)
    if (b.name == name && b.use == use) return &b;
  return nullptr;
}

}  // namespace

TEST_CASE("no two buffers of a plan overlap, and its peak is the plan's lower bound") {
  const Model mlp = small_mlp(), net = segment();
  const std::vector<NamedTensor> clouds = {two_clouds(64, 1)[0]};
  const std::vector<NamedTensor> images = segment_batch();
  const Planned plans[] = {plan_training(mlp, clouds), plan_training(net, images),
                           plan_training(net, images, least(net, images))};
  for (const Planned& p : plans) {
    CHECK_EQ(clashes(p.detail), "");
    CHECK_EQ(p.detail.peak_bytes(), p.info.lower_bound_bytes);
    CHECK_EQ(p.detail.arena_bytes, p.info.arena_bytes);
    CHECK_EQ(static_cast<int64_t>(p.detail.steps.size()), p.info.steps);
    CHECK_EQ(p.detail.live_bytes.size(), p.detail.steps.size());
    CHECK_FALSE(p.detail.buffers.empty());
  }
}

TEST_CASE("steps that a limit repeats, and what they make, are marked") {
  const Model net = segment();
  const std::vector<NamedTensor> images = segment_batch();
  const auto repeated = [](const Planned& p) {
    return std::count_if(p.detail.steps.begin(), p.detail.steps.end(),
                         [](const PlanStep& s) { return s.again; });
  };
  const auto made_again = [](const Planned& p) {
    return std::count_if(p.detail.buffers.begin(), p.detail.buffers.end(),
                         [](const PlanBuffer& b) { return b.use == PlanUse::again; });
  };
  const Planned free = plan_training(net, images);
  CHECK_EQ(repeated(free), 0);
  CHECK_EQ(made_again(free), 0);
  const Planned bound = plan_training(net, images, least(net, images));
  CHECK_GT(repeated(bound), 0);
  CHECK_EQ(repeated(bound), bound.info.repeated_steps);
  CHECK_GT(made_again(bound), 0);
}

TEST_CASE("a training plan knows forward, backward and update, and whose gradient is whose") {
  const std::vector<NamedTensor> batch = {two_clouds(64, 1)[0]};
  const Planned p = plan_training(small_mlp(), batch);
  const PlanDetail& d = p.detail;
  CHECK(d.trains);
  const auto first = [&](PlanPhase phase) {
    return std::find_if(d.steps.begin(), d.steps.end(),
                        [&](const PlanStep& s) { return s.phase == phase; }) -
           d.steps.begin();
  };
  CHECK_EQ(first(PlanPhase::forward), 0);
  CHECK_LT(first(PlanPhase::forward), first(PlanPhase::backward));
  CHECK_LT(first(PlanPhase::backward), first(PlanPhase::update));
  const PlanBuffer* gradient = find(d, "gradient of fc1.weight", PlanUse::gradient);
  REQUIRE(gradient != nullptr);
  CHECK_EQ(gradient->type, "f32[3, 8]");
  CHECK(d.steps[static_cast<size_t>(gradient->first)].phase == PlanPhase::backward);
  CHECK(std::any_of(d.steps.begin(), d.steps.end(), [](const PlanStep& s) {
    return s.name == "update of fc1.weight (adam_update)" && s.phase == PlanPhase::update;
  }));
  CHECK(find(d, "relu 'fc1'", PlanUse::kept) != nullptr);
}

TEST_CASE("what is held when the loss becomes known counts as kept, whatever made it") {
  const Model net = segment();
  const std::vector<NamedTensor> images = segment_batch();
  for (const int64_t limit : {int64_t{0}, least(net, images)}) {
    const PlanDetail d = plan_training(net, images, limit).detail;
    REQUIRE_GE(d.loss_step, 0);
    int64_t kept = 0;
    for (const PlanBuffer& b : d.buffers) {
      CAPTURE(b.name);
      if (b.use == PlanUse::kept) CHECK((b.first <= d.loss_step && b.last >= d.loss_step));
      if (b.use == PlanUse::gradient) CHECK_GT(b.first, d.loss_step);
      if (b.use == PlanUse::passing) CHECK_LE(b.last, d.loss_step);
      kept += b.use == PlanUse::kept ? b.bytes : 0;
    }
    CHECK_GT(kept, 0);
    for (int32_t i = 0; i <= d.loss_step; ++i)
      CHECK(d.steps[static_cast<size_t>(i)].phase != PlanPhase::update);
  }
}

TEST_CASE("bytes taken over in place change hands at the step that does so") {
  // exp runs in place of exp: one place in the arena, two buffers one after the other.
  Graph g;
  Builder b(g);
  b.set_scope("a");
  Value v = ops::exp(b.input({DType::f32, {16}}, "x"));
  b.set_scope("b");
  v = ops::exp(v);
  b.set_scope("c");
  b.output(ops::exp(v), "y");
  const PlanDetail d = plan_detail(must(prepare(std::move(g), {})));
  REQUIRE_EQ(d.steps.size(), 3);
  REQUIRE_EQ(d.buffers.size(), 2);
  CHECK_FALSE(d.trains);
  CHECK_EQ(d.buffers[0].name, "exp 'a'");
  CHECK_EQ(d.buffers[0].last, 0);
  CHECK_EQ(d.buffers[1].name, "exp 'b'");
  CHECK_EQ(d.buffers[1].first, 1);
  CHECK_EQ(d.buffers[1].last, 2);
  CHECK(d.buffers[1].in_place);
  CHECK_EQ(d.buffers[0].offset, d.buffers[1].offset);
  CHECK(d.buffers[1].use == PlanUse::passing);
  CHECK_EQ(d.peak_bytes(), 64);
}

TEST_CASE("a plan without steps has no peak") {
  Graph g;
  const PlanDetail d = plan_detail(must(prepare(std::move(g), {})));
  CHECK_EQ(d.peak_step, -1);
  CHECK_EQ(d.peak_bytes(), 0);
}

TEST_CASE("sessions and micro-batches have plans in full") {
  const Model m = small_mlp();
  Session s = must(Session::create(m));
  const Shape shapes[] = {{32, 3}};
  const PlanDetail d = must(s.plan_detail(shapes));
  CHECK_FALSE(d.trains);
  CHECK_EQ(static_cast<int64_t>(d.steps.size()), must(s.plan(shapes)).steps);
  const Shape wrong[] = {{32, 4}};
  CHECK_ERROR(s.plan_detail(wrong), Code::invalid_argument, "the model expects 3");

  TrainerOptions o;
  o.loss = squares;
  o.micro_batches = 4;
  Trainer t = must(Trainer::create(m, o));
  const std::vector<NamedTensor> batch = {two_clouds(64, 1)[0]};
  const PlanDetail part = must(t.plan_detail(batch));
  CHECK(part.trains);
  const PlanBuffer* kept = find(part, "relu 'fc1'", PlanUse::kept);
  REQUIRE(kept != nullptr);
  CHECK_EQ(kept->type, "f32[16, 8]");
}

}  // namespace hone::test
