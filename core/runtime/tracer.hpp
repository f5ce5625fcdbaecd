// SPDX-License-Identifier: Apache-2.0
// Recording of operations, as they were said, into a model graph.
#pragma once

#include <unordered_map>

#include "core/runtime/eager_engine.hpp"
#include "hone/trace.hpp"

namespace hone::detail {

/// While it is the thread's tracer, every operation of the user becomes a node. A tensor that no
/// operation of the trace made is a state when it was declared or wants a gradient, otherwise a
/// constant.
class Tracer {
 public:
  explicit Tracer(Graph& graph) : graph_(graph), builder_(graph, Composites::keep) {}

  /// `t` is the graph's next input, of `shape`, whose negative extents are named dimensions.
  void input(const Tensor& t, const Shape& shape, std::string name);
  /// If the traced code uses `t`, it becomes a state. The first name stays.
  void declare(const Tensor& t, StateRole role, std::string name);
  Status record(const OpDef& op, const Attrs& attrs, std::span<const Tensor> inputs,
                std::span<const Tensor> outputs, std::string_view scope, int64_t region);
  void output(const Tensor& t, std::string name) { builder_.output(value_of(t), std::move(name)); }
  /// Declared tensors that were written to get an update in the graph and their old content back.
  void end_states();
  /// What each value was in this run, by id.
  std::vector<TensorType> types() &&;

 private:
  struct Declared {
    StateRole role;
    std::string name;
    Tensor tensor;
    std::shared_ptr<Var> var;
    TensorData data;
    int64_t version;
  };
  Value value_of(const Tensor& t);
  Value state_of(const Declared& d);
  void bind(std::shared_ptr<Var> var, Value v);

  Graph& graph_;
  Builder builder_;
  std::unordered_map<const Var*, Value> values_;
  std::unordered_map<const Var*, size_t> declared_at_;
  std::vector<Declared> declared_;
  std::vector<std::shared_ptr<Var>> kept_;  // so that no address is used twice
  std::vector<TensorType> types_;
  int64_t last_region_ = 0;  // as the engine counts them; the graph counts its own
  int32_t regions_ = 0;
};

/// One run of the traced code.
struct Recording {
  Graph graph;
  std::vector<TensorType> types;  ///< By value.
  std::vector<TensorData> inputs, outputs;
  std::vector<int64_t> extents;  ///< By named dimension.
};

/// Writes the first recording so that it holds for all of them, which differ in the extents of
/// named dimensions. Errors: invalid_argument naming the first operation that cannot be.
Result<Graph> merge_recordings(std::span<const Recording> runs);

}  // namespace hone::detail
