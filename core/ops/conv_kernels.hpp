// SPDX-License-Identifier: Apache-2.0
// The reference kernels of convolution.
#pragma once

#include "hone/op.hpp"

namespace hone {

Status conv_kernel(const KernelArgs& args);
Status conv_input_grad_kernel(const KernelArgs& args);
Status conv_weight_grad_kernel(const KernelArgs& args);

}  // namespace hone
