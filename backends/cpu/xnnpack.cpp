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
  provider_.look_up = [](void* self, const xnn_weights_cache_look_up_key*) {
    return static_cast<PackedWeights*>(self)->packed_ ? size_t{0} : kNotFound;
  };
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
  return bytes_ <= room_ ? place_ : nullptr;
}

namespace {

// Weights and bias, brought into XNNPACK's order and a normalisation's scale.
class Source {
 public:
  Source(OrderWeights order, std::optional<Normalisation> norm, int64_t count)
      : order_(std::move(order)), norm_(std::move(norm)), count_(count) {}

  /// What `load` writes.
  int64_t workspace_bytes() const {
    const int64_t copies = (norm_ ? 1 : 0) + (order_ ? 1 : 0);
    return copies * round_up(count_ * 4) + (norm_ ? 2 * round_up(norm_->channels * 4) : 0);
  }

  struct Loaded {
    const float *weights = nullptr, *bias = nullptr;
  };
  /// `from`: what the normalisation reads, then the weights and, without one, perhaps the bias.
  Loaded load(std::span<const void* const> from, std::byte* workspace) const {
    const size_t before = norm_ ? norm_->sources().size() : 0;
    Loaded out;
    out.weights = static_cast<const float*>(from[before]);
    if (from.size() > before + 1) out.bias = static_cast<const float*>(from[before + 1]);
    const auto take = [&](int64_t count) {
      float* const at = reinterpret_cast<float*>(workspace);
      workspace += round_up(count * 4);
      return at;
    };
    if (norm_) {
      float *const factor = take(norm_->channels), *const shift = take(norm_->channels);
      norm_->coefficients(from.first(before), factor, shift);
      float* const scaled = take(count_);
      const int64_t each = count_ / norm_->channels;
      for (int64_t c = 0; c < norm_->channels; ++c)
        for (int64_t i = c * each; i < (c + 1) * each; ++i) scaled[i] = out.weights[i] * factor[c];
      out = {scaled, shift};
    }
    if (order_) {
      float* const ordered = take(count_);
      order_(out.weights, ordered);
      out.weights = ordered;
    }
    return out;
  }

 private:
  OrderWeights order_;
  std::optional<Normalisation> norm_;
  int64_t count_;
};

}  // namespace

Result<void*> Prepared::place(std::span<void* const> from, std::byte* scratch_memory) const {
  if (!fill) return from[0];
  HONE_TRY(fill({from.data(), from.size()}, scratch_memory));
  return scratch_memory;
}

Result<Prepared> prepare_operator(Lowering& to, const Node& n, MakeOperator make,
                                  OrderWeights order, const Normalisation* norm) {
  const Graph& g = to.graph();
  const int64_t count = g.type(n.inputs[1]).numel();
  Prepared p;
  p.weights = std::make_unique<PackedWeights>();
  constexpr float kUnread = 0;
  xnn_operator_t raw = nullptr;
  xnn_status made = make(&kUnread, nullptr, p.weights->cache(), &raw);  // to learn the size
  if (p.weights->bytes() > 0) {
    p.weights->take_for_packed();
    made = make(&kUnread, nullptr, p.weights->cache(), &raw);
  }
  if (made == xnn_status_out_of_memory) {  // depthwise convolutions always pack: few bytes
    HONE_ASSIGN(TensorData memory, TensorData::allocate({DType::u8, {p.weights->bytes()}}));
    HONE_ASSIGN(const TensorData zeros, TensorData::zeros({DType::f32, {count}}));
    p.weights->set_place(memory.mutable_data(), memory.bytes());
    made = make(static_cast<const float*>(zeros.data()), nullptr, p.weights->cache(), &raw);
    p.weights->set_place(nullptr, 0);
  }
  HONE_TRY(xnnpack_status(made, n.op->name));
  p.op.reset(raw);
  std::vector<ValueId> sources;
  if (norm) sources = norm->sources();
  sources.push_back(n.inputs[1]);
  if (!norm && bias_of(n) != kNone) sources.push_back(bias_of(n));
  const int64_t bytes = p.weights->bytes();
  const Source source(std::move(order), norm ? std::optional(*norm) : std::nullopt, count);
  const auto pack = [make = std::move(make), source, bytes](std::span<const void* const> from,
                                                            void* dest,
                                                            std::byte* workspace) -> Status {
    const Source::Loaded loaded = source.load(from, workspace);
    // What makes the operator is as it was when the size was asked.
    PackedWeights weights;
    weights.set_place(dest, bytes);
    xnn_operator_t packer = nullptr;
    HONE_TRY(
        xnnpack_status(make(loaded.weights, loaded.bias, weights.cache(), &packer), "packing"));
    const XnnpackOperator op(packer);
    return {};
  };
  const int64_t workspace = source.workspace_bytes();
  if (to.packs()) {
    p.sources = {to.packed(
        sources, bytes, [pack, workspace](std::span<const void* const> from, void* dest) -> Status {
          HONE_ASSIGN(TensorData memory, TensorData::allocate({DType::u8, {workspace}}));
          return pack(from, dest, static_cast<std::byte*>(memory.mutable_data()));
        })};
    return p;
  }
  for (ValueId v : sources) p.sources.push_back(to.of(v));
  p.scratch = round_up(bytes) + workspace;
  p.fill = [pack, bytes](std::span<const void* const> from, void* dest) {
    return pack(from, dest, static_cast<std::byte*>(dest) + round_up(bytes));
  };
  return p;
}

// ---- matmul

namespace {

class MatmulKernel final : public Kernel {
 public:
  MatmulKernel(Prepared p, int64_t rows, int64_t depth)
      : p_(std::move(p)), rows_(rows), depth_(depth) {}

  // XNNPACK may read past the end of A: it gets a copy with room behind.
  int64_t scratch_bytes() const { return p_.scratch + rows_ * depth_ * 4 + kXnnpackSlack; }

  // Operands: A, what the weights come from, C.
  Status run(const StepArgs& args) override {
    const pthreadpool_t pool = as_pthreadpool(args.pool);
    HONE_ASSIGN(void* const place,
                p_.place(args.operands.subspan(1, p_.sources.size()), args.scratch));
    if (p_.weights->place() != place || threads_ != args.pool.size()) {
      p_.weights->set_place(place, p_.weights->bytes());
      HONE_TRY(xnnpack_status(
          xnn_reshape_fully_connected_nc_f32(p_.op.get(), static_cast<size_t>(rows_), pool),
          "matmul"));
      threads_ = args.pool.size();
    }
    const float* a = args.in<float>(0);
    float* copy = reinterpret_cast<float*>(args.scratch + p_.scratch);
    constexpr int64_t kGrain = 16384;
    args.pool.parallel_for(rows_ * depth_, kGrain, [&](int64_t begin, int64_t end, int) {
      std::copy(a + begin, a + end, copy + begin);
    });
    float* const c = args.out<float>(1 + p_.sources.size());
    HONE_TRY(xnnpack_status(xnn_setup_fully_connected_nc_f32(p_.op.get(), copy, c), "matmul"));
    return xnnpack_status(xnn_run_operator(p_.op.get(), pool), "matmul");
  }

 private:
  Prepared p_;
  int64_t rows_, depth_;
  int threads_ = 0;
};

// Narrower products XNNPACK takes apart in another order than wide ones and than ours (gemm.cpp).
constexpr int64_t kNarrowest = 16;

int64_t width_of(const Graph& g, const Node& n) {
  const Shape& y = g.type(n.outputs[0]).shape;
  return y[y.rank() - 1];
}

}  // namespace

bool xnnpack_accepts_matmul(const Graph& g, const Node& n) {
  return all_of_dtype(g, n, DType::f32) && !n.attrs.as<MatmulAttrs>().trans_a &&
         g.type(n.inputs[1]).shape.rank() == 2 && g.type(n.outputs[0]).shape.rank() > 0 &&
         g.type(n.inputs[0]).numel() > 0 && g.type(n.outputs[0]).numel() > 0 &&
         width_of(g, n) >= kNarrowest && fixed_weights(g, n) && xnnpack_available();
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
  const std::vector<BufferId> sources = p.sources;
  auto kernel = std::make_unique<MatmulKernel>(std::move(p), a.numel() / depth, depth);
  const int64_t scratch = kernel->scratch_bytes();
  Step s = plain_step(to, id, std::move(kernel), "xnnpack.matmul");
  s.reads.resize(1);
  s.reads.insert(s.reads.end(), sources.begin(), sources.end());
  s.scratch_bytes = scratch;
  to.add(std::move(s));
  return {};
}

}  // namespace hone::cpu

#endif  // HONE_HAVE_XNNPACK
