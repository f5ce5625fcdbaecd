// SPDX-License-Identifier: Apache-2.0
// Attention written out: softmax(scale q k^T + mask) v, the scale on q, on k, on both or on their
// product. A constant mask that is the triangle becomes causal attention, keys and values repeated
// for heads that share them are read as they are. Only where nothing else reads the weights: a
// dropout or an output that shows them keeps the products. And ONNX's Attention, where it is no
// more than that.
#include <algorithm>
#include <cmath>
#include <limits>

#include "core/passes/simplify_products.hpp"
#include "hone/attention_attrs.hpp"

namespace hone {

namespace {

constexpr double kNever = -std::numeric_limits<double>::infinity();
// What is added to a score, or put in its place, at or below this leaves no weight beside a key
// that is seen: it is the lowest number of half precision.
constexpr double kHidden = -65504;

struct Found {
  Value q, k;
  bool k_is_swapped = false;  // (.., D, S): a transpose that a scale has kept out of the product
  bool causal = false;
  // Causal by finite numbers: where another mask hides what remains, hidden keys count again.
  bool only_mask = false;
  bool masks_hide = false;   // the one of bools says what is not looked at
  std::vector<Value> masks;  // that are added, or one of bools
  double scale = 1;
};

// Takes factors that are numbers off v.
double take_scale(Rewriter& r, Value& v) {
  double scale = 1;
  for (;;) {
    const Node* n = r.producer(v);
    if (!n || (n->op != &op::mul && n->op != &op::div)) return scale;
    const Value a = r.input(*n, 0), b = r.input(*n, 1);
    const auto first = n->op == &op::mul ? r.number(a) : std::nullopt, second = r.number(b);
    const Value number = second ? b : a, rest = second ? a : b;
    if (!first && !second) return scale;
    if (!fits(r, r.constant(number)->shape().rank(), rest)) return scale;
    scale *= n->op == &op::div ? 1 / *second : second ? *second : *first;
    v = rest;
  }
}

// Whether v is a transpose that `without_swap` can do away with.
bool swaps_last(Rewriter& r, Value v) {
  const Node* t = r.producer(v, op::transpose);
  const std::vector<int64_t> perm = t ? t->attrs.as<PermAttrs>().perm : std::vector<int64_t>();
  return perm.size() >= 3 && perm[perm.size() - 2] == static_cast<int64_t>(perm.size()) - 1;
}

// scale q k^T.
bool find_product(Rewriter& r, Value v, Found& f) {
  f.scale = take_scale(r, v);
  const Node* n = r.producer(v, op::matmul);
  if (!n || n->attrs.as<MatmulAttrs>().trans_a || r.uses(v) > 1) return false;
  f.k_is_swapped = !n->attrs.as<MatmulAttrs>().trans_b;
  f.q = r.input(*n, 0);
  f.k = r.input(*n, 1);
  f.scale *= take_scale(r, f.q);
  f.scale *= take_scale(r, f.k);
  return (!f.k_is_swapped || swaps_last(r, f.k)) && std::isfinite(f.scale) && f.scale != 0;
}

// Known to be one extent.
bool same_extent(int64_t a, int64_t b) { return a == b && a != kAnyExtent; }

// The mask's extents are those of the scores, or 1.
bool mask_fits(const Facts& mask, const Extents& scores) {
  if (!mask.has_rank() || mask.rank() > static_cast<int>(scores.size())) return false;
  const size_t lead = scores.size() - mask.extents->size();
  for (size_t i = 0; i < mask.extents->size(); ++i) {
    const int64_t e = (*mask.extents)[i];
    if (e != 1 && !same_extent(e, scores[lead + i])) return false;
  }
  return true;
}

// Extents of the scores; none when the operands are not known to have one rank.
Extents extents_of_scores(Rewriter& r, const Found& f) {
  const Facts q = r.facts(f.q), k = r.facts(f.k);
  if (!q.has_rank() || k.rank() != q.rank() || q.rank() < 2) return {};
  Extents scores = *q.extents;
  const size_t last = scores.size() - 1;
  scores[last] = (*k.extents)[f.k_is_swapped ? last : last - 1];
  return scores;
}

// Whether `after` holds of the elements of a constant that stand for keys after the query, and
// `seen` of the others. The constant has the extents of the scores in its last two axes.
template <class Seen, class After>
bool is_triangle(Rewriter& r, const Extents& scores, Value v, Seen seen, After after) {
  const TensorData* t = r.constant(v);
  if (!t || t->shape().rank() < 2 || !mask_fits(r.facts(v), scores)) return false;
  const int rank = t->shape().rank();
  const int64_t queries = t->shape()[rank - 2], keys = t->shape()[rank - 1];
  if (queries != scores[scores.size() - 2] || keys != scores.back()) return false;
  for (int64_t i = 0; i < t->numel(); ++i) {
    const bool is_after = i % keys > i / keys % queries;
    if (is_after ? !after(*t, i) : !seen(*t, i)) return false;
  }
  return t->numel() > 0;
}

// 0 for keys that are seen, at most `hidden` for those after the query.
bool adds_triangle(Rewriter& r, const Extents& scores, Value v, double hidden) {
  const TensorData* t = r.constant(v);
  return t && is_float(t->dtype()) &&
         is_triangle(
             r, scores, v, [](const TensorData& m, int64_t i) { return m.at(i) == 0; },
             [&](const TensorData& m, int64_t i) { return m.at(i) <= hidden; });
}

// Bools that are `seen` up to the query and the contrary after it.
bool chooses_triangle(Rewriter& r, const Extents& scores, Value v, bool seen) {
  const TensorData* t = r.constant(v);
  return t && t->dtype() == DType::bool_ &&
         is_triangle(
             r, scores, v,
             [&](const TensorData& m, int64_t i) { return (m.int_at(i) != 0) == seen; },
             [&](const TensorData& m, int64_t i) { return (m.int_at(i) != 0) != seen; });
}

std::optional<Found> find_scores(Rewriter& r, Value v, int depth = 0);

// where(seen, scores, -inf), or where(hidden, -inf, scores).
std::optional<Found> find_chosen(Rewriter& r, const Value (&in)[3], int depth) {
  for (const size_t side : {size_t{1}, size_t{2}}) {
    const Value scores = in[side], other = in[3 - side];
    const auto otherwise = r.number(other);
    if (!otherwise || *otherwise > kHidden) continue;
    if (!fits(r, r.constant(other)->shape().rank(), scores)) return std::nullopt;
    auto f = find_scores(r, scores, depth + 1);
    if (!f || f->only_mask) return std::nullopt;
    const bool finite = *otherwise != kNever;
    if (chooses_triangle(r, extents_of_scores(r, *f), in[0], side == 1) &&
        (!finite || f->masks.empty())) {
      f->causal = true;
      f->only_mask = finite;
      return f;
    }
    if (finite || !f->masks.empty()) return std::nullopt;
    f->masks = {in[0]};
    f->masks_hide = side == 2;
    return f;
  }
  return std::nullopt;
}

std::optional<Found> find_scores(Rewriter& r, Value v, int depth) {
  Found product;
  if (find_product(r, v, product)) return product;
  const Node* n = depth < 3 && r.uses(v) <= 1 ? r.producer(v) : nullptr;
  if (!n) return std::nullopt;
  if (n->op == &op::where)
    return find_chosen(r, {r.input(*n, 0), r.input(*n, 1), r.input(*n, 2)}, depth);
  if (n->op != &op::add) return std::nullopt;
  const Value parts[] = {r.input(*n, 0), r.input(*n, 1)};
  for (const size_t i : {size_t{0}, size_t{1}}) {
    auto f = find_scores(r, parts[i], depth + 1);
    if (!f) continue;
    if (f->only_mask) return std::nullopt;
    if (adds_triangle(r, extents_of_scores(r, *f), parts[1 - i], kNever)) {
      f->causal = true;
      return f;
    }
    if (!f->masks.empty() && r.facts(f->masks[0]).dtype == DType::bool_) return std::nullopt;
    f->masks.push_back(parts[1 - i]);
    return f;
  }
  return std::nullopt;
}

bool is_last_axis(int64_t axis, int rank) { return axis == -1 || axis == rank - 1; }

// What v is the transpose of (B, L, H, D) of; none if it is no such transpose.
Value tokens_first(Rewriter& r, Value v) {
  const Node* n = r.producer(v, op::transpose);
  const std::vector<int64_t> wanted = {0, 2, 1, 3};
  return n && n->attrs.as<PermAttrs>().perm == wanted ? r.input(*n, 0) : Value();
}

// What v repeats along an axis of extent 1, all other extents being known to stay; none if it is no
// such repeat.
Value repeated(Rewriter& r, Value v, size_t axis) {
  const Node* n = r.producer(v);
  if (!n || (n->op != &op::expand && n->op != &op::tile)) return {};
  const Value x = r.input(*n, 0);
  const Facts from = r.facts(x), to = r.facts(v);
  if (!from.has_rank() || from.rank() != to.rank() || axis >= from.extents->size()) return {};
  if ((*from.extents)[axis] != 1) return {};
  for (size_t i = 0; i < from.extents->size(); ++i)
    if (i != axis && !same_extent((*from.extents)[i], (*to.extents)[i])) return {};
  return x;
}

// Keys or values of which v, (B, H, S, D) or (B, S, H, D) with heads on that axis, repeats each
// head for all queries' heads that share it: those next to each other. None if it does not.
Value without_repeat(Rewriter& r, Value v, size_t axis) {
  if (const Value x = repeated(r, v, axis); x.valid()) return x;
  const Node* n = r.producer(v, op::reshape);
  if (!n) return {};
  const Value apart = r.input(*n, 0);
  const Facts whole = r.facts(v), parts = r.facts(apart);
  const Value x = repeated(r, apart, axis + 1);
  if (!x.valid() || parts.rank() != 5 || whole.rank() != 4) return {};
  for (size_t i = 0; i < 4; ++i)
    if (i != axis && !same_extent((*whole.extents)[i], (*parts.extents)[i < axis ? i : i + 1]))
      return {};
  const int64_t shared = (*parts.extents)[axis], times = (*parts.extents)[axis + 1];
  if (shared < 1 || times < 1 || (*whole.extents)[axis] != shared * times) return {};
  return r.emit(op::squeeze, {x}, AxesAttrs{{static_cast<int64_t>(axis) + 1}});
}

// Both keys and values, or neither. Whether they were repeated.
bool share_heads(Rewriter& r, Value& k, Value& v, size_t axis) {
  const Value fewer_k = without_repeat(r, k, axis), fewer_v = without_repeat(r, v, axis);
  if (!fewer_k.valid() || !fewer_v.valid()) return false;
  if ((*r.facts(fewer_k).extents)[axis] != (*r.facts(fewer_v).extents)[axis]) return false;
  k = fewer_k;
  v = fewer_v;
  return true;
}

Value with_heads(Rewriter& r, Value v, int rank) {
  return rank == 4 ? v : r.emit(op::unsqueeze, {v}, AxesAttrs{{1}});
}

// Whether the shapes are known to be those of the operator.
bool shapes_fit(Rewriter& r, const Found& f, Value value, int64_t softmax_axis) {
  const Facts q = r.facts(f.q), k = r.facts(f.k), v = r.facts(value);
  const Extents scores = extents_of_scores(r, f);
  if (scores.empty() || !q.dtype || !is_float(*q.dtype) || !q.has_rank() || !k.has_rank() ||
      !v.has_rank())
    return false;
  const int rank = q.rank();
  if ((rank != 3 && rank != 4) || k.rank() != rank || v.rank() != rank ||
      !is_last_axis(softmax_axis, rank) || q.extents->back() < 1)
    return false;
  const size_t last = static_cast<size_t>(rank) - 1;
  for (size_t i = 0; i + 1 < last; ++i)
    if (!same_extent((*q.extents)[i], (*k.extents)[i]) ||
        !same_extent((*q.extents)[i], (*v.extents)[i]))
      return false;
  return std::all_of(f.masks.begin(), f.masks.end(),
                     [&](Value m) { return mask_fits(r.facts(m), scores); });
}

// The operator on q, k, v and, where it is valid, a mask.
Value attend(Rewriter& r, std::span<const Value, 4> in, const DotProductAttentionAttrs& a) {
  const std::vector<Value> outs =
      r.emit_all(op::scaled_dot_product_attention, in.first(in[3].valid() ? 4 : 3), a, 1);
  return outs.empty() ? Value() : outs[0];
}

}  // namespace

Value recognise_attention(Rewriter& r, const Pending& p) {
  const MatmulAttrs& product = p.as<MatmulAttrs>();
  const Node* weights = r.producer(p.input(0), op::softmax);
  if (!weights || product.trans_a || product.trans_b || r.uses(p.input(0)) > 1) return {};
  const int64_t axis = weights->attrs.as<AxisAttrs>().axis;
  auto found = find_scores(r, r.input(*weights, 0));
  if (!found || !shapes_fit(r, *found, p.input(1), axis)) return {};
  Found& f = *found;
  // Large numbers hide a key only where nothing hides the keys that are seen.
  if (f.masks.size() == 1 && adds_triangle(r, extents_of_scores(r, f), f.masks[0], kHidden)) {
    f.masks.clear();
    f.causal = true;
  }
  const int rank = r.facts(f.q).rank();
  if (f.k_is_swapped) {
    f.k = without_swap(r, f.k);
    f.scale *= take_scale(r, f.k);
  }
  Value mask;
  for (Value m : f.masks) {
    if (f.masks_hide) m = r.emit(op::logical_not, {m});
    if (rank == 3 && r.facts(m).rank() == 3) m = with_heads(r, m, rank);
    mask = mask.valid() ? r.emit(op::add, {mask, m}) : m;
  }
  Value in[] = {with_heads(r, f.q, rank), with_heads(r, f.k, rank), with_heads(r, p.input(1), rank),
                mask};
  const bool shares = share_heads(r, in[1], in[2], 1);
  DotProductAttentionAttrs attrs{.scale = f.scale, .causal = f.causal};
  const Value first[] = {tokens_first(r, in[0]), tokens_first(r, in[1]), tokens_first(r, in[2])};
  attrs.tokens_first = first[0].valid() && first[1].valid() && first[2].valid();
  if (attrs.tokens_first) std::copy(std::begin(first), std::end(first), in);
  if (attrs.tokens_first && !shares) share_heads(r, in[1], in[2], 2);
  const Value y = attend(r, in, attrs);
  if (!y.valid()) return {};
  if (attrs.tokens_first) return r.emit(op::transpose, {y}, PermAttrs{{0, 2, 1, 3}});
  return rank == 4 ? y : r.emit(op::squeeze, {y}, AxesAttrs{{1}});
}

namespace {

// Whether the softmax is taken in what the one operator takes it in, or in what q has.
bool softmax_fits(const AttentionAttrs& a, DType q) {
  return !a.has_softmax_dtype || a.softmax_dtype == q ||
         (a.softmax_dtype == DType::f32 && q != DType::f64);
}

}  // namespace

Value fuse_attention(Rewriter& r, const Pending& p) {
  const AttentionAttrs& a = p.as<AttentionAttrs>();
  for (size_t i = 4; i < p.in.size(); ++i)
    if (p.in[i].valid()) return {};  // keys of the past, or how many count
  const Facts q = r.facts(p.input(0)), k = r.facts(p.input(1)), v = r.facts(p.input(2));
  const int rank = q.rank();
  if (!q.dtype || (rank != 3 && rank != 4) || k.rank() != rank || v.rank() != rank) return {};
  if (a.softcap != 0 || !std::isfinite(a.scale) || !softmax_fits(a, *q.dtype)) return {};
  const int64_t last[] = {q.extents->back(), k.extents->back(), v.extents->back()};
  const int64_t heads[] = {a.heads, a.kv_heads, a.kv_heads};
  for (size_t i = 0; i < 3; ++i)
    if (last[i] < 1 || (rank == 3 && (heads[i] < 1 || last[i] % heads[i] != 0))) return {};
  const bool by_rows = rank == 3;
  const Extents scores = {(*q.extents)[0], by_rows ? a.heads : (*q.extents)[1],
                          (*q.extents)[by_rows ? 1 : 2], (*k.extents)[by_rows ? 1 : 2]};
  Value mask = p.input(3);
  if (mask.valid() && !mask_fits(r.facts(mask), scores)) return {};  // it may end before the keys
  DotProductAttentionAttrs attrs{.scale = a.scale, .causal = a.causal, .tokens_first = by_rows};
  if (mask.valid() &&
      (adds_triangle(r, scores, mask, kHidden) || chooses_triangle(r, scores, mask, true))) {
    attrs.causal = true;
    mask = {};
  }
  Value in[] = {p.input(0), p.input(1), p.input(2), mask};
  for (size_t i = 0; by_rows && i < 3; ++i)
    in[i] = r.emit(op::reshape, {in[i]}, ShapeAttrs{{0, 0, heads[i], last[i] / heads[i]}, false});
  const Value y = attend(r, in, attrs);
  if (!y.valid() || !by_rows) return y;
  return r.emit(op::reshape, {y}, ShapeAttrs{{0, 0, a.heads * (last[2] / a.kv_heads)}, false});
}

}  // namespace hone
