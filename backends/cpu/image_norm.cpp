// SPDX-License-Identifier: Apache-2.0
// Batch normalisation of channels-last images.
//
// Sums run in f32 over short stretches of pixels and in double over the stretches, in an order that
// does not depend on the number of threads. Means and sums of squared deviations of stretches are
// combined as Chan, Golub and LeVeque do (Updating formulae and a pairwise algorithm for computing
// sample variances, 1979), so that memory is read once for both.
#if HONE_HAVE_HIGHWAY

#include <algorithm>
#include <cmath>

#include "backends/cpu/image_ops.hpp"
#include "backends/cpu/normalisation.hpp"
#include "backends/cpu/pointwise.hpp"
#include "backends/cpu/stretches.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/image_norm.cpp"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"
// After highway.h: it is compiled for each target anew.
#include "backends/cpu/vector_rows-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace hone::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// By channel of a stretch: the mean and the sum of squared deviations from it.
void Moments(const float* x, int64_t pixels, int64_t channels, float* mean, float* squares) {
  const V count = hn::Set(D(), static_cast<float>(pixels));
  ForChannels(channels, [&](int64_t c, size_t n) {
    const V m =
        hn::Div(SumPixels(pixels, channels, c, [&](int64_t at) { return Load(x + at, n); }), count);
    Store(m, mean + c, n);
    const V s = SumPixels(pixels, channels, c, [&](int64_t at) {
      const V v = hn::Sub(Load(x + at, n), m);
      return hn::Mul(v, v);
    });
    Store(s, squares + c, n);
  });
}

// y = x factor + shift, each product and sum rounded.
void Scale(const float* x, float* y, int64_t pixels, int64_t channels, const float* factor,
           const float* shift) {
  for (int64_t p = 0; p < pixels; ++p, x += channels, y += channels)
    ForChannels(channels, [&](int64_t c, size_t n) {
      const V scaled = hn::Mul(Load(x + c, n), Load(factor + c, n));
      Store(hn::Add(scaled, Load(shift + c, n)), y + c, n);
    });
}

}  // namespace hone::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

namespace hone::cpu {

namespace {

HWY_EXPORT(Moments);
HWY_EXPORT(Scale);

// Adds a stretch's (or part's) moments to those of n elements.
void combine(int64_t n, double& mean, double& squares, int64_t more, double their_mean,
             double their_squares) {
  const double total = static_cast<double>(n + more), part = static_cast<double>(more);
  const double apart = their_mean - mean;
  mean += apart * part / total;
  squares += their_squares + apart * apart * static_cast<double>(n) * part / total;
}

// Inputs x, scale, bias; outputs mean, var, and what it takes to compute y (Deferred): the mean as
// a sum of two floats, the factor, the bias (the state may change before y is computed again).
class BatchNormTrainKernel final : public Kernel {
 public:
  BatchNormTrainKernel(const Pixels& x, double eps) : x_(x), parts_(x.count()), eps_(eps) {}
  int64_t scratch_bytes() const { return Scratch::bytes(parts_, x_.channels); }

  Status run(const StepArgs& args) override {
    const Scratch s(args.scratch, parts_, x_.channels);
    const float* x = args.in<float>(0);
    args.pool.parallel_for(parts_.count, 1, [&](int64_t begin, int64_t end, int) {
      for (int64_t part = begin; part < end; ++part) moments(x, s, part);
    });
    finish(args, s);
    return {};
  }

 private:
  void moments(const float* x, const Scratch& s, int64_t part) const {
    double *mean = s.wide(0, part), *squares = s.wide(1, part);
    float *m = s.narrow(0, part), *q = s.narrow(1, part);
    std::fill_n(mean, x_.channels, 0.0);
    std::fill_n(squares, x_.channels, 0.0);
    int64_t seen = 0;
    parts_.for_stretches(part, [&](int64_t first, int64_t count) {
      HWY_DYNAMIC_DISPATCH(Moments)(x + first * x_.channels, count, x_.channels, m, q);
      for (int64_t c = 0; c < x_.channels; ++c)
        combine(seen, mean[c], squares[c], count, static_cast<double>(m[c]),
                static_cast<double>(q[c]));
      seen += count;
    });
  }

  void finish(const StepArgs& args, const Scratch& s) const {
    const double n = static_cast<double>(x_.count());
    for (int64_t c = 0; c < x_.channels; ++c) {
      double mean = 0, squares = 0;
      for (int64_t part = 0; part < parts_.count; ++part) {
        const int64_t before = part * parts_.each;
        combine(before, mean, squares, std::min(parts_.each, x_.count() - before),
                s.wide(0, part)[c], s.wide(1, part)[c]);
      }
      const double var = squares / n;
      const float whole = static_cast<float>(mean);
      args.out<float>(3)[c] = whole;
      args.out<float>(4)[c] = static_cast<float>(var);
      args.out<float>(5)[c] = static_cast<float>(mean - static_cast<double>(whole));
      args.out<float>(6)[c] =
          static_cast<float>(static_cast<double>(args.in<float>(1)[c]) / std::sqrt(var + eps_));
      args.out<float>(7)[c] = args.in<float>(2)[c];
    }
  }

  Pixels x_;
  Parts parts_;
  double eps_;
};

// Inputs x, factor, shift.
class ScaleKernel final : public Kernel {
 public:
  explicit ScaleKernel(const Pixels& x) : x_(x) {}
  Status run(const StepArgs& args) override {
    for_rows(args.pool, x_.count(), x_.channels, [&](int64_t first, int64_t count) {
      const int64_t at = first * x_.channels;
      HWY_DYNAMIC_DISPATCH(Scale)
      (args.in<float>(0) + at, args.out<float>(3) + at, count, x_.channels, args.in<float>(1),
       args.in<float>(2));
    });
    return {};
  }

 private:
  Pixels x_;
};

}  // namespace

bool accepts_image_norm(const Graph& g, const Node& n) {
  return all_of_dtype(g, n, DType::f32) && g.type(n.inputs[0]).numel() > 0;
}

Status lower_batch_norm(Region& r, const Group& group) {
  const NodeId id = group.last();
  const Node& n = r.graph().node(id);
  const auto coefficients = Normalisation::of(r.graph(), id).add_step(r, id);
  Step s;
  s.kernel = std::make_unique<ScaleKernel>(Pixels(r.graph().type(n.inputs[0]).shape));
  s.reads = {r.image(n.inputs[0], id), coefficients.factor, coefficients.shift};
  s.writes = {r.result_image(n.outputs[0])};
  s.may_share = {{0, 0}};
  s.node = id;
  s.kind = "vector.batch_norm";
  s.flops = 2 * static_cast<double>(r.graph().type(n.inputs[0]).numel());
  r.to().add(std::move(s));
  return {};
}

Status lower_batch_norm_train(Region& r, const Group& group) {
  const NodeId id = group.last();
  const Node& n = r.graph().node(id);
  const TensorType& type = r.graph().type(n.inputs[0]);
  auto kernel =
      std::make_unique<BatchNormTrainKernel>(Pixels(type.shape), n.attrs.as<NormAttrs>().eps);
  Step s;
  s.scratch_bytes = kernel->scratch_bytes();
  s.kernel = std::move(kernel);
  s.node = id;
  s.kind = "vector.batch_norm_train";
  s.flops = 4 * static_cast<double>(type.numel());
  s.reads = {r.image(n.inputs[0], id), r.plain(n.inputs[1], id), r.plain(n.inputs[2], id)};
  const auto by_channel = [&] {
    return r.to().temporary(type.shape[1] * static_cast<int64_t>(sizeof(float)));
  };
  const BufferId mean = r.result_plain(n.outputs[1]);
  const Deferred how{id, n.inputs[0], mean, by_channel(), by_channel(), by_channel()};
  s.writes = {mean, r.result_plain(n.outputs[2]), how.rest, how.factor, how.bias};
  r.to().add(std::move(s));
  // What is cheap to compute from x, which the gradient needs anyway, need not be kept beside it.
  const ValueId y = n.outputs[0];
  const bool x_lasts = r.graph().value(n.inputs[0]).kind != ValueKind::state;
  if (!x_lasts || same_either_way(type.shape) || !r.only_pointwise_reads(y))
    write_image(r, y, how);
  else
    r.defer(y, how, write_image);
  return {};
}

}  // namespace hone::cpu

#endif  // HWY_ONCE
#endif  // HONE_HAVE_HIGHWAY
