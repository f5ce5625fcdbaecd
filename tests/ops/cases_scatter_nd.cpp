// SPDX-License-Identifier: Apache-2.0
// Cases for gather_nd and scatter_nd, top_k, hardmax and reversed sequences.
#include <cmath>

#include "hone/op_attrs_index.hpp"
#include "tests/ops/op_case.hpp"

using namespace hone;
using hone::test::Grad;
using hone::test::In;

namespace {
In positions(const Shape& shape, std::vector<double> values) {
  return In::typed(DType::i64, shape, std::move(values));
}
}  // namespace

OP_CASE(gather_nd, {.in = {In::of({2, 2}, {0, 1, 2, 3}), positions({2, 2}, {0, 0, 1, -1})},
                    .expect = {{0, 3}}})
OP_CASE(gather_nd, {.in = {{3, 4, 2}, positions({2, 3, 1}, {0, 2, 1, 1, -1, 0})},
                    .expect_shape = Shape{2, 3, 4, 2}})
OP_CASE(gather_nd, {.attrs = GatherNdAttrs{1},
                    .in = {{2, 3, 2}, positions({2, 2, 1}, {1, 0, 2, 2})},
                    .expect_shape = Shape{2, 2, 2}})
OP_CASE(gather_nd, {.in = {{3, 2}, positions({0, 1}, {})}, .expect_shape = Shape{0, 2}})
OP_CASE(scatter_nd, {.in = {{5}, positions({3, 1}, {4, 0, -3}), {3}}})
OP_CASE(scatter_nd, {.attrs = ScatterNdAttrs{ScatterMode::add},
                     .in = {{4, 2, 2}, positions({3, 1}, {0, 2, 0}), {3, 2, 2}}})
OP_CASE(scatter_nd, {.attrs = ScatterNdAttrs{ScatterMode::mul},
                     .in = {{4, 2}, positions({3, 2}, {0, 1, 2, 0, 0, 1}), {3}}})
OP_CASE(scatter_nd, {.attrs = ScatterNdAttrs{ScatterMode::max},
                     .in = {{5}, positions({4, 1}, {0, 1, 1, 3}), {4}}})
OP_CASE(scatter_nd, {.attrs = ScatterNdAttrs{ScatterMode::min},
                     .in = {{5}, positions({4, 1}, {0, 1, 1, 3}), {4}}})
OP_CASE(scatter_nd, {.attrs = ScatterNdAttrs{ScatterMode::add, 1},
                     .in = {{2, 3}, positions({2, 2, 1}, {0, 0, 2, 1}), {2, 2}}})
OP_CASE(scatter_nd, {.attrs = ScatterNdAttrs{ScatterMode::add},
                     .in = {In::of({3}, {1, 2, 3}), positions({2, 1}, {1, 1}), In::of({2}, {5, 7})},
                     .expect = {{1, 14, 3}}})

OP_CASE(top_k, {.attrs = TopKAttrs{2, -1, true, true},
                .in = {In::of({2, 3}, {1, 3, 2, 5, 5, 4})},
                .grad = Grad::skip,
                .expect = {{3, 2, 5, 5}, {1, 2, 0, 1}}})
OP_CASE(top_k, {.attrs = TopKAttrs{2, 0, false, true},
                .in = {In::of({3, 1}, {NAN, 7, -1})},
                .grad = Grad::skip,
                .expect = {{-1, 7}, {2, 1}}})
OP_CASE(top_k, {.attrs = TopKAttrs{3, 1, true, true}, .in = {{2, 5, 3}}})
OP_CASE(top_k, {.attrs = TopKAttrs{0, 0, true, true}, .in = {{3}}, .expect_shape = Shape{0}})
OP_CASE(top_k_dyn, {.in = {{2, 5}, In::ints({2})}, .expect_shape = Shape{2, 2}})
OP_CASE(hardmax, {.attrs = AxisAttrs{-1},
                  .in = {In::of({2, 3}, {1, 3, 3, 5, 0, -1})},
                  .grad = Grad::skip,
                  .expect = {{0, 1, 0, 1, 0, 0}}})
OP_CASE(hardmax, {.attrs = AxisAttrs{0}, .in = {{3, 2}}, .grad = Grad::skip})
OP_CASE(reverse_sequence, {.in = {In::of({3, 2}, {0, 1, 2, 3, 4, 5}), positions({2}, {3, 2})},
                           .expect = {{4, 3, 2, 1, 0, 5}}})
OP_CASE(reverse_sequence,
        {.attrs = ReverseSequenceAttrs{0, 1}, .in = {{2, 4, 3}, positions({2}, {0, 4})}})

OP_REJECTS(gather_nd, {.in = {{2, 2}, positions({1, 2}, {0, 2})}}, "index 2 (row 0)")
OP_REJECTS(gather_nd, {.in = {{2}, positions({1, 2}, {0, 0})}}, "name 2 axes")
OP_REJECTS(gather_nd, {.attrs = GatherNdAttrs{1}, .in = {{2, 2}, positions({3, 1}, {0, 0, 0})}},
           "differ on batch axis 0")
OP_REJECTS(scatter_nd, {.in = {{3}, positions({2, 1}, {0, 1}), {3}}}, "expected [2]")
OP_REJECTS(scatter_nd, {.in = {{3}, positions({1, 1}, {-4}), {1}}}, "index -4")
OP_REJECTS(top_k, {.attrs = TopKAttrs{4, 0, true, true}, .in = {{3}}}, "cannot take 4 elements")
OP_REJECTS(top_k_dyn, {.in = {{3}, In::indices({1}, 2)}}, "known before running")
OP_REJECTS(hardmax, {.attrs = AxisAttrs{2}, .in = {{3, 2}}}, "axis 2 does not exist")
OP_REJECTS(reverse_sequence, {.in = {{3, 2}, positions({2}, {4, 0})}}, "length 4 of sequence 0")
OP_REJECTS(reverse_sequence, {.in = {{3, 2}, positions({3}, {1, 1, 1})}}, "a length for each of 2")
