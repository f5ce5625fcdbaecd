// SPDX-License-Identifier: Apache-2.0
// Cases for operators that move elements.
#include <cmath>
#include <limits>

#include "tests/ops/op_case.hpp"

using namespace hone;
using hone::test::Grad;
using hone::test::In;

OP_CASE(transpose, {.in = {{3, 5}}})
OP_CASE(transpose, {.attrs = PermAttrs{{0, 2, 1, 3}}, .in = {{2, 3, 4, 5}}})
OP_CASE(transpose, {.attrs = PermAttrs{{2, 0, 1}}, .in = {{2, 3, 4}}})
OP_CASE(transpose, {.attrs = PermAttrs{{1, 0, 2}}, .in = {{1, 3, 4}}})
OP_CASE(transpose, {.attrs = PermAttrs{{0, 2, 1}}, .in = {{2, 35, 19}}, .grad = Grad::check})
OP_CASE(transpose, {.attrs = PermAttrs{{3, 1, 2, 0}}, .in = {{17, 2, 3, 18}}, .grad = Grad::skip})
OP_CASE(transpose, {.in = {{}}})
OP_CASE(transpose, {.in = {{0, 2}}, .expect_shape = Shape{2, 0}})
OP_CASE(expand, {.attrs = ShapeAttrs{{2, 3, 4}}, .in = {{3, 1}}})
OP_CASE(expand, {.attrs = ShapeAttrs{{1, 4}}, .in = {{3, 1}}, .expect_shape = Shape{3, 4}})
OP_CASE(expand, {.attrs = ShapeAttrs{{5}}, .in = {{}}})
OP_CASE(expand, {.attrs = ShapeAttrs{{0, 3}}, .in = {{1, 3}}, .expect_shape = Shape{0, 3}})
OP_CASE(expand_dyn, {.in = {{3, 1}, In::ints({2, 1, 2})}, .expect_shape = Shape{2, 3, 2}})
OP_CASE(concat, {.attrs = AxisAttrs{1}, .in = {{2, 3}, {2, 1}, {2, 2}}})
OP_CASE(concat, {.attrs = AxisAttrs{0}, .in = {{2, 3}, {0, 3}, {1, 3}}})
OP_CASE(concat, {.attrs = AxisAttrs{-1}, .in = {{2}}})
OP_CASE(split, {.attrs = SplitAttrs{1, {1, 3, 0}}, .in = {{2, 4}}})
OP_CASE(split, {.attrs = SplitAttrs{0, {}, 2}, .in = {{5, 2}}})
OP_CASE(split, {.attrs = SplitAttrs{-1, {}, 3}, .in = {{2, 6}}})
OP_CASE(tile, {.attrs = RepeatsAttrs{{2, 1, 3}}, .in = {{2, 3, 2}}})
OP_CASE(tile, {.attrs = RepeatsAttrs{{1, 1}}, .in = {{2, 3}}})
OP_CASE(tile, {.attrs = RepeatsAttrs{{2}},
               .in = {In::of({3}, {1, 2, 3})},
               .expect = {{1, 2, 3, 1, 2, 3}}})
OP_CASE(tile, {.attrs = RepeatsAttrs{{0, 2}}, .in = {{2, 3}}, .expect_shape = Shape{0, 6}})
OP_CASE(tile_dyn, {.in = {{2, 3}, In::ints({2, 2})}, .expect_shape = Shape{4, 6}})
OP_CASE(trilu, {.attrs = TriluAttrs{0, true}, .in = {{3, 4}}})
OP_CASE(trilu, {.attrs = TriluAttrs{-1, false}, .in = {{2, 4, 3}}})
OP_CASE(trilu,
        {.attrs = TriluAttrs{100, true}, .in = {{3, 3}}, .expect = {{0, 0, 0, 0, 0, 0, 0, 0, 0}}})
OP_CASE(trilu, {.attrs = TriluAttrs{1, true},
                .in = {In::of({3, 3}, {1, 2, 3, 4, 5, 6, 7, 8, 9})},
                .expect = {{0, 2, 3, 0, 0, 6, 0, 0, 0}}})
OP_CASE(trilu, {.attrs = TriluAttrs{std::numeric_limits<int64_t>::max(), false}, .in = {{0, 3}}})

OP_REJECTS(transpose, {.attrs = PermAttrs{{0, 0}}, .in = {{2, 3}}}, "no permutation")
OP_REJECTS(transpose, {.attrs = PermAttrs{{0, 1, 2}}, .in = {{2, 3}}}, "no permutation")
OP_REJECTS(expand, {.attrs = ShapeAttrs{{4}}, .in = {{3}}}, "do not broadcast")
OP_REJECTS(expand, {.attrs = ShapeAttrs{{-1}}, .in = {{3}}}, "negative extent")
OP_REJECTS(concat, {.attrs = AxisAttrs{0}, .in = {{2, 3}, {2, 4}}}, "not only on axis 0")
OP_REJECTS(concat, {.attrs = AxisAttrs{0}, .in = {{2, 3}, {2}}}, "not only on axis 0")
OP_REJECTS(concat, {.attrs = AxisAttrs{0}, .in = {{2}, In::typed(DType::i32, {1}, {1})}},
           "one dtype")
OP_REJECTS(concat, {.attrs = AxisAttrs{0}, .in = {{}, {}}}, "axis 0 does not exist")
OP_REJECTS(split, {.attrs = SplitAttrs{0, {1, 3}}, .in = {{3}}}, "do not add up")
OP_REJECTS(split, {.attrs = SplitAttrs{0, {1, 1}}, .in = {{3}}}, "leave 1 of axis 0")
OP_REJECTS(split, {.attrs = SplitAttrs{0, {}, 4}, .in = {{3}}}, "cannot be split into 4 parts")
OP_REJECTS(tile, {.attrs = RepeatsAttrs{{2}}, .in = {{2, 3}}}, "1 repeats are given for the 2 axes")
OP_REJECTS(tile, {.attrs = RepeatsAttrs{{int64_t{1} << 60, 2}}, .in = {{8, 3}}},
           "cannot be repeated")
OP_REJECTS(trilu, {.in = {{3}}}, "expected at least 2")

// ---- slice, unslice, pad

OP_CASE(slice, {.attrs = SliceAttrs{{1}, {3}, {0}, {}}, .in = {{4, 3}}})
OP_CASE(slice, {.attrs = SliceAttrs{{0, 1}, {4, 100}, {}, {2, 1}}, .in = {{4, 3}}})
OP_CASE(slice, {.attrs = SliceAttrs{{-1}, {std::numeric_limits<int64_t>::min()}, {1}, {-1}},
                .in = {In::of({1, 4}, {1, 2, 3, 4})},
                .expect = {{4, 3, 2, 1}}})
OP_CASE(slice, {.attrs = SliceAttrs{{-2, 3}, {-100, 0}, {2, 0}, {-2, -1}}, .in = {{4, 2, 5}}})
OP_CASE(slice,
        {.attrs = SliceAttrs{{3}, {1}, {0}, {}}, .in = {{4, 3}}, .expect_shape = Shape{0, 3}})
OP_CASE(slice, {.attrs = SliceAttrs{{0}, {4}, {0}, {std::numeric_limits<int64_t>::max()}},
                .in = {{4}},
                .expect_shape = Shape{1}})
OP_CASE(slice, {.attrs = SliceAttrs{{3}, {-9}, {0}, {std::numeric_limits<int64_t>::min()}},
                .in = {{4}},
                .expect_shape = Shape{1}})
OP_CASE(slice, {.in = {{2, 2}}})
OP_CASE(slice_dyn,
        {.in = {{4, 5}, In::ints({1, 0}), In::ints({3, 5}), In::ints({1, 0}), In::ints({1, 2})},
         .expect_shape = Shape{2, 2}})
OP_CASE(slice_dyn, {.in = {{4, 5}, In::ints({1}), In::ints({3})}, .expect_shape = Shape{2, 5}})
OP_CASE(unslice, {.attrs = UnsliceAttrs{{4, 3}, {{1}, {3}, {0}, {}}}, .in = {{2, 3}}})
OP_CASE(unslice, {.attrs = UnsliceAttrs{{5}, {{-1}, {-100}, {0}, {-2}}},
                  .in = {In::of({3}, {1, 2, 3})},
                  .expect = {{3, 0, 2, 0, 1}}})
OP_CASE(pad, {.attrs = PadAttrs{{1, 0}, {0, 2}}, .in = {{2, 3}}})
OP_CASE(pad, {.attrs = PadAttrs{{1, -1}, {-1, 2}, PadMode::constant, 3.5}, .in = {{3, 3}}})
OP_CASE(pad, {.attrs = PadAttrs{{-5}, {3}}, .in = {{3}}, .expect = {{0}}})
OP_CASE(pad, {.attrs = PadAttrs{{2, 1}, {1, 2}, PadMode::reflect}, .in = {{3, 4}}})
OP_CASE(pad, {.attrs = PadAttrs{{2}, {3}, PadMode::reflect},
              .in = {In::of({3}, {1, 2, 3})},
              .expect = {{3, 2, 1, 2, 3, 2, 1, 2}}})
OP_CASE(pad, {.attrs = PadAttrs{{2, 0}, {1, 2}, PadMode::edge}, .in = {{3, 4}}})
OP_CASE(pad, {.attrs = PadAttrs{{2, -1}, {4, 1}, PadMode::wrap}, .in = {{3, 4}}})
OP_CASE(pad, {.attrs = PadAttrs{{1}, {1}, PadMode::reflect},
              .in = {In::of({1}, {7})},
              .expect = {{7, 7, 7}}})
OP_CASE(pad, {.attrs = PadAttrs{{1, 0}, {1, 0}}, .in = {{0, 2}}, .expect = {{0, 0, 0, 0}}})
OP_CASE(pad, {.in = {{}}})
OP_CASE(pad_dyn, {.in = {{2, 3}, In::ints({1, 0, 0, 2}), In::of({}, {9}).as_constant()},
                  .expect_shape = Shape{3, 5}})
OP_CASE(pad_dyn, {.attrs = PadDynAttrs{PadMode::edge},
                  .in = {{2, 3}, In::ints({1, 1}), In::none(), In::ints({-1})},
                  .expect_shape = Shape{2, 5}})

OP_REJECTS(slice, {.attrs = SliceAttrs{{0}, {1, 2}, {}, {}}, .in = {{2, 2}}},
           "1, 2, 0 and 0 entries")
OP_REJECTS(slice, {.attrs = SliceAttrs{{0}, {1}, {0}, {0}}, .in = {{2}}}, "a step is 0")
OP_REJECTS(slice, {.attrs = SliceAttrs{{0}, {1}, {2}, {}}, .in = {{2, 2}}}, "axis 2 does not exist")
OP_REJECTS(slice, {.attrs = SliceAttrs{{0, 0}, {1, 1}, {0, -2}, {}}, .in = {{2, 2}}}, "named twice")
OP_REJECTS(slice, {.attrs = SliceAttrs{{0, 0}, {1, 1}, {}, {}}, .in = {{2}}}, "2 axes are sliced")
OP_REJECTS(unslice, {.attrs = UnsliceAttrs{{4}, {{1}, {3}, {0}, {}}}, .in = {{3}}}, "does not fill")
OP_REJECTS(pad, {.attrs = PadAttrs{{1}, {1}}, .in = {{2, 2}}}, "1 and 1 paddings")
OP_REJECTS(pad, {.attrs = PadAttrs{{-2}, {-2}}, .in = {{3}}}, "crop more than axis 0")
OP_REJECTS(pad, {.attrs = PadAttrs{{1}, {0}, PadMode::edge}, .in = {{0}}}, "nothing to pad with")
OP_REJECTS(pad_dyn, {.in = {{2, 3}, In::ints({1, 0})}}, "2 paddings are given for 2 axes")
