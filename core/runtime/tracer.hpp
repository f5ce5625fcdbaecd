// SPDX-License-Identifier: Apache-2.0
// Recording of operations, as they were said, into a model graph.
#pragma once

#include <unordered_map>

#include "core/runtime/eager_engine.hpp"

namespace hone::detail {

/// While it is the engine's tracer, every operation of the user becomes a node. A tensor that no
/// operation of the trace made is a state when `declare` named it, otherwise a constant.
class Tracer {
 public:
  explicit Tracer(Graph& graph) : graph_(graph), builder_(graph, Composites::keep) {}

  /// `t` is the graph's next input, of `shape`, whose negative extents are named dimensions.
  void input(const Tensor& t, const Shape& shape, std::string name);
  /// If the traced code uses `t`, it becomes a state.
  void declare(const Tensor& t, StateRole role, std::string name);
  Status record(const OpDef& op, const Attrs& attrs, std::span<const Tensor> inputs,
                std::span<const Tensor> outputs, std::string_view scope);
  void output(const Tensor& t, std::string name);
  /// The value of a tensor, made a state or a constant when it is new.
  Value value_of(const Tensor& t);

 private:
  struct Declared {
    StateRole role;
    std::string name;
  };
  void bind(const Tensor& t, Value v);

  Graph& graph_;
  Builder builder_;
  std::unordered_map<const Var*, Value> values_;
  std::unordered_map<const Var*, Declared> declared_;
  std::vector<std::shared_ptr<Var>> kept_;  // so that no address is used twice
};

}  // namespace hone::detail
