// SPDX-License-Identifier: Apache-2.0
// Cases for operators that read or write where an integer tensor says.
#include <cmath>

#include "tests/ops/op_case.hpp"

using namespace hone;
using hone::test::Grad;
using hone::test::In;

OP_CASE(gather, {.attrs = AxisAttrs{0}, .in = {{5, 3}, In::indices({4}, 5)}})
OP_CASE(gather, {.attrs = AxisAttrs{1}, .in = {{2, 5, 3}, In::indices({2, 2}, 5)}})
OP_CASE(gather, {.attrs = AxisAttrs{-1}, .in = {{2, 5}, In::typed(DType::i32, {3}, {0, -1, 4})}})
OP_CASE(gather, {.attrs = AxisAttrs{0},
                 .in = {{5, 3}, In::typed(DType::i64, {}, {-5})},
                 .expect_shape = Shape{3}})
OP_CASE(gather, {.attrs = AxisAttrs{0},
                 .in = {{5, 3}, In::typed(DType::i64, {0}, {})},
                 .expect_shape = Shape{0, 3}})
OP_CASE(gather,
        {.attrs = AxisAttrs{0}, .in = {{5, 0}, In::indices({2}, 5)}, .expect_shape = Shape{2, 0}})
OP_CASE(index_sum, {.attrs = IndexSumAttrs{0, 5}, .in = {{4, 3}, In::indices({4}, 5)}})
OP_CASE(index_sum, {.attrs = IndexSumAttrs{1, 3}, .in = {{2, 4, 2, 3}, In::indices({4, 2}, 3)}})
OP_CASE(index_sum, {.attrs = IndexSumAttrs{-1, 4}, .in = {{3, 6}, In::indices({6}, 4)}})
OP_CASE(index_sum, {.attrs = IndexSumAttrs{0, 2},
                    .in = {In::of({3}, {1, 2, 4}), In::typed(DType::i64, {3}, {1, -1, 0})},
                    .expect = {{4, 3}}})
OP_CASE(index_sum, {.attrs = IndexSumAttrs{0, 2},
                    .in = {{0, 3}, In::typed(DType::i64, {0}, {})},
                    .expect = {{0, 0, 0, 0, 0, 0}}})
OP_CASE(gather_elements, {.attrs = AxisAttrs{0}, .in = {{4, 3}, In::indices({2, 3}, 4)}})
OP_CASE(gather_elements, {.attrs = AxisAttrs{1}, .in = {{4, 3, 2}, In::indices({3, 5, 2}, 3)}})
OP_CASE(gather_elements,
        {.attrs = AxisAttrs{1},
         .in = {In::of({2, 2}, {1, 2, 3, 4}), In::typed(DType::i32, {2, 2}, {0, 0, 1, 0})},
         .expect = {{1, 1, 4, 3}}})
OP_CASE(scatter_elements, {.attrs = ScatterAttrs{0},
                           .in = {{4, 2}, In::typed(DType::i64, {2, 2}, {3, 0, -3, 2}), {2, 2}}})
OP_CASE(scatter_elements, {.attrs = ScatterAttrs{1, ScatterMode::add},
                           .in = {{3, 4}, In::indices({2, 6}, 4), {2, 6}}})
OP_CASE(scatter_elements,
        {.attrs = ScatterAttrs{0, ScatterMode::mul}, .in = {{5}, In::indices({6}, 5), {6}}})
OP_CASE(scatter_elements,
        {.attrs = ScatterAttrs{0, ScatterMode::mul},
         .in = {In::of({2}, {2, 3}), In::typed(DType::i64, {3}, {0, 0, 1}), In::of({3}, {0, 5, 0})},
         .grad = Grad::check,
         .expect = {{0, 0}}})
OP_CASE(scatter_elements,
        {.attrs = ScatterAttrs{0, ScatterMode::max}, .in = {{5}, In::indices({6}, 5), {6}}})
OP_CASE(scatter_elements, {.attrs = ScatterAttrs{0, ScatterMode::min},
                           .in = {{5, 2}, In::indices({6, 1}, 5), {6, 1}}})
OP_CASE(one_hot, {.in = {In::typed(DType::i64, {2, 2}, {0, -1, 2, 7}), In::ints({3}), {2}},
                  .expect_shape = Shape{2, 2, 3}})
OP_CASE(one_hot,
        {.attrs = AxisAttrs{0},
         .in = {In::typed(DType::i32, {3}, {1, -2, 5}), In::ints({2}), In::of({2}, {0, 1})},
         .expect = {{0, 1, 0, 1, 0, 0}}})

OP_REJECTS(gather, {.attrs = AxisAttrs{0}, .in = {{5, 3}, In::typed(DType::i64, {2}, {0, 5})}},
           "index 5 (number 1) is out of range for axis 0 of extent 5")
OP_REJECTS(gather, {.attrs = AxisAttrs{1}, .in = {{5, 3}, In::typed(DType::i64, {1}, {-4})}},
           "index -4")
OP_REJECTS(gather, {.attrs = AxisAttrs{0}, .in = {{0, 3}, In::typed(DType::i64, {1}, {0})}},
           "extent 0")
OP_REJECTS(gather, {.attrs = AxisAttrs{0}, .in = {{}, In::indices({1}, 1)}},
           "axis 0 does not exist")
OP_REJECTS(gather, {.attrs = AxisAttrs{0}, .in = {{3}, {2}}}, "expected i32 or i64")
OP_REJECTS(index_sum, {.attrs = IndexSumAttrs{0, 2}, .in = {{3, 2}, In::indices({4}, 2)}},
           "differ from axis 0")
OP_REJECTS(index_sum, {.attrs = IndexSumAttrs{0, 2}, .in = {{1}, In::typed(DType::i64, {1}, {2})}},
           "index 2")
OP_REJECTS(index_sum, {.attrs = IndexSumAttrs{0, 2}, .in = {{}, In::indices({1}, 2)}},
           "axis 0 does not exist")
OP_REJECTS(gather_elements, {.attrs = AxisAttrs{0}, .in = {{3, 2}, In::indices({3, 3}, 3)}},
           "do not fit")
OP_REJECTS(gather_elements, {.attrs = AxisAttrs{0}, .in = {{3, 2}, In::indices({3}, 3)}},
           "do not fit")
OP_REJECTS(gather_elements, {.attrs = AxisAttrs{0}, .in = {{3}, In::typed(DType::i64, {1}, {3})}},
           "index 3")
OP_REJECTS(scatter_elements, {.attrs = ScatterAttrs{0}, .in = {{3}, In::indices({2}, 3), {3}}},
           "differ in shape")
OP_REJECTS(scatter_elements,
           {.attrs = ScatterAttrs{0}, .in = {{3}, In::typed(DType::i64, {1}, {-4}), {1}}},
           "index -4")
OP_REJECTS(one_hot, {.in = {In::indices({2}, 2), In::typed(DType::i64, {}, {3}), {2}}},
           "known before running")
OP_REJECTS(one_hot, {.in = {In::indices({2}, 2), In::ints({3}), {3}}}, "expected [off, on]")
