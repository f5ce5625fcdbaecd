// SPDX-License-Identifier: Apache-2.0
// Attention and the transformer's encoder layer.
#include "hone/nn/attention.hpp"

#include <cmath>

#include "hone/nn/init.hpp"

namespace hone::nn {

MultiHeadAttention::MultiHeadAttention(int64_t embed, int64_t heads, Generator& rng, double dropout,
                                       Bias bias)
    : in_proj_weight(init::xavier_uniform({3 * embed, embed}, rng)),
      out_proj(embed, embed, rng, bias),
      embed_(embed),
      heads_(heads),
      dropout_(dropout, rng) {
  if (bias == Bias::yes) {
    in_proj_bias = Tensor::zeros({3 * embed});
    out_proj.bias.set_data(Tensor::zeros({embed}).data());
  }
  add_parameter("in_proj_weight", in_proj_weight);
  add_parameter("in_proj_bias", in_proj_bias);
  add_child("out_proj", out_proj);
  add_child("dropout", dropout_);
}

Tensor MultiHeadAttention::operator()(const Tensor& query, const Tensor& key, const Tensor& value,
                                      const Tensor& mask, Look look) {
  NameScope scope = enter();
  if (heads_ < 1 || embed_ % heads_ != 0)
    return Tensor::error(invalid("multi-head attention: a width of {} does not split into {} heads",
                                 embed_, heads_));
  std::vector<Tensor> parts;
  if (query.impl() == key.impl() && key.impl() == value.impl()) {
    parts = linear(query, in_proj_weight, in_proj_bias).split(embed_, -1);
    if (parts.size() != 3) return parts[0];
  } else {
    const Tensor inputs[] = {query, key, value};
    for (int64_t i = 0; i < 3; ++i) {
      const Tensor bias =
          in_proj_bias.defined() ? in_proj_bias.slice(0, i * embed_, (i + 1) * embed_) : Tensor();
      parts.push_back(
          linear(inputs[i], in_proj_weight.slice(0, i * embed_, (i + 1) * embed_), bias));
    }
  }
  // (N, T, E) -> (N, heads, T, E / heads)
  for (Tensor& t : parts) t = t.reshape({0, 0, heads_, embed_ / heads_}).transpose(1, 2);
  AttentionOptions options;
  options.mask = mask;
  options.causal = look == Look::back;
  options.on_weights = [&](const Tensor& weights) { return dropout_(weights); };
  return out_proj(
      attention(parts[0], parts[1], parts[2], options).transpose(1, 2).reshape({0, 0, -1}));
}

TransformerEncoderLayer::TransformerEncoderLayer(int64_t embed, int64_t heads, Generator& rng,
                                                 const TransformerOptions& options)
    : self_attn(embed, heads, rng, options.dropout),
      linear1(embed, options.feed_forward, rng),
      linear2(options.feed_forward, embed, rng),
      norm1(embed, options.eps),
      norm2(embed, options.eps),
      options_(options),
      dropout_(options.dropout, rng),
      dropout1_(options.dropout, rng),
      dropout2_(options.dropout, rng) {
  add_child("self_attn", self_attn);
  add_child("linear1", linear1);
  add_child("dropout", dropout_);
  add_child("linear2", linear2);
  add_child("norm1", norm1);
  add_child("norm2", norm2);
  add_child("dropout1", dropout1_);
  add_child("dropout2", dropout2_);
}

Tensor TransformerEncoderLayer::feed_forward(const Tensor& x) {
  const Tensor wide = linear1(x);
  return linear2(dropout_(options_.activation == FeedForward::gelu ? wide.gelu() : wide.relu()));
}

Tensor TransformerEncoderLayer::operator()(const Tensor& x, const Tensor& mask, Look look) {
  NameScope scope = enter();
  if (options_.norm == NormPlace::before) {
    const Tensor y = x + dropout1_(self_attn(norm1(x), mask, look));
    return y + dropout2_(feed_forward(norm2(y)));
  }
  const Tensor y = norm1(x + dropout1_(self_attn(x, mask, look)));
  return norm2(y + dropout2_(feed_forward(y)));
}

}  // namespace hone::nn
