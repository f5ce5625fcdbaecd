// SPDX-License-Identifier: Apache-2.0
// Making a model graph smaller without changing what it computes.
#pragma once

#include <map>

#include "hone/graph.hpp"

namespace hone {

struct SimplifyOptions {
  /// Also replace spelled-out formulas (layer and RMS normalisation, GELU, SiLU, sigmoid, hard
  /// swish, hard sigmoid, attention) by the operators they stand for. These compute in another
  /// order, so that results may differ in the last bits; all other rules keep every bit of an
  /// output.
  bool recognise = true;
  /// Nodes whose inputs are all constant are run now when their outputs take at most this many
  /// bytes; equal constants of at most this many bytes become one.
  int64_t fold_limit_bytes = 64 << 10;
};

struct SimplifyReport {
  struct Count {
    std::string_view rule;
    int64_t times = 0;
  };
  std::vector<Count> rules;  ///< Those that applied, in the order of their first use.
  int64_t nodes_before = 0, nodes_after = 0;  ///< Bodies of control operators included.

  bool changed() const { return !rules.empty(); }
};

/// Nodes of a graph and of all bodies in it, and how many there are of each operator.
int64_t count_nodes(const Graph& g);
std::map<std::string_view, int64_t> nodes_by_operator(const Graph& g);

/// Simplifies `g`, bodies of control operators included, until no rule applies: a second call
/// changes nothing. Rules hold for every extent of a free dimension, and no dimension is ever
/// fixed. Inputs, outputs, states, their names and the nodes' names stay; what differs between
/// inference and training (dropout, batch normalisation) stays as it is. A gradient may differ in
/// the last bits where nodes that did the same have become one. A graph that an operator refuses
/// is left as it is: running it tells why.
Result<SimplifyReport> simplify(Graph& g, const SimplifyOptions& options = {});

/// For inference: puts batch normalisation into the convolution before it, where nothing else
/// reads the convolution's result or weights. Weights change and keep their names; scale and
/// statistics go. The model can still be trained, but without the normalisation. Results differ in
/// the last bits. Returns how many were folded.
Result<int64_t> fold_batch_norm(Graph& g);

}  // namespace hone
