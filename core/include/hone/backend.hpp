// SPDX-License-Identifier: Apache-2.0
// The contract between core and a backend: claim nodes, turn regions of them into steps; core plans
// every byte.
//
//  1. A backend says which nodes of a specialised graph it can run (`claims`). Claimed neighbours
//  in the schedule form a region.
//  2. `lower` turns a region into steps. A step is a prepared kernel with explicit operands:
//  buffers it reads and writes.
//  3. Every byte that flows between steps, in whatever physical layout, is a buffer made through
//  `Lowering`; so is scratch. A
//     backend keeps no memory of its own that grows with tensor sizes.
//  4. `Kernel::run` allocates nothing, takes no lock, prints nothing. It may fail only for what the
//  data can do wrong.
#pragma once

#include <functional>
#include <memory>

#include "hone/op_attrs.hpp"
#include "hone/op_table.hpp"
#include "hone/specialise.hpp"
#include "hone/thread_pool.hpp"

namespace hone {

using BufferId = int32_t;

/// Operands of one run, in the order the step declared: reads, then writes.
struct StepArgs {
  std::span<void* const> operands;
  std::byte* scratch;  ///< scratch_bytes of it, aligned to kAlignment.
  ThreadPool& pool;

  template <class T>
  const T* in(size_t i) const {
    return static_cast<const T*>(operands[i]);
  }
  template <class T>
  T* out(size_t i) const {
    return static_cast<T*>(operands[i]);
  }
};

/// A prepared kernel. One object belongs to one program; runs of one program do not overlap. Equal
/// reads give equal writes: a step may be run again, into other buffers.
class Kernel {
 public:
  virtual ~Kernel() = default;
  virtual Status run(const StepArgs& args) = 0;
};

/// A write that may use the bytes of a read, by their indices in Step::reads and Step::writes.
struct MayShare {
  int32_t write = 0, read = 0;
};

struct Step {
  std::shared_ptr<Kernel> kernel;  ///< Shared by the runs of a step that is computed again.
  std::vector<BufferId>
      reads;  ///< kNone where an optional operand is left out: its pointer is null.
  std::vector<BufferId> writes;
  int64_t scratch_bytes = 0;
  std::vector<MayShare> may_share;
  NodeId node = kNone;  ///< The node (or the last of those) it carries out: for names and profiles.
  std::string_view kind;  ///< "onednn.conv", "reference.add": static storage.
  double flops = 0;
};

/// Fills `to` from the bytes of constants or states.
using PackFn = std::function<Status(std::span<const void* const> from, void* to)>;

/// What `lower` works with.
class Lowering {
 public:
  virtual ~Lowering() = default;
  virtual const Graph& graph() const = 0;
  /// Threads that will run the steps.
  virtual int threads() const = 0;
  /// How many parts to cut work into where the cut decides how numbers are rounded: `threads`, or
  /// another number that is always the same (SessionOptions::deterministic).
  virtual int parts() const { return threads(); }
  /// The buffer of a value in plain row-major layout.
  virtual BufferId of(ValueId v) = 0;
  /// A buffer that lives from its first writing to its last reading step.
  virtual BufferId temporary(int64_t bytes) = 0;
  /// A buffer filled once when the program is prepared, and again whenever a source changes from
  /// outside. Sources are fixed.
  virtual BufferId packed(std::span<const ValueId> sources, int64_t bytes, PackFn pack) = 0;
  /// Whether copies of weights in a kernel's own layout are welcome; when memory is short they are
  /// not. What is computed must be the same bits either way.
  virtual bool packs() const = 0;
  /// Whether the content of `v` is fixed while this program runs: constants, and states it does not
  /// update.
  virtual bool is_fixed(ValueId v) const = 0;
  /// How many nodes and outputs read `v`.
  virtual int uses(ValueId v) const = 0;
  virtual void add(Step step) = 0;
  /// Adds a step that runs the operator's reference kernel on row-major buffers. Errors:
  /// unsupported (an operator without a kernel).
  virtual Status add_reference(NodeId node) = 0;
};

/// A backend. Objects hold no mutable state and serve many sessions and threads at once.
class Backend {
 public:
  virtual ~Backend() = default;
  virtual std::string_view name() const = 0;
  /// Whether the operator, which has a kernel and a decomposition, had better be decomposed before
  /// the graph comes to this backend. In training it would be differentiated too.
  virtual bool writes_out(const OpDef&, std::span<const TensorType* const> /*in*/, const Attrs&,
                          Mode) const {
    return false;
  }
  virtual bool claims(const Graph& g, NodeId node) const = 0;
  /// Lowers `region`: claimed nodes, adjacent in the schedule and in order.
  virtual Status lower(Lowering& to, std::span<const NodeId> region) const = 0;
};

/// The backend that sessions and trainers use unless told otherwise: what this library was built
/// with. Lives forever.
const Backend& default_backend();

}  // namespace hone
