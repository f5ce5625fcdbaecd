// SPDX-License-Identifier: Apache-2.0
// Attention written out: softmax(scale q k^T + mask) v, the scale on q, on k, on both or on their
// product. Only where nothing else reads the weights: a dropout or an output that shows them keeps
// the products.
#include <algorithm>
#include <cmath>
#include <limits>

#include "core/passes/simplify_products.hpp"
#include "hone/attention_attrs.hpp"

namespace hone {

namespace {

struct Found {
  Value q, k;
  bool k_is_swapped = false;  // (.., D, S): a transpose that a scale has kept out of the product
  std::vector<Value> masks;   // that are added, or one of bools
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

bool find_scores(Rewriter& r, Value v, Found& f, int depth = 0) {
  if (find_product(r, v, f)) return true;
  const Node* n = depth < 2 && r.uses(v) <= 1 ? r.producer(v) : nullptr;
  if (!n) return false;
  if (n->op == &op::where) {
    const Value allowed = r.input(*n, 0), scores = r.input(*n, 1);
    const auto otherwise = r.number(r.input(*n, 2));
    const bool hides = otherwise && *otherwise == -std::numeric_limits<double>::infinity();
    if (!hides || !find_product(r, scores, f)) return false;
    f.masks = {allowed};
    return true;
  }
  if (n->op != &op::add) return false;
  const Value parts[] = {r.input(*n, 0), r.input(*n, 1)};
  for (const size_t i : {size_t{0}, size_t{1}}) {
    if (!find_scores(r, parts[i], f, depth + 1)) continue;
    if (!f.masks.empty() && r.facts(f.masks[0]).dtype == DType::bool_) return false;
    f.masks.push_back(parts[1 - i]);
    return true;
  }
  return false;
}

bool is_last_axis(int64_t axis, int rank) { return axis == -1 || axis == rank - 1; }

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

// What v is the transpose of (B, L, H, D) of; none if it is no such transpose.
Value tokens_first(Rewriter& r, Value v) {
  const Node* n = r.producer(v, op::transpose);
  const std::vector<int64_t> wanted = {0, 2, 1, 3};
  return n && n->attrs.as<PermAttrs>().perm == wanted ? r.input(*n, 0) : Value();
}

Value with_heads(Rewriter& r, Value v, int rank) {
  return rank == 4 ? v : r.emit(op::unsqueeze, {v}, AxesAttrs{{1}});
}

// Whether the shapes are known to be those of the operator.
bool shapes_fit(Rewriter& r, const Found& f, Value value, int64_t softmax_axis) {
  const Facts q = r.facts(f.q), k = r.facts(f.k), v = r.facts(value);
  if (!q.dtype || !is_float(*q.dtype) || !q.has_rank() || !k.has_rank() || !v.has_rank())
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
  Extents scores = *q.extents;
  scores[last] = (*k.extents)[f.k_is_swapped ? last : last - 1];
  return std::all_of(f.masks.begin(), f.masks.end(),
                     [&](Value m) { return mask_fits(r.facts(m), scores); });
}

}  // namespace

Value recognise_attention(Rewriter& r, const Pending& p) {
  const MatmulAttrs& product = p.as<MatmulAttrs>();
  const Node* weights = r.producer(p.input(0), op::softmax);
  if (!weights || product.trans_a || product.trans_b || r.uses(p.input(0)) > 1) return {};
  const int64_t axis = weights->attrs.as<AxisAttrs>().axis;
  Found f;
  if (!find_scores(r, r.input(*weights, 0), f) || !shapes_fit(r, f, p.input(1), axis)) return {};
  const int rank = r.facts(f.q).rank();
  if (f.k_is_swapped) {
    f.k = without_swap(r, f.k);
    f.scale *= take_scale(r, f.k);
  }
  Value mask;
  for (Value m : f.masks) {
    if (rank == 3 && r.facts(m).rank() == 3) m = with_heads(r, m, rank);
    mask = mask.valid() ? r.emit(op::add, {mask, m}) : m;
  }
  Value in[] = {with_heads(r, f.q, rank), with_heads(r, f.k, rank), with_heads(r, p.input(1), rank),
                mask};
  DotProductAttentionAttrs attrs{.scale = f.scale};
  const Value first[] = {tokens_first(r, in[0]), tokens_first(r, in[1]), tokens_first(r, in[2])};
  attrs.tokens_first = first[0].valid() && first[1].valid() && first[2].valid();
  if (attrs.tokens_first) std::copy(std::begin(first), std::end(first), in);
  const std::vector<Value> outs = r.emit_all(op::scaled_dot_product_attention,
                                             std::span(in).first(mask.valid() ? 4 : 3), attrs, 2);
  if (outs.empty()) return {};
  if (attrs.tokens_first) return r.emit(op::transpose, {outs[0]}, PermAttrs{{0, 2, 1, 3}});
  return rank == 4 ? outs[0] : r.emit(op::squeeze, {outs[0]}, AxesAttrs{{1}});
}

}  // namespace hone
