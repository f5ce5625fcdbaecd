// SPDX-License-Identifier: Apache-2.0
// Norms over windows, planes, channels and axes: ONNX's LpPool, GlobalLpPool, LRN,
// LpNormalization and MeanVarianceNormalization, written with averages.
#include <cmath>

#include "core/ops/checks.hpp"
#include "hone/ops.hpp"
#include "hone/vision_attrs.hpp"
#include "hone/window.hpp"

namespace hone {

namespace {

Value power(Value x, double p) {
  if (p == 1) return ops::abs(x);
  if (p == 2) return ops::square(x);
  return x.valid() ? ops::pow(ops::abs(x), x.builder().scalar(p, x.dtype())) : x;
}
// The root of x >= 0. Its slope at 0 is infinite, that of what it is the root of 0: the gradient of
// a norm at 0 is said to be 0.
Value root(Value x, double p) {
  if (p == 1 || !x.valid()) return x;
  Builder& b = x.builder();
  const Value zero = b.scalar(0, x.dtype()), at_zero = ops::equal(x, zero);
  const Value positive = ops::where(at_zero, b.scalar(1, x.dtype()), x);
  const Value y = p == 2 ? ops::sqrt(positive) : ops::pow(positive, b.scalar(1 / p, x.dtype()));
  return ops::where(at_zero, zero, y);
}

// Powers of half floats soon overflow or vanish.
Value widened(Value x) { return ops::cast(x, x.dtype() == DType::f64 ? DType::f64 : DType::f32); }

// Averages that divide by the whole kernel, wherever the window lies: sums but for a factor.
PoolAttrs summing(PoolAttrs a) {
  a.count_include_pad = a.legacy_divisor = true;
  return a;
}

Status infer_lp_pool(InferCtx& c) {
  const LpPoolAttrs& a = c.attrs<LpPoolAttrs>();
  HONE_TRY(need(c, 0, Accepts::floats));
  if (a.p < 1) return c.error("p is {}, expected at least 1", a.p);
  const auto w = pool_window(a.pool, c.shape(0));
  if (!w.ok()) return w.status().with_context(c.who());
  Shape y = {c.shape(0)[0], c.shape(0)[1]};
  for (int k = 0; k < w->rank; ++k) y.push_back(w->spatial(k).out);
  c.out(c.dtype(0), y);
  return {};
}

void decompose_lp_pool(DecomposeCtx& c) {
  const LpPoolAttrs& a = c.attrs<LpPoolAttrs>();
  double taps = 1;
  for (int64_t k : a.pool.kernel) taps *= static_cast<double>(k);
  const double p = static_cast<double>(a.p);
  const Value mean = c.b.emit(op::avg_pool, {power(widened(c.in(0)), p)}, summing(a.pool));
  c.set(0, ops::cast(root(mean * taps, p), c.type(0).dtype));
}

Status infer_global_lp_pool(InferCtx& c) {
  HONE_TRY(need(c, 0, Accepts::floats));
  HONE_TRY(need_rank_at_least(c, 0, 3));
  if (c.attrs<NormOrderAttrs>().p < 1)
    return c.error("p is {}, expected at least 1", c.attrs<NormOrderAttrs>().p);
  Shape y = Shape::filled(c.shape(0).rank(), 1);
  y[0] = c.shape(0)[0];
  y[1] = c.shape(0)[1];
  c.out(c.dtype(0), y);
  return {};
}

// The channels become an axis that an average slides along: (N, 1, C, rest).
void decompose_lrn(DecomposeCtx& c) {
  const LrnAttrs& a = c.attrs<LrnAttrs>();
  const Shape s = c.shape(0);
  PoolAttrs pool;
  pool.kernel = {a.size, 1};
  pool.pads_begin = {(a.size - 1) / 2, 0};
  pool.pads_end = {a.size - 1 - (a.size - 1) / 2, 0};
  const Value x = ops::reshape(widened(c.in(0)), {s[0], 1, s[1], s.product(2, s.rank())});
  const Value mean = c.b.emit(op::avg_pool, {ops::square(x)}, summing(pool));
  const Value scale = mean * a.alpha + a.bias;
  const Value y = x * ops::pow(scale, c.b.scalar(-a.beta, x.dtype()));
  c.set(0, ops::cast(ops::reshape(y, s), c.type(0).dtype));
}

void decompose_lp_norm(DecomposeCtx& c) {
  const LpNormAttrs& a = c.attrs<LpNormAttrs>();
  const Value x = widened(c.in(0));
  const ReduceAttrs along{{a.axis}, true};
  const Value norm = a.p == 2 ? c.b.emit(op::l2_norm, {x}, along) : ops::sum(ops::abs(x), along);
  const Value zero = c.b.scalar(0, x.dtype()), nothing = ops::equal(norm, zero);
  const Value y = x / ops::where(nothing, c.b.scalar(1, x.dtype()), norm);
  c.set(0, ops::cast(ops::where(nothing, zero, y), c.type(0).dtype));
}

Status infer_axes_of_first(InferCtx& c) {
  HONE_TRY(need(c, 0, Accepts::floats));
  const auto axes = need_axes(c, c.attrs<AxesAttrs>().axes, c.shape(0).rank());
  if (!axes.ok()) return axes.status();
  c.out(c.in(0));
  return {};
}

}  // namespace

// lrn(x): normalises by the squares of the channels around.   (N, C, ..) -> same
const OpDef op::lrn = {
    .name = "lrn",
    .attrs = &kAttrSchema<LrnAttrs>,
    .infer = [](InferCtx& c) -> Status {
      HONE_TRY(need(c, 0, Accepts::floats));
      HONE_TRY(need_rank_at_least(c, 0, 2));
      const int64_t size = c.attrs<LrnAttrs>().size;
      if (size < 1 || size > (int64_t{1} << 20)) return c.error("the size is {}", size);
      c.out(c.in(0));
      return {};
    },
    .decompose = decompose_lrn,
    .diff = Diff::by_decomposition,
};

// lp_pool(x): (sum |x|^p)^(1/p) over each window.   (N, C, in..) -> (N, C, out..)
const OpDef op::lp_pool = {
    .name = "lp_pool",
    .attrs = &kAttrSchema<LpPoolAttrs>,
    .infer = infer_lp_pool,
    .decompose = decompose_lp_pool,
    .diff = Diff::by_decomposition,
};

// global_lp_pool(x): the same over all spatial axes.   (N, C, in..) -> (N, C, 1..)
const OpDef op::global_lp_pool = {
    .name = "global_lp_pool",
    .attrs = &kAttrSchema<NormOrderAttrs>,
    .infer = infer_global_lp_pool,
    .decompose =
        [](DecomposeCtx& c) {
          const double p = static_cast<double>(c.attrs<NormOrderAttrs>().p);
          ReduceAttrs spatial{{}, true};
          for (int i = 2; i < c.shape(0).rank(); ++i) spatial.axes.push_back(i);
          const Value y = root(ops::sum(power(widened(c.in(0)), p), spatial), p);
          c.set(0, ops::cast(y, c.type(0).dtype));
        },
    .diff = Diff::by_decomposition,
};

// lp_norm(x): x divided by its 1-norm or 2-norm along an axis; zeros stay zeros, and have gradient
// 0.
const OpDef op::lp_norm = {
    .name = "lp_norm",
    .attrs = &kAttrSchema<LpNormAttrs>,
    .infer = [](InferCtx& c) -> Status {
      const LpNormAttrs& a = c.attrs<LpNormAttrs>();
      HONE_TRY(need(c, 0, Accepts::floats));
      const auto axis = need_axis(c, 0, a.axis);
      if (!axis.ok()) return axis.status();
      if (a.p != 1 && a.p != 2) return c.error("p is {}, expected 1 or 2", a.p);
      c.out(c.in(0));
      return {};
    },
    .decompose = decompose_lp_norm,
    .diff = Diff::by_decomposition,
};

// mean_variance_norm(x): (x - mean) / (deviation + 1e-9) over the axes (ONNX
// MeanVarianceNormalization).
const OpDef op::mean_variance_norm = {
    .name = "mean_variance_norm",
    .attrs = &kAttrSchema<AxesAttrs>,
    .infer = infer_axes_of_first,
    .decompose =
        [](DecomposeCtx& c) {
          const ReduceAttrs over{c.attrs<AxesAttrs>().axes, true};
          const Value x = widened(c.in(0)), centred = x - ops::mean(x, over);
          const Value deviation = root(ops::mean(ops::square(centred), over), 2);
          c.set(0, ops::cast(centred / (deviation + 1e-9), c.type(0).dtype));
        },
    .diff = Diff::by_decomposition,
};

}  // namespace hone
