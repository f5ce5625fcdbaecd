// SPDX-License-Identifier: Apache-2.0
// Cases for matrix products.
#include "tests/ops/op_case.hpp"

using namespace hone;
using hone::test::Grad;
using hone::test::In;

OP_CASE(matmul, {.in = {{2, 3}, {3, 4}}})
OP_CASE(matmul, {.attrs = MatmulAttrs{true, false}, .in = {{3, 2}, {3, 4}}})
OP_CASE(matmul, {.attrs = MatmulAttrs{false, true}, .in = {{2, 3}, {4, 3}}})
OP_CASE(matmul, {.attrs = MatmulAttrs{true, true}, .in = {{3, 2}, {4, 3}}})
OP_CASE(matmul, {.in = {{1, 5}, {5, 1}}, .expect_shape = Shape{1, 1}})
OP_CASE(matmul, {.in = {{2, 2, 3}, {2, 3, 2}}})
OP_CASE(matmul, {.in = {{2, 1, 2, 3}, {2, 3, 2}}, .expect_shape = Shape{2, 2, 2, 2}})
OP_CASE(matmul, {.in = {{2, 2, 3}, {3, 4}}})
OP_CASE(matmul, {.in = {{2, 3}, {2, 3, 4}}})
OP_CASE(matmul, {.attrs = MatmulAttrs{true, true}, .in = {{2, 3, 2}, {4, 3}}})
OP_CASE(matmul, {.attrs = MatmulAttrs{false, true}, .in = {{2, 2, 3}, {4, 3}}})
OP_CASE(matmul, {.in = {{33, 70}, {70, 65}}, .grad = Grad::check})
OP_CASE(matmul, {.in = {{2, 0}, {0, 2}}, .expect = {{0, 0, 0, 0}}})
OP_CASE(matmul, {.in = {{0, 3}, {3, 2}}, .expect_shape = Shape{0, 2}})
OP_REJECTS(matmul, {.in = {{2, 3}, {4, 5}}}, "the left operand has 3 columns, the right one 4 rows")
OP_REJECTS(matmul, {.in = {{3}, {3, 5}}}, "a matrix has at least two axes")
OP_REJECTS(matmul, {.in = {{2, 2, 3}, {3, 3, 5}}}, "do not broadcast")

OP_CASE(gemm, {.in = {{2, 3}, {3, 4}}})
OP_CASE(gemm, {.attrs = GemmAttrs{2, 0.5, false, true}, .in = {{2, 3}, {4, 3}, {4}}})
OP_CASE(gemm, {.attrs = GemmAttrs{1, 1, true, false}, .in = {{3, 2}, {3, 4}, {2, 1}}})
OP_CASE(gemm, {.attrs = GemmAttrs{0.5, 2, true, true}, .in = {{3, 2}, {4, 3}, {}}})
OP_REJECTS(gemm, {.in = {{2, 3}, {3, 1}, {3}}}, "does not broadcast to the product")
OP_REJECTS(gemm, {.in = {{1, 2, 3}, {3, 1}}}, "not a matrix")
OP_REJECTS(gemm, {.attrs = GemmAttrs{.alpha = 0.5}, .in = {{2, 3}, {3, 1}}, .dtype = DType::i32},
           "i32 matrices cannot be scaled by 0.5")
