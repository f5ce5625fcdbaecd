// SPDX-License-Identifier: Apache-2.0
// Ways to run operators in tests: one kernel between guard bytes, or a whole graph node by node.
#pragma once

#include "hone/op.hpp"

namespace hone::test {

/// Output `out` has the bytes of input `in`.
struct Alias {
  int out, in;
};

/// Runs the kernel of `op` with guard bytes round every buffer and outputs and scratch filled with
/// `garbage` before. Fails the test when a guard or an input changed.
Result<std::vector<TensorData>> run_guarded(const OpDef& op, const Attrs& attrs,
                                            std::span<const TensorData> inputs,
                                            std::span<const TensorType> out_types,
                                            std::span<const Alias> aliases = {},
                                            uint8_t garbage = 0xCD);

/// Runs the nodes of `g` in order with the reference kernels; `inputs` are the graph's, in order.
Result<std::vector<TensorData>> run_graph(const Graph& g, std::span<const TensorData> inputs,
                                          std::span<const ValueId> wanted);

}  // namespace hone::test
