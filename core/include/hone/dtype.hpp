// SPDX-License-Identifier: Apache-2.0
// Element types, and the 16-bit floats that C++20 lacks.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <type_traits>

namespace hone {

/// Element types. The numbers are stored in files: never renumber, only append.
enum class DType : uint8_t {
  f64 = 0,
  f32 = 1,
  f16 = 2,
  bf16 = 3,
  i8 = 4,
  u8 = 5,
  i32 = 6,
  i64 = 7,
  bool_ = 8
};
inline constexpr int kDTypeCount = 9;

/// IEEE 754 binary16. Arithmetic happens in float.
struct f16 {
  uint16_t bits = 0;
  f16() = default;
  explicit f16(float v);  ///< Rounds to nearest, ties to even.
  template <class T>
  requires std::is_arithmetic_v<T>
  explicit f16(T v) : f16(static_cast<float>(v)) {}
  operator float() const;  // NOLINT: widening is exact
};

/// bfloat16: the upper half of a binary32.
struct bf16 {
  uint16_t bits = 0;
  bf16() = default;
  explicit bf16(float v) {  ///< Rounds to nearest, ties to even; NaN stays NaN.
    const uint32_t u = std::bit_cast<uint32_t>(v);
    const bool nan = (u & 0x7fffffffu) > 0x7f800000u;
    bits = static_cast<uint16_t>(nan ? (u >> 16) | 0x40u : (u + 0x7fffu + ((u >> 16) & 1u)) >> 16);
  }
  template <class T>
  requires std::is_arithmetic_v<T>
  explicit bf16(T v) : bf16(static_cast<float>(v)) {}
  operator float() const {  // NOLINT: widening is exact
    return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
  }
};

/// Bytes of one element.
constexpr size_t size_of(DType t) {
  switch (t) {
    case DType::f64:
    case DType::i64:
      return 8;
    case DType::f32:
    case DType::i32:
      return 4;
    case DType::f16:
    case DType::bf16:
      return 2;
    case DType::i8:
    case DType::u8:
    case DType::bool_:
      return 1;
  }
  return 0;
}
constexpr bool is_float(DType t) { return t <= DType::bf16; }
constexpr bool is_valid_dtype(int v) { return v >= 0 && v < kDTypeCount; }

/// "f32", "i64", "bool", ...
std::string_view to_string(DType t);
std::optional<DType> dtype_from_string(std::string_view name);

namespace detail {
template <class T>
struct dtype_of_impl;
template <>
struct dtype_of_impl<double> {
  static constexpr DType value = DType::f64;
};
template <>
struct dtype_of_impl<float> {
  static constexpr DType value = DType::f32;
};
template <>
struct dtype_of_impl<f16> {
  static constexpr DType value = DType::f16;
};
template <>
struct dtype_of_impl<bf16> {
  static constexpr DType value = DType::bf16;
};
template <>
struct dtype_of_impl<int8_t> {
  static constexpr DType value = DType::i8;
};
template <>
struct dtype_of_impl<uint8_t> {
  static constexpr DType value = DType::u8;
};
template <>
struct dtype_of_impl<int32_t> {
  static constexpr DType value = DType::i32;
};
template <>
struct dtype_of_impl<int64_t> {
  static constexpr DType value = DType::i64;
};
template <>
struct dtype_of_impl<bool> {
  static constexpr DType value = DType::bool_;
};
}  // namespace detail

/// The DType of a C++ type: dtype_of<float> == DType::f32.
template <class T>
inline constexpr DType dtype_of = detail::dtype_of_impl<std::remove_cv_t<T>>::value;

template <class T>
inline constexpr bool is_float_type =
    std::is_floating_point_v<T> || std::is_same_v<T, f16> || std::is_same_v<T, bf16>;

/// The type that sums and products of T are carried in.
template <class T>
using accumulator_t = std::conditional_t<std::is_same_v<T, double>, double,
                                         std::conditional_t<is_float_type<T>, float, int64_t>>;

/// Calls f.template operator()<T>() with the C++ type of `t`. f must accept every element type.
template <class F>
decltype(auto) dispatch(DType t, F&& f) {
  switch (t) {
    case DType::f64:
      return f.template operator()<double>();
    case DType::f32:
      return f.template operator()<float>();
    case DType::f16:
      return f.template operator()<f16>();
    case DType::bf16:
      return f.template operator()<bf16>();
    case DType::i8:
      return f.template operator()<int8_t>();
    case DType::u8:
      return f.template operator()<uint8_t>();
    case DType::i32:
      return f.template operator()<int32_t>();
    case DType::i64:
      return f.template operator()<int64_t>();
    case DType::bool_:
      break;
  }
  return f.template operator()<bool>();
}

/// As dispatch, for the floating-point types only; `t` must be one (shape inference has checked
/// it).
template <class F>
decltype(auto) dispatch_float(DType t, F&& f) {
  switch (t) {
    case DType::f64:
      return f.template operator()<double>();
    case DType::f16:
      return f.template operator()<f16>();
    case DType::bf16:
      return f.template operator()<bf16>();
    default:
      break;
  }
  return f.template operator()<float>();
}

}  // namespace hone
