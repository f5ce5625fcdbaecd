// SPDX-License-Identifier: Apache-2.0
// What an import rule sees of one ONNX node, and the tables that rules stand in.
#pragma once

#include <initializer_list>
#include <optional>

#include "core/import/onnx_proto.hpp"
#include "core/import/rule_problems.hpp"
#include "hone/onnx.hpp"
#include "hone/op_attrs.hpp"
#include "hone/op_table.hpp"

namespace hone::onnx {

struct ImportRule;

/// What is known of a value before shapes are concrete.
struct Known {
  DType dtype = DType::f32;
  int rank = -1;  ///< -1: not known.
};

/// Something in the file that Hone lacks. All of them are gathered into one error.
struct Missing {
  std::string what;  ///< "LSTM-14", "MaxPool-12 with its second output".
  std::string node;
};

/// What all rules of one import share.
struct ImportState {
  Builder& b;
  TensorReader& tensors;
  const OnnxImportOptions& options;
  std::vector<Known> said;  ///< By value id, for values that have no type.
  std::vector<Missing> missing;
  std::vector<NarrowType> narrow;  ///< By value id.

  Known known(Value v) const;
  void set_known(Value v, Known what);
  /// What narrow integers a value holds.
  NarrowType narrow_of(Value v) const;
  void set_narrow(Value v, NarrowType what);
};

/// One node of the file. Rules read inputs and attributes, emit through `b` and set each output.
/// Errors stick: a rule may go on after one, what it emits is dropped.
class ImportCtx : public RuleProblems<ImportCtx> {
 public:
  /// `wanted` tells for each output whether anything reads it.
  ImportCtx(ImportState& state, const ImportRule& rule, const NodeProto& node, int64_t opset,
            std::vector<Value> inputs, std::vector<bool> wanted);

  Builder& b;
  const ImportRule& rule;
  const OnnxImportOptions& options;
  const int64_t opset;  ///< Version of the operator's domain that the model asks for.

  // ---- inputs
  int size() const { return static_cast<int>(inputs_.size()); }
  bool has(int i) const { return i < size() && inputs_[static_cast<size_t>(i)].valid(); }
  /// Input i; an invalid Value when it is left out. A rule that needs it says so with `require`.
  Value in(int i) const { return has(i) ? inputs_[static_cast<size_t>(i)] : Value(); }
  std::span<const Value> inputs() const { return inputs_; }
  Known known(int i) const;
  DType dtype(int i) const { return known(i).dtype; }
  int rank(int i) const { return known(i).rank; }
  NarrowType narrow(int i) const { return has(i) ? state_.narrow_of(in(i)) : NarrowType::none; }
  /// dtype of input 0 and the rank all inputs broadcast to.
  Known broadcast() const;
  /// The content of input i when it is constant, else null.
  const TensorData* constant(int i) const { return b.constant_data(in(i)); }
  /// An integer constant's elements.
  std::optional<std::vector<int64_t>> ints(int i) const;
  /// A constant's only element.
  std::optional<double> number(int i) const;

  // ---- attributes; one of another type than asked for is an error
  const AttributeProto* attribute(std::string_view name, AttributeType type);
  bool has_attr(std::string_view name) const;
  int64_t attr(std::string_view name, int64_t fallback);
  double attr(std::string_view name, double fallback);
  std::string_view attr(std::string_view name, std::string_view fallback);
  bool flag(std::string_view name, bool fallback = false) {
    return attr(name, int64_t{fallback}) != 0;
  }
  std::vector<int64_t> attr_ints(std::string_view name);
  std::vector<double> attr_numbers(std::string_view name);
  /// The position of the attribute's text in `names`, or of `fallback` when it is absent;
  /// unsupported when it is none of them.
  template <class E>
  E attr_enum(std::string_view name, std::initializer_list<std::string_view> names, E fallback) {
    return static_cast<E>(attr_choice(name, names, static_cast<int>(fallback)));
  }
  /// Says that the attribute has no influence here.
  void ignore(std::string_view name);

  // ---- outputs
  int outputs() const { return static_cast<int>(node_.outputs.size()); }
  /// Whether anything reads output k.
  bool wants(int k) const { return k < outputs() && wanted_[static_cast<size_t>(k)]; }
  void set(int k, Value v, Known known);
  /// An output of the dtype and rank of input 0.
  void set(int k, Value v) { set(k, v, known(0)); }
  /// Says that output k, which is set, holds narrow integers.
  void set_narrow(int k, NarrowType what) {
    if (k < outputs() && out(k).valid()) state_.set_narrow(out(k), what);
  }

  // ---- emission
  Value emit(const OpDef& op, std::initializer_list<Value> in, Attrs attrs = {}) {
    return b.emit(op, in, std::move(attrs));
  }
  /// Extents of a value as i64: a constant when they are known.
  Value shape_of(Value v, const ShapeOfAttrs& attrs = {});
  /// Reshapes to the extents in `shape`; an attribute when they are known.
  Value reshape(Value v, Value shape, bool allow_zero);
  Value scalar(double v, DType dtype) { return b.scalar(v, dtype); }
  Value ints_value(std::initializer_list<int64_t> v) {
    return b.ints(std::span<const int64_t>(v.begin(), v.size()));
  }
  Result<TensorData> tensor(const TensorProto& t, NarrowElements how = NarrowElements::refuse) {
    return state_.tensors.read(t, how);
  }

  // ---- for the importer
  Value out(int k) const { return outs_[static_cast<size_t>(k)]; }
  /// The name of an attribute that the rule did not look at, or "".
  std::string_view unread_attribute() const;

 private:
  int attr_choice(std::string_view name, std::initializer_list<std::string_view> names,
                  int fallback);

  ImportState& state_;
  const NodeProto& node_;
  std::vector<Value> inputs_;
  std::vector<bool> wanted_;
  std::vector<Value> outs_;
  std::vector<bool> read_;
};

/// How one operator of ONNX, from one version on, is said with Hone's. The rule with the highest
/// `since` not above the model's opset applies; an operator's older versions that mean something
/// else have rules of their own.
struct ImportRule {
  std::string_view op_type;
  int since = 1;
  void (*import)(ImportCtx&) = nullptr;
  const OpDef* op = nullptr;  ///< For rules that serve several operators.
  std::string_view domain = {};
};

/// Emits rule.op with the node's inputs. The output is as broadcasting makes it, or bool of that
/// rank.
void import_same(ImportCtx& c);
void import_comparison(ImportCtx& c);

/// Reads the attribute `pads`: what is added before each spatial axis, then what is added after.
void read_pads(ImportCtx& c, std::vector<int64_t>& before, std::vector<int64_t>& after);

/// Reads what all pooling operators have: kernel_shape (an error when missing), strides, dilations,
/// pads or auto_pad, ceil_mode.
PoolAttrs read_pool(ImportCtx& c);

/// The decimal number of fewest digits that is `f` in single precision: 0.9f gives 0.9, as whoever
/// wrote the attribute meant it.
double as_written(float f);

/// `axis` counted from the front when the rank is known, else as it is.
int64_t front_axis(int64_t axis, int rank);

}  // namespace hone::onnx
