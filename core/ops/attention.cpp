// SPDX-License-Identifier: Apache-2.0
// Scaled dot-product attention, rotary position embedding, and the cache they work with: ONNX's
// Attention, RotaryEmbedding and TensorScatter.
#include "hone/attention_attrs.hpp"

#include <cmath>
#include <limits>

#include "core/ops/checks.hpp"
#include "hone/ops.hpp"

namespace hone {

namespace {

enum In { kQuery, kKey, kValue, kMask, kPastKey, kPastValue, kLengths };

struct Extents {
  int64_t batch, heads, kv_heads, queries, keys, past, size, value_size;
  int64_t total() const { return past + keys; }
};

// (B, H, L, D), or (B, L, H * D) with the number of heads given.
struct Heads {
  int64_t batch, heads, length, size;
};
Heads heads_of(const Shape& s, int64_t heads) {
  if (s.rank() == 4) return {s[0], s[1], s[2], s[3]};
  return {s[0], heads, s[1], heads > 0 ? s[2] / heads : 0};
}

Extents extents_of(const Shape& q, const Shape& k, const Shape& v, const Shape* past,
                   const AttentionAttrs& a) {
  const Heads hq = heads_of(q, a.heads), hk = heads_of(k, a.kv_heads), hv = heads_of(v, a.kv_heads);
  return {hq.batch, hq.heads, hk.heads, hq.length, hk.length, past ? (*past)[2] : 0,
          hq.size,  hv.size};
}

Status need_heads(const InferCtx& c, int input, int64_t heads) {
  const Shape& s = c.shape(input);
  if (s.rank() == 4) return {};
  if (s.rank() != 3) return c.error("input {} is {}, expected 3 or 4 axes", input, c.in(input));
  if (heads < 1) return c.error("inputs of 3 axes need the numbers of heads");
  if (s[2] % heads != 0) return c.error("{} heads do not divide input {} {}", heads, input, s);
  return {};
}

Status infer_attention(InferCtx& c) {
  const AttentionAttrs& a = c.attrs<AttentionAttrs>();
  for (int i : {kQuery, kKey, kValue}) {
    HONE_TRY(need(c, i, Accepts::floats));
    HONE_TRY(need_heads(c, i, i == kQuery ? a.heads : a.kv_heads));
    HONE_TRY(need_same_dtype(c, 0, i));
  }
  if (c.has(kPastKey) != c.has(kPastValue))
    return c.error("has a past key or a past value, expected both or none");
  const Extents e = extents_of(c.shape(kQuery), c.shape(kKey), c.shape(kValue),
                               c.has(kPastKey) ? &c.shape(kPastKey) : nullptr, a);
  const Heads k = heads_of(c.shape(kKey), a.kv_heads), v = heads_of(c.shape(kValue), a.kv_heads);
  if (k.batch != e.batch || v.batch != e.batch || k.size != e.size || v.length != k.length ||
      v.heads != k.heads)
    return c.error("query {}, key {} and value {} do not fit", c.shape(kQuery), c.shape(kKey),
                   c.shape(kValue));
  if (e.kv_heads < 1 || e.heads % e.kv_heads != 0)
    return c.error("{} heads of keys do not divide {} heads of queries", e.kv_heads, e.heads);
  const Shape past_k = {e.batch, e.kv_heads, e.past, e.size},
              past_v = {e.batch, e.kv_heads, e.past, e.value_size};
  if (c.has(kPastKey) && (c.shape(kPastKey) != past_k || c.shape(kPastValue) != past_v))
    return c.error("past key {} and value {}, expected {} and {}", c.shape(kPastKey),
                   c.shape(kPastValue), past_k, past_v);
  const Shape scores = {e.batch, e.heads, e.queries, e.total()};
  if (c.has(kMask)) {
    if (c.dtype(kMask) != DType::bool_) HONE_TRY(need_same_dtype(c, 0, kMask));
    HONE_TRY(need_rank_at_least(c, kMask, 2));
    Shape mask = c.shape(kMask);  // a shorter one hides the keys it does not reach
    if (mask[mask.rank() - 1] > 1)
      mask[mask.rank() - 1] = std::max(mask[mask.rank() - 1], e.total());
    const auto both = broadcast(mask, scores);
    if (!both.ok() || *both != scores)
      return c.error("the mask {} does not broadcast to the scores {}", c.in(kMask), scores);
  }
  if (c.has(kLengths)) {
    HONE_TRY(need(c, kLengths, Accepts::indices));
    if (c.shape(kLengths) != Shape{e.batch})
      return c.error("the numbers of keys have shape {}, expected [{}]", c.shape(kLengths),
                     e.batch);
  }
  c.out(c.dtype(0), c.shape(kQuery).rank() == 4
                        ? Shape{e.batch, e.heads, e.queries, e.value_size}
                        : Shape{e.batch, e.queries, e.heads * e.value_size});
  c.out(c.dtype(0), {e.batch, e.kv_heads, e.total(), e.size});
  c.out(c.dtype(0), {e.batch, e.kv_heads, e.total(), e.value_size});
  c.out(c.dtype(0), scores);
  return {};
}

constexpr int64_t kHeadsFirst[] = {0, 2, 1, 3};

// (B, H, L, D) whatever came.
Value by_heads(Value x, int64_t heads) {
  if (x.shape().rank() == 4) return x;
  const Heads h = heads_of(x.shape(), heads);
  return ops::transpose(ops::reshape(x, {h.batch, h.length, h.heads, h.size}), kHeadsFirst);
}

Value minus_infinity(Builder& b, DType t) {
  return b.scalar(-std::numeric_limits<double>::infinity(), t);
}

// 0 where the condition holds, -infinity elsewhere.
Value bias_of(Value allowed, DType t) {
  Builder& b = allowed.builder();
  return ops::where(allowed, b.scalar(0, t), minus_infinity(b, t));
}

// A mask that ends before the last key hides the rest.
Value reach_all_keys(Value bias, int64_t total) {
  const Shape s = bias.shape();
  const int last = s.rank() - 1;
  if (s[last] >= total || s[last] == 1) return bias;
  Shape rest = s;
  rest[last] = total - s[last];
  const Value parts[] = {bias, ops::fill(bias.builder(), {bias.dtype(), rest},
                                         -std::numeric_limits<double>::infinity())};
  return ops::concat(parts, -1);
}

Value iota(Builder& b, int64_t first, int64_t count) {
  std::vector<int64_t> v;
  for (int64_t i = 0; i < count; ++i) v.push_back(first + i);
  return b.ints(v);
}

// The sum of all that is added to the scores; invalid when nothing is.
Value bias_of_scores(DecomposeCtx& c, const Extents& e) {
  const AttentionAttrs& a = c.attrs<AttentionAttrs>();
  const DType t = c.type(kQuery).dtype;
  Value bias;
  const auto add = [&](Value more) { bias = bias.valid() ? bias + more : more; };
  if (c.has(kMask)) {
    const Value mask = c.in(kMask);
    add(reach_all_keys(mask.dtype() == DType::bool_ ? bias_of(mask, t) : mask, e.total()));
  }
  if (a.causal) {
    const Value query = ops::reshape(iota(c.b, e.past, e.queries), {e.queries, 1});
    const Value key = ops::reshape(iota(c.b, 0, e.total()), {1, e.total()});
    add(bias_of(ops::less_equal(key, query), t));
  }
  if (c.has(kLengths)) {
    const Value count = ops::reshape(ops::cast(c.in(kLengths), DType::i64), {e.batch, 1, 1, 1});
    add(bias_of(ops::less(iota(c.b, 0, e.total()), count), t));
  }
  return bias;
}

void decompose_attention(DecomposeCtx& c) {
  const AttentionAttrs& a = c.attrs<AttentionAttrs>();
  const Shape past = c.has(kPastKey) ? c.shape(kPastKey) : Shape();
  const Extents e = extents_of(c.shape(kQuery), c.shape(kKey), c.shape(kValue),
                               c.has(kPastKey) ? &past : nullptr, a);
  const DType t = c.type(kQuery).dtype;
  const bool by_rows = c.shape(kQuery).rank() == 3;
  Value q = by_heads(c.in(kQuery), a.heads), k = by_heads(c.in(kKey), a.kv_heads),
        v = by_heads(c.in(kValue), a.kv_heads);
  if (c.has(kPastKey)) {
    const Value keys[] = {c.in(kPastKey), k}, values[] = {c.in(kPastValue), v};
    k = ops::concat(keys, 2);
    v = ops::concat(values, 2);
  }
  // Heads that share keys stand below each other: one product for each head of keys.
  const int64_t rows = e.heads / e.kv_heads * e.queries;
  const double scale = a.scale != 0 ? a.scale : 1 / std::sqrt(static_cast<double>(e.size));
  q = ops::reshape(q, {e.batch, e.kv_heads, rows, e.size}) * scale;
  const Shape scores = {e.batch, e.heads, e.queries, e.total()};
  Value s = ops::reshape(ops::matmul(q, k, {false, true}), scores);
  Value shown = s;
  const auto show = [&](ScoreOutput stage) {
    if (a.scores == stage) shown = s;
  };
  if (const Value bias = bias_of_scores(c, e); bias.valid()) s = s + bias;
  show(ScoreOutput::biased);
  if (a.softcap != 0) s = ops::tanh(s / a.softcap) * a.softcap;
  show(ScoreOutput::softcapped);
  s = a.has_softmax_dtype ? ops::cast(ops::softmax(ops::cast(s, a.softmax_dtype), -1), t)
                          : ops::softmax(s, -1);
  show(ScoreOutput::softmax);
  Value y = ops::matmul(ops::reshape(s, {e.batch, e.kv_heads, rows, e.total()}), v);
  y = ops::reshape(y, {e.batch, e.heads, e.queries, e.value_size});
  if (by_rows)
    y = ops::reshape(ops::transpose(y, kHeadsFirst), {e.batch, e.queries, e.heads * e.value_size});
  c.set(0, y);
  c.set(1, k);
  c.set(2, v);
  c.set(3, shown);
}

double attention_flops(const NodeTypes& n) {
  const Shape &scores = n.out[3]->shape, &k = n.out[1]->shape, &v = n.out[2]->shape;
  return 2.0 * static_cast<double>(scores.numel()) * static_cast<double>(k[3] + v[3]);
}

// ---- rotary_embedding(x, cos, sin, positions?)

Status infer_rotary(InferCtx& c) {
  const RotaryAttrs& a = c.attrs<RotaryAttrs>();
  HONE_TRY(need(c, 0, Accepts::floats));
  HONE_TRY(need_heads(c, 0, a.heads));
  const Heads h = heads_of(c.shape(0), a.heads);
  const int64_t dim = a.dim ? a.dim : h.size;
  if (dim < 0 || dim > h.size || dim % 2 != 0)
    return c.error("rotates {} of {} elements, expected an even number", dim, h.size);
  for (int i : {1, 2}) {
    HONE_TRY(need_same_dtype(c, 0, i));
    HONE_TRY(need_rank(c, i, c.has(3) ? 2 : 3));
    const Shape& s = c.shape(i);
    if (s[s.rank() - 1] < dim / 2)
      return c.error("input {} {} has fewer than {} columns", i, c.in(i), dim / 2);
    if (!c.has(3) && (s[0] != h.batch || s[1] != h.length))
      return c.error("input {} {} does not fit {} rows of {}", i, c.in(i), h.batch, h.length);
  }
  if (c.has(3)) {
    HONE_TRY(need(c, 3, Accepts::indices));
    if (c.shape(3) != Shape{h.batch, h.length})
      return c.error("positions are {}, expected [{}, {}]", c.shape(3), h.batch, h.length);
  }
  c.out(c.in(0));
  return {};
}

// Columns of the cache for each position, (B, L, 1, dim / 2).
Value angles(DecomposeCtx& c, int input, const Heads& h, int64_t half) {
  const Value cache = ops::slice(c.in(input), -1, 0, half);
  const Value rows = c.has(3) ? ops::gather(cache, c.in(3), 0) : cache;
  return ops::reshape(rows, {h.batch, h.length, 1, half});
}

void decompose_rotary(DecomposeCtx& c) {
  const RotaryAttrs& a = c.attrs<RotaryAttrs>();
  const Shape shape = c.shape(0);
  const Heads h = heads_of(shape, a.heads);
  const int64_t dim = a.dim ? a.dim : h.size, half = dim / 2;
  const bool heads_first = shape.rank() == 4;
  const Value x = heads_first ? ops::transpose(c.in(0), kHeadsFirst)
                              : ops::reshape(c.in(0), {h.batch, h.length, h.heads, h.size});
  const Value cos = angles(c, 1, h, half), sin = angles(c, 2, h, half);
  const Value turned = ops::slice(x, 3, 0, dim);
  Value first, second;
  const Shape pairs = {h.batch, h.length, h.heads, half, 2},
              part = {h.batch, h.length, h.heads, half};
  if (a.interleaved) {
    const Value p = ops::reshape(turned, pairs);
    first = ops::reshape(ops::slice(p, 4, 0, 1), part);
    second = ops::reshape(ops::slice(p, 4, 1, 2), part);
  } else {
    first = ops::slice(turned, 3, 0, half);
    second = ops::slice(turned, 3, half, dim);
  }
  Value real = first * cos - second * sin, imaginary = first * sin + second * cos;
  if (a.interleaved) {
    Shape column = part;
    column.push_back(1);
    real = ops::reshape(real, column);
    imaginary = ops::reshape(imaginary, column);
  }
  const Value halves[] = {real, imaginary};
  Value y = ops::reshape(ops::concat(halves, -1), {h.batch, h.length, h.heads, dim});
  if (dim < h.size) {
    const Value whole[] = {y, ops::slice(x, 3, dim, h.size)};
    y = ops::concat(whole, 3);
  }
  c.set(0, heads_first ? ops::transpose(y, kHeadsFirst) : ops::reshape(y, shape));
}

// ---- tensor_scatter(cache, update, positions?)

Status infer_scatter(InferCtx& c) {
  HONE_TRY(need_same_dtype(c, 0, 1));
  HONE_TRY(need_rank_at_least(c, 0, 2));
  HONE_ASSIGN(const int axis, need_axis(c, 0, c.attrs<TensorScatterAttrs>().axis));
  if (axis == 0) return c.error("writes along axis 0, which is the batch");
  Shape update = c.shape(0);
  if (c.shape(1).rank() == update.rank()) update[axis] = c.shape(1)[axis];
  if (c.shape(1) != update || update[axis] > c.shape(0)[axis])
    return c.error("the update {} does not fit into {} along axis {}", c.in(1), c.in(0), axis);
  if (c.has(2)) {
    HONE_TRY(need(c, 2, Accepts::indices));
    if (c.shape(2) != Shape{c.shape(0)[0]})
      return c.error("positions are {}, expected [{}]", c.shape(2), c.shape(0)[0]);
  }
  c.out(c.in(0));
  return {};
}

void decompose_scatter(DecomposeCtx& c) {
  const TensorScatterAttrs& a = c.attrs<TensorScatterAttrs>();
  const Shape update = c.shape(1);
  const int rank = update.rank();
  const int axis = static_cast<int>(a.axis < 0 ? a.axis + rank : a.axis);
  const int64_t extent = c.shape(0)[axis];
  Shape along = Shape::filled(rank, 1), over_batch = along;
  along[axis] = update[axis];
  over_batch[0] = update[0];
  Value at = ops::reshape(iota(c.b, 0, update[axis]), along);
  if (c.has(2)) at = at + ops::reshape(ops::cast(c.in(2), DType::i64), over_batch);
  if (a.circular) at = ops::mod(at, c.b.scalar(static_cast<double>(extent), DType::i64));
  c.set(0, c.b.emit(op::scatter_elements, {c.in(0), ops::expand(at, update), c.in(1)},
                    ScatterAttrs{axis, ScatterMode::assign}));
}

}  // namespace

// attention(q, k, v, mask?, past_k?, past_v?, key_counts?): ONNX Attention. q (B, H, L, D), k (B,
// K, S, D), v (B, K, S, V) where K divides H, or (B, L, H D) and so on; the mask (float, added; or
// bool, true lets pass) broadcasts to the scores.   -> y (B, H, L, V) or (B, L, H V), the keys and
// values with the past before them, the scores (B, H, L, P + S)
const OpDef op::attention = {
    .name = "attention",
    .attrs = &kAttrSchema<AttentionAttrs>,
    .min_inputs = 3,
    .max_inputs = 7,
    .infer = infer_attention,
    .decompose = decompose_attention,
    .diff = Diff::by_decomposition,
    .flops = attention_flops,
};

// rotary_embedding(x, cos, sin, positions?): ONNX RotaryEmbedding. x (B, H, L, D) or (B, L, H D);
// cos and sin (B, L, dim / 2), or (positions, dim / 2) looked up by positions (B, L).
const OpDef op::rotary_embedding = {
    .name = "rotary_embedding",
    .attrs = &kAttrSchema<RotaryAttrs>,
    .min_inputs = 3,
    .max_inputs = 4,
    .infer = infer_rotary,
    .decompose = decompose_rotary,
    .diff = Diff::by_decomposition,
};

// tensor_scatter(cache, update, positions?): the cache with the update written along the axis, from
// positions[b] on in row b (0 without).   (B, .., S, ..), (B, .., n, ..), (B) -> (B, .., S, ..)
const OpDef op::tensor_scatter = {
    .name = "tensor_scatter",
    .attrs = &kAttrSchema<TensorScatterAttrs>,
    .min_inputs = 2,
    .max_inputs = 3,
    .infer = infer_scatter,
    .decompose = decompose_scatter,
    .diff = Diff::by_decomposition,
    .flops = no_flops,
};

}  // namespace hone
