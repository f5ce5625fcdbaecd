// SPDX-License-Identifier: Apache-2.0
// Attributes of attention, rotary_embedding and tensor_scatter. Meanings are ONNX's.
#pragma once

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
