// SPDX-License-Identifier: Apache-2.0
// What stands behind hone::Tensor: storage with a version, recorded values and operations, and the
// engine of each thread.
#pragma once

#include <string>
#include <vector>

#include "core/runtime/gradient_needs.hpp"
#include "core/runtime/node_runner.hpp"
#include "hone/eager.hpp"
#include "hone/op.hpp"
#include "hone/tensor.hpp"

namespace hone::detail {

class Tracer;

/// The bytes of one tensor. A write in place advances the version; whoever saved an earlier one can
/// tell.
struct Storage {
  TensorData data;
  int64_t version = 0;
  std::string writer;  ///< The last write in place: "add_ #9 at train.cpp:42".
};

/// What a recorded operation keeps of one operand. Shared with the tensor, so that nothing is
/// copied.
struct Saved {
  std::shared_ptr<Storage> storage;  ///< Null when the gradient does not read it.
  int64_t version = 0;
};

struct TapeNode;

/// A value of the record: a leaf, or an output of a recorded operation. Recorded operations hold
/// the values they used, so what belongs to a value (its gradient, its hooks) outlives the handle
/// it was given through.
struct Var {
  TensorType type;
  bool requires_grad = false;
  bool retain_grad = false;
  std::shared_ptr<TapeNode> producer;  // shared: several values may come from it
  int output_index = 0;
  Tensor grad;
  std::vector<std::pair<int64_t, GradientHook>> hooks;
  std::string name;
};

/// A recorded operation. It knows its inputs; nothing in the record points forward, so it is freed
/// with the last tensor made from it.
struct TapeNode {
  const OpDef* op = nullptr;
  Attrs attrs;
  std::vector<std::shared_ptr<Var>> inputs;  ///< Null where an optional input is left out.
  std::vector<TensorType> output_types;
  std::vector<Saved> saved_inputs, saved_outputs;
  std::string name;
  uint64_t number = 0;  ///< Greater than those of the operations it depends on.
  int64_t region =
      0;  ///< Of a checkpointed region, above 0: only what comes from outside is saved.
  bool freed = false;

  TapeNode();
  ~TapeNode();
};

struct TensorImpl {
  std::shared_ptr<Var> var;
  std::shared_ptr<Storage> storage;  ///< Null for an error.
  Status status;

  TensorImpl();
  ~TensorImpl();
};

/// "mul #12 'block.0'".
std::string label(const TapeNode& node);

/// What a thread needs to run operations at once.
struct EagerState {
  bool record = true;   ///< False under NoGrad.
  std::string scope;    ///< Name scope.
  int64_t region = 0;   ///< The checkpointed region we are in; 0: none.
  int64_t regions = 0;  ///< How many there have been.
  uint64_t number = 0;  ///< Of the last operation.
  int depth = 0;        ///< How many decompositions deep we are; operations of the user stand at 0.
  Tracer* tracer = nullptr;  ///< Set while tracing.
  std::vector<const std::function<void(const OpEvent&)>*> observers;
  std::unique_ptr<ThreadPool> own_pool;
  std::unique_ptr<NodeRunner> runner;
  GradientNeedsCache gradient_needs;

  NodeRunner& runs();
};
EagerState& eager();

/// Sets a variable until the end of the scope.
template <class T>
class Restore {
 public:
  Restore(T& variable, T value) : variable_(variable), before_(std::move(variable)) {
    variable_ = std::move(value);
  }
  ~Restore() { variable_ = std::move(before_); }
  Restore(const Restore&) = delete;
  Restore& operator=(const Restore&) = delete;

 private:
  T& variable_;
  T before_;
};

Tensor make_tensor(TensorData data);
Tensor make_tensor(Result<TensorData> data);
/// The error of `t` named as an operand, or ok.
Status operand_status(std::string_view op, int index, const Tensor& t);

/// Writes the values of `result`, of the same type, into `t`. `op` and `where` are for messages.
/// The record of `result` becomes that of `t`.
Tensor& write_in_place(Tensor& t, Tensor result, std::string_view op, Place where);

}  // namespace hone::detail
