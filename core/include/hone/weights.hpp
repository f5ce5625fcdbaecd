// SPDX-License-Identifier: Apache-2.0
// Weights by name, out of models.
#pragma once

#include "hone/model.hpp"
#include "hone/named_tensor.hpp"

namespace hone {

/// The parameters and buffers of a model, in the order of its graph. Shared, not copied.
std::vector<NamedTensor> weights(const Model& model);

}  // namespace hone
