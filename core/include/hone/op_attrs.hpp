// SPDX-License-Identifier: Apache-2.0
// The attribute structs of all operators. Meanings follow ONNX where the operator has one there.
#pragma once

#include <limits>

#include "hone/attrs.hpp"

namespace hone {

// ---- elementwise

enum class GeluForm : uint8_t { erf, tanh };
inline std::span<const std::string_view> enum_names(GeluForm) {
  static constexpr std::string_view kNames[] = {"none", "tanh"};
  return kNames;
}
/// gelu: x * Phi(x), or its tanh approximation (ONNX Gelu).
struct GeluAttrs {
  GeluForm approximate = GeluForm::erf;
  template <class F>
  static void fields(GeluAttrs& a, F f) {
    f("approximate", a.approximate);
  }
};

/// leaky_relu (0.01), elu (1), celu (1): one slope.
struct AlphaAttrs {
  double alpha = 1.0;
  template <class F>
  static void fields(AlphaAttrs& a, F f) {
    f("alpha", a.alpha);
  }
};

/// hard_sigmoid: clip(alpha * x + beta, 0, 1).
struct AlphaBetaAttrs {
  double alpha = 0.2, beta = 0.5;
  template <class F>
  static void fields(AlphaBetaAttrs& a, F f) {
    f("alpha", a.alpha), f("beta", a.beta);
  }
};

/// clip: min(max(x, low), high); a NaN stays NaN. An infinite bound is no bound, for integers too.
struct ClipAttrs {
  double low = -std::numeric_limits<double>::infinity(),
         high = std::numeric_limits<double>::infinity();
  template <class F>
  static void fields(ClipAttrs& a, F f) {
    f("low", a.low), f("high", a.high);
  }
};

struct CastAttrs {
  DType to = DType::f32;
  template <class F>
  static void fields(CastAttrs& a, F f) {
    f("to", a.to);
  }
};

// ---- reductions and scans

/// sum, mean, max, min, prod: no axes means all of them. Axes may be negative.
struct ReduceAttrs {
  std::vector<int64_t> axes;
  bool keepdims = true;
  template <class F>
  static void fields(ReduceAttrs& a, F f) {
    f("axes", a.axes), f("keepdims", a.keepdims);
  }
};

/// argmax, argmin: i64 indices; the first of equal elements, or the last.
struct ArgAttrs {
  int64_t axis = 0;
  bool keepdims = true;
  bool select_last = false;
  template <class F>
  static void fields(ArgAttrs& a, F f) {
    f("axis", a.axis), f("keepdims", a.keepdims), f("select_last", a.select_last);
  }
};

struct CumsumAttrs {
  int64_t axis = 0;
  bool exclusive = false, reverse = false;
  template <class F>
  static void fields(CumsumAttrs& a, F f) {
    f("axis", a.axis), f("exclusive", a.exclusive), f("reverse", a.reverse);
  }
};

// ---- shape and movement

/// softmax, log_softmax, gather, gather_elements, concat, flatten (with axis 1).
struct AxisAttrs {
  int64_t axis = -1;
  template <class F>
  static void fields(AxisAttrs& a, F f) {
    f("axis", a.axis);
  }
};

/// squeeze (no axes: all of extent one), unsqueeze.
struct AxesAttrs {
  std::vector<int64_t> axes;
  template <class F>
  static void fields(AxesAttrs& a, F f) {
    f("axes", a.axes);
  }
};

/// reshape, expand, fill. For reshape one extent may be -1 (inferred), and 0 copies the input's
/// extent unless allow_zero.
struct ShapeAttrs {
  std::vector<int64_t> shape;
  bool allow_zero = false;
  template <class F>
  static void fields(ShapeAttrs& a, F f) {
    f("shape", a.shape), f("allow_zero", a.allow_zero);
  }
};

/// reshape_dyn, where the shape is an input.
struct AllowZeroAttrs {
  bool allow_zero = false;
  template <class F>
  static void fields(AllowZeroAttrs& a, F f) {
    f("allow_zero", a.allow_zero);
  }
};

/// fill: a tensor of one value. f64 holds every value of the other types up to 2^53.
struct FillAttrs {
  std::vector<int64_t> shape;
  DType dtype = DType::f32;
  double value = 0;
  template <class F>
  static void fields(FillAttrs& a, F f) {
    f("shape", a.shape), f("dtype", a.dtype), f("value", a.value);
  }
};

/// fill_dyn, where the shape is an input.
struct FillDynAttrs {
  DType dtype = DType::f32;
  double value = 0;
  template <class F>
  static void fields(FillDynAttrs& a, F f) {
    f("dtype", a.dtype), f("value", a.value);
  }
};

/// transpose: output axis i is input axis perm[i]; empty reverses all axes.
struct PermAttrs {
  std::vector<int64_t> perm;
  template <class F>
  static void fields(PermAttrs& a, F f) {
    f("perm", a.perm);
  }
};

/// slice, unslice: as ONNX Slice; the vectors are equally long; empty steps are all 1; empty axes
/// are the first ones. Ends beyond the extent are clamped; a negative step walks backwards (end
/// -2^63 or below -extent: through element 0).
struct SliceAttrs {
  std::vector<int64_t> starts, ends, axes, steps;
  template <class F>
  static void fields(SliceAttrs& a, F f) {
    f("starts", a.starts), f("ends", a.ends), f("axes", a.axes), f("steps", a.steps);
  }
};
/// unslice: the gradient of slice; zeros of `shape` with the input written where slice would have
/// read.
struct UnsliceAttrs {
  std::vector<int64_t> shape;
  SliceAttrs slice;
  template <class F>
  static void fields(UnsliceAttrs& a, F f) {
    f("shape", a.shape);
    SliceAttrs::fields(a.slice, f);
  }
};

/// split: along `axis` into `sizes`, or into `parts` equal ones (the last may be smaller).
struct SplitAttrs {
  int64_t axis = 0;
  std::vector<int64_t> sizes;
  int64_t parts = 0;
  template <class F>
  static void fields(SplitAttrs& a, F f) {
    f("axis", a.axis), f("sizes", a.sizes), f("parts", a.parts);
  }
};

enum class PadMode : uint8_t { constant, reflect, edge, wrap };
inline std::span<const std::string_view> enum_names(PadMode) {
  static constexpr std::string_view kNames[] = {"constant", "reflect", "edge", "wrap"};
  return kNames;
}
/// pad: before[i] and after[i] elements on axis i; negative ones crop.
struct PadAttrs {
  std::vector<int64_t> before, after;
  PadMode mode = PadMode::constant;
  double value = 0;
  template <class F>
  static void fields(PadAttrs& a, F f) {
    f("before", a.before), f("after", a.after), f("mode", a.mode), f("value", a.value);
  }
};
/// pad_dyn(x, pads, value?, axes?).
struct PadDynAttrs {
  PadMode mode = PadMode::constant;
  template <class F>
  static void fields(PadDynAttrs& a, F f) {
    f("mode", a.mode);
  }
};

struct RepeatsAttrs {
  std::vector<int64_t> repeats;
  template <class F>
  static void fields(RepeatsAttrs& a, F f) {
    f("repeats", a.repeats);
  }
};

/// shape_of: extents [start, end) as i64.
struct ShapeOfAttrs {
  int64_t start = 0, end = std::numeric_limits<int64_t>::max();
  template <class F>
  static void fields(ShapeOfAttrs& a, F f) {
    f("start", a.start), f("end", a.end);
  }
};

/// index_sum(updates, indices): zeros with extent `size` on `axis`, to which updates[.., j, ..] is
/// added at indices[j]. The gradient of gather; its own gradient is gather.
struct IndexSumAttrs {
  int64_t axis = 0, size = 0;
  template <class F>
  static void fields(IndexSumAttrs& a, F f) {
    f("axis", a.axis), f("size", a.size);
  }
};

enum class ScatterMode : uint8_t { assign, add, mul, max, min };
inline std::span<const std::string_view> enum_names(ScatterMode) {
  static constexpr std::string_view kNames[] = {"none", "add", "mul", "max", "min"};
  return kNames;
}
struct ScatterAttrs {
  int64_t axis = 0;
  ScatterMode reduction = ScatterMode::assign;
  template <class F>
  static void fields(ScatterAttrs& a, F f) {
    f("axis", a.axis), f("reduction", a.reduction);
  }
};

/// trilu: keeps the upper or lower triangle of the last two axes, diagonal k included; zero
/// elsewhere.
struct TriluAttrs {
  int64_t k = 0;
  bool upper = true;
  template <class F>
  static void fields(TriluAttrs& a, F f) {
    f("k", a.k), f("upper", a.upper);
  }
};

enum class ResizeMode : uint8_t { nearest, linear, cubic };
inline std::span<const std::string_view> enum_names(ResizeMode) {
  static constexpr std::string_view kNames[] = {"nearest", "linear", "cubic"};
  return kNames;
}
enum class CoordinateMode : uint8_t {
  half_pixel,
  asymmetric,
  align_corners,
  pytorch_half_pixel,
  half_pixel_symmetric,
  tf_crop_and_resize
};
inline std::span<const std::string_view> enum_names(CoordinateMode) {
  static constexpr std::string_view kNames[] = {"half_pixel",           "asymmetric",
                                                "align_corners",        "pytorch_half_pixel",
                                                "half_pixel_symmetric", "tf_crop_and_resize"};
  return kNames;
}
enum class NearestMode : uint8_t { round_prefer_floor, round_prefer_ceil, floor, ceil };
inline std::span<const std::string_view> enum_names(NearestMode) {
  static constexpr std::string_view kNames[] = {"round_prefer_floor", "round_prefer_ceil", "floor",
                                                "ceil"};
  return kNames;
}
enum class AspectRatio : uint8_t { stretch, not_larger, not_smaller };
inline std::span<const std::string_view> enum_names(AspectRatio) {
  static constexpr std::string_view kNames[] = {"stretch", "not_larger", "not_smaller"};
  return kNames;
}
/// resize: to `sizes`, or by `scales` (output extent floor(extent * scale)); one entry an axis,
/// exactly one of both given. resize_dyn(x, scales?, sizes?) takes them as inputs, resize_grad is
/// the adjoint. The entries are for `axes`, or for all of them when it is empty. `antialias`
/// stretches the filter of linear and cubic by the factor that an axis shrinks by. `roi`, the
/// starts and then the ends in [0, 1], is what tf_crop_and_resize looks at; outside of the input it
/// reads `extrapolation`. Other aspect ratios than stretch take `sizes` as bounds and keep the
/// input's.
struct ResizeAttrs {
  std::vector<int64_t> sizes;
  std::vector<double> scales;
  ResizeMode mode = ResizeMode::nearest;
  CoordinateMode coordinates = CoordinateMode::half_pixel;
  NearestMode nearest = NearestMode::round_prefer_floor;
  double cubic_a = -0.75;
  bool exclude_outside = false;
  bool antialias = false;
  AspectRatio aspect = AspectRatio::stretch;
  std::vector<int64_t> axes;
  std::vector<double> roi;
  double extrapolation = 0;
  template <class F>
  static void fields(ResizeAttrs& a, F f) {
    f("sizes", a.sizes), f("scales", a.scales), f("mode", a.mode), f("coordinates", a.coordinates);
    f("nearest", a.nearest), f("cubic_a", a.cubic_a), f("exclude_outside", a.exclude_outside);
    f("antialias", a.antialias), f("aspect", a.aspect), f("axes", a.axes), f("roi", a.roi);
    f("extrapolation", a.extrapolation);
  }
};
/// resize_grad(gy): the adjoint of resize for an input of `input_shape`.
struct ResizeGradAttrs {
  std::vector<int64_t> input_shape;
  ResizeAttrs resize;
  template <class F>
  static void fields(ResizeGradAttrs& a, F f) {
    f("input_shape", a.input_shape);
    ResizeAttrs::fields(a.resize, f);
  }
};

// ---- matrices, convolution, pooling

/// matmul: batched, batch axes broadcast; trans_* swap the last two axes of an operand.
struct MatmulAttrs {
  bool trans_a = false, trans_b = false;
  template <class F>
  static void fields(MatmulAttrs& a, F f) {
    f("trans_a", a.trans_a), f("trans_b", a.trans_b);
  }
};
/// gemm(a, b, c?): alpha * A B + beta * C.
struct GemmAttrs {
  double alpha = 1, beta = 1;
  bool trans_a = false, trans_b = false;
  template <class F>
  static void fields(GemmAttrs& a, F f) {
    f("alpha", a.alpha), f("beta", a.beta), f("trans_a", a.trans_a), f("trans_b", a.trans_b);
  }
};

enum class AutoPad : uint8_t { none, same_upper, same_lower, valid };
inline std::span<const std::string_view> enum_names(AutoPad) {
  static constexpr std::string_view kNames[] = {"none", "same_upper", "same_lower", "valid"};
  return kNames;
}
/// conv(x, w, b?): x (N, C, spatial..), w (M, C/groups, kernel..). Empty vectors are ones (zeros
/// for pads). With auto_pad other than none the pads are computed from the shapes.
struct ConvAttrs {
  std::vector<int64_t> strides, dilations, pads_begin, pads_end;
  int64_t groups = 1;
  AutoPad auto_pad = AutoPad::none;
  template <class F>
  static void fields(ConvAttrs& a, F f) {
    f("strides", a.strides), f("dilations", a.dilations), f("pads_begin", a.pads_begin),
        f("pads_end", a.pads_end);
    f("groups", a.groups), f("auto_pad", a.auto_pad);
  }
};
/// conv_input_grad(gy, w) and conv_weight_grad(x, gy): `spatial` is the input's or the kernel's
/// spatial extents.
struct ConvGradAttrs {
  std::vector<int64_t> spatial;
  ConvAttrs conv;
  template <class F>
  static void fields(ConvGradAttrs& a, F f) {
    f("spatial", a.spatial);
    ConvAttrs::fields(a.conv, f);
  }
};
/// conv_transpose(x, w, b?): w (C, M/groups, kernel..); ONNX ConvTranspose.
struct ConvTransposeAttrs {
  ConvAttrs conv;
  std::vector<int64_t> output_padding, output_shape;
  template <class F>
  static void fields(ConvTransposeAttrs& a, F f) {
    ConvAttrs::fields(a.conv, f);
    f("output_padding", a.output_padding), f("output_shape", a.output_shape);
  }
};

/// max_pool, avg_pool over the spatial axes of (N, C, spatial..). ceil_mode adds a last window that
/// hangs over the edge, unless it would start beyond input and left padding. count_include_pad: the
/// divisor counts declared padding, never cells beyond it, unless `legacy_divisor` (ONNX before
/// opset 19) makes it the whole kernel's size.
struct PoolAttrs {
  std::vector<int64_t> kernel, strides, dilations, pads_begin, pads_end;
  AutoPad auto_pad = AutoPad::none;
  bool ceil_mode = false;
  bool count_include_pad = false;
  bool legacy_divisor = false;
  template <class F>
  static void fields(PoolAttrs& a, F f) {
    f("kernel", a.kernel), f("strides", a.strides), f("dilations", a.dilations);
    f("pads_begin", a.pads_begin), f("pads_end", a.pads_end), f("auto_pad", a.auto_pad);
    f("ceil_mode", a.ceil_mode), f("count_include_pad", a.count_include_pad),
        f("legacy_divisor", a.legacy_divisor);
  }
};
/// avg_pool_grad(gy) for an input of `input_shape`.
struct PoolGradAttrs {
  std::vector<int64_t> input_shape;
  PoolAttrs pool;
  template <class F>
  static void fields(PoolGradAttrs& a, F f) {
    f("input_shape", a.input_shape);
    PoolAttrs::fields(a.pool, f);
  }
};

// ---- normalisation

/// batch_norm(x, scale, bias, mean, var). In training it normalises with the batch's statistics and
/// moves the running ones: running = (1 - momentum) * running + momentum * batch (PyTorch's meaning
/// of momentum; ONNX's is 1 - this). `unbiased`: the running variance takes the unbiased batch
/// variance (PyTorch), else the population one (ONNX training mode).
struct BatchNormAttrs {
  double eps = 1e-5, momentum = 0.1;
  bool unbiased = true;
  template <class F>
  static void fields(BatchNormAttrs& a, F f) {
    f("eps", a.eps), f("momentum", a.momentum), f("unbiased", a.unbiased);
  }
};
/// batch_norm_train, layer_norm (over axes [axis, rank)), rms_norm, instance_norm.
struct NormAttrs {
  double eps = 1e-5;
  int64_t axis = -1;
  template <class F>
  static void fields(NormAttrs& a, F f) {
    f("eps", a.eps), f("axis", a.axis);
  }
};
struct GroupNormAttrs {
  int64_t groups = 1;
  double eps = 1e-5;
  template <class F>
  static void fields(GroupNormAttrs& a, F f) {
    f("groups", a.groups), f("eps", a.eps);
  }
};

// ---- losses, randomness, optimizers

enum class Reduction : uint8_t { mean, sum, none };
inline std::span<const std::string_view> enum_names(Reduction) {
  static constexpr std::string_view kNames[] = {"mean", "sum", "none"};
  return kNames;
}
/// cross_entropy(logits, labels, weights?): labels are class indices (i32 or i64) shaped as logits
/// without the class axis. Mean divides by the summed weights of the rows that count (their number
/// without weights); if none counts the loss is 0.
struct CrossEntropyAttrs {
  int64_t axis = 1;
  int64_t ignore_index = -100;
  double label_smoothing = 0;
  Reduction reduction = Reduction::mean;
  template <class F>
  static void fields(CrossEntropyAttrs& a, F f) {
    f("axis", a.axis), f("ignore_index", a.ignore_index), f("label_smoothing", a.label_smoothing);
    f("reduction", a.reduction);
  }
};

/// dropout(x, rng?): in inference (or without rng) the identity; otherwise random_dropout(x, rng),
/// which gives 0 with probability p and x / (1 - p) elsewhere. The mask depends only on (seed,
/// counter, stream, element), so it repeats when recomputed.
struct DropoutAttrs {
  double p = 0.5;
  int64_t stream = 0;
  template <class F>
  static void fields(DropoutAttrs& a, F f) {
    f("p", a.p), f("stream", a.stream);
  }
};
/// random_uniform(rng) in [low, high); random_normal(rng): mean low, deviation high.
struct RandomAttrs {
  std::vector<int64_t> shape;
  DType dtype = DType::f32;
  double low = 0, high = 1;
  int64_t stream = 0;
  template <class F>
  static void fields(RandomAttrs& a, F f) {
    f("shape", a.shape), f("dtype", a.dtype), f("low", a.low), f("high", a.high),
        f("stream", a.stream);
  }
};

/// sgd_update(param, velocity?, grad, lr, step?) -> (param, velocity?). torch.optim.SGD's rule;
/// `step` counts from 1 and is needed for dampening only, which leaves the first step out.
struct SgdAttrs {
  double momentum = 0, dampening = 0, weight_decay = 0;
  bool nesterov = false;
  template <class F>
  static void fields(SgdAttrs& a, F f) {
    f("momentum", a.momentum), f("dampening", a.dampening), f("weight_decay", a.weight_decay),
        f("nesterov", a.nesterov);
  }
};
/// adam_update(param, m, v, grad, lr, step) -> (param, m, v); `step` counts from 1. decoupled:
/// AdamW's weight decay.
struct AdamAttrs {
  double beta1 = 0.9, beta2 = 0.999, eps = 1e-8, weight_decay = 0;
  bool decoupled = false;
  template <class F>
  static void fields(AdamAttrs& a, F f) {
    f("beta1", a.beta1), f("beta2", a.beta2), f("eps", a.eps), f("weight_decay", a.weight_decay);
    f("decoupled", a.decoupled);
  }
};

}  // namespace hone
