// SPDX-License-Identifier: Apache-2.0
// Operators that are declared but not written yet. Each line goes when its definition comes.
#include "hone/op_table.hpp"

namespace hone {

namespace {
Status pending(InferCtx& c) { return unsupported("{}: is not implemented yet", c.who()); }
}  // namespace

// activation.cpp
const OpDef op::relu = {.name = "relu", .min_inputs = 0, .max_inputs = kAnyNumber, .infer = pending};
const OpDef op::sigmoid = {.name = "sigmoid", .min_inputs = 0, .max_inputs = kAnyNumber, .infer = pending};
const OpDef op::silu = {.name = "silu", .min_inputs = 0, .max_inputs = kAnyNumber, .infer = pending};
const OpDef op::gelu = {.name = "gelu", .min_inputs = 0, .max_inputs = kAnyNumber, .infer = pending};
const OpDef op::hard_sigmoid = {.name = "hard_sigmoid", .min_inputs = 0, .max_inputs = kAnyNumber, .infer = pending};
const OpDef op::hard_swish = {.name = "hard_swish", .min_inputs = 0, .max_inputs = kAnyNumber, .infer = pending};
const OpDef op::leaky_relu = {.name = "leaky_relu", .min_inputs = 0, .max_inputs = kAnyNumber, .infer = pending};
const OpDef op::elu = {.name = "elu", .min_inputs = 0, .max_inputs = kAnyNumber, .infer = pending};
const OpDef op::softplus = {.name = "softplus", .min_inputs = 0, .max_inputs = kAnyNumber, .infer = pending};
const OpDef op::clip = {.name = "clip", .min_inputs = 0, .max_inputs = kAnyNumber, .infer = pending};
const OpDef op::prelu = {.name = "prelu", .min_inputs = 0, .max_inputs = kAnyNumber, .infer = pending};

// resize.cpp
const OpDef op::resize = {.name = "resize", .min_inputs = 0, .max_inputs = kAnyNumber, .infer = pending};
const OpDef op::resize_dyn = {.name = "resize_dyn", .min_inputs = 0, .max_inputs = kAnyNumber, .infer = pending};
const OpDef op::resize_grad = {.name = "resize_grad", .min_inputs = 0, .max_inputs = kAnyNumber, .infer = pending};

// random.cpp
const OpDef op::dropout = {.name = "dropout", .min_inputs = 0, .max_inputs = kAnyNumber, .infer = pending};
const OpDef op::random_uniform = {.name = "random_uniform", .min_inputs = 0, .max_inputs = kAnyNumber, .infer = pending};
const OpDef op::random_normal = {.name = "random_normal", .min_inputs = 0, .max_inputs = kAnyNumber, .infer = pending};

}  // namespace hone
