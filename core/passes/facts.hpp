// SPDX-License-Identifier: Apache-2.0
// What can be said of a value while dimensions are open.
#pragma once

#include <limits>
#include <optional>

#include "hone/op_table.hpp"

namespace hone {

inline constexpr int64_t kAnyExtent = std::numeric_limits<int64_t>::min();

/// Extents of a value whose rank is known: at least 0 when fixed, -k-1 for the named dimension k,
/// kAnyExtent when nothing is known.
using Extents = std::vector<int64_t>;

/// What holds whatever the free dimensions are.
struct Facts {
  std::optional<DType> dtype;
  std::optional<Extents> extents;

  bool has_rank() const { return extents.has_value(); }
  int rank() const { return extents ? static_cast<int>(extents->size()) : -1; }
};

Facts facts_of(const TensorType& type);

/// Of output `k` of a node without a type, from its inputs (left-out ones: null).
Facts facts_of_output(const OpDef& op, const Attrs& attrs, size_t k,
                      std::span<const Facts* const> in);

}  // namespace hone
