// SPDX-License-Identifier: Apache-2.0
// Convolutions on XNNPACK, on channels-last images.
#if HONE_HAVE_XNNPACK

#include <algorithm>
#include <limits>

#include "backends/cpu/pthreadpool_shim.hpp"
#include "backends/cpu/xnnpack.hpp"
#include "hone/window.hpp"

namespace hone::cpu {

namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// ---- convolution

struct Geometry {
  WindowAxis h, w;
  int64_t batch = 0, groups = 1, in = 0, out = 0;  // channels of all groups
};

class ConvKernel final : public Kernel {
 public:
  ConvKernel(Prepared p, const Geometry& g) : p_(std::move(p)), g_(g) {}

  Status reshape(ThreadPool& pool) {
    size_t bytes = 0, alignment = 1, h = 0, w = 0;
    HONE_TRY(xnnpack_status(
        xnn_reshape_convolution2d_nhwc_f32(
            p_.op.get(), static_cast<size_t>(g_.batch), static_cast<size_t>(g_.h.in),
            static_cast<size_t>(g_.w.in), &bytes, &alignment, &h, &w, as_pthreadpool(pool)),
        "conv"));
    HONE_ENSURE(static_cast<int64_t>(h) == g_.h.out && static_cast<int64_t>(w) == g_.w.out);
    HONE_ENSURE(alignment <= kAlignment);
    scratch_bytes_ = static_cast<int64_t>(bytes);
    threads_ = pool.size();
    return {};
  }
  int64_t scratch_bytes() const { return p_.scratch + scratch_bytes_; }

  // Operands: the image, what the weights come from, the result.
  Status run(const StepArgs& args) override {
    HONE_ASSIGN(void* const place,
                p_.place(args.operands.subspan(1, p_.sources.size()), args.scratch));
    if (p_.weights->place() != place || threads_ != args.pool.size()) {
      p_.weights->set_place(place, p_.weights->bytes());
      const int64_t planned = scratch_bytes_;
      HONE_TRY(reshape(args.pool));
      HONE_ENSURE(scratch_bytes_ <= planned);
      scratch_bytes_ = planned;
    }
    HONE_TRY(xnnpack_status(
        xnn_setup_convolution2d_nhwc_f32(p_.op.get(), args.scratch + p_.scratch, args.in<float>(0),
                                         args.out<float>(1 + p_.sources.size())),
        "conv"));
    return xnnpack_status(xnn_run_operator(p_.op.get(), as_pthreadpool(args.pool)), "conv");
  }

 private:
  Prepared p_;
  Geometry g_;
  int64_t scratch_bytes_ = 0;
  int threads_ = 0;
};

Result<Geometry> geometry(const Graph& g, const Node& n) {
  const Shape& x = g.type(n.inputs[0]).shape;
  const Shape& w = g.type(n.inputs[1]).shape;
  const ConvAttrs& attrs = n.attrs.as<ConvAttrs>();
  HONE_ASSIGN(const Window window, conv_window(attrs, spatial_of(x), spatial_of(w)));
  return Geometry{window.height(), window.width(), x[0], attrs.groups, x[1], w[0]};
}

// XNNPACK counts the geometry in 32 bits.
bool fits(const WindowAxis& a) {
  constexpr int64_t kMost = int64_t{1} << 30;
  return a.kernel < kMost && a.stride < kMost && a.dilation < kMost && a.pad_begin < kMost &&
         a.pad_end < kMost;
}

MakeOperator conv_maker(const Geometry& g, float low, float high) {
  return [g, low, high](const float* w, const float* bias, xnn_weights_cache_t cache,
                        xnn_operator_t* out) {
    const auto u = [](int64_t v) { return static_cast<uint32_t>(v); };
    const size_t in = static_cast<size_t>(g.in), channels = static_cast<size_t>(g.out);
    const size_t groups = static_cast<size_t>(g.groups);
    return xnn_create_convolution2d_nhwc_f32(
        u(g.h.pad_begin), u(g.w.pad_end), u(g.h.pad_end), u(g.w.pad_begin), u(g.h.kernel),
        u(g.w.kernel), u(g.h.stride), u(g.w.stride), u(g.h.dilation), u(g.w.dilation), u(g.groups),
        in / groups, channels / groups, in, channels, w, bias, low, high,
        XNN_FLAG_TRANSIENT_INDIRECTION_BUFFER, nullptr, cache, out);
  };
}

// (M, C, kernel..) to (M, kernel.., C); nothing to do where either is one.
OrderWeights conv_order(const Shape& w) {
  if (same_either_way(w)) return nullptr;
  return [w](const float* from, float* to) { order_channels_last(w, from, to); };
}

struct Bounds {
  float low = -kInfinity, high = kInfinity;
};

// Whether the node only bounds its input.
bool bounds_of(const Node& n, Bounds& b) {
  if (n.op == &op::relu) {
    b = {0, kInfinity};
    return true;
  }
  if (n.op != &op::clip) return false;
  const ClipAttrs& a = n.attrs.as<ClipAttrs>();
  b = {static_cast<float>(a.low), static_cast<float>(a.high)};
  return b.low <= b.high;
}

}  // namespace

bool xnnpack_accepts_conv(const Graph& g, const Node& n) {
  if (!all_of_dtype(g, n, DType::f32)) return false;
  const Shape& x = g.type(n.inputs[0]).shape;
  if (x.rank() < 3 || x.rank() > 4 || x.numel() == 0 || g.type(n.inputs[1]).numel() == 0 ||
      g.type(n.outputs[0]).numel() == 0)
    return false;
  const Result<Geometry> size = geometry(g, n);
  return size.ok() && fits(size.value().h) && fits(size.value().w) && fixed_weights(g, n) &&
         xnnpack_available();
}

Status xnnpack_lower_conv(Region& r, const Group& group) {
  const Graph& g = r.graph();
  const NodeId id = group.root;
  const Node& n = g.node(id);
  HONE_ASSIGN(const Geometry size, geometry(g, n));
  const bool norm = group.tail.batch_norm != kNone;
  const Normalisation folding =
      norm ? Normalisation::of(g, group.tail.batch_norm, id) : Normalisation();
  if (norm && !folding.fixed(r.to())) return unsupported("the normalisation is not fixed");
  Bounds bounds;
  if (group.tail.activation != kNone) bounds_of(g.node(group.tail.activation), bounds);
  HONE_ASSIGN(Prepared p,
              prepare_operator(r.to(), n, conv_maker(size, bounds.low, bounds.high),
                               conv_order(g.type(n.inputs[1]).shape), norm ? &folding : nullptr));
  const std::vector<BufferId> sources = p.sources;
  auto kernel = std::make_unique<ConvKernel>(std::move(p), size);
  CountedPool pool(r.to().threads());
  HONE_TRY(kernel->reshape(pool));
  const BufferId image = r.image_with_slack(n.inputs[0], id);
  const int64_t scratch = kernel->scratch_bytes();
  Step s = plain_step(r.to(), id, std::move(kernel), "xnnpack.conv");
  s.reads = {image};
  s.reads.insert(s.reads.end(), sources.begin(), sources.end());
  s.writes = {r.result_image(g.node(group.last()).outputs[0])};
  s.scratch_bytes = scratch;
  r.to().add(std::move(s));
  return {};
}

}  // namespace hone::cpu

#endif  // HONE_HAVE_XNNPACK
