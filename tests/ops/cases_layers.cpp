// SPDX-License-Identifier: Apache-2.0
// Cases for matrix products, convolution, pooling, normalisation, softmax, losses and optimizer
// steps. What these compute is held against plain loops and known values in their own files.
#include "tests/ops/op_case.hpp"

using namespace hone;
using hone::test::Grad;
using hone::test::In;

OP_CASE(matmul, {.in = {{3, 4}, {4, 5}}})
OP_CASE(matmul, {.attrs = MatmulAttrs{true, true}, .in = {{2, 4, 3}, {5, 4}}})
OP_CASE(matmul, {.in = {{2, 1, 3, 4}, {5, 4, 1}}})
OP_CASE(matmul, {.in = {{2, 0}, {0, 3}}, .expect = {{0, 0, 0, 0, 0, 0}}})
OP_CASE(gemm, {.attrs = GemmAttrs{2, 3}, .in = {{3, 4}, {4, 5}, {5}}})
OP_CASE(gemm, {.attrs = GemmAttrs{1, 1, true, true}, .in = {{4, 3}, {5, 4}}})

OP_CASE(conv, {.attrs = ConvAttrs{.strides = {2, 1}, .pads_begin = {1, 0}, .pads_end = {0, 2}},
               .in = {{2, 3, 5, 4}, {4, 3, 3, 2}, {4}}})
OP_CASE(conv, {.attrs = ConvAttrs{.dilations = {2}, .groups = 2}, .in = {{1, 4, 7}, {2, 2, 3}}})
OP_CASE(conv_input_grad, {.attrs = ConvGradAttrs{{6}, {.strides = {2}, .pads_begin = {1}}},
                          .in = {{2, 4, 3}, {4, 2, 3}}})
OP_CASE(conv_weight_grad, {.attrs = ConvGradAttrs{{3}, {.strides = {2}, .pads_begin = {1}}},
                           .in = {{2, 2, 6}, {2, 4, 3}}})
OP_CASE(conv_transpose,
        {.attrs = ConvTransposeAttrs{.conv = {.strides = {2, 2}}, .output_padding = {1, 0}},
         .in = {{1, 2, 3, 2}, {2, 3, 2, 3}, {3}}})

OP_CASE(max_pool, {.attrs = PoolAttrs{.kernel = {2, 3}, .strides = {2, 1}, .ceil_mode = true},
                   .in = {{2, 2, 5, 4}}})
OP_CASE(max_pool_grad,
        {.attrs = PoolAttrs{.kernel = {2}, .strides = {1}}, .in = {{1, 2, 5}, {1, 2, 4}}})
OP_CASE(max_pool_pick,
        {.attrs = PoolAttrs{.kernel = {2}, .strides = {1}}, .in = {{1, 2, 5}, {1, 2, 5}}})
OP_CASE(avg_pool, {.attrs = PoolAttrs{.kernel = {2, 2},
                                      .strides = {2, 1},
                                      .pads_begin = {1, 0},
                                      .ceil_mode = true},
                   .in = {{2, 2, 4, 4}}})
OP_CASE(avg_pool_grad,
        {.attrs = PoolGradAttrs{{1, 2, 5}, {.kernel = {2}, .strides = {1}}}, .in = {{1, 2, 4}}})
OP_CASE(global_avg_pool, {.in = {{2, 3, 4, 2}}})
OP_CASE(global_max_pool, {.in = {{2, 3, 4, 2}}})

OP_CASE(batch_norm, {.attrs = BatchNormAttrs{.eps = 0.1},
                     .in = {{2, 3, 4}, {3}, {3}, {3}, In::within({3}, 0.5, 2)}})
OP_CASE(batch_norm_train, {.attrs = NormAttrs{.eps = 0.1}, .in = {{4, 3, 2}, {3}, {3}}})
OP_CASE(batch_norm_grad, {.attrs = NormAttrs{.eps = 0.1},
                          .in = {{4, 2, 2}, {2}, {2}, In::within({2}, 0.5, 2), {4, 2, 2}}})
OP_CASE(layer_norm, {.attrs = NormAttrs{0.1, -1}, .in = {{3, 5}, {5}, {5}}})
OP_CASE(layer_norm, {.attrs = NormAttrs{0.1, 1}, .in = {{2, 3, 2}}})
OP_CASE(layer_norm_grad, {.attrs = NormAttrs{0.1, -1},
                          .in = {{3, 4}, {4}, {3, 1}, In::within({3, 1}, 0.5, 2), {3, 4}}})
OP_CASE(group_norm, {.attrs = GroupNormAttrs{2, 0.1}, .in = {{2, 4, 3}, {4}, {4}}})
OP_CASE(instance_norm, {.attrs = NormAttrs{.eps = 0.1}, .in = {{2, 3, 4}, {3}, {3}}})
OP_CASE(rms_norm, {.attrs = NormAttrs{0.1, -1}, .in = {{3, 5}, {5}}})

OP_CASE(softmax, {.attrs = AxisAttrs{1}, .in = {{4, 7}}, .range = {-3, 3}, .tol = 1e-6})
OP_CASE(softmax, {.attrs = AxisAttrs{0}, .in = {{1, 5}}, .expect = {{1, 1, 1, 1, 1}}})
OP_CASE(softmax, {.attrs = AxisAttrs{1}, .in = {{2, 3, 4}}})
OP_CASE(log_softmax, {.attrs = AxisAttrs{-1}, .in = {{4, 7}}, .range = {-3, 3}})

OP_CASE(cross_entropy, {.in = {{3, 4}, In::typed(DType::i64, {3}, {0, 3, -100})}})
OP_CASE(cross_entropy,
        {.attrs = CrossEntropyAttrs{.label_smoothing = 0.2, .reduction = Reduction::none},
         .in = {{2, 3, 2},
                In::typed(DType::i64, {2, 2}, {0, 2, 1, 1}),
                In::of({3}, {1, 2, 0.5}).as_constant()}})
OP_CASE(cross_entropy_grad,
        {.in = {{3, 4}, In::typed(DType::i64, {3}, {0, 3, -100}), In::none(), In::wide({})}})

OP_CASE(sgd_update, {.attrs = SgdAttrs{.momentum = 0.9, .weight_decay = 0.1},
                     .in = {{3, 2}, In::wide({3, 2}), {3, 2}, In::typed(DType::f64, {}, {0.1})}})
OP_CASE(adam_update, {.attrs = AdamAttrs{.weight_decay = 0.1, .decoupled = true},
                      .in = {{3, 2},
                             In::wide({3, 2}),
                             In::wide({3, 2}, {{0.1, 1}}),
                             {3, 2},
                             In::typed(DType::f64, {}, {0.1}),
                             In::typed(DType::i64, {}, {3})}})
