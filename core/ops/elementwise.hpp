// SPDX-License-Identifier: Apache-2.0
// Elementwise kernels. An operator gives a formula as a function object; from it come row kernels
// for the four types arithmetic happens in (f64, f32, i32, i64). Narrower types pass through these
// in small blocks, so that f16, bf16 and i8 cost conversions but no code of their own. Threads,
// broadcasting and in-place use (output and input the same bytes) are the drivers' business.
#pragma once

#include "core/ops/loops.hpp"

namespace hone {

struct UnaryRows {
  using Row = void (*)(const void* x, void* y, int64_t n, const Attrs& attrs);
  Row f64 = nullptr, f32 = nullptr, i32 = nullptr, i64 = nullptr;
  bool predicate = false;  ///< The formula gives a bool.
};
struct BinaryRows {
  using Row = void (*)(const void* a, int64_t a_stride,  // 0 or 1
                       const void* b, int64_t b_stride,  // 0 or 1
                       void* y, int64_t n);
  Row f64 = nullptr, f32 = nullptr, i32 = nullptr, i64 = nullptr;
  bool predicate = false;
};

Status run_unary(const KernelArgs& args, const UnaryRows& rows);
Status run_binary(const KernelArgs& args, const BinaryRows& rows);

namespace detail {

template <class F>
F formula(const Attrs& attrs) {
  if constexpr (std::is_constructible_v<F, const Attrs&>)
    return F(attrs);
  else
    return F();
}

template <class F, class T>
void unary_row(const void* xp, void* yp, int64_t n, const Attrs& attrs) {
  const F f = formula<F>(attrs);
  const T* x = static_cast<const T*>(xp);
  auto* y = static_cast<std::invoke_result_t<F, T>*>(yp);
  HONE_INDEPENDENT
  for (int64_t i = 0; i < n; ++i) y[i] = f(x[i]);
}

template <class F, class T>
void binary_row(const void* ap, int64_t a_stride, const void* bp, int64_t b_stride, void* yp,
                int64_t n) {
  const F f{};
  const T* a = static_cast<const T*>(ap);
  const T* b = static_cast<const T*>(bp);
  auto* y = static_cast<std::invoke_result_t<F, T, T>*>(yp);
  if (a_stride && b_stride) {
    HONE_INDEPENDENT
    for (int64_t i = 0; i < n; ++i) y[i] = f(a[i], b[i]);
  } else if (a_stride) {
    const T s = *b;
    HONE_INDEPENDENT
    for (int64_t i = 0; i < n; ++i) y[i] = f(a[i], s);
  } else {
    const T s = *a;
    HONE_INDEPENDENT
    for (int64_t i = 0; i < n; ++i) y[i] = f(s, b[b_stride * i]);
  }
}

template <class F>
inline constexpr UnaryRows kFloatUnary = {
    .f64 = unary_row<F, double>,
    .f32 = unary_row<F, float>,
    .predicate = std::is_same_v<std::invoke_result_t<F, float>, bool>};
template <class F>
inline constexpr UnaryRows kNumberUnary = {
    .f64 = unary_row<F, double>,
    .f32 = unary_row<F, float>,
    .i32 = unary_row<F, int32_t>,
    .i64 = unary_row<F, int64_t>,
    .predicate = std::is_same_v<std::invoke_result_t<F, float>, bool>};
template <class F>
inline constexpr BinaryRows kFloatBinary = {
    .f64 = binary_row<F, double>,
    .f32 = binary_row<F, float>,
    .predicate = std::is_same_v<std::invoke_result_t<F, float, float>, bool>};
template <class F>
inline constexpr BinaryRows kNumberBinary = {
    .f64 = binary_row<F, double>,
    .f32 = binary_row<F, float>,
    .i32 = binary_row<F, int32_t>,
    .i64 = binary_row<F, int64_t>,
    .predicate = std::is_same_v<std::invoke_result_t<F, float, float>, bool>};

}  // namespace detail

/// Kernels from a formula: `struct Exp { auto operator()(auto x) const { return std::exp(x); } };`.
/// A unary formula may be made from the attributes: `explicit Clip(const Attrs&)`.
template <class F>
Status map_floats(const KernelArgs& args) {
  return run_unary(args, detail::kFloatUnary<F>);
}
template <class F>
Status map_numbers(const KernelArgs& args) {
  return run_unary(args, detail::kNumberUnary<F>);
}
template <class F>
Status zip_numbers(const KernelArgs& args) {
  return run_binary(args, detail::kNumberBinary<F>);
}
/// For bool inputs, which arrive as int32_t 0 or 1.
template <class F>
Status map_bools(const KernelArgs& args) {
  static constexpr UnaryRows kRows = {.i32 = detail::unary_row<F, int32_t>, .predicate = true};
  return run_unary(args, kRows);
}
template <class F>
Status zip_bools(const KernelArgs& args) {
  static constexpr BinaryRows kRows = {.i32 = detail::binary_row<F, int32_t>, .predicate = true};
  return run_binary(args, kRows);
}

}  // namespace hone
