// SPDX-License-Identifier: Apache-2.0
// Operators on single elements: out[i] = f(in[i]).
#include "core/ops/elementwise.hpp"

#include <cmath>
#include <cstring>
#include <numbers>

#include "core/ops/checks.hpp"
#include "core/tensor/convert.hpp"
#include "hone/op_attrs_index.hpp"
#include "hone/ops.hpp"

namespace hone {

namespace {

template <class T>
using Unsigned = std::make_unsigned_t<T>;

// Integers wrap: negation and absolute value of the smallest one give itself.
struct Neg {
  template <class T>
  T operator()(T x) const {
    if constexpr (std::is_integral_v<T>)
      return static_cast<T>(Unsigned<T>{0} - static_cast<Unsigned<T>>(x));
    else
      return -x;
  }
};
struct Abs {
  template <class T>
  T operator()(T x) const {
    if constexpr (std::is_integral_v<T>)
      return x < 0 ? Neg{}(x) : x;
    else
      return std::fabs(x);
  }
};
struct Sign {
  template <class T>
  T operator()(T x) const {
    return x > T(0) ? T(1) : x < T(0) ? T(-1) : x;  // 0 and NaN stay themselves
  }
};
struct Exp {
  auto operator()(auto x) const { return std::exp(x); }
};
struct Log {
  auto operator()(auto x) const { return std::log(x); }
};
struct Sqrt {
  auto operator()(auto x) const { return std::sqrt(x); }
};
struct Rsqrt {
  auto operator()(auto x) const { return 1 / std::sqrt(x); }
};
struct Reciprocal {
  auto operator()(auto x) const { return 1 / x; }
};
struct Sin {
  auto operator()(auto x) const { return std::sin(x); }
};
struct Cos {
  auto operator()(auto x) const { return std::cos(x); }
};
struct Tanh {
  auto operator()(auto x) const { return std::tanh(x); }
};
struct Erf {
  auto operator()(auto x) const { return std::erf(x); }
};
struct Floor {
  auto operator()(auto x) const { return std::floor(x); }
};
struct Ceil {
  auto operator()(auto x) const { return std::ceil(x); }
};
struct Round {
  auto operator()(auto x) const { return std::nearbyint(x); }
};
struct LogicalNot {
  bool operator()(int32_t x) const { return x == 0; }
};
struct IsInf {
  explicit IsInf(const Attrs& attrs) : which(attrs.as<IsInfAttrs>()) {}
  bool operator()(auto x) const {
    return std::isinf(x) && (x < 0 ? which.detect_negative : which.detect_positive);
  }
  IsInfAttrs which;
};
struct IsNan {
  bool operator()(auto x) const { return x != x; }
};

constexpr OpDef float_op(std::string_view name, Status (*kernel)(const KernelArgs&),
                         void (*grad)(GradCtx&)) {
  return {.name = name,
          .infer = same_as_first<Accepts::floats>,
          .diff = Diff::rule,
          .grad = grad,
          .kernel = kernel,
          .inplace = Inplace::any_input};
}

constexpr OpDef number_op(std::string_view name, Status (*kernel)(const KernelArgs&),
                          void (*grad)(GradCtx&)) {
  OpDef def = float_op(name, kernel, grad);
  def.infer = same_as_first<Accepts::numbers>;
  return def;
}

// A step function: its gradient is zero.
constexpr OpDef flat(OpDef def) {
  def.diff = Diff::zero;
  return def;
}

}  // namespace

constinit const OpDef op::neg =
    number_op("neg", map_numbers<Neg>, [](GradCtx& c) { c.set(0, -c.out_grad(0)); });

// The gradient at 0 is 0.
constinit const OpDef op::abs = number_op(
    "abs", map_numbers<Abs>, [](GradCtx& c) { c.set(0, c.out_grad(0) * ops::sign(c.in(0))); });

constinit const OpDef op::exp =
    float_op("exp", map_floats<Exp>, [](GradCtx& c) { c.set(0, c.out_grad(0) * c.out(0)); });

constinit const OpDef op::log =
    float_op("log", map_floats<Log>, [](GradCtx& c) { c.set(0, c.out_grad(0) / c.in(0)); });

constinit const OpDef op::sqrt = float_op(
    "sqrt", map_floats<Sqrt>, [](GradCtx& c) { c.set(0, c.out_grad(0) * 0.5 / c.out(0)); });

// 1 / sqrt(x)
constinit const OpDef op::rsqrt = float_op("rsqrt", map_floats<Rsqrt>, [](GradCtx& c) {
  c.set(0, c.out_grad(0) * -0.5 * c.out(0) / c.in(0));
});

// 1 / x
constinit const OpDef op::reciprocal =
    float_op("reciprocal", map_floats<Reciprocal>,
             [](GradCtx& c) { c.set(0, -c.out_grad(0) * ops::square(c.out(0))); });

constinit const OpDef op::sin = float_op(
    "sin", map_floats<Sin>, [](GradCtx& c) { c.set(0, c.out_grad(0) * ops::cos(c.in(0))); });

constinit const OpDef op::cos = float_op(
    "cos", map_floats<Cos>, [](GradCtx& c) { c.set(0, -c.out_grad(0) * ops::sin(c.in(0))); });

constinit const OpDef op::tanh = float_op("tanh", map_floats<Tanh>, [](GradCtx& c) {
  c.set(0, c.out_grad(0) * (1 - ops::square(c.out(0))));
});

constinit const OpDef op::erf = float_op("erf", map_floats<Erf>, [](GradCtx& c) {
  constexpr double kSlope = 2 * std::numbers::inv_sqrtpi;
  c.set(0, c.out_grad(0) * kSlope * ops::exp(-ops::square(c.in(0))));
});

// Steps: flat wherever they have a derivative at all.
constinit const OpDef op::sign = flat(number_op("sign", map_numbers<Sign>, nullptr));
constinit const OpDef op::floor = flat(float_op("floor", map_floats<Floor>, nullptr));
constinit const OpDef op::ceil = flat(float_op("ceil", map_floats<Ceil>, nullptr));
// To the nearest integer, ties to even.
constinit const OpDef op::round = flat(float_op("round", map_floats<Round>, nullptr));

constinit const OpDef op::logical_not = {.name = "logical_not",
                                         .infer = same_as_first<Accepts::bools>,
                                         .diff = Diff::zero,
                                         .kernel = map_bools<LogicalNot>,
                                         .inplace = Inplace::any_input};

constinit const OpDef op::is_nan = {.name = "is_nan",
                                    .infer = bool_like_first<Accepts::floats>,
                                    .diff = Diff::zero,
                                    .kernel = map_floats<IsNan>};

constinit const OpDef op::is_inf = {.name = "is_inf",
                                    .attrs = &kAttrSchema<IsInfAttrs>,
                                    .infer = bool_like_first<Accepts::floats>,
                                    .diff = Diff::zero,
                                    .kernel = map_floats<IsInf>};

// ---- the same elements, or the same in another type

namespace {

Status copy_bytes(const KernelArgs& args) {
  const size_t bytes = static_cast<size_t>(args.out[0].type.bytes());
  if (bytes > 0) std::memmove(args.out[0].data, args.in[0].data, bytes);
  return {};
}

Status cast_kernel(const KernelArgs& args) {
  const ConstTensorView& x = args.in[0];
  const TensorView& y = args.out[0];
  for_ranges(args.pool, y.numel(), kGrain, [&](int64_t begin, int64_t end) {
    const Shape part = {end - begin};
    const auto step = [&](DType t) { return begin * static_cast<int64_t>(size_of(t)); };
    convert({{x.type.dtype, part}, static_cast<const std::byte*>(x.data) + step(x.type.dtype)},
            {{y.type.dtype, part}, static_cast<std::byte*>(y.data) + step(y.type.dtype)});
  });
  return {};
}

}  // namespace

constinit const OpDef op::identity = {.name = "identity",
                                      .infer = same_as_first<Accepts::any>,
                                      .diff = Diff::rule,
                                      .grad = [](GradCtx& c) { c.set(0, c.out_grad(0)); },
                                      .kernel = copy_bytes,
                                      .flops = no_flops,
                                      .is_view = true,
                                      .inplace = Inplace::any_input};

// The identity, to which gradients do not flow back.
constinit const OpDef op::stop_gradient = {.name = "stop_gradient",
                                           .infer = same_as_first<Accepts::any>,
                                           .diff = Diff::zero,
                                           .kernel = copy_bytes,
                                           .flops = no_flops,
                                           .is_view = true,
                                           .inplace = Inplace::any_input};

// Another element type, as convert_element (core/tensor/convert.hpp) says: floats to integers
// truncate and saturate, NaN gives 0; what is not zero is true.
constinit const OpDef op::cast = {
    .name = "cast",
    .attrs = &kAttrSchema<CastAttrs>,
    .infer =
        [](InferCtx& c) {
          c.out(c.attrs<CastAttrs>().to, c.shape(0));
          return Status();
        },
    .diff = Diff::rule,
    .grad = [](GradCtx& c) { c.set(0, c.out_grad(0)); },  // the engine casts it back
    .kernel = cast_kernel,
};

}  // namespace hone
