// SPDX-License-Identifier: Apache-2.0
// Limits below what the weights or the optimizer's state take: they stay in files.
#include "hone/checkpoint.hpp"
#include "hone/plan_detail.hpp"
#include "hone/session.hpp"
#include "tests/nn/memory_models.hpp"
#include "tests/support/temp_dir.hpp"

namespace hone::test {

namespace {

// Eight layers of 256 KiB of weights each; a kernel may need one of them twice.
Subject wide() {
  Generator rng(6);
  nn::Sequential net;
  for (int i = 0; i < 8; ++i) {
    net.add<nn::Linear>(256, 256, rng);
    net.add<nn::Relu>();
  }
  net.add<nn::Linear>(256, 4, rng);
  Model m = must(nn::trace(net, {"x", example({2, 256}), {"n"}}, "logits"));
  return {"wide",
          std::move(m),
          {{"x", random_tensor({DType::f32, {4, 256}}, 5)}, {"label", labels(4)}}};
}

// The same with its weights in a mapped file.
Subject mapped(const TempDir& dir) {
  Subject s = wide();
  REQUIRE_OK(save_model(s.model, dir.file("wide.hone")));
  s.model = must(load_model(dir.file("wide.hone")));
  return s;
}

TrainerOptions spilling(int64_t limit, const std::string& folder) {
  TrainerOptions o = options(limit);
  o.spill_folder = folder;
  return o;
}

}  // namespace

TEST_CASE("a session reads weights from their file where the limit is below what they take") {
  const TempDir dir;
  const Subject s = mapped(dir);
  const TensorData in[] = {s.batch[0].data};
  Session free = must(Session::create(s.model));
  const std::vector<TensorData> want = must(free.run(in));
  const Shape shapes[] = {in[0].shape()};
  const PlanInfo unbound = must(free.plan(shapes));  // what is packed is read from the file once
  const int64_t weights = unbound.state_bytes + unbound.file_bytes;
  int64_t in_files = 0;
  for (const int64_t limit : {weights, weights / 2, weights / 3}) {
    CAPTURE(limit);
    Session tight = must(Session::create(s.model, {.memory_limit = limit}));
    for (int i = 0; i < 2; ++i) CHECK(same_bits(must(tight.run(in))[0], want[0]));
    const PlanInfo plan = must(tight.plan(shapes));
    CHECK_LE(plan.peak_bytes, limit);
    CHECK_GT(plan.file_bytes, in_files);  // no more of them than it takes
    CHECK_EQ(plan.file_bytes + plan.state_bytes, weights);
    in_files = plan.file_bytes;
    REQUIRE_OK(tight.set_memory_limit(0));
    CHECK(same_bits(must(tight.run(in))[0], want[0]));
    CHECK_EQ(must(tight.plan(shapes)).file_bytes, unbound.file_bytes);
  }
  CHECK_ERROR(Session::create(s.model, {.memory_limit = weights / 2, .stream_weights = false}),
              Code::out_of_memory, "the weights alone take");
  CHECK_ERROR(Session::create(wide().model, {.memory_limit = weights / 2}), Code::out_of_memory,
              "the weights alone take");
  Session hopeless = must(Session::create(s.model, {.memory_limit = 64 << 10}));
  CHECK_ERROR(hopeless.run(in), Code::out_of_memory, "the smallest that works is");
}

TEST_CASE("optimizer state goes into files when it is allowed to and only when it must") {
  const TempDir dir;
  const Subject s = wide();
  Trainer free = must(Trainer::create(s.model, options(0)));
  const int64_t least = must(free.smallest_memory_limit(s.batch));
  Trainer roomy = must(Trainer::create(s.model, spilling(least, dir.path())));
  CHECK_EQ(must(roomy.plan(s.batch)).file_bytes, 0);
  const int64_t spilled = must(roomy.smallest_memory_limit(s.batch));
  CHECK_LT(spilled, least - (2 << 20));  // of 4 MiB of moments

  Trainer tight = must(Trainer::create(s.model, spilling(spilled, dir.path())));
  Trainer between = must(Trainer::create(s.model, spilling((spilled + least) / 2, dir.path())));
  for (int i = 0; i < 3; ++i) {
    const double loss = must(free.step(s.batch)).loss;
    CHECK_EQ(must(tight.step(s.batch)).loss, loss);
    CHECK_EQ(must(between.step(s.batch)).loss, loss);
  }
  CHECK_LE(must(tight.plan(s.batch)).peak_bytes, spilled);
  CHECK_LT(must(between.plan(s.batch)).file_bytes, must(tight.plan(s.batch)).file_bytes);
  check_same_states(free, tight);
  check_same_states(free, between);

  Trainer refused = must(Trainer::create(s.model, spilling(spilled - 64, dir.path())));
  CHECK_ERROR(refused.step(s.batch), Code::out_of_memory, format("is {} bytes", spilled));
  Trainer nowhere = must(Trainer::create(s.model, options(spilled)));
  CHECK_ERROR(nowhere.step(s.batch), Code::out_of_memory, "`spill_folder`");
}

TEST_CASE("optimizer state moves between files and memory as the limit changes") {
  const TempDir dir;
  const Subject s = wide();
  Trainer free = must(Trainer::create(s.model, options(0)));
  Trainer t = must(Trainer::create(s.model, spilling(0, dir.path())));
  const int64_t least = must(t.smallest_memory_limit(s.batch));
  const Trainer::State before = must(t.save());
  for (const int64_t limit : {int64_t{0}, least, 4 * least, least, int64_t{0}}) {
    CAPTURE(limit);
    REQUIRE_OK(t.set_memory_limit(limit));
    CHECK_EQ(must(t.step(s.batch)).loss, must(free.step(s.batch)).loss);
    const PlanInfo plan = must(t.plan(s.batch));
    CHECK_EQ(plan.file_bytes > 0, limit == least);
    if (limit > 0) CHECK_LE(plan.peak_bytes, limit);
    CHECK_EQ(must(t.evaluate(s.batch)), must(free.evaluate(s.batch)));
  }
  check_same_states(free, t);
  REQUIRE_OK(t.set_memory_limit(least));
  REQUIRE_OK(t.restore(must(free.save())));
  CHECK_EQ(must(t.step(s.batch)).loss, must(free.step(s.batch)).loss);
  check_same_states(free, t);
}

TEST_CASE("a folder that is not there costs nothing but the call") {
  const TempDir dir;
  const Subject s = wide();
  Trainer free = must(Trainer::create(s.model, options(0)));
  Trainer t = must(Trainer::create(s.model, spilling(0, dir.file("none"))));
  const int64_t least = must(t.smallest_memory_limit(s.batch));
  CHECK_EQ(must(t.step(s.batch)).loss, must(free.step(s.batch)).loss);
  CHECK_ERROR(t.set_memory_limit(least), Code::not_found, "spill file");
  CHECK_EQ(must(t.step(s.batch)).loss, must(free.step(s.batch)).loss);
  check_same_states(free, t);
  Trainer first = must(Trainer::create(s.model, spilling(least, dir.file("none"))));
  CHECK_ERROR(first.step(s.batch), Code::not_found, "spill file");
}

TEST_CASE("frozen weights of a mapped file stay there while others are trained") {
  const TempDir dir;
  const Subject s = mapped(dir);
  TrainerOptions o = options(0);
  o.trainable = "16.*";
  Trainer free = must(Trainer::create(s.model, o));
  const PlanInfo unbound = must(free.plan(s.batch));
  const int64_t weights = unbound.state_bytes + unbound.file_bytes;
  o.session.memory_limit = weights / 2;
  Trainer tight = must(Trainer::create(s.model, o));
  for (int i = 0; i < 3; ++i)
    CHECK_EQ(must(tight.step(s.batch)).loss, must(free.step(s.batch)).loss);
  const PlanInfo plan = must(tight.plan(s.batch));
  CHECK_LE(plan.peak_bytes, weights / 2);
  CHECK_GT(plan.file_bytes, 0);
  check_same_states(free, tight);
  // A checkpoint with other frozen weights is taken over, file or not.
  Trainer::State other = must(free.save());
  for (StateTensor& e : other.entries)
    if (e.name == "0.weight") e.data.as_mutable<float>()[0] += 1;
  REQUIRE_OK(tight.restore(other));
  REQUIRE_OK(free.restore(other));
  CHECK_EQ(must(tight.step(s.batch)).loss, must(free.step(s.batch)).loss);
  check_same_states(free, tight);
  CHECK(same_bits(find_state(s.model, "0.weight")->data,
                  find_state(mapped(dir).model, "0.weight")->data));
}

TEST_CASE("restored frozen weights count in memory unless they come from a file") {
  const TempDir dir;
  const Subject s = mapped(dir);
  TrainerOptions o = options(0);
  o.trainable = "16.*";
  const PlanInfo unbound = must(must(Trainer::create(s.model, o)).plan(s.batch));
  const int64_t weights = unbound.state_bytes + unbound.file_bytes;
  o.session.memory_limit = weights / 2;
  Trainer t = must(Trainer::create(s.model, o));
  REQUIRE_OK(t.step(s.batch));
  const PlanInfo plan = must(t.plan(s.batch));
  const auto restored = [&](std::string_view pattern) {
    Trainer::State other = must(t.save());
    for (StateTensor& e : other.entries)
      if (matches(pattern, e.name)) e.data.as_mutable<float>()[0] += 1;
    return other;
  };
  const auto weight_bytes = find_state(s.model, "0.weight")->data.bytes();

  // From a checkpoint it is read when it is needed, as before.
  Trainer::State other = restored("2.weight");
  REQUIRE_OK(save_checkpoint({.tensors = other.entries, .step = 1}, dir.file("other.ckpt")));
  other.entries = must(load_checkpoint(dir.file("other.ckpt"))).tensors;
  REQUIRE_OK(t.restore(other));
  CHECK_EQ(must(t.plan(s.batch)).file_bytes, plan.file_bytes);
  CHECK_EQ(must(t.plan(s.batch)).peak_bytes, plan.peak_bytes);

  REQUIRE_OK(t.restore(restored("0.weight")));
  const PlanInfo after = must(t.plan(s.batch));
  CHECK_LE(after.peak_bytes, o.session.memory_limit);
  CHECK_EQ(after.file_bytes + after.state_bytes, plan.file_bytes + plan.state_bytes);
  CHECK_LE(after.file_bytes, 7 * weight_bytes);  // of eight
  Trainer free = must(Trainer::create(s.model, options(0)));
  REQUIRE_OK(free.restore(must(t.save())));
  CHECK_EQ(must(t.evaluate(s.batch)), must(free.evaluate(s.batch)));

  const Trainer::State before = must(t.save());
  CHECK_ERROR(t.restore(restored("*.weight")), Code::out_of_memory,
              "with what is to be restored, weights and optimizer state take");
  const Trainer::State same = must(t.save());
  for (size_t i = 0; i < before.entries.size(); ++i)
    CHECK(same_bits(before.entries[i].data, same.entries[i].data));
  CHECK_EQ(must(t.plan(s.batch)).file_bytes, after.file_bytes);
  REQUIRE_OK(t.step(s.batch));
}

TEST_CASE("restored optimizer state goes straight to files where memory is too small for it") {
  const TempDir dir;
  const Subject s = wide();
  Trainer free = must(Trainer::create(s.model, options(0)));
  REQUIRE_OK(free.step(s.batch));
  Trainer measure = must(Trainer::create(s.model, spilling(0, dir.path())));
  const int64_t least = must(measure.smallest_memory_limit(s.batch));
  Trainer t = must(Trainer::create(s.model, spilling(least, dir.path())));
  REQUIRE_OK(t.restore(must(free.save())));
  CHECK_EQ(must(t.step(s.batch)).loss, must(free.step(s.batch)).loss);
  CHECK_LE(must(t.plan(s.batch)).peak_bytes, least);
  check_same_states(free, t);
  Trainer nowhere = must(Trainer::create(s.model, options(least)));
  CHECK_ERROR(nowhere.restore(must(free.save())), Code::out_of_memory, "cannot be kept");
}

TEST_CASE("a frozen prefix runs in inference form when asked to") {
  const Subject s = convolutions();
  TrainerOptions o = options(0);
  o.trainable = "18.*";
  Trainer plain = must(Trainer::create(s.model, o));
  o.frozen_in_eval = true;
  Trainer t = must(Trainer::create(s.model, o));
  const Trainer::State before = must(t.save());
  const double expected = must(t.evaluate(s.batch));
  CHECK_EQ(must(t.step(s.batch)).loss, doctest::Approx(expected).epsilon(1e-6));
  CHECK_NE(must(plain.step(s.batch)).loss, doctest::Approx(expected).epsilon(1e-3));
  // How many steps that takes depends on what the backend fuses.
  CHECK_LT(must(t.plan(s.batch)).steps, must(plain.plan(s.batch)).steps);
  for (const PlanStep& step : must(t.plan_detail(s.batch)).steps) {
    INFO(step.name);
    for (const char* training : {"random_dropout", "running_", "rng"})
      CHECK_EQ(step.name.find(training), std::string::npos);
  }
  int moved = 0;
  const Trainer::State after = must(t.save());
  for (const StateTensor& a : before.entries)
    for (const StateTensor& b : after.entries)
      if (a.name == b.name && !same_bits(a.data, b.data)) {
        ++moved;
        CHECK(a.name.starts_with("18."));
      }
  CHECK_EQ(moved, 2);  // weight and bias
}

}  // namespace hone::test
