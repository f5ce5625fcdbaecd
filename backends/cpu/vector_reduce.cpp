// SPDX-License-Identifier: Apache-2.0
// Sums over rows, and means over the pixels of channels-last images.
#if HONE_HAVE_HIGHWAY

#include <algorithm>

#include "backends/cpu/image_ops.hpp"
#include "backends/cpu/stretches.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/vector_reduce.cpp"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"
// After highway.h: it is compiled for each target anew.
#include "backends/cpu/vector_rows-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace hone::cpu::HWY_NAMESPACE {

void Sums(const float* x, int64_t pixels, int64_t channels, float* sum) {
  ForChannels(channels, [&](int64_t c, size_t n) {
    Store(SumPixels(pixels, channels, c, [&](int64_t at) { return Load(x + at, n); }), sum + c, n);
  });
}

}  // namespace hone::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

namespace hone::cpu {

namespace {

HWY_EXPORT(Sums);

class PixelMeanKernel final : public Kernel {
 public:
  explicit PixelMeanKernel(const Pixels& x) : x_(x), parts_(x.plane) {}
  int64_t scratch_bytes() const { return x_.batch * each_; }

  Status run(const StepArgs& args) override {
    args.pool.parallel_for(x_.batch, 1 + 16384 / (x_.plane * x_.channels),
                           [&](int64_t begin, int64_t end, int) {
                             for (int64_t n = begin; n < end; ++n) mean(args, n);
                           });
    return {};
  }

 private:
  void mean(const StepArgs& args, int64_t n) const {
    const float* x = args.in<float>(0) + n * x_.plane * x_.channels;
    double* const sum = reinterpret_cast<double*>(args.scratch + n * each_);
    float* const some = reinterpret_cast<float*>(sum + x_.channels);
    std::fill_n(sum, x_.channels, 0.0);
    for (int64_t part = 0; part < parts_.count; ++part)
      parts_.for_stretches(part, [&](int64_t first, int64_t count) {
        HWY_DYNAMIC_DISPATCH(Sums)(x + first * x_.channels, count, x_.channels, some);
        for (int64_t c = 0; c < x_.channels; ++c) sum[c] += static_cast<double>(some[c]);
      });
    float* const y = args.out<float>(1) + n * x_.channels;
    for (int64_t c = 0; c < x_.channels; ++c)
      y[c] = static_cast<float>(sum[c] / static_cast<double>(x_.plane));
  }

  Pixels x_;
  Parts parts_;
  int64_t each_ = x_.channels * 2 * static_cast<int64_t>(sizeof(double));
};

// The sum over rows of `channels` elements.
class RowSumKernel final : public Kernel {
 public:
  RowSumKernel(int64_t rows, int64_t channels) : channels_(channels), parts_(rows) {}
  int64_t scratch_bytes() const { return Scratch::bytes(parts_, channels_); }

  Status run(const StepArgs& args) override {
    const Scratch s(args.scratch, parts_, channels_);
    const float* x = args.in<float>(0);
    args.pool.parallel_for(parts_.count, 1, [&](int64_t begin, int64_t end, int) {
      for (int64_t part = begin; part < end; ++part) sum(x, s, part);
    });
    for (int64_t c = 0; c < channels_; ++c) {
      double total = 0;
      for (int64_t part = 0; part < parts_.count; ++part) total += s.wide(0, part)[c];
      args.out<float>(1)[c] = static_cast<float>(total);
    }
    return {};
  }

 private:
  void sum(const float* x, const Scratch& s, int64_t part) const {
    double* const total = s.wide(0, part);
    std::fill_n(total, channels_, 0.0);
    parts_.for_stretches(part, [&](int64_t first, int64_t count) {
      float* const some = s.narrow(0, part);
      HWY_DYNAMIC_DISPATCH(Sums)(x + first * channels_, count, channels_, some);
      for (int64_t c = 0; c < channels_; ++c) total[c] += static_cast<double>(some[c]);
    });
  }

  int64_t channels_;
  Parts parts_;
};

// Which axes a reduction takes.
std::vector<bool> reduced_axes(const Node& n, int rank) {
  const std::vector<int64_t>& axes = n.attrs.as<ReduceAttrs>().axes;
  std::vector<bool> out(static_cast<size_t>(rank), axes.empty());
  for (const int64_t axis : axes) out[static_cast<size_t>(axis < 0 ? axis + rank : axis)] = true;
  return out;
}

// Whether all axes but the channels are summed: of an image, or of rows.
bool over_pixels(const Shape& x, const std::vector<bool>& over) {
  for (size_t i = 0; i < over.size(); ++i)
    if (over[i] != (i != 1)) return false;
  return x.rank() >= 3;
}

}  // namespace

bool accepts_pixel_mean(const Graph& g, const Node& n) {
  const Shape& x = g.type(n.inputs[0]).shape;
  if (!all_of_dtype(g, n, DType::f32) || x.rank() < 3 || x.numel() == 0) return false;
  const std::vector<bool> over = reduced_axes(n, x.rank());
  for (size_t i = 0; i < over.size(); ++i)
    if (over[i] != (i >= 2)) return false;
  return true;
}

Status lower_pixel_mean(Region& r, const Group& group) {
  const NodeId id = group.last();
  const Node& n = r.graph().node(id);
  const Shape& x = r.graph().type(n.inputs[0]).shape;
  auto kernel = std::make_unique<PixelMeanKernel>(Pixels(x));
  Step s;
  s.scratch_bytes = kernel->scratch_bytes();
  s.kernel = std::move(kernel);
  s.node = id;
  s.kind = "vector.pixel_mean";
  s.flops = static_cast<double>(x.numel());
  s.reads = {r.image(n.inputs[0], id)};
  s.writes = {r.result_plain(n.outputs[0])};
  r.to().add(std::move(s));
  return {};
}

bool accepts_row_sum(const Graph& g, const Node& n) {
  const Shape& x = g.type(n.inputs[0]).shape;
  if (!all_of_dtype(g, n, DType::f32) || x.numel() == 0 || x.rank() < 2) return false;
  const std::vector<bool> over = reduced_axes(n, x.rank());
  if (over_pixels(x, over)) return true;
  // The leading axes, and not all of them.
  return over.front() && !over.back() && std::is_sorted(over.rbegin(), over.rend());
}

Status lower_row_sum(Region& r, const Group& group) {
  const NodeId id = group.last();
  const Node& n = r.graph().node(id);
  const Shape& x = r.graph().type(n.inputs[0]).shape;
  const bool pixels = over_pixels(x, reduced_axes(n, x.rank()));
  const int64_t channels = pixels ? x[1] : r.graph().type(n.outputs[0]).numel();
  auto kernel = std::make_unique<RowSumKernel>(x.numel() / channels, channels);
  Step s;
  s.scratch_bytes = kernel->scratch_bytes();
  s.kernel = std::move(kernel);
  s.reads = {pixels ? r.image(n.inputs[0], id) : r.plain(n.inputs[0], id)};
  s.writes = {r.result_plain(n.outputs[0])};
  s.node = id;
  s.kind = "vector.row_sum";
  s.flops = static_cast<double>(x.numel());
  r.to().add(std::move(s));
  return {};
}

}  // namespace hone::cpu

#endif  // HWY_ONCE
#endif  // HONE_HAVE_HIGHWAY
