// SPDX-License-Identifier: Apache-2.0
// Shape rules over extents that may be open. They say less than an operator's own rule, never
// more: an operator without a line here gives a value of which nothing is known.
#include "core/passes/facts.hpp"

#include <algorithm>

#include "hone/op_attrs.hpp"
#include "hone/op_attrs_quantize.hpp"
#include "hone/special_ops.hpp"

namespace hone {

namespace {

struct Ctx {
  const Attrs& attrs;
  size_t k;
  std::span<const Facts* const> in;

  bool has(size_t i) const { return i < in.size() && in[i]; }
  std::optional<DType> dtype(size_t i) const { return has(i) ? in[i]->dtype : std::nullopt; }
  std::optional<Extents> extents(size_t i) const { return has(i) ? in[i]->extents : std::nullopt; }
  Facts like(std::optional<Extents> e) const { return {dtype(0), std::move(e)}; }
};

std::optional<size_t> axis_in(int64_t axis, size_t rank) {
  const int64_t at = axis < 0 ? axis + static_cast<int64_t>(rank) : axis;
  if (at < 0 || at >= static_cast<int64_t>(rank)) return std::nullopt;
  return static_cast<size_t>(at);
}

// Whether each axis listed exists; marks them.
bool mark_axes(std::span<const int64_t> axes, std::vector<bool>& marked) {
  for (int64_t a : axes) {
    const auto at = axis_in(a, marked.size());
    if (!at) return false;
    marked[*at] = true;
  }
  return true;
}

// An extent of two or more wins, for the other can only be 1 or the same.
int64_t broadcast_extent(int64_t a, int64_t b) {
  if (a == b || b == 1) return a;
  if (a == 1) return b;
  if (a > 1) return a;
  if (b > 1) return b;
  return kAnyExtent;
}

std::optional<Extents> broadcast_all(const Ctx& c) {
  Extents out;
  for (size_t i = 0; i < c.in.size(); ++i) {
    auto e = c.extents(i);
    if (!e) return std::nullopt;
    if (e->size() > out.size()) out.insert(out.begin(), e->size() - out.size(), 1);
    e->insert(e->begin(), out.size() - e->size(), 1);
    for (size_t d = 0; d < out.size(); ++d) out[d] = broadcast_extent(out[d], (*e)[d]);
  }
  return out;
}

Facts same(const Ctx& c) {
  if (c.k == 0) return c.has(0) ? *c.in[0] : Facts();
  return {};
}
Facts broadcasting(const Ctx& c) { return c.like(broadcast_all(c)); }
Facts comparing(const Ctx& c) { return {DType::bool_, broadcast_all(c)}; }
Facts choosing(const Ctx& c) { return {c.dtype(1), broadcast_all(c)}; }
Facts casting(const Ctx& c) { return {c.attrs.as<CastAttrs>().to, c.extents(0)}; }
Facts quantizing(const Ctx& c) {
  return {c.has(2) ? c.dtype(2) : c.attrs.as<QuantizeAttrs>().to, c.extents(0)};
}
Facts dequantizing(const Ctx& c) { return {c.dtype(1), c.extents(0)}; }
Facts truth(const Ctx& c) { return {DType::bool_, c.extents(0)}; }

Facts transposing(const Ctx& c) {
  const auto e = c.extents(0);
  if (!e) return c.like({});
  Extents out = *e;
  const std::vector<int64_t>& perm = c.attrs.as<PermAttrs>().perm;
  if (perm.empty()) std::reverse(out.begin(), out.end());
  if (perm.empty()) return c.like(out);
  if (perm.size() != e->size()) return c.like({});
  for (size_t i = 0; i < perm.size(); ++i) {
    const auto at = axis_in(perm[i], e->size());
    if (!at) return c.like({});
    out[i] = (*e)[*at];
  }
  return c.like(out);
}

Facts reducing(const Ctx& c) {
  const ReduceAttrs& a = c.attrs.as<ReduceAttrs>();
  const auto e = c.extents(0);
  if (!e) return c.like({});
  std::vector<bool> gone(e->size(), a.axes.empty());
  if (!mark_axes(a.axes, gone)) return c.like({});
  Extents out;
  for (size_t i = 0; i < e->size(); ++i)
    if (!gone[i] || a.keepdims) out.push_back(gone[i] ? 1 : (*e)[i]);
  return c.like(out);
}

Facts squeezing(const Ctx& c) {
  const std::vector<int64_t>& axes = c.attrs.as<AxesAttrs>().axes;
  const auto e = c.extents(0);
  if (!e || axes.empty()) return c.like({});
  std::vector<bool> gone(e->size(), false);
  if (!mark_axes(axes, gone)) return c.like({});
  Extents out;
  for (size_t i = 0; i < e->size(); ++i)
    if (!gone[i]) out.push_back((*e)[i]);
  return c.like(out);
}

Facts unsqueezing(const Ctx& c) {
  const std::vector<int64_t>& axes = c.attrs.as<AxesAttrs>().axes;
  const auto e = c.extents(0);
  if (!e) return c.like({});
  std::vector<bool> made(e->size() + axes.size(), false);
  if (!mark_axes(axes, made)) return c.like({});
  Extents out;
  size_t from = 0;
  for (const bool is_new : made) {
    if (!is_new && from == e->size()) return c.like({});  // an axis is listed twice
    out.push_back(is_new ? 1 : (*e)[from++]);
  }
  return c.like(out);
}

// What -1 stands for: the extents of x that are not among the others, when that is one number or
// one named dimension.
int64_t remaining_extent(const Extents& x, const Extents& others) {
  std::vector<int64_t> named;
  int64_t have = 1, used = 1;
  const auto multiply = [](int64_t& product, int64_t e) {
    const bool fits = e <= std::numeric_limits<int64_t>::max() / product;
    if (fits) product *= e;
    return fits;
  };
  for (int64_t e : x) {
    if (e == kAnyExtent || e == 0) return kAnyExtent;
    if (e < 0) named.push_back(e);
    if (e > 0 && !multiply(have, e)) return kAnyExtent;
  }
  for (int64_t e : others) {
    if (e == kAnyExtent || e == 0) return kAnyExtent;
    if (e > 0 && !multiply(used, e)) return kAnyExtent;
    const auto at = std::find(named.begin(), named.end(), e);
    if (e < 0 && at == named.end()) return kAnyExtent;
    if (e < 0) named.erase(at);
  }
  if (named.empty()) return have % used == 0 ? have / used : kAnyExtent;
  return named.size() == 1 && have == used ? named[0] : kAnyExtent;
}

Facts reshaping(const Ctx& c) {
  const ShapeAttrs& a = c.attrs.as<ShapeAttrs>();
  const auto e = c.extents(0);
  Extents out, others;
  for (size_t i = 0; i < a.shape.size(); ++i) {
    const bool copied = a.shape[i] == 0 && !a.allow_zero;
    if (copied)
      out.push_back(e && i < e->size() ? (*e)[i] : kAnyExtent);
    else
      out.push_back(a.shape[i] < 0 ? kAnyExtent : a.shape[i]);
    if (a.shape[i] >= 0) others.push_back(out.back());
  }
  for (size_t i = 0; e && i < a.shape.size(); ++i)
    if (a.shape[i] == -1 && others.size() + 1 == out.size()) out[i] = remaining_extent(*e, others);
  return c.like(out);
}

Facts expanding(const Ctx& c) {
  auto e = c.extents(0);
  if (!e) return c.like({});
  Extents out = c.attrs.as<ShapeAttrs>().shape;
  if (e->size() > out.size()) out.insert(out.begin(), e->size() - out.size(), 1);
  e->insert(e->begin(), out.size() - e->size(), 1);
  for (size_t i = 0; i < out.size(); ++i) out[i] = broadcast_extent(out[i], (*e)[i]);
  return c.like(out);
}

Facts tiling(const Ctx& c) {
  const std::vector<int64_t>& repeats = c.attrs.as<RepeatsAttrs>().repeats;
  auto e = c.extents(0);
  if (!e || repeats.size() != e->size()) return c.like({});
  for (size_t i = 0; i < repeats.size(); ++i)
    if (repeats[i] != 1) (*e)[i] = (*e)[i] == 1 ? repeats[i] : kAnyExtent;
  return c.like(std::move(e));
}

Facts multiplying(const Ctx& c) {
  const MatmulAttrs& m = c.attrs.as<MatmulAttrs>();
  auto a = c.extents(0), b = c.extents(1);
  if (!a || !b || a->size() < 2 || b->size() < 2) return c.like({});
  const auto from_end = [](const Extents& e, size_t i) { return e[e.size() - i]; };
  const int64_t rows = from_end(*a, m.trans_a ? 1 : 2), columns = from_end(*b, m.trans_b ? 2 : 1);
  a->resize(a->size() - 2);
  b->resize(b->size() - 2);
  const Facts batch_a{{}, std::move(a)}, batch_b{{}, std::move(b)};
  const Facts* const both[] = {&batch_a, &batch_b};
  auto out = broadcast_all({c.attrs, 0, both});
  if (out) out->insert(out->end(), {rows, columns});
  return c.like(std::move(out));
}

Facts gemm(const Ctx& c) {
  const GemmAttrs& g = c.attrs.as<GemmAttrs>();
  const auto a = c.extents(0), b = c.extents(1);
  if (!a || !b || a->size() != 2 || b->size() != 2) return c.like({});
  return c.like(Extents{(*a)[g.trans_a ? 1 : 0], (*b)[g.trans_b ? 0 : 1]});
}

Facts convolving(const Ctx& c) {
  const auto x = c.extents(0), w = c.extents(1);
  if (!x || !w || x->size() < 2 || w->size() != x->size()) return c.like({});
  Extents out(x->size(), kAnyExtent);
  out[0] = (*x)[0];
  out[1] = (*w)[0];
  return c.like(out);
}

Facts pooling(const Ctx& c) {
  const auto x = c.extents(0);
  if (!x || x->size() < 2) return c.like({});
  Extents out(x->size(), kAnyExtent);
  out[0] = (*x)[0];
  out[1] = (*x)[1];
  return c.like(out);
}

Facts gathering(const Ctx& c) {
  const auto x = c.extents(0), i = c.extents(1);
  if (!x || !i) return c.like({});
  const auto axis = axis_in(c.attrs.as<AxisAttrs>().axis, x->size());
  if (!axis) return c.like({});
  Extents out(x->begin(), x->begin() + static_cast<ptrdiff_t>(*axis));
  out.insert(out.end(), i->begin(), i->end());
  out.insert(out.end(), x->begin() + static_cast<ptrdiff_t>(*axis) + 1, x->end());
  return c.like(out);
}

Facts joining(const Ctx& c) {
  auto out = c.extents(0);
  if (!out) return c.like({});
  const auto axis = axis_in(c.attrs.as<AxisAttrs>().axis, out->size());
  if (!axis) return c.like({});
  for (size_t i = 1; i < c.in.size(); ++i) {
    const auto e = c.extents(i);
    if (e && e->size() != out->size()) return c.like({});
    int64_t& sum = (*out)[*axis];
    sum = e && sum >= 0 && (*e)[*axis] >= 0 ? sum + (*e)[*axis] : kAnyExtent;
  }
  return c.like(std::move(out));
}

Facts splitting(const Ctx& c) {
  const SplitAttrs& a = c.attrs.as<SplitAttrs>();
  auto e = c.extents(0);
  const auto axis = e ? axis_in(a.axis, e->size()) : std::nullopt;
  if (!axis) return c.like({});
  (*e)[*axis] = c.k < a.sizes.size() ? a.sizes[c.k] : kAnyExtent;
  return c.like(std::move(e));
}

Facts slicing(const Ctx& c) {
  const SliceAttrs& a = c.attrs.as<SliceAttrs>();
  auto e = c.extents(0);
  if (!e || (a.axes.empty() && a.starts.size() > e->size())) return c.like({});
  for (size_t i = 0; i < a.starts.size(); ++i) {
    const auto axis = axis_in(a.axes.empty()      ? static_cast<int64_t>(i)
                              : i < a.axes.size() ? a.axes[i]
                                                  : -100,
                              e->size());
    if (!axis) return c.like({});
    (*e)[*axis] = kAnyExtent;
  }
  return c.like(std::move(e));
}

Facts measuring(const Ctx& c) {
  const ShapeOfAttrs& a = c.attrs.as<ShapeOfAttrs>();
  Facts out{DType::i64, Extents{kAnyExtent}};
  if (!c.has(0) || !c.in[0]->has_rank()) return out;
  const int64_t rank = c.in[0]->rank();
  const auto clamped = [&](int64_t i) {
    return std::clamp<int64_t>(i < 0 ? i + rank : i, 0, rank);
  };
  out.extents = Extents{std::max<int64_t>(0, clamped(a.end) - clamped(a.start))};
  return out;
}

// Result 0 is like the queries, with the values' last extent.
Facts attending(const Ctx& c) {
  auto y = c.extents(0);
  const auto v = c.extents(2);
  if (!y || !v || y->size() != 4 || v->size() != 4) return c.like({});
  (*y)[3] = (*v)[3];
  return c.like(std::move(y));
}

struct Rule {
  const OpDef* op;
  Facts (*rule)(const Ctx&);
};

constexpr Rule kRules[] = {
    {&op::neg, same},
    {&op::abs, same},
    {&op::exp, same},
    {&op::log, same},
    {&op::sqrt, same},
    {&op::rsqrt, same},
    {&op::reciprocal, same},
    {&op::sin, same},
    {&op::cos, same},
    {&op::tanh, same},
    {&op::erf, same},
    {&op::sign, same},
    {&op::floor, same},
    {&op::ceil, same},
    {&op::round, same},
    {&op::identity, same},
    {&op::stop_gradient, same},
    {&op::relu, same},
    {&op::sigmoid, same},
    {&op::silu, same},
    {&op::gelu, same},
    {&op::hard_sigmoid, same},
    {&op::hard_swish, same},
    {&op::leaky_relu, same},
    {&op::elu, same},
    {&op::softplus, same},
    {&op::clip, same},
    {&op::prelu, same},
    {&op::softmax, same},
    {&op::log_softmax, same},
    {&op::dropout, same},
    {&op::cumsum, same},
    {&op::trilu, same},
    {&op::batch_norm, same},
    {&op::layer_norm, same},
    {&op::rms_norm, same},
    {&op::group_norm, same},
    {&op::instance_norm, same},
    {&op::add, broadcasting},
    {&op::sub, broadcasting},
    {&op::mul, broadcasting},
    {&op::div, broadcasting},
    {&op::pow, broadcasting},
    {&op::maximum, broadcasting},
    {&op::minimum, broadcasting},
    {&op::mod, broadcasting},
    {&op::equal, comparing},
    {&op::less, comparing},
    {&op::less_equal, comparing},
    {&op::greater, comparing},
    {&op::greater_equal, comparing},
    {&op::logical_and, comparing},
    {&op::logical_or, comparing},
    {&op::logical_xor, comparing},
    {&op::logical_not, truth},
    {&op::is_nan, truth},
    {&op::where, choosing},
    {&op::cast, casting},
    {&op::quantize_linear, quantizing},
    {&op::dequantize_linear, dequantizing},
    {&op::transpose, transposing},
    {&op::sum, reducing},
    {&op::mean, reducing},
    {&op::max, reducing},
    {&op::min, reducing},
    {&op::prod, reducing},
    {&op::l2_norm, reducing},
    {&op::squeeze, squeezing},
    {&op::unsqueeze, unsqueezing},
    {&op::reshape, reshaping},
    {&op::expand, expanding},
    {&op::tile, tiling},
    {&op::matmul, multiplying},
    {&op::scaled_dot_product_attention, attending},
    {&op::gemm, gemm},
    {&op::conv, convolving},
    {&op::max_pool, pooling},
    {&op::avg_pool, pooling},
    {&op::gather, gathering},
    {&op::concat, joining},
    {&op::split, splitting},
    {&op::slice, slicing},
    {&op::shape_of, measuring},
};

}  // namespace

Facts facts_of(const TensorType& type) {
  return {type.dtype, Extents(type.shape.begin(), type.shape.end())};
}

Facts facts_of_output(const OpDef& op, const Attrs& attrs, size_t k,
                      std::span<const Facts* const> in) {
  for (const Rule& r : kRules)
    if (r.op == &op) return r.rule({attrs, k, in});
  return {};
}

}  // namespace hone
