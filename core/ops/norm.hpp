// SPDX-License-Identifier: Apache-2.0
// What the normalisations share.
#pragma once

#include <cmath>

#include "core/ops/checks.hpp"
#include "hone/ops.hpp"
#include "hone/thread_pool.hpp"

namespace hone {

/// The type statistics are computed and kept in.
inline DType statistics_dtype(DType t) { return t == DType::f64 ? t : DType::f32; }

/// A scale, bias or statistic of `shape`, in the dtype of the input or in that of its statistics.
inline Status need_norm_parameter(const InferCtx& c, int input, std::string_view name,
                                  const Shape& shape) {
  if (!c.has(input)) return {};
  if (c.shape(input) != shape)
    return c.error("{} has shape {}, expected {} for an input {}", name, c.shape(input), shape,
                   c.in(0));
  if (c.dtype(input) == c.dtype(0) || c.dtype(input) == statistics_dtype(c.dtype(0))) return {};
  return c.error("{} is {}, the input {}", name, c.in(input), c.in(0));
}

/// Element i of a floating-point tensor.
inline double element(const ConstTensorView& v, int64_t i) {
  return dispatch_float(v.type.dtype, [&]<class T>() {
    return static_cast<double>(static_cast<accumulator_t<T>>(v.as<T>()[i]));
  });
}
inline void set_element(const TensorView& v, int64_t i, double x) {
  dispatch_float(v.type.dtype, [&]<class T>() { v.as<T>()[i] = static_cast<T>(x); });
}

/// Sum of f(i) for i in [0, n), in double and in four interleaved sums, so that one addition need
/// not wait for the other.
template <class F>
double interleaved_sum(int64_t n, F f) {
  double lanes[4] = {};
  int64_t i = 0;
  for (; i + 4 <= n; i += 4)
    for (int64_t k = 0; k < 4; ++k) lanes[k] += f(i + k);
  for (; i < n; ++i) lanes[0] += f(i);
  return (lanes[0] + lanes[1]) + (lanes[2] + lanes[3]);
}

template <class T>
double wide(T v) {
  return static_cast<double>(static_cast<accumulator_t<T>>(v));
}

}  // namespace hone
