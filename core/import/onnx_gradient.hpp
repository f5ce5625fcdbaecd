// SPDX-License-Identifier: Apache-2.0
// Derivatives within an imported graph: ai.onnx.preview.training's Gradient.
#pragma once

#include "hone/builder.hpp"

namespace hone::onnx {

/// Appends d(sum of y)/d(x) for each x. Errors: unsupported (shapes that are not known yet,
/// operators without a gradient), invalid_argument (no floating point).
Result<std::vector<Value>> gradients_within(Builder& b, Value y, std::span<const Value> xs);

}  // namespace hone::onnx
