// SPDX-License-Identifier: Apache-2.0
// Batch normalisation. In inference it is a scaling with fixed statistics; in training it becomes
// batch_norm_train, and the running statistics are moved by nodes of their own, so that computing a
// batch norm again does not count its batch twice.
//
// Channels are axis 1: x is (N, C, ..), scale, bias and statistics are (C). Variances are those of
// the population; sums run in double, in two passes.
#include "core/ops/norm.hpp"

namespace hone {

namespace {

Status check_channels(const InferCtx& c, std::initializer_list<std::string_view> parameters) {
  HONE_TRY(need(c, 0, Accepts::floats));
  HONE_TRY(need_rank_at_least(c, 0, 2));
  int i = 1;
  for (std::string_view name : parameters)
    HONE_TRY(need_norm_parameter(c, i++, name, {c.shape(0)[1]}));
  return {};
}

// Elements of one channel, as planes of contiguous elements.
struct Channels {
  int64_t batch, channels, plane;
  explicit Channels(const Shape& x) : batch(x[0]), channels(x[1]), plane(x.product(2, x.rank())) {}

  int64_t count() const { return batch * plane; }
  int64_t offset(int64_t n, int64_t c) const { return (n * channels + c) * plane; }

  /// Sum over the channel's elements of f(offset of the element).
  template <class F>
  double sum(int64_t c, F f) const {
    double total = 0;
    for (int64_t n = 0; n < batch; ++n) {
      const int64_t at = offset(n, c);
      total += interleaved_sum(plane, [&](int64_t i) { return f(at + i); });
    }
    return total;
  }
  template <class F>
  void for_each(int64_t c, F f) const {
    for (int64_t n = 0; n < batch; ++n) {
      const int64_t at = offset(n, c);
      for (int64_t i = at; i < at + plane; ++i) f(i);
    }
  }
};

// x - mean for a mean in double. Rounded to S it would shift a whole channel by up to half a unit
// in the mean's last place, much where the mean is large beside the deviation; what rounding leaves
// over is subtracted as well.
template <class S>
struct Center {
  S whole, rest;
  explicit Center(double mean)
      : whole(static_cast<S>(mean)), rest(static_cast<S>(mean - static_cast<double>(whole))) {}
  S operator()(S x) const { return (x - whole) - rest; }
};

template <class F>
void for_channels(const KernelArgs& args, const Channels& shape, F f) {
  args.pool.parallel_for(shape.channels, 1 + 4096 / (shape.count() + 1),
                         [&](int64_t begin, int64_t end, int) {
                           for (int64_t c = begin; c < end; ++c) f(c);
                         });
}

Status batch_norm_kernel(const KernelArgs& args) {
  const double eps = args.attrs.as<BatchNormAttrs>().eps;
  const Channels shape(args.shape(0));
  dispatch_float(args.in[0].type.dtype, [&]<class T>() {
    using S = accumulator_t<T>;
    const T* x = args.input<T>(0);
    T* y = args.output<T>(0);
    for_channels(args, shape, [&](int64_t c) {
      const S factor =
          static_cast<S>(element(args.in[1], c) / std::sqrt(element(args.in[4], c) + eps));
      const S shift = static_cast<S>(element(args.in[2], c) -
                                     element(args.in[3], c) * static_cast<double>(factor));
      shape.for_each(
          c, [&](int64_t i) { y[i] = static_cast<T>(static_cast<S>(x[i]) * factor + shift); });
    });
  });
  return {};
}

Status batch_norm_train_kernel(const KernelArgs& args) {
  const double eps = args.attrs.as<NormAttrs>().eps;
  const Channels shape(args.shape(0));
  const double count = static_cast<double>(shape.count());
  dispatch_float(args.in[0].type.dtype, [&]<class T>() {
    using S = accumulator_t<T>;
    const T* x = args.input<T>(0);
    T* y = args.output<T>(0);
    for_channels(args, shape, [&](int64_t c) {
      const double mean = shape.sum(c, [&](int64_t i) { return wide(x[i]); }) / count;
      const double var = shape.sum(c, [&](int64_t i) {
        return (wide(x[i]) - mean) * (wide(x[i]) - mean);
      }) / count;
      set_element(args.out[1], c, mean);
      set_element(args.out[2], c, var);
      const S factor = static_cast<S>(element(args.in[1], c) / std::sqrt(var + eps));
      const S bias = static_cast<S>(element(args.in[2], c));
      const Center<S> centered(mean);
      shape.for_each(c, [&](int64_t i) {
        y[i] = static_cast<T>(centered(static_cast<S>(x[i])) * factor + bias);
      });
    });
  });
  return {};
}

// With h = (x - mean) * inv: gbias = sum gy, gscale = sum gy h, gx = scale inv (gy - gbias / n - h
// gscale / n).
Status batch_norm_grad_kernel(const KernelArgs& args) {
  const double eps = args.attrs.as<NormAttrs>().eps;
  const Channels shape(args.shape(0));
  const double count = static_cast<double>(shape.count());
  dispatch_float(args.in[0].type.dtype, [&]<class T>() {
    using S = accumulator_t<T>;
    const T *x = args.input<T>(0), *gy = args.input<T>(4);
    T* gx = args.output<T>(0);
    for_channels(args, shape, [&](int64_t c) {
      const double mean = element(args.in[2], c), inv = 1 / std::sqrt(element(args.in[3], c) + eps);
      const double gbias = shape.sum(c, [&](int64_t i) { return wide(gy[i]); });
      const double gscale =
          shape.sum(c, [&](int64_t i) { return wide(gy[i]) * (wide(x[i]) - mean); }) * inv;
      set_element(args.out[1], c, gscale);
      set_element(args.out[2], c, gbias);
      const S factor = static_cast<S>(element(args.in[1], c) * inv);
      const S shift = static_cast<S>(gbias / count), slope = static_cast<S>(inv * gscale / count);
      const S center = static_cast<S>(mean);
      shape.for_each(c, [&](int64_t i) {
        gx[i] = static_cast<T>(
            factor * (static_cast<S>(gy[i]) - shift - (static_cast<S>(x[i]) - center) * slope));
      });
    });
  });
  return {};
}

// ---- written with other operators

ReduceAttrs over_channel(int rank, bool keepdims) {
  ReduceAttrs attrs{{0}, keepdims};
  for (int i = 2; i < rank; ++i) attrs.axes.push_back(i);
  return attrs;
}

// (C) in the statistics' dtype and of a shape that broadcasts to x.
Value per_channel(Value v, Value x) {
  Shape s = Shape::filled(x.shape().rank(), 1);
  s[1] = x.shape()[1];
  return ops::reshape(ops::cast(v, statistics_dtype(x.dtype())), s);
}
Value widened(Value x) { return ops::cast(x, statistics_dtype(x.dtype())); }

double count_of(Value x) { return static_cast<double>(Channels(x.shape()).count()); }

void decompose_batch_norm(DecomposeCtx& c) {
  const Value x = c.in(0);
  const Value factor =
      per_channel(c.in(1), x) * ops::rsqrt(per_channel(c.in(4), x) + c.attrs<BatchNormAttrs>().eps);
  const Value y = (widened(x) - per_channel(c.in(3), x)) * factor + per_channel(c.in(2), x);
  c.set(0, ops::cast(y, x.dtype()));
}

void decompose_batch_norm_train(DecomposeCtx& c) {
  const Value x = c.in(0), wide_x = widened(x);
  const ReduceAttrs over = over_channel(x.shape().rank(), true);
  const Value mean = ops::mean(wide_x, over), d = wide_x - mean, var = ops::mean(d * d, over);
  const Value factor = per_channel(c.in(1), x) * ops::rsqrt(var + c.attrs<NormAttrs>().eps);
  const Shape channels = {x.shape()[1]};
  c.set(0, ops::cast(d * factor + per_channel(c.in(2), x), x.dtype()));
  c.set(1, ops::reshape(mean, channels));
  c.set(2, ops::reshape(var, channels));
}

void decompose_batch_norm_grad(DecomposeCtx& c) {
  const Value x = c.in(0), scale = c.in(1);
  const double count = count_of(x);
  const ReduceAttrs over = over_channel(x.shape().rank(), true);
  const Value inv = ops::rsqrt(per_channel(c.in(3), x) + c.attrs<NormAttrs>().eps);
  const Value h = (widened(x) - per_channel(c.in(2), x)) * inv, gy = widened(c.in(4));
  const Value gbias = ops::sum(gy, over), gscale = ops::sum(gy * h, over);
  const Value gx = per_channel(scale, x) * inv * (gy - gbias / count - h * (gscale / count));
  c.set(0, ops::cast(gx, x.dtype()));
  c.set(1, ops::cast(ops::reshape(gscale, scale.shape()), scale.dtype()));
  c.set(2, ops::cast(ops::reshape(gbias, scale.shape()), scale.dtype()));
}

// d mean / dx = 1 / n and d var / dx = 2 (x - mean) / n: that the mean moves with x does not matter
// to the variance.
void grad_batch_norm_train(GradCtx& c) {
  const Value x = c.in(0), mean = c.out(1), var = c.out(2);
  const Shape shape = x.shape();  // a copy: emitting nodes moves the original
  const double count = count_of(x);
  Value gx;
  const auto add = [&](Value part) { gx = gx.valid() ? gx + part : part; };
  if (c.has_out_grad(0)) {
    const Value in[] = {x, c.in(1), mean, var, c.out_grad(0)};
    const std::vector<Value> g = c.b.emit_all(op::batch_norm_grad, in, c.raw_attrs());
    if (g.empty()) return;
    const bool alone = !c.has_out_grad(1) && !c.has_out_grad(2);
    add(alone ? g[0] : widened(g[0]));
    c.set(1, g[1]);
    c.set(2, g[2]);
  }
  if (c.has_out_grad(1)) add(ops::expand(per_channel(c.out_grad(1), x) / count, shape));
  if (c.has_out_grad(2))
    add(per_channel(c.out_grad(2), x) * (2 / count) * (widened(x) - per_channel(mean, x)));
  c.set(0, gx);
}

void train_batch_norm(TrainingCtx& c) {
  const BatchNormAttrs& attrs = c.attrs<BatchNormAttrs>();
  const double count = count_of(c.in(0)), m = attrs.momentum;
  if (attrs.unbiased && count < 2)
    return c.fail(format(
        "in training it needs more than one value for each channel, got {}; use a larger batch",
        c.type(0)));
  const Value in[] = {c.in(0), c.in(1), c.in(2)};
  const std::vector<Value> outs =
      c.b.emit_all(op::batch_norm_train, in, NormAttrs{.eps = attrs.eps});
  if (outs.empty()) return;
  c.set(0, outs[0]);
  const DType t = c.type(3).dtype;
  const double unbiased = attrs.unbiased ? count / (count - 1) : 1;
  c.update(3, c.in(3) * (1 - m) + ops::cast(outs[1], t) * m);
  c.update(4, c.in(4) * (1 - m) + ops::cast(outs[2], t) * (m * unbiased));
}

double flops_each(const NodeTypes& n, double each) {
  return each * static_cast<double>(n.in[0]->numel());
}

}  // namespace

// batch_norm(x, scale, bias, mean, var) = (x - mean) / sqrt(var + eps) * scale + bias.   (N, C,
// ..), (C) four times -> (N, C, ..)
const OpDef op::batch_norm = {
    .name = "batch_norm",
    .attrs = &kAttrSchema<BatchNormAttrs>,
    .min_inputs = 5,
    .max_inputs = 5,
    .infer = [](InferCtx& c) -> Status {
      HONE_TRY(check_channels(c, {"scale", "bias", "mean", "var"}));
      c.out(c.in(0));
      return {};
    },
    .decompose = decompose_batch_norm,
    .diff = Diff::by_decomposition,
    .kernel = batch_norm_kernel,
    .flops = [](const NodeTypes& n) { return flops_each(n, 2); },
    .training = train_batch_norm,
    .inplace = Inplace::any_input,
};

// batch_norm_train(x, scale, bias) -> (y, mean, var): with the statistics of the batch.   (N, C,
// ..), (C), (C) -> (N, C, ..), (C), (C)
const OpDef op::batch_norm_train = {
    .name = "batch_norm_train",
    .attrs = &kAttrSchema<NormAttrs>,
    .min_inputs = 3,
    .max_inputs = 3,
    .infer = [](InferCtx& c) -> Status {
      HONE_TRY(check_channels(c, {"scale", "bias"}));
      if (Channels(c.shape(0)).count() == 0)
        return c.error("the input {} has no elements to take statistics of", c.in(0));
      c.out(c.in(0));
      c.out(statistics_dtype(c.dtype(0)), {c.shape(0)[1]});
      c.out(statistics_dtype(c.dtype(0)), {c.shape(0)[1]});
      return {};
    },
    .decompose = decompose_batch_norm_train,
    .diff = Diff::rule,
    .grad = grad_batch_norm_train,
    .kernel = batch_norm_train_kernel,
    .flops = [](const NodeTypes& n) { return flops_each(n, 6); },
    .inplace = Inplace::any_input,
};

// batch_norm_grad(x, scale, mean, var, gy) -> (gx, gscale, gbias): the gradient of
// batch_norm_train's y. (N, C, ..), (C) three times, (N, C, ..) -> (N, C, ..), (C), (C)
const OpDef op::batch_norm_grad = {
    .name = "batch_norm_grad",
    .attrs = &kAttrSchema<NormAttrs>,
    .min_inputs = 5,
    .max_inputs = 5,
    .infer = [](InferCtx& c) -> Status {
      HONE_TRY(check_channels(c, {"scale", "mean", "var"}));
      if (c.in(4) != c.in(0))
        return c.error("the output's gradient is {}, the input {}", c.in(4), c.in(0));
      c.out(c.in(0));
      c.out(c.in(1));
      c.out(c.in(1));
      return {};
    },
    .decompose = decompose_batch_norm_grad,
    .diff = Diff::by_decomposition,
    .kernel = batch_norm_grad_kernel,
    .flops = [](const NodeTypes& n) { return flops_each(n, 10); },
    .inplace = Inplace::any_input,
};

}  // namespace hone
