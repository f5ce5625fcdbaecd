// SPDX-License-Identifier: Apache-2.0
// Batch normalisation in the convolution before it.
#include "tests/passes/sketch.hpp"
#include "tests/support/check.hpp"

namespace hone {
namespace {

using namespace test;

// x [N, 6, T, 4] -> conv to 4 channels in 2 groups -> batch norm.
struct Block {
  explicit Block(bool with_bias) : s(DType::f64) {
    x = s.input("image", {s.model.graph.dim("N"), 6, s.model.graph.dim("T"), 4});
    w = s.parameter("conv.weight", {4, 3, 3, 3});
    Value b;
    if (with_bias) b = s.parameter("conv.bias", {4});
    const ConvAttrs attrs{.strides = {1, 1}, .pads_begin = {1, 1}, .pads_end = {1, 1}, .groups = 2};
    y = s.b.emit(op::conv, {x, w, b}, attrs);
  }
  Value norm(Value v) {
    const Value scale = s.parameter("bn.weight", {4}, 0.5, 1.5);
    const Value bias = s.parameter("bn.bias", {4});
    const Value mean = s.b.state(StateRole::buffer, random_tensor({DType::f64, {4}}, 8), "bn.mean");
    const Value var =
        s.b.state(StateRole::buffer, random_tensor({DType::f64, {4}}, 9, 0.5, 2), "bn.var");
    return s.b.emit(op::batch_norm, {v, scale, bias, mean, var}, BatchNormAttrs{.eps = 1e-3});
  }
  Model done(std::initializer_list<Value> results) {
    for (Value v : results) s.b.output(v, format("y{}", s.model.graph.outputs.size()));
    REQUIRE_OK(s.b.status());
    return s.model;
  }
  Sketch s;
  Value x, w, y;
};

std::string states(const Graph& g) {
  std::string all;
  for (const ValueInfo& v : g.values)
    if (v.kind == ValueKind::state) all += v.name + " ";
  return all;
}

// Folds one; the outputs stay the same up to rounding.
Model folded(const Model& before, int64_t expected) {
  Model m = before;
  CHECK_EQ(must(fold_batch_norm(m.graph)), expected);
  CHECK_OK(verify(m.graph));
  const auto want = outputs(before, {2, 3, 2, 3}), got = outputs(m, {2, 3, 2, 3});
  for (size_t i = 0; i < want.size(); ++i) CHECK(all_close(got[i], want[i], 1e-12, 1e-12));
  return m;
}

TEST_CASE("batch normalisation goes into the convolution before it") {
  Block with(true);
  const Model m = folded(with.done({ops::relu(with.norm(with.y))}), 1);
  CHECK_EQ(operators(m.graph), "conv relu");
  CHECK_EQ(states(m.graph), "conv.weight conv.bias ");
  Block without(false);
  const Model n = folded(without.done({without.norm(without.y)}), 1);
  CHECK_EQ(operators(n.graph), "conv");
  CHECK_EQ(states(n.graph), "conv.weight bn.bias ");
  CHECK(n.graph.value(n.graph.find("bn.bias")).trainable);
}

TEST_CASE("the model that was folded shares no bytes with the one before") {
  Block block(true);
  const Model before = block.done({block.norm(block.y)});
  const TensorData kept = must(before.graph.value(before.graph.find("conv.weight")).data.clone());
  (void)folded(before, 1);
  CHECK(same_bits(before.graph.value(before.graph.find("conv.weight")).data, kept));
}

TEST_CASE("batch normalisation stays where the convolution's result is read elsewhere") {
  Block block(true);
  const Value y = block.norm(block.y);
  CHECK_EQ(operators(folded(block.done({y, block.y}), 0).graph), "conv batch_norm");
}

TEST_CASE("batch normalisation stays where the weight is shared") {
  Block block(true);
  const Value y = block.norm(block.y);
  const Model m = folded(block.done({y, ops::exp(block.w)}), 0);
  CHECK_EQ(operators(m.graph), "conv batch_norm exp");
}

TEST_CASE("batch normalisation stays after anything but a convolution") {
  Block block(true);
  CHECK_EQ(operators(folded(block.done({block.norm(ops::relu(block.y))}), 0).graph),
           "conv relu batch_norm");
}

}  // namespace
}  // namespace hone
