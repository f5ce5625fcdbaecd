// SPDX-License-Identifier: Apache-2.0
// Cases for attention, rotary embedding and writing into a cache.
#include <cmath>
#include <limits>

#include "hone/attention_attrs.hpp"
#include "tests/ops/op_case.hpp"

using namespace hone;
using hone::test::Grad;
using hone::test::In;

namespace {
const In kPositions = In::typed(DType::i64, {2, 3}, {0, 1, 2, 1, 2, 3});
}  // namespace

// B = 2, H = 2, L = 3, S = 4, D = 4, V = 3
OP_CASE(attention, {.in = {{2, 2, 3, 4}, {2, 2, 4, 4}, {2, 2, 4, 3}}, .grad = Grad::check})
OP_CASE(attention,
        {.attrs = AttentionAttrs{.causal = true}, .in = {{1, 2, 3, 4}, {1, 2, 3, 4}, {1, 2, 3, 4}}})
OP_CASE(attention, {.attrs = AttentionAttrs{.scale = 0.3, .scores = ScoreOutput::softmax},
                    .in = {{1, 4, 2, 2}, {1, 2, 3, 2}, {1, 2, 3, 2}, {2, 3}},
                    .grad = Grad::check})
OP_CASE(attention, {.attrs = AttentionAttrs{.softcap = 2, .scores = ScoreOutput::softcapped},
                    .in = {{1, 2, 2, 2}, {1, 2, 3, 2}, {1, 2, 3, 2}, {1, 2, 2, 3}},
                    .grad = Grad::check})
OP_CASE(
    attention,
    {.attrs = AttentionAttrs{.heads = 4, .kv_heads = 2, .causal = true, .scores = ScoreOutput::raw},
     .in = {{2, 2, 8}, {2, 2, 4}, {2, 2, 6}, In::none(), {2, 2, 3, 2}, {2, 2, 3, 3}},
     .grad = Grad::check,
     .expect_shape = Shape{2, 2, 12}})
OP_CASE(attention, {.attrs = AttentionAttrs{.has_softmax_dtype = true, .softmax_dtype = DType::f64},
                    .in = {{1, 1, 2, 2},
                           {1, 1, 4, 2},
                           {1, 1, 4, 2},
                           In::typed(DType::bool_, {2, 2}, {1, 0, 1, 1})}})
OP_CASE(attention, {.in = {{2, 1, 2, 2},
                           {2, 1, 3, 2},
                           {2, 1, 3, 2},
                           In::none(),
                           In::none(),
                           In::none(),
                           In::typed(DType::i64, {2}, {2, 3})}})
// Equal keys share equally.
OP_CASE(attention,
        {.in = {In::of({1, 1, 1, 2}, {1, 2}), In::of({1, 1, 2, 2}, {3, 4, 3, 4}),
                In::of({1, 1, 2, 1}, {10, 20})},
         .expect = {{15}, {3, 4, 3, 4}, {10, 20}, {11 / std::sqrt(2.0), 11 / std::sqrt(2.0)}}})

OP_REJECTS(attention, {.in = {{1, 3, 2, 2}, {1, 2, 2, 2}, {1, 2, 2, 2}}},
           "2 heads of keys do not divide 3 heads of queries")
OP_REJECTS(attention, {.in = {{1, 2, 4}, {1, 2, 4}, {1, 2, 4}}}, "need the numbers of heads")
OP_REJECTS(attention, {.in = {{1, 2, 2, 2}, {1, 2, 3, 2}, {1, 2, 3, 2}, {4, 3}}},
           "does not broadcast to the scores")
OP_REJECTS(attention, {.in = {{1, 2, 2, 2}, {1, 2, 3, 2}, {1, 2, 3, 2}, In::none(), {1, 2, 1, 2}}},
           "expected both or none")

// B = 2, H = 2, L = 3, S = 4, D = 5, V = 3
OP_CASE(scaled_dot_product_attention, {.in = {{2, 2, 3, 5}, {2, 2, 4, 5}, {2, 2, 4, 3}}})
OP_CASE(scaled_dot_product_attention, {.attrs = DotProductAttentionAttrs{.causal = true},
                                       .in = {{1, 2, 3, 4}, {1, 2, 3, 4}, {1, 2, 3, 4}}})
// Two heads of queries for each of keys, tokens first, a learned mask.
OP_CASE(scaled_dot_product_attention,
        {.attrs = DotProductAttentionAttrs{.scale = 0.3, .tokens_first = true},
         .in = {{2, 3, 4, 2}, {2, 5, 2, 2}, {2, 5, 2, 3}, {4, 3, 5}},
         .expect_shape = Shape{2, 3, 4, 3}})
OP_CASE(scaled_dot_product_attention,
        {.attrs = DotProductAttentionAttrs{.causal = true},
         .in = {{1, 4, 3, 2}, {1, 1, 3, 2}, {1, 1, 3, 2}, {1, 1, 1, 3}}})
// The second query may look at nothing.
OP_CASE(scaled_dot_product_attention,
        {.in = {In::of({1, 1, 2, 1}, {1, 2}), In::of({1, 1, 2, 1}, {3, 3}),
                In::of({1, 1, 2, 1}, {10, 20}), In::typed(DType::bool_, {2, 2}, {1, 1, 0, 0})},
         .grad = Grad::skip,
         .expect = {{15, 0}}})
OP_CASE(scaled_dot_product_attention,
        {.in = {{1, 2, 3, 2},
                {1, 2, 3, 2},
                {1, 2, 3, 2},
                In::typed(DType::bool_, {1, 3, 3}, {1, 0, 1, 1, 1, 0, 0, 0, 1})}})
OP_CASE(scaled_dot_product_attention, {.in = {{1, 1, 0, 2}, {1, 1, 3, 2}, {1, 1, 3, 2}}})
OP_REJECTS(scaled_dot_product_attention, {.in = {{1, 3, 2, 2}, {1, 2, 2, 2}, {1, 2, 2, 2}}},
           "2 heads of keys do not divide 3 heads of queries")
OP_REJECTS(scaled_dot_product_attention, {.in = {{1, 2, 2, 2}, {1, 2, 3, 4}, {1, 2, 3, 2}}},
           "do not fit")
OP_REJECTS(scaled_dot_product_attention, {.in = {{2, 2, 2}, {2, 2, 2}, {2, 2, 2}}},
           "has 3 dimensions [2, 2, 2], expected 4")
OP_REJECTS(scaled_dot_product_attention, {.in = {{1, 2, 2, 2}, {1, 2, 3, 2}, {1, 2, 3, 2}, {4, 3}}},
           "does not broadcast to the scores")

OP_CASE(scaled_dot_product_attention_grad,
        {.in = {{2, 2, 3, 5}, {2, 2, 4, 5}, {2, 2, 4, 3}, {3, 4}, {2, 2, 3, 3}}})
OP_CASE(scaled_dot_product_attention_grad,
        {.attrs = DotProductAttentionAttrs{.causal = true, .tokens_first = true},
         .in = {{1, 3, 4, 2}, {1, 3, 2, 2}, {1, 3, 2, 2}, In::none(), {1, 3, 4, 2}}})
// The second query may look at nothing. The first: P = 1/2, dP = (10, 20), dS = (-2.5, 2.5).
OP_CASE(scaled_dot_product_attention_grad,
        {.in = {In::of({1, 1, 2, 1}, {1, 2}), In::of({1, 1, 2, 1}, {3, 3}),
                In::of({1, 1, 2, 1}, {10, 20}), In::typed(DType::bool_, {2, 2}, {1, 1, 0, 0}),
                In::of({1, 1, 2, 1}, {1, 1})},
         .grad = Grad::skip,
         .expect = {{0, 0}, {-2.5, 2.5}, {0.5, 0.5}}})
// A mask of numbers hides the whole row: every key is equally hidden, as softmax has it.
OP_CASE(scaled_dot_product_attention_grad,
        {.in = {In::of({1, 1, 1, 1}, {1}), In::of({1, 1, 2, 1}, {3, 3}),
                In::of({1, 1, 2, 1}, {10, 20}), In::of({2}, {-1e9, -1e9}),
                In::of({1, 1, 1, 1}, {1})},
         .grad = Grad::skip,
         .expect = {{0}, {-2.5, 2.5}, {0.5, 0.5}}})
OP_REJECTS(scaled_dot_product_attention_grad,
           {.in = {{1, 1, 2, 2}, {1, 1, 2, 2}, {1, 1, 2, 2}, In::none(), {1, 1, 1}}},
           "the gradient is")

OP_CASE(rotary_embedding, {.in = {{2, 2, 3, 4}, {2, 3, 2}, {2, 3, 2}}})
OP_CASE(rotary_embedding, {.attrs = RotaryAttrs{.interleaved = true},
                           .in = {{2, 2, 3, 4}, {4, 2}, {4, 2}, kPositions}})
OP_CASE(rotary_embedding,
        {.attrs = RotaryAttrs{.heads = 2, .dim = 2}, .in = {{2, 3, 8}, {4, 2}, {4, 2}, kPositions}})
// A quarter turn.
OP_CASE(rotary_embedding,
        {.in = {In::of({1, 1, 1, 2}, {3, 4}), In::of({1, 1, 1}, {0}), In::of({1, 1, 1}, {1})},
         .expect = {{-4, 3}}})
OP_REJECTS(rotary_embedding,
           {.attrs = RotaryAttrs{.dim = 3}, .in = {{1, 1, 1, 4}, {1, 1, 2}, {1, 1, 2}}},
           "expected an even number")

OP_CASE(tensor_scatter, {.in = {{2, 4, 3}, {2, 2, 3}, In::typed(DType::i64, {2}, {1, 2})}})
OP_CASE(tensor_scatter, {.attrs = TensorScatterAttrs{.circular = true},
                         .in = {In::of({1, 3, 1}, {1, 2, 3}), In::of({1, 2, 1}, {8, 9}),
                                In::typed(DType::i64, {1}, {2})},
                         .expect = {{9, 2, 8}}})
OP_CASE(tensor_scatter, {.attrs = TensorScatterAttrs{.axis = 1}, .in = {{2, 4}, {2, 2}}})
OP_REJECTS(tensor_scatter, {.in = {{2, 4, 3}, {2, 5, 3}}}, "does not fit into")
