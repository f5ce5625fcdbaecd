// SPDX-License-Identifier: Apache-2.0
// softmax and log_softmax in f32 along the last axis.
#pragma once

#include "backends/cpu/implementation.hpp"

namespace hone::cpu {

bool vector_accepts_softmax(const Graph& g, const Node& node);
Status vector_lower_softmax(Lowering& to, NodeId node);

}  // namespace hone::cpu
