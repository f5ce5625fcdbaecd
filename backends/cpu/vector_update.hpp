// SPDX-License-Identifier: Apache-2.0
// sgd_update and adam_update of f32 parameters.
#pragma once

#include "backends/cpu/implementation.hpp"

namespace hone::cpu {

bool accepts_update(const Graph& g, const Node& node);
Status lower_update(Lowering& to, NodeId node);

}  // namespace hone::cpu
