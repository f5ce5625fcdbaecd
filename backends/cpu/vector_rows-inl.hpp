// SPDX-License-Identifier: Apache-2.0
// Loops over rows of floats, and sums over rows. Included once for each instruction set, after
// hwy/highway.h.
#if defined(HONE_VECTOR_ROWS_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef HONE_VECTOR_ROWS_INL
#undef HONE_VECTOR_ROWS_INL
#else
#define HONE_VECTOR_ROWS_INL
#endif

#include <algorithm>

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace hone::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;

HWY_INLINE V Load(const float* p, size_t count) {
  const D d;
  return count == hn::Lanes(d) ? hn::LoadU(d, p) : hn::LoadN(d, p, count);
}
HWY_INLINE void Store(V v, float* p, size_t count) {
  const D d;
  if (count == hn::Lanes(d))
    hn::StoreU(v, d, p);
  else
    hn::StoreN(v, d, p, count);
}

// f(channel, lanes) for the channels, a vector at a time.
template <class F>
HWY_INLINE void ForChannels(int64_t channels, F f) {
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(D()));
  for (int64_t c = 0; c < channels; c += lanes)
    f(c, static_cast<size_t>(std::min(lanes, channels - c)));
}

// Sum of f(offset, lanes) over pixels, four at a time so that no addition waits for the one before.
template <class F>
HWY_INLINE V SumPixels(int64_t pixels, int64_t channels, int64_t c, F f) {
  V sums[4] = {hn::Zero(D()), hn::Zero(D()), hn::Zero(D()), hn::Zero(D())};
  int64_t p = 0;
  for (; p + 4 <= pixels; p += 4)
    for (int64_t k = 0; k < 4; ++k) sums[k] = hn::Add(sums[k], f((p + k) * channels + c));
  for (; p < pixels; ++p) sums[0] = hn::Add(sums[0], f(p * channels + c));
  return hn::Add(hn::Add(sums[0], sums[1]), hn::Add(sums[2], sums[3]));
}

}  // namespace hone::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
