// SPDX-License-Identifier: Apache-2.0
// Activation functions. Those of training's inner loops have kernels besides their formula in plain
// operators.
#include <cmath>
#include <limits>
#include <numbers>

#include "core/ops/checks.hpp"
#include "core/ops/elementwise.hpp"
#include "core/tensor/convert.hpp"
#include "hone/ops.hpp"

namespace hone {

namespace {

// Between 0 and 1; a NaN stays.
template <class T>
T clamp_unit(T x) {
  return x < T(0) ? T(0) : x > T(1) ? T(1) : x;
}

struct Relu {
  template <class T>
  T operator()(T x) const {
    return x < T(0) ? T(0) : x;  // a NaN stays
  }
};
// Of the two ways to write it, the one whose exponential cannot overflow.
struct Sigmoid {
  template <class T>
  T operator()(T x) const {
    const T e = std::exp(-std::fabs(x));
    return (x < T(0) ? e : T(1)) / (T(1) + e);
  }
};
struct Silu {
  template <class T>
  T operator()(T x) const {
    return x * Sigmoid{}(x);
  }
};
struct Softplus {
  template <class T>
  T operator()(T x) const {
    return (x > T(0) ? x : x != x ? x : T(0)) + std::log1p(std::exp(-std::fabs(x)));
  }
};
struct HardSwish {
  template <class T>
  T operator()(T x) const {
    return x * clamp_unit(x / T(6) + T(0.5));
  }
};

constexpr double kGeluCubic = 0.044715;
constexpr double kSqrt2OverPi = std::numbers::sqrt2 * std::numbers::inv_sqrtpi;

struct Gelu {
  explicit Gelu(const Attrs& attrs) : tanh(attrs.as<GeluAttrs>().approximate == GeluForm::tanh) {}
  template <class T>
  T operator()(T x) const {
    if (!tanh) return T(0.5) * x * (T(1) + std::erf(x * T(1 / std::numbers::sqrt2)));
    const T inner = T(kSqrt2OverPi) * (x + T(kGeluCubic) * x * x * x);
    return T(0.5) * x * (T(1) + std::tanh(inner));
  }
  bool tanh;
};
struct HardSigmoid {
  explicit HardSigmoid(const Attrs& attrs)
      : alpha(attrs.as<AlphaBetaAttrs>().alpha), beta(attrs.as<AlphaBetaAttrs>().beta) {}
  template <class T>
  T operator()(T x) const {
    return clamp_unit(T(alpha) * x + T(beta));
  }
  double alpha, beta;
};
struct LeakyRelu {
  explicit LeakyRelu(const Attrs& attrs) : alpha(attrs.as<AlphaAttrs>().alpha) {}
  template <class T>
  T operator()(T x) const {
    return x < T(0) ? T(alpha) * x : x;
  }
  double alpha;
};
struct Elu {
  explicit Elu(const Attrs& attrs) : alpha(attrs.as<AlphaAttrs>().alpha) {}
  template <class T>
  T operator()(T x) const {
    return x < T(0) ? T(alpha) * std::expm1(x) : x;
  }
  double alpha;
};
struct Clip {
  explicit Clip(const Attrs& attrs)
      : low(attrs.as<ClipAttrs>().low), high(attrs.as<ClipAttrs>().high) {}
  template <class T>
  T operator()(T x) const {
    const T from = convert_element<T>(low), to = convert_element<T>(high);
    const T raised = x < from ? from : x;
    return raised > to ? to : raised;
  }
  double low, high;
};

constexpr OpDef activation(std::string_view name, const AttrSchema* attrs,
                           Status (*kernel)(const KernelArgs&), void (*grad)(GradCtx&),
                           void (*decompose)(DecomposeCtx&) = nullptr) {
  return {.name = name,
          .attrs = attrs,
          .infer = same_as_first<Accepts::floats>,
          .decompose = decompose,
          .diff = Diff::rule,
          .grad = grad,
          .kernel = kernel,
          .inplace = Inplace::any_input};
}
constexpr const AttrSchema* kNoAttrs = &kAttrSchema<NoAttrs>;

Value number(Value like, double v) { return like.builder().scalar(v, like.dtype()); }
Value as_mask(Value condition, Value like) { return ops::cast(condition, like.dtype()); }

}  // namespace

// max(x, 0). The gradient looks at the output, so that the input need not be kept.
constinit const OpDef op::relu = {
    .name = "relu",
    .infer = same_as_first<Accepts::numbers>,
    .diff = Diff::rule,
    .grad =
        [](GradCtx& c) {
          const Value zero = number(c.out(0), 0);
          c.set(0, ops::where(ops::greater(c.out(0), zero), c.out_grad(0), zero));
        },
    .kernel = map_numbers<Relu>,
    .inplace = Inplace::any_input,
};

// 1 / (1 + exp(-x))
constinit const OpDef op::sigmoid = activation(
    "sigmoid", kNoAttrs, map_floats<Sigmoid>,
    [](GradCtx& c) { c.set(0, c.out_grad(0) * c.out(0) * (1 - c.out(0))); },
    [](DecomposeCtx& c) { c.set(0, ops::reciprocal(1 + ops::exp(-c.in(0)))); });

// x sigmoid(x), known as swish
constinit const OpDef op::silu = activation(
    "silu", kNoAttrs, map_floats<Silu>,
    [](GradCtx& c) {
      const Value s = ops::sigmoid(c.in(0));
      c.set(0, c.out_grad(0) * s * (1 + c.in(0) * (1 - s)));
    },
    [](DecomposeCtx& c) { c.set(0, c.in(0) * ops::sigmoid(c.in(0))); });

// log(1 + exp(x))
constinit const OpDef op::softplus = activation(
    "softplus", kNoAttrs, map_floats<Softplus>,
    [](GradCtx& c) { c.set(0, c.out_grad(0) * ops::sigmoid(c.in(0))); },
    [](DecomposeCtx& c) {
      const Value x = c.in(0);
      c.set(0, ops::maximum(x, number(x, 0)) + ops::log(1 + ops::exp(-ops::abs(x))));
    });

namespace {

// x Phi(x), Phi being the normal distribution's, and an approximation of it by tanh.
Value gelu_inner(Value x) { return (x + ops::square(x) * x * kGeluCubic) * kSqrt2OverPi; }

void gelu_grad(GradCtx& c) {
  const Value x = c.in(0);
  if (c.attrs<GeluAttrs>().approximate == GeluForm::tanh) {
    // Beyond 16 the tanh is flat in every type; the square of what f16 holds may be infinite.
    const Value v = x.dtype() == DType::f16 ? ops::clip(x, -16, 16) : x;
    const Value t = ops::tanh(gelu_inner(v));
    const Value slope = (1 + ops::square(v) * (3 * kGeluCubic)) * kSqrt2OverPi;
    return c.set(0, c.out_grad(0) * (0.5 * (1 + t) + 0.5 * v * (1 - ops::square(t)) * slope));
  }
  constexpr double kInvSqrt2Pi = std::numbers::inv_sqrtpi / std::numbers::sqrt2;
  const Value cumulative = 0.5 * (1 + ops::erf(x * (1 / std::numbers::sqrt2)));
  const Value density = ops::exp(ops::square(x) * -0.5) * kInvSqrt2Pi;
  c.set(0, c.out_grad(0) * (cumulative + x * density));
}

void gelu_decompose(DecomposeCtx& c) {
  const Value x = c.in(0);
  const bool tanh = c.attrs<GeluAttrs>().approximate == GeluForm::tanh;
  const Value s = tanh ? ops::tanh(gelu_inner(x)) : ops::erf(x * (1 / std::numbers::sqrt2));
  c.set(0, 0.5 * x * (1 + s));
}

}  // namespace

constinit const OpDef op::gelu =
    activation("gelu", &kAttrSchema<GeluAttrs>, map_floats<Gelu>, gelu_grad, gelu_decompose);

// alpha x + beta, kept between 0 and 1; flat, gradient included, at both bounds.
constinit const OpDef op::hard_sigmoid = activation(
    "hard_sigmoid", &kAttrSchema<AlphaBetaAttrs>, map_floats<HardSigmoid>,
    [](GradCtx& c) {
      const Value zero = number(c.out(0), 0), one = number(c.out(0), 1);
      const Value inside = ops::logical_and(ops::greater(c.out(0), zero), ops::less(c.out(0), one));
      c.set(0, ops::where(inside, c.out_grad(0) * c.attrs<AlphaBetaAttrs>().alpha, zero));
    },
    [](DecomposeCtx& c) {
      const AlphaBetaAttrs& attrs = c.attrs<AlphaBetaAttrs>();
      c.set(0, ops::clip(c.in(0) * attrs.alpha + attrs.beta, 0, 1));
    });

// x hard_sigmoid(x; 1/6, 1/2)
constinit const OpDef op::hard_swish = activation(
    "hard_swish", kNoAttrs, map_floats<HardSwish>,
    [](GradCtx& c) {
      const Value x = c.in(0);
      const Value bent = ops::less(ops::abs(x), number(x, 3));
      const Value straight = as_mask(ops::greater_equal(x, number(x, 3)), x);
      c.set(0, c.out_grad(0) * ops::where(bent, x * (1.0 / 3) + 0.5, straight));
    },
    [](DecomposeCtx& c) {
      const Value gate = c.b.emit(op::hard_sigmoid, {c.in(0)}, AlphaBetaAttrs{1.0 / 6, 0.5});
      c.set(0, c.in(0) * gate);
    });

// x where x >= 0, alpha x elsewhere
constinit const OpDef op::leaky_relu =
    activation("leaky_relu", &kAttrSchema<AlphaAttrs>, map_floats<LeakyRelu>, [](GradCtx& c) {
      const Value negative = ops::less(c.in(0), number(c.in(0), 0));
      c.set(0, ops::where(negative, c.out_grad(0) * c.attrs<AlphaAttrs>().alpha, c.out_grad(0)));
    });

// x where x >= 0, alpha (exp(x) - 1) elsewhere
constinit const OpDef op::elu =
    activation("elu", &kAttrSchema<AlphaAttrs>, map_floats<Elu>, [](GradCtx& c) {
      const Value negative = ops::less(c.in(0), number(c.in(0), 0));
      const Value slope = c.out(0) + c.attrs<AlphaAttrs>().alpha;
      c.set(0, ops::where(negative, c.out_grad(0) * slope, c.out_grad(0)));
    });

// ---- clip: min(max(x, low), high), so that high wins when the bounds cross. The gradient passes
// from bound to bound, both included.

namespace {

Status infer_clip(InferCtx& c) {
  HONE_TRY(need(c, 0, Accepts::numbers));
  const ClipAttrs& attrs = c.attrs<ClipAttrs>();
  for (const double bound : {attrs.low, attrs.high}) {
    if (std::isnan(bound)) return c.error("a bound is NaN");
    if (is_float(c.dtype(0)) || std::isinf(bound)) continue;
    const bool fits = dispatch(c.dtype(0), [&]<class T>() {
      return static_cast<double>(convert_element<T>(bound)) == std::trunc(bound);
    });
    if (!fits) return c.error("the bound {} is out of range for {}", bound, c.dtype(0));
  }
  c.out(c.in(0));
  return {};
}

// The output is not looked at: one thing less to read. One small mask is kept for backward, not the
// input.
void clip_grad(GradCtx& c) {
  const ClipAttrs& attrs = c.attrs<ClipAttrs>();
  const Value x = c.in(0);
  if (attrs.low > attrs.high) return c.set(0, ops::zeros_like(x));
  Value within;
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  if (attrs.low > -kInfinity) within = ops::greater_equal(x, number(x, attrs.low));
  if (attrs.high < kInfinity) {
    const Value below = ops::less_equal(x, number(x, attrs.high));
    within = within.valid() ? ops::logical_and(within, below) : below;
  }
  c.set(0, within.valid() ? ops::where(within, c.out_grad(0), number(x, 0)) : c.out_grad(0));
}

}  // namespace

constinit const OpDef op::clip = {
    .name = "clip",
    .attrs = &kAttrSchema<ClipAttrs>,
    .infer = infer_clip,
    .diff = Diff::rule,
    .grad = clip_grad,
    .kernel = map_numbers<Clip>,
    .inplace = Inplace::any_input,
};

// ---- prelu(x, slope): x where x >= 0, slope x elsewhere; slope broadcasts to x

constinit const OpDef op::prelu = {
    .name = "prelu",
    .min_inputs = 2,
    .max_inputs = 2,
    .infer =
        [](InferCtx& c) {
          HONE_TRY(need(c, 0, Accepts::floats));
          HONE_TRY(need_same_dtype(c, 0, 1));
          auto shape = broadcast(c.shape(0), c.shape(1));
          if (!shape.ok() || *shape != c.shape(0))
            return c.error("the slope {} does not broadcast to the input {}", c.in(1), c.in(0));
          c.out(c.in(0));
          return Status();
        },
    .decompose =
        [](DecomposeCtx& c) {
          const Value x = c.in(0);
          c.set(0, ops::where(ops::less(x, number(x, 0)), c.in(1) * x, x));
        },
    .diff = Diff::by_decomposition,
};

}  // namespace hone
