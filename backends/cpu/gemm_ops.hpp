// SPDX-License-Identifier: Apache-2.0
// Operators lowered to Hone's matrix product.
#pragma once

#include "backends/cpu/gemm.hpp"
#include "backends/cpu/implementation.hpp"

namespace hone::cpu {

bool accepts_matmul(const Graph& g, const Node& node);
Status lower_matmul(Lowering& to, NodeId node);

/// Convolution of one or two spatial axes and its adjoints, in f32, unless it is depthwise.
bool accepts_conv(const Graph& g, const Node& node);
Status lower_conv(Lowering& to, NodeId node);
Status lower_conv_input_grad(Lowering& to, NodeId node);
Status lower_conv_weight_grad(Lowering& to, NodeId node);

}  // namespace hone::cpu
