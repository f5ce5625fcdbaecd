// SPDX-License-Identifier: Apache-2.0
// Operators on pairs of elements, with NumPy's broadcasting, and `where`.
//
// Integers wrap around. Integer division truncates; division and remainder by zero give 0, so that
// no input can stop the program.
#include <cmath>

#include "core/ops/checks.hpp"
#include "core/ops/elementwise.hpp"
#include "hone/ops.hpp"

namespace hone {

namespace {

// Two's complement arithmetic without C++'s undefined overflow.
template <class T, class F>
T wrapping(T a, T b, F f) {
  if constexpr (std::is_integral_v<T>) {
    using U = std::make_unsigned_t<T>;
    return static_cast<T>(f(static_cast<U>(a), static_cast<U>(b)));
  } else {
    return f(a, b);
  }
}

struct Add {
  template <class T>
  T operator()(T a, T b) const {
    return wrapping(a, b, [](auto x, auto y) { return x + y; });
  }
};
struct Sub {
  template <class T>
  T operator()(T a, T b) const {
    return wrapping(a, b, [](auto x, auto y) { return x - y; });
  }
};
struct Mul {
  template <class T>
  T operator()(T a, T b) const {
    return wrapping(a, b, [](auto x, auto y) { return x * y; });
  }
};
struct Div {
  template <class T>
  T operator()(T a, T b) const {
    if constexpr (std::is_integral_v<T>) {
      if (b == 0) return 0;
      if (b == -1) return wrapping(T{0}, a, [](auto x, auto y) { return x - y; });
      return a / b;
    } else {
      return a / b;
    }
  }
};
// Integers: the sign of the divisor (Python's %). Floats: the sign of the dividend (C's fmod).
struct Mod {
  template <class T>
  T operator()(T a, T b) const {
    if constexpr (std::is_integral_v<T>) {
      if (b == 0 || b == -1) return 0;
      const T r = a % b;
      return r != 0 && (r < 0) != (b < 0) ? r + b : r;
    } else {
      return std::fmod(a, b);
    }
  }
};
struct Pow {
  template <class T>
  T operator()(T a, T b) const {
    if constexpr (std::is_integral_v<T>) {
      if (b < 0) return a == 1 ? 1 : a == -1 ? (b % 2 ? -1 : 1) : 0;
      T result = 1;
      for (; b > 0; b /= 2) {
        if (b % 2) result = Mul{}(result, a);
        a = Mul{}(a, a);
      }
      return result;
    } else {
      return b == T(2) ? a * a : std::pow(a, b);
    }
  }
};
// A NaN on either side comes through.
struct Maximum {
  template <class T>
  T operator()(T a, T b) const {
    return a > b || a != a ? a : b;
  }
};
struct Minimum {
  template <class T>
  T operator()(T a, T b) const {
    return a < b || a != a ? a : b;
  }
};

struct Equal {
  bool operator()(auto a, auto b) const { return a == b; }
};
struct Less {
  bool operator()(auto a, auto b) const { return a < b; }
};
struct LessEqual {
  bool operator()(auto a, auto b) const { return a <= b; }
};
struct Greater {
  bool operator()(auto a, auto b) const { return a > b; }
};
struct GreaterEqual {
  bool operator()(auto a, auto b) const { return a >= b; }
};
struct LogicalAnd {
  bool operator()(int32_t a, int32_t b) const { return a & b; }
};
struct LogicalOr {
  bool operator()(int32_t a, int32_t b) const { return a | b; }
};
struct LogicalXor {
  bool operator()(int32_t a, int32_t b) const { return a ^ b; }
};

constexpr OpDef arithmetic(std::string_view name, Status (*kernel)(const KernelArgs&),
                           void (*grad)(GradCtx&)) {
  return {.name = name,
          .min_inputs = 2,
          .max_inputs = 2,
          .infer = [](InferCtx& c) { return infer_broadcast(c, Accepts::numbers); },
          .diff = Diff::rule,
          .grad = grad,
          .kernel = kernel,
          .broadcasts = true,
          .inplace = Inplace::any_input};
}

template <Accepts accepts>
constexpr OpDef comparison(std::string_view name, Status (*kernel)(const KernelArgs&)) {
  return {.name = name,
          .min_inputs = 2,
          .max_inputs = 2,
          .infer = [](InferCtx& c) { return infer_comparison(c, accepts); },
          .diff = Diff::zero,
          .kernel = kernel,
          .broadcasts = true,
          .inplace = Inplace::any_input};
}

}  // namespace

constinit const OpDef op::add = arithmetic("add", zip_numbers<Add>, [](GradCtx& c) {
  c.set(0, c.out_grad(0));
  c.set(1, c.out_grad(0));
});

constinit const OpDef op::sub = arithmetic("sub", zip_numbers<Sub>, [](GradCtx& c) {
  c.set(0, c.out_grad(0));
  if (c.needs(1)) c.set(1, -c.out_grad(0));
});

constinit const OpDef op::mul = arithmetic("mul", zip_numbers<Mul>, [](GradCtx& c) {
  if (c.needs(0)) c.set(0, c.out_grad(0) * c.in(1));
  if (c.needs(1)) c.set(1, c.out_grad(0) * c.in(0));
});

constinit const OpDef op::div = arithmetic("div", zip_numbers<Div>, [](GradCtx& c) {
  const Value g = c.out_grad(0) / c.in(1);
  c.set(0, g);
  if (c.needs(1)) c.set(1, -g * c.out(0));
});

// d/db of a mod b is -trunc(a / b), and a - out is exactly that multiple of b.
constinit const OpDef op::mod = arithmetic("mod", zip_numbers<Mod>, [](GradCtx& c) {
  c.set(0, c.out_grad(0));
  if (c.needs(1)) c.set(1, -c.out_grad(0) * ops::round((c.in(0) - c.out(0)) / c.in(1)));
});

namespace {

// b * a^(b-1), and 0 where b is 0, even at a = 0.
Value pow_base_slope(GradCtx& c) {
  const TensorData* exponent = c.b.constant_data(c.in(1));
  if (exponent && exponent->numel() == 1) {
    const double b = exponent->at(0);
    if (b == 0) return ops::zeros_like(c.out(0));
    if (b == 1) return ops::ones_like(c.out(0));
    if (b == 2) return c.in(0) * 2.0;
    return ops::pow(c.in(0), c.b.scalar(b - 1, c.in(0).dtype())) * b;
  }
  const DType t = c.in(1).dtype();
  const Value zero_exponent = ops::equal(c.in(1), c.b.scalar(0, t));
  const Value b = ops::where(zero_exponent, c.b.scalar(1, t), c.in(1));
  return ops::where(zero_exponent, c.b.scalar(0, t), b * ops::pow(c.in(0), b - 1.0));
}

// a^b log a, and 0 at a = 0 when b >= 0: 0 * log 0 is never formed.
Value pow_exponent_slope(GradCtx& c) {
  const DType t = c.in(0).dtype();
  const Value zero = c.b.scalar(0, t);
  const Value flat = ops::logical_and(ops::equal(c.in(0), zero), ops::greater_equal(c.in(1), zero));
  const Value a = ops::where(flat, c.b.scalar(1, t), c.in(0));
  return ops::where(flat, zero, c.out(0) * ops::log(a));
}

}  // namespace

constinit const OpDef op::pow = arithmetic("pow", zip_numbers<Pow>, [](GradCtx& c) {
  if (c.needs(0)) c.set(0, c.out_grad(0) * pow_base_slope(c));
  if (c.needs(1)) c.set(1, c.out_grad(0) * pow_exponent_slope(c));
});

namespace {

// The greater (lesser) operand gets the gradient; equal ones share it.
void extremum_grad(GradCtx& c, Value first_wins) {
  const DType t = c.in(0).dtype();
  const Value tie = ops::cast(ops::equal(c.in(0), c.in(1)), t) * 0.5;
  const Value share = ops::cast(first_wins, t) + tie;
  const Value g = c.out_grad(0) * share;
  c.set(0, g);
  if (c.needs(1)) c.set(1, c.out_grad(0) - g);
}

}  // namespace

constinit const OpDef op::maximum = arithmetic("maximum", zip_numbers<Maximum>, [](GradCtx& c) {
  extremum_grad(c, ops::greater(c.in(0), c.in(1)));
});
constinit const OpDef op::minimum = arithmetic("minimum", zip_numbers<Minimum>, [](GradCtx& c) {
  extremum_grad(c, ops::less(c.in(0), c.in(1)));
});

constinit const OpDef op::equal = comparison<Accepts::any>("equal", zip_numbers<Equal>);
constinit const OpDef op::less = comparison<Accepts::numbers>("less", zip_numbers<Less>);
constinit const OpDef op::less_equal =
    comparison<Accepts::numbers>("less_equal", zip_numbers<LessEqual>);
constinit const OpDef op::greater = comparison<Accepts::numbers>("greater", zip_numbers<Greater>);
constinit const OpDef op::greater_equal =
    comparison<Accepts::numbers>("greater_equal", zip_numbers<GreaterEqual>);
constinit const OpDef op::logical_and =
    comparison<Accepts::bools>("logical_and", zip_bools<LogicalAnd>);
constinit const OpDef op::logical_or =
    comparison<Accepts::bools>("logical_or", zip_bools<LogicalOr>);
constinit const OpDef op::logical_xor =
    comparison<Accepts::bools>("logical_xor", zip_bools<LogicalXor>);

// ---- where(condition, a, b)

namespace {

Status infer_where(InferCtx& c) {
  HONE_TRY(need(c, 0, Accepts::bools));
  HONE_TRY(need_same_dtype(c, 1, 2));
  auto values = broadcast(c.shape(1), c.shape(2));
  if (!values.ok()) return values.status().with_context(c.who());
  auto all = broadcast(c.shape(0), *values);
  if (!all.ok()) return all.status().with_context(c.who());
  c.out(c.dtype(1), *all);
  return {};
}

Status where_kernel(const KernelArgs& args) {
  const TensorView& y = args.out[0];
  const LoopNest<4> nest =
      broadcast_nest(y.type.shape, y.type.shape, args.shape(0), args.shape(1), args.shape(2));
  const auto stride = nest.inner_stride();
  dispatch_size(size_of(y.type.dtype), [&]<class T>() {
    for_ranges(args.pool, nest.size(), kGrain, [&](int64_t begin, int64_t end) {
      nest.for_rows(begin, end, [&](const std::array<int64_t, 4>& at, int64_t n) {
        T* out = static_cast<T*>(y.data) + at[0];
        const uint8_t* choose = static_cast<const uint8_t*>(args.in[0].data) + at[1];
        const T* a = static_cast<const T*>(args.in[1].data) + at[2];
        const T* b = static_cast<const T*>(args.in[2].data) + at[3];
        HONE_INDEPENDENT
        for (int64_t i = 0; i < n; ++i) {
          const T yes = a[i * stride[2]], no = b[i * stride[3]];
          out[i] = choose[i * stride[1]] ? yes : no;
        }
      });
    });
  });
  return {};
}

}  // namespace

constinit const OpDef op::where = {
    .name = "where",
    .min_inputs = 3,
    .max_inputs = 3,
    .infer = infer_where,
    .diff = Diff::rule,
    .grad =
        [](GradCtx& c) {
          const Value zero = c.b.scalar(0, c.out(0).dtype());
          if (c.needs(1)) c.set(1, ops::where(c.in(0), c.out_grad(0), zero));
          if (c.needs(2)) c.set(2, ops::where(c.in(0), zero, c.out_grad(0)));
        },
    .kernel = where_kernel,
    .broadcasts = true,
    .inplace = Inplace::any_input,
};

}  // namespace hone
