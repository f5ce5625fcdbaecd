// SPDX-License-Identifier: Apache-2.0
// Cases for operators on pairs of elements.
#include <cmath>
#include <limits>

#include "tests/ops/op_case.hpp"

using namespace hone;
using hone::test::Grad;
using hone::test::In;

OP_CASE(add, {.in = {{3, 5}, {3, 5}}})
OP_CASE(sub, {.in = {{3, 5}, {3, 5}}})
OP_CASE(mul, {.in = {{3, 5}, {3, 5}}})
OP_CASE(div, {.in = {{3, 5}, In::within({3, 5}, 0.5, 2)}})
OP_CASE(pow, {.in = {In::within({3, 5}, 0.3, 2), {3, 5}}})
OP_CASE(maximum, {.in = {{3, 5}, {3, 5}}})
OP_CASE(minimum, {.in = {{3, 5}, {3, 5}}})
OP_CASE(mod, {.in = {In::within({3, 5}, 3, 9), In::within({3, 5}, 1.1, 2.4)}})
OP_CASE(equal, {.in = {{3, 5}, {3, 5}}})
OP_CASE(less, {.in = {{3, 5}, {3, 5}}})
OP_CASE(less_equal, {.in = {{3, 5}, {3, 5}}})
OP_CASE(greater, {.in = {{3, 5}, {3, 5}}})
OP_CASE(greater_equal, {.in = {{3, 5}, {3, 5}}})
OP_CASE(logical_and, {.in = {{4, 4}, {4}}, .dtype = DType::bool_})
OP_CASE(logical_or, {.in = {{4, 4}, {4}}, .dtype = DType::bool_})
OP_CASE(logical_xor, {.in = {{4, 4}, {4}}, .dtype = DType::bool_})
OP_CASE(where, {.in = {In::bools({3, 5}), {3, 5}, {3, 5}}})

// Broadcasting: a scalar either side, rows, columns, both at once, a middle axis, different ranks.
OP_CASE(sub, {.in = {{3, 5}, {}}})
OP_CASE(sub, {.in = {{}, {3, 5}}})
OP_CASE(div, {.in = {{3, 5}, In::within({5}, 0.5, 2)}})
OP_CASE(div, {.in = {{3, 1}, In::within({3, 5}, 0.5, 2)}})
OP_CASE(mul, {.in = {{3, 1}, {1, 5}}})
OP_CASE(mul, {.in = {{2, 3, 4}, {2, 1, 4}}})
OP_CASE(sub, {.in = {{2, 1, 3, 1}, {4, 1, 2}}})
OP_CASE(add,
        {.in = {{2, 300}, {2, 1}}, .grad = Grad::skip})  // longer than a block of a narrow type
OP_CASE(less, {.in = {{2, 300}, {300}}})
OP_CASE(where, {.in = {In::bools({3, 1}), {5}, {}}})
OP_CASE(where, {.in = {In::bools({}), {2, 2}, {2, 1}}})
OP_CASE(add, {.in = {{0, 3}, {3}}})
OP_CASE(add, {.in = {{}, {}}})

// Integers neither trap nor overflow into undefined behaviour.
OP_CASE(div, {.in = {In::of({4}, {7, -7, 5, -128}), In::of({4}, {2, 2, 0, -1})},
              .dtype = DType::i8,
              .expect = {{3, -3, 0, -128}}})
OP_CASE(mod, {.in = {In::of({5}, {7, -7, 7, -7, 5}), In::of({5}, {3, 3, -3, -3, 0})},
              .dtype = DType::i32,
              .expect = {{1, 2, -2, -1, 0}}})
OP_CASE(mod, {.in = {In::typed(DType::f64, {2}, {7, -7}), In::typed(DType::f64, {2}, {3, 3})},
              .expect = {{1, -1}}})
OP_CASE(mul, {.in = {In::of({1}, {9e18}), In::of({1}, {4})}, .dtype = DType::i64})
OP_CASE(pow, {.in = {In::of({5}, {2, -2, 2, 1, -1}), In::of({5}, {10, 3, -1, -5, -3})},
              .dtype = DType::i64,
              .expect = {{1024, -8, 0, 1, -1}}})
OP_CASE(maximum, {.in = {In::of({2}, {NAN, 1}), In::of({2}, {1, NAN})},
                  .grad = Grad::skip,
                  .expect = {{NAN, NAN}}})

OP_REJECTS(add, {.in = {{2, 3}, {4}}}, "do not broadcast")
OP_REJECTS(add, {.in = {{2}, In::typed(DType::i32, {2}, {1, 2})}}, "both need one dtype")
OP_REJECTS(add, {.in = {{2}, {2}}, .dtype = DType::bool_}, "expected a number type")
OP_REJECTS(logical_and, {.in = {{2}, {2}}}, "expected bool")
OP_REJECTS(where, {.in = {{2}, {2}, {2}}}, "expected bool")
OP_REJECTS(where, {.in = {In::bools({3}), {2}, {2}}}, "do not broadcast")
OP_REJECTS(add, {.in = {{2}}}, "takes 2 inputs, got 1")
