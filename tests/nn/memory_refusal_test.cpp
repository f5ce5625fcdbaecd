// SPDX-License-Identifier: Apache-2.0
// Limits that cannot be kept: the smallest that is named works, and nothing is lost.
#include <cmath>
#include <cstdlib>
#include <limits>

#include "tests/nn/memory_models.hpp"

namespace hone::test {

namespace {

// The number in "the smallest that works is N bytes" or "... for the batches so far is N bytes".
int64_t named(const Status& refused) {
  const std::string text(refused.message());
  CAPTURE(text);
  REQUIRE_EQ(static_cast<int>(refused.code()), static_cast<int>(Code::out_of_memory));
  size_t at = text.find("the smallest that works");
  REQUIRE_NE(at, std::string::npos);
  at = text.find(" is ", at);
  REQUIRE_NE(at, std::string::npos);
  return std::strtoll(text.c_str() + at + 4, nullptr, 10);
}

// Wide layers of which only the last is trained: the others may have packed copies.
Subject frozen() {
  Generator rng(4);
  nn::Sequential net;
  int64_t channels = 8;
  for (const int64_t wide : {64, 64, 64}) {
    net.add<nn::Conv2d>(channels, wide, 3, rng, nn::ConvOptions{.padding = 1});
    net.add<nn::Relu>();
    channels = wide;
  }
  net.add<nn::AdaptiveAvgPool2d>();
  net.add<nn::Flatten>();
  net.add<nn::Linear>(channels, 256, rng);
  net.add<nn::Relu>();
  net.add<nn::Linear>(256, 4, rng);
  net.train();
  Model m = must(nn::trace(net, {"x", example({2, 8, 6, 6}), {"n"}}, "logits"));
  return {"frozen",
          std::move(m),
          {{"x", random_tensor({DType::f32, {4, 8, 6, 6}}, 5)}, {"label", labels(4)}}};
}

TrainerOptions last_layer(int64_t limit) {
  TrainerOptions o = options(limit);
  o.trainable = "10.*";
  return o;
}

int64_t packed(Trainer& t, const Subject& s) { return must(t.plan(s.batch)).packed_bytes; }

}  // namespace

TEST_CASE("packed copies of frozen weights do not count against the smallest limit") {
  const Subject s = frozen();
  Trainer free = must(Trainer::create(s.model, last_layer(0)));
  const int64_t copies = packed(free, s);
  if (copies == 0) MESSAGE("this backend packs nothing here");
  const int64_t least = must(free.smallest_memory_limit(s.batch));
  CHECK_LT(least, must(free.plan(s.batch)).peak_bytes + (copies == 0));
  Trainer refused = must(Trainer::create(s.model, last_layer(least - 64)));
  CHECK_EQ(named(refused.step(s.batch).status()), least);
  Trainer exact = must(Trainer::create(s.model, last_layer(least)));
  for (int i = 0; i < 3; ++i)
    CHECK_EQ(must(exact.step(s.batch)).loss, must(free.step(s.batch)).loss);
  CHECK_LE(must(exact.plan(s.batch)).peak_bytes, least);
  check_same_states(free, exact);
}

TEST_CASE("a lowered limit gives packed copies up, a raised one brings them back") {
  const Subject s = frozen();
  Trainer free = must(Trainer::create(s.model, last_layer(0)));
  Trainer t = must(Trainer::create(s.model, last_layer(0)));
  const int64_t copies = packed(t, s), least = must(t.smallest_memory_limit(s.batch));
  CHECK_EQ(must(t.step(s.batch)).loss, must(free.step(s.batch)).loss);
  CHECK_EQ(named(t.set_memory_limit(least - 64)), least);
  for (const int64_t limit : {least, int64_t{0}, least, 2 * least + copies}) {
    REQUIRE_OK(t.set_memory_limit(limit));
    CHECK_EQ(packed(t, s), limit == least ? 0 : copies);
    CHECK_EQ(must(t.step(s.batch)).loss, must(free.step(s.batch)).loss);
  }
  check_same_states(free, t);
}

TEST_CASE("programs for other shapes do not count against a limit that is lowered") {
  const Subject s = frozen();
  const std::vector<NamedTensor> fewer = {{"x", random_tensor({DType::f32, {3, 8, 6, 6}}, 6)},
                                          {"label", labels(3)}};
  Trainer t = must(Trainer::create(s.model, last_layer(0)));
  REQUIRE_OK(t.step(fewer));
  REQUIRE_OK(t.step(s.batch));
  const int64_t least = must(t.smallest_memory_limit(s.batch));
  CHECK_EQ(named(t.set_memory_limit(1)), least);
  REQUIRE_OK(t.set_memory_limit(least));
  REQUIRE_OK(t.step(s.batch));
  REQUIRE_OK(t.step(fewer));
  CHECK_LE(must(t.plan(fewer)).peak_bytes, least);
}

TEST_CASE("inference that does not fit names the smallest limit, and that works") {
  for (const auto& make : {convolutions, frozen}) {
    const Subject s = make();
    CAPTURE(s.name);
    const TensorData in[] = {s.batch[0].data};
    Session session = must(Session::create(s.model, {}));
    const TensorData expected = must(session.run(in))[0];
    int64_t weights = 0;
    for (const ValueInfo& v : s.model.graph.values)
      if (v.kind == ValueKind::state) weights += v.data.bytes();
    REQUIRE_OK(session.set_memory_limit(weights + 64));
    const Status refused = session.run(in).status();
    const int64_t least = named(refused);
    CHECK_ERROR(refused, Code::out_of_memory, "what is computed and scratch");
    CHECK_ERROR(refused, Code::out_of_memory, "a smaller batch");
    REQUIRE_OK(session.set_memory_limit(least - 64));
    CHECK_EQ(named(session.run(in).status()), least);
    REQUIRE_OK(session.set_memory_limit(least));
    CHECK(same_bits(must(session.run(in))[0], expected));
  }
}

TEST_CASE("evaluation and prediction that do not fit say what would") {
  const Subject s = convolutions();
  std::vector<NamedTensor> many = {{"x", random_tensor({DType::f32, {64, 3, 16, 16}}, 6)},
                                   {"label", labels(64)}};
  Trainer free = must(Trainer::create(s.model, options(0)));
  const int64_t least = must(free.smallest_memory_limit(s.batch));
  Trainer t = must(Trainer::create(s.model, options(least)));
  const double before = must(t.step(s.batch)).loss;
  CHECK_EQ(before, must(free.step(s.batch)).loss);
  const Status loss = t.evaluate(many).status(), outputs = t.predict({&many[0], 1}).status();
  CHECK_ERROR(loss, Code::out_of_memory, "optimizer state");
  CHECK_ERROR(loss, Code::out_of_memory, "half the batch works within");
  CHECK_ERROR(outputs, Code::out_of_memory, "optimizer state");
  CHECK_EQ(must(t.step(s.batch)).loss, must(free.step(s.batch)).loss);
  REQUIRE_OK(t.set_memory_limit(named(loss)));
  CHECK_EQ(must(t.evaluate(many)), must(free.evaluate(many)));
  REQUIRE_OK(t.set_memory_limit(named(outputs)));
  CHECK(same_bits(must(t.predict({&many[0], 1}))[0], must(free.predict({&many[0], 1}))[0]));
}

TEST_CASE("advice is about what is not done yet, and its numbers are true") {
  const Subject s = convolutions();
  const auto refused = [&](int parts) {
    TrainerOptions o = options(100_KiB);
    o.micro_batches = parts;
    return must(Trainer::create(s.model, o)).step(s.batch).status();
  };
  const auto works_within = [](const Status& status, const std::string& what) {
    const std::string text(status.message());
    const size_t at = text.find(what + " works within ");
    REQUIRE_NE(at, std::string::npos);
    return std::strtoll(text.c_str() + at + what.size() + 14, nullptr, 10);
  };
  const auto try_it = [&](int parts, int64_t limit) {
    TrainerOptions o = options(limit);
    o.micro_batches = parts;
    REQUIRE_OK(must(Trainer::create(s.model, o)).step(s.batch));
  };
  try_it(2, works_within(refused(1), "micro_batches = 2"));
  const Status in_two = refused(2);
  try_it(4, works_within(in_two, "micro_batches = 4"));
  try_it(2, named(in_two));
  CHECK_EQ(std::string(in_two.message()).find("micro_batches = 2 "), std::string::npos);
}

TEST_CASE("a step in micro-batches that fails half way leaves nothing behind") {
  const Subject s = convolutions();  // with running statistics and dropout
  TrainerOptions o = options(0);
  o.micro_batches = 3;
  Trainer t = must(Trainer::create(s.model, o)), untouched = must(Trainer::create(s.model, o));
  for (int i = 0; i < 2; ++i) {
    std::vector<NamedTensor> broken = {{"x", must(s.batch[0].data.clone())}, s.batch[1]};
    broken[0].data.as_mutable<float>()[broken[0].data.numel() - 1] =
        std::numeric_limits<float>::quiet_NaN();
    CHECK_ERROR(t.step(broken), Code::invalid_argument, "nothing was updated");
    if (i == 1) check_same_states(untouched, t);
    CHECK_EQ(must(t.step(s.batch)).loss, must(untouched.step(s.batch)).loss);
    check_same_states(untouched, t);
  }
}

TEST_CASE("a step in micro-batches does not drop gradients that wait") {
  const Subject s = convolutions();
  TrainerOptions o = options(0);
  o.micro_batches = 2;
  Trainer t = must(Trainer::create(s.model, o)), other = must(Trainer::create(s.model, o));
  for (Trainer* each : {&t, &other}) REQUIRE_OK(each->accumulate(s.batch));
  CHECK_ERROR(t.step(s.batch), Code::invalid_argument, "call apply first");
  CHECK_EQ(must(t.apply()).loss, must(other.apply()).loss);
  check_same_states(other, t);
  REQUIRE_OK(t.step(s.batch));
}

TEST_CASE("models whose shapes depend on data keep a limit, and name the smallest") {
  Model m;  // of the rows of h = relu(x w), those whose first feature is positive
  Builder b(m.graph, Composites::keep);
  const Value x = b.input({DType::f32, {m.graph.dim("N"), 32}}, "x");
  const Value w =
      b.state(StateRole::parameter, random_tensor({DType::f32, {32, 64}}, 3, -0.3, 0.3), "w");
  const Value v =
      b.state(StateRole::parameter, random_tensor({DType::f32, {64, 4}}, 4, -0.3, 0.3), "v");
  const Value h = ops::relu(b.emit(op::matmul, {x, w}));
  const Value first = b.emit(op::gather, {h, b.ints(std::vector<int64_t>{0})}, AxisAttrs{1});
  const Value where = b.emit(op::nonzero, {b.emit(op::greater, {first, b.scalar(0, DType::f32)})});
  const Value rows = b.emit(op::gather, {where, b.ints(std::vector<int64_t>{0})}, AxisAttrs{0});
  const Value some =
      b.emit(op::gather, {h, b.emit(op::reshape, {rows}, ShapeAttrs{{-1}})}, AxisAttrs{0});
  b.output(b.emit(op::matmul, {some, v}), "y");
  REQUIRE_OK(b.status());
  TrainerOptions o = options(0);
  o.optimizer.lr = 0;  // so that the shapes stay the same
  o.loss = [](Builder&, const NamedValues& outputs, const NamedValues&) -> Result<Value> {
    HONE_ASSIGN(const Value y, outputs.find("y"));
    return ops::mean(ops::square(y), {.keepdims = false});
  };
  const std::vector<NamedTensor> batch = {{"x", random_tensor({DType::f32, {256, 32}}, 5)}};
  Trainer free = must(Trainer::create(m, o));
  const int64_t least = must(free.smallest_memory_limit(batch));
  o.session.memory_limit = least - 64;
  const Status refused = must(Trainer::create(m, o)).step(batch).status();
  CHECK_EQ(named(refused), least);
  CHECK_ERROR(refused, Code::out_of_memory, "half the batch works within");
  o.session.memory_limit = least;
  Trainer exact = must(Trainer::create(m, o));
  for (int i = 0; i < 3; ++i) CHECK_EQ(must(exact.step(batch)).loss, must(free.step(batch)).loss);
  CHECK_LE(must(exact.plan(batch)).peak_bytes, least);
  o.session.memory_limit = 24 << 10;  // not even the condition can be computed
  CHECK_ERROR(must(Trainer::create(m, o)).step(batch), Code::out_of_memory,
              "what shapes and branches depend on alone");

  Session session = must(Session::create(m, {}));
  const TensorData in[] = {batch[0].data};
  const TensorData expected = must(session.run(in))[0];
  REQUIRE_OK(session.set_memory_limit(12 << 10));
  const int64_t stage = named(session.run(in).status());
  CHECK_GT(stage, 12 << 10);
  REQUIRE_OK(session.set_memory_limit(0));
  CHECK(same_bits(must(session.run(in))[0], expected));
}

}  // namespace hone::test
