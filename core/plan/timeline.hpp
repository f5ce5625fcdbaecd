// SPDX-License-Identifier: Apache-2.0
// What the planner knows of a program, without kernels: steps that read and write buffers, and the
// order in which they run. An order may hold a step more than once: it is then computed again.
#pragma once

#include <span>
#include <vector>

#include "core/plan/arena.hpp"
#include "hone/backend.hpp"

namespace hone {

/// A step as the planner sees it. Buffers are indices into WorkList::bytes; those that are not in
/// the arena (inputs, constants, packed weights, outputs) are left out.
struct Work {
  std::vector<int32_t> reads, writes;
  /// States read and overwritten, by any numbering: a step that overwrites one runs after all runs
  /// of the steps that read it.
  std::vector<int32_t> state_reads, state_writes;
  std::vector<MayShare> may_share;  ///< Indices into `writes` and `reads` here.
  int64_t scratch = 0;
  double cost = 0;            ///< Estimated time, in any one unit.
  bool gives_output = false;  ///< Writes what the caller gets: the loss, say.
  bool repeatable = true;     ///< Running it again gives the same bytes and changes nothing else.
};

struct WorkList {
  std::vector<int64_t> bytes;  ///< Of each buffer, rounded up to the arena's alignment.
  std::vector<Work> steps;     ///< In an order that works.
};

/// The order of runs, as indices into WorkList::steps. A read means the latest earlier write.
using Sequence = std::vector<int32_t>;

/// One life of a buffer: from a write to the last read before the buffer is written again.
struct Instance {
  int32_t buffer = 0;
  int32_t first = 0, last = 0;  ///< Positions in the sequence.
  int32_t shares = -1;          ///< The instance whose bytes this one takes over, or -1.
};

/// A sequence with its lives and its memory.
struct Timeline {
  std::vector<Instance> instances;
  std::vector<int32_t> operands;      ///< Instances read, then written, position by position.
  std::vector<size_t> first_operand;  ///< By position.
  int64_t peak = 0;                   ///< Largest sum of live bytes, scratch included.
  double cost = 0;

  /// Instances that position `p` reads and writes, as in Work.
  const int32_t* reads(size_t p) const { return operands.data() + first_operand[p]; }
  const int32_t* writes(size_t p, const Work& w) const { return reads(p) + w.reads.size(); }

  std::vector<int32_t> current;  ///< While following: the latest instance of each buffer.
  std::vector<char> done;        ///< While following: steps that have run.
  std::vector<int64_t> change;   ///< While following: of the live bytes.
};

/// Follows a sequence. It must run every step at least once, in an order that works.
Timeline follow(const WorkList& work, std::span<const int32_t> sequence);
/// The same into a timeline whose memory is used again.
void follow(const WorkList& work, std::span<const int32_t> sequence, Timeline& out);

/// Steps in the given order, each once.
Sequence once_each(const WorkList& work);

/// An order of the same steps, each once, whose peak is no larger, and smaller where moving a step
/// to where it frees more than it makes wins something.
Sequence better_order(const WorkList& work);

/// Whether the sequence runs each step, no step before what it reads has been written, and none
/// that reads a state after it was overwritten.
bool is_valid(const WorkList& work, std::span<const int32_t> sequence);

}  // namespace hone
