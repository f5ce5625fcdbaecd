// SPDX-License-Identifier: Apache-2.0
// Convolutions on XNNPACK, and what may stand between them without leaving their layout.
#if HONE_HAVE_XNNPACK

#include <algorithm>
#include <limits>

#include "backends/cpu/pthreadpool_shim.hpp"
#include "backends/cpu/xnnpack.hpp"
#include "hone/window.hpp"

namespace hone::cpu {

namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// (N, C, spatial..) as N images of C channels by S pixels.
struct ImageSize {
  int64_t n, c, s;
  explicit ImageSize(const Shape& x) : n(x[0]), c(x[1]), s(x.product(2, x.rank())) {}
  int64_t count() const { return n * c * s; }
  /// Whether channels first and channels last are the same bytes.
  bool either_way() const { return c == 1 || s == 1; }
};

Shape channels_last_shape(const Shape& x) {
  Shape out = x;
  for (int i = 1; i + 1 < x.rank(); ++i) out[i] = x[i + 1];
  out[x.rank() - 1] = x[1];
  return out;
}

// `count` matrices of rows x cols, each to cols x rows, in blocks that stay in the nearest cache.
void transpose(int64_t count, int64_t rows, int64_t cols, const float* from, float* to,
               ThreadPool& pool) {
  constexpr int64_t kBlock = 16, kElements = 16384;
  const int64_t stripes = (cols + kBlock - 1) / kBlock;
  const int64_t grain = std::max<int64_t>(1, kElements / (kBlock * rows));
  pool.parallel_for(count * stripes, grain, [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; ++i) {
      const float* in = from + i / stripes * rows * cols;
      float* out = to + i / stripes * rows * cols;
      const int64_t c0 = i % stripes * kBlock, c1 = std::min(cols, c0 + kBlock);
      for (int64_t r0 = 0; r0 < rows; r0 += kBlock)
        for (int64_t c = c0; c < c1; ++c)
          for (int64_t r = r0, r1 = std::min(rows, r0 + kBlock); r < r1; ++r)
            out[c * rows + r] = in[r * cols + c];
    }
  });
}

class TransposeKernel final : public Kernel {
 public:
  TransposeKernel(int64_t count, int64_t rows, int64_t cols)
      : count_(count), rows_(rows), cols_(cols) {}
  Status run(const StepArgs& args) override {
    transpose(count_, rows_, cols_, args.in<float>(0), args.out<float>(1), args.pool);
    return {};
  }

 private:
  int64_t count_, rows_, cols_;
};

void add_transpose(Lowering& to, BufferId from, BufferId dest, const Shape& shape,
                   bool to_channels_last, NodeId node) {
  const ImageSize x(shape);
  Step s;
  s.kernel = to_channels_last ? std::make_unique<TransposeKernel>(x.n, x.c, x.s)
                              : std::make_unique<TransposeKernel>(x.n, x.s, x.c);
  s.reads = {from};
  s.writes = {dest};
  s.node = node;
  s.kind = "xnnpack.transpose";
  to.add(std::move(s));
}

BufferId image_buffer(Lowering& to, const Shape& shape) {
  return to.temporary(shape.numel() * 4 + kXnnpackSlack);
}

// ---- convolution

struct Geometry {
  WindowAxis h, w;
  int64_t batch = 0, groups = 1, in = 0, out = 0;  // channels of all groups
};

class ConvKernel final : public Kernel {
 public:
  ConvKernel(Prepared p, const Geometry& g)
      : weights_(std::move(p.weights)), op_(std::move(p.op)), g_(g) {}

  Status reshape(ThreadPool& pool) {
    size_t bytes = 0, alignment = 1, h = 0, w = 0;
    HONE_TRY(xnnpack_status(
        xnn_reshape_convolution2d_nhwc_f32(
            op_.get(), static_cast<size_t>(g_.batch), static_cast<size_t>(g_.h.in),
            static_cast<size_t>(g_.w.in), &bytes, &alignment, &h, &w, as_pthreadpool(pool)),
        "conv"));
    HONE_ENSURE(static_cast<int64_t>(h) == g_.h.out && static_cast<int64_t>(w) == g_.w.out);
    HONE_ENSURE(alignment <= kAlignment);
    scratch_bytes_ = static_cast<int64_t>(bytes);
    threads_ = pool.size();
    return {};
  }
  int64_t scratch_bytes() const { return scratch_bytes_; }

  Status run(const StepArgs& args) override {
    if (weights_->place() != args.operands[1] || threads_ != args.pool.size()) {
      weights_->set_place(args.operands[1], weights_->bytes());
      const int64_t planned = scratch_bytes_;
      HONE_TRY(reshape(args.pool));
      HONE_ENSURE(scratch_bytes_ <= planned);
      scratch_bytes_ = planned;
    }
    HONE_TRY(xnnpack_status(xnn_setup_convolution2d_nhwc_f32(op_.get(), args.scratch,
                                                             args.in<float>(0), args.out<float>(2)),
                            "conv"));
    return xnnpack_status(xnn_run_operator(op_.get(), as_pthreadpool(args.pool)), "conv");
  }

 private:
  std::unique_ptr<PackedWeights> weights_;  // before the operator that uses it
  XnnpackOperator op_;
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
  const ImageSize size(w);
  if (size.either_way()) return nullptr;
  return [size](const float* from, float* to) {
    transpose(size.n, size.c, size.s, from, to, serial_pool());
  };
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

// ---- element-wise operators

bool is_pointwise(const OpDef* o) {
  static constexpr const OpDef* kPointwise[] = {
      &op::relu,         &op::clip, &op::sigmoid,    &op::tanh,       &op::silu,
      &op::hard_sigmoid, &op::elu,  &op::hard_swish, &op::leaky_relu, &op::add,
      &op::sub,          &op::mul,  &op::div};
  return std::find(std::begin(kPointwise), std::end(kPointwise), o) != std::end(kPointwise);
}

// Leading axes of one up to `rank`.
Shape extended(Shape s, int rank) {
  while (s.rank() < rank) s.insert(0, 1);
  return s;
}

// The operator's reference kernel on operands whose axes were permuted alike.
class PointwiseKernel final : public Kernel {
 public:
  PointwiseKernel(const Node& n, std::vector<ConstTensorView> in, TensorView out)
      : op_(n.op), attrs_(n.attrs), in_(std::move(in)), out_(std::move(out)) {}
  Status run(const StepArgs& args) override {
    for (size_t i = 0; i < in_.size(); ++i) in_[i].data = args.operands[i];
    out_.data = args.operands[in_.size()];
    return op_->kernel({in_, {&out_, 1}, attrs_, args.scratch, args.pool});
  }

 private:
  const OpDef* op_;
  Attrs attrs_;
  std::vector<ConstTensorView> in_;
  TensorView out_;
};

Step pointwise_step(const Node& n, NodeId id, std::vector<ConstTensorView> in, TensorView out,
                    std::vector<BufferId> reads, BufferId write) {
  Step s;
  for (size_t i = 0; i < reads.size(); ++i)
    if (in[i].type == out.type && std::count(reads.begin(), reads.end(), reads[i]) == 1)
      s.may_share.push_back({0, static_cast<int32_t>(i)});
  s.flops = static_cast<double>(out.type.numel());
  s.kernel = std::make_unique<PointwiseKernel>(n, std::move(in), std::move(out));
  s.reads = std::move(reads);
  s.writes = {write};
  s.node = id;
  s.kind = "xnnpack.pointwise";
  return s;
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

bool xnnpack_accepts_pointwise(const Graph& g, const Node& n) {
  return is_pointwise(n.op) && all_of_dtype(g, n, DType::f32) && !n.op->scratch &&
         n.op->inplace == Inplace::any_input && g.type(n.outputs[0]).shape.rank() >= 3 &&
         g.type(n.outputs[0]).numel() > 0;
}

// ---- the region

BufferId XnnpackRegion::channels_last(ValueId v) const {
  for (const auto& [value, buffer] : images_)
    if (value == v) return buffer;
  return kNone;
}

bool XnnpackRegion::needed_plain(ValueId v) const {
  int64_t here = 0;
  for (NodeId id : nodes_) {
    const Node& n = to_.graph().node(id);
    if (n.op == &op::conv && n.inputs[0] == v) ++here;
    if (is_pointwise(n.op)) here += std::count(n.inputs.begin(), n.inputs.end(), v);
  }
  return here < to_.uses(v);
}

NodeId XnnpackRegion::only_reader(ValueId v) const {
  if (to_.uses(v) != 1) return kNone;
  for (NodeId id : nodes_) {
    const Node& n = to_.graph().node(id);
    if (is_pointwise(n.op) && n.inputs[0] == v) return id;
  }
  return kNone;
}

Result<BufferId> XnnpackRegion::conv_input(NodeId id) {
  const ValueId v = to_.graph().node(id).inputs[0];
  if (const BufferId have = channels_last(v); have != kNone) return have;
  const Shape& shape = to_.graph().type(v).shape;
  const BufferId image = image_buffer(to_, shape);
  add_transpose(to_, to_.of(v), image, shape, true, id);
  images_.emplace_back(v, image);
  return image;
}

Result<BufferId> XnnpackRegion::operand(ValueId v, const Shape& shape, NodeId id) {
  if (const BufferId have = channels_last(v); have != kNone) return have;
  const ImageSize size(shape);
  if (size.either_way()) return to_.of(v);
  if (to_.is_fixed(v))
    return to_.packed(v, size.count() * 4, [size](const void* from, void* dest) -> Status {
      transpose(size.n, size.c, size.s, static_cast<const float*>(from), static_cast<float*>(dest),
                serial_pool());
      return {};
    });
  const BufferId image = image_buffer(to_, shape);
  add_transpose(to_, to_.of(v), image, shape, true, id);
  if (shape == to_.graph().type(v).shape) images_.emplace_back(v, image);
  return image;
}

void XnnpackRegion::publish(ValueId v, BufferId image, NodeId id) {
  images_.emplace_back(v, image);
  if (needed_plain(v)) add_transpose(to_, image, to_.of(v), to_.graph().type(v).shape, false, id);
}

Status XnnpackRegion::lower_conv(NodeId id) {
  const Graph& g = to_.graph();
  const Node& n = g.node(id);
  HONE_ASSIGN(const Geometry size, geometry(g, n));
  Bounds bounds;
  ValueId result = n.outputs[0];
  if (const NodeId next = only_reader(result); next != kNone && bounds_of(g.node(next), bounds)) {
    fused_.push_back(next);
    result = g.node(next).outputs[0];
  }
  HONE_ASSIGN(Prepared p, prepare_operator(to_, n, conv_maker(size, bounds.low, bounds.high),
                                           conv_order(g.type(n.inputs[1]).shape)));
  const BufferId packed = p.packed;
  auto kernel = std::make_unique<ConvKernel>(std::move(p), size);
  CountedPool pool(to_.threads());
  HONE_TRY(kernel->reshape(pool));
  HONE_ASSIGN(const BufferId image, conv_input(id));
  const BufferId out = image_buffer(to_, g.type(result).shape);
  const int64_t scratch = kernel->scratch_bytes();
  Step s = plain_step(to_, id, std::move(kernel), "xnnpack.conv");
  s.reads = {image, packed};
  s.writes = {out};
  s.scratch_bytes = scratch;
  to_.add(std::move(s));
  publish(result, out, id);
  return {};
}

Status XnnpackRegion::lower_pointwise(NodeId id) {
  const Graph& g = to_.graph();
  const Node& n = g.node(id);
  const bool images = std::any_of(n.inputs.begin(), n.inputs.end(),
                                  [&](ValueId v) { return channels_last(v) != kNone; });
  const Shape& shape = g.type(n.outputs[0]).shape;
  std::vector<ConstTensorView> in;
  std::vector<BufferId> reads;
  for (ValueId v : n.inputs) {
    const Shape own = images ? extended(g.type(v).shape, shape.rank()) : g.type(v).shape;
    in.push_back({{DType::f32, images ? channels_last_shape(own) : own}, nullptr});
    if (images) {
      HONE_ASSIGN(const BufferId b, operand(v, own, id));
      reads.push_back(b);
    } else {
      reads.push_back(to_.of(v));
    }
  }
  const BufferId out = images ? image_buffer(to_, shape) : to_.of(n.outputs[0]);
  to_.add(pointwise_step(n, id, std::move(in),
                         {{DType::f32, images ? channels_last_shape(shape) : shape}, nullptr},
                         std::move(reads), out));
  if (images) publish(n.outputs[0], out, id);
  return {};
}

Status XnnpackRegion::lower(NodeId id) {
  if (std::find(fused_.begin(), fused_.end(), id) != fused_.end()) return {};
  const OpDef* const o = to_.graph().node(id).op;
  if (o == &op::matmul) return xnnpack_lower_matmul(to_, id);
  return o == &op::conv ? lower_conv(id) : lower_pointwise(id);
}

}  // namespace hone::cpu

#endif  // HONE_HAVE_XNNPACK
