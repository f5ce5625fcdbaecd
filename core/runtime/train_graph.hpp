// SPDX-License-Identifier: Apache-2.0
// The training step as one graph.
#pragma once

#include "hone/specialise.hpp"
#include "hone/trainer.hpp"

namespace hone {

enum class TrainForm : uint8_t {
  step,  ///< Forward, backward, clip, update. Outputs: loss, and the gradient norm when clipping.
  gradients,   ///< Forward and backward. Outputs: loss, then the gradients in the order of
               ///< `trainable`.
  loss,        ///< The loss in inference mode. Outputs: loss.
  accumulate,  ///< Forward, backward, adding to sums. Outputs: loss, and the batch's weight.
  apply,  ///< The sums over their weight, clip, update. Outputs: the gradient norm if clipping.
};
inline constexpr size_t kTrainForms = 5;

struct TrainGraph {
  Graph graph;
  std::vector<std::string> trainable;  ///< For `gradients`: names in the order of the outputs.
  /// Optimizer states that the graph uses: zeros at first. They have no data here, so that a plan
  /// can be made before there is memory for them.
  struct NewState {
    std::string name;
    TensorType type;
  };
  std::vector<NewState> new_states;
};

/// Names of the two scalar inputs a `step` graph ends with: the learning rate (f32) and the step's
/// number, from 1 (i64).
inline constexpr std::string_view kLrInput = "hone.lr";
inline constexpr std::string_view kStepInput = "hone.step";

/// The sum of all weights of the gradients that have been added up (f32), a state.
inline constexpr std::string_view kWeightState = "hone.weight_sum";
/// Gradients are added up in the state of the parameter's name and this.
inline constexpr std::string_view kSumSuffix = "grad_sum";

/// The update from sums of gradients. `ops`: as Builder::collect_ops.
Result<TrainGraph> build_apply_graph(const Model& model, const TrainerOptions& options,
                                     std::set<const OpDef*>* ops = nullptr);

/// Builds it for these inputs and targets. `evaluate`: see SpecialiseOptions.
Result<TrainGraph> build_train_graph(const Model& model, std::span<const Shape> input_shapes,
                                     std::span<const std::pair<std::string, TensorType>> targets,
                                     const TrainerOptions& options, TrainForm form,
                                     Evaluate evaluate, std::set<const OpDef*>* ops = nullptr);

}  // namespace hone
