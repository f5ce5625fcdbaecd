// SPDX-License-Identifier: Apache-2.0
// What every case is checked for.
#pragma once

#include "tests/ops/op_case.hpp"

namespace hone::test {

/// A case whose inputs have been made, in one element type.
struct Instance {
  const OpDef& op;
  const OpCase& c;
  Attrs attrs;  ///< Never empty.
  std::vector<TensorData> inputs;
  std::vector<TensorType> out_types;
  std::vector<TensorData> outputs;  ///< What the graph of this one operator gives.

  bool differentiable(size_t input) const {
    return inputs[input].defined() && is_float(inputs[input].dtype()) && !c.in[input].constant;
  }
};

/// The graph of the one operator, expanded; inputs that are not constants are graph inputs.
struct OneOpGraph {
  Graph graph;
  std::vector<TensorData> graph_inputs;
  std::vector<ValueId> inputs;  ///< kNone for absent ones.
  std::vector<ValueId> outputs;
  Status status;
};
void build_one_op(const Instance& x, Composites composites, OneOpGraph& g);

/// |got - wanted| <= tol * (|wanted| + largest |wanted|), both as f64.
void check_close(const TensorData& got, const TensorData& wanted, double tol);

// Each adds failures to the running doctest case.
void check_kernel(
    const Instance& x);  ///< Guards, inferred types, no element unwritten, inputs unchanged.
void check_decomposition(const Instance& x);  ///< Kernel against decomposition.
void check_gradient(const Instance& x);       ///< `differentiate` against central differences.
void check_in_place(
    const Instance& x);  ///< The kernel gives the same bits when output and input share theirs.
void check_attributes(const Instance& x);  ///< Attributes survive being written out field by field.
void check_save_and_load(
    const Instance& x);  ///< A saved and loaded model of this node gives the same bits.
void check_backends(const Instance& x);  ///< Every backend against the reference.

}  // namespace hone::test
