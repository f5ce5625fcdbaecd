// SPDX-License-Identifier: Apache-2.0
// Attention and the transformer's encoder layer, with torch.nn's parameter names and initial
// values. Batch first.
#pragma once

#include "hone/nn/layers.hpp"

namespace hone::nn {

/// Which keys a query may look at.
enum class Look : uint8_t {
  everywhere,
  back,  ///< Causal: at its own position and before.
};

/// Splits `embed` into `heads` heads.   query (N, Tq, E), key and value (N, Tk, E) -> (N, Tq, E)
class MultiHeadAttention : public Module {
 public:
  MultiHeadAttention(int64_t embed, int64_t heads, Generator& rng, double dropout = 0,
                     Bias bias = Bias::yes);
  std::string kind() const override { return "MultiHeadAttention"; }

  /// `mask` is undefined or broadcasts to (N, heads, Tq, Tk): bool, true where a query may look, or
  /// a number that is added to the scores.
  Tensor operator()(const Tensor& query, const Tensor& key, const Tensor& value,
                    const Tensor& mask = {}, Look look = Look::everywhere);
  Tensor operator()(const Tensor& x, const Tensor& mask = {}, Look look = Look::everywhere) {
    return (*this)(x, x, x, mask, look);
  }

  Tensor in_proj_weight, in_proj_bias;  ///< (3E, E), (3E): query, key, value
  Linear out_proj;

 private:
  int64_t embed_, heads_;
  Dropout dropout_;
};

enum class NormPlace : uint8_t { before, after };
enum class FeedForward : uint8_t { relu, gelu };

struct TransformerOptions {
  int64_t feed_forward = 2048;
  double dropout = 0.1;
  FeedForward activation = FeedForward::relu;
  NormPlace norm = NormPlace::after;
  double eps = 1e-5;
};

/// torch.nn.TransformerEncoderLayer.   x (N, T, E) -> same
class TransformerEncoderLayer : public Module {
 public:
  TransformerEncoderLayer(int64_t embed, int64_t heads, Generator& rng,
                          const TransformerOptions& options = {});
  std::string kind() const override { return "TransformerEncoderLayer"; }
  Tensor operator()(const Tensor& x, const Tensor& mask = {}, Look look = Look::everywhere);

  MultiHeadAttention self_attn;
  Linear linear1, linear2;
  LayerNorm norm1, norm2;

 private:
  Tensor feed_forward(const Tensor& x);

  TransformerOptions options_;
  Dropout dropout_, dropout1_, dropout2_;
};

}  // namespace hone::nn
