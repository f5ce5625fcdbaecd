// SPDX-License-Identifier: Apache-2.0
// Recurrent layers with torch's meaning, names and layout of weights: weight_ih_l0 (gates * hidden,
// input), weight_hh_l0, bias_ih_l0, bias_hh_l0, with "_reverse" for the second direction, and so on
// for each layer.
#pragma once

#include "hone/nn/layers.hpp"

namespace hone::nn {

struct RecurrentOptions {
  int64_t layers = 1;
  bool bidirectional = false;
  bool batch_first = false;  ///< (N, T, features) instead of (T, N, features).
  Bias bias = Bias::yes;
  double dropout = 0;  ///< Between layers, in training.
};

/// What a recurrent layer gives. `h` and, of an Lstm, `c` are the last states of every layer and
/// direction, (layers * directions, N, hidden).
struct RecurrentOutput {
  Tensor output;  ///< (T, N, directions * hidden), or (N, T, ..).
  Tensor h, c;
};

/// What Rnn, Gru and Lstm share.
class Recurrent : public Module {
 public:
  /// States that are left undefined are zero. `lengths` (N), integers: how many steps of each
  /// sequence count; past them the output is zero and the state stays as it is.
  RecurrentOutput operator()(const Tensor& x, const Tensor& h0 = {}, const Tensor& c0 = {},
                             const Tensor& lengths = {});

 protected:
  struct Kind {
    const OpDef* op;
    /// Where torch keeps the gates, in the order in which the operator wants them.
    std::vector<int64_t> gates;
    Attrs (*attrs)(bool bidirectional);
    bool has_cell_state;
  };
  Recurrent(Kind kind, int64_t input, int64_t hidden, Generator& rng,
            const RecurrentOptions& options);

 private:
  struct Cell {
    Tensor weight_ih, weight_hh, bias_ih, bias_hh;
  };
  int64_t directions() const { return options_.bidirectional ? 2 : 1; }
  Tensor in_order(const Tensor& weight) const;
  std::vector<Tensor> run_layer(int64_t layer, const Tensor& x, const Tensor& h0, const Tensor& c0,
                                const Tensor& lengths);

  Kind kind_;
  int64_t hidden_;
  RecurrentOptions options_;
  std::vector<std::unique_ptr<Cell>> cells_;  // by layer, then direction
  Dropout dropout_;
};

/// h = tanh(W x + b + R h + c).
class Rnn : public Recurrent {
 public:
  Rnn(int64_t input, int64_t hidden, Generator& rng, const RecurrentOptions& options = {});
  std::string kind() const override { return "Rnn"; }
};

class Gru : public Recurrent {
 public:
  Gru(int64_t input, int64_t hidden, Generator& rng, const RecurrentOptions& options = {});
  std::string kind() const override { return "Gru"; }
};

class Lstm : public Recurrent {
 public:
  Lstm(int64_t input, int64_t hidden, Generator& rng, const RecurrentOptions& options = {});
  std::string kind() const override { return "Lstm"; }
};

}  // namespace hone::nn
