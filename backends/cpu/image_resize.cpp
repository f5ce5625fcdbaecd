// SPDX-License-Identifier: Apache-2.0
// Resizing of channels-last images, and its adjoint.
#if HONE_HAVE_HIGHWAY

#include <algorithm>
#include <array>
#include <span>

#include "backends/cpu/image_ops.hpp"
#include "hone/resize_axis.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/image_resize.cpp"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace hone::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using D = hn::ScalableTag<float>;

// What an output pixel is made of: inputs and weights.
struct Mix {
  const float* from[8];
  float weight[8];
  int count = 0;
};

HWY_INLINE hn::Vec<D> MixOf(const Mix& m, int64_t i, size_t n) {
  const D d;
  const auto load = [&](const float* p) {
    return n == hn::Lanes(d) ? hn::LoadU(d, p + i) : hn::LoadN(d, p + i, n);
  };
  auto sum = hn::Mul(hn::Set(d, m.weight[0]), load(m.from[0]));
  for (int k = 1; k < m.count; ++k)
    sum = hn::Add(sum, hn::Mul(hn::Set(d, m.weight[k]), load(m.from[k])));
  return sum;
}

// A row of outputs. `columns` has `each` taps of every output.
void ResizeRow(std::span<const Tap> rows, std::span<const Tap> columns, int each, int64_t channels,
               const float* x, float* y) {
  const D d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const size_t step = static_cast<size_t>(each);
  for (size_t o = 0; o < columns.size(); o += step, y += channels) {
    Mix m;
    for (const Tap& r : rows)
      for (const Tap& c : columns.subspan(o, step))
        if (const double weight = r.weight * c.weight; weight != 0) {
          m.from[m.count] = x + (r.index + c.index) * channels;
          m.weight[m.count++] = static_cast<float>(weight);
        }
    if (m.count == 0) m = {{x}, {0.0f}, 1};
    int64_t i = 0;
    for (; i + lanes <= channels; i += lanes) hn::StoreU(MixOf(m, i, hn::Lanes(d)), d, y + i);
    if (const size_t rest = static_cast<size_t>(channels - i))
      hn::StoreN(MixOf(m, i, rest), d, y + i, rest);
  }
}

// The adjoint for `n` of the channels: what a row of outputs adds to its inputs.
void ResizeGradRow(std::span<const Tap> rows, std::span<const Tap> columns, int each,
                   int64_t channels, int64_t n, const float* gy, float* gx) {
  const D d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const size_t step = static_cast<size_t>(each);
  for (size_t o = 0; o < columns.size(); o += step, gy += channels)
    for (const Tap& r : rows)
      for (const Tap& c : columns.subspan(o, step)) {
        const double weight = r.weight * c.weight;
        if (weight == 0) continue;
        const auto w = hn::Set(d, static_cast<float>(weight));
        float* const to = gx + (r.index + c.index) * channels;
        int64_t i = 0;
        for (; i + lanes <= n; i += lanes)
          hn::StoreU(hn::Add(hn::Mul(w, hn::LoadU(d, gy + i)), hn::LoadU(d, to + i)), d, to + i);
        if (const size_t rest = static_cast<size_t>(n - i))
          hn::StoreN(hn::Add(hn::Mul(w, hn::LoadN(d, gy + i, rest)), hn::LoadN(d, to + i, rest)), d,
                     to + i, rest);
      }
}

}  // namespace hone::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

namespace hone::cpu {

namespace {

HWY_EXPORT(ResizeRow);
HWY_EXPORT(ResizeGradRow);

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

  int64_t rows() const { return out[0] * out[1]; }

  /// The input rows, by their first pixels, that row `r` of the outputs is made of.
  std::span<const Tap> row_taps(int64_t r, std::array<Tap, 4>& made) const {
    const Tap* const h = &taps[1][static_cast<size_t>(r % out[1] * each)];
    const Tap* const d = &taps[0][static_cast<size_t>(r / out[1] * each)];
    size_t n = 0;
    for (int a = 0; a < each; ++a)
      for (int b = 0; b < each; ++b)
        made[n++] = {(d[a].index * in[1] + h[b].index) * in[2], d[a].weight * h[b].weight};
    return {made.data(), n};
  }
};

class ResizeKernel final : public Kernel {
 public:
  ResizeKernel(const Pixels& x, Axes axes) : x_(x), axes_(std::move(axes)) {}
  Status run(const StepArgs& args) override {
    const int64_t rows = axes_.rows(), row = axes_.out[2] * x_.channels;
    args.pool.parallel_for(x_.batch * rows, 1 + 16384 / row, [&](int64_t begin, int64_t end, int) {
      std::array<Tap, 4> made;
      for (int64_t i = begin; i < end; ++i) {
        const float* x = args.in<float>(0) + i / rows * x_.plane * x_.channels;
        HWY_DYNAMIC_DISPATCH(ResizeRow)
        (axes_.row_taps(i % rows, made), axes_.taps[2], axes_.each, x_.channels, x,
         args.out<float>(1) + i * row);
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
    const int64_t row = axes_.out[2] * x_.channels;
    const float* gy = args.in<float>(0) + n * axes_.rows() * row + first;
    float* const gx = args.out<float>(1) + n * x_.plane * x_.channels + first;
    for (int64_t p = 0; p < x_.plane; ++p) std::fill_n(gx + p * x_.channels, channels, 0.0f);
    std::array<Tap, 4> made;
    for (int64_t r = 0; r < axes_.rows(); ++r, gy += row) HWY_DYNAMIC_DISPATCH(ResizeGradRow)
    (axes_.row_taps(r, made), axes_.taps[2], axes_.each, x_.channels, channels, gy, gx);
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
