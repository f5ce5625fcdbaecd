// SPDX-License-Identifier: Apache-2.0
// Recurrent operators: their attributes, and their kernels with the matrix product left open, so
// that a backend can put its own into them.
#pragma once

#include <string>

#include "hone/function_ref.hpp"
#include "hone/special_ops.hpp"

namespace hone {

enum class Direction : uint8_t { forward, reverse, bidirectional };
inline std::span<const std::string_view> enum_names(Direction) {
  static constexpr std::string_view kNames[] = {"forward", "reverse", "bidirectional"};
  return kNames;
}

/// rnn, gru, lstm, and their loops over time (`*_cells`, which know one direction and no layout).
struct RecurrentAttrs {
  Direction direction = Direction::forward;
  /// Names in lower case, separated by commas, those of the reverse direction after those of the
  /// forward one; empty: tanh for rnn, "sigmoid,tanh" for gru, "sigmoid,tanh,tanh" for lstm.
  std::string activations;
  std::vector<double> alpha, beta;   ///< One for each activation, or none where none takes any.
  double clip = 0;                   ///< Bounds what goes into the activations; 0: no bound.
  bool input_forget = false;         ///< lstm: the forget gate is one minus the input gate.
  bool linear_before_reset = false;  ///< gru: the reset gate scales the product, not the state.
  bool batch_first = false;
  template <class F>
  static void fields(RecurrentAttrs& a, F f) {
    f("direction", a.direction), f("activations", a.activations), f("alpha", a.alpha);
    f("beta", a.beta), f("clip", a.clip), f("input_forget", a.input_forget);
    f("linear_before_reset", a.linear_before_reset), f("batch_first", a.batch_first);
  }
};

/// C (rows, cols) = or += A (rows, inner) B, row-major. B is stored as (inner, cols), or as its
/// transpose. The strides are those between rows as stored.
template <class S>
struct ProductCall {
  int64_t rows, cols, inner;
  const S* a;
  int64_t a_stride;
  const S* b;
  int64_t b_stride;
  bool trans_b;
  S* c;
  int64_t c_stride;
  bool add;
};
template <class S>
using ProductFn = FunctionRef<void(const ProductCall<S>&)>;

/// x[i] = f(x[i]) for two activations that backends have faster.
struct FloatActivations {
  void (*sigmoid)(float* x, int64_t n);
  void (*tanh)(float* x, int64_t n);
};

/// The f32 kernels of the loops over time, with the caller's product and activations. Scratch: as
/// the operators ask for.
Status run_lstm_cells(const KernelArgs& args, ProductFn<float> product,
                      const FloatActivations& fast);
Status run_lstm_cells_grad(const KernelArgs& args, ProductFn<float> product,
                           const FloatActivations& fast);
Status run_gru_cells(const KernelArgs& args, ProductFn<float> product,
                     const FloatActivations& fast);
Status run_gru_cells_grad(const KernelArgs& args, ProductFn<float> product,
                          const FloatActivations& fast);
Status run_rnn_cells(const KernelArgs& args, ProductFn<float> product,
                     const FloatActivations& fast);
Status run_rnn_cells_grad(const KernelArgs& args, ProductFn<float> product,
                          const FloatActivations& fast);

}  // namespace hone
