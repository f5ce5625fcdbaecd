// SPDX-License-Identifier: Apache-2.0
// Attention as one operator whose backward pass needs its operands only:
// y = P v with P = softmax(S), S = scale q k^T + mask. Dao et al., "FlashAttention" (2022),
// appendix B:
//   gv = P^T gy,  dP = gy v^T,  dS = P (dP - rowsum(P dP)),  gq = scale dS k,  gk = scale dS^T q.
// P is made anew from S and not from a kept logarithm of its denominators: beside a mask of -1e9
// over a whole row that logarithm is lost in f32. Written out, forward and backward share one P.
// A query that may look at no key gives 0, as softmax of nothing but -inf does.
#include <cmath>
#include <limits>

#include "core/ops/dot_product_attention_kernels.hpp"
#include "core/ops/norm.hpp"
#include "hone/attention_attrs.hpp"

namespace hone {

namespace {

using DotAttrs = DotProductAttentionAttrs;
using Extents = DotProductAttentionShape;

// ---- shapes

Status check_operands(const InferCtx& c, int mask) {
  for (int i : {0, 1, 2}) {
    HONE_TRY(need(c, i, Accepts::floats));
    HONE_TRY(need_rank(c, i, 4));
    HONE_TRY(need_same_dtype(c, 0, i));
  }
  const DotAttrs& a = c.attrs<DotAttrs>();
  const int heads = a.tokens_first ? 2 : 1, tokens = a.tokens_first ? 1 : 2;
  const Shape &q = c.shape(0), &k = c.shape(1), &v = c.shape(2);
  if (k[0] != q[0] || v[0] != q[0] || k[3] != q[3] || v[tokens] != k[tokens] ||
      v[heads] != k[heads])
    return c.error("query {}, key {} and value {} do not fit", q, k, v);
  if (k[heads] < 1 || q[heads] % k[heads] != 0)
    return c.error("{} heads of keys do not divide {} heads of queries", k[heads], q[heads]);
  if (q[3] < 1) return c.error("the query {} has heads of no elements", q);
  if (!std::isfinite(a.scale)) return c.error("the scale is {}", a.scale);
  if (!c.has(mask)) return {};
  if (c.dtype(mask) != DType::bool_) HONE_TRY(need_same_dtype(c, 0, mask));
  const Shape scores = Extents(q, k, v, a).scores();
  const auto both = broadcast(c.shape(mask), scores);
  if (!both.ok() || *both != scores)
    return c.error("the mask {} does not broadcast to the scores {}", c.in(mask), scores);
  return {};
}

// The shape of y.
Shape result_shape(const InferCtx& c) {
  Shape y = c.shape(0);
  y[3] = c.shape(2)[3];
  return y;
}

Status infer_attention(InferCtx& c) {
  HONE_TRY(check_operands(c, 3));
  c.out(c.dtype(0), result_shape(c));
  return {};
}

Status infer_grad(InferCtx& c) {
  HONE_TRY(check_operands(c, kMask));
  if (!c.has(kGrad)) return c.error("input {} is missing", int{kGrad});
  const TensorType y{c.dtype(0), result_shape(c)};
  if (c.in(kGrad) != y) return c.error("the gradient is {}, expected {}", c.in(kGrad), y);
  for (int i : {kQuery, kKey, kValue}) c.out(c.in(i));
  return {};
}

// ---- written with other operators

constexpr int64_t kSwapTokens[] = {0, 2, 1, 3};

// Operands by heads, those of one head of keys below each other: (B, K, rows, D).
struct Written {
  explicit Written(DecomposeCtx& ctx)
      : c(ctx),
        attrs(c.attrs<DotAttrs>()),
        e(c.shape(0), c.shape(1), c.shape(2), attrs),
        rows(e.heads / e.kv_heads * e.queries),
        wide_type(statistics_dtype(c.type(0).dtype)) {}

  Value operand(int i) const {
    const Value x = ops::cast(c.in(i), wide_type);
    return attrs.tokens_first ? ops::transpose(x, kSwapTokens) : x;
  }
  Value by_queries(int i) const { return grouped(operand(i)); }
  Value grouped(Value x) const {
    return ops::reshape(x, {e.batch, e.kv_heads, rows, x.shape()[3]});
  }
  Value scores() const {
    // The scale comes after the product, where it becomes one step with an added mask.
    const Value product = ops::matmul(by_queries(0), operand(1), {false, true});
    return masked(ops::reshape(product, e.scores()) * e.scale);
  }
  Value probabilities() const { return ops::softmax(scores(), -1); }
  // Back to the order and type of input `like`.
  Value result(Value x, int like, int64_t heads, int64_t tokens) const {
    const Value y = ops::reshape(x, {e.batch, heads, tokens, x.shape()[3]});
    return ops::cast(attrs.tokens_first ? ops::transpose(y, kSwapTokens) : y, c.type(like).dtype);
  }

  DecomposeCtx& c;
  const DotAttrs attrs;
  const Extents e;
  const int64_t rows;
  const DType wide_type;

 private:
  Value never() const { return c.b.scalar(-std::numeric_limits<double>::infinity(), wide_type); }
  Value positions(int64_t count, const Shape& shape) const {
    std::vector<int64_t> v;
    for (int64_t i = 0; i < count; ++i) v.push_back(i);
    return ops::reshape(c.b.ints(v), shape);
  }
  Value masked(Value s) const {
    if (c.has(3))
      s = c.in(3).dtype() == DType::bool_ ? ops::where(c.in(3), s, never())
                                          : s + ops::cast(c.in(3), wide_type);
    if (!attrs.causal) return s;
    const Value seen =
        ops::less_equal(positions(e.keys, {1, e.keys}), positions(e.queries, {e.queries, 1}));
    return ops::where(seen, s, never());
  }
};

void decompose_attention(DecomposeCtx& c) {
  const Written w(c);
  const auto& e = w.e;
  const Value y = ops::matmul(w.grouped(w.probabilities()), w.operand(kValue));
  c.set(0, w.result(y, 0, e.heads, e.queries));
}

// P and dS, (B, H, L, S).
struct ScoreGrad {
  Value p, ds;
};
ScoreGrad score_grad(const Written& w) {
  const Value p = w.probabilities();
  const Value dp = ops::reshape(ops::matmul(w.by_queries(kGrad), w.operand(kValue), {false, true}),
                                w.e.scores());
  const Value share = p * dp;
  return {p, share - p * ops::sum(share, ReduceAttrs{{3}, true})};
}

void decompose_grad(DecomposeCtx& c) {
  const Written w(c);
  const auto& e = w.e;
  const ScoreGrad g = score_grad(w);
  const Value p = w.grouped(g.p), ds = w.grouped(g.ds) * e.scale;
  c.set(0, w.result(ops::matmul(ds, w.operand(kKey)), 0, e.heads, e.queries));
  c.set(1, w.result(ops::matmul(ds, w.by_queries(kQuery), {true, false}), 1, e.kv_heads, e.keys));
  c.set(2, w.result(ops::matmul(p, w.by_queries(kGrad), {true, false}), 2, e.kv_heads, e.keys));
}

void grad_attention(GradCtx& c) {
  const Value in[] = {c.in(0), c.in(1), c.in(2), c.in(3), c.out_grad(0)};
  if (c.needs(0) || c.needs(1) || c.needs(2)) {
    const std::vector<Value> g =
        c.b.emit_all(op::scaled_dot_product_attention_grad, in, c.raw_attrs());
    if (g.empty()) return;
    for (int i : {0, 1, 2}) c.set(i, g[static_cast<size_t>(i)]);
  }
  if (!c.needs(3)) return;
  // What a learned mask needs is dS itself.
  std::vector<ValueId> ids;
  for (const Value& v : in) ids.push_back(v.valid() ? v.id() : kNone);
  const Attrs attrs = c.raw_attrs();
  DecomposeCtx d(c.b, ids, attrs, 3, std::string(op::scaled_dot_product_attention.name));
  const Written w(d);
  c.set(3, ops::sum_to(score_grad(w).ds, Shape(c.shape(3))));
}

double pairs(const NodeTypes& n, double size, double value_size) {
  const Extents e(n.in[0]->shape, n.in[1]->shape, n.in[2]->shape, n.attrs.as<DotAttrs>());
  return 2 * static_cast<double>(e.scores().numel()) *
         (size * static_cast<double>(e.size) + value_size * static_cast<double>(e.value_size));
}

}  // namespace

// scaled_dot_product_attention(q, k, v, mask?) -> softmax(scale q k^T + mask) v. K heads of keys
// serve H of queries, K divides H; the mask (float, added; or bool, true lets pass) broadcasts to
// (B, H, L, S).   (B, H, L, D), (B, K, S, D), (B, K, S, V) -> (B, H, L, V); or with the second and
// third axis swapped
const OpDef op::scaled_dot_product_attention = {
    .name = "scaled_dot_product_attention",
    .attrs = &kAttrSchema<DotProductAttentionAttrs>,
    .min_inputs = 3,
    .max_inputs = 4,
    .infer = infer_attention,
    .decompose = decompose_attention,
    .diff = Diff::rule,
    .grad = grad_attention,
    .kernel = run_dot_product_attention,
    .flops = [](const NodeTypes& n) { return pairs(n, 1, 1); },
};

// scaled_dot_product_attention_grad(q, k, v, mask?, gy) -> (gq, gk, gv)
const OpDef op::scaled_dot_product_attention_grad = {
    .name = "scaled_dot_product_attention_grad",
    .attrs = &kAttrSchema<DotProductAttentionAttrs>,
    .min_inputs = 3,
    .max_inputs = 5,
    .infer = infer_grad,
    .decompose = decompose_grad,
    .diff = Diff::by_decomposition,
    .kernel = run_dot_product_attention_grad,
    .flops = [](const NodeTypes& n) { return pairs(n, 3, 2); },
};

}  // namespace hone
