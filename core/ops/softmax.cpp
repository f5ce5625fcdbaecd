// SPDX-License-Identifier: Apache-2.0
// Softmax and its logarithm along one axis.
//
// Both subtract the largest element first, so no finite input overflows. A line that is -inf
// everywhere (a row of attention in which all is masked) has probability 0 everywhere, and
// log-probability -inf; its gradient by softmax is 0. PyTorch gives NaN there.
#include <algorithm>
#include <cmath>

#include "core/ops/checks.hpp"
#include "hone/ops.hpp"
#include "hone/thread_pool.hpp"

namespace hone {

namespace {

enum class Form : uint8_t { probability, logarithm };

Status infer_softmax(InferCtx& c) {
  HONE_TRY(need(c, 0, Accepts::floats));
  HONE_TRY(need_axis(c, 0, c.attrs<AxisAttrs>().axis).status());
  c.out(c.in(0));
  return {};
}

// One line of n elements, `stride` apart. Exponentials are summed in double.
template <Form form, class T>
void line(const T* x, T* y, int64_t n, int64_t stride) {
  using S = accumulator_t<T>;
  S largest = -std::numeric_limits<S>::infinity();
  for (int64_t i = 0; i < n; ++i) {
    const S v = static_cast<S>(x[i * stride]);
    if (v > largest || std::isnan(v)) largest = v;
  }
  if (largest == -std::numeric_limits<S>::infinity()) {
    const T nothing(form == Form::probability ? S(0) : largest);
    for (int64_t i = 0; i < n; ++i) y[i * stride] = nothing;
    return;
  }
  double sum = 0;
  for (int64_t i = 0; i < n; ++i)
    sum += static_cast<double>(std::exp(static_cast<S>(x[i * stride]) - largest));
  if constexpr (form == Form::probability) {
    const S scale = static_cast<S>(1 / sum);
    for (int64_t i = 0; i < n; ++i)
      y[i * stride] = static_cast<T>(std::exp(static_cast<S>(x[i * stride]) - largest) * scale);
  } else {
    const S shift = static_cast<S>(std::log(sum));
    for (int64_t i = 0; i < n; ++i)
      y[i * stride] = static_cast<T>(static_cast<S>(x[i * stride]) - largest - shift);
  }
}

template <Form form>
Status softmax_kernel(const KernelArgs& args) {
  const Shape& s = args.shape(0);
  HONE_ASSIGN(const int axis, normalize_axis(args.attrs.as<AxisAttrs>().axis, s.rank()));
  const int64_t n = s[axis], inner = s.product(axis + 1, s.rank());
  constexpr int64_t kElements = 4096;  // for one thread, at least
  dispatch_float(args.in[0].type.dtype, [&]<class T>() {
    args.pool.parallel_for(s.product(0, axis) * inner, 1 + kElements / (n + 1),
                           [&](int64_t begin, int64_t end, int) {
                             for (int64_t i = begin; i < end; ++i) {
                               const int64_t at = i / inner * inner * n + i % inner;
                               line<form>(args.input<T>(0) + at, args.output<T>(0) + at, n, inner);
                             }
                           });
  });
  return {};
}

// exp(x - max) and its sum, which is at least 1 unless all of x is -inf.
struct Shifted {
  Value x, exp, sum;
};
Shifted shifted(DecomposeCtx& c) {
  const bool wide = c.type(0).dtype == DType::f64;
  const Value x = ops::cast(c.in(0), wide ? DType::f64 : DType::f32);
  const ReduceAttrs along{{c.attrs<AxisAttrs>().axis}, true};
  const double lowest =
      wide ? std::numeric_limits<double>::lowest() : std::numeric_limits<float>::lowest();
  const Value largest = ops::maximum(ops::max(x, along), c.b.scalar(lowest, x.dtype()));
  const Value shift = x - ops::stop_gradient(largest);
  const Value e = ops::exp(shift);
  const Value sum = ops::sum(e, along);
  return {shift, e, ops::maximum(sum, c.b.scalar(1, sum.dtype()))};
}

}  // namespace

// softmax(x)[i] = exp(x[i]) / sum_j exp(x[j]) along one axis.   (.., C, ..) -> same
const OpDef op::softmax = {
    .name = "softmax",
    .attrs = &kAttrSchema<AxisAttrs>,
    .infer = infer_softmax,
    .decompose =
        [](DecomposeCtx& c) {
          const Shifted s = shifted(c);
          c.set(0, ops::cast(s.exp / s.sum, c.type(0).dtype));
        },
    .diff = Diff::rule,
    .grad =
        [](GradCtx& c) {  // uses the output, so the input need not be kept
          const Value y = c.out(0), gy = c.out_grad(0) * y;
          c.set(0, gy - y * ops::sum(gy, {{c.attrs<AxisAttrs>().axis}, true}));
        },
    .kernel = softmax_kernel<Form::probability>,
    .flops = [](const NodeTypes& n) { return 5.0 * static_cast<double>(n.out[0]->numel()); },
    .inplace = Inplace::any_input,
};

// log_softmax(x)[i] = x[i] - log sum_j exp(x[j]) along one axis.   (.., C, ..) -> same
const OpDef op::log_softmax = {
    .name = "log_softmax",
    .attrs = &kAttrSchema<AxisAttrs>,
    .infer = infer_softmax,
    .decompose =
        [](DecomposeCtx& c) {
          const Shifted s = shifted(c);
          c.set(0, ops::cast(s.x - ops::log(s.sum), c.type(0).dtype));
        },
    .diff = Diff::rule,
    .grad =
        [](GradCtx& c) {
          const Value gy = c.out_grad(0);
          c.set(0, gy - ops::exp(c.out(0)) * ops::sum(gy, {{c.attrs<AxisAttrs>().axis}, true}));
        },
    .kernel = softmax_kernel<Form::logarithm>,
    .flops = [](const NodeTypes& n) { return 5.0 * static_cast<double>(n.out[0]->numel()); },
    .inplace = Inplace::any_input,
};

// hardmax(x): 1 at the first of the largest along one axis, 0 elsewhere.   (.., C, ..) -> same
const OpDef op::hardmax = {
    .name = "hardmax",
    .attrs = &kAttrSchema<AxisAttrs>,
    .infer = infer_softmax,
    .decompose =
        [](DecomposeCtx& c) {
          const int64_t given = c.attrs<AxisAttrs>().axis;
          const int axis = static_cast<int>(given < 0 ? given + c.shape(0).rank() : given);
          Shape row = Shape::filled(c.shape(0).rank(), 1);
          row[axis] = c.shape(0)[axis];
          std::vector<int64_t> positions;
          for (int64_t i = 0; i < row[axis]; ++i) positions.push_back(i);
          if (positions.empty()) return c.set(0, c.in(0));
          const Value winner = c.b.emit(op::argmax, {c.in(0)}, ArgAttrs{axis, true, false});
          const Value hit = ops::equal(ops::reshape(c.b.ints(positions), row), winner);
          c.set(0, ops::cast(hit, c.type(0).dtype));
        },
    .diff = Diff::zero,
};

}  // namespace hone
