// SPDX-License-Identifier: Apache-2.0
// Loops that the reference kernels share: ranges split over threads, and nests of loops over
// several operands that walk the same axes with strides of their own.
#pragma once

#include <algorithm>
#include <array>

#include "hone/op.hpp"
#include "hone/thread_pool.hpp"

// Promises that iterations do not depend on each other, so that a loop vectorises although its
// output may share its bytes with an input (at the same index).
#if defined(__GNUC__) && !defined(__clang__)
#define HONE_INDEPENDENT _Pragma("GCC ivdep")
#else
#define HONE_INDEPENDENT
#endif

namespace hone {

/// Elements that one thread should have at least.
inline constexpr int64_t kGrain = 16384;

/// Calls f(begin, end) on parts of [0, n) that together are all of it; in one part when n <= grain.
template <class F>
void for_ranges(ThreadPool& pool, int64_t n, int64_t grain, F f) {
  if (n > 0) pool.parallel_for(n, grain, [&f](int64_t begin, int64_t end, int) { f(begin, end); });
}

/// Nested loops over axes, outermost first, that K operands walk with strides (in elements).
template <int K>
struct LoopNest {
  using Offsets = std::array<int64_t, K>;

  int rank = 0;
  std::array<int64_t, kMaxRank> extent{};
  std::array<Offsets, kMaxRank> stride{};

  /// Adds an axis inside the others. Axes of extent one go, and an axis joins the one outside it
  /// when every operand walks both in one stride: most nests end up one or two deep.
  void add(int64_t n, const Offsets& s) {
    if (n == 1) return;
    if (rank > 0) {
      const size_t last = static_cast<size_t>(rank - 1);
      bool joins = true;
      for (size_t k = 0; k < K; ++k) joins &= stride[last][k] == s[k] * n;
      if (joins) {
        extent[last] *= n;
        stride[last] = s;
        return;
      }
    }
    extent[static_cast<size_t>(rank)] = n;
    stride[static_cast<size_t>(rank++)] = s;
  }

  int64_t size() const {
    int64_t n = 1;
    for (int i = 0; i < rank; ++i) n *= extent[static_cast<size_t>(i)];
    return n;
  }
  /// Extent and strides of the innermost axis.
  int64_t inner() const { return rank ? extent[static_cast<size_t>(rank - 1)] : 1; }
  Offsets inner_stride() const { return rank ? stride[static_cast<size_t>(rank - 1)] : Offsets{}; }

  /// Visits the elements [begin, end), counted in loop order, as f(offsets, n): n steps along the
  /// innermost axis from `offsets`.
  template <class F>
  void for_rows(int64_t begin, int64_t end, F f) const {
    if (begin >= end) return;
    const int64_t n = inner();
    std::array<int64_t, kMaxRank> index{};
    Offsets at{};
    int64_t rest = begin;
    for (int i = rank - 1; i >= 0; --i) {
      const size_t axis = static_cast<size_t>(i);
      index[axis] = rest % extent[axis];
      rest /= extent[axis];
      for (size_t k = 0; k < K; ++k) at[k] += index[axis] * stride[axis][k];
    }
    const size_t last = static_cast<size_t>(std::max(rank - 1, 0));
    while (true) {
      const int64_t count = std::min(n - index[last], end - begin);
      f(at, count);
      begin += count;
      if (begin >= end) return;
      // The row is done: back to its start, then step the axes outside it like an odometer.
      for (size_t k = 0; k < K; ++k) at[k] -= index[last] * stride[last][k];
      index[last] = 0;
      for (int i = rank - 2; i >= 0; --i) {
        const size_t axis = static_cast<size_t>(i);
        for (size_t k = 0; k < K; ++k) at[k] += stride[axis][k];
        if (++index[axis] < extent[axis]) break;
        for (size_t k = 0; k < K; ++k) at[k] -= extent[axis] * stride[axis][k];
        index[axis] = 0;
      }
    }
  }
};

/// The nest over `to` of operands that broadcast to it.
template <class... S>
LoopNest<static_cast<int>(sizeof...(S))> broadcast_nest(const Shape& to, const S&... operands) {
  const std::array<Shape, sizeof...(S)> strides = {broadcast_strides(operands, to)...};
  LoopNest<static_cast<int>(sizeof...(S))> nest;
  for (int axis = 0; axis < to.rank(); ++axis) {
    std::array<int64_t, sizeof...(S)> s{};
    for (size_t k = 0; k < sizeof...(S); ++k) s[k] = strides[k][axis];
    nest.add(to[axis], s);
  }
  return nest;
}

/// Calls f.template operator()<T>() with an unsigned type of `bytes` bytes: for kernels that move
/// elements without looking at them.
template <class F>
decltype(auto) dispatch_size(size_t bytes, F&& f) {
  switch (bytes) {
    case 1:
      return f.template operator()<uint8_t>();
    case 2:
      return f.template operator()<uint16_t>();
    case 4:
      return f.template operator()<uint32_t>();
    default:
      break;
  }
  return f.template operator()<uint64_t>();
}

/// Whether elements of this type are widened before anything is computed: f16 and bf16 to float;
/// i8, u8 and bool to int32_t.
constexpr bool is_narrow(DType t) { return size_of(t) < 4; }
/// Elements that are widened at a time: few enough to stay in the first cache.
inline constexpr int64_t kBlock = 256;
void widen(DType t, const void* src, void* dst, int64_t n);
/// Back again; integers wrap.
void narrow(DType t, const void* src, void* dst, int64_t n);

/// Calls f.template operator()<T>() with the type that arithmetic on a number type happens in:
/// double, float, int32_t or int64_t.
template <class F>
decltype(auto) dispatch_wide(DType t, F&& f) {
  switch (t) {
    case DType::f64:
      return f.template operator()<double>();
    case DType::f32:
    case DType::f16:
    case DType::bf16:
      return f.template operator()<float>();
    case DType::i64:
      return f.template operator()<int64_t>();
    default:
      break;
  }
  return f.template operator()<int32_t>();
}

/// dst[i] = src[i] for the nest's operands (dst, src); elements of `bytes` bytes each.
void copy_strided(ThreadPool& pool, const LoopNest<2>& nest, void* dst, const void* src,
                  size_t bytes);

}  // namespace hone
