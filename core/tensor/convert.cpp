// SPDX-License-Identifier: Apache-2.0
// Conversion between element types: one loop for every pair.
#include "core/tensor/convert.hpp"

#include <cstring>

namespace hone {

void convert(const ConstTensorView& in, const TensorView& out) {
  const int64_t n = in.numel();
  if (in.type.dtype == out.type.dtype) {
    if (n > 0) std::memmove(out.data, in.data, static_cast<size_t>(in.type.bytes()));
    return;
  }
  dispatch(in.type.dtype, [&]<class From>() {
    dispatch(out.type.dtype, [&]<class To>() {
      const From* x = static_cast<const From*>(in.data);
      To* y = static_cast<To*>(out.data);
      for (int64_t i = 0; i < n; ++i) y[i] = convert_element<To>(x[i]);
    });
  });
}

}  // namespace hone
