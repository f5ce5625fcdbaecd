// SPDX-License-Identifier: Apache-2.0
// Gradients of small graphs with the reference kernels.
#pragma once

#include "hone/autodiff.hpp"
#include "hone/ops.hpp"
#include "tests/ops/execute.hpp"
#include "tests/support/check.hpp"
#include "tests/support/tensors.hpp"

namespace hone::test {

/// A graph of a few inputs, and the gradients of a scalar by all of them.
struct Graded {
  Graph g;
  Builder b{g};
  std::vector<TensorData> data;
  std::vector<Value> inputs;

  Value input(TensorData t) {
    inputs.push_back(b.input(t.type(), format("in{}", inputs.size())));
    data.push_back(std::move(t));
    return inputs.back();
  }
  std::vector<TensorData> gradients(Value target, Value seed = {}) {
    const std::vector<Value> grads = must(differentiate(b, target, inputs, seed));
    std::vector<ValueId> ids;
    for (const Value& v : grads) ids.push_back(v.id());
    return must(run_graph(g, data, ids));
  }
};

inline TensorData floats(std::initializer_list<double> values) {
  return tensor_of<float>({static_cast<int64_t>(values.size())}, values);
}

}  // namespace hone::test
