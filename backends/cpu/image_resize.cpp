// SPDX-License-Identifier: Apache-2.0
// Resizing of channels-last images, and its adjoint.
#if HONE_HAVE_HIGHWAY

#include <algorithm>
#include <array>

#include "backends/cpu/image_ops.hpp"
#include "hone/resize_axis.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/image_resize.cpp"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace hone::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// to += weight from, or to = weight from.
void AddScaled(const float* from, float weight, bool assign, float* to, int64_t n) {
  const hn::ScalableTag<float> d;
  const auto w = hn::Set(d, weight);
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t i = 0; i < n; i += lanes) {
    const size_t count = static_cast<size_t>(std::min(lanes, n - i));
    auto v = hn::Mul(w, hn::LoadN(d, from + i, count));
    if (!assign) v = hn::Add(v, hn::LoadN(d, to + i, count));
    hn::StoreN(v, d, to + i, count);
  }
}

}  // namespace hone::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

namespace hone::cpu {

namespace {

HWY_EXPORT(AddScaled);

// Depth, height and width; what is missing in front has one output of one input.
struct Axes {
  std::array<std::vector<Tap>, 3> taps;
  std::array<int64_t, 3> in{1, 1, 1}, out{1, 1, 1};
  int each = 1;  // taps of an output along one axis

  Axes(const Shape& x, const Shape& y, const ResizeAttrs& attrs)
      : each(taps_per_output(attrs.mode)) {
    for (auto& t : taps) t.assign(static_cast<size_t>(each), {0, 0.0});
    for (auto& t : taps) t[0].weight = 1;
    for (int i = 2; i < x.rank(); ++i) {
      const size_t k = static_cast<size_t>(3 - x.rank() + i);
      in[k] = x[i];
      out[k] = y[i];
      taps[k].assign(static_cast<size_t>(out[k] * each), {0, 0.0});
      const AxisScale scale = axis_scale(x, attrs, i);
      for (int64_t o = 0; o < out[k]; ++o) {
        Tap* const t = &taps[k][static_cast<size_t>(o * each)];
        if (is_resized(scale))
          set_taps(scale, attrs, o, t);
        else
          t[0] = {o, 1};
      }
    }
  }

  int64_t outputs() const { return out[0] * out[1] * out[2]; }

  /// f(input pixel, weight) for output pixel o.
  template <class F>
  void for_taps(int64_t o, F f) const {
    const Tap* const w = &taps[2][static_cast<size_t>(o % out[2] * each)];
    const Tap* const h = &taps[1][static_cast<size_t>(o / out[2] % out[1] * each)];
    const Tap* const d = &taps[0][static_cast<size_t>(o / out[2] / out[1] * each)];
    for (int a = 0; a < each; ++a)
      for (int b = 0; b < each; ++b)
        for (int c = 0; c < each; ++c) {
          const double weight = d[a].weight * h[b].weight * w[c].weight;
          if (weight != 0) f((d[a].index * in[1] + h[b].index) * in[2] + w[c].index, weight);
        }
  }
};

class ResizeKernel final : public Kernel {
 public:
  ResizeKernel(const Pixels& x, Axes axes) : x_(x), axes_(std::move(axes)) {}
  Status run(const StepArgs& args) override {
    const int64_t outputs = axes_.outputs();
    args.pool.parallel_for(
        x_.batch * outputs, 1 + 16384 / x_.channels, [&](int64_t begin, int64_t end, int) {
          for (int64_t i = begin; i < end; ++i) {
            const float* x = args.in<float>(0) + i / outputs * x_.plane * x_.channels;
            float* const y = args.out<float>(1) + i * x_.channels;
            bool first = true;
            axes_.for_taps(i % outputs, [&](int64_t pixel, double weight) {
              HWY_DYNAMIC_DISPATCH(AddScaled)
              (x + pixel * x_.channels, static_cast<float>(weight), first, y, x_.channels);
              first = false;
            });
          }
        });
    return {};
  }

 private:
  Pixels x_;
  Axes axes_;
};

// A thread has images, and of each a block of channels: outputs share inputs only within these.
class ResizeGradKernel final : public Kernel {
 public:
  ResizeGradKernel(const Pixels& x, Axes axes) : x_(x), axes_(std::move(axes)) {}
  Status run(const StepArgs& args) override {
    const int64_t blocks = (x_.channels + kBlock - 1) / kBlock;
    args.pool.parallel_for(x_.batch * blocks, 1, [&](int64_t begin, int64_t end, int) {
      for (int64_t i = begin; i < end; ++i) one(args, i / blocks, i % blocks * kBlock);
    });
    return {};
  }

 private:
  static constexpr int64_t kBlock = 64;

  void one(const StepArgs& args, int64_t n, int64_t first) const {
    const int64_t channels = std::min(kBlock, x_.channels - first);
    const float* gy = args.in<float>(0) + n * axes_.outputs() * x_.channels + first;
    float* const gx = args.out<float>(1) + n * x_.plane * x_.channels + first;
    for (int64_t p = 0; p < x_.plane; ++p) std::fill_n(gx + p * x_.channels, channels, 0.0f);
    for (int64_t o = 0; o < axes_.outputs(); ++o)
      axes_.for_taps(o, [&](int64_t pixel, double weight) {
        HWY_DYNAMIC_DISPATCH(AddScaled)
        (gy + o * x_.channels, static_cast<float>(weight), false, gx + pixel * x_.channels,
         channels);
      });
  }

  Pixels x_;
  Axes axes_;
};

const ResizeAttrs& attrs_of(const Node& n) {
  return n.op == &op::resize ? n.attrs.as<ResizeAttrs>() : n.attrs.as<ResizeGradAttrs>().resize;
}

}  // namespace

bool accepts_resize(const Graph& g, const Node& n) {
  const bool forward = n.op == &op::resize;
  const Shape& x = g.type(forward ? n.inputs[0] : n.outputs[0]).shape;
  if (!all_of_dtype(g, n, DType::f32) || x.rank() < 3 || x.rank() > 5 || x.numel() == 0 ||
      g.type(forward ? n.outputs[0] : n.inputs[0]).numel() == 0)
    return false;
  const ResizeAttrs& attrs = attrs_of(n);
  return attrs.mode != ResizeMode::cubic && !is_resized(axis_scale(x, attrs, 0)) &&
         !is_resized(axis_scale(x, attrs, 1));
}

Status lower_resize(Region& r, const Group& group) {
  const Graph& g = r.graph();
  const NodeId id = group.last();
  const Node& n = g.node(id);
  const bool forward = n.op == &op::resize;
  const Shape& in = g.type(n.inputs[0]).shape;
  const Shape& out = g.type(n.outputs[0]).shape;
  const Shape& x = forward ? in : out;
  Axes axes(x, forward ? out : in, attrs_of(n));
  Step s;
  s.flops = 2.0 * static_cast<double>(std::max(in.numel(), out.numel())) * axes.each;
  if (forward)
    s.kernel = std::make_unique<ResizeKernel>(Pixels(x), std::move(axes));
  else
    s.kernel = std::make_unique<ResizeGradKernel>(Pixels(x), std::move(axes));
  s.reads = {r.image(n.inputs[0], id)};
  s.writes = {r.result_image(n.outputs[0])};
  s.node = id;
  s.kind = forward ? "vector.resize" : "vector.resize_grad";
  r.to().add(std::move(s));
  return {};
}

}  // namespace hone::cpu

#endif  // HWY_ONCE
#endif  // HONE_HAVE_HIGHWAY
