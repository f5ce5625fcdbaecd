// SPDX-License-Identifier: Apache-2.0
// Pooling over windows, and over everything.
//
// max_pool_grad and max_pool_pick move values along the positions of the maxima: one scatters what
// the other gathers, so each is the other's gradient. The positions are found again from x instead
// of being kept: they cost a byte-for-byte copy of the output to keep and little to find.
#include <algorithm>
#include <cmath>

#include "core/ops/checks.hpp"
#include "hone/ops.hpp"
#include "hone/thread_pool.hpp"
#include "hone/window.hpp"

namespace hone {

namespace {

// (N, C, spatial..) with the spatial extents of the windows.
Shape pooled(const Shape& x, const Window& w) {
  Shape y = {x[0], x[1]};
  for (int k = 0; k < w.rank; ++k) y.push_back(w.spatial(k).out);
  return y;
}

Result<Shape> infer_pooled(const InferCtx& c, const PoolAttrs& attrs, const Shape& x) {
  const auto w = pool_window(attrs, x);
  if (!w.ok()) return w.status().with_context(c.who());
  return pooled(x, *w);
}

// Calls f(offset) for the taps of window (od, oh, ow) that lie on the input, in order; offset is
// within the plane.
template <class F>
void for_taps(const Window& win, int64_t od, int64_t oh, int64_t ow, F f) {
  const WindowAxis &d = win.depth(), &h = win.height(), &w = win.width();
  for (int64_t kd = 0; kd < d.kernel; ++kd) {
    const int64_t id = d.start(od) + kd * d.dilation;
    if (id < 0 || id >= d.in) continue;
    for (int64_t kh = 0; kh < h.kernel; ++kh) {
      const int64_t ih = h.start(oh) + kh * h.dilation;
      if (ih < 0 || ih >= h.in) continue;
      for (int64_t kw = 0; kw < w.kernel; ++kw) {
        const int64_t iw = w.start(ow) + kw * w.dilation;
        if (iw >= 0 && iw < w.in) f((id * h.in + ih) * w.in + iw);
      }
    }
  }
}

// Calls f(window, od, oh, ow) for the windows of a plane, in order.
template <class F>
void for_windows(const Window& win, F f) {
  int64_t o = 0;
  for (int64_t od = 0; od < win.depth().out; ++od)
    for (int64_t oh = 0; oh < win.height().out; ++oh)
      for (int64_t ow = 0; ow < win.width().out; ++ow) f(o++, od, oh, ow);
}

// Planes (n, c) shared out to threads.
template <class F>
void for_planes(const KernelArgs& args, const Shape& x, const Window& win, F f) {
  const int64_t work = win.out_size() * win.kernel_size();
  args.pool.parallel_for(x[0] * x[1], 1 + 16384 / (work + 1), [&](int64_t begin, int64_t end, int) {
    for (int64_t plane = begin; plane < end; ++plane) f(plane);
  });
}

// Where a window's maximum lies in its plane: the first of equal ones, or the first NaN.
template <class T>
int64_t position_of_max(const T* plane, const Window& win, int64_t od, int64_t oh, int64_t ow) {
  using S = std::conditional_t<is_float_type<T>, accumulator_t<T>, T>;
  int64_t best = -1;
  S largest{};
  for_taps(win, od, oh, ow, [&](int64_t at) {
    const S v = static_cast<S>(plane[at]);
    if (best >= 0 && !(v > largest) && !(v != v && largest == largest)) return;
    best = at;
    largest = v;
  });
  return best;
}

template <class F>
decltype(auto) dispatch_numbers(DType t, F&& f) {
  return dispatch(t, [&]<class T>() {
    if constexpr (!std::is_same_v<T, bool>) f.template operator()<T>();
  });
}

Status infer_max_pool(InferCtx& c) {
  HONE_TRY(need(c, 0, Accepts::numbers));
  HONE_ASSIGN(const Shape y, infer_pooled(c, c.attrs<PoolAttrs>(), c.shape(0)));
  c.out(c.dtype(0), y);
  return {};
}

Status max_pool_kernel(const KernelArgs& args) {
  HONE_ASSIGN(const Window win, pool_window(args.attrs.as<PoolAttrs>(), args.shape(0)));
  dispatch_numbers(args.in[0].type.dtype, [&]<class T>() {
    for_planes(args, args.shape(0), win, [&](int64_t plane) {
      const T* x = args.input<T>(0) + plane * win.in_size();
      T* y = args.output<T>(0) + plane * win.out_size();
      for_windows(win, [&](int64_t o, int64_t od, int64_t oh, int64_t ow) {
        y[o] = x[position_of_max(x, win, od, oh, ow)];
      });
    });
  });
  return {};
}

Status infer_max_pool_grad(InferCtx& c) {
  HONE_TRY(need(c, 0, Accepts::floats));
  HONE_TRY(need_same_dtype(c, 0, 1));
  HONE_ASSIGN(const Shape y, infer_pooled(c, c.attrs<PoolAttrs>(), c.shape(0)));
  if (c.shape(1) != y) return c.error("the output's gradient is {}, expected {}", c.shape(1), y);
  c.out(c.in(0));
  return {};
}

// Half floats are summed in float first, where windows overlap.
template <class T>
accumulator_t<T>* sums_of(const KernelArgs& args, T* out, int64_t offset) {
  if constexpr (std::is_same_v<accumulator_t<T>, T>)
    return out + offset;
  else
    return reinterpret_cast<accumulator_t<T>*>(args.scratch) + offset;
}
template <class T>
void store_sums(const accumulator_t<T>* sums, T* out, int64_t n) {
  if constexpr (!std::is_same_v<accumulator_t<T>, T>)
    std::transform(sums, sums + n, out, [](auto v) { return T(v); });
}
int64_t sums_bytes(const NodeTypes& n) {
  const DType t = n.out[0]->dtype;
  return t == DType::f16 || t == DType::bf16
             ? n.out[0]->numel() * static_cast<int64_t>(sizeof(float))
             : 0;
}

Status max_pool_grad_kernel(const KernelArgs& args) {
  HONE_ASSIGN(const Window win, pool_window(args.attrs.as<PoolAttrs>(), args.shape(0)));
  dispatch_float(args.in[0].type.dtype, [&]<class T>() {
    for_planes(args, args.shape(0), win, [&](int64_t plane) {
      const T* x = args.input<T>(0) + plane * win.in_size();
      const T* gy = args.input<T>(1) + plane * win.out_size();
      auto* sums = sums_of<T>(args, args.output<T>(0), plane * win.in_size());
      std::fill_n(sums, win.in_size(), accumulator_t<T>(0));
      for_windows(win, [&](int64_t o, int64_t od, int64_t oh, int64_t ow) {
        sums[position_of_max(x, win, od, oh, ow)] += static_cast<accumulator_t<T>>(gy[o]);
      });
      store_sums<T>(sums, args.output<T>(0) + plane * win.in_size(), win.in_size());
    });
  });
  return {};
}

Status infer_max_pool_pick(InferCtx& c) {
  HONE_TRY(need(c, 0, Accepts::floats));
  if (c.in(0) != c.in(1))
    return c.error("inputs are {} and {}, expected one type", c.in(0), c.in(1));
  HONE_ASSIGN(const Shape y, infer_pooled(c, c.attrs<PoolAttrs>(), c.shape(0)));
  c.out(c.dtype(0), y);
  return {};
}

Status max_pool_pick_kernel(const KernelArgs& args) {
  HONE_ASSIGN(const Window win, pool_window(args.attrs.as<PoolAttrs>(), args.shape(0)));
  dispatch_float(args.in[0].type.dtype, [&]<class T>() {
    for_planes(args, args.shape(0), win, [&](int64_t plane) {
      const T* x = args.input<T>(0) + plane * win.in_size();
      const T* v = args.input<T>(1) + plane * win.in_size();
      T* y = args.output<T>(0) + plane * win.out_size();
      for_windows(win, [&](int64_t o, int64_t od, int64_t oh, int64_t ow) {
        y[o] = v[position_of_max(x, win, od, oh, ow)];
      });
    });
  });
  return {};
}

// ---- averages

// Taps of window o that count towards the divisor.
int64_t counted(const WindowAxis& a, const PoolAttrs& attrs, int64_t o) {
  if (attrs.count_include_pad && attrs.legacy_divisor) return a.kernel;
  const int64_t first = attrs.count_include_pad ? -a.pad_begin : 0;
  const int64_t last = attrs.count_include_pad ? a.in + a.pad_end : a.in;
  int64_t n = 0;
  for (int64_t t = 0; t < a.kernel; ++t) {
    const int64_t at = a.start(o) + t * a.dilation;
    n += at >= first && at < last;
  }
  return n;
}
int64_t divisor(const Window& win, const PoolAttrs& attrs, int64_t od, int64_t oh, int64_t ow) {
  return counted(win.depth(), attrs, od) * counted(win.height(), attrs, oh) *
         counted(win.width(), attrs, ow);
}

Status infer_avg_pool(InferCtx& c) {
  HONE_TRY(need(c, 0, Accepts::floats));
  HONE_ASSIGN(const Shape y, infer_pooled(c, c.attrs<PoolAttrs>(), c.shape(0)));
  c.out(c.dtype(0), y);
  return {};
}

Status avg_pool_kernel(const KernelArgs& args) {
  const PoolAttrs& attrs = args.attrs.as<PoolAttrs>();
  HONE_ASSIGN(const Window win, pool_window(attrs, args.shape(0)));
  dispatch_float(args.in[0].type.dtype, [&]<class T>() {
    using S = accumulator_t<T>;
    for_planes(args, args.shape(0), win, [&](int64_t plane) {
      const T* x = args.input<T>(0) + plane * win.in_size();
      T* y = args.output<T>(0) + plane * win.out_size();
      for_windows(win, [&](int64_t o, int64_t od, int64_t oh, int64_t ow) {
        S sum = 0;
        for_taps(win, od, oh, ow, [&](int64_t at) { sum += static_cast<S>(x[at]); });
        y[o] = static_cast<T>(sum / static_cast<S>(divisor(win, attrs, od, oh, ow)));
      });
    });
  });
  return {};
}

Status infer_avg_pool_grad(InferCtx& c) {
  const PoolGradAttrs& attrs = c.attrs<PoolGradAttrs>();
  HONE_TRY(need(c, 0, Accepts::floats));
  auto x = Shape::make(attrs.input_shape);
  if (!x.ok()) return x.status().with_context(c.who());
  HONE_ASSIGN(const Shape y, infer_pooled(c, attrs.pool, *x));
  if (c.shape(0) != y) return c.error("the output's gradient is {}, expected {}", c.shape(0), y);
  c.out(c.dtype(0), *x);
  return {};
}

Status avg_pool_grad_kernel(const KernelArgs& args) {
  const PoolAttrs& attrs = args.attrs.as<PoolGradAttrs>().pool;
  const Shape& shape = args.out[0].type.shape;
  HONE_ASSIGN(const Window win, pool_window(attrs, shape));
  dispatch_float(args.in[0].type.dtype, [&]<class T>() {
    using S = accumulator_t<T>;
    for_planes(args, shape, win, [&](int64_t plane) {
      const T* gy = args.input<T>(0) + plane * win.out_size();
      S* sums = sums_of<T>(args, args.output<T>(0), plane * win.in_size());
      std::fill_n(sums, win.in_size(), S(0));
      for_windows(win, [&](int64_t o, int64_t od, int64_t oh, int64_t ow) {
        const S share = static_cast<S>(gy[o]) / static_cast<S>(divisor(win, attrs, od, oh, ow));
        for_taps(win, od, oh, ow, [&](int64_t at) { sums[at] += share; });
      });
      store_sums<T>(sums, args.output<T>(0) + plane * win.in_size(), win.in_size());
    });
  });
  return {};
}

double pool_flops(const NodeTypes& n) {
  const PoolAttrs& attrs = n.attrs.as<PoolAttrs>();
  double taps = 1;
  for (int64_t k : attrs.kernel) taps *= static_cast<double>(k);
  return taps * static_cast<double>(n.out[0]->numel());
}

// ---- over all spatial axes

Status infer_global_pool(InferCtx& c) {
  HONE_TRY(need(c, 0, Accepts::floats));
  HONE_TRY(need_rank_at_least(c, 0, 3));
  Shape y = Shape::filled(c.shape(0).rank(), 1);
  y[0] = c.shape(0)[0];
  y[1] = c.shape(0)[1];
  if (c.shape(0).product(2, y.rank()) == 0)
    return c.error("the input {} has no elements to pool", c.shape(0));
  c.out(c.dtype(0), y);
  return {};
}
ReduceAttrs over_spatial(const Shape& x) {
  ReduceAttrs attrs{{}, true};
  for (int i = 2; i < x.rank(); ++i) attrs.axes.push_back(i);
  return attrs;
}

}  // namespace

// max_pool(x): the largest element of each window; padding never wins, a NaN does.   (N, C, in..)
// -> (N, C, out..) The gradient goes to the first of equal elements.
const OpDef op::max_pool = {
    .name = "max_pool",
    .attrs = &kAttrSchema<PoolAttrs>,
    .infer = infer_max_pool,
    .diff = Diff::rule,
    .grad =
        [](GradCtx& c) {
          c.set(0, c.b.emit(op::max_pool_grad, {c.in(0), c.out_grad(0)}, c.raw_attrs()));
        },
    .kernel = max_pool_kernel,
    .flops = pool_flops,
};

// max_pool_grad(x, gy): gy added up where the maxima of x lie, zero elsewhere.   (N, C, in..), (N,
// C, out..) -> (N, C, in..) x only decides where: its gradient is zero.
const OpDef op::max_pool_grad = {
    .name = "max_pool_grad",
    .attrs = &kAttrSchema<PoolAttrs>,
    .min_inputs = 2,
    .max_inputs = 2,
    .infer = infer_max_pool_grad,
    .diff = Diff::rule,
    .grad =
        [](GradCtx& c) {
          c.set(1, c.b.emit(op::max_pool_pick, {c.in(0), c.out_grad(0)}, c.raw_attrs()));
        },
    .kernel = max_pool_grad_kernel,
    .scratch = sums_bytes,
};

// max_pool_pick(x, v): v where the maxima of x lie.   (N, C, in..) twice -> (N, C, out..)
// x only decides where: its gradient is zero.
const OpDef op::max_pool_pick = {
    .name = "max_pool_pick",
    .attrs = &kAttrSchema<PoolAttrs>,
    .min_inputs = 2,
    .max_inputs = 2,
    .infer = infer_max_pool_pick,
    .diff = Diff::rule,
    .grad =
        [](GradCtx& c) {
          c.set(1, c.b.emit(op::max_pool_grad, {c.in(0), c.out_grad(0)}, c.raw_attrs()));
        },
    .kernel = max_pool_pick_kernel,
    .flops = pool_flops,
};

// avg_pool(x): the mean of each window. The divisor counts taps on the input, with
// count_include_pad also those on declared padding, never those beyond it.   (N, C, in..) -> (N, C,
// out..)
const OpDef op::avg_pool = {
    .name = "avg_pool",
    .attrs = &kAttrSchema<PoolAttrs>,
    .infer = infer_avg_pool,
    .diff = Diff::rule,
    .grad =
        [](GradCtx& c) {
          const Shape x = c.shape(0);
          c.set(0, c.b.emit(op::avg_pool_grad, {c.out_grad(0)},
                            PoolGradAttrs{{x.begin(), x.end()}, c.attrs<PoolAttrs>()}));
        },
    .kernel = avg_pool_kernel,
    .flops = pool_flops,
};

// avg_pool_grad(gy): the adjoint of avg_pool.   (N, C, out..) -> input_shape
const OpDef op::avg_pool_grad = {
    .name = "avg_pool_grad",
    .attrs = &kAttrSchema<PoolGradAttrs>,
    .infer = infer_avg_pool_grad,
    .diff = Diff::rule,
    .grad =
        [](GradCtx& c) {
          c.set(0, c.b.emit(op::avg_pool, {c.out_grad(0)}, c.attrs<PoolGradAttrs>().pool));
        },
    .kernel = avg_pool_grad_kernel,
    .scratch = sums_bytes,
};

// global_avg_pool, global_max_pool: over all spatial axes.   (N, C, in..) -> (N, C, 1..)
const OpDef op::global_avg_pool = {
    .name = "global_avg_pool",
    .infer = infer_global_pool,
    .decompose = [](DecomposeCtx& c) { c.set(0, ops::mean(c.in(0), over_spatial(c.shape(0)))); },
    .diff = Diff::by_decomposition,
    .flops = [](const NodeTypes& n) { return static_cast<double>(n.in[0]->numel()); },
};
const OpDef op::global_max_pool = {
    .name = "global_max_pool",
    .infer = infer_global_pool,
    .decompose = [](DecomposeCtx& c) { c.set(0, ops::max(c.in(0), over_spatial(c.shape(0)))); },
    .diff = Diff::by_decomposition,
    .flops = [](const NodeTypes& n) { return static_cast<double>(n.in[0]->numel()); },
};

}  // namespace hone
