// SPDX-License-Identifier: Apache-2.0
// From an ONNX model to Hone's graph: one Importer makes one graph, that of the model or that of a
// body (of If, Loop, Scan). What its parts do stands in a file each, named below.
#pragma once

#include <deque>
#include <unordered_map>
#include <unordered_set>

#include "core/import/import_ctx.hpp"
#include "core/import/onnx_weights.hpp"

namespace hone::onnx {

/// Functions may call functions, and bodies hold bodies: so deep that a small file cannot unfold
/// into an endless graph.
inline constexpr int kMaxCallDepth = 32;

/// Values by their names in the file. An invalid value stands for one that something missing would
/// have computed.
using Scope = std::unordered_map<std::string_view, Value>;

using Names = std::unordered_set<std::string_view>;

/// Where nodes stand: in the graph or in a function it calls.
struct Body {
  Scope& scope;
  const Names& read;  ///< What nodes or outputs read.
  std::span<const OperatorSetId> opsets;
  std::string prefix;  ///< Of node names.
  int depth;
};

inline bool is_standard(std::string_view domain) { return domain.empty() || domain == "ai.onnx"; }

bool is_gradient(const NodeProto& n);

/// Adds the names of all values that the nodes read, in their bodies too.
void collect_read(std::span<const NodeProto> nodes, Names& read);

std::string_view name_of(NarrowType t);

class Importer {
 public:
  Importer(const ModelProto& model, TensorReader& tensors, const OnnxImportOptions& options)
      : model_(model),
        tensors_(tensors),
        options_(options),
        b_(graph_, Composites::keep),
        state_{b_, tensors, options, {}, {}, {}} {
    b_.set_fold_limit(kFoldLimitBytes);
  }
  /// For the body of a node that stands in `at` of `outer`.
  Importer(Importer& outer, Scope& at) : Importer(outer.model_, outer.tensors_, outer.options_) {
    outer_ = &outer;
    outer_scope_ = &at;
    imported_ = outer.imported_;
  }

  Result<Graph> run();

 private:
  // ---- the graph: onnx_import.cpp
  Status check_opsets();
  int64_t extent(const Dimension& d, std::string_view value, size_t axis);
  Result<Shape> shape_of(const ValueInfoProto& v);
  Status add_inputs(Scope& scope);
  Status add_initializers(Scope& scope, const Names& read);
  Value add_weight(TensorData data, std::string name, Weight kind);
  Status add_outputs(const Scope& scope);
  Status missing_error() const;

  // ---- its nodes: onnx_import_nodes.cpp
  Status import_nodes(std::span<const NodeProto> nodes, const Body& body);
  Status import_node(const NodeProto& n, const std::string& name, const Body& body);
  Result<bool> resolve_inputs(const NodeProto& n, const std::string& name, const Body& body,
                              std::vector<Value>& inputs);
  Status apply(const ImportRule& rule, const NodeProto& n, int64_t opset, std::vector<Value> inputs,
               const std::string& name, const Body& body);
  Status call(const FunctionProto& f, const NodeProto& n, std::span<const Value> inputs,
              const std::string& name, const Body& from);
  const FunctionProto* find_function(const NodeProto& n) const;
  void give_name(Value v, std::string name);
  Status builder_status() const;

  // ---- derivatives within it: onnx_gradient.cpp
  Status import_gradient(const NodeProto& n, const std::string& name, const Body& body);

  // ---- bodies: onnx_import_bodies.cpp
  Status import_body(GraphProto g, std::span<const Known> own, const Body& from,
                     const std::string& prefix);
  GraphPtr finish_body(size_t own, std::span<const Value> captured);
  bool capture(std::string_view name, Scope& scope);
  Value take(Value from, std::string name);
  Value add_input(std::string name, Known what);
  Status add_body_weights(const GraphProto& g, Scope& scope, const std::string& prefix);
  Value lift(TensorData data, std::string long_name, std::string name, Weight kind);

  // ---- nodes that have bodies: onnx_import_control.cpp
  Status import_control(const NodeProto& n, int64_t opset, const std::string& name,
                        const Body& body);
  Status import_if(const NodeProto& n, std::vector<Value> inputs, const std::string& name,
                   const Body& body);
  Status import_loop(const NodeProto& n, std::vector<Value> inputs, const std::string& name,
                     const Body& body);
  Status import_batched_scan(const NodeProto& n, std::vector<Value> inputs, const std::string& name,
                             const Body& body);
  Status import_scan(const NodeProto& n, std::vector<Value> inputs, const std::string& name,
                     const Body& body);
  Status emit_control(const OpDef& op, const NodeProto& n, std::span<const Value> inputs,
                      Attrs attrs, std::span<const Known> results, const Body& body);

  void missing(std::string what, std::string node) {
    state_.missing.push_back({std::move(what), std::move(node)});
  }

  const ModelProto& model_;
  TensorReader& tensors_;
  const OnnxImportOptions& options_;
  Graph graph_;
  Builder b_;
  ImportState state_;
  std::unordered_set<std::string> names_;  // of inputs, constants, states and node values
  // Of a body: where it stands, what it takes from there, and what its outputs are.
  Importer* outer_ = nullptr;
  Scope* outer_scope_ = nullptr;
  std::vector<Value> captured_;
  std::vector<Known> results_;
  size_t imported_ = 0;
  std::deque<std::string> made_names_;  // of what is written in another way than the file does
};

}  // namespace hone::onnx
