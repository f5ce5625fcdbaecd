// SPDX-License-Identifier: Apache-2.0
// The loops that measure the machine, for the best vector instructions it has.
#include "core/cli/machine_loops.hpp"

#if HONE_HAVE_HIGHWAY

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "core/cli/machine_loops.cpp"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace hone::cli::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Twelve chains that do not wait for each other: more than two multiply-adds a cycle of up to six
// cycles each take. Vectors may have a size that is not known here, so there is no array of them.
double MulAdds(int64_t rounds, float* sink) {
  const hn::ScalableTag<float> d;
  const auto m = hn::Set(d, sink[0]), b = hn::Set(d, sink[1]);
  auto x0 = hn::Zero(d), x1 = x0, x2 = x0, x3 = x0, x4 = x0, x5 = x0;
  auto x6 = x0, x7 = x0, x8 = x0, x9 = x0, x10 = x0, x11 = x0;
  for (int64_t i = 0; i < rounds; ++i) {
    x0 = hn::MulAdd(x0, m, b), x1 = hn::MulAdd(x1, m, b), x2 = hn::MulAdd(x2, m, b);
    x3 = hn::MulAdd(x3, m, b), x4 = hn::MulAdd(x4, m, b), x5 = hn::MulAdd(x5, m, b);
    x6 = hn::MulAdd(x6, m, b), x7 = hn::MulAdd(x7, m, b), x8 = hn::MulAdd(x8, m, b);
    x9 = hn::MulAdd(x9, m, b), x10 = hn::MulAdd(x10, m, b), x11 = hn::MulAdd(x11, m, b);
  }
  x0 = hn::Add(hn::Add(hn::Add(x0, x1), hn::Add(x2, x3)), hn::Add(x4, x5));
  x6 = hn::Add(hn::Add(hn::Add(x6, x7), hn::Add(x8, x9)), hn::Add(x10, x11));
  sink[2] = hn::ReduceSum(d, hn::Add(x0, x6));
  return 2.0 * 12 * static_cast<double>(hn::Lanes(d)) * static_cast<double>(rounds);
}

double Bf16MulAdds(int64_t rounds, float* sink) {
#if HWY_NATIVE_DOT_BF16
  const hn::ScalableTag<float> d;
  const hn::Repartition<hwy::bfloat16_t, decltype(d)> d16;
  const auto m = hn::Set(d16, hwy::BF16FromF32(sink[0]));
  const auto b = hn::Set(d16, hwy::BF16FromF32(sink[1]));
  auto x0 = hn::Zero(d), x1 = x0, x2 = x0, x3 = x0, x4 = x0, x5 = x0;
  auto x6 = x0, x7 = x0, x8 = x0, x9 = x0, x10 = x0, x11 = x0;
  auto rest = hn::Zero(d);  // the second sum, which native instructions leave alone
  const auto add = [&](auto& x) { x = hn::ReorderWidenMulAccumulate(d, m, b, x, rest); };
  for (int64_t i = 0; i < rounds; ++i) {
    add(x0), add(x1), add(x2), add(x3), add(x4), add(x5);
    add(x6), add(x7), add(x8), add(x9), add(x10), add(x11);
  }
  x0 = hn::Add(hn::Add(hn::Add(x0, x1), hn::Add(x2, x3)), hn::Add(x4, x5));
  x6 = hn::Add(hn::Add(hn::Add(x6, x7), hn::Add(x8, x9)), hn::Add(x10, x11));
  sink[2] = hn::ReduceSum(d, hn::Add(hn::Add(x0, x6), rest));
  return 4.0 * 12 * static_cast<double>(hn::Lanes(d)) * static_cast<double>(rounds);
#else
  (void)rounds;
  (void)sink;
  return 0;
#endif
}

void Triad(float* a, const float* b, const float* c, int64_t n) {
  const hn::ScalableTag<float> d;
  const auto s = hn::Set(d, 3.0f);
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes)
    hn::StoreU(hn::MulAdd(s, hn::LoadU(d, c + i), hn::LoadU(d, b + i)), d, a + i);
  for (; i < n; ++i) a[i] = b[i] + 3.0f * c[i];
}

const char* Name() { return hwy::TargetName(HWY_TARGET); }

}  // namespace hone::cli::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

namespace hone::cli {

namespace {
HWY_EXPORT(MulAdds);
HWY_EXPORT(Bf16MulAdds);
HWY_EXPORT(Triad);
HWY_EXPORT(Name);
}  // namespace

double mul_adds(int64_t rounds, float* sink) { return HWY_DYNAMIC_DISPATCH(MulAdds)(rounds, sink); }
double bf16_mul_adds(int64_t rounds, float* sink) {
  return HWY_DYNAMIC_DISPATCH(Bf16MulAdds)(rounds, sink);
}
void triad(float* a, const float* b, const float* c, int64_t n) {
  HWY_DYNAMIC_DISPATCH(Triad)(a, b, c, n);
}
const char* vector_target() { return HWY_DYNAMIC_DISPATCH(Name)(); }

}  // namespace hone::cli

#endif  // HWY_ONCE

#else  // HONE_HAVE_HIGHWAY

namespace hone::cli {

// As wide as the compiler's baseline allows, which may be less than the machine has.
double mul_adds(int64_t rounds, float* sink) {
  constexpr int kChains = 48;
  float x[kChains] = {};
  const float m = sink[0], b = sink[1];
  for (int64_t i = 0; i < rounds; ++i)
    for (float& v : x) v = v * m + b;
  for (const float v : x) sink[2] += v;
  return 2.0 * kChains * static_cast<double>(rounds);
}
double bf16_mul_adds(int64_t, float*) { return 0; }
void triad(float* a, const float* b, const float* c, int64_t n) {
  for (int64_t i = 0; i < n; ++i) a[i] = b[i] + 3.0f * c[i];
}
const char* vector_target() { return "the compiler's baseline"; }

}  // namespace hone::cli

#endif  // HONE_HAVE_HIGHWAY
