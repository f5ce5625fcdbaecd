// SPDX-License-Identifier: Apache-2.0
// From a model graph with named dimensions to a concrete one.
#pragma once

#include <functional>

#include "hone/builder.hpp"

namespace hone {

enum class Mode : uint8_t {
  infer,  ///< Dropout is the identity, batch norm uses running statistics, states are not updated.
  train,  ///< Operators with a `training` form take it: batch statistics and their updates, dropout
          ///< masks.
};

/// Finds out the content of a value of a graph that is not finished yet.
using Evaluate = std::function<Result<TensorData>(const Graph& so_far, ValueId value)>;

struct SpecialiseOptions {
  Mode mode = Mode::infer;
  /// In train mode: whether what depends on no trained parameter runs as in inference.
  bool frozen_in_eval = false;
  /// Values computed from constants alone are computed now when they take at most this many bytes.
  int64_t fold_limit_bytes = 64 << 10;
  /// Operators that are written out though they have a kernel.
  WritesOut writes_out = {};
  /// Asked where the shapes of what follows, a branch or a number of iterations depend on a value.
  /// The result then holds for such data only.
  Evaluate evaluate = {};
  /// Set when the error is that content is needed and there is no `evaluate`.
  bool* depends_on_data = nullptr;
  /// As Builder::collect_ops.
  std::set<const OpDef*>* collect_ops = nullptr;
};

/// Replays `model` with these input shapes (one for each graph input, in order): shapes become
/// concrete, shape arithmetic folds away, composite operators are written out, dead nodes go.
/// Values keep their names; constants and states share their data with `model`; states keep their
/// order. Outputs keep theirs. In train mode a state "rng" (role rng, i64[2]: seed, counter)
/// appears when something draws random numbers, updated to counter + 1.
///
/// Errors: invalid_argument (an input's rank or fixed extent differs, or one name stands for two
/// extents: input, axis, both numbers; or an operator refuses the shapes), unsupported (a shape
/// that depends on data).
Result<Graph> specialise(const Graph& model, std::span<const Shape> input_shapes,
                         const SpecialiseOptions& options = {});

/// Removes nodes, constants and named dimensions that no output and no update needs. Inputs and
/// states stay.
Status remove_dead(Graph& g);

}  // namespace hone
