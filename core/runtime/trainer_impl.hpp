// SPDX-License-Identifier: Apache-2.0
// Inside a trainer: its programs by batch type, and what they are fed.
#pragma once

#include "core/runtime/engine.hpp"
#include "core/runtime/train_graph.hpp"
#include "hone/trainer.hpp"

namespace hone {

struct Trainer::Impl {
  Impl(Model model, TrainerOptions o);

  TrainerOptions options;
  Engine engine;
  int64_t step = 0;
  float lr = 0;              // fed to update programs
  int64_t step_number = 0;   // likewise
  double weight = 0;         // of the gradients that wait to be applied
  double weighted_loss = 0;  // sum of their losses times weights
  std::vector<std::unique_ptr<Compiled>> caches[kTrainForms];  // by TrainForm

  /// The program for a batch like this one: found without allocating, or built.
  Result<Compiled*> program(std::span<const NamedTensor> batch, TrainForm form);
  /// Points the program's inputs at the batch.
  void feed(Compiled& c, std::span<const NamedTensor> batch);
  /// Runs up to the loss and refuses to go on when it is not finite.
  Result<double> run_to_loss(Compiled& c, size_t& done);
  /// One program after the loss.
  Status run_rest(Compiled& c, size_t done);
  void begin_step();
  /// Forgets gradients that wait.
  void drop_gradients();
  /// Whether a state holds gradients that wait.
  static bool waits(std::string_view state_name);

  Result<PlanInfo> plan(std::span<const NamedTensor> batch);
  Result<double> accumulate(std::span<const NamedTensor> batch);
  Result<StepResult> apply();
  /// Samples in each micro-batch but the last.
  Result<int64_t> part_size(std::span<const NamedTensor> batch) const;
  Result<StepResult> step_in_parts(std::span<const NamedTensor> batch);
  Result<std::unique_ptr<Compiled>> build(std::span<const NamedTensor> batch, TrainForm form,
                                          bool unlimited = false);
  /// The error of a limit that cannot be kept, with what can.
  Status explain_limit(std::span<const NamedTensor> batch, TrainForm form);
  /// Bytes that training on such batches takes at least.
  struct Least {
    int64_t total = 0, arena = 0;
  };
  Result<Least> least(std::span<const NamedTensor> batch, TrainForm form);
  Result<int64_t> least_of_all(std::span<const NamedTensor> batch);

 private:
  Result<TrainGraph> graph_for(std::span<const NamedTensor> batch, TrainForm form,
                               std::vector<Compiled::Assumption>& assumptions);
  Result<std::unique_ptr<Compiled>> prefix(Graph g, ValueId value);
  Result<TensorData> run_prefix(Compiled& c, std::span<const NamedTensor> batch);
  Result<bool> assumptions_hold(Compiled& c, std::span<const NamedTensor> batch);
  Status add_rng(const Graph& g);
};

/// Rows [first, last) of the leading axis of everything, without copying: good as long as `batch`.
std::vector<NamedTensor> rows_of(std::span<const NamedTensor> batch, int64_t first, int64_t last);
/// The leading extent that all tensors share. Errors: invalid_argument.
Result<int64_t> leading_extent(std::span<const NamedTensor> batch);

}  // namespace hone
