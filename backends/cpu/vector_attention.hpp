// SPDX-License-Identifier: Apache-2.0
// scaled_dot_product_attention without its matrix of scores.
#pragma once

#include "backends/cpu/implementation.hpp"

namespace hone::cpu {

bool accepts_attention(const Graph& g, const Node& node);
Status lower_attention(Lowering& to, NodeId node);
/// Whether it is faster than products and a softmax, as measured (README.md).
bool attention_pays(std::span<const TensorType* const> in, const Attrs& attrs);

}  // namespace hone::cpu
