// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "core/plan/program.hpp"
#include "hone/op_attrs.hpp"
#include "hone/op_table.hpp"
#include "hone/ops.hpp"
#include "hone/specialise.hpp"
#include "tests/support/check.hpp"
#include "tests/support/tensors.hpp"

namespace hone::test {

namespace {

const Buffer& buffer_of_output(const Program& p, size_t step, size_t write = 0) {
  return p.buffers[static_cast<size_t>(p.steps[step].writes[write])];
}

int64_t arena_buffers(const Program& p) {
  return std::count_if(p.buffers.begin(), p.buffers.end(), [](const Buffer& b) {
    return b.kind == BufferKind::arena && b.first >= 0 && b.shares == kNone;
  });
}

}  // namespace

TEST_CASE("a chain of elementwise steps runs in one buffer") {
  Graph g;
  Builder b(g);
  Value v = b.input({DType::f32, {1000}}, "x");
  for (int i = 0; i < 6; ++i) v = ops::exp(v);
  b.output(v, "y");
  const Program p = must(prepare(std::move(g), {}));
  CHECK_EQ(p.steps.size(), 6);
  CHECK_EQ(arena_buffers(p), 1);
  CHECK_EQ(p.arena.bytes, 4032);  // 4000 rounded up
  CHECK_EQ(p.arena.bytes, p.arena.lower_bound);
}

TEST_CASE("a value that is read later is not overwritten") {
  Graph g;
  Builder b(g);
  const Value x = b.input({DType::f32, {16}}, "x");
  const Value a = ops::exp(x);
  const Value c = ops::neg(a);
  b.output(ops::add(a, c), "y");
  const Program p = must(prepare(std::move(g), {}));
  CHECK_EQ(arena_buffers(p), 2);
}

TEST_CASE("an output is written straight into the caller's memory") {
  Graph g;
  Builder b(g);
  const Value x = b.input({DType::f32, {16}}, "x");
  b.output(ops::exp(x), "y");
  const Program p = must(prepare(std::move(g), {}));
  REQUIRE_EQ(p.steps.size(), 1);
  CHECK(buffer_of_output(p, 0).kind == BufferKind::output);
  CHECK_EQ(p.arena.bytes, 0);
}

TEST_CASE("an input that is an output, and one output twice, are copied") {
  Graph g;
  Builder b(g);
  const Value x = b.input({DType::f32, {16}}, "x");
  const Value y = ops::exp(x);
  b.output(x, "same");
  b.output(y, "one");
  b.output(y, "two");
  const Program p = must(prepare(std::move(g), {}));
  CHECK_EQ(p.steps.size(), 3);
  CHECK_EQ(
      std::count_if(p.steps.begin(), p.steps.end(), [](const Step& s) { return s.kind == "copy"; }),
      2);
}

TEST_CASE("a view has no step and the bytes of what it looks at") {
  Graph g;
  Builder b(g);
  const Value x = b.input({DType::f32, {4, 4}}, "x");
  const Value y = ops::reshape(ops::exp(x), {16});
  b.output(ops::neg(y), "y");
  const Program p = must(prepare(std::move(g), {}));
  CHECK_EQ(p.steps.size(), 2);
  CHECK_EQ(p.steps[0].writes[0], p.steps[1].reads[0]);
}

TEST_CASE("an update that is no update operator is copied over its state at the end") {
  // Otherwise a step that is given up half way would have changed the state already.
  Graph g;
  Builder b(g);
  const Value s = b.state(StateRole::buffer, must(TensorData::zeros({DType::f32, {4}})), "s");
  const Value x = b.input({DType::f32, {4}}, "x");
  const Value next = ops::add(s, x);
  b.output(ops::exp(next), "y");
  g.updates.push_back({s.id(), next.id()});
  const Program p = must(prepare(std::move(g), {}));
  REQUIRE_FALSE(p.steps.empty());
  CHECK_EQ(p.steps.back().kind, "copy");
  CHECK(buffer_of_output(p, p.steps.size() - 1).kind == BufferKind::state);
}

TEST_CASE("two states that swap keep both contents") {
  Graph g;
  Builder b(g);
  const Value s = b.state(StateRole::buffer, must(TensorData::zeros({DType::f32, {4}})), "s");
  const Value t = b.state(StateRole::buffer, must(TensorData::zeros({DType::f32, {4}})), "t");
  g.updates.push_back({s.id(), t.id()});
  g.updates.push_back({t.id(), s.id()});
  const Program p = must(prepare(std::move(g), {}));
  // Two saves, then two copies from what was saved.
  REQUIRE_EQ(p.steps.size(), 4);
  CHECK(buffer_of_output(p, 0).kind == BufferKind::arena);
  CHECK(buffer_of_output(p, 1).kind == BufferKind::arena);
}

TEST_CASE(
    "a state that takes the next content of another gets it after that has been overwritten") {
  for (const bool follower_first : {false, true}) {
    CAPTURE(follower_first);
    Graph g;
    Builder b(g);
    const auto state = [&](const char* name) {
      return b.state(StateRole::parameter, must(TensorData::zeros({DType::f32, {4}})), name);
    };
    const Value w = state("w"), follower = state("follower"), old = state("old");
    const Value lr = b.input({DType::f32, {}}, "lr"), grad = b.input({DType::f32, {4}}, "grad");
    const Value next = b.emit(op::sgd_update, {w, Value(), grad, lr});
    const StateUpdate own = {w.id(), next.id()}, follows = {follower.id(), next.id()};
    g.updates = {
        follower_first ? follows : own, follower_first ? own : follows, {old.id(), w.id()}};
    REQUIRE_OK(b.status());
    const Program p = must(prepare(std::move(g), {}));
    const auto holds = [&](BufferId id, Value v) {
      const Buffer& of = p.buffers[static_cast<size_t>(id)];
      return of.kind == BufferKind::state && of.value == v.id();
    };
    REQUIRE_EQ(p.steps.size(), 4);  // the old content is saved, then updated, then copied twice
    CHECK(holds(p.steps[0].reads[0], w));
    CHECK(holds(p.steps[1].writes[0], w));
    for (size_t i : {size_t{2}, size_t{3}}) {
      const Step& s = p.steps[i];
      if (holds(s.writes[0], follower))
        CHECK(holds(s.reads[0], w));
      else
        CHECK_EQ(s.reads[0], p.steps[0].writes[0]);
    }
  }
}

TEST_CASE("a plan describes itself") {
  Graph g;
  Builder b(g);
  const Value x = b.input({DType::f32, {1000}}, "x");
  b.set_scope("first");
  const Value a = ops::exp(x);
  b.output(ops::add(a, ops::neg(a)), "y");
  const std::string text = describe_plan(must(prepare(std::move(g), {})));
  CHECK_NE(text.find("exp 'first'"), std::string::npos);
  CHECK_NE(text.find("3 steps"), std::string::npos);
}

}  // namespace hone::test
