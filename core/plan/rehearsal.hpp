// SPDX-License-Identifier: Apache-2.0
// One way to go through the steps within a limit: what recomputation searches among.
#pragma once

#include <limits>

#include "core/plan/timeline.hpp"

namespace hone {

inline constexpr int32_t kNever = std::numeric_limits<int32_t>::max();

/// How a buffer's bytes and the distance to its next use count.
struct Weights {
  double bytes = 1, distance = 1;
};

/// One way to go through the steps.
struct Way {
  int64_t room = 0;  ///< What the rehearsal may use: a little more than the limit, as what it keeps
                     ///< to be safe may turn out not to be read.
  Weights weights;
  /// Multiplies what giving up a buffer is taken to cost; empty: ones.
  std::vector<float> reluctance;
};

/// What stays the same from one rehearsal to the next.
struct Facts {
  explicit Facts(const WorkList& list);
  static size_t index(int32_t i) { return static_cast<size_t>(i); }
  std::span<const int32_t> reads(size_t s) const {
    return {operands.data() + first[s], writes_at[s] - first[s]};
  }
  std::span<const int32_t> writes(size_t s) const {
    return {operands.data() + writes_at[s], first[s + 1] - writes_at[s]};
  }

  const WorkList& work;
  // Reads and writes of all steps one after the other: rehearsals go through them again and again.
  std::vector<int32_t> operands;
  std::vector<size_t> first, writes_at;  // by step
  std::vector<double> costs;
  std::vector<int32_t> producer;           // the step that can write it again, or -1
  std::vector<std::vector<int32_t>> uses;  // steps that read a buffer, in order
  std::vector<int32_t> until;  // the step before which the last run of a step must have come
  double total = 0;
};

/// Goes through the steps in order, giving up what is cheapest to miss when `way.room` bytes do not
/// suffice, and computing it again when it is read. False when it does not fit, or costs more than
/// `most`.
bool rehearse(const Facts& facts, const Way& way, double most, Sequence& runs);

}  // namespace hone
