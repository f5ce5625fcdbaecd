// SPDX-License-Identifier: Apache-2.0
// Which values the gradient of one operation reads, so that a record keeps no others alive.
#pragma once

#include <string>
#include <unordered_map>

#include "hone/op.hpp"

namespace hone::detail {

struct GradientNeeds {
  std::vector<bool> inputs, outputs;
};

/// Asks by differentiating a graph of the one operation. Answers are kept by operator, attributes
/// and types.
class GradientNeedsCache {
 public:
  /// Absent inputs are null; `wants` says which inputs want a gradient.
  const GradientNeeds& of(const OpDef& op, const Attrs& attrs,
                          std::span<const TensorType* const> inputs,
                          std::span<const TensorType> outputs, const std::vector<bool>& wants);

 private:
  std::unordered_map<std::string, GradientNeeds> known_;
};

}  // namespace hone::detail
