// SPDX-License-Identifier: Apache-2.0
// Reverse-mode differentiation of graphs.
#pragma once

#include "hone/builder.hpp"

namespace hone {

/// Appends to the builder's graph the nodes that compute d(target)/d(wrt[i]) and returns those
/// values, in order; each has the type of its wrt. `target` is a floating-point scalar, or of any
/// shape when `seed` (of its type) is given: then the result is the vector-Jacobian product. A wrt
/// that does not influence the target gets zeros. The appended nodes are ordinary nodes: they can
/// be differentiated again.
///
/// Errors: invalid_argument (target no scalar, wrt not floating point), unsupported (operators
/// without a gradient stand between wrt and target: all are named, with the path from the target).
Result<std::vector<Value>> differentiate(Builder& b, Value target, std::span<const Value> wrt,
                                         Value seed = {});

}  // namespace hone
