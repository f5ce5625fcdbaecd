// SPDX-License-Identifier: Apache-2.0
// Normalisation over the last axes of each row, and what is written with it: group, instance and
// RMS normalisation.
//
// x is seen as (rows, D): the axes before `axis`, and those from it on. Sums run in double, in two
// passes.
#include <algorithm>

#include "core/ops/norm.hpp"

namespace hone {

namespace {

struct Rows {
  int axis;
  int64_t rows, size;
};

Rows rows_of(const Shape& x, const NormAttrs& attrs) {
  const int axis = static_cast<int>(attrs.axis < 0 ? attrs.axis + x.rank() : attrs.axis);
  return {axis, x.product(0, axis), x.product(axis, x.rank())};
}

Shape normalised(const Shape& x, int axis) {
  return Shape(x.dims().subspan(static_cast<size_t>(axis)));
}

// The shape of a statistic of each row: it broadcasts to x.
Shape statistics_shape(const Shape& x, int axis) {
  Shape s = x;
  for (int i = axis; i < x.rank(); ++i) s[i] = 1;
  return s;
}

Result<int> check_rows(const InferCtx& c) {
  HONE_TRY(need(c, 0, Accepts::floats));
  HONE_ASSIGN(const int axis, need_axis(c, 0, c.attrs<NormAttrs>().axis));
  if (normalised(c.shape(0), axis).numel() == 0)
    return c.error("the input {} has nothing to normalise from axis {} on", c.in(0), axis);
  return axis;
}

Status infer_layer_norm(InferCtx& c) {
  HONE_ASSIGN(const int axis, check_rows(c));
  HONE_TRY(need_norm_parameter(c, 1, "scale", normalised(c.shape(0), axis)));
  HONE_TRY(need_norm_parameter(c, 2, "bias", normalised(c.shape(0), axis)));
  const TensorType statistic{statistics_dtype(c.dtype(0)), statistics_shape(c.shape(0), axis)};
  c.out(c.in(0));
  c.out(statistic);
  c.out(statistic);
  return {};
}

Status infer_layer_norm_grad(InferCtx& c) {
  HONE_ASSIGN(const int axis, check_rows(c));
  const Shape parameter = normalised(c.shape(0), axis);
  HONE_TRY(need_norm_parameter(c, 1, "scale", parameter));
  for (int i = 2; i < 5; ++i)
    if (!c.has(i)) return c.error("input {} is missing", i);
  HONE_TRY(need_norm_parameter(c, 2, "mean", statistics_shape(c.shape(0), axis)));
  HONE_TRY(need_norm_parameter(c, 3, "inv_std", statistics_shape(c.shape(0), axis)));
  if (c.in(4) != c.in(0))
    return c.error("the output's gradient is {}, the input {}", c.in(4), c.in(0));
  const TensorType grad{c.has(1) ? c.dtype(1) : c.dtype(0), parameter};
  c.out(c.in(0));
  c.out(grad);
  c.out(grad);
  return {};
}

template <class F>
void for_rows(const KernelArgs& args, const Rows& r, F f) {
  args.pool.parallel_for(r.rows, 1 + 4096 / (r.size + 1), [&](int64_t begin, int64_t end, int) {
    for (int64_t row = begin; row < end; ++row) f(row);
  });
}

// A scale or bias in the accumulator's type, or the value that stands for one left out.
template <class S>
const S* parameter(const KernelArgs& args, int input, S otherwise, int64_t slot, int64_t size) {
  S* p = reinterpret_cast<S*>(args.scratch) + slot * size;
  for (int64_t i = 0; i < size; ++i)
    p[i] = args.has(input) ? static_cast<S>(element(args.in[static_cast<size_t>(input)], i))
                           : otherwise;
  return p;
}
int64_t parameter_bytes(const NodeTypes& n, int64_t count) {
  const int64_t each = static_cast<int64_t>(size_of(statistics_dtype(n.in[0]->dtype)));
  return count * rows_of(n.in[0]->shape, n.attrs.as<NormAttrs>()).size * each;
}

Status layer_norm_kernel(const KernelArgs& args) {
  const NormAttrs& attrs = args.attrs.as<NormAttrs>();
  const Rows r = rows_of(args.shape(0), attrs);
  const double size = static_cast<double>(r.size);
  dispatch_float(args.in[0].type.dtype, [&]<class T>() {
    using S = accumulator_t<T>;
    const S* scale = parameter(args, 1, S(1), 0, r.size);
    const S* bias = parameter(args, 2, S(0), 1, r.size);
    for_rows(args, r, [&](int64_t row) {
      const T* x = args.input<T>(0) + row * r.size;
      T* y = args.output<T>(0) + row * r.size;
      const double mean = interleaved_sum(r.size, [&](int64_t i) { return wide(x[i]); }) / size;
      const double var =
          interleaved_sum(r.size,
                          [&](int64_t i) { return (wide(x[i]) - mean) * (wide(x[i]) - mean); }) /
          size;
      const double inv = 1 / std::sqrt(var + attrs.eps);
      set_element(args.out[1], row, mean);
      set_element(args.out[2], row, inv);
      const S center = static_cast<S>(mean), factor = static_cast<S>(inv);
      for (int64_t i = 0; i < r.size; ++i)
        y[i] = static_cast<T>((static_cast<S>(x[i]) - center) * factor * scale[i] + bias[i]);
    });
  });
  return {};
}

// gscale = sum over rows of gy h, gbias = sum over rows of gy, with h = (x - mean) inv. Columns are
// shared out to threads, so the order of the sums does not depend on their number.
template <class T>
void parameter_grads(const KernelArgs& args, const Rows& r) {
  constexpr int64_t kColumns = 64;
  const T *x = args.input<T>(0), *gy = args.input<T>(4);
  args.pool.parallel_for(
      (r.size + kColumns - 1) / kColumns, 1, [&](int64_t begin, int64_t end, int) {
        for (int64_t block = begin; block < end; ++block) {
          const int64_t first = block * kColumns, n = std::min(kColumns, r.size - first);
          double gscale[kColumns] = {}, gbias[kColumns] = {};
          for (int64_t row = 0; row < r.rows; ++row) {
            const double mean = element(args.in[2], row), inv = element(args.in[3], row);
            const int64_t at = row * r.size + first;
            for (int64_t i = 0; i < n; ++i) {
              gscale[i] += wide(gy[at + i]) * ((wide(x[at + i]) - mean) * inv);
              gbias[i] += wide(gy[at + i]);
            }
          }
          for (int64_t i = 0; i < n; ++i) set_element(args.out[1], first + i, gscale[i]);
          for (int64_t i = 0; i < n; ++i) set_element(args.out[2], first + i, gbias[i]);
        }
      });
}

// gx = inv (g - mean(g) - h mean(g h)) with g = gy scale.
template <class T>
void input_grad(const KernelArgs& args, const Rows& r) {
  using S = accumulator_t<T>;
  const S* scale = parameter(args, 1, S(1), 0, r.size);
  const double size = static_cast<double>(r.size);
  for_rows(args, r, [&](int64_t row) {
    const T *x = args.input<T>(0) + row * r.size, *gy = args.input<T>(4) + row * r.size;
    T* gx = args.output<T>(0) + row * r.size;
    const double mean = element(args.in[2], row), inv = element(args.in[3], row);
    const auto g = [&](int64_t i) { return static_cast<S>(gy[i]) * scale[i]; };
    const double sum =
        interleaved_sum(r.size, [&](int64_t i) { return static_cast<double>(g(i)); });
    const double dot = interleaved_sum(
        r.size, [&](int64_t i) { return static_cast<double>(g(i)) * (wide(x[i]) - mean); });
    const S center = static_cast<S>(mean), factor = static_cast<S>(inv);
    const S shift = static_cast<S>(sum / size), slope = static_cast<S>(dot / size * inv * inv);
    for (int64_t i = 0; i < r.size; ++i)
      gx[i] = static_cast<T>(factor * (g(i) - shift - (static_cast<S>(x[i]) - center) * slope));
  });
}

Status layer_norm_grad_kernel(const KernelArgs& args) {
  const Rows r = rows_of(args.shape(0), args.attrs.as<NormAttrs>());
  dispatch_float(args.in[0].type.dtype, [&]<class T>() {
    parameter_grads<T>(args, r);  // first: gx may take the place of x or gy
    input_grad<T>(args, r);
  });
  return {};
}

// ---- written with other operators

Value widened(Value x) { return ops::cast(x, statistics_dtype(x.dtype())); }

ReduceAttrs axes_from(int axis, int rank) {
  ReduceAttrs attrs{{}, true};
  for (int i = axis; i < rank; ++i) attrs.axes.push_back(i);
  return attrs;
}
ReduceAttrs axes_before(int axis) {
  ReduceAttrs attrs{{}, false};
  for (int i = 0; i < axis; ++i) attrs.axes.push_back(i);
  return attrs;
}

void decompose_layer_norm(DecomposeCtx& c) {
  const NormAttrs& attrs = c.attrs<NormAttrs>();
  const Value x = widened(c.in(0));
  const ReduceAttrs over = axes_from(rows_of(x.shape(), attrs).axis, x.shape().rank());
  const Value mean = ops::mean(x, over), d = x - mean;
  const Value inv = ops::rsqrt(ops::mean(d * d, over) + attrs.eps);
  Value y = d * inv;
  if (c.has(1)) y = y * ops::cast(c.in(1), y.dtype());
  if (c.has(2)) y = y + ops::cast(c.in(2), y.dtype());
  c.set(0, ops::cast(y, c.type(0).dtype));
  c.set(1, mean);
  c.set(2, inv);
}

void decompose_layer_norm_grad(DecomposeCtx& c) {
  const Value x = widened(c.in(0)), gy = widened(c.in(4));
  const Value mean = ops::cast(c.in(2), x.dtype()), inv = ops::cast(c.in(3), x.dtype());
  const int axis = rows_of(x.shape(), c.attrs<NormAttrs>()).axis;
  const ReduceAttrs over = axes_from(axis, x.shape().rank()), rows = axes_before(axis);
  const Value h = (x - mean) * inv, g = c.has(1) ? gy * ops::cast(c.in(1), x.dtype()) : gy;
  const Value gx = inv * (g - ops::mean(g, over) - h * ops::mean(g * h, over));
  const DType t = c.has(1) ? c.type(1).dtype : c.type(0).dtype;
  const auto over_rows = [&](Value v) { return ops::cast(axis == 0 ? v : ops::sum(v, rows), t); };
  c.set(0, ops::cast(gx, c.type(0).dtype));
  c.set(1, over_rows(gy * h));
  c.set(2, over_rows(gy));
}

// d mean / dx = 1 / D and d inv / dx = -inv^3 (x - mean) / D.
void grad_layer_norm(GradCtx& c) {
  const Value x = c.in(0), mean = c.out(1), inv = c.out(2);
  const Shape shape = x.shape();  // a copy: emitting nodes moves the original
  const double size = static_cast<double>(rows_of(x.shape(), c.attrs<NormAttrs>()).size);
  Value gx;
  const auto add = [&](Value part) { gx = gx.valid() ? gx + part : part; };
  if (c.has_out_grad(0)) {
    const Value in[] = {x, c.in(1), mean, inv, c.out_grad(0)};
    const std::vector<Value> g = c.b.emit_all(op::layer_norm_grad, in, c.raw_attrs());
    if (g.empty()) return;
    const bool alone = !c.has_out_grad(1) && !c.has_out_grad(2);
    add(alone ? g[0] : widened(g[0]));
    if (c.has(1)) c.set(1, g[1]);
    if (c.has(2)) c.set(2, g[2]);
  }
  if (c.has_out_grad(1)) add(ops::expand(c.out_grad(1) / size, shape));
  if (c.has_out_grad(2)) add(c.out_grad(2) * inv * inv * inv * (-1 / size) * (widened(x) - mean));
  c.set(0, gx);
}

// y * scale + bias for each channel, in the wider of the types.
Value scaled(DecomposeCtx& c, Value y) {
  Shape channels = Shape::filled(y.shape().rank(), 1);
  channels[1] = y.shape()[1];
  const auto channel = [&](int i) { return ops::reshape(widened(c.in(i)), channels); };
  if (!c.has(1) && !c.has(2)) return y;
  Value out = widened(y);
  if (c.has(1)) out = out * channel(1);
  if (c.has(2)) out = out + channel(2);
  return ops::cast(out, y.dtype());
}

void decompose_group_norm(DecomposeCtx& c, int64_t groups, double eps) {
  const Value x = c.in(0);
  const Shape s = x.shape();
  const Value rows = ops::reshape(x, {s[0], groups, s[1] / groups * s.product(2, s.rank())});
  const Value y = c.b.emit(op::layer_norm, {rows}, NormAttrs{eps, 2});
  c.set(0, y.valid() ? scaled(c, ops::reshape(y, s)) : y);
}

Status infer_group_norm(InferCtx& c, int64_t groups) {
  HONE_TRY(need(c, 0, Accepts::floats));
  HONE_TRY(need_rank_at_least(c, 0, 2));
  const Shape& x = c.shape(0);
  if (groups < 1 || x[1] % groups != 0)
    return c.error("{} channels do not split into {} groups", x[1], groups);
  if (x.product(1, x.rank()) == 0) return c.error("the input {} has nothing to normalise", c.in(0));
  HONE_TRY(need_norm_parameter(c, 1, "scale", {x[1]}));
  HONE_TRY(need_norm_parameter(c, 2, "bias", {x[1]}));
  c.out(c.in(0));
  return {};
}

double flops_each(const NodeTypes& n, double each) {
  return each * static_cast<double>(n.in[0]->numel());
}

}  // namespace

// layer_norm(x, scale?, bias?) -> (y, mean, inv_std): y = (x - mean) inv_std scale + bias, inv_std
// = 1 / sqrt(var + eps), over the axes from `axis` on.   (rows.., D..), (D..), (D..) -> (rows..,
// D..), (rows.., 1..), (rows.., 1..)
const OpDef op::layer_norm = {
    .name = "layer_norm",
    .attrs = &kAttrSchema<NormAttrs>,
    .min_inputs = 1,
    .max_inputs = 3,
    .infer = infer_layer_norm,
    .decompose = decompose_layer_norm,
    .diff = Diff::rule,
    .grad = grad_layer_norm,
    .kernel = layer_norm_kernel,
    .scratch = [](const NodeTypes& n) { return parameter_bytes(n, 2); },
    .flops = [](const NodeTypes& n) { return flops_each(n, 8); },
    .inplace = Inplace::any_input,
};

// layer_norm_grad(x, scale?, mean, inv_std, gy) -> (gx, gscale, gbias): the gradient of
// layer_norm's y. (rows.., D..), (D..), (rows.., 1..) twice, (rows.., D..) -> (rows.., D..), (D..),
// (D..)
const OpDef op::layer_norm_grad = {
    .name = "layer_norm_grad",
    .attrs = &kAttrSchema<NormAttrs>,
    .min_inputs = 1,
    .max_inputs = 5,
    .infer = infer_layer_norm_grad,
    .decompose = decompose_layer_norm_grad,
    .diff = Diff::by_decomposition,
    .kernel = layer_norm_grad_kernel,
    .scratch = [](const NodeTypes& n) { return parameter_bytes(n, 1); },
    .flops = [](const NodeTypes& n) { return flops_each(n, 14); },
    .inplace = Inplace::any_input,
};

// group_norm(x, scale?, bias?): over the channels of a group and all that follows them.   (N, C,
// ..), (C), (C) -> (N, C, ..)
const OpDef op::group_norm = {
    .name = "group_norm",
    .attrs = &kAttrSchema<GroupNormAttrs>,
    .min_inputs = 1,
    .max_inputs = 3,
    .infer = [](InferCtx& c) { return infer_group_norm(c, c.attrs<GroupNormAttrs>().groups); },
    .decompose =
        [](DecomposeCtx& c) {
          const auto [groups, eps] = c.attrs<GroupNormAttrs>();
          decompose_group_norm(c, groups, eps);
        },
    .diff = Diff::by_decomposition,
    .flops = [](const NodeTypes& n) { return flops_each(n, 10); },
};

// instance_norm(x, scale?, bias?): each channel of each sample alone.   (N, C, ..), (C), (C) -> (N,
// C, ..)
const OpDef op::instance_norm = {
    .name = "instance_norm",
    .attrs = &kAttrSchema<NormAttrs>,
    .min_inputs = 1,
    .max_inputs = 3,
    .infer =
        [](InferCtx& c) {
          const int64_t channels = c.shape(0).rank() > 1 ? c.shape(0)[1] : 1;
          return infer_group_norm(c, std::max<int64_t>(channels, 1));
        },
    .decompose =
        [](DecomposeCtx& c) { decompose_group_norm(c, c.shape(0)[1], c.attrs<NormAttrs>().eps); },
    .diff = Diff::by_decomposition,
    .flops = [](const NodeTypes& n) { return flops_each(n, 10); },
};

// rms_norm(x, scale?) = x / sqrt(mean(x^2) + eps) scale, over the axes from `axis` on.   (rows..,
// D..), (D..) -> (rows.., D..)
const OpDef op::rms_norm = {
    .name = "rms_norm",
    .attrs = &kAttrSchema<NormAttrs>,
    .min_inputs = 1,
    .max_inputs = 2,
    .infer = [](InferCtx& c) -> Status {
      HONE_ASSIGN(const int axis, check_rows(c));
      HONE_TRY(need_norm_parameter(c, 1, "scale", normalised(c.shape(0), axis)));
      c.out(c.in(0));
      return {};
    },
    .decompose =
        [](DecomposeCtx& c) {
          const NormAttrs& attrs = c.attrs<NormAttrs>();
          const Value x = widened(c.in(0));
          const ReduceAttrs over = axes_from(rows_of(x.shape(), attrs).axis, x.shape().rank());
          Value y = x * ops::rsqrt(ops::mean(x * x, over) + attrs.eps);
          if (c.has(1)) y = y * ops::cast(c.in(1), y.dtype());
          c.set(0, ops::cast(y, c.type(0).dtype));
        },
    .diff = Diff::by_decomposition,
    .flops = [](const NodeTypes& n) { return flops_each(n, 5); },
};

}  // namespace hone
