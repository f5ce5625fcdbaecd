// SPDX-License-Identifier: Apache-2.0
// The attribute structs of quantization.
#pragma once

#include <optional>

#include "hone/attrs.hpp"

namespace hone {

/// Integers narrower than the type that holds them, or unsigned ones of 16 bits: int2 and int4 are
/// held as i8, uint2 and uint4 as u8, int16 and uint16 as i32.
enum class NarrowType : uint8_t { none, int2, uint2, int4, uint4, int16, uint16 };
inline std::span<const std::string_view> enum_names(NarrowType) {
  static constexpr std::string_view names[] = {"none",  "int2",  "uint2", "int4",
                                               "uint4", "int16", "uint16"};
  return names;
}

/// Bits of a narrow type; 0 for `none`.
constexpr int bits_of(NarrowType t) {
  constexpr int bits[] = {0, 2, 2, 4, 4, 16, 16};
  return bits[static_cast<size_t>(t)];
}
constexpr bool is_signed(NarrowType t) {
  return t == NarrowType::int2 || t == NarrowType::int4 || t == NarrowType::int16;
}

/// The type that holds a narrow one; nothing for `none`.
constexpr std::optional<DType> held_in(NarrowType t) {
  if (t == NarrowType::none) return {};
  return bits_of(t) == 16 ? DType::i32 : is_signed(t) ? DType::i8 : DType::u8;
}

/// quantize_linear, dequantize_linear: the scale is one number, or one for each index of `axis`,
/// or, with a block_size, one for so many indices of `axis`. `to` is the type of quantize_linear's
/// output when there is no zero point. `narrow`: the stored integers have the range of that type,
/// and are held in its i8, u8 or i32.
struct QuantizeAttrs {
  int64_t axis = 1;
  int64_t block_size = 0;
  DType to = DType::u8;
  NarrowType narrow = NarrowType::none;
  template <class F>
  static void fields(QuantizeAttrs& a, F f) {
    f("axis", a.axis), f("block_size", a.block_size), f("to", a.to), f("narrow", a.narrow);
  }
};

}  // namespace hone
