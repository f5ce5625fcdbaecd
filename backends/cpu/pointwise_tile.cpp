// SPDX-License-Identifier: Apache-2.0
// The instructions of element-wise expressions on tiles of floats.
//
// An element gets the same bits wherever it stands in a tile: what is left over at the end goes
// through the same vector code, masked.
#if HONE_HAVE_HIGHWAY

#include "backends/cpu/pointwise.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/pointwise_tile.cpp"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"
// After highway.h: it is compiled for each target anew.
#include "backends/cpu/vector_math-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace hone::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <class M>
HWY_INLINE V FromMask(M m) {
  return hn::IfThenElseZero(m, Number(1));
}
HWY_INLINE auto IsTrue(V x) { return hn::Ne(x, hn::Zero(D())); }

HWY_INLINE V ReluOf(V x) { return hn::IfThenZeroElse(hn::Lt(x, hn::Zero(D())), x); }
HWY_INLINE V ClipOf(V x, V low, V high) {  // a NaN stays
  const V raised = hn::IfThenElse(hn::Lt(x, low), low, x);
  return hn::IfThenElse(hn::Gt(raised, high), high, raised);
}
HWY_INLINE V UnitOf(V x) { return ClipOf(x, hn::Zero(D()), Number(1)); }

HWY_INLINE V GeluOf(V x) {
  const V e = ErfOf(hn::Mul(x, Number(0.70710678118654752f)));
  return hn::Mul(hn::Mul(Number(0.5f), x), hn::Add(Number(1), e));
}
HWY_INLINE V GeluTanhOf(V x) {
  const V cube = hn::Mul(hn::Mul(hn::Mul(Number(0.044715f), x), x), x);
  const V t = TanhOf(hn::Mul(Number(0.79788456080286536f), hn::Add(x, cube)));
  return hn::Mul(hn::Mul(Number(0.5f), x), hn::Add(Number(1), t));
}
// max(x, 0) + log(1 + exp(-|x|))
HWY_INLINE V SoftplusOf(V x) {
  const V tail = hn::Log1p(D(), ExpOf(hn::Neg(hn::Abs(x))));
  return hn::Add(hn::IfThenElse(hn::IsNaN(x), x, ReluOf(x)), tail);
}
HWY_INLINE V EluOf(V x, V alpha) {
  return hn::IfThenElse(hn::Lt(x, hn::Zero(D())), hn::Mul(alpha, hn::Expm1(D(), x)), x);
}
HWY_INLINE V SignOf(V x) {
  const V zero = hn::Zero(D()), one = Number(1);
  return hn::IfThenElse(hn::Gt(x, zero), one, hn::IfThenElse(hn::Lt(x, zero), hn::Neg(one), x));
}
HWY_INLINE V Larger(V a, V b) {  // a NaN on either side comes through
  return hn::IfThenElse(hn::Or(hn::Gt(a, b), hn::IsNaN(a)), a, b);
}
HWY_INLINE V Smaller(V a, V b) { return hn::IfThenElse(hn::Or(hn::Lt(a, b), hn::IsNaN(a)), a, b); }

// ---- loops

template <class F>
HWY_INLINE void Map(const float* a, float* to, int64_t n, F f) {
  const D d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) hn::StoreU(f(hn::LoadU(d, a + i)), d, to + i);
  if (const size_t rest = static_cast<size_t>(n - i))
    hn::StoreN(f(hn::LoadN(d, a + i, rest)), d, to + i, rest);
}
template <class F>
HWY_INLINE void Zip(const float* a, const float* b, float* to, int64_t n, F f) {
  const D d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes)
    hn::StoreU(f(hn::LoadU(d, a + i), hn::LoadU(d, b + i)), d, to + i);
  if (const size_t rest = static_cast<size_t>(n - i))
    hn::StoreN(f(hn::LoadN(d, a + i, rest), hn::LoadN(d, b + i, rest)), d, to + i, rest);
}
template <class F>
HWY_INLINE void Zip3(const float* a, const float* b, const float* c, float* to, int64_t n, F f) {
  const D d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes)
    hn::StoreU(f(hn::LoadU(d, a + i), hn::LoadU(d, b + i), hn::LoadU(d, c + i)), d, to + i);
  if (const size_t rest = static_cast<size_t>(n - i))
    hn::StoreN(f(hn::LoadN(d, a + i, rest), hn::LoadN(d, b + i, rest), hn::LoadN(d, c + i, rest)),
               d, to + i, rest);
}

#define HONE_MAP(name, expression)                  \
  case Fn::name:                                    \
    Map(a, to, n, [&](V x) { return expression; }); \
    break;
#define HONE_ZIP(name, expression)                          \
  case Fn::name:                                            \
    Zip(a, b, to, n, [&](V x, V y) { return expression; }); \
    break;

void Run(const Instruction& i, const float* a, const float* b, const float* c, float* to,
         int64_t n) {
  const V p = Number(i.p), q = Number(i.q);
  switch (i.fn) {
    HONE_MAP(copy, x)
    HONE_MAP(neg, hn::Neg(x))
    HONE_MAP(abs, hn::Abs(x))
    HONE_MAP(exp, ExpOf(x))
    HONE_MAP(log, LogOf(x))
    HONE_MAP(sqrt, hn::Sqrt(x))
    HONE_MAP(rsqrt, hn::Div(Number(1), hn::Sqrt(x)))
    HONE_MAP(reciprocal, hn::Div(Number(1), x))
    HONE_MAP(tanh, TanhOf(x))
    HONE_MAP(erf, ErfOf(x))
    HONE_MAP(sign, SignOf(x))
    HONE_MAP(floor, hn::Floor(x))
    HONE_MAP(ceil, hn::Ceil(x))
    HONE_MAP(round, hn::Round(x))
    HONE_MAP(logical_not, FromMask(hn::Eq(x, hn::Zero(D()))))
    HONE_MAP(is_nan, FromMask(hn::IsNaN(x)))
    HONE_MAP(relu, ReluOf(x))
    HONE_MAP(sigmoid, SigmoidOf(x))
    HONE_MAP(silu, hn::Mul(x, SigmoidOf(x)))
    HONE_MAP(gelu, GeluOf(x))
    HONE_MAP(gelu_tanh, GeluTanhOf(x))
    HONE_MAP(hard_sigmoid, UnitOf(hn::Add(hn::Mul(p, x), q)))
    HONE_MAP(hard_swish, hn::Mul(x, UnitOf(hn::Add(hn::Div(x, Number(6)), Number(0.5f)))))
    HONE_MAP(leaky_relu, hn::IfThenElse(hn::Lt(x, hn::Zero(D())), hn::Mul(p, x), x))
    HONE_MAP(elu, EluOf(x, p))
    HONE_MAP(softplus, SoftplusOf(x))
    HONE_MAP(clip, ClipOf(x, p, q))
    HONE_ZIP(add, hn::Add(x, y))
    HONE_ZIP(sub, hn::Sub(x, y))
    HONE_ZIP(mul, hn::Mul(x, y))
    HONE_ZIP(div, hn::Div(x, y))
    HONE_ZIP(maximum, Larger(x, y))
    HONE_ZIP(minimum, Smaller(x, y))
    HONE_ZIP(equal, FromMask(hn::Eq(x, y)))
    HONE_ZIP(less, FromMask(hn::Lt(x, y)))
    HONE_ZIP(less_equal, FromMask(hn::Le(x, y)))
    HONE_ZIP(greater, FromMask(hn::Gt(x, y)))
    HONE_ZIP(greater_equal, FromMask(hn::Ge(x, y)))
    HONE_ZIP(logical_and, FromMask(hn::And(IsTrue(x), IsTrue(y))))
    HONE_ZIP(logical_or, FromMask(hn::Or(IsTrue(x), IsTrue(y))))
    HONE_ZIP(logical_xor, FromMask(hn::Xor(IsTrue(x), IsTrue(y))))
    case Fn::where:
      Zip3(a, b, c, to, n, [](V x, V y, V z) { return hn::IfThenElse(IsTrue(x), y, z); });
      break;
    case Fn::center:
      Zip3(a, b, c, to, n, [](V x, V y, V z) { return hn::Sub(hn::Sub(x, y), z); });
      break;
    case Fn::mul_add:
      Zip3(a, b, c, to, n, [](V x, V y, V z) { return hn::Add(hn::Mul(x, y), z); });
      break;
  }
}

#undef HONE_MAP
#undef HONE_ZIP

void RunTile(const Instruction* code, size_t count, float* const* registers, int64_t n) {
  for (size_t k = 0; k < count; ++k) {
    const Instruction& i = code[k];
    Run(i, registers[i.a], registers[i.b], registers[i.c], registers[i.to], n);
  }
}

void FloatsFromBools(const uint8_t* from, float* to, int64_t n) {
  const D d;
  const hn::Rebind<int32_t, D> d32;
  const hn::Rebind<uint8_t, D> d8;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes)
    hn::StoreU(hn::ConvertTo(d, hn::PromoteTo(d32, hn::LoadU(d8, from + i))), d, to + i);
  for (; i < n; ++i) to[i] = from[i] ? 1.0f : 0.0f;
}

void BoolsFromFloats(const float* from, uint8_t* to, int64_t n) {
  const D d;
  const hn::Rebind<int32_t, D> d32;
  const hn::Rebind<uint8_t, D> d8;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes)
    hn::StoreU(hn::DemoteTo(d8, hn::ConvertTo(d32, hn::LoadU(d, from + i))), d8, to + i);
  for (; i < n; ++i) to[i] = from[i] != 0 ? 1 : 0;
}

}  // namespace hone::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

namespace hone::cpu {

namespace {
HWY_EXPORT(RunTile);
HWY_EXPORT(FloatsFromBools);
HWY_EXPORT(BoolsFromFloats);
}  // namespace

void run_tile(std::span<const Instruction> code, float* const* registers, int64_t n) {
  HWY_DYNAMIC_DISPATCH(RunTile)(code.data(), code.size(), registers, n);
}
void floats_from_bools(const uint8_t* from, float* to, int64_t n) {
  HWY_DYNAMIC_DISPATCH(FloatsFromBools)(from, to, n);
}
void bools_from_floats(const float* from, uint8_t* to, int64_t n) {
  HWY_DYNAMIC_DISPATCH(BoolsFromFloats)(from, to, n);
}

}  // namespace hone::cpu

#endif  // HWY_ONCE
#endif  // HONE_HAVE_HIGHWAY
