// SPDX-License-Identifier: Apache-2.0
// Small model graphs with free dimensions, and what simplification must keep of them.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "hone/model.hpp"
#include "hone/ops.hpp"
#include "hone/simplify.hpp"
#include "tests/support/graph_text.hpp"
#include "tests/support/tensors.hpp"

namespace hone::test {

/// A model under construction with one input x [N, T, 4].
struct Sketch {
  explicit Sketch(DType t = DType::f32) : dtype(t) {}
  DType dtype;
  Model model;
  Builder b{model.graph, Composites::keep};
  Value x = input("x", {model.graph.dim("N"), model.graph.dim("T"), 4});

  Value input(std::string name, const Shape& shape) {
    return b.input({dtype, shape}, std::move(name));
  }
  Value number(double v, const Shape& shape = {}) {
    return b.constant(
        tensor_from({dtype, shape}, std::vector<double>(static_cast<size_t>(shape.numel()), v)));
  }
  Value ints(std::vector<int64_t> v) { return b.ints(v); }
  Value parameter(std::string name, const Shape& shape, double lo = -1, double hi = 1) {
    const TensorData data = random_tensor({dtype, shape}, model.graph.values.size(), lo, hi);
    return b.state(StateRole::parameter, data, std::move(name));
  }
  Value mean(Value v, std::vector<int64_t> axes = {-1}, bool keepdims = true) {
    return b.emit(op::mean, {v}, ReduceAttrs{std::move(axes), keepdims});
  }
  /// The extent of an axis of `v`, as i64[1].
  Value extent(Value v, int64_t axis) {
    const Value shape = b.emit(op::shape_of, {v});
    return b.emit(op::gather, {shape, ints({axis})}, AxisAttrs{0});
  }
  Value joined(std::vector<Value> parts) { return b.emit(op::concat, parts, AxisAttrs{0}); }
};

/// Sketches a value that becomes the output.
using Draw = std::function<Value(Sketch&)>;
Model drawn(const Draw& draw, DType dtype = DType::f32);

/// The graph after simplification, which has been verified and found to stay the same when
/// simplified again, with the same inputs, states and declared outputs.
Model simplified(const Model& m, const SimplifyOptions& options);
inline constexpr bool kExact = false, kFull = true;

/// Outputs on seeded inputs whose named dimensions have these extents, in the order of their
/// names, with the reference kernels.
std::vector<TensorData> outputs(const Model& m, std::vector<int64_t> extents);

/// Derivatives of a weighted sum of the outputs by the inputs and the parameters.
std::vector<TensorData> gradients(const Model& m, std::vector<int64_t> extents);

}  // namespace hone::test
