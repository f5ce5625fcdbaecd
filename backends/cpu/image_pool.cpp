// SPDX-License-Identifier: Apache-2.0
// Pooling of channels-last images, and copies of some of their channels.
#if HONE_HAVE_HIGHWAY

#include <algorithm>

#include "backends/cpu/image_ops.hpp"
#include "hone/window.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/image_pool.cpp"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace hone::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;

// The largest of `count` taps, each a row of channels, and which of them it was: the first of equal
// ones, or the first NaN. Lanes past `lanes` are not written.
struct Best {
  V value, tap;
};
HWY_INLINE V LoadLanes(const float* p, size_t lanes) {
  const D d;
  return lanes == hn::Lanes(d) ? hn::LoadU(d, p) : hn::LoadN(d, p, lanes);
}
HWY_INLINE void StoreLanes(V v, float* p, size_t lanes) {
  const D d;
  if (lanes == hn::Lanes(d))
    hn::StoreU(v, d, p);
  else
    hn::StoreN(v, d, p, lanes);
}
HWY_INLINE Best BestOf(const float* const* taps, int64_t count, int64_t c, size_t lanes) {
  Best best{LoadLanes(taps[0] + c, lanes), hn::Zero(D())};
  for (int64_t t = 1; t < count; ++t) {
    const V v = LoadLanes(taps[t] + c, lanes);
    const auto first_nan = hn::And(hn::IsNaN(v), hn::Not(hn::IsNaN(best.value)));
    const auto better = hn::Or(hn::Gt(v, best.value), first_nan);
    best.value = hn::IfThenElse(better, v, best.value);
    best.tap = hn::IfThenElse(better, hn::Set(D(), static_cast<float>(t)), best.tap);
  }
  return best;
}

void MaxOfTaps(const float* const* taps, int64_t count, int64_t channels, float* y) {
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(D()));
  for (int64_t c = 0; c < channels; c += lanes) {
    const size_t n = static_cast<size_t>(std::min(lanes, channels - c));
    V best = LoadLanes(taps[0] + c, n);
    for (int64_t t = 1; t < count; ++t) {
      const V v = LoadLanes(taps[t] + c, n);
      // Also where v is NaN; and a NaN that was found stays.
      const auto better = hn::Or(hn::Gt(v, best), hn::IsNaN(v));
      best = hn::IfThenElse(hn::And(better, hn::Not(hn::IsNaN(best))), v, best);
    }
    StoreLanes(best, y + c, n);
  }
}

// Adds gy to where the largest taps lie: `to` are the taps' rows in the result.
void AddAtMax(const float* const* taps, float* const* to, int64_t count, int64_t channels,
              const float* gy) {
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(D()));
  for (int64_t c = 0; c < channels; c += lanes) {
    const size_t n = static_cast<size_t>(std::min(lanes, channels - c));
    const Best best = BestOf(taps, count, c, n);
    const V g = LoadLanes(gy + c, n);
    for (int64_t t = 0; t < count; ++t) {
      const auto here = hn::Eq(best.tap, hn::Set(D(), static_cast<float>(t)));
      const V sum = hn::Add(LoadLanes(to[t] + c, n), hn::IfThenElseZero(here, g));
      StoreLanes(sum, to[t] + c, n);
    }
  }
}

}  // namespace hone::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

namespace hone::cpu {

namespace {

HWY_EXPORT(MaxOfTaps);
HWY_EXPORT(AddAtMax);

constexpr int64_t kMostTaps = 256;

// The pixels under window o of an image, counted within it.
struct Taps {
  int64_t at[kMostTaps];
  int64_t count = 0;
  void find(const Window& win, int64_t o) {
    const WindowAxis &d = win.depth(), &h = win.height(), &w = win.width();
    const int64_t ow = o % w.out, oh = o / w.out % h.out, od = o / w.out / h.out;
    count = 0;
    for (int64_t kd = 0; kd < d.kernel; ++kd) {
      const int64_t id = d.start(od) + kd * d.dilation;
      if (id < 0 || id >= d.in) continue;
      for (int64_t kh = 0; kh < h.kernel; ++kh) {
        const int64_t ih = h.start(oh) + kh * h.dilation;
        if (ih < 0 || ih >= h.in) continue;
        for (int64_t kw = 0; kw < w.kernel; ++kw) {
          const int64_t iw = w.start(ow) + kw * w.dilation;
          if (iw >= 0 && iw < w.in) at[count++] = (id * h.in + ih) * w.in + iw;
        }
      }
    }
  }
};

class MaxPoolKernel final : public Kernel {
 public:
  MaxPoolKernel(const Pixels& x, const Window& win) : x_(x), win_(win) {}
  Status run(const StepArgs& args) override {
    const int64_t windows = win_.out_size();
    const int64_t work = win_.kernel_size() * x_.channels;
    args.pool.parallel_for(
        x_.batch * windows, 1 + 32768 / work, [&](int64_t begin, int64_t end, int) {
          Taps taps;
          const float* rows[kMostTaps];
          for (int64_t i = begin; i < end; ++i) {
            const float* x = args.in<float>(0) + i / windows * x_.plane * x_.channels;
            taps.find(win_, i % windows);
            for (int64_t t = 0; t < taps.count; ++t) rows[t] = x + taps.at[t] * x_.channels;
            HWY_DYNAMIC_DISPATCH(MaxOfTaps)
            (rows, taps.count, x_.channels, args.out<float>(1) + i * x_.channels);
          }
        });
    return {};
  }

 private:
  Pixels x_;
  Window win_;
};

// A thread has images, and of each a block of channels: windows overlap only within these.
class MaxPoolGradKernel final : public Kernel {
 public:
  MaxPoolGradKernel(const Pixels& x, const Window& win) : x_(x), win_(win) {}
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
    const int64_t image = n * x_.plane * x_.channels + first;
    const float* x = args.in<float>(0) + image;
    const float* gy = args.in<float>(1) + n * win_.out_size() * x_.channels + first;
    float* gx = args.out<float>(2) + image;
    for (int64_t p = 0; p < x_.plane; ++p) std::fill_n(gx + p * x_.channels, channels, 0.0f);
    Taps taps;
    const float* from[kMostTaps];
    float* to[kMostTaps];
    for (int64_t o = 0; o < win_.out_size(); ++o) {
      taps.find(win_, o);
      for (int64_t t = 0; t < taps.count; ++t) {
        from[t] = x + taps.at[t] * x_.channels;
        to[t] = gx + taps.at[t] * x_.channels;
      }
      HWY_DYNAMIC_DISPATCH(AddAtMax)(from, to, taps.count, channels, gy + o * x_.channels);
    }
  }

  Pixels x_;
  Window win_;
};

// Rows of `count` elements from one pitch to another.
class ChannelCopyKernel final : public Kernel {
 public:
  struct Part {
    int64_t from_pitch, from_first, to_first, count;
  };
  ChannelCopyKernel(int64_t pixels, int64_t to_pitch, std::vector<Part> parts)
      : pixels_(pixels), pitch_(to_pitch), parts_(std::move(parts)) {}
  Status run(const StepArgs& args) override {
    float* const to = args.out<float>(parts_.size());
    args.pool.parallel_for(pixels_, 1 + 16384 / pitch_, [&](int64_t begin, int64_t end, int) {
      for (int64_t p = begin; p < end; ++p)
        for (size_t k = 0; k < parts_.size(); ++k) {
          const Part& part = parts_[k];
          std::copy_n(args.in<float>(k) + p * part.from_pitch + part.from_first, part.count,
                      to + p * pitch_ + part.to_first);
        }
    });
    return {};
  }

 private:
  int64_t pixels_, pitch_;
  std::vector<Part> parts_;
};

// Where a slice starts on the channel axis.
int64_t first_channel(const Graph& g, const Node& n) {
  const SliceAttrs& attrs = n.attrs.as<SliceAttrs>();
  const Shape& x = g.type(n.inputs[0]).shape;
  for (size_t k = 0; k < attrs.starts.size(); ++k) {
    const int64_t axis = attrs.axes.empty() ? static_cast<int64_t>(k) : attrs.axes[k];
    if (axis != 1 && axis != 1 - x.rank()) continue;
    const int64_t start = attrs.starts[k] < 0 ? attrs.starts[k] + x[1] : attrs.starts[k];
    return std::clamp<int64_t>(start, 0, x[1]);
  }
  return 0;
}

Result<Window> window_of(const Graph& g, const Node& n) {
  return pool_window(n.attrs.as<PoolAttrs>(), g.type(n.inputs[0]).shape);
}

template <class K>
Status lower_pool(Region& r, NodeId id, std::string_view kind) {
  const Graph& g = r.graph();
  const Node& n = g.node(id);
  HONE_ASSIGN(const Window win, window_of(g, n));
  Step s;
  s.kernel = std::make_unique<K>(Pixels(g.type(n.inputs[0]).shape), win);
  for (ValueId v : n.inputs) s.reads.push_back(r.image(v, id));
  s.writes = {r.result_image(n.outputs[0])};
  s.node = id;
  s.kind = kind;
  s.flops = static_cast<double>(g.type(n.outputs[0]).numel() * win.kernel_size());
  r.to().add(std::move(s));
  return {};
}

}  // namespace

bool accepts_max_pool(const Graph& g, const Node& n) {
  if (!all_of_dtype(g, n, DType::f32) || g.type(n.inputs[0]).numel() == 0) return false;
  const Result<Window> win = window_of(g, n);
  return win.ok() && win->out_size() > 0 && win->kernel_size() <= kMostTaps;
}

Status lower_max_pool(Region& r, const Group& group) {
  return lower_pool<MaxPoolKernel>(r, group.last(), "vector.max_pool");
}
Status lower_max_pool_grad(Region& r, const Group& group) {
  return lower_pool<MaxPoolGradKernel>(r, group.last(), "vector.max_pool_grad");
}

bool accepts_channel_copy(const Graph& g, const Node& n) {
  const Shape& y = g.type(n.outputs[0]).shape;
  if (!all_of_dtype(g, n, DType::f32) || y.rank() < 3 || y.numel() == 0) return false;
  if (n.op == &op::concat) {
    const int64_t axis = n.attrs.as<AxisAttrs>().axis;
    return axis == 1 || axis == 1 - y.rank();
  }
  // A slice of channels alone, each one of them.
  const Shape& x = g.type(n.inputs[0]).shape;
  for (int i = 0; i < x.rank(); ++i)
    if (i != 1 && x[i] != y[i]) return false;
  const SliceAttrs& attrs = n.attrs.as<SliceAttrs>();
  return std::all_of(attrs.steps.begin(), attrs.steps.end(), [](int64_t s) { return s == 1; });
}

Status lower_channel_copy(Region& r, const Group& group) {
  const Graph& g = r.graph();
  const NodeId id = group.last();
  const Node& n = g.node(id);
  if (std::none_of(n.inputs.begin(), n.inputs.end(), [&](ValueId v) { return r.only_image(v); })) {
    for (ValueId v : n.inputs) r.plain(v, id);
    return r.to().add_reference(id);
  }
  const Pixels y(g.type(n.outputs[0]).shape);
  std::vector<ChannelCopyKernel::Part> parts;
  Step s;
  int64_t first = 0;
  for (ValueId v : n.inputs) {
    const int64_t channels = g.type(v).shape[1];
    s.reads.push_back(r.image(v, id));
    if (n.op == &op::concat) {
      parts.push_back({channels, 0, first, channels});
      first += channels;
    } else {
      parts.push_back({channels, first_channel(g, n), 0, y.channels});
    }
  }
  s.kernel = std::make_unique<ChannelCopyKernel>(y.count(), y.channels, std::move(parts));
  s.writes = {r.result_image(n.outputs[0])};
  s.node = id;
  s.kind = "vector.channel_copy";
  s.flops = static_cast<double>(g.type(n.outputs[0]).numel());
  r.to().add(std::move(s));
  return {};
}

}  // namespace hone::cpu

#endif  // HWY_ONCE
#endif  // HONE_HAVE_HIGHWAY
