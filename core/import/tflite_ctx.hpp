// SPDX-License-Identifier: Apache-2.0
// What an import rule sees of one TensorFlow Lite operator, and the tables that rules stand in.
//
// TensorFlow Lite holds images as (N, H, W, C), Hone as (N, C, H, W). A tensor of four axes may
// exist in either layout or in both: a rule that computes on images asks for `channels_first` and
// sets its output so, element-wise rules go along with what is at hand, everything else asks for
// `in`. Only where the two meet is there a transpose.
#pragma once

#include <initializer_list>
#include <map>
#include <optional>

#include "core/import/onnx_weights.hpp"
#include "core/import/rule_problems.hpp"
#include "core/import/tflite_file.hpp"
#include "hone/op_attrs.hpp"
#include "hone/op_table.hpp"
#include "hone/tflite.hpp"

namespace hone::tflite {

using onnx::Weight;
using schema::Activation;
using schema::Builtin;

struct ImportRule;

/// A tensor of the file as values of the graph. Where whole numbers stand for real ones these are
/// real, and such that they are stored without loss.
struct Held {
  Value plain;           ///< As the file has it.
  Value channels_first;  ///< (N, C, H, W) of a tensor that is (N, H, W, C) in the file.
  Value moved;           ///< A weight with its axes in the order `perm`.
  std::vector<int64_t> perm;
  Value stored;  ///< The whole numbers themselves, of a constant or an input of the model.
};

/// What all rules of one import share.
struct ImportState {
  ImportState(File& from, Builder& builder)
      : file(from),
        b(builder),
        held(static_cast<size_t>(from.tensors())),
        source(held.size(), -1),
        weights(held.size(), Weight::constant) {}

  File& file;
  Builder& b;
  std::vector<Held> held;       ///< By tensor.
  std::vector<int> source;      ///< The tensor whose data a constant tensor has, else -1.
  std::vector<Weight> weights;  ///< What a constant tensor is.

  /// How the numbers of a tensor are stored, those of a constant where its data lies.
  std::optional<Quantization> quantization(int tensor) const;
  /// The data of a constant tensor; float16 becomes float32.
  Result<TensorData> data(int tensor);
  /// A constant tensor's numbers as they are stored, its axes in the order `perm`.
  Result<TensorData> stored(int tensor, std::span<const int64_t> perm);
  /// A constant tensor with its axes in the order `perm` (none: as they are), as a value.
  Result<Value> add_constant(int tensor, std::span<const int64_t> perm);
  /// Real numbers of `stored`, and back. Axis `axis` has the scales, where there are several.
  Value dequantize(Value stored, const Quantization& q, int64_t axis = 0);
  Value quantize(Value real, const Quantization& q, int64_t axis = 0);
  /// Constant numbers that are stored so: a constant that is dequantized where it is read, or, if
  /// it is to be learned, a parameter of floats.
  Result<Value> add_quantized(int tensor, TensorData t, const Quantization& q, int64_t axis);
  /// A weight. Those of a body are the outermost graph's, so that they train; the body gets them as
  /// further inputs.
  Value add_weight(TensorData t, Weight kind, std::string_view name);
  /// A name for the value of a tensor that no other value has.
  std::string unique_name(int tensor);
  std::string unique_name(std::string_view name);

  ImportState* host = nullptr;   ///< Of a graph that is imported into another's: that one's.
  ImportState* outer = nullptr;  ///< Of a body: where its operator stands.
  std::vector<Value> captured;   ///< Of a body: its weights, as values of `outer`.

 private:
  std::map<std::string, int, std::less<>> names_;
};

/// Operands of an element-wise operator, all in one layout.
struct Operands {
  std::vector<Value> values;
  bool channels_first = false;
};

/// One operator of the file. Rules read inputs and options, emit through `b` and set each output.
/// Errors stick: a rule may go on after one, what it emits is dropped.
class ImportCtx : public RuleProblems<ImportCtx> {
 public:
  ImportCtx(ImportState& state, const ImportRule& rule, const schema::Operator& o);

  Builder& b;
  const ImportRule& rule;

  // ---- inputs
  int size() const { return static_cast<int>(inputs_.size()); }
  bool has(int i) const { return i < size() && tensor(i) >= 0; }
  /// Input i as the file has it; an invalid Value when it is left out.
  Value in(int i);
  /// Input i, which has four axes, as (N, C, H, W).
  Value channels_first(int i);
  /// Whether input i has four axes and is at hand as (N, C, H, W) only.
  bool prefers_channels_first(int i) const;
  /// A weight with its axes in the order `perm`: transposed once and for all if it is constant.
  Value weight(int i, std::initializer_list<int64_t> perm);
  /// The bias, input i, of a product of inputs x and w. In int32 and int64 it is in units of
  /// scale(x) * scale(w), whatever the file says.
  Value bias(int i, int x, int w);
  /// Whether whole numbers stand for input i.
  bool is_quantized(int i) const { return quantization(i).has_value(); }
  /// The whole numbers that stand for input i.
  Value stored(int i);
  /// What input i is where its whole numbers are `stored`. Not for scales along an axis.
  Value real(int i, Value stored);
  /// Input i, which is whole numbers; a scale that the file may give it does not count.
  Value whole(int i) { return is_quantized(i) ? stored(i) : in(i); }
  DType whole_dtype(int i) const { return is_quantized(i) ? quantization(i)->dtype : dtype(i); }
  /// Whether input i is a constant that stays as it is stored, with one scale.
  bool is_stored_table(int i) const;
  /// All inputs from `first` on in one layout, fit for broadcasting against each other.
  Operands operands(int first = 0);
  DType dtype(int i) const;
  int rank(int i) const { return static_cast<int>(extents(i).size()); }
  /// -1 where not known.
  std::vector<int64_t> extents(int i) const;
  /// The elements of a constant of integers.
  std::optional<std::vector<int64_t>> ints(int i);
  /// The only element of a constant.
  std::optional<double> number(int i);
  /// As `ints` and `number`; `unsupported` when the input is computed.
  std::vector<int64_t> fixed_ints(int i, std::string_view what);
  int64_t fixed_int(int i, std::string_view what);
  /// Fails unless input i has `rank` axes.
  bool require_rank(int i, int rank);
  /// Input i as i64, for shapes and the like.
  Value indices(int i);

  /// The operator's options; null, and a failure, when there are none of that kind.
  template <class T>
  const T* options() {
    const T* o = op_.options_as<T>();
    if (!o) fail("its options are missing or of another kind");
    return o;
  }

  // ---- outputs
  int outputs() const { return static_cast<int>(outputs_.size()); }
  /// The element type that the file gives output k.
  DType out_dtype(int k) const;
  bool is_output_quantized(int k) const {
    return state_.file.quantization(outputs_[static_cast<size_t>(k)]).has_value();
  }
  /// Sets output k to what whole numbers of its type stand for.
  void set_stored(int k, Value whole);
  void set(int k, Value v);
  void set_channels_first(int k, Value v);
  void set(int k, Value v, bool channels_first) {
    channels_first ? set_channels_first(k, v) : set(k, v);
  }
  /// `v` through the activation that is fused into the operator.
  Value activate(Value v, Activation a);

  // ---- emission
  Value emit(const OpDef& op, std::initializer_list<Value> in, Attrs attrs = {}) {
    return b.emit(op, in, std::move(attrs));
  }
  Value cast(Value v, DType from, DType to);
  Value scalar_like(int i, double v) { return b.scalar(v, dtype(i)); }

 private:
  int tensor(int i) const { return inputs_[static_cast<size_t>(i)]; }
  Held& held(int i) const { return state_.held[static_cast<size_t>(tensor(i))]; }
  std::optional<Quantization> quantization(int i) const;
  bool reads_only(const Quantization& q) const;
  Value as_stored(int k, Value v);
  Value take(Result<Value> v);
  Value broadcast_channels_first(int i);

  ImportState& state_;
  const schema::Operator& op_;
  std::span<const int32_t> inputs_, outputs_;
  bool activated_ = false;
};

/// How the elements of an operator's outputs come about.
enum class Elements : uint8_t {
  computed,
  picked,  ///< Each is one of an input's, or 0: what is stored with one scale fits another time.
};

/// How one operator is said with Hone's.
struct ImportRule {
  Builtin code;
  void (*import)(ImportCtx&) = nullptr;
  const OpDef* op = nullptr;  ///< For rules that serve several operators.
  Elements elements = Elements::computed;
};

/// Which axis of (N, C, H, W) is `axis` of (N, H, W, C).
int64_t channels_first_axis(int64_t axis);

/// Which of the file's constants are learned: the rules are in README.md.
std::vector<Weight> classify_weights(ImportState& state, const OnnxImportOptions& options);

// The tables of rules, one for each family of operators (tflite_<family>.cpp).
#define HONE_TFLITE_FAMILIES(F) \
  F(blocks) F(elementwise) F(index) F(linear) F(movement) F(quantize) F(reduce) F(resize) F(shape)
#define HONE_TFLITE_FAMILY(name) std::span<const ImportRule> name##_imports();
HONE_TFLITE_FAMILIES(HONE_TFLITE_FAMILY)
#undef HONE_TFLITE_FAMILY

}  // namespace hone::tflite
