// SPDX-License-Identifier: Apache-2.0
// The attribute structs of quantization.
#pragma once

#include "hone/attrs.hpp"

namespace hone {

/// quantize_linear, dequantize_linear: the scale is one number, or one for each index of `axis`,
/// or, with a block_size, one for so many indices of `axis`. `to` is the type of quantize_linear's
/// output when there is no zero point.
struct QuantizeAttrs {
  int64_t axis = 1;
  int64_t block_size = 0;
  DType to = DType::u8;
  template <class F>
  static void fields(QuantizeAttrs& a, F f) {
    f("axis", a.axis), f("block_size", a.block_size), f("to", a.to);
  }
};

}  // namespace hone
