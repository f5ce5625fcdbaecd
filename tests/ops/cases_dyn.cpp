// SPDX-License-Identifier: Apache-2.0
// Cases for operators whose settings are inputs, and for those that look at shapes alone.
#include <cmath>

#include "hone/op_attrs_index.hpp"
#include "tests/ops/op_case.hpp"

using namespace hone;
using hone::test::Grad;
using hone::test::In;

OP_CASE(sum_dyn, {.in = {{2, 3}, In::ints({1})}, .expect_shape = Shape{2, 1}})
OP_CASE(sum_dyn, {.attrs = ReduceDynAttrs{false, false}, .in = {{2, 3}}, .expect_shape = Shape{}})
OP_CASE(sum_dyn, {.attrs = ReduceDynAttrs{true, true},
                  .in = {In::of({2}, {3, 4}), In::ints({})},
                  .expect = {{3, 4}}})
OP_CASE(mean_dyn, {.attrs = ReduceDynAttrs{false, false},
                   .in = {In::of({2, 2}, {1, 3, 5, 7}), In::ints({-1})},
                   .expect = {{2, 6}}})
OP_CASE(max_dyn, {.in = {{2, 3, 2}, In::ints({0, 2})}, .expect_shape = Shape{1, 3, 1}})
OP_CASE(min_dyn, {.in = {{2, 3}, In::ints({0})}, .expect_shape = Shape{1, 3}})
OP_CASE(prod_dyn, {.in = {{2, 3}, In::ints({0})}, .expect_shape = Shape{1, 3}})
OP_CASE(cumsum_dyn, {.attrs = CumsumDynAttrs{true, false},
                     .in = {In::of({3}, {1, 2, 4}), In::typed(DType::i64, {}, {0}).as_constant()},
                     .expect = {{0, 1, 3}}})
OP_CASE(squeeze_dyn, {.in = {{2, 1, 3}, In::ints({1})}, .expect_shape = Shape{2, 3}})
OP_CASE(unsqueeze_dyn, {.in = {{2, 3}, In::ints({0, -1})}, .expect_shape = Shape{1, 2, 3, 1}})
OP_CASE(split_dyn, {.attrs = AxisAttrs{0},
                    .in = {In::of({3}, {1, 2, 3}), In::ints({1, 2})},
                    .expect = {{1}, {2, 3}}})
OP_CASE(trilu_dyn,
        {.attrs = TriluDynAttrs{false},
         .in = {In::of({2, 2}, {1, 2, 3, 4}), In::typed(DType::i64, {}, {-1}).as_constant()},
         .expect = {{0, 0, 3, 0}}})
OP_CASE(eye_like,
        {.attrs = EyeLikeAttrs{DType::i32, 1}, .in = {{2, 3}}, .expect = {{0, 1, 0, 0, 0, 1}}})
OP_CASE(center_crop_pad_dyn,
        {.in = {In::of({5}, {1, 2, 3, 4, 5}), In::ints({2})}, .expect = {{2, 3}}})
OP_CASE(center_crop_pad_dyn, {.attrs = AxesAttrs{{1}},
                              .in = {In::of({1, 2}, {1, 2}), In::ints({5})},
                              .expect = {{0, 1, 2, 0, 0}}})

OP_REJECTS(sum_dyn, {.in = {{2, 3}, In::indices({1}, 2)}}, "known before running")
OP_REJECTS(sum_dyn, {.in = {{2, 3}, In::ints({2})}}, "axis 2 does not exist")
OP_REJECTS(cumsum_dyn, {.in = {{2}, In::ints({0, 0})}}, "not one number")
OP_REJECTS(squeeze_dyn, {.in = {{2, 3}, In::ints({0})}}, "only extents of 1")
OP_REJECTS(split_dyn, {.attrs = AxisAttrs{0}, .in = {{3}, In::ints({})}}, "no sizes")
OP_REJECTS(split_dyn, {.attrs = AxisAttrs{0}, .in = {{3}, In::ints({1, 1})}}, "over")
OP_REJECTS(trilu_dyn, {.in = {{2, 2}, In::ints({0, 1})}}, "not one number")
OP_REJECTS(eye_like, {.in = {{2}}}, "expected 2")
OP_REJECTS(center_crop_pad_dyn, {.in = {{2, 3}, In::ints({2})}}, "1 extents for 2 axes")
OP_REJECTS(center_crop_pad_dyn, {.in = {{2}, In::ints({-2})}}, "negative")

OP_CASE(dropout_dyn, {.in = {In::of({2}, {3, 4}), In::typed(DType::f32, {}, {0.5}).as_constant()},
                      .expect = {{3, 4}, {1, 1}}})
OP_REJECTS(dropout_dyn,
           {.in = {{2},
                   In::typed(DType::f32, {}, {0.5}).as_constant(),
                   In::typed(DType::bool_, {}, {1}).as_constant()}},
           "drawn at random")
OP_REJECTS(dropout_dyn, {.in = {{2}, In::typed(DType::f32, {}, {2}).as_constant()}},
           "not in [0, 1]")
