// SPDX-License-Identifier: Apache-2.0
// Attention over blocks of queries and keys that stay in the cache: Dao, "FlashAttention-2: Faster
// Attention with Better Parallelism and Work Partitioning" (2023), section 3.1. The scores of a
// block of queries and kKeys keys are made, turned into exponentials and multiplied with the
// values; when a later block of keys has a larger score, what was summed so far is scaled down.
#if HONE_HAVE_HIGHWAY

#include "backends/cpu/vector_attention.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "backends/cpu/gemm.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/vector_attention.cpp"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"
// After highway.h: it is compiled for each target anew.
#include "backends/cpu/gemm_tile-inl.hpp"
#include "backends/cpu/vector_math-inl.hpp"

#ifndef HONE_ATTENTION_TYPES
#define HONE_ATTENTION_TYPES
namespace hone::cpu {

constexpr int64_t kQueriesAtOnce = 48, kKeysAtOnce = 512;

// Queries [0, queries) of one head, and the keys it looks at.
struct AttentionHead {
  const float *q, *k, *v;             // rows of `size`, `size` and `value_size` floats,
  int64_t q_row, kv_row_k, kv_row_v;  // so far apart
  float* y;
  int64_t y_row;
  int64_t first, queries;  // the first query's number, for causal attention
  int64_t keys, size, value_size;
  float scale;
  bool causal;
  const void* mask;  // of the first query, or null
  bool mask_is_bool;
  int64_t mask_query, mask_key;  // strides
};

}  // namespace hone::cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace hone::cpu::HWY_NAMESPACE {

constexpr float kNever = -std::numeric_limits<float>::infinity();

int64_t Panel() { return kTileVectors * static_cast<int64_t>(hn::Lanes(D())); }

// k (keys, size) as panels of columns of its transpose; past the last key there are zeros.
void PackKeys(const float* k, int64_t row, int64_t keys, int64_t size, float* to) {
  const int64_t panel = Panel();
  for (int64_t first = 0; first < keys; first += panel, to += size * panel) {
    const int64_t width = std::min(panel, keys - first);
    for (int64_t d = 0; d < size; ++d) {
      const float* from = k + first * row + d;
      for (int64_t j = 0; j < width; ++j) to[d * panel + j] = from[j * row];
      std::fill(to + d * panel + width, to + (d + 1) * panel, 0.0f);
    }
  }
}

// What is added to the scores of keys [k0, k0 + n) of query i; null when nothing is. `room` takes
// what does not stand in memory like this.
const float* BiasRow(const AttentionHead& h, int64_t i, int64_t k0, int64_t n, float* room) {
  if (!h.mask) return nullptr;
  const int64_t at = i * h.mask_query + k0 * h.mask_key;
  if (h.mask_is_bool) {
    const bool* allowed = static_cast<const bool*>(h.mask) + at;
    for (int64_t j = 0; j < n; ++j) room[j] = allowed[j * h.mask_key] ? 0.0f : kNever;
    return room;
  }
  const float* bias = static_cast<const float*>(h.mask) + at;
  if (h.mask_key == 1) return bias;
  std::fill_n(room, n, bias[0]);
  return room;
}

// Scores become exponentials, of what is above the largest so far. Returns their sum.
HWY_INLINE float Exponentials(float* s, int64_t n, const float* bias, float scale, float& largest) {
  const D d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const V factor = Number(scale), never = Number(kNever);
  V top = Number(largest);
  for (int64_t j = 0; j < n; j += lanes) {
    const size_t count = static_cast<size_t>(std::min(lanes, n - j));
    V v = hn::Mul(hn::LoadU(d, s + j), factor);  // the row is padded to whole vectors
    if (bias)
      v = hn::Add(v,
                  count == hn::Lanes(d) ? hn::LoadU(d, bias + j) : hn::LoadN(d, bias + j, count));
    if (count != hn::Lanes(d)) v = hn::IfThenElse(hn::FirstN(d, count), v, never);
    top = hn::Max(v, top);
    hn::StoreU(v, d, s + j);
  }
  largest = hn::ReduceMax(d, top);
  const V shift = Number(largest == kNever ? 0.0f : largest);
  V sum = hn::Zero(d);
  for (int64_t j = 0; j < n; j += lanes) {
    const V e = ExpOf(hn::Sub(hn::LoadU(d, s + j), shift));
    sum = hn::Add(sum, e);
    hn::StoreU(e, d, s + j);
  }
  return hn::ReduceSum(d, sum);
}

HWY_INLINE void Scale(float* y, int64_t n, float by) {
  const D d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) hn::StoreU(hn::Mul(hn::LoadU(d, y + i), Number(by)), d, y + i);
  for (; i < n; ++i) y[i] *= by;
}

// y (rows, value_size) = or += p (rows, n) v (n, value_size), v in panels.
void TimesValues(const AttentionHead& h, const float* p, int64_t rows, int64_t n, const float* v,
                 int64_t ldv, int64_t panel_step, float* y, bool add) {
  const int64_t panel = Panel();
  for (int64_t c = 0; c < h.value_size; c += panel, v += panel_step)
    Strips<kTileVectors>(rows, n, {p, kKeysAtOnce}, v, ldv, y + c, h.y_row,
                         std::min(panel, h.value_size - c), add);
}

// `keys`: packed. `values`: panels `panel_step` apart whose rows are ldv apart. `s` has room for
// kQueriesAtOnce + 1 rows of kKeysAtOnce.
void Attend(const AttentionHead& h, const float* keys, const float* values, int64_t ldv,
            int64_t panel_step, float* s) {
  const int64_t panel = Panel();
  float largest[kQueriesAtOnce], sums[kQueriesAtOnce];
  float* const room = s + kQueriesAtOnce * kKeysAtOnce;
  for (int64_t i0 = 0; i0 < h.queries; i0 += kQueriesAtOnce) {
    const int64_t rows = std::min(kQueriesAtOnce, h.queries - i0);
    float* const y = h.y + i0 * h.y_row;
    std::fill_n(largest, rows, kNever);
    std::fill_n(sums, rows, 0.0f);
    // No query of this block sees a key from `seen` on.
    const int64_t seen = h.causal ? std::min(h.keys, h.first + i0 + rows) : h.keys;
    for (int64_t k0 = 0; k0 < seen; k0 += kKeysAtOnce) {
      const int64_t n = std::min(kKeysAtOnce, seen - k0);
      for (int64_t j = 0; j < n; j += panel)
        Strips<kTileVectors>(rows, h.size, {h.q + i0 * h.q_row, h.q_row}, keys + (k0 + j) * h.size,
                             panel, s + j, kKeysAtOnce, panel, false);
      for (int64_t r = 0; r < rows; ++r) {
        float* const row = s + r * kKeysAtOnce;
        const int64_t visible = h.causal ? std::clamp<int64_t>(h.first + i0 + r + 1 - k0, 0, n) : n;
        const float before = largest[r];
        const float* bias = BiasRow(h, i0 + r, k0, visible, room);
        const float sum = Exponentials(row, visible, bias, h.scale, largest[r]);
        std::fill(row + visible, row + n, 0.0f);
        if (k0 > 0 && largest[r] != before) {
          const float down = std::exp(before - largest[r]);
          sums[r] *= down;
          Scale(y + r * h.y_row, h.value_size, down);
        }
        sums[r] += sum;
      }
      TimesValues(h, s, rows, n, values + k0 * ldv, ldv, panel_step, y, k0 > 0);
    }
    for (int64_t r = 0; r < rows; ++r) {
      if (seen == 0) std::fill_n(y + r * h.y_row, h.value_size, 0.0f);
      if (sums[r] != 0) Scale(y + r * h.y_row, h.value_size, 1 / sums[r]);
    }
  }
}

}  // namespace hone::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

#include "hone/attention_attrs.hpp"

namespace hone::cpu {

namespace {

HWY_EXPORT(Panel);
HWY_EXPORT(PackKeys);
HWY_EXPORT(Attend);

class AttentionKernel final : public Kernel {
 public:
  AttentionKernel(const Shape& q, const Shape& k, const Shape& v, const TensorType* mask,
                  const DotProductAttentionAttrs& a, int threads)
      : e_(q, k, v, a),
        causal_(a.causal),
        q_(q, a.tokens_first),
        k_(k, a.tokens_first),
        v_(v, a.tokens_first),
        y_(result(q, v), a.tokens_first) {
    if (mask) {
      mask_is_bool_ = mask->dtype == DType::bool_;
      mask_ = broadcast_strides(mask->shape, e_.scores());
    }
    // A head of keys at a time, packed once; parts of its queries where there are few heads. Each
    // query is computed alone, so the bits do not depend on it.
    const int64_t heads = e_.batch * e_.kv_heads;
    const int64_t most = std::max<int64_t>(1, e_.queries / kQueriesAtOnce);
    parts_ = std::clamp<int64_t>((2 * threads + heads - 1) / std::max<int64_t>(heads, 1), 1, most);
  }
  static Shape result(Shape q, const Shape& v) {
    q[3] = v[3];
    return q;
  }

  int64_t scratch_bytes(int threads) const { return floats() * threads * int64_t{sizeof(float)}; }

  Status run(const StepArgs& args) override {
    const int64_t units = e_.batch * e_.kv_heads * parts_;
    args.pool.parallel_for(units, 1, [&](int64_t begin, int64_t end, int worker) {
      float* const mine = reinterpret_cast<float*>(args.scratch) + worker * floats();
      int64_t packed = -1;
      for (int64_t u = begin; u < end; ++u) {
        unit(args, u / parts_, u % parts_, u / parts_ != packed, mine);
        packed = u / parts_;
      }
    });
    return {};
  }

 private:
  int64_t keys_floats() const { return round_up(e_.keys, kMaxPanel) * e_.size; }
  int64_t values_floats() const { return e_.keys * round_up(e_.value_size, kMaxPanel); }
  int64_t floats() const {
    return round_up(keys_floats() + values_floats() + (kQueriesAtOnce + 1) * kKeysAtOnce, 16);
  }

  void unit(const StepArgs& args, int64_t head, int64_t part, bool pack, float* scratch) const {
    const int64_t b = head / e_.kv_heads, n = head % e_.kv_heads;
    float *const s = scratch, *const keys = s + (kQueriesAtOnce + 1) * kKeysAtOnce;
    float* const values = keys + keys_floats();
    const float* const v = args.in<float>(2) + v_.at(b, n, 0);
    const int64_t panel = HWY_DYNAMIC_DISPATCH(Panel)();
    const bool direct = e_.value_size % panel == 0;  // whole panels can be read where they are
    if (pack) {
      HWY_DYNAMIC_DISPATCH(PackKeys)
      (args.in<float>(1) + k_.at(b, n, 0), k_.token, e_.keys, e_.size, keys);
      if (!direct) pack_values(v, panel, values);
    }
    const int64_t first = e_.queries * part / parts_, last = e_.queries * (part + 1) / parts_;
    const int64_t group = e_.heads / e_.kv_heads;
    for (int64_t h = n * group; h < (n + 1) * group; ++h) {
      AttentionHead a{};
      a.q = args.in<float>(0) + q_.at(b, h, first);
      a.q_row = q_.token;
      a.y = args.out<float>(4) + y_.at(b, h, first);
      a.y_row = y_.token;
      a.first = first;
      a.queries = last - first;
      a.keys = e_.keys;
      a.size = e_.size;
      a.value_size = e_.value_size;
      a.scale = static_cast<float>(e_.scale);
      a.causal = causal_;
      a.mask_is_bool = mask_is_bool_;
      a.mask_query = mask_[2];
      a.mask_key = mask_[3];
      const int64_t at = b * mask_[0] + h * mask_[1] + first * mask_[2];
      if (args.operands[3])
        a.mask = args.in<char>(3) + at * (mask_is_bool_ ? 1 : int64_t{sizeof(float)});
      HWY_DYNAMIC_DISPATCH(Attend)
      (a, keys, direct ? v : values, direct ? v_.token : panel, direct ? panel : e_.keys * panel,
       s);
    }
  }

  void pack_values(const float* v, int64_t panel, float* to) const {
    for (int64_t c = 0; c < e_.value_size; c += panel) {
      const int64_t width = std::min(panel, e_.value_size - c);
      for (int64_t j = 0; j < e_.keys; ++j, to += panel) {
        std::copy_n(v + j * v_.token + c, width, to);
        std::fill(to + width, to + panel, 0.0f);
      }
    }
  }

  DotProductAttentionShape e_;
  bool causal_, mask_is_bool_ = false;
  HeadStrides q_, k_, v_, y_;
  Shape mask_ = {0, 0, 0, 0};  // strides
  int64_t parts_ = 1;
};

}  // namespace

bool attention_pays(std::span<const TensorType* const> in, const Attrs& attrs) {
  const TensorType &q = *in[0], &k = *in[1], &v = *in[2];
  if (q.dtype != DType::f32) return false;
  const DotProductAttentionShape e(q.shape, k.shape, v.shape, attrs.as<DotProductAttentionAttrs>());
  // Measured at 128 tokens: faster with 4 matrices of scores, no faster with 32. README.md has it.
  constexpr int64_t kMostScores = int64_t{1} << 18;
  return e.queries >= 16 && e.keys >= 16 && e.scores().numel() <= kMostScores;
}

bool accepts_attention(const Graph& g, const Node& n) {
  for (size_t i = 0; i < 3; ++i)
    if (g.type(n.inputs[i]).dtype != DType::f32) return false;
  return g.type(n.outputs[0]).numel() > 0;
}

Status lower_attention(Lowering& to, NodeId id) {
  const Graph& g = to.graph();
  const Node& n = g.node(id);
  const bool masked = n.inputs.size() > 3 && n.inputs[3] != kNone;
  auto kernel = std::make_unique<AttentionKernel>(
      g.type(n.inputs[0]).shape, g.type(n.inputs[1]).shape, g.type(n.inputs[2]).shape,
      masked ? &g.type(n.inputs[3]) : nullptr, n.attrs.as<DotProductAttentionAttrs>(),
      to.threads());
  const int64_t scratch = kernel->scratch_bytes(to.threads());
  Step s = plain_step(to, id, std::move(kernel), "vector.attention");
  if (s.reads.size() < 4) s.reads.push_back(kNone);
  s.scratch_bytes = scratch;
  to.add(std::move(s));
  return {};
}

}  // namespace hone::cpu

#endif  // HWY_ONCE
#endif  // HONE_HAVE_HIGHWAY
