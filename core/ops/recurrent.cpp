// SPDX-License-Identifier: Apache-2.0
// rnn, gru and lstm as ONNX defines them: directions, biases and layout round the loops over time
// of rnn.cpp, gru.cpp and lstm.cpp.
#include "core/ops/recurrent.hpp"

namespace hone {

namespace {

using namespace recurrent;

// One kind of cell: how many gates, which inputs.
struct Cell {
  const OpDef* loop;
  std::string_view defaults;
  int gates;
  bool has_cell_state;
};
constexpr Cell kRnn{&op::rnn_cells, "tanh", 1, false};
constexpr Cell kGru{&op::gru_cells, "sigmoid,tanh", 3, false};
constexpr Cell kLstm{&op::lstm_cells, "sigmoid,tanh,tanh", 4, true};

struct Extents {
  int64_t steps, batch, input, hidden, directions;
};
Extents extents_of(const Shape& x, const Shape& r, const RecurrentAttrs& a) {
  return {x[a.batch_first ? 1 : 0], x[a.batch_first ? 0 : 1], x[2], r[2],
          a.direction == Direction::bidirectional ? 2 : 1};
}

template <const Cell& cell>
Status infer_recurrent(InferCtx& c) {
  const RecurrentAttrs& attrs = c.attrs<RecurrentAttrs>();
  HONE_TRY(need(c, 0, Accepts::floats));
  for (int i = 0; i < 3; ++i) HONE_TRY(need_rank(c, i, 3));
  const Extents e = extents_of(c.shape(0), c.shape(2), attrs);
  const int64_t rows = cell.gates * e.hidden, d = e.directions;
  HONE_TRY(need_shape(c, 1, "the weight", {d, rows, e.input}));
  HONE_TRY(need_shape(c, 2, "the recurrent weight", {d, rows, e.hidden}));
  HONE_TRY(need_shape(c, 3, "the bias", {d, 2 * rows}));
  HONE_TRY(need_lengths(c, 4, e.batch));
  const Shape state = attrs.batch_first ? Shape{e.batch, d, e.hidden} : Shape{d, e.batch, e.hidden};
  HONE_TRY(need_shape(c, 5, "the initial state", state));
  if (cell.has_cell_state) {
    HONE_TRY(need_shape(c, 6, "the initial cell state", state));
    HONE_TRY(need_shape(c, 7, "the peephole weight", {d, 3 * e.hidden}));
  }
  if (attrs.clip < 0) return c.error("clip is {}, expected no negative number", attrs.clip);
  const int names = count_names(cell.defaults) * static_cast<int>(d);
  if (!attrs.activations.empty() && count_names(attrs.activations) != names)
    return c.error("activations are '{}', expected {} names", attrs.activations, names);
  for (int k = 0; k < d; ++k) {
    const auto acts = activations_of(cell_attrs(attrs, k, cell.defaults), cell.defaults);
    if (!acts.ok()) return acts.status().with_context(c.who());
  }
  c.out(c.dtype(0), attrs.batch_first ? Shape{e.batch, e.steps, d, e.hidden}
                                      : Shape{e.steps, d, e.batch, e.hidden});
  c.out(c.dtype(0), state);
  if (cell.has_cell_state) c.out(c.dtype(0), state);
  return {};
}

// Direction d of a value of (directions, ..).
Value direction_of(Value x, int64_t d) { return at_time(x, d); }

// The bias that goes into the product of the inputs: both biases, but for the candidate's
// recurrent one where the reset gate scales it.
Value input_bias(const Cell& cell, const RecurrentAttrs& attrs, Value bias, int64_t hidden) {
  const int64_t rows = cell.gates * hidden;
  const Value w = ops::slice(bias, 0, 0, rows), r = ops::slice(bias, 0, rows, 2 * rows);
  if (cell.loop != &op::gru_cells || !attrs.linear_before_reset) return w + r;
  const Value parts[] = {ops::slice(w, 0, 0, 2 * hidden) + ops::slice(r, 0, 0, 2 * hidden),
                         ops::slice(w, 0, 2 * hidden, rows)};
  return ops::concat(parts, 0);
}

struct Outputs {
  Value y, h, c;
};

Outputs run_direction(DecomposeCtx& c, const Cell& cell, Value x, const Extents& e, int64_t d) {
  const RecurrentAttrs attrs =
      cell_attrs(c.attrs<RecurrentAttrs>(), static_cast<int>(d), cell.defaults);
  const bool batch_first = c.attrs<RecurrentAttrs>().batch_first;
  const Value zero = ops::fill(c.b, {c.type(0).dtype, {e.batch, e.hidden}}, 0);
  const int64_t swap[] = {1, 0, 2};
  const auto initial = [&](int i) {
    if (!c.has(i)) return zero;
    return direction_of(batch_first ? ops::transpose(c.in(i), swap) : c.in(i), d);
  };
  const Value r = direction_of(c.in(2), d);
  Value z = ops::matmul(x, direction_of(c.in(1), d), {false, true});
  const Value bias = c.has(3) ? direction_of(c.in(3), d) : Value();
  if (bias.valid()) z = z + input_bias(cell, attrs, bias, e.hidden);
  std::vector<Value> in = {z, r, initial(5)};
  if (cell.has_cell_state) in.push_back(initial(6));
  in.push_back(c.in(4));
  if (cell.has_cell_state)
    in.push_back(c.has(7) ? direction_of(c.in(7), d) : Value());
  else if (cell.loop == &op::gru_cells && attrs.linear_before_reset && bias.valid())
    in.push_back(ops::slice(bias, 0, 5 * e.hidden, 6 * e.hidden));
  const std::vector<Value> outs = c.b.emit_all(*cell.loop, in, attrs);
  if (outs.empty()) return {};
  const Value h = outs[cell.gates > 1 ? 1 : 0];
  const int64_t last = attrs.direction == Direction::reverse ? 0 : e.steps - 1;
  const Value mask = mask_of_all(c.in(4), e.steps);
  return {choose(mask, h, ops::zeros_like(h)), e.steps > 0 ? at_time(h, last) : in[2],
          !cell.has_cell_state ? Value()
          : e.steps > 0        ? at_time(outs[2], last)
                               : in[3]};
}

template <const Cell& cell>
void decompose_recurrent(DecomposeCtx& c) {
  const RecurrentAttrs& attrs = c.attrs<RecurrentAttrs>();
  const Extents e = extents_of(c.shape(0), c.shape(2), attrs);
  const int64_t swap[] = {1, 0, 2};
  const Value x = attrs.batch_first ? ops::transpose(c.in(0), swap) : c.in(0);
  std::vector<Value> y, h, state;
  for (int64_t d = 0; d < e.directions; ++d) {
    const Outputs o = run_direction(c, cell, x, e, d);
    if (!o.y.valid()) return;
    y.push_back(ops::reshape(o.y, {e.steps, 1, e.batch, e.hidden}));
    h.push_back(o.h);
    if (cell.has_cell_state) state.push_back(o.c);
  }
  const int64_t to_batch_first[] = {2, 0, 1, 3};
  const auto in_layout = [&](Value v, std::span<const int64_t> perm) {
    return attrs.batch_first ? ops::transpose(v, perm) : v;
  };
  c.set(0, in_layout(ops::concat(y, 1), to_batch_first));
  c.set(1, in_layout(stack(h), swap));
  if (cell.has_cell_state) c.set(2, in_layout(stack(state), swap));
}

template <const Cell& cell>
double recurrent_flops(const NodeTypes& t) {
  const Shape &x = t.in[0]->shape, &w = t.in[1]->shape, &r = t.in[2]->shape;
  return 2.0 * static_cast<double>(x[0] * x[1]) * static_cast<double>(w.numel() + r.numel());
}

}  // namespace

// rnn(x, w, r, b?, lengths?, h0?): ONNX RNN.   (T, B, I), (D, H, I), (D, H, H), (D, 2H), (B), (D,
// B, H) -> (T, D, B, H), (D, B, H); with batch_first (B, T, I), (B, D, H) -> (B, T, D, H), (B, D,
// H)
const OpDef op::rnn = {
    .name = "rnn",
    .attrs = &kAttrSchema<RecurrentAttrs>,
    .min_inputs = 3,
    .max_inputs = 6,
    .infer = infer_recurrent<kRnn>,
    .decompose = decompose_recurrent<kRnn>,
    .diff = Diff::by_decomposition,
    .flops = recurrent_flops<kRnn>,
};

// gru(x, w, r, b?, lengths?, h0?): ONNX GRU, gates z, r, h. Shapes as rnn's, with 3H for H in
// weights and 6H for 2H in the bias.
const OpDef op::gru = {
    .name = "gru",
    .attrs = &kAttrSchema<RecurrentAttrs>,
    .min_inputs = 3,
    .max_inputs = 6,
    .infer = infer_recurrent<kGru>,
    .decompose = decompose_recurrent<kGru>,
    .diff = Diff::by_decomposition,
    .flops = recurrent_flops<kGru>,
};

// lstm(x, w, r, b?, lengths?, h0?, c0?, p?): ONNX LSTM, gates i, o, f, c; peepholes p (D, 3H) for
// i, o, f. Shapes as rnn's, with 4H for H in weights and 8H for 2H in the bias; the last cell state
// is the third output.
const OpDef op::lstm = {
    .name = "lstm",
    .attrs = &kAttrSchema<RecurrentAttrs>,
    .min_inputs = 3,
    .max_inputs = 8,
    .infer = infer_recurrent<kLstm>,
    .decompose = decompose_recurrent<kLstm>,
    .diff = Diff::by_decomposition,
    .flops = recurrent_flops<kLstm>,
};

}  // namespace hone
