// SPDX-License-Identifier: Apache-2.0
// A program: a specialised graph lowered to steps over planned buffers.
#pragma once

#include <limits>
#include <set>
#include <string>

#include "core/plan/arena.hpp"
#include "hone/backend.hpp"
#include "hone/plan_detail.hpp"
#include "hone/stored_plan.hpp"

namespace hone {

/// Where a buffer's bytes are.
enum class BufferKind : uint8_t {
  arena,     ///< At `offset` in the arena while it lives.
  constant,  ///< In the graph's constant `value`.
  state,     ///< In the state store: state value `value`.
  input,     ///< Bound at each run: graph input number `index`.
  output,    ///< Bound at each run: graph output number `index`.
  packed,    ///< Prepared from a constant or state: entry `index` of Program::packs.
};

struct Buffer {
  BufferKind kind = BufferKind::arena;
  int64_t bytes = 0;
  ValueId value = kNone;  ///< The value it holds in plain layout, if any.
  int32_t index = 0;
  int32_t first = -1, last = -1;  ///< Steps that touch it.
  int64_t offset = 0;             ///< For arena buffers.
  BufferId shares = kNone;  ///< The buffer whose bytes this one takes over (in place), or kNone.
};

struct Pack {
  std::vector<ValueId> sources;
  int64_t bytes = 0;
  PackFn fill;
};

/// Steps and buffers as they were lowered: what another plan is made from.
struct Base {
  std::vector<Step> steps;
  std::vector<Buffer> buffers;
};

/// What meeting a memory limit took.
struct Repeats {
  int32_t runs = 0;       ///< Steps that are run again.
  double extra_time = 0;  ///< Their share of the estimated time of all steps without a limit.
};

struct Program {
  Graph graph;
  std::vector<Buffer> buffers;
  std::vector<Step> steps;
  std::vector<int64_t> scratch_offsets;  ///< For each step; -1 without scratch.
  std::vector<Pack> packs;
  ArenaPlan arena;
  Repeats repeats;
  int64_t packed_bytes = 0;
  int64_t window_bytes = 0;          ///< The most bytes of paged states that one step uses.
  bool gave_up_packing = false;      ///< Packed copies were welcome but did not fit.
  double flops = 0;                  ///< Of each step once.
  std::shared_ptr<const Base> base;  ///< With PrepareOptions::keep_base.
  uint64_t problem = 0;              ///< As StoredPlan; with hints only.
  int64_t room = 0;                  ///< As StoredPlan.
  std::vector<int32_t> runs;         ///< As StoredPlan.
  bool is_stored = false;            ///< Whether a stored plan was used.
};

/// Names of states whose content lies in a file: it counts only while a step uses it.
using PagedStates = std::set<std::string, std::less<>>;

/// What a paged state of so many bytes takes while it is used: whole pages.
constexpr int64_t paged_size(int64_t bytes) { return round_up(bytes, 4096) + 4096; }

/// What planning may use beside what it sees.
struct PlanHints {
  std::span<const StoredPlan> stored = {};
  /// Set: the plan is bettered for as long as this says.
  const std::function<bool()>* keep_going = nullptr;
  /// Without a limit: the share of all time that may go into steps run again to take less memory.
  double repeat_share = 0;
  bool any() const { return !stored.empty() || keep_going; }
};

struct PrepareOptions {
  const Backend* backend = nullptr;  ///< Null: reference kernels only.
  int threads = 1;
  int parts = 0;  ///< Lowering::parts; 0: one a thread.
  int64_t memory_limit =
      kNoLimit;  ///< Bytes of arena, packed weights and window; met by running steps again.
  const PagedStates* paged = nullptr;  ///< Null: none. Copied weights would undo it: none are made.
  bool keep_base = false;              ///< For `replan`.
  bool pack = true;       ///< Whether weights may be copied into a kernel's own layout.
  bool smallest = false;  ///< The smallest arena that can be found, in place of a limit.
  PlanHints hints = {};
};

/// Order in which the nodes run: the graph's own, with state updates moved up to where their inputs
/// are complete, so that gradients die early.
std::vector<NodeId> schedule(const Graph& g);

/// Schedules, lowers and plans. The graph must be specialised and dead code removed. Errors: as the
/// backend's lowering; unsupported (an operator without a kernel); out_of_memory (the limit cannot
/// be met).
Result<Program> prepare(Graph graph, const PrepareOptions& options);

/// Adds the second runs of what lies inside checkpointed regions (Node::region).
void repeat_marked(Program& program);

/// Gives the buffers of lowered steps their place in an arena of at most `room` bytes, running
/// steps again where that is needed. Errors: out_of_memory.
Status place(Program& program, int64_t room, const PlanHints& hints = {});

/// The same in the smallest arena that is found, whatever time it costs.
Status place_smallest(Program& program);

/// A program with a base, planned for another limit (as PrepareOptions::memory_limit). What does
/// not depend on the plan, graph and packs, is left out. Errors: out_of_memory.
Result<Program> replanned(const Program& program, int64_t limit, const PagedStates* paged = nullptr,
                          const PlanHints& hints = {});

/// The most bytes of paged states that one of the steps uses.
int64_t window_bytes(const Graph& g, std::span<const Step> steps, std::span<const Buffer> buffers,
                     const PagedStates* paged);

/// The plan as a table: peak, bound, and the buffers by size with their lifetimes.
std::string describe_plan(const Program& program, int max_rows = 20);

/// The whole plan, with names.
PlanDetail plan_detail(const Program& program);

}  // namespace hone
