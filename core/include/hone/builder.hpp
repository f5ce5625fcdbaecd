// SPDX-License-Identifier: Apache-2.0
// Building of graphs: every node, whoever asks for it, is made by a Builder.
#pragma once

#include <functional>
#include <initializer_list>
#include <set>
#include <unordered_map>

#include "hone/graph.hpp"

namespace hone {

class Builder;

/// A handle to a value of the graph being built: a builder and an id, so it stays good while nodes
/// move. A failed emission gives an invalid handle; using one gives another, and the builder keeps
/// the first error.
class Value {
 public:
  Value() = default;
  Value(Builder* builder, ValueId id) : builder_(builder), id_(id) {}
  bool valid() const { return id_ != kNone; }
  ValueId id() const { return id_; }
  Builder& builder() const { return *builder_; }
  /// Type of a typed value; f32[] for an invalid handle.
  const TensorType& type() const;
  const Shape& shape() const { return type().shape; }
  DType dtype() const { return type().dtype; }

 private:
  Builder* builder_ = nullptr;
  ValueId id_ = kNone;
};

enum class Composites : uint8_t {
  keep,    ///< For model graphs: nodes stay as they were said, values may be untyped. Constants may
           ///< still fold.
  expand,  ///< For specialised graphs: operators without a kernel are written out, and everything
           ///< is typed.
};

/// Whether an operator that has both a kernel and a decomposition had better be decomposed. Inputs
/// that are left out are null.
using WritesOut =
    std::function<bool(const OpDef&, std::span<const TensorType* const> in, const Attrs&)>;

/// Records nodes into a graph. A subclass may also run them (see runtime). The graph must outlive
/// the builder.
class Builder {
 public:
  explicit Builder(Graph& graph, Composites composites = Composites::expand)
      : graph_(graph), composites_(composites) {}
  virtual ~Builder() = default;
  Builder(const Builder&) = delete;
  Builder& operator=(const Builder&) = delete;

  Graph& graph() { return graph_; }
  const Graph& graph() const { return graph_; }

  /// Emits a node with one output. Attributes left empty mean the operator's defaults.
  Value emit(const OpDef& op, std::initializer_list<Value> inputs, Attrs attrs = {});
  Value emit(const OpDef& op, std::span<const Value> inputs, Attrs attrs = {});
  /// Emits a node with any number of outputs. An empty vector means failure. In a model graph whose
  /// values are untyped, `untyped_outputs` says how many outputs there are.
  std::vector<Value> emit_all(const OpDef& op, std::span<const Value> inputs, Attrs attrs = {},
                              int untyped_outputs = 1);

  Value input(const TensorType& type, std::string name);
  /// An input of which nothing is known before the graph is specialised: those of bodies.
  Value untyped_input(std::string name);
  Value constant(TensorData data, std::string name = {});
  Value state(StateRole role, TensorData data, std::string name);
  /// A scalar constant of the given dtype.
  Value scalar(double v, DType dtype);
  /// A one-dimensional i64 constant.
  Value ints(std::span<const int64_t> v);
  void output(Value v, std::string name);

  /// Content of a value that is constant, or of which it is known what it will be; else null.
  const TensorData* constant_data(Value v) const;
  /// Says that `v` will have this content whenever the graph is run: shapes may then depend on it.
  void know(Value v, TensorData data) { known_[v.id()] = std::move(data); }

  /// The first error; ok while there was none.
  const Status& status() const { return status_; }
  void fail(Status status) {
    if (status_.ok()) status_ = std::move(status);
  }

  /// Name given to the nodes emitted from now on (messages, profiles).
  void set_scope(std::string name) { scope_ = std::move(name); }
  const std::string& scope() const { return scope_; }
  /// Region of the nodes emitted from now on: see Node::region.
  void set_region(int32_t region) { region_ = region; }
  int32_t region() const { return region_; }

  /// Nodes whose inputs are all constant are run at once when their outputs take at most this many
  /// bytes; 0: never.
  void set_fold_limit(int64_t bytes) { fold_limit_ = bytes; }
  /// Adds to `ops` every operator that is emitted from now on, also those that are folded or
  /// written out; null: no more. `ops` must outlive that.
  void collect_ops(std::set<const OpDef*>* ops) { collected_ = ops; }
  /// With Composites::expand: what is decomposed though it has a kernel. Empty: nothing.
  void set_writes_out(WritesOut writes_out) { writes_out_ = std::move(writes_out); }

 protected:
  /// Called when a node has been appended (not for folded or decomposed ones).
  virtual Status appended(NodeId) { return {}; }

 private:
  bool writes_out(const OpDef& op, std::span<const ValueId> inputs, const Attrs& attrs) const;
  bool may_fold(std::span<const ValueId> inputs, std::span<const TensorType> types) const;
  std::vector<Value> fold(const OpDef& op, std::span<const ValueId> inputs, const Attrs& attrs,
                          std::span<const TensorType> types);
  std::vector<Value> append(const OpDef& op, std::vector<ValueId> inputs, Attrs attrs,
                            std::span<const TensorType> types, int untyped_outputs);
  std::vector<Value> expand(const OpDef& op, std::span<const ValueId> inputs, const Attrs& attrs,
                            size_t outputs);

  Graph& graph_;
  Composites composites_;
  Status status_;
  std::string scope_;
  int32_t region_ = 0;
  int64_t fold_limit_ = 0;
  WritesOut writes_out_;
  int depth_ = 0;
  std::set<const OpDef*>* collected_ = nullptr;
  std::unordered_map<ValueId, TensorData> known_;
};

}  // namespace hone
