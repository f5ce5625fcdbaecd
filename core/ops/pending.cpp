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

// reduce.cpp
const OpDef op::sum = {.name = "sum", .min_inputs = 0, .max_inputs = kAnyNumber, .infer = pending};
const OpDef op::mean = {.name = "mean", .min_inputs = 0, .max_inputs = kAnyNumber, .infer = pending};
const OpDef op::max = {.name = "max", .min_inputs = 0, .max_inputs = kAnyNumber, .infer = pending};
const OpDef op::min = {.name = "min", .min_inputs = 0, .max_inputs = kAnyNumber, .infer = pending};
const OpDef op::prod = {.name = "prod", .min_inputs = 0, .max_inputs = kAnyNumber, .infer = pending};
const OpDef op::argmax = {.name = "argmax", .min_inputs = 0, .max_inputs = kAnyNumber, .infer = pending};
const OpDef op::argmin = {.name = "argmin", .min_inputs = 0, .max_inputs = kAnyNumber, .infer = pending};
const OpDef op::cumsum = {.name = "cumsum", .min_inputs = 0, .max_inputs = kAnyNumber, .infer = pending};

// shape.cpp
const OpDef op::reshape = {.name = "reshape", .min_inputs = 0, .max_inputs = kAnyNumber, .infer = pending};
const OpDef op::reshape_dyn = {.name = "reshape_dyn", .min_inputs = 0, .max_inputs = kAnyNumber, .infer = pending};
const OpDef op::flatten = {.name = "flatten", .min_inputs = 0, .max_inputs = kAnyNumber, .infer = pending};
const OpDef op::squeeze = {.name = "squeeze", .min_inputs = 0, .max_inputs = kAnyNumber, .infer = pending};
const OpDef op::unsqueeze = {.name = "unsqueeze", .min_inputs = 0, .max_inputs = kAnyNumber, .infer = pending};
const OpDef op::shape_of = {.name = "shape_of", .min_inputs = 0, .max_inputs = kAnyNumber, .infer = pending};
const OpDef op::size_of = {.name = "size_of", .min_inputs = 0, .max_inputs = kAnyNumber, .infer = pending};
const OpDef op::fill = {.name = "fill", .min_inputs = 0, .max_inputs = kAnyNumber, .infer = pending};
const OpDef op::fill_dyn = {.name = "fill_dyn", .min_inputs = 0, .max_inputs = kAnyNumber, .infer = pending};
const OpDef op::range_dyn = {.name = "range_dyn", .min_inputs = 0, .max_inputs = kAnyNumber, .infer = pending};

// movement.cpp
const OpDef op::transpose = {.name = "transpose", .min_inputs = 0, .max_inputs = kAnyNumber, .infer = pending};
const OpDef op::expand = {.name = "expand", .min_inputs = 0, .max_inputs = kAnyNumber, .infer = pending};
const OpDef op::expand_dyn = {.name = "expand_dyn", .min_inputs = 0, .max_inputs = kAnyNumber, .infer = pending};
const OpDef op::concat = {.name = "concat", .min_inputs = 0, .max_inputs = kAnyNumber, .infer = pending};
const OpDef op::slice = {.name = "slice", .min_inputs = 0, .max_inputs = kAnyNumber, .infer = pending};
const OpDef op::slice_dyn = {.name = "slice_dyn", .min_inputs = 0, .max_inputs = kAnyNumber, .infer = pending};
const OpDef op::unslice = {.name = "unslice", .min_inputs = 0, .max_inputs = kAnyNumber, .infer = pending};
const OpDef op::split = {.name = "split", .min_inputs = 0, .max_inputs = kAnyNumber, .infer = pending};
const OpDef op::pad = {.name = "pad", .min_inputs = 0, .max_inputs = kAnyNumber, .infer = pending};
const OpDef op::pad_dyn = {.name = "pad_dyn", .min_inputs = 0, .max_inputs = kAnyNumber, .infer = pending};
const OpDef op::tile = {.name = "tile", .min_inputs = 0, .max_inputs = kAnyNumber, .infer = pending};
const OpDef op::tile_dyn = {.name = "tile_dyn", .min_inputs = 0, .max_inputs = kAnyNumber, .infer = pending};
const OpDef op::trilu = {.name = "trilu", .min_inputs = 0, .max_inputs = kAnyNumber, .infer = pending};

// index.cpp
const OpDef op::gather = {.name = "gather", .min_inputs = 0, .max_inputs = kAnyNumber, .infer = pending};
const OpDef op::index_sum = {.name = "index_sum", .min_inputs = 0, .max_inputs = kAnyNumber, .infer = pending};
const OpDef op::gather_elements = {.name = "gather_elements", .min_inputs = 0, .max_inputs = kAnyNumber, .infer = pending};
const OpDef op::scatter_elements = {.name = "scatter_elements", .min_inputs = 0, .max_inputs = kAnyNumber, .infer = pending};
const OpDef op::one_hot = {.name = "one_hot", .min_inputs = 0, .max_inputs = kAnyNumber, .infer = pending};

// resize.cpp
const OpDef op::resize = {.name = "resize", .min_inputs = 0, .max_inputs = kAnyNumber, .infer = pending};
const OpDef op::resize_dyn = {.name = "resize_dyn", .min_inputs = 0, .max_inputs = kAnyNumber, .infer = pending};
const OpDef op::resize_grad = {.name = "resize_grad", .min_inputs = 0, .max_inputs = kAnyNumber, .infer = pending};

// random.cpp
const OpDef op::dropout = {.name = "dropout", .min_inputs = 0, .max_inputs = kAnyNumber, .infer = pending};
const OpDef op::random_uniform = {.name = "random_uniform", .min_inputs = 0, .max_inputs = kAnyNumber, .infer = pending};
const OpDef op::random_normal = {.name = "random_normal", .min_inputs = 0, .max_inputs = kAnyNumber, .infer = pending};



// pool.cpp
const OpDef op::max_pool = {.name = "max_pool", .min_inputs = 0, .max_inputs = kAnyNumber, .infer = pending};
const OpDef op::max_pool_grad = {.name = "max_pool_grad", .min_inputs = 0, .max_inputs = kAnyNumber, .infer = pending};
const OpDef op::max_pool_pick = {.name = "max_pool_pick", .min_inputs = 0, .max_inputs = kAnyNumber, .infer = pending};
const OpDef op::avg_pool = {.name = "avg_pool", .min_inputs = 0, .max_inputs = kAnyNumber, .infer = pending};
const OpDef op::avg_pool_grad = {.name = "avg_pool_grad", .min_inputs = 0, .max_inputs = kAnyNumber, .infer = pending};
const OpDef op::global_avg_pool = {.name = "global_avg_pool", .min_inputs = 0, .max_inputs = kAnyNumber, .infer = pending};
const OpDef op::global_max_pool = {.name = "global_max_pool", .min_inputs = 0, .max_inputs = kAnyNumber, .infer = pending};

// norm.cpp
const OpDef op::batch_norm = {.name = "batch_norm", .min_inputs = 0, .max_inputs = kAnyNumber, .infer = pending};
const OpDef op::batch_norm_train = {.name = "batch_norm_train", .min_inputs = 0, .max_inputs = kAnyNumber, .infer = pending};
const OpDef op::batch_norm_grad = {.name = "batch_norm_grad", .min_inputs = 0, .max_inputs = kAnyNumber, .infer = pending};
const OpDef op::layer_norm = {.name = "layer_norm", .min_inputs = 0, .max_inputs = kAnyNumber, .infer = pending};
const OpDef op::layer_norm_grad = {.name = "layer_norm_grad", .min_inputs = 0, .max_inputs = kAnyNumber, .infer = pending};
const OpDef op::group_norm = {.name = "group_norm", .min_inputs = 0, .max_inputs = kAnyNumber, .infer = pending};
const OpDef op::instance_norm = {.name = "instance_norm", .min_inputs = 0, .max_inputs = kAnyNumber, .infer = pending};
const OpDef op::rms_norm = {.name = "rms_norm", .min_inputs = 0, .max_inputs = kAnyNumber, .infer = pending};

// softmax.cpp
const OpDef op::softmax = {.name = "softmax", .min_inputs = 0, .max_inputs = kAnyNumber, .infer = pending};
const OpDef op::log_softmax = {.name = "log_softmax", .min_inputs = 0, .max_inputs = kAnyNumber, .infer = pending};


// optimizer.cpp
const OpDef op::sgd_update = {.name = "sgd_update", .min_inputs = 0, .max_inputs = kAnyNumber, .infer = pending};
const OpDef op::adam_update = {.name = "adam_update", .min_inputs = 0, .max_inputs = kAnyNumber, .infer = pending};

}  // namespace hone
