// SPDX-License-Identifier: Apache-2.0
// Recurrent layers: torch's weights brought into the operators' order.
#include "hone/nn/recurrent.hpp"

#include <cmath>

#include "hone/nn/init.hpp"
#include "hone/recurrent.hpp"

namespace hone::nn {

namespace {

RecurrentAttrs plain_attrs(bool bidirectional) {
  RecurrentAttrs a;
  a.direction = bidirectional ? Direction::bidirectional : Direction::forward;
  return a;
}
Attrs with_defaults(bool bidirectional) { return plain_attrs(bidirectional); }
// torch's reset gate scales the product.
Attrs gru_attrs(bool bidirectional) {
  RecurrentAttrs a = plain_attrs(bidirectional);
  a.linear_before_reset = true;
  return a;
}

}  // namespace

Recurrent::Recurrent(Kind kind, int64_t input, int64_t hidden, Generator& rng,
                     const RecurrentOptions& options)
    : kind_(std::move(kind)), hidden_(hidden), options_(options), dropout_(options.dropout, rng) {
  const int64_t rows = static_cast<int64_t>(kind_.gates.size()) * hidden;
  const double bound = 1 / std::sqrt(static_cast<double>(hidden));
  const auto start = [&](const Shape& shape) { return init::uniform(shape, -bound, bound, rng); };
  for (int64_t layer = 0; layer < options_.layers; ++layer)
    for (int64_t d = 0; d < directions(); ++d) {
      auto cell = std::make_unique<Cell>();
      const std::string end = format("_l{}{}", layer, d == 1 ? "_reverse" : "");
      cell->weight_ih = start({rows, layer == 0 ? input : directions() * hidden});
      cell->weight_hh = start({rows, hidden});
      add_parameter("weight_ih" + end, cell->weight_ih);
      add_parameter("weight_hh" + end, cell->weight_hh);
      if (options_.bias == Bias::yes) {
        cell->bias_ih = start({rows});
        cell->bias_hh = start({rows});
        add_parameter("bias_ih" + end, cell->bias_ih);
        add_parameter("bias_hh" + end, cell->bias_hh);
      }
      cells_.push_back(std::move(cell));
    }
  if (options_.dropout > 0) add_child("dropout", dropout_);
}

// Blocks of rows, one for each gate.
Tensor Recurrent::in_order(const Tensor& weight) const {
  std::vector<Tensor> blocks;
  for (int64_t g : kind_.gates) blocks.push_back(weight.slice(0, g * hidden_, (g + 1) * hidden_));
  return blocks.size() == 1 ? weight : concat(blocks, 0);
}

std::vector<Tensor> Recurrent::run_layer(int64_t layer, const Tensor& x, const Tensor& h0,
                                         const Tensor& c0, const Tensor& lengths) {
  std::vector<Tensor> w, r, b;
  const int64_t first = layer * directions(), last = first + directions();
  for (int64_t i = first; i < last; ++i) {
    const Cell& cell = *cells_[static_cast<size_t>(i)];
    w.push_back(in_order(cell.weight_ih));
    r.push_back(in_order(cell.weight_hh));
    if (cell.bias_ih.defined())
      b.push_back(concat({in_order(cell.bias_ih), in_order(cell.bias_hh)}, 0));
  }
  const auto of_layer = [&](const Tensor& state) {
    return state.defined() ? state.slice(0, first, last) : Tensor();
  };
  std::vector<Tensor> in = {x,       stack(w),    stack(r), b.empty() ? Tensor() : stack(b),
                            lengths, of_layer(h0)};
  if (kind_.has_cell_state) in.push_back(of_layer(c0));
  return apply_all(*kind_.op, in, kind_.attrs(options_.bidirectional));
}

RecurrentOutput Recurrent::operator()(const Tensor& x, const Tensor& h0, const Tensor& c0,
                                      const Tensor& lengths) {
  NameScope scope = enter();
  Tensor y = options_.batch_first ? x.transpose(0, 1) : x;
  std::vector<Tensor> h, c;
  for (int64_t layer = 0; layer < options_.layers; ++layer) {
    if (layer > 0 && options_.dropout > 0) y = dropout_(y);
    const std::vector<Tensor> outs = run_layer(layer, y, h0, c0, lengths);
    if (outs.size() < 2) return {outs[0], outs[0], outs[0]};
    // (T, directions, N, hidden) -> (T, N, directions * hidden)
    y = outs[0].transpose(1, 2).reshape({0, 0, -1});
    h.push_back(outs[1]);
    if (kind_.has_cell_state) c.push_back(outs[2]);
  }
  if (options_.batch_first) y = y.transpose(0, 1);
  return {y, concat(h, 0), c.empty() ? Tensor() : concat(c, 0)};
}

Rnn::Rnn(int64_t input, int64_t hidden, Generator& rng, const RecurrentOptions& options)
    : Recurrent({&op::rnn, {0}, with_defaults, false}, input, hidden, rng, options) {}

// torch: reset, update, new; the operator: update, reset, new.
Gru::Gru(int64_t input, int64_t hidden, Generator& rng, const RecurrentOptions& options)
    : Recurrent({&op::gru, {1, 0, 2}, gru_attrs, false}, input, hidden, rng, options) {}

// torch: input, forget, cell, output; the operator: input, output, forget, cell.
Lstm::Lstm(int64_t input, int64_t hidden, Generator& rng, const RecurrentOptions& options)
    : Recurrent({&op::lstm, {0, 3, 1, 2}, with_defaults, true}, input, hidden, rng, options) {}

}  // namespace hone::nn
