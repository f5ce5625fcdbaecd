// SPDX-License-Identifier: Apache-2.0
// From define-by-run code to a model: one run is recorded.
#pragma once

#include "hone/model.hpp"
#include "hone/tensor.hpp"

namespace hone {

struct TraceInput {
  std::string name;
  Tensor example;
  /// Names of the axes whose extent is free, "" for fixed ones; axes beyond the list are fixed.
  /// {"batch", "time"} frees axes 0 and 1. One name is one extent.
  std::vector<std::string> dims;
};

/// A tensor that stays when the model has run, under its name in the model.
struct TraceState {
  std::string name;
  Tensor tensor;
  StateRole role = StateRole::parameter;
};

struct TraceOptions {
  std::vector<TraceState> states;
  /// "output", or "output_0", "output_1", ... when there are several, unless named here.
  std::vector<std::string> output_names;
};

using TracedFn = std::function<std::vector<Tensor>(std::span<const Tensor> inputs)>;

/// Records what `fn` does with the examples as a model: the operators it calls, with the name
/// scopes around them. Tensors it uses become parameters and buffers when they are among the states
/// (frozen when they want no gradient), parameters under their own names when they want a gradient,
/// constants otherwise. A write in place to a state becomes an update of the model's state; the
/// tensor itself is as before afterwards. Dropout and batch norm are recorded as operators that
/// know both modes.
///
/// For every free dimension `fn` runs once more with another extent (the example is repeated along
/// the axis). What differs between the runs is written in terms of shapes; the model is checked to
/// give, bit for bit, what each run gave.
///
/// Errors: what the outputs of `fn` carry; invalid_argument (names, dims; a dimension is not free:
/// names the operation that depends on its extent, with both forms; the code depends on something
/// that is not recorded).
Result<Model> trace(const TracedFn& fn, std::span<const TraceInput> inputs,
                    const TraceOptions& options = {});

}  // namespace hone
