// SPDX-License-Identifier: Apache-2.0
// Cases for activation functions.
#include <cmath>

#include "tests/ops/op_case.hpp"

using namespace hone;
using hone::test::Grad;
using hone::test::In;

OP_CASE(relu, {.in = {{3, 5}}})
OP_CASE(relu, {.in = {In::of({3}, {-1, 0, NAN})}, .grad = Grad::skip, .expect = {{0, 0, NAN}}})
OP_CASE(sigmoid, {.in = {{3, 5}}, .range = {-6, 6}})
OP_CASE(sigmoid, {.in = {In::of({3}, {-2000, 0, 2000})}, .expect = {{0, 0.5, 1}}})
OP_CASE(silu, {.in = {{3, 5}}, .range = {-6, 6}})
OP_CASE(gelu, {.in = {{3, 5}}, .range = {-4, 4}})
OP_CASE(gelu, {.attrs = GeluAttrs{GeluForm::tanh}, .in = {{3, 5}}, .range = {-4, 4}})
OP_CASE(gelu, {.in = {In::of({3}, {-100, 1, 100})}, .expect = {{0, 0.8413447460685429, 100}}})
OP_CASE(hard_sigmoid, {.in = {{3, 5}}, .range = {-6, 6}})
OP_CASE(hard_sigmoid, {.attrs = AlphaBetaAttrs{1.0 / 6, 0.5}, .in = {{20}}, .range = {-6, 6}})
OP_CASE(hard_swish, {.in = {{20}}, .range = {-6, 6}})
OP_CASE(leaky_relu, {.attrs = AlphaAttrs{0.01}, .in = {{3, 5}}})
OP_CASE(elu, {.in = {{3, 5}}})
OP_CASE(elu, {.attrs = AlphaAttrs{0.7}, .in = {{3, 5}}})
OP_CASE(softplus, {.in = {{3, 5}}, .range = {-6, 6}})
OP_CASE(softplus,
        {.in = {In::of({3}, {-2000, 0, 2000})}, .expect = {{0, 0.6931471805599453, 2000}}})
OP_CASE(clip, {.attrs = ClipAttrs{-1, 0.5}, .in = {{3, 5}}})
OP_CASE(clip, {.attrs = ClipAttrs{0}, .in = {{3, 5}}})
OP_CASE(clip, {.in = {{3, 5}}})
OP_CASE(prelu, {.in = {{2, 3, 4}, {3, 1}}})
OP_CASE(prelu, {.in = {{2, 3}, {}}})
// C06: one bound only, for integers too; high wins over low.
OP_CASE(clip, {.attrs = ClipAttrs{1},
               .in = {In::of({3}, {-5, 0, 7})},
               .dtype = DType::i32,
               .expect = {{1, 1, 7}}})
OP_CASE(clip, {.attrs = ClipAttrs{1},
               .in = {In::of({3}, {-5, 0, 7})},
               .dtype = DType::i64,
               .expect = {{1, 1, 7}}})
OP_CASE(clip, {.attrs = ClipAttrs{2, 1},
               .in = {In::of({3}, {-2, 0, 6})},
               .grad = Grad::skip,
               .expect = {{1, 1, 1}}})
OP_CASE(clip, {.attrs = ClipAttrs{0, 6},
               .in = {In::of({1}, {NAN})},
               .grad = Grad::skip,
               .expect = {{NAN}}})

OP_REJECTS(gelu, {.in = {{2}}, .dtype = DType::i64}, "expected floating point")
OP_REJECTS(relu, {.in = {{2}}, .dtype = DType::bool_}, "expected a number type")
OP_REJECTS(clip, {.attrs = ClipAttrs{0, 300}, .in = {{2}}, .dtype = DType::i8},
           "the bound 300 is out of range for i8")
OP_REJECTS(clip, {.attrs = ClipAttrs{NAN}, .in = {{2}}}, "a bound is NaN")
OP_REJECTS(prelu, {.in = {{2, 3}, {2}}}, "does not broadcast to the input")
OP_REJECTS(prelu, {.in = {{3}, {2, 3}}}, "does not broadcast to the input")
