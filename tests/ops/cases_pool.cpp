// SPDX-License-Identifier: Apache-2.0
// Cases for pooling.
#include <cmath>

#include "tests/ops/op_case.hpp"

using namespace hone;
using hone::test::Grad;
using hone::test::In;

namespace {
const PoolAttrs kPlain{.kernel = {2, 2}};
const PoolAttrs kPadded{.kernel = {3, 2},
                        .strides = {2, 1},
                        .pads_begin = {1, 0},
                        .pads_end = {1, 1},
                        .count_include_pad = true};
const PoolAttrs kCeil{.kernel = {2, 3}, .strides = {2, 2}, .ceil_mode = true};
const PoolAttrs kDilated{.kernel = {2, 2}, .dilations = {2, 1}};
const PoolAttrs kSame{.kernel = {3, 3}, .strides = {2, 2}, .auto_pad = AutoPad::same_upper};
const PoolAttrs kC03{.kernel = {1}, .strides = {3}, .ceil_mode = true};
}  // namespace

OP_CASE(max_pool, {.attrs = kPlain, .in = {{2, 1, 4, 5}}})
OP_CASE(max_pool, {.attrs = kPadded, .in = {{2, 1, 4, 5}}})
OP_CASE(max_pool, {.attrs = kCeil, .in = {{1, 2, 4, 4}}, .expect_shape = Shape{1, 2, 2, 2}})
OP_CASE(max_pool, {.attrs = kDilated, .in = {{1, 2, 4, 4}}})
OP_CASE(max_pool, {.attrs = kSame, .in = {{1, 1, 5, 4}}})
OP_CASE(max_pool, {.attrs = PoolAttrs{.kernel = {2, 2, 2}}, .in = {{1, 1, 3, 2, 3}}})
OP_CASE(max_pool, {.attrs = kC03, .in = {In::of({1, 1, 3}, {1, 2, 3})}, .expect = {{1}}})
OP_CASE(max_pool, {.attrs = PoolAttrs{.kernel = {2}, .strides = {2}},
                   .in = {In::of({1, 1, 6}, {1, NAN, NAN, 2, 3, 4})},
                   .grad = Grad::skip,
                   .expect = {{NAN, NAN, 4}}})
OP_CASE(max_pool_grad, {.attrs = kPlain, .in = {{1, 2, 4, 3}, {1, 2, 3, 2}}})
OP_CASE(max_pool_grad, {.attrs = kPadded, .in = {{1, 1, 4, 5}, {1, 1, 2, 5}}})
OP_CASE(max_pool_pick, {.attrs = kPlain, .in = {{1, 2, 4, 3}, {1, 2, 4, 3}}})
OP_CASE(max_pool_pick, {.attrs = kCeil, .in = {{1, 1, 4, 4}, {1, 1, 4, 4}}})

OP_CASE(avg_pool, {.attrs = kPlain, .in = {{2, 1, 4, 5}}})
OP_CASE(avg_pool, {.attrs = kPadded, .in = {{2, 1, 4, 5}}})
OP_CASE(avg_pool, {.attrs = kCeil, .in = {{1, 2, 4, 4}}})
OP_CASE(avg_pool, {.attrs = kDilated, .in = {{1, 2, 4, 4}}})
OP_CASE(avg_pool, {.attrs = kSame, .in = {{1, 1, 5, 4}}})
OP_CASE(avg_pool, {.attrs = kC03, .in = {In::of({1, 1, 3}, {1, 2, 3})}, .expect = {{1}}})
OP_CASE(avg_pool_grad, {.attrs = PoolGradAttrs{{1, 2, 4, 3}, kPlain}, .in = {{1, 2, 3, 2}}})
OP_CASE(avg_pool_grad, {.attrs = PoolGradAttrs{{1, 1, 4, 5}, kPadded}, .in = {{1, 1, 2, 5}}})

OP_CASE(global_avg_pool, {.in = {{2, 2, 3, 2}}, .expect_shape = Shape{2, 2, 1, 1}})
OP_CASE(global_max_pool, {.in = {{2, 2, 3}}, .expect_shape = Shape{2, 2, 1}})

OP_REJECTS(max_pool, {.attrs = PoolAttrs{.kernel = {5}}, .in = {{1, 1, 4}}},
           "the kernel spans 5, the padded input only 4")
OP_REJECTS(max_pool,
           {.attrs = PoolAttrs{.kernel = {2}, .pads_begin = {2}, .pads_end = {0}},
            .in = {{1, 1, 4}}},
           "a window lies wholly in the padding")
OP_REJECTS(max_pool_grad, {.attrs = kPlain, .in = {{1, 2, 4, 3}, {1, 2, 4, 3}}},
           "expected [1, 2, 3, 2]")
OP_REJECTS(avg_pool, {.attrs = kPlain, .in = {{1, 4, 3}}},
           "the kernel has 2 axes, the input 1 spatial ones")
OP_REJECTS(avg_pool_grad, {.attrs = PoolGradAttrs{{1, 2, 4, 3}, kPlain}, .in = {{1, 2, 3, 3}}},
           "expected [1, 2, 3, 2]")
OP_REJECTS(global_avg_pool, {.in = {{2, 2, 0}}}, "has no elements to pool")
