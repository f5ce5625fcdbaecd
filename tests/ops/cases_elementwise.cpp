// SPDX-License-Identifier: Apache-2.0
// Cases for operators on single elements.
#include <cmath>

#include "tests/ops/op_case.hpp"

using namespace hone;
using hone::test::Grad;
using hone::test::In;

OP_CASE(neg, {.in = {{3, 5}}})
OP_CASE(neg, {.in = {In::of({3}, {-128, 0, 127})}, .dtype = DType::i8, .expect = {{-128, 0, -127}}})
OP_CASE(abs, {.in = {{3, 5}}})
OP_CASE(abs, {.in = {In::of({3}, {-5, 0, 7})}, .grad = Grad::skip, .expect = {{5, 0, 7}}})
OP_CASE(exp, {.in = {{3, 5}}})
OP_CASE(log, {.in = {{3, 5}}, .range = {0.2, 3}})
OP_CASE(sqrt, {.in = {{3, 5}}, .range = {0.2, 3}})
OP_CASE(rsqrt, {.in = {{3, 5}}, .range = {0.2, 3}})
OP_CASE(reciprocal, {.in = {{3, 5}}, .range = {0.3, 2}})
OP_CASE(sin, {.in = {{3, 5}}})
OP_CASE(cos, {.in = {{3, 5}}})
OP_CASE(tanh, {.in = {{3, 5}}})
OP_CASE(erf, {.in = {{3, 5}}})
OP_CASE(sign, {.in = {{3, 5}}})
OP_CASE(sign,
        {.in = {In::of({4}, {-2, 0, 3, NAN})}, .grad = Grad::skip, .expect = {{-1, 0, 1, NAN}}})
OP_CASE(floor, {.in = {{3, 5}}})
OP_CASE(ceil, {.in = {{3, 5}}})
OP_CASE(round, {.in = {{3, 5}}})
OP_CASE(round, {.in = {In::of({5}, {-1.5, -0.5, 0.5, 1.5, 2.5})},
                .grad = Grad::skip,
                .expect = {{-2, 0, 0, 2, 2}}})
OP_CASE(logical_not, {.in = {In::of({2}, {0, 1})}, .dtype = DType::bool_, .expect = {{1, 0}}})
OP_CASE(is_nan, {.in = {In::of({3}, {0, NAN, INFINITY})}, .expect = {{0, 1, 0}}})
OP_CASE(identity, {.in = {{3, 5}}})
OP_CASE(stop_gradient, {.in = {{3, 5}}, .grad = Grad::skip})
OP_CASE(cast, {.attrs = CastAttrs{DType::f64}, .in = {{3, 5}}})
OP_CASE(cast, {.attrs = CastAttrs{DType::i8},
               .in = {In::of({6}, {-200, -1.7, 1.7, 300, NAN, INFINITY})},
               .expect = {{-128, -1, 1, 127, 0, 127}}})
OP_CASE(cast, {.attrs = CastAttrs{DType::bool_},
               .in = {In::of({3}, {0, 0.25, -3})},
               .expect = {{0, 1, 1}}})

// Scalars, empty tensors, and more elements than one block of a narrow type.
OP_CASE(exp, {.in = {{}}})
OP_CASE(exp, {.in = {{0, 3}}})
OP_CASE(tanh, {.in = {{3, 211}}, .grad = Grad::skip})

OP_REJECTS(exp, {.in = {{2}}, .dtype = DType::i32}, "expected floating point")
OP_REJECTS(neg, {.in = {{2}}, .dtype = DType::bool_}, "expected a number type")
OP_REJECTS(logical_not, {.in = {{2}}}, "expected bool")
OP_REJECTS(neg, {.in = {{2}, {2}}}, "takes 1 inputs, got 2")
