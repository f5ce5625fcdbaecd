// SPDX-License-Identifier: Apache-2.0
// Gradients of any function written with operators, held against central differences in double
// precision.
#pragma once

#include <functional>

#include "hone/ops.hpp"
#include "tests/support/check.hpp"
#include "tests/support/tensors.hpp"

namespace hone::test {

/// A function of tensors, written with operators.
using GraphFunction = std::function<std::vector<Value>(Builder&, std::span<const Value>)>;

/// The outputs of `f` at `inputs`, through reference kernels.
Result<std::vector<TensorData>> evaluate(const GraphFunction& f,
                                         std::span<const TensorData> inputs);

/// One operator at `inputs` (an undefined tensor is an input left out).
Result<std::vector<TensorData>> evaluate(const OpDef& op, const Attrs& attrs,
                                         std::span<const TensorData> inputs);
inline Result<std::vector<TensorData>> evaluate(const OpDef& op, const Attrs& attrs,
                                                std::initializer_list<TensorData> inputs) {
  return evaluate(op, attrs, std::span<const TensorData>(inputs.begin(), inputs.size()));
}
/// The values `wanted` of a graph; its states hold their initial content.
Result<std::vector<TensorData>> evaluate(const Graph& g, std::span<const TensorData> inputs,
                                         std::span<const ValueId> wanted);
/// As evaluate, but written with other operators instead of run by the operator's own kernel.
Result<std::vector<TensorData>> evaluate_decomposition(const OpDef& op, const Attrs& attrs,
                                                       std::span<const TensorData> inputs);

/// The vector-Jacobian products of `f`, as a function of the same inputs: one output for each
/// floating-point input. The outputs of `f` are weighted with random seeds.
GraphFunction gradient_of(GraphFunction f);

enum class Order : int { first = 1, second = 2 };

/// Checks the gradient of `f` with respect to every f64 input, and that gradient's own gradient
/// when `order` says so.
void check_gradient(const GraphFunction& f, std::span<const TensorData> inputs,
                    Order order = Order::first, double tolerance = 1e-6,
                    const char* file = __builtin_FILE(), int line = __builtin_LINE());

/// The same for one operator whose floating-point inputs are f64.
void check_gradient(const OpDef& op, const Attrs& attrs, std::initializer_list<TensorData> inputs,
                    Order order = Order::first, double tolerance = 1e-6,
                    const char* file = __builtin_FILE(), int line = __builtin_LINE());

}  // namespace hone::test
