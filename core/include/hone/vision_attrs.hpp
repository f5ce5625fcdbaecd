// SPDX-License-Identifier: Apache-2.0
// Attributes of operators that vision models use beside convolution and plain pooling. Meanings are
// ONNX's.
#pragma once

#include <string>

#include "hone/op_attrs.hpp"
#include "hone/special_ops.hpp"

namespace hone {

/// lrn: y = x / (bias + alpha / size * s)^beta, s the sum of squares over `size` channels around.
struct LrnAttrs {
  int64_t size = 1;
  double alpha = 1e-4, beta = 0.75, bias = 1;
  template <class F>
  static void fields(LrnAttrs& a, F f) {
    f("size", a.size), f("alpha", a.alpha), f("beta", a.beta), f("bias", a.bias);
  }
};

/// lp_pool: the p-norm of each window.
struct LpPoolAttrs {
  int64_t p = 2;
  PoolAttrs pool;
  template <class F>
  static void fields(LpPoolAttrs& a, F f) {
    f("p", a.p);
    PoolAttrs::fields(a.pool, f);
  }
};
/// global_lp_pool.
struct NormOrderAttrs {
  int64_t p = 2;
  template <class F>
  static void fields(NormOrderAttrs& a, F f) {
    f("p", a.p);
  }
};
/// lp_norm: divides by the p-norm (p is 1 or 2) along the axis, also where that is zero.
struct LpNormAttrs {
  int64_t axis = -1, p = 2;
  template <class F>
  static void fields(LpNormAttrs& a, F f) {
    f("axis", a.axis), f("p", a.p);
  }
};

/// max_pool_indices: positions in the flattened input, counted column by column within a plane if
/// column_major.
struct MaxPoolIndicesAttrs {
  PoolAttrs pool;
  bool column_major = false;
  template <class F>
  static void fields(MaxPoolIndicesAttrs& a, F f) {
    PoolAttrs::fields(a.pool, f);
    f("column_major", a.column_major);
  }
};
/// max_unpool: the geometry of the pooling that gave the indices.
struct MaxUnpoolAttrs {
  std::vector<int64_t> kernel, strides, pads_begin, pads_end;
  template <class F>
  static void fields(MaxUnpoolAttrs& a, F f) {
    f("kernel", a.kernel), f("strides", a.strides), f("pads_begin", a.pads_begin),
        f("pads_end", a.pads_end);
  }
};

/// col2im, im2col: blocks of `block` elements of an image of extents `image`.
struct Col2ImAttrs {
  std::vector<int64_t> image, block, strides, dilations, pads_begin, pads_end;
  template <class F>
  static void fields(Col2ImAttrs& a, F f) {
    f("image", a.image), f("block", a.block), f("strides", a.strides), f("dilations", a.dilations);
    f("pads_begin", a.pads_begin), f("pads_end", a.pads_end);
  }
};

struct EinsumAttrs {
  std::string equation;
  template <class F>
  static void fields(EinsumAttrs& a, F f) {
    f("equation", a.equation);
  }
};

enum class SampleMode : uint8_t { linear, nearest, cubic };
inline std::span<const std::string_view> enum_names(SampleMode) {
  static constexpr std::string_view kNames[] = {"linear", "nearest", "cubic"};
  return kNames;
}
enum class SamplePadding : uint8_t { zeros, border, reflection };
inline std::span<const std::string_view> enum_names(SamplePadding) {
  static constexpr std::string_view kNames[] = {"zeros", "border", "reflection"};
  return kNames;
}
struct GridSampleAttrs {
  SampleMode mode = SampleMode::linear;
  SamplePadding padding = SamplePadding::zeros;
  bool align_corners = false;
  template <class F>
  static void fields(GridSampleAttrs& a, F f) {
    f("mode", a.mode), f("padding", a.padding), f("align_corners", a.align_corners);
  }
};
/// grid_sample_input_grad(gy, grid): for an input whose spatial extents are `spatial`.
struct GridSampleGradAttrs {
  std::vector<int64_t> spatial;
  GridSampleAttrs sample;
  template <class F>
  static void fields(GridSampleGradAttrs& a, F f) {
    f("spatial", a.spatial);
    GridSampleAttrs::fields(a.sample, f);
  }
};
struct AffineGridAttrs {
  bool align_corners = false;
  template <class F>
  static void fields(AffineGridAttrs& a, F f) {
    f("align_corners", a.align_corners);
  }
};

enum class RoiMode : uint8_t { avg, max };
inline std::span<const std::string_view> enum_names(RoiMode) {
  static constexpr std::string_view kNames[] = {"avg", "max"};
  return kNames;
}
/// roi_align: sampling_ratio 0 takes as many samples as a bin has pixels.
struct RoiAlignAttrs {
  RoiMode mode = RoiMode::avg;
  int64_t height = 1, width = 1, sampling_ratio = 0;
  double scale = 1;
  bool half_pixel = true;
  template <class F>
  static void fields(RoiAlignAttrs& a, F f) {
    f("mode", a.mode), f("height", a.height), f("width", a.width);
    f("sampling_ratio", a.sampling_ratio), f("scale", a.scale), f("half_pixel", a.half_pixel);
  }
};

/// deform_conv, deform_columns: a convolution of two spatial axes whose taps move by offsets.
struct DeformConvAttrs {
  std::vector<int64_t> kernel;  ///< deform_columns only; deform_conv's stands in the weight.
  ConvAttrs conv;
  int64_t offset_groups = 1;
  template <class F>
  static void fields(DeformConvAttrs& a, F f) {
    f("kernel", a.kernel);
    ConvAttrs::fields(a.conv, f);
    f("offset_groups", a.offset_groups);
  }
};

}  // namespace hone
