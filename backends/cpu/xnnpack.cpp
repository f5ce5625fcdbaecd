// SPDX-License-Identifier: Apache-2.0
// What XNNPACK's operators share, and matmul.
#if HONE_HAVE_XNNPACK

#include "backends/cpu/xnnpack.hpp"

#include <algorithm>
#include <limits>
#include <optional>

#include "backends/cpu/pthreadpool_shim.hpp"

namespace hone::cpu {

namespace {

bool fixed_state(const Graph& g, ValueId root) {
  return g.value(root).kind == ValueKind::state &&
         std::none_of(g.updates.begin(), g.updates.end(),
                      [&](const StateUpdate& u) { return u.state == root; });
}

ValueId bias_of(const Node& n) {
  return n.op == &op::conv && n.inputs.size() > 2 ? n.inputs[2] : kNone;
}

}  // namespace

Status xnnpack_status(xnn_status s, std::string_view what) {
  if (s == xnn_status_success) return {};
  if (s == xnn_status_out_of_memory) return out_of_memory("XNNPACK: {}: out of memory", what);
  if (s == xnn_status_unsupported_hardware || s == xnn_status_unsupported_parameter)
    return unsupported("XNNPACK: {}: not supported", what);
  return internal("XNNPACK: {}: status {}", what, static_cast<int>(s));
}

bool xnnpack_available() { return xnn_initialize(nullptr) == xnn_status_success; }

bool fixed_weights(const Graph& g, const Node& n) {
  const ValueId w = g.viewed(n.inputs[1]);
  const bool constant = g.value(w).kind == ValueKind::constant;
  if (!constant && !fixed_state(g, w)) return false;
  if (bias_of(n) == kNone) return true;
  // The bias is packed with the weights.
  const ValueId b = g.viewed(bias_of(n));
  return g.value(b).kind == ValueKind::constant || fixed_state(g, b);
}

PackedWeights::PackedWeights() {
  constexpr size_t kNotFound = std::numeric_limits<size_t>::max();
  provider_.context = this;
  provider_.look_up = [](void*, const xnn_weights_cache_look_up_key*) { return kNotFound; };
  provider_.reserve_space = [](void* self, size_t bytes) {
    return static_cast<PackedWeights*>(self)->reserve(bytes);
  };
  provider_.look_up_or_insert = [](void*, const xnn_weights_cache_look_up_key*, void*,
                                   size_t) -> size_t { return 0; };
  provider_.is_finalized = [](void*) { return true; };
  provider_.offset_to_addr = [](void* self, size_t) {
    return static_cast<PackedWeights*>(self)->place();
  };
  provider_.delete_cache = [](void*) { return xnn_status_success; };
}

void* PackedWeights::reserve(size_t bytes) {
  bytes_ = static_cast<int64_t>(bytes);
  if (place_) return bytes_ <= room_ ? place_ : nullptr;
  Result<TensorData> made = TensorData::allocate({DType::u8, {bytes_}});
  if (!made.ok()) return nullptr;
  stand_in_ = std::move(made).value();
  place_ = stand_in_.mutable_data();
  return place_;
}

namespace {

// Weights and bias, brought into XNNPACK's order and a normalisation's scale.
class Source {
 public:
  Source(const OrderWeights& order, const Normalisation* norm, int64_t count)
      : order_(order), norm_(norm), count_(count) {}

  /// `from`: what the normalisation reads, then the weights and, without one, perhaps the bias.
  Status load(std::span<const void* const> from) {
    const size_t before = norm_ ? norm_->sources().size() : 0;
    weights = static_cast<const float*>(from[before]);
    bias = from.size() > before + 1 ? static_cast<const float*>(from[before + 1]) : nullptr;
    if (norm_) HONE_TRY(scale(from.first(before)));
    if (!order_) return {};
    HONE_ASSIGN(ordered_, TensorData::allocate({DType::f32, {count_}}));
    order_(weights, static_cast<float*>(ordered_.mutable_data()));
    weights = static_cast<const float*>(ordered_.data());
    return {};
  }

  const float *weights = nullptr, *bias = nullptr;

 private:
  Status scale(std::span<const void* const> from) {
    const int64_t channels = norm_->channels, each = count_ / channels;
    std::vector<float> factor(static_cast<size_t>(channels));
    shift_.resize(factor.size());
    norm_->coefficients(from, factor.data(), shift_.data());
    HONE_ASSIGN(scaled_, TensorData::allocate({DType::f32, {count_}}));
    float* const to = static_cast<float*>(scaled_.mutable_data());
    for (int64_t c = 0; c < channels; ++c)
      for (int64_t i = c * each; i < (c + 1) * each; ++i)
        to[i] = weights[i] * factor[static_cast<size_t>(c)];
    weights = to;
    bias = shift_.data();
    return {};
  }

  const OrderWeights& order_;
  const Normalisation* norm_;
  int64_t count_;
  TensorData scaled_, ordered_;
  std::vector<float> shift_;
};

}  // namespace

Result<Prepared> prepare_operator(Lowering& to, const Node& n, MakeOperator make,
                                  OrderWeights order, const Normalisation* norm) {
  const Graph& g = to.graph();
  const int64_t count = g.type(n.inputs[1]).numel();
  Prepared p;
  p.weights = std::make_unique<PackedWeights>();
  {  // once with zeros, to learn the size
    HONE_ASSIGN(const TensorData zeros, TensorData::zeros({DType::f32, {count}}));
    xnn_operator_t raw = nullptr;
    HONE_TRY(xnnpack_status(
        make(static_cast<const float*>(zeros.data()), nullptr, p.weights->cache(), &raw),
        n.op->name));
    p.op.reset(raw);
    p.weights->drop_stand_in();
  }
  std::vector<ValueId> sources;
  if (norm) sources = norm->sources();
  sources.push_back(n.inputs[1]);
  if (!norm && bias_of(n) != kNone) sources.push_back(bias_of(n));
  const int64_t bytes = p.weights->bytes();
  const std::optional<Normalisation> folded = norm ? std::optional(*norm) : std::nullopt;
  p.packed = to.packed(sources, bytes,
                       [make = std::move(make), order = std::move(order), folded, count, bytes](
                           std::span<const void* const> from, void* dest) -> Status {
                         Source source(order, folded ? &*folded : nullptr, count);
                         HONE_TRY(source.load(from));
                         // What makes the operator is as it was when the size was asked.
                         PackedWeights weights;
                         weights.set_place(dest, bytes);
                         xnn_operator_t raw = nullptr;
                         HONE_TRY(xnnpack_status(
                             make(source.weights, source.bias, weights.cache(), &raw), "packing"));
                         const XnnpackOperator op(raw);
                         return {};
                       });
  return p;
}

// ---- matmul

namespace {

class MatmulKernel final : public Kernel {
 public:
  MatmulKernel(Prepared p, int64_t rows, int64_t depth)
      : weights_(std::move(p.weights)), op_(std::move(p.op)), rows_(rows), depth_(depth) {}

  // XNNPACK may read past the end of A: it gets a copy with room behind.
  int64_t scratch_bytes() const { return rows_ * depth_ * 4 + kXnnpackSlack; }

  Status run(const StepArgs& args) override {
    const pthreadpool_t pool = as_pthreadpool(args.pool);
    if (weights_->place() != args.operands[1] || threads_ != args.pool.size()) {
      weights_->set_place(args.operands[1], weights_->bytes());
      HONE_TRY(xnnpack_status(
          xnn_reshape_fully_connected_nc_f32(op_.get(), static_cast<size_t>(rows_), pool),
          "matmul"));
      threads_ = args.pool.size();
    }
    const float* a = args.in<float>(0);
    float* copy = reinterpret_cast<float*>(args.scratch);
    constexpr int64_t kGrain = 16384;
    args.pool.parallel_for(rows_ * depth_, kGrain, [&](int64_t begin, int64_t end, int) {
      std::copy(a + begin, a + end, copy + begin);
    });
    HONE_TRY(xnnpack_status(xnn_setup_fully_connected_nc_f32(op_.get(), copy, args.out<float>(2)),
                            "matmul"));
    return xnnpack_status(xnn_run_operator(op_.get(), pool), "matmul");
  }

 private:
  std::unique_ptr<PackedWeights> weights_;  // before the operator that uses it
  XnnpackOperator op_;
  int64_t rows_, depth_;
  int threads_ = 0;
};

}  // namespace

bool xnnpack_accepts_matmul(const Graph& g, const Node& n) {
  return all_of_dtype(g, n, DType::f32) && !n.attrs.as<MatmulAttrs>().trans_a &&
         g.type(n.inputs[1]).shape.rank() == 2 && g.type(n.inputs[0]).numel() > 0 &&
         g.type(n.outputs[0]).numel() > 0 && fixed_weights(g, n) && xnnpack_available();
}

Status xnnpack_lower_matmul(Lowering& to, NodeId id) {
  const Graph& g = to.graph();
  const Node& n = g.node(id);
  const bool transposed = n.attrs.as<MatmulAttrs>().trans_b;
  const Shape& a = g.type(n.inputs[0]).shape;
  const Shape& b = g.type(n.inputs[1]).shape;
  const int64_t depth = transposed ? b[1] : b[0], width = transposed ? b[0] : b[1];
  const MakeOperator make = [=](const float* w, const float* bias, xnn_weights_cache_t cache,
                                xnn_operator_t* out) {
    constexpr float kInfinity = std::numeric_limits<float>::infinity();
    const size_t k = static_cast<size_t>(depth), m = static_cast<size_t>(width);
    return xnn_create_fully_connected_nc_f32(k, m, k, m, w, bias, -kInfinity, kInfinity,
                                             transposed ? 0 : XNN_FLAG_TRANSPOSE_WEIGHTS, nullptr,
                                             cache, out);
  };
  HONE_ASSIGN(Prepared p, prepare_operator(to, n, make, nullptr));
  const BufferId packed = p.packed;
  auto kernel = std::make_unique<MatmulKernel>(std::move(p), a.numel() / depth, depth);
  const int64_t scratch = kernel->scratch_bytes();
  Step s = plain_step(to, id, std::move(kernel), "xnnpack.matmul");
  s.reads[1] = packed;
  s.scratch_bytes = scratch;
  to.add(std::move(s));
  return {};
}

}  // namespace hone::cpu

#endif  // HONE_HAVE_XNNPACK
