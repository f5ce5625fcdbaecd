// SPDX-License-Identifier: Apache-2.0
// Cases for trigonometric and hyperbolic functions, and for operators on bits.
#include <cmath>

#include "hone/op_attrs_index.hpp"
#include "tests/ops/op_case.hpp"

using namespace hone;
using hone::test::Grad;
using hone::test::In;

OP_CASE(tan, {.in = {{3, 5}}, .range = {-1.2, 1.2}})
OP_CASE(asin, {.in = {{3, 5}}, .range = {-0.9, 0.9}})
OP_CASE(acos, {.in = {{3, 5}}, .range = {-0.9, 0.9}})
OP_CASE(acos, {.in = {In::of({3}, {1, 0, 2})},
               .grad = Grad::skip,
               .expect = {{0, 1.5707963267948966, NAN}}})
OP_CASE(atan, {.in = {{3, 5}}})
OP_CASE(sinh, {.in = {{3, 5}}})
OP_CASE(cosh, {.in = {{3, 5}}})
OP_CASE(asinh, {.in = {{3, 5}}})
OP_CASE(acosh, {.in = {{3, 5}}, .range = {1.2, 4}})
OP_CASE(atanh, {.in = {{3, 5}}, .range = {-0.9, 0.9}})
OP_CASE(is_inf, {.in = {In::of({4}, {INFINITY, -INFINITY, 0, NAN})}, .expect = {{1, 1, 0, 0}}})
OP_CASE(is_inf, {.attrs = IsInfAttrs{false, true},
                 .in = {In::of({3}, {INFINITY, -INFINITY, 1})},
                 .expect = {{1, 0, 0}}})

OP_CASE(bitwise_and, {.in = {In::of({3}, {12, 255, 0}), In::of({3}, {10, 15, 7})},
                      .dtype = DType::u8,
                      .expect = {{8, 15, 0}}})
OP_CASE(bitwise_or, {.in = {In::of({2, 1}, {12, -1}), In::of({2}, {10, 5})},
                     .dtype = DType::i32,
                     .expect = {{14, 13, -1, -1}}})
OP_CASE(bitwise_xor, {.in = {In::of({2}, {12, -1}), In::of({2}, {10, 5})},
                      .dtype = DType::i64,
                      .expect = {{6, -6}}})
OP_CASE(bitwise_not,
        {.in = {In::of({3}, {0, 1, 200})}, .dtype = DType::u8, .expect = {{255, 254, 55}}})
OP_CASE(bitwise_not, {.in = {In::of({2}, {0, -128})}, .dtype = DType::i8, .expect = {{-1, 127}}})
OP_CASE(shift_left, {.in = {In::of({3}, {1, 200, 3}), In::of({3}, {4, 1, 99})},
                     .dtype = DType::u8,
                     .expect = {{16, 144, 0}}})
OP_CASE(shift_right, {.in = {In::of({3}, {16, 200, 3}), In::of({3}, {4, 1, 99})},
                      .dtype = DType::u8,
                      .expect = {{1, 100, 0}}})
OP_CASE(shift_right, {.in = {In::of({2}, {-8, -1}), In::of({2}, {1, 64})},
                      .dtype = DType::i64,
                      .expect = {{-4, -1}}})

OP_REJECTS(tan, {.in = {{2}}, .dtype = DType::i32}, "expected floating point")
OP_REJECTS(bitwise_and, {.in = {{2}, {2}}}, "expected integers")
OP_REJECTS(bitwise_not, {.in = {{2}}, .dtype = DType::bool_}, "expected integers")
OP_REJECTS(shift_left, {.in = {{2}, {3}}, .dtype = DType::i32}, "broadcast")
