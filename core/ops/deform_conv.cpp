// SPDX-License-Identifier: Apache-2.0
// Deformable convolution (Dai et al. 2017, with the masks of Zhu et al. 2019; ONNX DeformConv): the
// taps' elements, taken at fractional places, become columns, and the rest is a matrix product.
#include <cmath>

#include "core/ops/checks.hpp"
#include "core/ops/loops.hpp"
#include "hone/ops.hpp"
#include "hone/vision_attrs.hpp"
#include "hone/window.hpp"

namespace hone {

namespace {

Result<Window> window_for(const DeformConvAttrs& a, const Shape& x,
                          std::span<const int64_t> kernel) {
  if (x.rank() != 4)
    return unsupported("deformable convolution of {}: 2 spatial axes are offered", x);
  return conv_window(a.conv, spatial_of(x), kernel);
}

// Offsets (N, groups * taps * 2, oh, ow) and the mask (N, groups * taps, oh, ow).
Status need_offsets(const InferCtx& c, const Shape& x, const Window& w, int offset, int mask) {
  const int64_t groups = c.attrs<DeformConvAttrs>().offset_groups;
  if (groups < 1 || x[1] % groups != 0)
    return c.error("{} groups of offsets do not divide {} channels", groups, x[1]);
  const int64_t taps = groups * w.kernel_size();
  const Shape want = {x[0], 2 * taps, w.height().out, w.width().out},
              want_mask = {x[0], taps, w.height().out, w.width().out};
  if (c.shape(offset) != want) return c.error("offsets are {}, expected {}", c.shape(offset), want);
  HONE_TRY(need_same_dtype(c, 0, offset));
  if (!c.has(mask)) return {};
  HONE_TRY(need_same_dtype(c, 0, mask));
  if (c.shape(mask) != want_mask)
    return c.error("the mask is {}, expected {}", c.shape(mask), want_mask);
  return {};
}

Shape columns_shape(const Shape& x, const Window& w) {
  return {x[0], x[1] * w.kernel_size(), w.height().out * w.width().out};
}

// A place in a plane: four corners, those outside have weight and slopes zero.
struct Corners {
  int64_t at[4] = {};
  double weight[4] = {}, by_y[4] = {}, by_x[4] = {};
};

Corners corners_at(double y, double x, int64_t height, int64_t width) {
  Corners c;
  if (!(y > -1 && y < static_cast<double>(height) && x > -1 && x < static_cast<double>(width)))
    return c;
  const double y0 = std::floor(y), x0 = std::floor(x);
  const double fy = y - y0, fx = x - x0;
  for (int q = 0; q < 4; ++q) {
    const int64_t r = static_cast<int64_t>(y0) + q / 2, s = static_cast<int64_t>(x0) + q % 2;
    if (r < 0 || r >= height || s < 0 || s >= width) continue;
    const double wy = q / 2 ? fy : 1 - fy, wx = q % 2 ? fx : 1 - fx;
    c.at[q] = r * width + s;
    c.weight[q] = wy * wx;
    c.by_y[q] = (q / 2 ? 1 : -1) * wx;
    c.by_x[q] = (q % 2 ? 1 : -1) * wy;
  }
  return c;
}

// The walk over taps and places of one image that forward and backward share.
template <class T>
struct Taps {
  const Window& w;
  const T *offset, *mask;  // of all images; mask may be null
  int64_t groups;

  int64_t places() const { return w.height().out * w.width().out; }
  // Index of (image, group, tap, place) in the mask.
  int64_t index(int64_t n, int64_t g, int64_t tap, int64_t place) const {
    return ((n * groups + g) * w.kernel_size() + tap) * places() + place;
  }
  // Of its vertical offset; the horizontal one follows `places` later.
  int64_t offset_index(int64_t n, int64_t g, int64_t tap, int64_t place) const {
    return ((n * groups + g) * w.kernel_size() + tap) * 2 * places() + place;
  }
  static double wide(T v) { return static_cast<double>(static_cast<accumulator_t<T>>(v)); }
  double masked(int64_t n, int64_t g, int64_t tap, int64_t place) const {
    return mask ? wide(mask[index(n, g, tap, place)]) : 1;
  }
  Corners corners(int64_t n, int64_t g, int64_t tap, int64_t place) const {
    const WindowAxis &h = w.height(), &v = w.width();
    const int64_t oy = place / v.out, ox = place % v.out;
    const int64_t at = offset_index(n, g, tap, place);
    const double y =
        static_cast<double>(h.start(oy) + tap / v.kernel * h.dilation) + wide(offset[at]);
    const double x = static_cast<double>(v.start(ox) + tap % v.kernel * v.dilation) +
                     wide(offset[at + places()]);
    return corners_at(y, x, h.in, v.in);
  }
};

Status columns_kernel(const KernelArgs& args) {
  const DeformConvAttrs& a = args.attrs.as<DeformConvAttrs>();
  const Shape& s = args.shape(0);
  HONE_ASSIGN(const Window w, window_for(a, s, a.kernel));
  dispatch_float(args.in[0].type.dtype, [&]<class T>() {
    const Taps<T> taps{w, args.input<T>(1), args.has(2) ? args.input<T>(2) : nullptr,
                       a.offset_groups};
    const int64_t size = w.in_size(), channels = s[1] / a.offset_groups;
    for_ranges(args.pool, s[0] * a.offset_groups, 1, [&](int64_t begin, int64_t end) {
      for (int64_t ng = begin; ng < end; ++ng) {
        const int64_t n = ng / a.offset_groups, g = ng % a.offset_groups;
        for (int64_t tap = 0; tap < w.kernel_size(); ++tap)
          for (int64_t place = 0; place < taps.places(); ++place) {
            const Corners c = taps.corners(n, g, tap, place);
            const double m = taps.masked(n, g, tap, place);
            for (int64_t k = 0; k < channels; ++k) {
              const int64_t plane = ng * channels + k;
              const T* x = args.input<T>(0) + plane * size;
              double sum = 0;
              for (int q = 0; q < 4; ++q) sum += c.weight[q] * Taps<T>::wide(x[c.at[q]]);
              args.output<T>(0)[(plane * w.kernel_size() + tap) * taps.places() + place] =
                  static_cast<T>(sum * m);
            }
          }
      }
    });
  });
  return {};
}

// (x, offset, g, mask?) -> (gx, goffset, gmask); g is the columns' gradient.
Status columns_grad_kernel(const KernelArgs& args) {
  const DeformConvAttrs& a = args.attrs.as<DeformConvAttrs>();
  const Shape& s = args.shape(0);
  HONE_ASSIGN(const Window w, window_for(a, s, a.kernel));
  double* const all = reinterpret_cast<double*>(args.scratch);
  dispatch_float(args.in[0].type.dtype, [&]<class T>() {
    const Taps<T> taps{w, args.input<T>(1), args.has(3) ? args.input<T>(3) : nullptr,
                       a.offset_groups};
    const int64_t size = w.in_size(), channels = s[1] / a.offset_groups;
    for_ranges(args.pool, s[0] * a.offset_groups, 1, [&](int64_t begin, int64_t end) {
      for (int64_t ng = begin; ng < end; ++ng) {
        const int64_t n = ng / a.offset_groups, g = ng % a.offset_groups;
        double* sums = all + ng * channels * size;
        std::fill_n(sums, channels * size, 0.0);
        for (int64_t tap = 0; tap < w.kernel_size(); ++tap)
          for (int64_t place = 0; place < taps.places(); ++place) {
            const Corners c = taps.corners(n, g, tap, place);
            const double m = taps.masked(n, g, tap, place);
            double by_mask = 0, by_y = 0, by_x = 0;
            for (int64_t k = 0; k < channels; ++k) {
              const int64_t plane = ng * channels + k;
              const T* x = args.input<T>(0) + plane * size;
              const double gc = Taps<T>::wide(
                  args.input<T>(2)[(plane * w.kernel_size() + tap) * taps.places() + place]);
              for (int q = 0; q < 4; ++q) {
                const double v = Taps<T>::wide(x[c.at[q]]);
                by_mask += gc * c.weight[q] * v;
                by_y += gc * c.by_y[q] * v;
                by_x += gc * c.by_x[q] * v;
                sums[k * size + c.at[q]] += gc * m * c.weight[q];
              }
            }
            const int64_t at = taps.offset_index(n, g, tap, place);
            args.output<T>(1)[at] = static_cast<T>(by_y * m);
            args.output<T>(1)[at + taps.places()] = static_cast<T>(by_x * m);
            args.output<T>(2)[taps.index(n, g, tap, place)] = static_cast<T>(by_mask);
          }
        for (int64_t i = 0; i < channels * size; ++i)
          args.output<T>(0)[ng * channels * size + i] = static_cast<T>(sums[i]);
      }
    });
  });
  return {};
}

Status infer_columns(InferCtx& c) {
  const DeformConvAttrs& a = c.attrs<DeformConvAttrs>();
  HONE_TRY(need(c, 0, Accepts::floats));
  const auto w = window_for(a, c.shape(0), a.kernel);
  if (!w.ok()) return w.status().with_context(c.who());
  HONE_TRY(need_offsets(c, c.shape(0), *w, 1, 2));
  c.out(c.dtype(0), columns_shape(c.shape(0), *w));
  return {};
}

Status infer_columns_grad(InferCtx& c) {
  const DeformConvAttrs& a = c.attrs<DeformConvAttrs>();
  HONE_TRY(need(c, 0, Accepts::floats));
  HONE_TRY(need_same_dtype(c, 0, 2));
  const auto w = window_for(a, c.shape(0), a.kernel);
  if (!w.ok()) return w.status().with_context(c.who());
  HONE_TRY(need_offsets(c, c.shape(0), *w, 1, 3));
  if (c.shape(2) != columns_shape(c.shape(0), *w))
    return c.error("the columns' gradient is {}, expected {}", c.shape(2),
                   columns_shape(c.shape(0), *w));
  Shape mask = c.shape(1);
  mask[1] /= 2;
  c.out(c.in(0));
  c.out(c.in(1));
  c.out(c.dtype(0), mask);
  return {};
}

// (x, w, offset, b?, mask?)
Status infer_deform_conv(InferCtx& c) {
  const DeformConvAttrs& a = c.attrs<DeformConvAttrs>();
  HONE_TRY(need(c, 0, Accepts::floats));
  HONE_TRY(need_same_dtype(c, 0, 1));
  HONE_TRY(need_rank(c, 1, 4));
  const Shape &x = c.shape(0), &weight = c.shape(1);
  const auto w = window_for(a, x, spatial_of(weight));
  if (!w.ok()) return w.status().with_context(c.who());
  if (a.conv.groups < 1 || x[1] != weight[1] * a.conv.groups || weight[0] % a.conv.groups != 0)
    return c.error("weight {} does not fit an input {} in {} groups", weight, x, a.conv.groups);
  HONE_TRY(need_offsets(c, x, *w, 2, 4));
  if (c.has(3)) {
    HONE_TRY(need_same_dtype(c, 0, 3));
    if (c.shape(3) != Shape{weight[0]})
      return c.error("the bias has shape {}, expected [{}]", c.shape(3), weight[0]);
  }
  c.out(c.dtype(0), {x[0], weight[0], w->height().out, w->width().out});
  return {};
}

void decompose_deform_conv(DecomposeCtx& c) {
  DeformConvAttrs a = c.attrs<DeformConvAttrs>();
  const Shape x = c.shape(0), weight = c.shape(1), offset = c.shape(2);
  a.kernel = {weight[2], weight[3]};
  const Value columns = c.b.emit(op::deform_columns, {c.in(0), c.in(2), c.in(4)}, a);
  const int64_t groups = a.conv.groups, rows = weight[1] * weight[2] * weight[3],
                places = offset[2] * offset[3];
  const Value y = ops::matmul(ops::reshape(c.in(1), {groups, weight[0] / groups, rows}),
                              ops::reshape(columns, {x[0], groups, rows, places}));
  Value out = ops::reshape(y, {x[0], weight[0], offset[2], offset[3]});
  if (c.has(3)) out = out + ops::reshape(c.in(3), {weight[0], 1, 1});
  c.set(0, out);
}

double columns_flops(const NodeTypes& t) { return 9.0 * static_cast<double>(t.out[0]->numel()); }

}  // namespace

// deform_conv(x, w, offset, b?, mask?): a convolution whose taps are moved by offsets (vertical,
// then horizontal) and scaled by the mask.   (N, C, H, W), (M, C/groups, kh, kw), (N, G * taps * 2,
// oh, ow), (M), (N, G * taps, oh, ow) -> (N, M, oh, ow)
const OpDef op::deform_conv = {
    .name = "deform_conv",
    .attrs = &kAttrSchema<DeformConvAttrs>,
    .min_inputs = 3,
    .max_inputs = 5,
    .infer = infer_deform_conv,
    .decompose = decompose_deform_conv,
    .diff = Diff::by_decomposition,
};

// deform_columns(x, offset, mask?): the moved taps' elements.   -> (N, C * taps, places)
const OpDef op::deform_columns = {
    .name = "deform_columns",
    .attrs = &kAttrSchema<DeformConvAttrs>,
    .min_inputs = 2,
    .max_inputs = 3,
    .infer = infer_columns,
    .diff = Diff::rule,
    .grad =
        [](GradCtx& c) {
          const std::vector<Value> g =
              c.b.emit_all(op::deform_columns_grad,
                           std::array{c.in(0), c.in(1), c.out_grad(0), c.in(2)}, c.raw_attrs());
          if (g.empty()) return;
          c.set(0, g[0]);
          c.set(1, g[1]);
          if (c.has(2)) c.set(2, g[2]);
        },
    .kernel = columns_kernel,
    .flops = columns_flops,
};

// deform_columns_grad(x, offset, g, mask?): the gradients of x, offset and mask.
const OpDef op::deform_columns_grad = {
    .name = "deform_columns_grad",
    .attrs = &kAttrSchema<DeformConvAttrs>,
    .min_inputs = 3,
    .max_inputs = 4,
    .infer = infer_columns_grad,
    .diff = Diff::missing,
    .kernel = columns_grad_kernel,
    .scratch = [](const NodeTypes& t) -> int64_t {
      return t.in[0]->numel() * static_cast<int64_t>(sizeof(double));
    },
    .flops = [](const NodeTypes& t) { return 20.0 * static_cast<double>(t.in[2]->numel()); },
};

}  // namespace hone
