// SPDX-License-Identifier: Apache-2.0
// Functions of tensors beyond the methods: products, joins, layers without parameters of their own,
// losses.
#pragma once

#include "hone/tensor.hpp"

namespace hone {

/// Batched; batch axes broadcast.
Tensor matmul(const Tensor& a, const Tensor& b, MatmulAttrs attrs = {});
/// x (..., in), w (out, in), b (out) or undefined.   -> (..., out)
Tensor linear(const Tensor& x, const Tensor& w, const Tensor& b = {});
/// a where `condition` (bool) is true, b elsewhere; all broadcast.
Tensor where(const Tensor& condition, const Tensor& a, const Tensor& b);
Tensor concat(std::span<const Tensor> parts, int64_t axis);
inline Tensor concat(std::initializer_list<Tensor> parts, int64_t axis) {
  return concat(std::span<const Tensor>(parts.begin(), parts.size()), axis);
}
/// Joins equal shapes along a new axis.
Tensor stack(std::span<const Tensor> parts, int64_t axis = 0);
inline Tensor stack(std::initializer_list<Tensor> parts, int64_t axis = 0) {
  return stack(std::span<const Tensor>(parts.begin(), parts.size()), axis);
}
Tensor pad(const Tensor& x, PadAttrs attrs);
/// (..) integers -> (.., classes) of `dtype`.
Tensor one_hot(const Tensor& indices, int64_t classes, DType dtype = DType::f32);
/// indices (..), weight (count, width) -> (.., width)
Tensor embedding(const Tensor& indices, const Tensor& weight);

/// See ConvAttrs. b may be undefined.
Tensor conv(const Tensor& x, const Tensor& w, const Tensor& b, ConvAttrs attrs = {});
Tensor conv_transpose(const Tensor& x, const Tensor& w, const Tensor& b,
                      ConvTransposeAttrs attrs = {});
Tensor max_pool(const Tensor& x, PoolAttrs attrs);
Tensor avg_pool(const Tensor& x, PoolAttrs attrs);
/// (N, C, spatial..) -> (N, C, 1..)
Tensor global_avg_pool(const Tensor& x);
/// (N, C, spatial..) -> (N, C, extents..): output i of n is the mean of the inputs from
/// floor(i * extent / n) to ceil((i + 1) * extent / n), as in PyTorch; windows may overlap.
Tensor adaptive_avg_pool(const Tensor& x, std::span<const int64_t> extents);
Tensor resize(const Tensor& x, ResizeAttrs attrs);

/// Normalises the axes [axis, rank). scale and bias may be undefined.
Tensor layer_norm(const Tensor& x, const Tensor& scale, const Tensor& bias, NormAttrs attrs = {});
Tensor group_norm(const Tensor& x, const Tensor& scale, const Tensor& bias, GroupNormAttrs attrs);
/// With running statistics, which stay.
Tensor batch_norm(const Tensor& x, const Tensor& scale, const Tensor& bias, const Tensor& mean,
                  const Tensor& var, BatchNormAttrs attrs = {});
/// With the batch's statistics; moves the running ones, `mean` and `var`, in place.
Tensor batch_norm_train(const Tensor& x, const Tensor& scale, const Tensor& bias, Tensor& mean,
                        Tensor& var, BatchNormAttrs attrs = {});
/// Zeros with probability p, and scales the others by 1 / (1 - p).
Tensor dropout(const Tensor& x, double p, Generator& rng);

struct AttentionOptions {
  /// Undefined, or broadcasts to (.., Tq, Tk): true (bool) where a query may look, or a number that
  /// is added to the scores.
  Tensor mask;
  /// A query at position i of Tq looks at keys 0 to i only.
  bool causal = false;
  /// Given the weights (.., Tq, Tk) after the softmax, returns those to use: dropout, or a look at
  /// them.
  std::function<Tensor(const Tensor& weights)> on_weights;
};
/// q (.., Tq, D), k (.., Tk, D), v (.., Tk, Dv) -> (.., Tq, Dv): softmax(q k^T / sqrt(D) + mask) v.
Tensor attention(const Tensor& q, const Tensor& k, const Tensor& v,
                 const AttentionOptions& options = {});

namespace loss {

/// Class indices in `labels`; see CrossEntropyAttrs.
Tensor cross_entropy(const Tensor& logits, const Tensor& labels, CrossEntropyAttrs attrs = {},
                     const Tensor& weights = {});
Tensor mse(const Tensor& x, const Tensor& target, Reduction reduction = Reduction::mean);
Tensor l1(const Tensor& x, const Tensor& target, Reduction reduction = Reduction::mean);
Tensor smooth_l1(const Tensor& x, const Tensor& target, double beta = 1.0,
                 Reduction reduction = Reduction::mean);
Tensor huber(const Tensor& x, const Tensor& target, double delta = 1.0,
             Reduction reduction = Reduction::mean);
Tensor bce_with_logits(const Tensor& logits, const Tensor& target,
                       Reduction reduction = Reduction::mean);

}  // namespace loss

}  // namespace hone
