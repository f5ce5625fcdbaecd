// SPDX-License-Identifier: Apache-2.0
// Reference kernels of scaled_dot_product_attention and its gradient.
#pragma once

#include "hone/op.hpp"

namespace hone {

/// Inputs of scaled_dot_product_attention_grad; the first four are those of the operator.
enum AttentionGradInput : int { kQuery, kKey, kValue, kMask, kGrad };

Status run_dot_product_attention(const KernelArgs& args);
Status run_dot_product_attention_grad(const KernelArgs& args);

}  // namespace hone
