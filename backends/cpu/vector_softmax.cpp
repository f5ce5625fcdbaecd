// SPDX-License-Identifier: Apache-2.0
// Softmax and its logarithm along the last axis.
#if HONE_HAVE_HIGHWAY

#include "backends/cpu/vector_softmax.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/vector_softmax.cpp"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"
// After highway.h: it is compiled for each target anew.
#include "backends/cpu/vector_math-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace hone::cpu::HWY_NAMESPACE {

// f of whole vectors, then of what is left over, whose other lanes are `fill`.
template <class F>
HWY_INLINE void ForVectors(const float* x, int64_t n, float fill, F f) {
  const D d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) f(hn::LoadU(d, x + i), i, static_cast<size_t>(lanes));
  if (const size_t rest = static_cast<size_t>(n - i)) {
    const V v = hn::IfThenElse(hn::FirstN(d, rest), hn::LoadN(d, x + i, rest), Number(fill));
    f(v, i, rest);
  }
}
HWY_INLINE void StoreFirst(V v, float* to, size_t count) {
  const D d;
  if (count == hn::Lanes(d))
    hn::StoreU(v, d, to);
  else
    hn::StoreN(v, d, to, count);
}

// A NaN among the elements need not show here: it comes back with the exponentials.
float Largest(const float* x, int64_t n) {
  const float lowest = -std::numeric_limits<float>::infinity();
  V largest = Number(lowest);
  ForVectors(x, n, lowest, [&](V v, int64_t, size_t) { largest = hn::Max(v, largest); });
  return hn::ReduceMax(D(), largest);
}

// A row of nothing but -inf, or NaN among it: then it is NaN everywhere.
void Constant(const float* x, float* y, int64_t n, float value) {
  const bool nan = std::any_of(x, x + n, [](float v) { return std::isnan(v); });
  std::fill_n(y, n, nan ? std::numeric_limits<float>::quiet_NaN() : value);
}

void SoftmaxRow(const float* x, float* y, int64_t n) {
  const float lowest = -std::numeric_limits<float>::infinity();
  const float largest = Largest(x, n);
  if (largest == lowest) return Constant(x, y, n, 0);
  const V top = Number(largest);
  V sum = Number(0);
  ForVectors(x, n, lowest, [&](V v, int64_t i, size_t count) {
    const V e = ExpOf(hn::Sub(v, top));
    sum = hn::Add(sum, e);
    StoreFirst(e, y + i, count);
  });
  const V scale = Number(1 / hn::ReduceSum(D(), sum));
  ForVectors(y, n, 0,
             [&](V v, int64_t i, size_t count) { StoreFirst(hn::Mul(v, scale), y + i, count); });
}

void LogSoftmaxRow(const float* x, float* y, int64_t n) {
  const float lowest = -std::numeric_limits<float>::infinity();
  const float largest = Largest(x, n);
  if (largest == lowest) return Constant(x, y, n, lowest);
  const V top = Number(largest);
  V sum = Number(0);
  ForVectors(x, n, lowest,
             [&](V v, int64_t, size_t) { sum = hn::Add(sum, ExpOf(hn::Sub(v, top))); });
  const V shift = Number(std::log(hn::ReduceSum(D(), sum)));
  ForVectors(x, n, 0, [&](V v, int64_t i, size_t count) {
    StoreFirst(hn::Sub(hn::Sub(v, top), shift), y + i, count);
  });
}

}  // namespace hone::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

namespace hone::cpu {

namespace {

HWY_EXPORT(SoftmaxRow);
HWY_EXPORT(LogSoftmaxRow);

class SoftmaxKernel final : public Kernel {
 public:
  SoftmaxKernel(int64_t rows, int64_t n, bool logarithm)
      : rows_(rows), n_(n), logarithm_(logarithm) {}
  Status run(const StepArgs& args) override {
    constexpr int64_t kElements = 8192;  // for one thread, at least
    const float* x = args.in<float>(0);
    float* y = args.out<float>(1);
    args.pool.parallel_for(rows_, 1 + kElements / n_, [&](int64_t begin, int64_t end, int) {
      for (int64_t r = begin; r < end; ++r) {
        if (logarithm_)
          HWY_DYNAMIC_DISPATCH(LogSoftmaxRow)(x + r * n_, y + r * n_, n_);
        else
          HWY_DYNAMIC_DISPATCH(SoftmaxRow)(x + r * n_, y + r * n_, n_);
      }
    });
    return {};
  }

 private:
  int64_t rows_, n_;
  bool logarithm_;
};

}  // namespace

bool vector_accepts_softmax(const Graph& g, const Node& n) {
  const Shape& s = g.type(n.inputs[0]).shape;
  if (!all_of_dtype(g, n, DType::f32) || s.rank() == 0 || s.numel() == 0) return false;
  const int64_t axis = n.attrs.as<AxisAttrs>().axis;
  return axis == -1 || axis == s.rank() - 1;
}

Status vector_lower_softmax(Lowering& to, NodeId id) {
  const Node& n = to.graph().node(id);
  const Shape& s = to.graph().type(n.inputs[0]).shape;
  const int64_t width = s[s.rank() - 1];
  auto kernel = std::make_unique<SoftmaxKernel>(s.numel() / width, width, n.op == &op::log_softmax);
  Step step = plain_step(to, id, std::move(kernel), "vector.softmax");
  step.may_share = {{0, 0}};
  to.add(std::move(step));
  return {};
}

}  // namespace hone::cpu

#endif  // HWY_ONCE
#endif  // HONE_HAVE_HIGHWAY
