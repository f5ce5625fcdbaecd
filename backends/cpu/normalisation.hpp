// SPDX-License-Identifier: Apache-2.0
// A batch normalisation with fixed statistics as y = x factor + shift by channel, alone or folded
// into the weights of the convolution before it.
#pragma once

#include <array>

#include "backends/cpu/region.hpp"

namespace hone::cpu {

struct Normalisation {
  /// Scale, bias, mean, variance, and the convolution's bias where it has one and is folded.
  std::array<ValueId, 5> values{kNone, kNone, kNone, kNone, kNone};
  double eps = 0;
  int64_t channels = 0;

  /// Of batch norm `node`; with the bias of `conv`, where that is a node.
  static Normalisation of(const Graph& g, NodeId node, NodeId conv = kNone);
  int64_t bytes() const { return channels * static_cast<int64_t>(sizeof(float)); }
  /// The values that are there.
  std::vector<ValueId> sources() const;
  /// Whether all of them are fixed.
  bool fixed(const Lowering& to) const;
  /// Both are computed in double and rounded once. `from`: the content of the values, in order,
  /// null where absent. Writes `channels` elements each; null is left out.
  void coefficients(std::span<const void* const> from, float* factor, float* shift) const;

  struct Buffers {
    BufferId factor = kNone, shift = kNone;
  };
  /// Adds a step that computes the coefficients.
  Buffers add_step(Region& region, NodeId node) const;
};

}  // namespace hone::cpu
