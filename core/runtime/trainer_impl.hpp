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
  double lr = 0;             // fed to update programs
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
  /// Errors: as Trainer::restore.
  Status check_fits(const State& state) const;

  /// The program of a step; with micro-batches, that of the first of them.
  Result<Compiled*> gradient_program(std::span<const NamedTensor> batch);
  Result<PlanInfo> plan(std::span<const NamedTensor> batch);
  Result<double> accumulate(std::span<const NamedTensor> batch);
  Result<StepResult> apply();
  /// Samples in each micro-batch but the last.
  Result<int64_t> part_size(std::span<const NamedTensor> batch) const;
  Result<StepResult> step_in_parts(std::span<const NamedTensor> batch);

  /// What a program will be made from: nothing is allocated for it yet.
  struct Draft {
    Graph graph;
    std::vector<StateTensor> new_states;  ///< Without data.
    std::vector<StateTensor> undo;        ///< Likewise; see `undo` below.
    std::vector<Compiled::Assumption> assumptions;
    int64_t optimizer = 0;  ///< Bytes of the optimizer's among the new states.
    Engine::CompileOptions options;
  };
  Result<Draft> draft(std::span<const NamedTensor> batch, TrainForm form);
  Result<std::unique_ptr<Compiled>> build(std::span<const NamedTensor> batch, TrainForm form);

  /// `refused`, a plan's error, or if a limit that cannot be kept is the reason, what can.
  Status explain_limit(std::span<const NamedTensor> batch, TrainForm form, Status refused);
  /// Plans of programs that are there within another limit, and what lies in files then.
  struct Plans {
    std::vector<Program> plans;
    PagedStates paged;
  };
  Result<Plans> plans_within(int64_t bytes, std::span<const Compiled* const> programs) const;
  /// Likewise for programs that are there, when the limit is to change.
  Status explain_new_limit(int64_t bytes, std::span<const Compiled* const> programs);
  /// What such batches take at least; with micro-batches, what the update takes is counted too.
  struct Least : Engine::Least {
    int64_t optimizer = 0;  ///< Of optimizer state that is not there yet.
  };
  Result<Least> least(std::span<const NamedTensor> batch, TrainForm form);
  Result<int64_t> least_of_all(std::span<const NamedTensor> batch);

  /// States as they were before a step in micro-batches, in case it fails half way: running
  /// statistics and random state.
  std::vector<StateTensor> undo;

 private:
  Result<TrainGraph> graph_for(std::span<const NamedTensor> batch, TrainForm form,
                               std::vector<Compiled::Assumption>& assumptions);
  void note_new_states(std::span<const TrainGraph::NewState> states, Draft& d) const;
  Status add_states(const Draft& d);
  void remember();
  void roll_back();
  Result<std::unique_ptr<Compiled>> prefix(Graph g, ValueId value);
  Result<TensorData> run_prefix(Compiled& c, std::span<const NamedTensor> batch);
  Result<bool> assumptions_hold(Compiled& c, std::span<const NamedTensor> batch);
  Status add_rng(const Graph& g);
  std::string advice(std::span<const NamedTensor> batch, TrainForm form, const Least& now);
};

/// Rows [first, last) of the leading axis of everything, without copying: good as long as `batch`.
std::vector<NamedTensor> rows_of(std::span<const NamedTensor> batch, int64_t first, int64_t last);
/// The leading extent that all tensors share. Errors: invalid_argument.
Result<int64_t> leading_extent(std::span<const NamedTensor> batch);

}  // namespace hone
