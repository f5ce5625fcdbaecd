// SPDX-License-Identifier: Apache-2.0
// Running models whose shapes, branches or numbers of iterations depend on data. What can be
// planned is planned: a stage holds every node whose shapes are known by then, and is a program
// like any other. After it has run, what the remaining nodes asked for is known, and the next stage
// is made. Programs are kept by what they compute, so that a second run with the same shapes finds
// them again.
#pragma once

#include <string>

#include "core/passes/replay.hpp"
#include "core/runtime/engine.hpp"

namespace hone {

class Staged {
 public:
  /// `engine` must outlive this.
  explicit Staged(Engine& engine) : engine_(engine) { engine.caches.push_back(&programs_); }

  /// Runs the model in inference form. Inputs in the model's order. Errors: as Session::run.
  Result<std::vector<TensorData>> run(std::span<const TensorData> inputs);

 private:
  Status run_stage(Replay& replay, std::span<const TensorData> inputs, bool first);
  Status run_graph(Graph g, Replay& replay, std::span<const SlotId> outputs,
                   std::span<const NamedTensor> fed);
  Result<Compiled*> program(Graph g);

  Engine& engine_;
  std::vector<std::unique_ptr<Compiled>> programs_;  // each named by its fingerprint
};

}  // namespace hone
