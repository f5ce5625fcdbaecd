// SPDX-License-Identifier: Apache-2.0
// Sigmoid and hyperbolic tangent over rows of floats, for the gates of recurrent cells.
#if HONE_HAVE_HIGHWAY

#include "backends/cpu/gemm_recurrent.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/vector_activations.cpp"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"
// After highway.h: it is compiled for each target anew.
#include "hwy/contrib/math/math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace hone::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// A NaN stays one: minimum and maximum may drop it on the way.
template <class D, class V>
HWY_INLINE V SigmoidOf(D d, V x) {
  const V bounded = hn::Min(hn::Max(x, hn::Set(d, -88.0f)), hn::Set(d, 88.0f));
  const V one = hn::Set(d, 1.0f);
  const V y = hn::Div(one, hn::Add(one, hn::Exp(d, hn::Neg(bounded))));
  return hn::IfThenElse(hn::IsNaN(x), x, y);
}
template <class D, class V>
HWY_INLINE V TanhOf(D d, V x) {
  return hn::IfThenElse(hn::IsNaN(x), x, hn::Tanh(d, x));
}

void Sigmoid(float* x, int64_t n) {
  const hn::ScalableTag<float> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) hn::StoreU(SigmoidOf(d, hn::LoadU(d, x + i)), d, x + i);
  const size_t rest = static_cast<size_t>(n - i);
  if (rest) hn::StoreN(SigmoidOf(d, hn::LoadN(d, x + i, rest)), d, x + i, rest);
}

void Tanh(float* x, int64_t n) {
  const hn::ScalableTag<float> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) hn::StoreU(TanhOf(d, hn::LoadU(d, x + i)), d, x + i);
  const size_t rest = static_cast<size_t>(n - i);
  if (rest) hn::StoreN(TanhOf(d, hn::LoadN(d, x + i, rest)), d, x + i, rest);
}

}  // namespace hone::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

namespace hone::cpu {

namespace {
HWY_EXPORT(Sigmoid);
HWY_EXPORT(Tanh);
void sigmoid(float* x, int64_t n) { HWY_DYNAMIC_DISPATCH(Sigmoid)(x, n); }
void tanh(float* x, int64_t n) { HWY_DYNAMIC_DISPATCH(Tanh)(x, n); }
}  // namespace

const FloatActivations kVectorActivations = {sigmoid, tanh};

}  // namespace hone::cpu

#endif  // HWY_ONCE
#endif  // HONE_HAVE_HIGHWAY
