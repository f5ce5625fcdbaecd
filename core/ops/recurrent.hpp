// SPDX-License-Identifier: Apache-2.0
// What the recurrent operators share: activations by name with their slopes, as loops and as nodes.
//
// Every slope is written by the activation's result, which is what a cell keeps: with a negative
// alpha that would not be possible for leaky_relu and elu, so these refuse one.
#pragma once

#include <algorithm>
#include <array>

#include "core/ops/checks.hpp"
#include "hone/ops.hpp"
#include "hone/recurrent.hpp"
#include "hone/thread_pool.hpp"

namespace hone::recurrent {

enum class Kind : uint8_t {
  relu,
  tanh,
  sigmoid,
  affine,
  leaky_relu,
  thresholded_relu,
  scaled_tanh,
  hard_sigmoid,
  elu,
  softsign,
  softplus
};

struct Activation {
  Kind kind = Kind::tanh;
  double alpha = 0, beta = 0;
  double clip = 0;                              ///< Bounds the argument; 0: no bound.
  void (*fast)(float* x, int64_t n) = nullptr;  ///< Does the same, for floats.
};
/// f, g, h of ONNX's formulas.
using Activations = std::array<Activation, 3>;

/// Errors: invalid_argument (an unknown name, a wrong number of them or of alphas).
Result<Activations> activations_of(const RecurrentAttrs& attrs, std::string_view defaults);

/// Takes the caller's loops where there is no bound (a bound is known again by its exact result).
void use(const FloatActivations* fast, Activations& act);

/// Names in a list that commas separate.
int count_names(std::string_view list);

/// The attributes of one direction's loop.
RecurrentAttrs cell_attrs(const RecurrentAttrs& attrs, int direction, std::string_view defaults);

/// x[i] = act(x[i]).
void apply(const Activation& act, double* x, int64_t n);
void apply(const Activation& act, float* x, int64_t n);
/// g[i] *= d act / d argument, where y[i] is the result.
void times_slope(const Activation& act, const double* y, double* g, int64_t n);
void times_slope(const Activation& act, const float* y, float* g, int64_t n);

Value apply(const Activation& act, Value x);
Value slope(const Activation& act, Value y);

// ---- the loop over time, as nodes

/// Element t of a value of (T, ..).
Value at_time(Value x, int64_t t);
/// (T, ..) from T values.
Value stack(std::span<const Value> parts);
/// (B, 1): whether step t lies within each sequence; invalid without lengths.
Value within(Value lengths, int64_t t);
/// `now` where the mask says so, `otherwise` elsewhere; `now` without a mask.
Value choose(Value mask, Value now, Value otherwise);
/// The state before each step: h shifted by one step against the direction, with h0 first.
Value previous(Value h, Value h0, bool reverse);
/// (T, B, 1) mask of all steps, or an invalid Value.
Value mask_of_all(Value lengths, int64_t steps);

// ---- shape rules

/// Input `i` is of `shape` and the dtype of input 0. Nothing is checked when it is left out.
Status need_shape(const InferCtx& c, int i, std::string_view name, const Shape& shape);
Status need_lengths(const InferCtx& c, int i, int64_t batch);

/// The number of steps each sequence has; T for all without lengths.
class Lengths {
 public:
  Lengths(const KernelArgs& args, int input) : in_(args.in), input_(static_cast<size_t>(input)) {}
  bool active(int64_t t, int64_t b) const {
    if (input_ >= in_.size() || in_[input_].data == nullptr) return true;
    const ConstTensorView& v = in_[input_];
    return t < (v.type.dtype == DType::i32 ? int64_t{v.as<int32_t>()[b]} : v.as<int64_t>()[b]);
  }

 private:
  std::span<const ConstTensorView> in_;
  size_t input_;
};

/// The product that the reference kernels use: sums in a fixed order.
template <class S>
void plain_product(const ProductCall<S>& p);

/// Row-major copies in the type arithmetic happens in.
template <class T>
using wide_t = std::conditional_t<std::is_same_v<T, double>, double, float>;
inline int64_t wide_size(DType t) { return t == DType::f64 ? 8 : 4; }
/// Hands out pieces of scratch.
class Scratch {
 public:
  explicit Scratch(std::byte* at) : at_(at) {}
  template <class S>
  S* take(int64_t n) {
    S* piece = reinterpret_cast<S*>(at_);
    at_ += (n * static_cast<int64_t>(sizeof(S)) + 63) / 64 * 64;
    return piece;
  }

 private:
  std::byte* at_;
};
inline int64_t piece(int64_t elements, DType t) { return (elements * wide_size(t) + 63) / 64 * 64; }
template <class S, class T>
void load(const T* from, S* to, int64_t n) {
  for (int64_t i = 0; i < n; ++i) to[i] = static_cast<S>(from[i]);
}
template <class S, class T>
void store(const S* from, T* to, int64_t n) {
  for (int64_t i = 0; i < n; ++i) to[i] = static_cast<T>(from[i]);
}
/// A weight in the type arithmetic happens in: itself, or a copy in scratch.
template <class S, class T>
const S* widened(const T* from, int64_t n, Scratch& scratch) {
  if constexpr (std::is_same_v<S, T>) {
    return from;
  } else {
    S* copy = scratch.take<S>(n);
    load(from, copy, n);
    return copy;
  }
}
/// The transpose of a weight (rows, columns), as (columns, rows): the products of the steps then
/// read it row by row. In blocks whose lines stay in the nearest cache.
template <class S, class T>
const S* transposed(const T* from, int64_t rows, int64_t columns, Scratch& scratch) {
  S* copy = scratch.take<S>(rows * columns);
  constexpr int64_t kBlock = 16;
  for (int64_t i0 = 0; i0 < rows; i0 += kBlock)
    for (int64_t k = 0; k < columns; ++k)
      for (int64_t i = i0; i < std::min(rows, i0 + kBlock); ++i)
        copy[k * rows + i] = static_cast<S>(from[i * columns + k]);
  return copy;
}
inline int64_t widened_bytes(int64_t n, DType t) { return size_of(t) < 4 ? piece(n, t) : 0; }

/// Calls f(t) for the steps in the order of the direction, or against it.
template <class F>
void for_steps(int64_t steps, bool backwards, F f) {
  for (int64_t i = 0; i < steps; ++i) f(backwards ? steps - 1 - i : i);
}
/// Rows of the batch shared out to threads.
template <class F>
void for_rows(ThreadPool& pool, int64_t batch, int64_t row, F f) {
  pool.parallel_for(batch, 1 + 1024 / (row + 1), [&](int64_t begin, int64_t end, int) {
    for (int64_t b = begin; b < end; ++b) f(b);
  });
}

}  // namespace hone::recurrent
