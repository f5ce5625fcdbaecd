// SPDX-License-Identifier: Apache-2.0
// Kernels give the same bits for any number of threads. Sizes are large enough to be split.
#include <cmath>
#include <memory>

#include "hone/op_attrs.hpp"
#include "hone/op_table.hpp"
#include "hone/thread_pool.hpp"
#include "tests/support/check.hpp"
#include "tests/support/tensors.hpp"

namespace hone::test {

namespace {

struct Case {
  const OpDef& op;
  Attrs attrs;
  std::vector<TensorData> inputs;
};

TensorData large(const Shape& shape, DType dtype = DType::f32) {
  return random_tensor({dtype, shape}, 5, -2, 2);
}
TensorData indices(int64_t count, double extent) {
  return random_tensor({DType::i64, {count}}, 6, 0, extent);
}

std::vector<TensorData> run(const Case& c, ThreadPool& pool) {
  std::vector<const TensorType*> types;
  for (const TensorData& t : c.inputs) types.push_back(&t.type());
  const auto out_types =
      must(infer(c.op, "", types, std::vector<const TensorData*>(types.size(), nullptr), c.attrs));
  return must(run_reference(c.op, c.attrs, c.inputs, out_types, pool));
}

ResizeAttrs twice() {
  ResizeAttrs attrs;
  attrs.scales = {1, 1, 2, 2};
  attrs.mode = ResizeMode::linear;
  return attrs;
}

}  // namespace

TEST_CASE("kernels give the same bits on one thread and on three") {
  const Case cases[] = {
      {op::add, NoAttrs{}, {large({70001}), large({})}},
      {op::mul, NoAttrs{}, {large({301, 1, 97}), large({4, 97})}},
      {op::tanh, NoAttrs{}, {large({70001}, DType::f16)}},
      {op::cast, CastAttrs{DType::bf16}, {large({70001})}},
      {op::sum, ReduceAttrs{}, {large({300007})}},
      {op::sum, ReduceAttrs{{1}, true}, {large({301, 997})}},
      {op::sum, ReduceAttrs{{0}, true}, {large({997, 301})}},
      {op::sum, ReduceAttrs{{0, 2}, true}, {large({64, 33, 300})}},
      {op::sum, ReduceAttrs{}, {large({200001}, DType::f16)}},
      {op::mean, ReduceAttrs{{1}, true}, {large({3, 200001})}},
      {op::max, ReduceAttrs{}, {large({300007})}},
      {op::argmax, ArgAttrs{1}, {large({301, 997})}},
      {op::cumsum, CumsumAttrs{0}, {large({997, 301})}},
      {op::transpose, PermAttrs{{1, 0}}, {large({997, 301})}},
      {op::transpose, PermAttrs{{0, 2, 1, 3}}, {large({7, 33, 41, 19})}},
      {op::expand, ShapeAttrs{{41, 33, 97}}, {large({33, 1})}},
      {op::concat, AxisAttrs{1}, {large({301, 97}), large({301, 211})}},
      {op::slice, SliceAttrs{{3}, {900}, {1}, {2}}, {large({301, 997})}},
      {op::pad, PadAttrs{{1, 2}, {3, 4}, PadMode::reflect}, {large({301, 997})}},
      {op::trilu, TriluAttrs{}, {large({301, 997})}},
      {op::gather, AxisAttrs{0}, {large({50, 997}), indices(301, 50)}},
      {op::index_sum, IndexSumAttrs{0, 50}, {large({301, 997}), indices(301, 50)}},
      {op::index_sum, IndexSumAttrs{1, 50}, {large({301, 997}, DType::f16), indices(997, 50)}},
      {op::resize, twice(), {large({2, 31, 33, 29})}},
      {op::resize_grad, ResizeGradAttrs{{2, 31, 17, 15}, twice()}, {large({2, 31, 34, 30})}},
      {op::random_dropout, DropoutAttrs{0.5, 1}, {large({70001}), indices(2, 9)}},
  };
  const std::unique_ptr<ThreadPool> pool = make_thread_pool(3);
  for (const Case& c : cases) {
    INFO(std::string(c.op.name) << " of " << to_string(c.inputs[0].type()));
    const auto one = run(c, serial_pool()), three = run(c, *pool);
    for (size_t k = 0; k < one.size(); ++k) CHECK(same_bits(one[k], three[k]));
  }
}

TEST_CASE("a long float sum is as exact as its result's rounding") {
  const TensorData x = random_tensor({DType::f32, {4000003}}, 3, 0, 1);
  double exact = 0;
  for (int64_t i = 0; i < x.numel(); ++i) exact += x.at(i);
  const double got = run({op::sum, ReduceAttrs{}, {x}}, serial_pool())[0].at(0);
  CHECK(std::fabs(got - exact) <= 1.2e-7 * exact);
}

TEST_CASE("transposition, sums and indexing agree with plain loops on large inputs") {
  const TensorData x = large({61, 53, 47});
  const TensorData y = run({op::transpose, PermAttrs{{2, 0, 1}}, {x}}, serial_pool())[0];
  const TensorData s = run({op::sum, ReduceAttrs{{1}, false}, {x}}, serial_pool())[0];
  int64_t wrong = 0;
  for (int64_t i = 0; i < 61; ++i)
    for (int64_t k = 0; k < 47; ++k) {
      double sum = 0;
      for (int64_t j = 0; j < 53; ++j) {
        const double v = x.at((i * 53 + j) * 47 + k);
        wrong += y.at((k * 61 + i) * 53 + j) != v;
        sum += v;
      }
      wrong += std::fabs(s.at(i * 47 + k) - sum) > 1e-5;
    }
  CHECK_EQ(wrong, 0);
}

}  // namespace hone::test
