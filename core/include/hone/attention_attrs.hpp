// SPDX-License-Identifier: Apache-2.0
// Attributes of attention, rotary_embedding and tensor_scatter (meanings are ONNX's) and of
// scaled_dot_product_attention.
#pragma once

#include <cmath>

#include "hone/special_ops.hpp"

namespace hone {

/// What attention's fourth output shows of the scores.
enum class ScoreOutput : uint8_t { raw, biased, softcapped, softmax };
inline std::span<const std::string_view> enum_names(ScoreOutput) {
  static constexpr std::string_view kNames[] = {"raw", "biased", "softcapped", "softmax"};
  return kNames;
}

/// attention: `heads` and `kv_heads` are needed for inputs of three axes only. `scale` 0 is
/// 1 / sqrt(head size); `softcap` 0 is none. With has_softmax_dtype the softmax is taken in
/// softmax_dtype.
struct AttentionAttrs {
  int64_t heads = 0, kv_heads = 0;
  double scale = 0, softcap = 0;
  bool causal = false;
  ScoreOutput scores = ScoreOutput::raw;
  bool has_softmax_dtype = false;
  DType softmax_dtype = DType::f32;
  template <class F>
  static void fields(AttentionAttrs& a, F f) {
    f("heads", a.heads), f("kv_heads", a.kv_heads), f("scale", a.scale), f("softcap", a.softcap);
    f("causal", a.causal), f("scores", a.scores), f("has_softmax_dtype", a.has_softmax_dtype);
    f("softmax_dtype", a.softmax_dtype);
  }
};

/// scaled_dot_product_attention and its gradient: `scale` 0 is 1 / sqrt(head size). `causal`: query
/// i looks at keys 0 to i only. `tokens_first`: q, k, v and the result are (B, L, H, D), not (B, H,
/// L, D).
struct DotProductAttentionAttrs {
  double scale = 0;
  bool causal = false, tokens_first = false;
  template <class F>
  static void fields(DotProductAttentionAttrs& a, F f) {
    f("scale", a.scale), f("causal", a.causal), f("tokens_first", a.tokens_first);
  }
};

/// The extents of scaled_dot_product_attention, whichever axis comes first.
struct DotProductAttentionShape {
  int64_t batch, heads, kv_heads, queries, keys, size, value_size;
  double scale;
  DotProductAttentionShape(const Shape& q, const Shape& k, const Shape& v,
                           const DotProductAttentionAttrs& a)
      : batch(q[0]),
        heads(q[a.tokens_first ? 2 : 1]),
        kv_heads(k[a.tokens_first ? 2 : 1]),
        queries(q[a.tokens_first ? 1 : 2]),
        keys(k[a.tokens_first ? 1 : 2]),
        size(q[3]),
        value_size(v[3]),
        scale(a.scale != 0 ? a.scale : 1 / std::sqrt(static_cast<double>(q[3]))) {}
  Shape scores() const { return {batch, heads, queries, keys}; }
};

/// Elements between batches, heads and tokens of an operand of shape `s`.
struct HeadStrides {
  int64_t batch, head, token;
  HeadStrides(const Shape& s, bool tokens_first)
      : batch(s[1] * s[2] * s[3]),
        head(tokens_first ? s[3] : s[2] * s[3]),
        token(tokens_first ? s[2] * s[3] : s[3]) {}
  int64_t at(int64_t b, int64_t h, int64_t l) const { return b * batch + h * head + l * token; }
};

/// rotary_embedding: `heads` is needed for inputs of three axes; `dim` 0 rotates the whole head.
struct RotaryAttrs {
  int64_t heads = 0, dim = 0;
  bool interleaved = false;
  template <class F>
  static void fields(RotaryAttrs& a, F f) {
    f("heads", a.heads), f("dim", a.dim), f("interleaved", a.interleaved);
  }
};

/// tensor_scatter: circular writes go on at the start when they reach the end.
struct TensorScatterAttrs {
  int64_t axis = -2;
  bool circular = false;
  template <class F>
  static void fields(TensorScatterAttrs& a, F f) {
    f("axis", a.axis), f("circular", a.circular);
  }
};

}  // namespace hone
