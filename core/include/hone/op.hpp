// SPDX-License-Identifier: Apache-2.0
// The definition of an operator: attributes, shape rule, decomposition, gradient and reference
// kernel in one place.
#pragma once

#include <array>

#include "hone/builder.hpp"
#include "hone/graph.hpp"

namespace hone {

class ThreadPool;

/// Types and attributes of one node, for rules that need no graph. Absent optional inputs are null.
struct NodeTypes {
  std::span<const TensorType* const> in;
  std::span<const TensorType* const> out;
  const Attrs& attrs;
};

/// What a shape rule sees and sets. `who` prefixes its messages.
class InferCtx {
 public:
  InferCtx(std::string who, std::vector<const TensorType*> in,
           std::vector<const TensorData*> constants, const Attrs& attrs)
      : who_(std::move(who)), in_(std::move(in)), constants_(std::move(constants)), attrs_(attrs) {}

  int size() const { return static_cast<int>(in_.size()); }
  bool has(int i) const { return i < size() && in_[static_cast<size_t>(i)] != nullptr; }
  const TensorType& in(int i) const { return *in_[static_cast<size_t>(i)]; }
  const Shape& shape(int i) const { return in(i).shape; }
  DType dtype(int i) const { return in(i).dtype; }
  template <class A>
  const A& attrs() const {
    return attrs_.as<A>();
  }
  const Attrs& raw_attrs() const { return attrs_; }
  /// The content of input i when it is constant, else null.
  const TensorData* constant(int i) const {
    const TensorData* data = has(i) ? constants_[static_cast<size_t>(i)] : nullptr;
    if (has(i) && !data && i < 64) missed_ |= uint64_t{1} << i;
    return data;
  }
  /// The inputs (as bits) whose content was asked for and is not known.
  uint64_t missed() const { return missed_; }

  void out(TensorType type) { outs.push_back(type); }
  void out(DType dtype, const Shape& shape) { outs.push_back({dtype, shape}); }
  /// An invalid_argument status whose message starts with the operator and node name.
  template <class... A>
  Status error(std::string_view fmt, const A&... args) const {
    return invalid("{}: {}", who_, format(fmt, args...));
  }
  const std::string& who() const { return who_; }

  std::vector<TensorType> outs;

 private:
  std::string who_;
  std::vector<const TensorType*> in_;
  std::vector<const TensorData*> constants_;
  const Attrs& attrs_;
  mutable uint64_t missed_ = 0;
};

/// What a decomposition sees: it emits nodes through `b` and sets each output.
class DecomposeCtx {
 public:
  DecomposeCtx(Builder& builder, std::span<const ValueId> in, const Attrs& attrs, size_t outputs,
               std::string who)
      : b(builder), in_(in), attrs_(attrs), outs(outputs), who_(std::move(who)) {}

  Builder& b;
  int size() const { return static_cast<int>(in_.size()); }
  bool has(int i) const { return i < size() && in_[static_cast<size_t>(i)] != kNone; }
  /// Input i; an invalid Value when it is left out.
  Value in(int i) const { return has(i) ? Value(&b, in_[static_cast<size_t>(i)]) : Value(); }
  const TensorType& type(int i) const { return in(i).type(); }
  const Shape& shape(int i) const { return in(i).type().shape; }
  template <class A>
  const A& attrs() const {
    return attrs_.as<A>();
  }
  const Attrs& raw_attrs() const { return attrs_; }
  /// The content of input i when it is constant, else null.
  const TensorData* constant(int i) const;
  void set(int output, Value v) { outs[static_cast<size_t>(output)] = v; }
  void fail(std::string_view message) { b.fail(invalid("{}: {}", who_, message)); }
  const std::string& who() const { return who_; }

 private:
  std::span<const ValueId> in_;
  const Attrs& attrs_;

 public:
  std::vector<Value> outs;

 private:
  std::string who_;
};

/// What a gradient rule sees: it emits nodes and sets the gradient of each input that needs one. It
/// handles neither broadcasting nor accumulation nor dtype; the engine does.
class GradCtx {
 public:
  GradCtx(Builder& builder, const Node& node, std::vector<Value> out_grads,
          std::vector<bool> needs);

  Builder& b;
  bool has(int i) const {
    return i < static_cast<int>(inputs_.size()) && inputs_[static_cast<size_t>(i)] != kNone;
  }
  Value in(int i) const { return has(i) ? Value(&b, inputs_[static_cast<size_t>(i)]) : Value(); }
  Value out(int i) const { return Value(&b, outputs_[static_cast<size_t>(i)]); }
  const Shape& shape(int i) const { return in(i).type().shape; }
  /// Gradient arriving at output i; zeros when nothing arrives there.
  Value out_grad(int i);
  bool has_out_grad(int i) const { return out_grads_[static_cast<size_t>(i)].valid(); }
  /// Whether the gradient of input i is wanted; setting one that is not does no harm but wastes
  /// nodes.
  bool needs(int i) const {
    return i < static_cast<int>(needs_.size()) && needs_[static_cast<size_t>(i)];
  }
  template <class A>
  const A& attrs() const {
    return attrs_.as<A>();
  }
  const Attrs& raw_attrs() const { return attrs_; }
  void set(int input, Value grad) { in_grads[static_cast<size_t>(input)] = grad; }

  std::vector<Value> in_grads;

 private:
  std::vector<ValueId> inputs_, outputs_;  // copies: emitting nodes moves the originals
  Attrs attrs_;
  std::vector<Value> out_grads_;
  std::vector<bool> needs_;
};

/// What `training` sees: a decomposition that may also use randomness and update states.
class TrainingCtx : public DecomposeCtx {
 public:
  using DecomposeCtx::DecomposeCtx;
  /// Seed and counter, i64[2]; made on first use, its counter advanced once a step.
  Value rng();
  /// A number that no other random node of this graph has.
  int64_t next_stream();
  /// After the step, the state behind input i becomes `next` (ignored unless input i is a state).
  void update(int input, Value next);
};

/// What a kernel sees. Inputs and outputs are contiguous; absent optional inputs have null data.
/// Shapes have been checked; only the data can still be wrong (an index out of range).
struct KernelArgs {
  std::span<const ConstTensorView> in;
  std::span<const TensorView> out;
  const Attrs& attrs;
  std::byte* scratch;  ///< As many bytes as the definition's `scratch` said, aligned to kAlignment.
  ThreadPool& pool;

  bool has(int i) const {
    return i < static_cast<int>(in.size()) && in[static_cast<size_t>(i)].data != nullptr;
  }
  const Shape& shape(int i) const { return in[static_cast<size_t>(i)].type.shape; }
  template <class T>
  const T* input(int i) const {
    return in[static_cast<size_t>(i)].as<T>();
  }
  template <class T>
  T* output(int i) const {
    return out[static_cast<size_t>(i)].as<T>();
  }
};

/// What is known of an operator's gradient.
enum class Diff : uint8_t {
  missing,           ///< Nobody wrote it: differentiating through it is an error.
  rule,              ///< `grad` has it.
  zero,              ///< It is zero, or the output is not differentiable, and we say so.
  by_decomposition,  ///< Differentiate what `decompose` emits.
};

/// Which inputs an output may share its bytes with, when nothing reads that input afterwards.
enum class Inplace : uint8_t {
  none,
  any_input,  ///< Output 0 with any input of equal type: kernels read element i before they write
              ///< element i.
  pairwise,   ///< Output k with input k: state updates.
};

inline constexpr int kAnyNumber = 1 << 20;

#if HONE_LEAVES_OUT_GRADIENTS
/// In place of a pointer to a rule, within builds that leave gradients out: what it is given it
/// forgets, so that nothing of it is linked.
struct ForgottenRule {
  template <class Rule>
  constexpr ForgottenRule(const Rule&) {}
  void* pointer = nullptr;
};
using GradRule = ForgottenRule;
using TrainingRule = ForgottenRule;
#else
using GradRule = void (*)(GradCtx&);
using TrainingRule = void (*)(TrainingCtx&);
#endif

/// One operator. Definitions are constants; `hone/op_table.hpp` lists them.
struct OpDef {
  std::string_view name;
  const AttrSchema* attrs = &kAttrSchema<NoAttrs>;
  int min_inputs = 1, max_inputs = 1;
  int version = 1;  ///< Raised when the meaning changes; files store it.

  /// Computes output types; all checks of shapes, dtypes and attributes happen here.
  Status (*infer)(InferCtx&) = nullptr;
  /// Writes the operator with others. An operator without a kernel is always decomposed when a
  /// graph is specialised.
  void (*decompose)(DecomposeCtx&) = nullptr;
  Diff diff = Diff::missing;
  GradRule grad = nullptr;
  /// The reference kernel, for every dtype that `infer` lets through.
  Status (*kernel)(const KernelArgs&) = nullptr;
  /// Scratch bytes the kernel needs.
  int64_t (*scratch)(const NodeTypes&) = nullptr;
  /// Floating-point operations of one run; by default one for each output element.
  double (*flops)(const NodeTypes&) = nullptr;
  /// What it becomes in a training graph (dropout, batch norm). Null: the same as in inference.
  TrainingRule training = nullptr;

  bool broadcasts =
      false;  ///< Inputs broadcast to the output's shape: gradients are summed back by the engine.
  bool has_bodies = false;  ///< Unfolded when a graph is specialised (hone/control.hpp).
  bool is_view = false;  ///< Output 0 has the bytes of input 0 under another shape: never copied.
  Inplace inplace = Inplace::none;
};

/// Errors: unsupported in a build with HONE_OPERATORS that leaves the operator out.
Status check_built(const OpDef& op, std::string_view node_name);

/// Whether as many inputs were given (null: left out) as the operator takes. Errors:
/// invalid_argument.
Status check_arity(const OpDef& op, std::string_view node_name,
                   std::span<const TensorType* const> in);

/// Output types of one node. `missed` is told which inputs (as bits) the rule asked the content of
/// in vain. Errors: as the operator's `infer`, and invalid_argument when the arity or a size is
/// impossible.
Result<std::vector<TensorType>> infer(const OpDef& op, std::string_view node_name,
                                      std::vector<const TensorType*> in,
                                      std::vector<const TensorData*> constants, const Attrs& attrs,
                                      uint64_t* missed = nullptr);

/// Runs the reference kernel of one node into freshly allocated outputs (folding, eager code,
/// tests).
Result<std::vector<TensorData>> run_reference(const OpDef& op, const Attrs& attrs,
                                              std::span<const TensorData> inputs,
                                              std::span<const TensorType> out_types,
                                              ThreadPool& pool);

}  // namespace hone
