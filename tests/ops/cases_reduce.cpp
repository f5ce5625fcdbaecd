// SPDX-License-Identifier: Apache-2.0
// Cases for reductions.
#include <cmath>

#include "tests/ops/op_case.hpp"

using namespace hone;
using hone::test::Grad;
using hone::test::In;

OP_CASE(sum, {.in = {{3, 5}}})
OP_CASE(sum, {.attrs = ReduceAttrs{{1}, true}, .in = {{3, 5}}, .expect_shape = Shape{3, 1}})
OP_CASE(sum, {.attrs = ReduceAttrs{{0}, false}, .in = {{3, 5}}, .expect_shape = Shape{5}})
OP_CASE(sum, {.attrs = ReduceAttrs{{-1, 0}, false}, .in = {{2, 3, 4}}, .expect_shape = Shape{3}})
OP_CASE(sum, {.attrs = ReduceAttrs{{1, 3}, true}, .in = {{2, 3, 2, 5}}})
OP_CASE(sum, {.attrs = ReduceAttrs{{1}, true}, .in = {{4, 1, 3}}})
OP_CASE(sum, {.attrs = ReduceAttrs{{1}, false}, .in = {{3, 300}}, .grad = Grad::check})
OP_CASE(sum, {.attrs = ReduceAttrs{{0}, false}, .in = {{300, 3}}, .grad = Grad::check})
OP_CASE(sum, {.attrs = ReduceAttrs{{0}, false}, .in = {{2, 300}}, .grad = Grad::check})
OP_CASE(sum, {.in = {{}}})
OP_CASE(sum, {.in = {{0, 3}}, .expect = {{0}}})
OP_CASE(sum, {.attrs = ReduceAttrs{{1}, false}, .in = {{0, 3}}, .expect_shape = Shape{0}})
OP_CASE(mean, {.attrs = ReduceAttrs{{1}, true}, .in = {{3, 5}}})
OP_CASE(mean, {.attrs = ReduceAttrs{{0, 2}, false}, .in = {{2, 3, 4}}})
OP_CASE(mean, {.in = {{0}}, .grad = Grad::skip, .expect = {{NAN}}})
OP_CASE(max, {.attrs = ReduceAttrs{{1}, true}, .in = {{3, 5}}})
OP_CASE(max, {.attrs = ReduceAttrs{{0}, false}, .in = {{3, 40}}})
OP_CASE(max, {.in = {In::of({3}, {1, NAN, 2})}, .grad = Grad::skip, .expect = {{NAN}}})
OP_CASE(max, {.in = {{0}}, .grad = Grad::skip, .expect = {{-INFINITY}}})
OP_CASE(min, {.attrs = ReduceAttrs{{1}, true}, .in = {{3, 5}}})
OP_CASE(min, {.attrs = ReduceAttrs{{1, 2}, false}, .in = {{3, 2, 7}}})
OP_CASE(prod, {.attrs = ReduceAttrs{{1}, true}, .in = {{3, 5}}})
OP_CASE(prod, {.attrs = ReduceAttrs{{0, 2}, false}, .in = {{2, 3, 3}}})
OP_CASE(prod, {.attrs = ReduceAttrs{{0}, false},
               .in = {In::of({3, 2}, {2, 0, 3, 0, 0, 4})},
               .expect = {{0, 0}}})
OP_CASE(prod, {.in = {{0, 2}}, .expect = {{1}}})
OP_CASE(l2_norm, {.attrs = ReduceAttrs{{1}, true}, .in = {{3, 5}}})
OP_CASE(l2_norm, {.attrs = ReduceAttrs{{0, 2}, false}, .in = {{3, 2, 4}}})
OP_CASE(l2_norm, {.in = {In::of({2}, {300, -400})}, .grad = Grad::skip, .expect = {{500}}})
OP_CASE(l2_norm, {.in = {{0, 2}}, .expect = {{0}}})
OP_REJECTS(l2_norm, {.in = {{2}}, .dtype = DType::i32}, "expected floating point")
OP_CASE(argmax, {.attrs = ArgAttrs{1}, .in = {{3, 5}}})
OP_CASE(argmax, {.attrs = ArgAttrs{0, false}, .in = {{3, 5}}, .expect_shape = Shape{5}})
OP_CASE(argmax, {.in = {In::of({5}, {1, 3, 2, 3, 0})}, .expect = {{1}}})
OP_CASE(argmax,
        {.attrs = ArgAttrs{0, true, true}, .in = {In::of({5}, {1, 3, 2, 3, 0})}, .expect = {{3}}})
OP_CASE(argmax, {.in = {In::of({4}, {1, NAN, 2, NAN})}, .expect = {{1}}})
OP_CASE(argmin, {.attrs = ArgAttrs{-1}, .in = {{3, 5}}})
OP_CASE(argmin, {.attrs = ArgAttrs{1}, .in = {{2, 3, 2}}})
OP_CASE(cumsum, {.attrs = CumsumAttrs{1}, .in = {{3, 5}}})
OP_CASE(cumsum, {.attrs = CumsumAttrs{0, true}, .in = {{3, 5}}})
OP_CASE(cumsum, {.attrs = CumsumAttrs{1, false, true}, .in = {{2, 3, 2}}})
OP_CASE(cumsum, {.attrs = CumsumAttrs{-1, true, true},
                 .in = {In::of({3}, {1, 2, 3})},
                 .expect = {{5, 3, 0}}})
// C08: exclusive on an axis of length one, and of nothing.
OP_CASE(cumsum, {.attrs = CumsumAttrs{0, true}, .in = {In::of({1, 2}, {1, 2})}, .expect = {{0, 0}}})
OP_CASE(cumsum,
        {.attrs = CumsumAttrs{-2, true}, .in = {In::of({1, 2}, {1, 2})}, .expect = {{0, 0}}})
OP_CASE(cumsum, {.attrs = CumsumAttrs{0, true}, .in = {{0, 3}}, .expect_shape = Shape{0, 3}})

OP_REJECTS(sum, {.attrs = ReduceAttrs{{2}}, .in = {{2, 3}}}, "axis 2 does not exist")
OP_REJECTS(sum, {.attrs = ReduceAttrs{{0, -2}}, .in = {{2, 3}}}, "named twice")
OP_REJECTS(sum, {.in = {{2}}, .dtype = DType::bool_}, "expected a number type")
OP_REJECTS(max, {.in = {{0}}, .dtype = DType::i32}, "no elements")
OP_REJECTS(argmax, {.in = {{0}}}, "no elements on axis 0")
OP_REJECTS(argmax, {.in = {{}}}, "axis 0 does not exist")
OP_REJECTS(cumsum, {.attrs = CumsumAttrs{3}, .in = {{2}}}, "axis 3 does not exist")
