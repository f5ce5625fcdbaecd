// SPDX-License-Identifier: Apache-2.0
// Cases for operators that draw random numbers, and what their numbers are like.
#include <cmath>
#include <memory>

#include "hone/autodiff.hpp"
#include "hone/ops.hpp"
#include "hone/specialise.hpp"
#include "hone/thread_pool.hpp"
#include "tests/ops/execute.hpp"
#include "tests/ops/op_case.hpp"
#include "tests/support/check.hpp"
#include "tests/support/tensors.hpp"

namespace hone::test {

namespace {

In rng(double seed, double counter) { return In::typed(DType::i64, {2}, {seed, counter}); }

TensorData draw(const OpDef& op, const RandomAttrs& attrs, double seed, double counter,
                ThreadPool& pool = serial_pool()) {
  const TensorData inputs[] = {tensor_of<int64_t>({2}, {seed, counter})};
  const TensorType types[] = {{attrs.dtype, must(Shape::make(attrs.shape))}};
  return must(run_reference(op, attrs, inputs, types, pool))[0];
}

struct Moments {
  double mean = 0, variance = 0;
};
Moments moments(const TensorData& t) {
  Moments m;
  const double n = static_cast<double>(t.numel());
  for (int64_t i = 0; i < t.numel(); ++i) m.mean += t.at(i) / n;
  for (int64_t i = 0; i < t.numel(); ++i) m.variance += std::pow(t.at(i) - m.mean, 2) / n;
  return m;
}

}  // namespace

OP_CASE(dropout, {.in = {{3, 5}}})
OP_CASE(dropout, {.attrs = DropoutAttrs{0.4, 3}, .in = {{3, 50}, rng(7, 2)}})
OP_CASE(dropout, {.attrs = DropoutAttrs{0}, .in = {{3}, rng(7, 2)}})
OP_CASE(random_dropout, {.attrs = DropoutAttrs{0.4, 3}, .in = {{3, 50}, rng(7, 2)}})
OP_CASE(random_dropout, {.attrs = DropoutAttrs{1},
                         .in = {In::of({3}, {1, 2, INFINITY}), rng(7, 2)},
                         .grad = Grad::skip,
                         .expect = {{0, 0, 0}}})
OP_CASE(random_dropout, {.attrs = DropoutAttrs{0},
                         .in = {In::of({3}, {1, 2, 3}), rng(7, 2)},
                         .expect = {{1, 2, 3}}})
OP_CASE(random_uniform, {.attrs = RandomAttrs{{4, 33}, DType::f32, -1, 2, 5}, .in = {rng(7, 2)}})
OP_CASE(random_uniform, {.attrs = RandomAttrs{{5}, DType::f64, 0, 1, 5}, .in = {rng(7, 2)}})
OP_CASE(random_uniform, {.attrs = RandomAttrs{{0}, DType::f16, 0, 1, 5}, .in = {rng(7, 2)}})
OP_CASE(random_normal, {.attrs = RandomAttrs{{4, 33}, DType::bf16, 0, 1, 5}, .in = {rng(7, 2)}})
OP_CASE(random_normal, {.attrs = RandomAttrs{{3}, DType::f64, 0, 1, 5}, .in = {rng(7, 2)}})

OP_REJECTS(dropout, {.attrs = DropoutAttrs{1.5}, .in = {{3}}}, "probability 1.5 is not in [0, 1]")
OP_REJECTS(dropout, {.in = {{3}, In::typed(DType::i64, {1}, {0})}}, "expected i64[2]")
OP_REJECTS(random_dropout, {.in = {{3}, In::typed(DType::f32, {2}, {0, 0})}}, "expected i64[2]")
OP_REJECTS(random_uniform, {.attrs = RandomAttrs{{2}, DType::i32}, .in = {rng(0, 0)}},
           "floating point, not i32")

TEST_CASE("uniform and normal numbers have the mean and variance they promise") {
  const Moments u = moments(draw(op::random_uniform, {{100000}, DType::f32, 2, 6, 0}, 1, 0));
  CHECK(u.mean == doctest::Approx(4).epsilon(0.01));
  CHECK(u.variance == doctest::Approx(16.0 / 12).epsilon(0.02));
  const Moments n = moments(draw(op::random_normal, {{100000}, DType::f64, 3, 2, 0}, 1, 0));
  CHECK(n.mean == doctest::Approx(3).epsilon(0.01));
  CHECK(n.variance == doctest::Approx(4).epsilon(0.02));
}

TEST_CASE("random numbers change with seed, counter and stream, and repeat without") {
  const RandomAttrs attrs{{64}, DType::f32, 0, 1, 4};
  RandomAttrs other_stream = attrs;
  other_stream.stream = 5;
  const TensorData first = draw(op::random_uniform, attrs, 1, 0);
  CHECK(same_bits(first, draw(op::random_uniform, attrs, 1, 0)));
  CHECK_FALSE(same_bits(first, draw(op::random_uniform, attrs, 2, 0)));
  CHECK_FALSE(same_bits(first, draw(op::random_uniform, attrs, 1, 1)));
  CHECK_FALSE(same_bits(first, draw(op::random_uniform, other_stream, 1, 0)));
}

TEST_CASE("random numbers do not depend on the number of threads") {
  const std::unique_ptr<ThreadPool> pool = make_thread_pool(3);
  for (const OpDef* op : {&op::random_uniform, &op::random_normal}) {
    const RandomAttrs attrs{{200001}, DType::f32, 0, 1, 4};
    CHECK(same_bits(draw(*op, attrs, 1, 0), draw(*op, attrs, 1, 0, *pool)));
  }
}

TEST_CASE("dropout keeps about 1 - p of the elements, scaled") {
  const TensorType type{DType::f32, {20000}};
  const TensorData inputs[] = {
      must(cast(draw(op::random_uniform, {{20000}, DType::f32, 1, 1, 0}, 0, 0), DType::f32)),
      tensor_of<int64_t>({2}, {5, 0})};
  const TensorType types[] = {type};
  const TensorData y = must(
      run_reference(op::random_dropout, DropoutAttrs{0.25, 0}, inputs, types, serial_pool()))[0];
  int64_t kept = 0;
  for (int64_t i = 0; i < y.numel(); ++i) {
    kept += y.at(i) != 0;
    CHECK((y.at(i) == 0 || y.at(i) == doctest::Approx(4.0 / 3)));
  }
  CHECK(std::fabs(static_cast<double>(kept) / 20000 - 0.75) < 0.01);
}

TEST_CASE("the gradient of dropout is the mask of the forward pass, times 1 / (1 - p)") {
  Graph g;
  Builder b(g);
  const TensorType type{DType::f32, {64}};
  const Value x = b.input(type, "x");
  const Value rng_state = b.input({DType::i64, {2}}, "rng");
  const Value y = b.emit(op::dropout, {x, rng_state}, DropoutAttrs{0.5, 9});
  const Value loss = ops::sum(y, {{}, false});
  const Value wrt[] = {x};
  const std::vector<Value> dx = must(differentiate(b, loss, wrt));
  const TensorData inputs[] = {
      must(cast(tensor_from({DType::f64, {64}}, std::vector<double>(64, 1)), DType::f32)),
      tensor_of<int64_t>({2}, {3, 8})};
  const ValueId wanted[] = {y.id(), dx[0].id()};
  const auto results = must(run_graph(g, inputs, wanted));
  CHECK(same_bits(results[0], results[1]));
}

TEST_CASE(
    "in a training graph each dropout has a mask of its own, and the counter moves once a step") {
  Graph model;
  Builder b(model, Composites::keep);
  const Value x = b.input({DType::f32, {model.dim("n")}}, "x");
  const Value first = b.emit(op::dropout, {x}, DropoutAttrs{0.5});
  b.output(first, "first");
  b.output(b.emit(op::dropout, {x}, DropoutAttrs{0.5}), "second");
  const Shape shapes[] = {{64}};
  const Graph train = must(specialise(model, shapes, {.mode = Mode::train}));
  REQUIRE_OK(verify(train));
  REQUIRE_EQ(train.states(StateRole::rng).size(), 1u);
  REQUIRE_EQ(train.updates.size(), 1u);
  const TensorData inputs[] = {
      must(cast(tensor_from({DType::f64, {64}}, std::vector<double>(64, 1)), DType::f32))};
  const ValueId wanted[] = {train.outputs[0].value, train.outputs[1].value, train.updates[0].next};
  const auto results = must(run_graph(train, inputs, wanted));
  CHECK_FALSE(same_bits(results[0], results[1]));
  CHECK_EQ(results[2].int_at(0), 0);
  CHECK_EQ(results[2].int_at(1), 1);

  const Graph infer_graph = must(specialise(model, shapes, {.mode = Mode::infer}));
  const ValueId outputs[] = {infer_graph.outputs[0].value};
  CHECK(same_bits(must(run_graph(infer_graph, inputs, outputs))[0], inputs[0]));
}

}  // namespace hone::test
