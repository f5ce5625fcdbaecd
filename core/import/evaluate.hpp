// SPDX-License-Identifier: Apache-2.0
// What importers and exporters compute themselves, by the operators' own kernels.
#pragma once

#include <span>

#include "hone/op.hpp"

namespace hone {

/// The first output of a node whose inputs are these constants. Errors: as the operator's.
Result<TensorData> evaluate(const OpDef& op, std::span<const TensorData> inputs, Attrs attrs);

}  // namespace hone
