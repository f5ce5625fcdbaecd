// SPDX-License-Identifier: Apache-2.0
// Resampling. Every mode is separable: along each resized axis an output is a weighted sum of a few
// inputs ("taps": one for nearest, two for linear, four for cubic), and resize_grad scatters with
// the same taps, so that it is the exact adjoint.
#include <algorithm>
#include <cmath>

#include "core/ops/checks.hpp"
#include "core/ops/loops.hpp"
#include "core/tensor/convert.hpp"
#include "hone/ops.hpp"
#include "hone/resize_axis.hpp"

namespace hone {

namespace {

constexpr int kMaxResizedAxes = 4;

// ---- shape rules

Result<Shape> resized_shape(const InferCtx& c, const Shape& in, const ResizeAttrs& attrs) {
  if (attrs.antialias || attrs.aspect != AspectRatio::stretch || !attrs.axes.empty() ||
      attrs.coordinates == CoordinateMode::tf_crop_and_resize)
    return c.error("antialias, aspect ratios, axes and crops are for resize_dyn");
  const size_t rank = static_cast<size_t>(in.rank());
  if (attrs.sizes.empty() == attrs.scales.empty() && rank > 0)
    return c.error("either sizes or scales must be given, not both or neither");
  const size_t given = std::max(attrs.sizes.size(), attrs.scales.size());
  if (given != rank) return c.error("{} extents are given for the {} axes of {}", given, rank, in);
  constexpr int64_t kLimit = int64_t{1} << 31;
  Shape out = in;
  int resized = 0;
  for (int i = 0; i < in.rank(); ++i) {
    if (!attrs.scales.empty()) {
      const double scale = attrs.scales[static_cast<size_t>(i)];
      if (!(scale > 0) || !(scale * static_cast<double>(in[i]) < static_cast<double>(kLimit)))
        return c.error("the scale {} of axis {} is out of range", scale, i);
    }
    out[i] = axis_scale(in, attrs, i).out;
    if (out[i] < 0 || out[i] >= kLimit || in[i] >= kLimit)
      return c.error("axis {} cannot be resized from {} to {}", i, in[i], out[i]);
    if (in[i] == 0 && out[i] > 0)
      return c.error("axis {} of {} has no elements to resize from", i, in);
    resized += is_resized(axis_scale(in, attrs, i));
  }
  if (resized > kMaxResizedAxes)
    return c.error("{} axes are resized, at most {} can be", resized, kMaxResizedAxes);
  return out;
}

Status infer_resize_by(InferCtx& c, const ResizeAttrs& attrs) {
  HONE_TRY(need(c, 0, attrs.mode == ResizeMode::nearest ? Accepts::any : Accepts::numbers));
  HONE_ASSIGN(const Shape out, resized_shape(c, c.shape(0), attrs));
  c.out(c.dtype(0), out);
  return {};
}

Status infer_resize_grad(InferCtx& c) {
  const ResizeGradAttrs& attrs = c.attrs<ResizeGradAttrs>();
  HONE_TRY(need(c, 0, Accepts::floats));
  auto in = Shape::make(attrs.input_shape);
  if (!in.ok()) return in.status().with_context(c.who());
  HONE_ASSIGN(const Shape out, resized_shape(c, *in, attrs.resize));
  if (out != c.shape(0))
    return c.error("input {} is not the {} that {} resizes to", c.in(0), out, *in);
  c.out(c.dtype(0), *in);
  return {};
}

// ---- kernels

int64_t tap_bytes(const Shape& in, const Shape& out, const ResizeAttrs& attrs) {
  int64_t taps = 0;
  for (int i = 0; i < in.rank(); ++i)
    if (is_resized(axis_scale(in, attrs, i))) taps += out[i] * taps_per_output(attrs.mode);
  return taps * static_cast<int64_t>(sizeof(Tap));
}

constexpr Tap kIdentityTap = {0, 1};

// The taps of all resized axes, and the loops over the others.
struct Resampler {
  struct Axis {
    const Tap* taps = nullptr;
    int64_t out = 1;
    int64_t in_stride = 0, out_stride = 0;
  };
  int axes = 0;
  int count = 1;  // taps of one output along one axis
  std::array<Axis, kMaxResizedAxes> axis{};
  LoopNest<2> kept;       // the axes that stay: (output, input) offsets
  int64_t positions = 1;  // outputs for each kept element

  Resampler(const Shape& in, const Shape& out, const ResizeAttrs& attrs, Tap* taps)
      : count(taps_per_output(attrs.mode)) {
    const Shape from = strides_of(in), to = strides_of(out);
    for (int i = 0; i < in.rank(); ++i) {
      const AxisScale a = axis_scale(in, attrs, i);
      if (!is_resized(a)) {
        kept.add(in[i], {to[i], from[i]});
        continue;
      }
      for (int64_t o = 0; o < a.out; ++o) set_taps(a, attrs, o, taps + o * count);
      axis[static_cast<size_t>(axes++)] = {taps, a.out, from[i], to[i]};
      taps += a.out * count;
      positions *= a.out;
    }
    if (axes == 0) {  // nothing to do: one axis of one output that is its input
      count = 1;
      axis[static_cast<size_t>(axes++)].taps = &kIdentityTap;
    }
  }

  // For one kept element, calls f(output offset, input offset, weight-and-offset pairs of the outer
  // axes, their number, taps of the last axis) for every output.
  template <class F>
  void for_outputs(int64_t out_base, int64_t in_base, F f) const {
    const Axis& last = axis[static_cast<size_t>(axes - 1)];
    Tap outer[64];  // kMaxResizedAxes - 1 axes of 4 taps; `index` is an offset in the input
    for (int64_t p = 0; p < positions / last.out; ++p) {
      outer[0] = {0, 1};
      int n = 1;
      int64_t rest = p, out = out_base;
      for (int i = axes - 2; i >= 0; --i) {
        const Axis& a = axis[static_cast<size_t>(i)];
        const int64_t o = rest % a.out;
        rest /= a.out;
        out += o * a.out_stride;
        for (int k = count - 1; k >= 0; --k)  // the first copy last: it overwrites its source
          for (int m = 0; m < n; ++m) {
            const Tap& tap = a.taps[o * count + k];
            outer[k * n + m] = {outer[m].index + tap.index * a.in_stride,
                                outer[m].weight * tap.weight};
          }
        n *= count;
      }
      for (int64_t j = 0; j < last.out; ++j)
        f(out + j * last.out_stride, in_base, std::span<const Tap>(outer, static_cast<size_t>(n)),
          last.taps + j * count);
    }
  }

  template <class F>
  void run(ThreadPool& pool, F f) const {
    const int64_t grain = std::max<int64_t>(1, kGrain / (positions * count));
    const auto stride = kept.inner_stride();
    for_ranges(pool, kept.size(), grain, [&](int64_t begin, int64_t end) {
      kept.for_rows(begin, end, [&](const std::array<int64_t, 2>& at, int64_t n) {
        for (int64_t i = 0; i < n; ++i)
          for_outputs(at[0] + i * stride[0], at[1] + i * stride[1], f);
      });
    });
  }

  int64_t last_stride() const { return axis[static_cast<size_t>(axes - 1)].in_stride; }
};

void move_nearest(const KernelArgs& args, const Resampler& r) {
  dispatch_size(size_of(args.out[0].type.dtype), [&]<class T>() {
    const T* x = static_cast<const T*>(args.in[0].data);
    T* y = static_cast<T*>(args.out[0].data);
    r.run(args.pool, [&, stride = r.last_stride()](int64_t out, int64_t in,
                                                   std::span<const Tap> outer, const Tap* taps) {
      y[out] = x[in + outer[0].index + taps[0].index * stride];
    });
  });
}

Status resize_kernel(const KernelArgs& args) {
  const ResizeAttrs& attrs = args.attrs.as<ResizeAttrs>();
  const TensorView& y = args.out[0];
  if (y.numel() == 0) return {};
  const Resampler r(args.shape(0), y.type.shape, attrs, reinterpret_cast<Tap*>(args.scratch));
  if (attrs.mode == ResizeMode::nearest) {
    move_nearest(args, r);
    return {};
  }
  dispatch(y.type.dtype, [&]<class T>() {
    using Sum = std::conditional_t<std::is_same_v<accumulator_t<T>, float>, float, double>;
    const T* x = args.input<T>(0);
    T* out_data = args.output<T>(0);
    r.run(args.pool, [&, stride = r.last_stride()](int64_t out, int64_t in,
                                                   std::span<const Tap> outer, const Tap* taps) {
      Sum sum = 0;
      for (const Tap& o : outer)
        for (int k = 0; k < r.count; ++k)
          sum += static_cast<Sum>(o.weight * taps[k].weight) *
                 static_cast<Sum>(x[in + o.index + taps[k].index * stride]);
      out_data[out] = convert_element<T>(sum);
    });
  });
  return {};
}

Status resize_grad_kernel(const KernelArgs& args) {
  const ResizeGradAttrs& attrs = args.attrs.as<ResizeGradAttrs>();
  const TensorView& gx = args.out[0];
  if (gx.numel() == 0) return {};
  const Shape& out_shape = args.shape(0);
  const Resampler r(gx.type.shape, out_shape, attrs.resize, reinterpret_cast<Tap*>(args.scratch));
  dispatch_float(gx.type.dtype, [&]<class T>() {
    // 16-bit floats are summed in float, behind the taps. No two kept elements share an input.
    using Sum = accumulator_t<T>;
    constexpr bool kDirect = std::is_same_v<T, Sum>;
    const T* gy = args.input<T>(0);
    std::byte* room = args.scratch + tap_bytes(gx.type.shape, out_shape, attrs.resize);
    Sum* sums = reinterpret_cast<Sum*>(kDirect ? static_cast<std::byte*>(gx.data) : room);
    std::fill(sums, sums + gx.numel(), Sum(0));
    if (args.in[0].numel() > 0)
      r.run(args.pool, [&, stride = r.last_stride()](int64_t out, int64_t in,
                                                     std::span<const Tap> outer, const Tap* taps) {
        for (const Tap& o : outer)
          for (int k = 0; k < r.count; ++k)
            sums[in + o.index + taps[k].index * stride] +=
                static_cast<Sum>(o.weight * taps[k].weight) * static_cast<Sum>(gy[out]);
      });
    if constexpr (!kDirect)
      for (int64_t i = 0; i < gx.numel(); ++i) args.output<T>(0)[i] = static_cast<T>(sums[i]);
  });
  return {};
}

double resize_flops(const Shape& out, const ResizeAttrs& attrs) {
  return 4.0 * static_cast<double>(out.numel()) * taps_per_output(attrs.mode);
}

}  // namespace

constinit const OpDef op::resize = {
    .name = "resize",
    .attrs = &kAttrSchema<ResizeAttrs>,
    .infer = [](InferCtx& c) { return infer_resize_by(c, c.attrs<ResizeAttrs>()); },
    .diff = Diff::rule,
    .grad =
        [](GradCtx& c) {
          const Shape& in = c.shape(0);
          c.set(0, c.b.emit(op::resize_grad, {c.out_grad(0)},
                            ResizeGradAttrs{{in.begin(), in.end()}, c.attrs<ResizeAttrs>()}));
        },
    .kernel = resize_kernel,
    .scratch =
        [](const NodeTypes& t) {
          return tap_bytes(t.in[0]->shape, t.out[0]->shape, t.attrs.as<ResizeAttrs>());
        },
    .flops =
        [](const NodeTypes& t) { return resize_flops(t.out[0]->shape, t.attrs.as<ResizeAttrs>()); },
};

constinit const OpDef op::resize_grad = {
    .name = "resize_grad",
    .attrs = &kAttrSchema<ResizeGradAttrs>,
    .infer = infer_resize_grad,
    .diff = Diff::rule,
    .grad =
        [](GradCtx& c) {
          c.set(0, c.b.emit(op::resize, {c.out_grad(0)}, c.attrs<ResizeGradAttrs>().resize));
        },
    .kernel = resize_grad_kernel,
    .scratch =
        [](const NodeTypes& t) {
          const ResizeAttrs& attrs = t.attrs.as<ResizeGradAttrs>().resize;
          const int64_t taps = tap_bytes(t.out[0]->shape, t.in[0]->shape, attrs);
          return taps + (hone::size_of(t.out[0]->dtype) == 2 ? t.out[0]->numel() * 4 : 0);
        },
    .flops =
        [](const NodeTypes& t) {
          return resize_flops(t.in[0]->shape, t.attrs.as<ResizeGradAttrs>().resize);
        },
};

}  // namespace hone
