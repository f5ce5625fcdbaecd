// SPDX-License-Identifier: Apache-2.0
// Cases for rnn, gru and lstm. Each loop over time is compared with its decomposition step by step,
// and differentiated twice.
#include "hone/recurrent.hpp"
#include "tests/ops/op_case.hpp"

using namespace hone;
using hone::test::Grad;
using hone::test::In;

namespace {

const In kLengths = In::typed(DType::i32, {3}, {2, 4, 0});
const In kLengths64 = In::typed(DType::i64, {3}, {1, 3, 2});

RecurrentAttrs reversed(RecurrentAttrs a = {}) {
  a.direction = Direction::reverse;
  return a;
}
RecurrentAttrs both(RecurrentAttrs a = {}) {
  a.direction = Direction::bidirectional;
  return a;
}
RecurrentAttrs with(std::string activations, std::vector<double> alpha = {},
                    std::vector<double> beta = {}) {
  return {
      .activations = std::move(activations), .alpha = std::move(alpha), .beta = std::move(beta)};
}
RecurrentAttrs linear(RecurrentAttrs a = {}) {
  a.linear_before_reset = true;
  return a;
}
RecurrentAttrs batch_first(RecurrentAttrs a = {}) {
  a.batch_first = true;
  return a;
}

}  // namespace

// ---- rnn: T = 4, B = 3, I = 2, H = 2
OP_CASE(rnn, {.in = {{4, 3, 2}, {1, 2, 2}, {1, 2, 2}}, .range = {-1, 1}})
OP_CASE(rnn, {.attrs = both(),
              .in = {{4, 3, 2}, {2, 2, 2}, {2, 2, 2}, {2, 4}, kLengths, {2, 3, 2}},
              .range = {-1, 1}})
OP_CASE(rnn, {.attrs = batch_first(reversed()),
              .in = {{3, 2, 2}, {1, 2, 2}, {1, 2, 2}, In::none(), kLengths64, {3, 1, 2}},
              .range = {-1, 1},
              .expect_shape = Shape{3, 2, 1, 2}})
OP_CASE(rnn_cells, {.in = {{4, 3, 2}, {2, 2}, {3, 2}}, .range = {-1, 1}})
OP_CASE(rnn_cells,
        {.attrs = reversed(), .in = {{4, 3, 2}, {2, 2}, {3, 2}, kLengths}, .range = {-1, 1}})
OP_CASE(rnn_cells, {.attrs = with("relu"), .in = {{3, 2, 2}, {2, 2}, {2, 2}}, .range = {-1, 1}})
OP_CASE(rnn_cells, {.attrs = with("affine", {0.5}, {0.1}),
                    .in = {{3, 2, 2}, {2, 2}, {2, 2}},
                    .range = {-1, 1}})
OP_CASE(rnn_cells,
        {.attrs = with("leaky_relu", {0.1}), .in = {{3, 2, 2}, {2, 2}, {2, 2}}, .range = {-1, 1}})
OP_CASE(rnn_cells, {.attrs = with("thresholded_relu", {0.2}),
                    .in = {{3, 2, 2}, {2, 2}, {2, 2}},
                    .range = {-1, 1}})
OP_CASE(rnn_cells, {.attrs = with("scaled_tanh", {1.5}, {0.7}),
                    .in = {{3, 2, 2}, {2, 2}, {2, 2}},
                    .range = {-1, 1}})
OP_CASE(rnn_cells, {.attrs = with("hard_sigmoid", {0.2}, {0.5}),
                    .in = {{3, 2, 2}, {2, 2}, {2, 2}},
                    .range = {-3, 3}})
OP_CASE(rnn_cells,
        {.attrs = with("elu", {0.8}), .in = {{3, 2, 2}, {2, 2}, {2, 2}}, .range = {-1, 1}})
OP_CASE(rnn_cells, {.attrs = with("softsign"), .in = {{3, 2, 2}, {2, 2}, {2, 2}}, .range = {-1, 1}})
OP_CASE(rnn_cells, {.attrs = with("softplus"), .in = {{3, 2, 2}, {2, 2}, {2, 2}}, .range = {-1, 1}})
OP_CASE(rnn_cells,
        {.attrs = RecurrentAttrs{.clip = 0.6}, .in = {{3, 2, 2}, {2, 2}, {2, 2}}, .range = {-1, 1}})
OP_CASE(rnn_cells_grad, {.in = {{4, 3, 2}, {2, 2}, {4, 3, 2}, kLengths}, .range = {-0.9, 0.9}})
OP_CASE(rnn_cells_grad,
        {.attrs = reversed(), .in = {{4, 3, 2}, {2, 2}, {4, 3, 2}}, .range = {-0.9, 0.9}})

// ---- gru
OP_CASE(gru, {.in = {{3, 2, 3}, {1, 6, 3}, {1, 6, 2}}, .range = {-1, 1}})
OP_CASE(gru, {.attrs = both(),
              .in = {{4, 3, 2}, {2, 6, 2}, {2, 6, 2}, {2, 12}, kLengths, {2, 3, 2}},
              .range = {-1, 1},
              .grad = Grad::check})
OP_CASE(gru, {.attrs = both(linear()),
              .in = {{4, 3, 2}, {2, 6, 2}, {2, 6, 2}, {2, 12}, kLengths, {2, 3, 2}},
              .range = {-1, 1},
              .grad = Grad::check})
OP_CASE(gru, {.attrs = batch_first(linear(reversed())),
              .in = {{2, 3, 2}, {1, 6, 2}, {1, 6, 2}, {1, 12}},
              .range = {-1, 1}})
OP_CASE(gru_cells, {.in = {{3, 3, 6}, {6, 2}, {3, 2}, In::typed(DType::i32, {3}, {2, 3, 0})},
                    .range = {-1, 1}})
OP_CASE(gru_cells, {.attrs = reversed(with("hard_sigmoid,softsign", {0.2, 0}, {0.5, 0})),
                    .in = {{3, 2, 6}, {6, 2}, {2, 2}},
                    .range = {-1, 1}})
OP_CASE(gru_cells,
        {.attrs = linear(), .in = {{3, 3, 6}, {6, 2}, {3, 2}, kLengths64, {2}}, .range = {-1, 1}})
OP_CASE(gru_cells,
        {.attrs = linear(reversed()), .in = {{3, 2, 6}, {6, 2}, {2, 2}}, .range = {-1, 1}})
OP_CASE(gru_cells,
        {.attrs = RecurrentAttrs{.clip = 0.7}, .in = {{3, 2, 6}, {6, 2}, {2, 2}}, .range = {-1, 1}})
OP_CASE(gru_cells_grad, {.in = {{3, 2, 6}, {3, 2, 2}, {6, 2}, {3, 2, 2}}, .range = {0.1, 0.9}})
OP_CASE(gru_cells_grad,
        {.attrs = linear(),
         .in = {{3, 3, 6}, {3, 3, 2}, {6, 2}, {3, 3, 2}, {3, 3, 2}, kLengths64, {3, 3, 6}},
         .range = {0.1, 0.9},
         .grad = Grad::check})

// ---- lstm
OP_CASE(lstm, {.in = {{3, 2, 3}, {1, 8, 3}, {1, 8, 2}}, .range = {-1, 1}})
OP_CASE(lstm,
        {.attrs = both(),
         .in = {{4, 3, 2}, {2, 8, 2}, {2, 8, 2}, {2, 16}, kLengths, {2, 3, 2}, {2, 3, 2}, {2, 6}},
         .range = {-1, 1},
         .grad = Grad::check})
OP_CASE(lstm, {.attrs = batch_first(reversed()),
               .in = {{2, 3, 2}, {1, 8, 2}, {1, 8, 2}, {1, 16}, In::none(), {2, 1, 2}, {2, 1, 2}},
               .range = {-1, 1},
               .expect_shape = Shape{2, 3, 1, 2}})
OP_CASE(lstm_cells, {.in = {{3, 3, 8}, {8, 2}, {3, 2}, {3, 2}, kLengths64}, .range = {-1, 1}})
OP_CASE(lstm_cells, {.attrs = reversed(),
                     .in = {{3, 2, 8}, {8, 2}, {2, 2}, {2, 2}, In::none(), {6}},
                     .range = {-1, 1}})
OP_CASE(lstm_cells, {.attrs = RecurrentAttrs{.input_forget = true},
                     .in = {{3, 2, 8}, {8, 2}, {2, 2}, {2, 2}, In::none(), {6}},
                     .range = {-1, 1}})
OP_CASE(lstm_cells, {.attrs = RecurrentAttrs{.clip = 0.5},
                     .in = {{3, 2, 8}, {8, 2}, {2, 2}, {2, 2}},
                     .range = {-1, 1}})
OP_CASE(lstm_cells, {.attrs = with("hard_sigmoid,softsign,elu", {0.2, 0, 1}, {0.5, 0, 0}),
                     .in = {{3, 2, 8}, {8, 2}, {2, 2}, {2, 2}},
                     .range = {-1, 1}})
OP_CASE(lstm_cells_grad,
        {.in = {{3, 2, 8}, {3, 2, 2}, {8, 2}, {2, 2}, {3, 2, 2}}, .range = {0.1, 0.9}})
OP_CASE(
    lstm_cells_grad,
    {.attrs = reversed(),
     .in = {{3, 3, 8}, {3, 3, 2}, {8, 2}, {3, 2}, {3, 3, 2}, kLengths64, {6}, {3, 3, 2}, {3, 3, 8}},
     .range = {0.1, 0.9},
     .grad = Grad::check})

OP_REJECTS(lstm, {.in = {{3, 2, 3}, {1, 6, 3}, {1, 6, 2}}}, "the weight has shape [1, 6, 3]")
OP_REJECTS(
    lstm,
    {.in = {{3, 2, 3}, {1, 8, 3}, {1, 8, 2}, In::none(), In::typed(DType::i32, {3}, {1, 1, 1})}},
    "the sequence lengths have shape [3], expected [2]")
OP_REJECTS(gru, {.attrs = both(), .in = {{3, 2, 3}, {1, 6, 3}, {1, 6, 2}}}, "expected [2, 6, 3]")
OP_REJECTS(rnn, {.attrs = with("sine"), .in = {{3, 2, 3}, {1, 2, 3}, {1, 2, 2}}},
           "there is no activation 'sine'")
OP_REJECTS(rnn, {.attrs = with("elu", {-1}), .in = {{3, 2, 3}, {1, 2, 3}, {1, 2, 2}}},
           "a negative one is not offered")
OP_REJECTS(gru, {.attrs = with("tanh"), .in = {{3, 2, 3}, {1, 6, 3}, {1, 6, 2}}},
           "expected 2 names")
