// SPDX-License-Identifier: Apache-2.0
// Reductions over axes.
//
// Of no elements the sum is 0, the product 1, the mean NaN, the greatest -inf and the least inf;
// integers have no such value for mean, max and min and are refused.
#include "core/ops/reduce_kernel.hpp"

#include "core/ops/checks.hpp"
#include "hone/ops.hpp"

namespace hone {

namespace {

using AxisSet = std::array<bool, kMaxRank>;  // no allocation: kernels ask too

AxisSet reduced_axes(int rank, std::span<const int64_t> axes) {
  AxisSet reduced{};
  reduced.fill(axes.empty());
  for (const int64_t a : axes) reduced[static_cast<size_t>(a < 0 ? a + rank : a)] = true;
  return reduced;
}

Shape reduced_shape(const Shape& in, const ReduceAttrs& attrs) {
  const AxisSet reduced = reduced_axes(in.rank(), attrs.axes);
  Shape out;
  for (int i = 0; i < in.rank(); ++i) {
    if (!reduced[static_cast<size_t>(i)])
      out.push_back(in[i]);
    else if (attrs.keepdims)
      out.push_back(1);
  }
  return out;
}

// Elements behind one output.
int64_t reduced_count(const Shape& in, std::span<const int64_t> axes) {
  const AxisSet reduced = reduced_axes(in.rank(), axes);
  int64_t n = 1;
  for (int i = 0; i < in.rank(); ++i)
    if (reduced[static_cast<size_t>(i)]) n *= in[i];
  return n;
}

Status infer_reduce(InferCtx& c) {
  const ReduceAttrs& attrs = c.attrs<ReduceAttrs>();
  HONE_TRY(need(c, 0, Accepts::numbers));
  HONE_TRY(need_axes(c, attrs.axes, c.shape(0).rank()).status());
  c.out(c.dtype(0), reduced_shape(c.shape(0), attrs));
  return {};
}

// For reductions that integers have no neutral element for.
Status infer_reduce_some(InferCtx& c) {
  HONE_TRY(infer_reduce(c));
  if (is_float(c.dtype(0)) || c.outs[0].numel() == 0) return {};
  if (reduced_count(c.shape(0), c.attrs<ReduceAttrs>().axes) > 0) return {};
  return c.error("input {} has no elements along the reduced axes", c.in(0));
}

double reduce_flops(const NodeTypes& t) { return static_cast<double>(t.in[0]->numel()); }

int64_t reduce_scratch(const NodeTypes& t) {
  const int64_t size = reduced_count(t.in[0]->shape, t.attrs.as<ReduceAttrs>().axes);
  const int64_t chunks = (size + kReduceChunk - 1) / kReduceChunk;
  return t.out[0]->numel() < kFewOutputs && chunks > 1 ? chunks * 8 : 0;
}

DType at_least_f32(DType t) { return t == DType::f64 ? DType::f64 : DType::f32; }

// An output-shaped value with its reduced axes back, so that it broadcasts against the input.
Value with_reduced_axes(GradCtx& c, Value v) {
  ReduceAttrs kept = c.attrs<ReduceAttrs>();
  kept.keepdims = true;
  return ops::reshape(v, reduced_shape(c.shape(0), kept));
}

constexpr OpDef reduction(std::string_view name, Status (*kernel)(const KernelArgs&),
                          void (*grad)(GradCtx&)) {
  return {.name = name,
          .attrs = &kAttrSchema<ReduceAttrs>,
          .infer = infer_reduce,
          .diff = Diff::rule,
          .grad = grad,
          .kernel = kernel,
          .scratch = reduce_scratch,
          .flops = reduce_flops};
}

}  // namespace

ReducePlan plan_reduction(const Shape& in, std::span<const int64_t> axes) {
  const AxisSet reduced = reduced_axes(in.rank(), axes);
  const Shape strides = strides_of(in);
  ReducePlan plan;
  for (int i = 0; i < in.rank(); ++i)
    (reduced[static_cast<size_t>(i)] ? plan.reduced : plan.kept).add(in[i], {strides[i]});
  plan.rows_are_kept = plan.kept.rank > 0 && plan.kept.inner_stride()[0] == 1 &&
                       (plan.reduced.rank == 0 || plan.reduced.inner_stride()[0] != 1);
  return plan;
}

constinit const OpDef op::sum = reduction("sum", reduce_kernel<SumOf>, [](GradCtx& c) {
  c.set(0, ops::expand(with_reduced_axes(c, c.out_grad(0)), c.shape(0)));
});

constinit const OpDef op::mean = [] {
  OpDef def = reduction("mean", reduce_kernel<MeanOf>, [](GradCtx& c) {
    const int64_t count = reduced_count(c.shape(0), c.attrs<ReduceAttrs>().axes);
    // 1 / count has few digits left in f16, or none.
    const DType t = c.out_grad(0).dtype();
    const Value share = ops::cast(c.out_grad(0), at_least_f32(t)) *
                        (1.0 / static_cast<double>(std::max<int64_t>(count, 1)));
    c.set(0, ops::expand(with_reduced_axes(c, ops::cast(share, t)), c.shape(0)));
  });
  def.infer = infer_reduce_some;
  return def;
}();

namespace {

// Equal winners share the gradient. They are counted in float: f16 ends at 65504.
void extremum_grad(GradCtx& c) {
  const DType wide = at_least_f32(c.in(0).dtype());
  ReduceAttrs attrs = c.attrs<ReduceAttrs>();
  attrs.keepdims = true;
  const Value wins = ops::cast(ops::equal(c.in(0), with_reduced_axes(c, c.out(0))), wide);
  const Value share = ops::cast(with_reduced_axes(c, c.out_grad(0)), wide) / ops::sum(wins, attrs);
  c.set(0, share * wins);
}

}  // namespace

constinit const OpDef op::max = [] {
  OpDef def = reduction("max", reduce_kernel<MaxOf>, extremum_grad);
  def.infer = infer_reduce_some;
  return def;
}();
constinit const OpDef op::min = [] {
  OpDef def = reduction("min", reduce_kernel<MinOf>, extremum_grad);
  def.infer = infer_reduce_some;
  return def;
}();

// The decomposition multiplies halves: its gradient is right at zeros, where out / x is not.
constinit const OpDef op::prod = {
    .name = "prod",
    .attrs = &kAttrSchema<ReduceAttrs>,
    .infer = infer_reduce,
    .decompose =
        [](DecomposeCtx& c) {
          const Shape in = c.shape(0);
          const AxisSet reduced = reduced_axes(in.rank(), c.attrs<ReduceAttrs>().axes);
          std::vector<int64_t> perm;
          Shape rows;
          for (int i = 0; i < in.rank(); ++i)
            if (!reduced[static_cast<size_t>(i)]) perm.push_back(i), rows.push_back(in[i]);
          const int64_t axis = rows.rank();
          for (int i = 0; i < in.rank(); ++i)
            if (reduced[static_cast<size_t>(i)]) perm.push_back(i);
          int64_t n = reduced_count(in, c.attrs<ReduceAttrs>().axes);
          rows.push_back(n);
          Value x = ops::reshape(ops::transpose(c.in(0), perm), rows);
          while (n > 1) {
            const int64_t half = n / 2;
            Value pairs = ops::slice(x, axis, 0, half) * ops::slice(x, axis, half, 2 * half);
            if (n % 2) {
              const Value parts[] = {pairs, ops::slice(x, axis, 2 * half, n)};
              pairs = ops::concat(parts, axis);
            }
            x = pairs;
            n = half + n % 2;
          }
          const Shape out = reduced_shape(in, c.attrs<ReduceAttrs>());
          c.set(0, n == 1 ? ops::reshape(x, out) : ops::fill(c.b, {c.type(0).dtype, out}, 1));
        },
    .diff = Diff::by_decomposition,
    .kernel = reduce_kernel<ProdOf>,
    .scratch = reduce_scratch,
    .flops = reduce_flops,
};

// sqrt(sum of x^2). Its slope x / out has no limit at 0, where the gradient is 0 (as PyTorch's).
// Squares of half floats would soon overflow or vanish: they are taken in f32.
constinit const OpDef op::l2_norm = {
    .name = "l2_norm",
    .attrs = &kAttrSchema<ReduceAttrs>,
    .infer =
        [](InferCtx& c) {
          HONE_TRY(need(c, 0, Accepts::floats));
          return infer_reduce(c);
        },
    .decompose =
        [](DecomposeCtx& c) {
          const DType wide = at_least_f32(c.type(0).dtype);
          const Value sum = ops::sum(ops::square(ops::cast(c.in(0), wide)), c.attrs<ReduceAttrs>());
          const Value zero = c.b.scalar(0, wide), at_zero = ops::equal(sum, zero);
          const Value root = ops::sqrt(ops::where(at_zero, c.b.scalar(1, wide), sum));
          c.set(0, ops::cast(ops::where(at_zero, zero, root), c.type(0).dtype));
        },
    .diff = Diff::by_decomposition,
    .flops = reduce_flops,
};

// ---- argmax, argmin

namespace {

Status infer_arg(InferCtx& c) {
  const ArgAttrs& attrs = c.attrs<ArgAttrs>();
  HONE_TRY(need(c, 0, Accepts::numbers));
  HONE_ASSIGN(const int axis, need_axis(c, 0, attrs.axis));
  if (c.shape(0)[axis] == 0) return c.error("input {} has no elements on axis {}", c.in(0), axis);
  Shape out = c.shape(0);
  out.erase(axis);
  if (attrs.keepdims) out.insert(axis, 1);
  c.out(DType::i64, out);
  return {};
}

// A NaN counts as the extremum, so that it is found.
template <bool kGreatest, class T>
int64_t arg_of(const T* x, int64_t n, int64_t stride, bool select_last) {
  int64_t best = 0;
  for (int64_t i = 1; i < n; ++i) {
    const auto a = static_cast<accumulator_t<T>>(x[i * stride]);
    const auto b = static_cast<accumulator_t<T>>(x[best * stride]);
    const bool beats = kGreatest ? a > b : a < b;
    const bool both_nan = a != a && b != b;
    const bool ties = a == b || both_nan;
    if (beats || (a != a && b == b) || (ties && select_last)) best = i;
  }
  return best;
}

template <bool kGreatest>
Status arg_kernel(const KernelArgs& args) {
  const ArgAttrs& attrs = args.attrs.as<ArgAttrs>();
  const Shape& in = args.shape(0);
  const int axis = static_cast<int>(attrs.axis < 0 ? attrs.axis + in.rank() : attrs.axis);
  const int64_t n = in[axis], inner = in.product(axis + 1, in.rank());
  int64_t* y = args.output<int64_t>(0);
  dispatch(args.in[0].type.dtype, [&]<class T>() {
    const T* x = args.input<T>(0);
    const int64_t grain = std::max<int64_t>(1, kGrain / n);
    for_ranges(args.pool, args.out[0].numel(), grain, [&](int64_t begin, int64_t end) {
      for (int64_t o = begin; o < end; ++o) {
        const T* first = x + o / inner * n * inner + o % inner;
        y[o] = arg_of<kGreatest>(first, n, inner, attrs.select_last);
      }
    });
  });
  return {};
}

constexpr OpDef arg_op(std::string_view name, Status (*kernel)(const KernelArgs&)) {
  return {.name = name,
          .attrs = &kAttrSchema<ArgAttrs>,
          .infer = infer_arg,
          .diff = Diff::zero,
          .kernel = kernel,
          .flops = reduce_flops};
}

}  // namespace

constinit const OpDef op::argmax = arg_op("argmax", arg_kernel<true>);
constinit const OpDef op::argmin = arg_op("argmin", arg_kernel<false>);

// ---- cumsum

namespace {

// Running sums are carried in double (integers: modulo 2^64).
template <class T>
void running_sum(const T* x, T* y, int64_t n, int64_t stride, const CumsumAttrs& attrs) {
  using Total = std::conditional_t<is_float_type<T>, double, uint64_t>;
  Total total = 0;
  for (int64_t k = 0; k < n; ++k) {
    const int64_t i = (attrs.reverse ? n - 1 - k : k) * stride;
    const Total with = total + static_cast<Total>(x[i]);
    y[i] = static_cast<T>(attrs.exclusive ? total : with);
    total = with;
  }
}

Status cumsum_kernel(const KernelArgs& args) {
  const CumsumAttrs& attrs = args.attrs.as<CumsumAttrs>();
  const Shape& in = args.shape(0);
  if (in.numel() == 0) return {};
  const int axis = static_cast<int>(attrs.axis < 0 ? attrs.axis + in.rank() : attrs.axis);
  const int64_t n = in[axis], inner = in.product(axis + 1, in.rank());
  dispatch(args.in[0].type.dtype, [&]<class T>() {
    const T* x = args.input<T>(0);
    T* y = args.output<T>(0);
    const int64_t grain = std::max<int64_t>(1, kGrain / n);
    for_ranges(args.pool, in.numel() / n, grain, [&](int64_t begin, int64_t end) {
      for (int64_t line = begin; line < end; ++line) {
        const int64_t first = line / inner * n * inner + line % inner;
        running_sum(x + first, y + first, n, inner, attrs);
      }
    });
  });
  return {};
}

}  // namespace

constinit const OpDef op::cumsum = {
    .name = "cumsum",
    .attrs = &kAttrSchema<CumsumAttrs>,
    .infer =
        [](InferCtx& c) {
          HONE_TRY(need(c, 0, Accepts::numbers));
          HONE_TRY(need_axis(c, 0, c.attrs<CumsumAttrs>().axis).status());
          c.out(c.in(0));
          return Status();
        },
    .diff = Diff::rule,
    .grad =
        [](GradCtx& c) {
          CumsumAttrs back = c.attrs<CumsumAttrs>();
          back.reverse = !back.reverse;
          c.set(0, c.b.emit(op::cumsum, {c.out_grad(0)}, back));
        },
    .kernel = cumsum_kernel,
    .inplace = Inplace::any_input,
};

}  // namespace hone
