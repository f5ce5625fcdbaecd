// SPDX-License-Identifier: Apache-2.0
// Names of element types and the conversion of binary16.
#include "hone/dtype.hpp"

#include <cmath>

namespace hone {

namespace {
constexpr std::string_view kNames[kDTypeCount] = {"f64", "f32", "f16", "bf16", "i8",
                                                  "u8",  "i32", "i64", "bool"};
}

std::string_view to_string(DType t) { return kNames[static_cast<int>(t)]; }

std::optional<DType> dtype_from_string(std::string_view name) {
  for (int i = 0; i < kDTypeCount; ++i)
    if (kNames[i] == name) return static_cast<DType>(i);
  return std::nullopt;
}

f16::f16(float v) {
  const uint32_t u = std::bit_cast<uint32_t>(v);
  const uint32_t sign = (u >> 16) & 0x8000u;
  const uint32_t mag = u & 0x7fffffffu;
  uint32_t half = 0;
  if (mag >= 0x7f800000u) {  // infinity and NaN
    half = 0x7c00u | (mag > 0x7f800000u ? 0x200u | ((mag >> 13) & 0x3ffu) : 0u);
  } else if (mag >= 0x477ff000u) {  // 65520 and above round to infinity
    half = 0x7c00u;
  } else if (mag <
             0x38800000u) {  // below 2^-14: subnormal; adding 0.5 lets the FPU round at bit 2^-24
    half = std::bit_cast<uint32_t>(std::bit_cast<float>(mag) + 0.5f) - 0x3f000000u;
  } else {
    half = (mag + 0xfffu + ((mag >> 13) & 1u) - 0x38000000u) >> 13;
  }
  bits = static_cast<uint16_t>(sign | half);
}

f16::operator float() const {
  const uint32_t sign = static_cast<uint32_t>(bits & 0x8000u) << 16;
  const uint32_t exponent = (bits >> 10) & 0x1fu;
  const uint32_t fraction = bits & 0x3ffu;
  if (exponent == 0x1f) return std::bit_cast<float>(sign | 0x7f800000u | (fraction << 13));
  if (exponent == 0) {
    const float value = std::ldexp(static_cast<float>(fraction), -24);
    return sign ? -value : value;
  }
  return std::bit_cast<float>(sign | ((exponent + 112u) << 23) | (fraction << 13));
}

}  // namespace hone
