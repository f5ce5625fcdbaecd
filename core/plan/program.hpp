// SPDX-License-Identifier: Apache-2.0
// A program: a specialised graph lowered to steps over planned buffers.
#pragma once

#include "core/plan/arena.hpp"
#include "hone/backend.hpp"

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
  ValueId source = kNone;
  int64_t bytes = 0;
  PackFn fill;
};

struct Program {
  Graph graph;
  std::vector<Buffer> buffers;
  std::vector<Step> steps;
  std::vector<int64_t> scratch_offsets;  ///< For each step; -1 without scratch.
  std::vector<Pack> packs;
  ArenaPlan arena;
  int64_t packed_bytes = 0;
  double flops = 0;
};

struct PrepareOptions {
  const Backend* backend = nullptr;  ///< Null: reference kernels only.
  int threads = 1;
};

/// Order in which the nodes run: the graph's own, with state updates moved up to where their inputs
/// are complete, so that gradients die early.
std::vector<NodeId> schedule(const Graph& g);

/// Schedules, lowers and plans. The graph must be specialised and dead code removed. Errors: as the
/// backend's lowering; unsupported (an operator without a kernel).
Result<Program> prepare(Graph graph, const PrepareOptions& options);

/// The plan as a table: peak, bound, and the buffers by size with their lifetimes.
std::string describe_plan(const Program& program, int max_rows = 20);

}  // namespace hone
