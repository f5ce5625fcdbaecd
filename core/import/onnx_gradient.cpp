// SPDX-License-Identifier: Apache-2.0
// Derivatives within an imported graph.
#include "core/import/onnx_gradient.hpp"

#include "hone/autodiff.hpp"
#include "hone/op_attrs.hpp"
#include "hone/op_table.hpp"

namespace hone::onnx {

Result<std::vector<Value>> gradients_within(Builder& b, Value y, std::span<const Value> xs) {
  for (const ValueInfo& v : b.graph().values)
    if (!v.typed || !v.type.shape.concrete())
      return unsupported("where shapes are not known before the model runs");
  const TensorType type = b.graph().type(y.id());
  const auto dims = type.shape.dims();
  Value ones;
  if (type.shape.rank() > 0)
    ones = b.emit(op::fill, {}, FillAttrs{{dims.begin(), dims.end()}, type.dtype, 1});
  return differentiate(b, y, xs, ones);
}

}  // namespace hone::onnx
