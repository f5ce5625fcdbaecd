// SPDX-License-Identifier: Apache-2.0
// The floating-point type that a whole model computes in.
#pragma once

#include "hone/graph.hpp"

namespace hone {

/// Makes every floating-point value of `g` one of type `dtype`: inputs, outputs, constants, states
/// with their content, casts, and the bodies of control operators. What `module.double()`,
/// `.float()` and `.half()` do in PyTorch. Numbers are rounded to nearest where `dtype` is
/// narrower. f64 is for checking gradients and results: kernels for it are not fast ones. Integers
/// stay, so a model whose quantized weights bind it to a type is refused. Errors: invalid_argument
/// (`dtype` is no floating-point type; an operator does not compute in it), memory; `g` is then
/// unchanged.
Status set_precision(Graph& g, DType dtype);

}  // namespace hone
