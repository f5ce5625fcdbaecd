// SPDX-License-Identifier: Apache-2.0
// Training a model: forward, backward, clipping and the optimizer's update as one planned program.
#pragma once

#include <functional>

#include "hone/builder.hpp"
#include "hone/glob.hpp"
#include "hone/session.hpp"

namespace hone {

/// Values by name, as a loss sees them.
class NamedValues {
 public:
  void add(std::string name, Value v) { items_.emplace_back(std::move(name), v); }
  /// Errors: not_found, listing the names there are.
  Result<Value> find(std::string_view name) const;
  const std::vector<std::pair<std::string, Value>>& items() const { return items_; }

 private:
  std::vector<std::pair<std::string, Value>> items_;
};

/// Writes the loss (a floating-point scalar) with operators, from the model's outputs and the
/// batch's targets.
using LossFn = std::function<Result<Value>(Builder& b, const NamedValues& outputs,
                                           const NamedValues& targets)>;

enum class OptimizerKind : uint8_t { sgd, adam, adamw };

struct OptimizerOptions {
  OptimizerKind kind = OptimizerKind::adamw;
  double lr = 1e-3;
  double weight_decay = 0;
  double momentum = 0, dampening = 0;             ///< sgd
  bool nesterov = false;                          ///< sgd
  double beta1 = 0.9, beta2 = 0.999, eps = 1e-8;  ///< adam, adamw
};

struct TrainerOptions {
  LossFn loss;
  OptimizerOptions optimizer;
  /// The learning rate of step 0, 1, ...; constant optimizer.lr when empty.
  std::function<double(int64_t step)> schedule;
  double clip_norm =
      0;  ///< Gradients are scaled so that their global norm is at most this; 0: no clipping.
  std::string trainable =
      "*";  ///< Comma-separated globs of parameter names; the others are frozen.
  /// Whether operators before the first trained parameter run as in inference: batch norms use
  /// their running statistics and leave them alone, dropout passes all. As after `eval()` on frozen
  /// modules; convolutions, batch norms and activations there become single steps.
  bool frozen_in_eval = false;
  uint64_t seed = 0;  ///< Of dropout and the other random operators.
  /// Above 1, `step` cuts its batch along the leading axis into so many parts, runs them one after
  /// the other and makes one update from the weighted mean of their gradients. Takes less memory,
  /// at most about as much as one part needs, but rounds in another order, and batch norm sees one
  /// part at a time: so it is never chosen by itself.
  int micro_batches = 1;
  /// How much the loss of a batch, a mean, counts beside others that are added up: usually its
  /// number of targets (those that are not ignored), a scalar. Empty: the number of samples.
  LossFn count_targets;
  /// Without a memory limit: the share of a step's time, by estimate, that may go into computing
  /// things again so that less is kept. A little of it saves much: 2 % halve what some networks
  /// need. 0: nothing is computed twice. Results are the same bits.
  double recompute_share = 0.02;
  /// A folder in which optimizer state may lie, in files without a name, where memory_limit cannot
  /// be kept otherwise. Empty: it stays in memory. Results are the same bits; steps take longer.
  std::string spill_folder;
  /// memory_limit among these is the trainer's budget.
  SessionOptions session;
};

struct StepResult {
  int64_t step = 0;  ///< Index of the step just taken, from 0.
  double loss = 0;   ///< Before the update.
  double lr = 0;
  double grad_norm = 0;  ///< Global norm before clipping; only computed when clipping, else 0.
};

/// Trains a copy of a model's weights. A trainer belongs to one thread at a time.
class Trainer {
 public:
  /// Copies the parameters and buffers; the model itself never changes. Errors: invalid_argument
  /// (no parameter matches `trainable`; a bad option: which).
  static Result<Trainer> create(const Model& model, TrainerOptions options);
  Trainer(Trainer&&) noexcept;
  Trainer& operator=(Trainer&&) noexcept;
  ~Trainer();

  /// One step on a batch: the model's inputs by name, everything else is a target for the loss. The
  /// first step with new shapes plans; later ones allocate nothing. Errors: invalid_argument
  /// (shapes, dtypes, names, a label out of range), unsupported (no gradient), and when the loss is
  /// not finite: the parameters are then as before the step.
  Result<StepResult> step(std::span<const NamedTensor> batch);
  /// Adds the gradients on a batch to those that wait for `apply`, weighted as
  /// TrainerOptions::count_targets says. Returns the loss. Errors: as `step`; what waited before
  /// still waits.
  Result<double> accumulate(std::span<const NamedTensor> batch);
  /// One update from the weighted mean of the gradients that wait; the result's loss is the
  /// weighted mean of their losses. With nothing to apply, or only batches without targets, nothing
  /// changes but the count of steps.
  Result<StepResult> apply();
  /// Gradients of the trainable parameters on a batch, in training mode, by parameter name. Nothing
  /// is updated.
  Result<std::vector<NamedTensor>> gradients(std::span<const NamedTensor> batch);
  /// The loss on a batch in inference mode. Nothing is updated.
  Result<double> evaluate(std::span<const NamedTensor> batch);
  /// The model's outputs in inference mode with the current weights.
  Result<std::vector<TensorData>> predict(std::span<const NamedTensor> inputs);

  /// The model with the current weights (copied).
  Result<Model> snapshot() const;
  /// Steps taken so far.
  int64_t steps() const;
  /// All that a later `restore` needs to go on bit for bit: parameters, buffers, optimizer state,
  /// random state; copied. Roles tell which is which. Gradients that wait for `apply` are not part
  /// of it.
  struct State {
    std::vector<StateTensor> entries;
    int64_t step = 0;
  };
  Result<State> save() const;
  /// Errors: invalid_argument naming every tensor that is missing, unexpected or of another type;
  /// nothing changes then.
  Status restore(const State& state);
  /// Names of the parameters that are trained.
  std::vector<std::string> trainable() const;
  /// The plan of the training step for this batch: its peak is known before the first step runs.
  /// Errors: as `step`.
  Result<PlanInfo> plan(std::span<const NamedTensor> batch);
  /// The same in full (hone/plan_detail.hpp); with micro-batches, of one of them.
  Result<PlanDetail> plan_detail(std::span<const NamedTensor> batch);
  /// Looks for a better plan of the training step for so many seconds: fewer steps that run again,
  /// a smaller arena. Uses it from now on and returns it, for Model::plans; with micro-batches,
  /// that of one of them. Errors: as `step`; invalid_argument (seconds).
  Result<StoredPlan> search_plan(std::span<const NamedTensor> batch, double seconds);
  /// Changes the memory limit (SessionOptions::memory_limit; 0: none) between two steps. Plans of
  /// the training step are made anew at once, the others when they are needed. No training state is
  /// lost. Errors: out_of_memory (the sentence names the smallest limit that works); the old limit
  /// stays.
  Status set_memory_limit(int64_t bytes);
  /// The smallest limit, in bytes, within which steps on such batches can be planned.
  Result<int64_t> smallest_memory_limit(std::span<const NamedTensor> batch);
  /// Times every step of what runs from now on (hone/profile.hpp), and forgets an earlier profile.
  /// Costs a reading of the clock a step; memory only here and when a program runs for the first
  /// time.
  void start_profile(const ProfileOptions& options = {});
  /// Ends that, and forgets the profile.
  void stop_profile();
  /// What was timed since start_profile; empty without one.
  Profile profile() const;

  const Model& model() const;

 private:
  struct Impl;
  explicit Trainer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace hone
