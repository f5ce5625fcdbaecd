// SPDX-License-Identifier: Apache-2.0
// What surrounds define-by-run code: scopes, observers, derivatives of chosen inputs, and the
// engine's options.
//
// All scopes here act on the thread that opens them and close in reverse order.
#pragma once

#include "hone/op_table.hpp"
#include "hone/tensor.hpp"
#include "hone/thread_pool.hpp"

namespace hone {

/// While one lives, operations are not recorded.
class NoGrad {
 public:
  NoGrad();
  ~NoGrad();
  NoGrad(const NoGrad&) = delete;
  NoGrad& operator=(const NoGrad&) = delete;

 private:
  bool before_;
};

/// What a scope's operations keep for the gradient.
enum class Keep : uint8_t {
  all,   ///< What their gradients read.
  ends,  ///< What goes into the scope and comes out of it; see `checkpoint`.
};

/// While one lives, operations carry its name, below the names of the scopes around it:
/// "encoder.0". An empty name adds nothing.
class NameScope {
 public:
  explicit NameScope(std::string_view name, Keep keep = Keep::all);
  ~NameScope();
  NameScope(const NameScope&) = delete;
  NameScope& operator=(const NameScope&) = delete;

 private:
  size_t before_;
  int64_t region_before_;
};

/// Runs `region` as a checkpointed region and returns what it returns. What lies inside is not kept
/// for the gradient: the backward pass computes it again from what went in, with the same kernels
/// on the same bytes (random numbers too), so that gradients are the same to the bit. Running
/// statistics move once. A trace keeps the mark, and plans of a training step honour it. A region
/// inside another belongs to it.
template <class F>
auto checkpoint(F&& region) {
  const NameScope scope({}, Keep::ends);
  return region();
}

/// Whether this thread is inside a trace(): operators that differ between training and inference
/// are recorded, not chosen.
bool is_tracing();

/// One operation that has run.
struct OpEvent {
  std::string_view op;    ///< "matmul"
  std::string_view name;  ///< The name scope, "encoder.0"; gradients end in "/grad". May be empty.
  uint64_t number = 0;    ///< Counts the operations of a thread.
  std::span<const Tensor> inputs;
  std::span<const Tensor> outputs;
};

/// While one lives, `see` is called after every operation, forward and backward, also those an
/// operator is made of: to print statistics or to find the first NaN. Operations inside `see` are
/// neither recorded nor observed.
class Observer {
 public:
  explicit Observer(std::function<void(const OpEvent&)> see);
  ~Observer();
  Observer(const Observer&) = delete;
  Observer& operator=(const Observer&) = delete;

 private:
  std::function<void(const OpEvent&)> see_;
};

/// d(sum of outputs[k] * seeds[k]) / d(inputs[i]) for each i, without touching grad(). Outputs of
/// one element need no seed (one is taken). An input that has no influence gets zeros. With
/// Retain::gradient the results are recorded and can be differentiated again. Errors: as
/// Tensor::backward, and invalid_argument for an input that is not recorded.
Result<std::vector<Tensor>> grad(std::span<const Tensor> outputs, std::span<const Tensor> inputs,
                                 Retain retain = Retain::nothing,
                                 std::span<const Tensor> seeds = {});
/// The same for one output and one input; an error is carried by the result.
Tensor grad(const Tensor& output, const Tensor& input, Retain retain = Retain::nothing);

/// Runs any operator of the table and returns its first output. An optional input that is left out
/// is an undefined tensor.
Tensor apply(const OpDef& op, std::initializer_list<Tensor> inputs, Attrs attrs = {});
/// The same with all outputs. A failure is one tensor that carries it.
std::vector<Tensor> apply_all(const OpDef& op, std::span<const Tensor> inputs, Attrs attrs = {});

/// Runs and records what `formula` builds from values, so that a formula written for graphs
/// (hone::ops, hone::loss) serves tensors.
Tensor compose(std::span<const Tensor> inputs,
               const std::function<Value(std::span<const Value>)>& formula);

/// Runs a model graph node by node. `inputs` stand in the order of the graph's; `states` in the
/// order of its state values. Composite operators and shapes that depend on data are fine. Errors:
/// invalid_argument (number or type of inputs), as the operators.
Result<std::vector<Tensor>> interpret(const Graph& graph, std::span<const Tensor> inputs,
                                      std::span<const Tensor> states);

/// The engine of this thread runs its kernels on `pool`, which must outlive it, or alone (null, the
/// default).
void set_eager_pool(ThreadPool* pool);
/// The same with a pool of `threads` threads that the engine owns; 1 ends it.
void set_eager_threads(int threads);

/// Tensors and recorded operations of this thread that are alive: to find what is kept by mistake.
struct EagerCounts {
  int64_t tensors = 0, operations = 0;
};
EagerCounts eager_counts();

}  // namespace hone
