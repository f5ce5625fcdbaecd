// SPDX-License-Identifier: Apache-2.0
// The intermediate representation: values, nodes, and the graph that holds them.
#pragma once

#include <deque>
#include <map>
#include <string>
#include <vector>

#include "hone/attrs.hpp"

namespace hone {

struct OpDef;

using ValueId = int32_t;  ///< Index into Graph::values.
using NodeId = int32_t;   ///< Index into Graph::nodes.
inline constexpr int32_t kNone = -1;

/// Where a value comes from.
enum class ValueKind : uint8_t {
  node,      ///< Computed by a node.
  input,     ///< Given at each run.
  constant,  ///< Fixed; `data` holds it.
  state,     ///< Lives across runs; `data` holds its initial content.
};

/// What a state value is for.
enum class StateRole : uint8_t {
  parameter,  ///< Learned: weights and biases.
  buffer,     ///< Kept by the model but not learned by gradient: running statistics.
  optimizer,  ///< Moments, velocities, step counts.
  rng,        ///< Seed and counter of the random operators: i64[2].
};

/// The content of a state by name: what trainers save and checkpoints hold.
struct StateTensor {
  std::string name;
  StateRole role = StateRole::parameter;
  TensorData data;
};

struct ValueInfo {
  TensorType type;  ///< Meaningful when `typed`.
  bool typed =
      false;  ///< False in a model graph for values whose shape depends on free dimensions.
  ValueKind kind = ValueKind::node;
  StateRole role = StateRole::parameter;  ///< For state.
  bool trainable = true;                  ///< For parameters: false when frozen.
  NodeId producer = kNone;                ///< For node values.
  int32_t output_index = 0;
  std::string name;  ///< Unique among named inputs, constants and states; may be empty.
  TensorData data;   ///< For constant and state.
};

struct Node {
  const OpDef* op = nullptr;
  Attrs attrs;
  std::vector<ValueId> inputs;  ///< kNone where an optional input is left out.
  std::vector<ValueId> outputs;
  std::string name;  ///< For messages; may be empty.
  /// Nodes of one number, above 0, are a checkpointed region: the backward pass computes again what
  /// lies inside. Their gradients have the negative number.
  int32_t region = 0;
};

struct GraphOutput {
  ValueId value = kNone;
  std::string name;
  Shape declared;  ///< As the file declares it, with named dimensions.
  bool has_declared = false;
};

/// After a run, `state` takes the content of `next`.
struct StateUpdate {
  ValueId state = kNone;
  ValueId next = kNone;
};

/// A directed acyclic graph. Nodes stand in an order in which each uses only what earlier ones,
/// inputs, constants and states provide. A *model graph* may have named dimensions and untyped
/// values; a *specialised* graph is typed and concrete.
struct Graph {
  std::string name;
  std::vector<Node> nodes;
  std::deque<ValueInfo> values;  ///< References to elements stay good while a builder adds more.
  std::vector<ValueId> inputs;
  std::vector<GraphOutput> outputs;
  std::vector<StateUpdate> updates;
  std::vector<std::string> dim_names;  ///< Extent -k-1 in a shape means dim_names[k].

  const ValueInfo& value(ValueId id) const { return values[static_cast<size_t>(id)]; }
  ValueInfo& value(ValueId id) { return values[static_cast<size_t>(id)]; }
  const Node& node(NodeId id) const { return nodes[static_cast<size_t>(id)]; }
  const TensorType& type(ValueId id) const { return value(id).type; }

  ValueId add_value(ValueInfo info);
  /// The value of that name among inputs, constants and states, or kNone.
  ValueId find(std::string_view name) const;
  /// Index of the output of that name, or -1.
  int find_output(std::string_view name) const;
  /// The named dimension's extent code (-k-1), added when new.
  int64_t dim(std::string_view name);
  /// States of a role, in order.
  std::vector<ValueId> states(StateRole role) const;
  /// What the bytes of `v` belong to: where it is a view, or a view of one, what that looks at.
  ValueId viewed(ValueId v) const;
};

/// "[N, 3, 224, 224]" with names for named dimensions.
std::string to_string(const Graph& g, const Shape& shape);

/// "conv 'stem.0'": how messages call a node.
std::string label(const Node& node);

/// The whole graph as text, one node a line.
std::string print(const Graph& g);

/// Checks what every pass relies on: ids in range, order, arity, attribute schemas, types agreeing
/// with inference (where typed), updates of equal type, unique names. Errors: internal, naming node
/// and rule.
Status verify(const Graph& g);

}  // namespace hone
