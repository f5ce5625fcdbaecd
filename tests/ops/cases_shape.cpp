// SPDX-License-Identifier: Apache-2.0
// Cases for views, shape arithmetic and filled tensors.
#include <cmath>

#include "tests/ops/op_case.hpp"

using namespace hone;
using hone::test::In;

OP_CASE(reshape, {.attrs = ShapeAttrs{{3, 4}}, .in = {{2, 6}}})
OP_CASE(reshape, {.attrs = ShapeAttrs{{-1, 2}}, .in = {{2, 6}}, .expect_shape = Shape{6, 2}})
OP_CASE(reshape, {.attrs = ShapeAttrs{{0, 3, -1}}, .in = {{2, 6}}, .expect_shape = Shape{2, 3, 2}})
OP_CASE(reshape, {.attrs = ShapeAttrs{{0, 5}, true}, .in = {{5, 0}}, .expect_shape = Shape{0, 5}})
OP_CASE(reshape, {.attrs = ShapeAttrs{{-1, 2}}, .in = {{0, 4}}, .expect_shape = Shape{0, 2}})
OP_CASE(reshape, {.attrs = ShapeAttrs{{}}, .in = {{1, 1}}, .expect_shape = Shape{}})
OP_CASE(reshape_dyn, {.in = {{2, 6}, In::ints({3, -1})}, .expect_shape = Shape{3, 4}})
OP_CASE(flatten, {.attrs = AxisAttrs{1}, .in = {{2, 3, 4}}, .expect_shape = Shape{2, 12}})
OP_CASE(flatten, {.attrs = AxisAttrs{0}, .in = {{2, 3}}, .expect_shape = Shape{1, 6}})
OP_CASE(flatten, {.attrs = AxisAttrs{2}, .in = {{2, 3}}, .expect_shape = Shape{6, 1}})
OP_CASE(flatten, {.attrs = AxisAttrs{0}, .in = {{}}, .expect_shape = Shape{1, 1}})
OP_CASE(squeeze, {.in = {{1, 3, 1}}, .expect_shape = Shape{3}})
OP_CASE(squeeze, {.attrs = AxesAttrs{{-1}}, .in = {{1, 3, 1}}, .expect_shape = Shape{1, 3}})
OP_CASE(unsqueeze, {.attrs = AxesAttrs{{0, -1}}, .in = {{2, 3}}, .expect_shape = Shape{1, 2, 3, 1}})
OP_CASE(unsqueeze, {.attrs = AxesAttrs{{1, 0}}, .in = {{}}, .expect_shape = Shape{1, 1}})
OP_CASE(shape_of, {.in = {{2, 3, 4}}, .expect = {{2, 3, 4}}})
OP_CASE(shape_of, {.attrs = ShapeOfAttrs{-2, 100}, .in = {{2, 3, 4}}, .expect = {{3, 4}}})
OP_CASE(shape_of, {.attrs = ShapeOfAttrs{2, 1}, .in = {{2, 3, 4}}, .expect_shape = Shape{0}})
OP_CASE(size_of, {.in = {{2, 3, 4}}, .expect = {{24}}})
OP_CASE(fill, {.attrs = FillAttrs{{2, 2}, DType::f16, 0.5}, .expect = {{0.5, 0.5, 0.5, 0.5}}})
OP_CASE(fill, {.attrs = FillAttrs{{2}, DType::i8, -3}, .expect = {{-3, -3}}})
OP_CASE(fill, {.attrs = FillAttrs{{0, 2}, DType::f32, 1}, .expect_shape = Shape{0, 2}})
OP_CASE(fill_dyn,
        {.attrs = FillDynAttrs{DType::i64, 7}, .in = {In::ints({2, 1})}, .expect = {{7, 7}}})
OP_CASE(range_dyn, {.in = {In::of({}, {1}).as_constant(), In::of({}, {2}).as_constant(),
                           In::of({}, {0.25}).as_constant()},
                    .expect = {{1, 1.25, 1.5, 1.75}}})
OP_CASE(range_dyn, {.in = {In::of({}, {5}).as_constant(), In::of({}, {-2}).as_constant(),
                           In::of({}, {-3}).as_constant()},
                    .dtype = DType::i64,
                    .expect = {{5, 2, -1}}})
OP_CASE(range_dyn, {.in = {In::of({}, {5}).as_constant(), In::of({}, {2}).as_constant(),
                           In::of({}, {1}).as_constant()},
                    .expect_shape = Shape{0}})

OP_REJECTS(reshape, {.attrs = ShapeAttrs{{5, 2}}, .in = {{2, 6}}}, "do not fill")
OP_REJECTS(reshape, {.attrs = ShapeAttrs{{5, -1}}, .in = {{2, 6}}}, "do not fill")
OP_REJECTS(reshape, {.attrs = ShapeAttrs{{-1, -1}}, .in = {{2, 6}}}, "two extents open")
OP_REJECTS(reshape, {.attrs = ShapeAttrs{{0, -1}, true}, .in = {{2, 6}}}, "do not fill")
OP_REJECTS(reshape, {.attrs = ShapeAttrs{{2, 6, 0}}, .in = {{2, 6}}}, "which lacks it")
OP_REJECTS(reshape, {.attrs = ShapeAttrs{{-4, 3}}, .in = {{2, 6}}}, "negative extent")
OP_REJECTS(reshape, {.attrs = ShapeAttrs{{1 << 30, 1 << 30, 1 << 30}}, .in = {{2}}}, "too large")
OP_REJECTS(reshape, {.attrs = ShapeAttrs{{1, 1, 1, 1, 1, 1, 1, 1, 1}}, .in = {{1}}}, "9 dimensions")
OP_REJECTS(reshape_dyn, {.in = {{2, 6}, In::typed(DType::i64, {2}, {3, 4})}},
           "known before running")
OP_REJECTS(reshape_dyn, {.in = {{2, 6}, In::typed(DType::f32, {2}, {3, 4})}}, "expected i32 or i64")
OP_REJECTS(flatten, {.attrs = AxisAttrs{3}, .in = {{2, 6}}}, "axis 3 does not exist")
OP_REJECTS(squeeze, {.attrs = AxesAttrs{{0}}, .in = {{2, 1}}}, "only extents of 1")
OP_REJECTS(unsqueeze, {.attrs = AxesAttrs{{0, 0}}, .in = {{2}}}, "named twice")
OP_REJECTS(unsqueeze, {.attrs = AxesAttrs{{4}}, .in = {{2}}}, "axis 4 does not exist")
OP_REJECTS(unsqueeze, {.attrs = AxesAttrs{{0, 1}}, .in = {{1, 1, 1, 1, 1, 1, 1}}}, "9 dimensions")
OP_REJECTS(fill, {.attrs = FillAttrs{{-1}, DType::f32, 0}}, "negative extent")
OP_REJECTS(fill, {.attrs = FillAttrs{{int64_t{1} << 62, 4}, DType::f32, 0}}, "too large")
OP_REJECTS(range_dyn,
           {.in = {In::of({}, {1}).as_constant(), In::of({}, {2}).as_constant(),
                   In::of({}, {0}).as_constant()}},
           "no finite range")
