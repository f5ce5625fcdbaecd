// SPDX-License-Identifier: Apache-2.0
// Operators whose output shapes depend on what their inputs contain: here these are constants.
// tests/runtime/control_test.cpp has them with inputs that are computed.
#include "hone/select.hpp"
#include "tests/ops/op_case.hpp"

namespace hone::test {

OP_CASE(nonzero, {.in = {In::of({2, 3}, {0, 1, -2, 3, 0, 0}).as_constant()},
                  .grad = Grad::skip,
                  .expect = {{0, 0, 1, 1, 2, 0}},
                  .expect_shape = Shape{2, 3}})
OP_CASE(nonzero, {.in = {In::typed(DType::bool_, {3}, {0, 0, 0}).as_constant()},
                  .grad = Grad::skip,
                  .expect_shape = Shape{1, 0}})
OP_CASE(nonzero,
        {.in = {In::of({}, {-0.0}).as_constant()}, .grad = Grad::skip, .expect_shape = Shape{0, 0}})
OP_REJECTS(nonzero, {.in = {{2, 3}}}, "depends on data")

// The examples of ONNX Unique.
OP_CASE(unique, {.attrs = UniqueAttrs{},
                 .in = {In::of({6}, {2, 1, 1, 3, 4, 3}).as_constant()},
                 .grad = Grad::skip,
                 .expect = {{1, 0, 3, 4}, {1, 0, 0, 2, 3, 2}, {2, 1, 2, 1}}})
OP_CASE(unique, {.attrs = UniqueAttrs{.sorted = false},
                 .in = {In::of({6}, {2, 1, 1, 3, 4, 3}).as_constant()},
                 .grad = Grad::skip,
                 .expect = {{0, 1, 3, 4}, {0, 1, 1, 2, 3, 2}, {1, 2, 2, 1}}})
OP_CASE(unique, {.attrs = UniqueAttrs{.flat = false, .axis = 0},
                 .in = {In::of({3, 3}, {1, 0, 0, 1, 0, 0, 2, 3, 4}).as_constant()},
                 .grad = Grad::skip,
                 .expect = {{0, 2}, {0, 0, 1}, {2, 1}}})
OP_CASE(unique, {.attrs = UniqueAttrs{.flat = false, .axis = -2},
                 .in = {In::of({2, 3, 1}, {5, 4, 5, 1, 2, 1}).as_constant()},
                 .grad = Grad::skip,
                 .expect = {{1, 0}, {1, 0, 1}, {1, 2}}})
OP_REJECTS(unique, {.attrs = UniqueAttrs{.flat = false, .axis = 2}, .in = {{2, 3}}}, "axis 2")

// Boxes 0, 1, 2 overlap by more than a half, 3, 4 and 5 lie elsewhere (ONNX NonMaxSuppression's
// example).
const In kBoxes =
    In::typed(DType::f32, {1, 6, 4}, {0, 0,    1, 1,    0, 0.1,  1, 1.1,  0, -0.1, 1, 0.9,
                                      0, 10.0, 1, 11.0, 0, 10.1, 1, 11.1, 0, 100,  1, 101})
        .as_constant();
const In kScores = In::typed(DType::f32, {1, 1, 6}, {0.9, 0.75, 0.6, 0.95, 0.5, 0.3}).as_constant();
In number(DType t, double v) { return In::typed(t, {1}, {v}).as_constant(); }

OP_CASE(non_max_suppression, {.attrs = NonMaxSuppressionAttrs{},
                              .in = {kBoxes, kScores, number(DType::i64, 3),
                                     number(DType::f32, 0.5), number(DType::f32, 0)},
                              .grad = Grad::skip,
                              .expect = {{0, 0, 3, 0, 0, 0, 0, 0, 5}}})
OP_CASE(non_max_suppression, {.attrs = NonMaxSuppressionAttrs{},
                              .in = {kBoxes, kScores, number(DType::i64, 2),
                                     number(DType::f32, 0.5), number(DType::f32, 0.4)},
                              .grad = Grad::skip,
                              .expect = {{0, 0, 3, 0, 0, 0}}})
OP_CASE(non_max_suppression, {.attrs = NonMaxSuppressionAttrs{},
                              .in = {kBoxes, kScores},
                              .grad = Grad::skip,
                              .expect_shape = Shape{0, 3}})
OP_REJECTS(non_max_suppression,
           {.attrs = NonMaxSuppressionAttrs{},
            .in = {In::typed(DType::f32, {1, 1, 3}, {0, 0, 0}), kScores}},
           "do not belong together")

}  // namespace hone::test
