// SPDX-License-Identifier: Apache-2.0
// Losses of tensors: the formulas written for graphs.
#include "hone/eager.hpp"
#include "hone/functional.hpp"
#include "hone/ops.hpp"

namespace hone {

namespace loss {

Tensor cross_entropy(const Tensor& logits, const Tensor& labels, CrossEntropyAttrs attrs,
                     const Tensor& weights) {
  const Tensor in[] = {logits, labels, weights};
  return compose(in,
                 [&](std::span<const Value> v) { return cross_entropy(v[0], v[1], attrs, v[2]); });
}
Tensor mse(const Tensor& x, const Tensor& target, Reduction reduction) {
  const Tensor in[] = {x, target};
  return compose(in, [&](std::span<const Value> v) { return mse(v[0], v[1], reduction); });
}
Tensor l1(const Tensor& x, const Tensor& target, Reduction reduction) {
  const Tensor in[] = {x, target};
  return compose(in, [&](std::span<const Value> v) { return l1(v[0], v[1], reduction); });
}
Tensor smooth_l1(const Tensor& x, const Tensor& target, double beta, Reduction reduction) {
  const Tensor in[] = {x, target};
  return compose(in,
                 [&](std::span<const Value> v) { return smooth_l1(v[0], v[1], beta, reduction); });
}
Tensor huber(const Tensor& x, const Tensor& target, double delta, Reduction reduction) {
  const Tensor in[] = {x, target};
  return compose(in, [&](std::span<const Value> v) { return huber(v[0], v[1], delta, reduction); });
}
Tensor bce_with_logits(const Tensor& logits, const Tensor& target, Reduction reduction) {
  const Tensor in[] = {logits, target};
  return compose(in,
                 [&](std::span<const Value> v) { return bce_with_logits(v[0], v[1], reduction); });
}

}  // namespace loss

}  // namespace hone
