// SPDX-License-Identifier: Apache-2.0
// What operators on quantized tensors share.
#pragma once

#include "hone/op_attrs_quantize.hpp"
#include "hone/ops.hpp"

namespace hone {

struct QuantizedRange {
  double low, high;
};
/// The numbers that an integer type holds.
QuantizedRange range_of(DType t);
QuantizedRange range_of(NarrowType t, DType held);

/// Whole numbers in floating point as integers of type `to`; what does not fit takes the nearest
/// one that does.
Value saturate(Value x, DType to, NarrowType narrow = NarrowType::none);

}  // namespace hone
