// SPDX-License-Identifier: Apache-2.0
// Small models for the tests of sessions and trainers.
#pragma once

#include "hone/ops.hpp"
#include "hone/trainer.hpp"
#include "tests/support/check.hpp"
#include "tests/support/tensors.hpp"

namespace hone::test {

/// x [N, 3] -> dense 3x8, ReLU, (dropout), dense 8x2 -> logits [N, 2]; "N" is free.
enum class WithDropout : uint8_t { no, yes };
inline Model small_mlp(WithDropout dropout = WithDropout::no, DType dtype = DType::f32) {
  Model m;
  Builder b(m.graph, Composites::keep);
  m.graph.name = "small_mlp";
  const Value x = b.input({dtype, {m.graph.dim("N"), 3}}, "x");
  const auto parameter = [&](const char* name, Shape shape, uint64_t seed) {
    return b.state(StateRole::parameter, random_tensor({dtype, shape}, seed, -0.7, 0.7), name);
  };
  const Value w1 = parameter("fc1.weight", {3, 8}, 1), b1 = parameter("fc1.bias", {8}, 2);
  const Value w2 = parameter("fc2.weight", {8, 2}, 3), b2 = parameter("fc2.bias", {2}, 4);
  b.set_scope("fc1");
  Value h = ops::relu(ops::matmul(x, w1) + b1);
  b.set_scope("drop");
  if (dropout == WithDropout::yes) h = b.emit(op::dropout, {h}, DropoutAttrs{0.5, 0});
  b.set_scope("fc2");
  b.output(ops::matmul(h, w2) + b2, "logits");
  REQUIRE_OK(b.status());
  REQUIRE_OK(verify(m.graph));
  return m;
}

/// Two clouds: the label says whether the first feature is positive.
inline std::vector<NamedTensor> two_clouds(int64_t n, uint64_t seed, DType dtype = DType::f32) {
  const TensorData x = random_tensor({dtype, {n, 3}}, seed);
  std::vector<double> labels;
  for (int64_t i = 0; i < n; ++i) labels.push_back(x.at(3 * i) > 0 ? 1 : 0);
  return {{"x", x}, {"label", tensor_from({DType::i64, {n}}, labels)}};
}

inline Result<Value> cross_entropy_loss(Builder&, const NamedValues& outputs,
                                        const NamedValues& targets) {
  HONE_ASSIGN(const Value logits, outputs.find("logits"));
  HONE_ASSIGN(const Value labels, targets.find("label"));
  return loss::cross_entropy(logits, labels, {.axis = 1});
}

}  // namespace hone::test
