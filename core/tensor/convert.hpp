// SPDX-License-Identifier: Apache-2.0
// Conversion between element types.
#pragma once

#include <cmath>
#include <limits>

#include "hone/tensor_data.hpp"

namespace hone {

/// Converts one element as ONNX Cast does: floats to integers truncate; non-zero is true; what does
/// not fit saturates (ONNX leaves it undefined, and C++ would too); NaN becomes 0. Integers to
/// narrower integers wrap.
template <class To, class From>
To convert_element(From v) {
  constexpr bool from_half = std::is_same_v<From, f16> || std::is_same_v<From, bf16>;
  if constexpr (std::is_same_v<To, From>) {
    return v;
  } else if constexpr (from_half) {
    return convert_element<To>(static_cast<float>(v));
  } else if constexpr (std::is_same_v<To, bool>) {
    return v != From(0);
  } else if constexpr (std::is_same_v<To, f16> || std::is_same_v<To, bf16>) {
    return To(static_cast<float>(v));
  } else if constexpr (std::is_integral_v<To> && std::is_floating_point_v<From>) {
    if (std::isnan(v)) return To(0);
    if (v <= static_cast<From>(std::numeric_limits<To>::min()))
      return std::numeric_limits<To>::min();
    if (v >= static_cast<From>(std::numeric_limits<To>::max()))
      return std::numeric_limits<To>::max();
    return static_cast<To>(v);
  } else {
    return static_cast<To>(v);
  }
}

/// out[i] = convert(in[i]); shapes have equally many elements, which must not overlap unless the
/// dtypes are equal.
void convert(const ConstTensorView& in, const TensorView& out);

}  // namespace hone
