// SPDX-License-Identifier: Apache-2.0
// What an export rule sees of one node, and where it writes the ONNX for it.
#pragma once

#include <initializer_list>
#include <unordered_set>
#include <variant>

#include "core/import/onnx_proto.hpp"
#include "core/import/wire.hpp"
#include "core/passes/facts.hpp"
#include "hone/graph.hpp"
#include "hone/op_attrs.hpp"
#include "hone/op_table.hpp"

namespace hone::onnx {

/// An attribute to write. An empty vector is left out.
struct OutAttr {
  std::string_view name;
  std::variant<int64_t, double, std::string_view, std::vector<int64_t>, TensorData,
               std::vector<double>, std::vector<std::string_view>>
      value;
};

/// TensorProto of a tensor whose bytes stay where they are. Bytes in another file: see
/// `external_tensor_proto`.
wire::Writer tensor_proto(std::string_view name, const TensorData& t);
wire::Writer external_tensor_proto(std::string_view name, const TensorData& t,
                                   std::string_view location, uint64_t offset);

/// AttributeProto.
wire::Writer attribute_proto(const OutAttr& a);

/// Key of a node's metadata_props: the checkpointed region it lies in (Node::region).
inline constexpr std::string_view kRegionKey = "hone.region";

/// Everything written so far of one graph. Values have the names that ONNX will know them by.
struct ExportState {
  const Graph& graph;
  int opset = 17;                         ///< Being written.
  int needed = 17;                        ///< At least this opset is needed for what was written.
  std::vector<std::string> names;         ///< By value id.
  std::vector<DType> dtypes;              ///< By value id.
  std::vector<bool> read;                 ///< By value id: whether a node or an output reads it.
  std::unordered_set<std::string> taken;  ///< Names of values.
  std::unordered_set<std::string> node_names;  ///< ONNX Runtime wants them to differ.
  wire::Writer nodes;                          ///< GraphProto fields: the nodes,
  wire::Writer initializers;                   ///< and small constants that rules made.
  std::vector<std::string> missing;
  std::vector<std::string> body_constants;  ///< Names of floating-point constants in bodies.
  bool has_regions = false;                 ///< Whether a node written has metadata of its own.
  std::vector<Facts> facts;                 ///< By value id: what holds of shapes.

  /// A value's name that nobody has yet: `wish`, or `wish` with a number.
  std::string unique(std::string wish);
  std::string unique_node(std::string wish);
  /// Writes the NodeProto of `node`, or of a part of it, with its mark.
  void add_node(wire::Writer proto, const Node& node);
};

struct ExportRule;

class ExportCtx {
 public:
  ExportCtx(ExportState& state, const ExportRule& used_rule, const Node& of, std::string node_name)
      : rule(used_rule), node(of), opset(state.opset), state_(state), name_(std::move(node_name)) {}

  const ExportRule& rule;
  const Node& node;
  const int opset;

  int size() const { return static_cast<int>(node.inputs.size()); }
  bool has(int i) const { return i < size() && node.inputs[static_cast<size_t>(i)] != kNone; }
  /// Name of input i; "" when it is left out.
  std::string in(int i) const {
    return has(i) ? state_.names[static_cast<size_t>(id(i))] : std::string();
  }
  std::vector<std::string> inputs() const;
  DType dtype(int i) const { return state_.dtypes[static_cast<size_t>(id(i))]; }
  const ValueInfo& input_info(int i) const { return state_.graph.value(id(i)); }
  const Facts& facts(int i) const { return state_.facts[static_cast<size_t>(id(i))]; }
  /// Rank of input i, or -1 when it is not known.
  int rank(int i) const;
  std::string out(int k = 0) const {
    return state_.names[static_cast<size_t>(node.outputs[static_cast<size_t>(k)])];
  }
  /// Outputs up to the last one that anything reads; at least one.
  int outputs() const;
  template <class A>
  const A& attrs() const {
    return node.attrs.as<A>();
  }

  /// Says that the operators written need at least this opset.
  void need(int at_least) { state_.needed = std::max(state_.needed, at_least); }
  void unsupported(std::string_view why);

  /// Writes a node whose outputs are those of this one.
  void write(std::string_view op_type, std::vector<std::string> inputs,
             std::vector<OutAttr> attrs = {});
  /// The same for an operator that has `skipped` outputs before those of this node.
  void write_after(std::string_view op_type, std::vector<std::string> inputs,
                   std::vector<OutAttr> attrs, int skipped);
  /// Writes a node that this one is put together from; returns the name of its output.
  std::string part(std::string_view op_type, std::vector<std::string> inputs,
                   std::vector<OutAttr> attrs = {});
  /// The name of a new constant: a vector of integers, a number, a tensor.
  std::string ints(std::span<const int64_t> v);
  std::string ints(std::initializer_list<int64_t> v) {
    return ints(std::span<const int64_t>(v.begin(), v.size()));
  }
  std::string number(double v, DType dtype);
  std::string tensor(const TensorData& t);

 private:
  ValueId id(int i) const { return node.inputs[static_cast<size_t>(i)]; }
  void emit(std::string_view op_type, std::span<const std::string> inputs,
            std::span<const std::string> outputs, std::span<const OutAttr> attrs);

  ExportState& state_;
  std::string name_;
  int parts_ = 0;
};

/// Which dtype the outputs have.
enum class OutType : uint8_t {
  first,  ///< That of the first input, ...
  second,
  third,
  eighth,
  boolean,
  index,            ///< i64
  first_and_mask,   ///< Output 0 has that of the first input, output 1 is a bool.
  first_and_index,  ///< Output 0 has that of the first input, output 1 is an index.
  i32,
  attribute,           ///< The one that an attribute names.
  third_or_attribute,  ///< That of the third input, without one that of the attribute.
  u8_and_scale,        ///< u8, but f32 for output 1.
};

/// How one of Hone's operators is said in ONNX.
struct ExportRule {
  const OpDef* op;
  std::string_view
      op_type;  ///< The node to write when `write` is null: same inputs, no attributes.
  void (*write)(ExportCtx&) = nullptr;
  OutType out = OutType::first;
};

/// Adds auto_pad, or pads: what is added before each spatial axis, then what is added after.
void add_pads(std::vector<OutAttr>& attrs, AutoPad auto_pad, std::span<const int64_t> before,
              std::span<const int64_t> after);

}  // namespace hone::onnx
