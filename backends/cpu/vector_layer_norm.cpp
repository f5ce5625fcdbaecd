// SPDX-License-Identifier: Apache-2.0
// Layer normalisation of rows, and its gradient.
#if HONE_HAVE_HIGHWAY

#include <algorithm>
#include <cmath>

#include "backends/cpu/image_ops.hpp"
#include "backends/cpu/stretches.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/vector_layer_norm.cpp"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"
// After highway.h: it is compiled for each target anew.
#include "backends/cpu/vector_rows-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace hone::cpu::HWY_NAMESPACE {

// Sum of f(offset, lanes) over a row, in two interleaved sums. What f gives for lanes past the end
// must be zero there.
template <class F>
HWY_INLINE float SumRow(int64_t n, F f) {
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(D()));
  V even = hn::Zero(D()), odd = hn::Zero(D());
  int64_t i = 0;
  for (; i + 2 * lanes <= n; i += 2 * lanes) {
    even = hn::Add(even, f(i, static_cast<size_t>(lanes)));
    odd = hn::Add(odd, f(i + lanes, static_cast<size_t>(lanes)));
  }
  for (; i < n; i += lanes) even = hn::Add(even, f(i, static_cast<size_t>(std::min(lanes, n - i))));
  return hn::ReduceSum(D(), hn::Add(even, odd));
}
// v, and zero past the end.
HWY_INLINE V Kept(V v, size_t count) {
  return count == hn::Lanes(D()) ? v : hn::IfThenElseZero(hn::FirstN(D(), count), v);
}

// y = (x - mean) inv scale + bias, as the operator's reference kernel rounds it.
void LayerNormRow(const float* x, float* y, int64_t n, const float* scale, const float* bias,
                  double eps, float* mean_out, float* inv_out) {
  const double size = static_cast<double>(n);
  const double mean =
      static_cast<double>(SumRow(n, [&](int64_t i, size_t k) { return Load(x + i, k); })) / size;
  const V center = hn::Set(D(), static_cast<float>(mean));
  const double squares = static_cast<double>(SumRow(n, [&](int64_t i, size_t k) {
    const V d = Kept(hn::Sub(Load(x + i, k), center), k);
    return hn::Mul(d, d);
  }));
  const double inv = 1 / std::sqrt(squares / size + eps);
  *mean_out = static_cast<float>(mean);
  *inv_out = static_cast<float>(inv);
  const V factor = hn::Set(D(), static_cast<float>(inv));
  ForChannels(n, [&](int64_t i, size_t k) {
    const V h = hn::Mul(hn::Sub(Load(x + i, k), center), factor);
    Store(hn::Add(hn::Mul(h, Load(scale + i, k)), Load(bias + i, k)), y + i, k);
  });
}

// gx = inv (g - mean(g) - h mean(g h)) with g = gy scale and h = (x - mean) inv.
void InputGradRow(const float* x, const float* gy, float* gx, int64_t n, const float* scale,
                  float mean, float inv) {
  const V center = hn::Set(D(), mean);
  const auto g = [&](int64_t i, size_t k) { return hn::Mul(Load(gy + i, k), Load(scale + i, k)); };
  const double sum = static_cast<double>(SumRow(n, g));
  const double dot = static_cast<double>(SumRow(n, [&](int64_t i, size_t k) {
    return Kept(hn::Mul(g(i, k), hn::Sub(Load(x + i, k), center)), k);
  }));
  const double size = static_cast<double>(n), wide = static_cast<double>(inv);
  const V shift = hn::Set(D(), static_cast<float>(sum / size));
  const V slope = hn::Set(D(), static_cast<float>(dot / size * wide * wide));
  const V factor = hn::Set(D(), inv);
  ForChannels(n, [&](int64_t i, size_t k) {
    const V d = hn::Sub(Load(x + i, k), center);
    Store(hn::Mul(factor, hn::Sub(hn::Sub(g(i, k), shift), hn::Mul(d, slope))), gx + i, k);
  });
}

// By column of some rows: the sums of gy h and of gy.
void ParameterSums(const float* x, const float* gy, int64_t rows, int64_t n, const float* mean,
                   const float* inv, float* gscale, float* gbias) {
  ForChannels(n, [&](int64_t c, size_t k) {
    V scales = hn::Zero(D()), biases = hn::Zero(D());
    for (int64_t r = 0; r < rows; ++r) {
      const V g = Load(gy + r * n + c, k);
      const V d = hn::Sub(Load(x + r * n + c, k), hn::Set(D(), mean[r]));
      scales = hn::Add(scales, hn::Mul(g, hn::Mul(d, hn::Set(D(), inv[r]))));
      biases = hn::Add(biases, g);
    }
    Store(scales, gscale + c, k);
    Store(biases, gbias + c, k);
  });
}

}  // namespace hone::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

namespace hone::cpu {

namespace {

HWY_EXPORT(LayerNormRow);
HWY_EXPORT(InputGradRow);
HWY_EXPORT(ParameterSums);

// Inputs x, scale, bias; outputs y, mean, inv.
class LayerNormKernel final : public Kernel {
 public:
  LayerNormKernel(int64_t rows, int64_t n, double eps) : rows_(rows), n_(n), eps_(eps) {}
  Status run(const StepArgs& args) override {
    for_rows(args.pool, rows_, n_, [&](int64_t first, int64_t count) {
      for (int64_t r = first; r < first + count; ++r) HWY_DYNAMIC_DISPATCH(LayerNormRow)
      (args.in<float>(0) + r * n_, args.out<float>(3) + r * n_, n_, args.in<float>(1),
       args.in<float>(2), eps_, args.out<float>(4) + r, args.out<float>(5) + r);
    });
    return {};
  }

 private:
  int64_t rows_, n_;
  double eps_;
};

// Inputs x, scale, mean, inv, gy; outputs gx, gscale, gbias.
class LayerNormGradKernel final : public Kernel {
 public:
  LayerNormGradKernel(int64_t rows, int64_t n) : n_(n), parts_(rows) {}
  int64_t scratch_bytes() const { return Scratch::bytes(parts_, n_); }

  Status run(const StepArgs& args) override {
    const Scratch s(args.scratch, parts_, n_);
    args.pool.parallel_for(parts_.count, 1, [&](int64_t begin, int64_t end, int) {
      for (int64_t part = begin; part < end; ++part) sums(args, s, part);
    });
    for (int64_t c = 0; c < n_; ++c) {  // before gx, which may take the place of x or gy
      double gscale = 0, gbias = 0;
      for (int64_t part = 0; part < parts_.count; ++part) {
        gscale += s.wide(0, part)[c];
        gbias += s.wide(1, part)[c];
      }
      args.out<float>(6)[c] = static_cast<float>(gscale);
      args.out<float>(7)[c] = static_cast<float>(gbias);
    }
    for_rows(args.pool, parts_.rows, n_, [&](int64_t first, int64_t count) {
      for (int64_t r = first; r < first + count; ++r) HWY_DYNAMIC_DISPATCH(InputGradRow)
      (args.in<float>(0) + r * n_, args.in<float>(4) + r * n_, args.out<float>(5) + r * n_, n_,
       args.in<float>(1), args.in<float>(2)[r], args.in<float>(3)[r]);
    });
    return {};
  }

 private:
  void sums(const StepArgs& args, const Scratch& s, int64_t part) const {
    double *gscale = s.wide(0, part), *gbias = s.wide(1, part);
    float *a = s.narrow(0, part), *b = s.narrow(1, part);
    std::fill_n(gscale, n_, 0.0);
    std::fill_n(gbias, n_, 0.0);
    parts_.for_stretches(part, [&](int64_t first, int64_t count) {
      HWY_DYNAMIC_DISPATCH(ParameterSums)
      (args.in<float>(0) + first * n_, args.in<float>(4) + first * n_, count, n_,
       args.in<float>(2) + first, args.in<float>(3) + first, a, b);
      for (int64_t c = 0; c < n_; ++c) {
        gscale[c] += static_cast<double>(a[c]);
        gbias[c] += static_cast<double>(b[c]);
      }
    });
  }

  int64_t n_;
  Parts parts_;
};

}  // namespace

bool accepts_layer_norm(const Graph& g, const Node& n) {
  if (!all_of_dtype(g, n, DType::f32) || g.type(n.inputs[0]).numel() == 0) return false;
  const size_t parameters = n.op == &op::layer_norm ? 3 : 2;  // scale, and bias in the forward pass
  for (size_t i = 1; i < parameters; ++i)
    if (n.inputs.size() <= i || n.inputs[i] == kNone) return false;
  return true;
}

Status lower_layer_norm(Region& r, const Group& group) {
  const Graph& g = r.graph();
  const NodeId id = group.last();
  const Node& n = g.node(id);
  const int64_t size = g.type(n.inputs[1]).numel(), rows = g.type(n.inputs[0]).numel() / size;
  Step s;
  if (n.op == &op::layer_norm) {
    s.kernel = std::make_unique<LayerNormKernel>(rows, size, n.attrs.as<NormAttrs>().eps);
    s.may_share = {{0, 0}};
  } else {
    auto kernel = std::make_unique<LayerNormGradKernel>(rows, size);
    s.scratch_bytes = kernel->scratch_bytes();
    s.kernel = std::move(kernel);
    s.may_share = {{0, 0}, {0, 4}};
  }
  for (ValueId v : n.inputs) s.reads.push_back(r.plain(v, id));
  for (ValueId v : n.outputs) s.writes.push_back(r.result_plain(v));
  s.node = id;
  s.kind = n.op == &op::layer_norm ? "vector.layer_norm" : "vector.layer_norm_grad";
  s.flops = 8 * static_cast<double>(rows * size);
  r.to().add(std::move(s));
  return {};
}

}  // namespace hone::cpu

#endif  // HWY_ONCE
#endif  // HONE_HAVE_HIGHWAY
