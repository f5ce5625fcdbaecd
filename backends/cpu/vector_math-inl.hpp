// SPDX-License-Identifier: Apache-2.0
// Functions of vectors of floats. Included once for each instruction set, after hwy/highway.h.
#if defined(HONE_VECTOR_MATH_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef HONE_VECTOR_MATH_INL
#undef HONE_VECTOR_MATH_INL
#else
#define HONE_VECTOR_MATH_INL
#endif

#include "hwy/highway.h"
// After highway.h.
#include "hwy/contrib/math/math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace hone::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;

HWY_INLINE V Number(float x) { return hn::Set(D(), x); }

// Highway's functions keep to ordinary numbers; zeros, infinities and NaN are ours to mind.
HWY_INLINE V ExpOf(V x) {
  const V y = hn::Exp(D(), hn::Min(x, Number(89.0f)));  // exp(89) is infinite already
  return hn::IfThenElse(hn::IsNaN(x), x, y);
}
HWY_INLINE V LogOf(V x) {
  const V inf = hn::Inf(D()), zero = hn::Zero(D());
  V y = hn::Log(D(), x);
  y = hn::IfThenElse(hn::Eq(x, zero), hn::Neg(inf), y);
  y = hn::IfThenElse(hn::Lt(x, zero), hn::NaN(D()), y);
  return hn::IfThenElse(hn::Or(hn::IsNaN(x), hn::Eq(x, inf)), x, y);
}
HWY_INLINE V TanhOf(V x) { return hn::IfThenElse(hn::IsNaN(x), x, hn::Tanh(D(), x)); }

// Where |x| is small an odd polynomial, elsewhere 1 - exp(p(|x|)); coefficients fitted to the least
// largest error (Lawson's iteration), about one unit in the last place.
HWY_INLINE V ErfOf(V x) {
  const V t = hn::Min(hn::Abs(x), Number(3.95f));  // from there on it is 1
  V p = Number(-2.144552501e-05f);
  for (const float c : {4.385294732e-04f, -4.190853556e-03f, 2.517180302e-02f, -1.083615438e-01f,
                        -6.332724214e-01f, -1.129552038e+00f, 1.824594214e-04f})
    p = hn::MulAdd(p, t, Number(c));
  const V large = hn::CopySign(hn::Sub(Number(1), hn::Exp(D(), p)), x);
  const V s = hn::Mul(x, x);
  V r = Number(-5.862082117e-04f);
  for (const float c :
       {4.967506842e-03f, -2.674886431e-02f, 1.128132069e-01f, -3.761244594e-01f, 1.283791420e-01f})
    r = hn::MulAdd(r, s, Number(c));
  const V small = hn::MulAdd(r, x, x);
  const V y = hn::IfThenElse(hn::Lt(t, Number(0.95f)), small, large);
  return hn::IfThenElse(hn::IsNaN(x), x, y);
}

// Of the two ways to write it, the one whose exponential cannot overflow.
HWY_INLINE V SigmoidOf(V x) {
  const V one = Number(1), e = ExpOf(hn::Neg(hn::Abs(x)));
  return hn::Div(hn::IfThenElse(hn::Lt(x, hn::Zero(D())), e, one), hn::Add(one, e));
}

}  // namespace hone::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
