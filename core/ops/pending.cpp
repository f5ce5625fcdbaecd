// SPDX-License-Identifier: Apache-2.0
// Operators that are declared but not written yet. Each line goes when its definition comes.
#include "hone/op_table.hpp"

namespace hone {

namespace {
Status pending(InferCtx& c) { return unsupported("{}: is not implemented yet", c.who()); }
}  // namespace

// resize.cpp
const OpDef op::resize = {.name = "resize", .min_inputs = 0, .max_inputs = kAnyNumber, .infer = pending};
const OpDef op::resize_dyn = {.name = "resize_dyn", .min_inputs = 0, .max_inputs = kAnyNumber, .infer = pending};
const OpDef op::resize_grad = {.name = "resize_grad", .min_inputs = 0, .max_inputs = kAnyNumber, .infer = pending};

// random.cpp
const OpDef op::dropout = {.name = "dropout", .min_inputs = 0, .max_inputs = kAnyNumber, .infer = pending};
const OpDef op::random_uniform = {.name = "random_uniform", .min_inputs = 0, .max_inputs = kAnyNumber, .infer = pending};
const OpDef op::random_normal = {.name = "random_normal", .min_inputs = 0, .max_inputs = kAnyNumber, .infer = pending};

}  // namespace hone
