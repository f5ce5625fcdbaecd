// SPDX-License-Identifier: Apache-2.0
// Shape arithmetic: what is known of a shape becomes a constant or an attribute, and reshapes of
// reshapes become one. A free dimension is copied, never fixed.
#include <algorithm>

#include "core/passes/simplify_rules.hpp"

namespace hone {

namespace {

bool fixed(std::span<const int64_t> extents) {
  return std::all_of(extents.begin(), extents.end(), [](int64_t e) { return e >= 0; });
}

Value ints(Rewriter& r, std::span<const int64_t> v) {
  auto data = TensorData::vector_of(v);
  if (data.ok()) return r.constant(*data, {});
  r.b.fail(data.status());
  return {};
}

// [first, last) of the axes that a shape_of tells, when the rank is known.
struct Range {
  int64_t first = 0, last = 0;
};
std::optional<Range> range_of(const ShapeOfAttrs& a, int rank) {
  if (rank < 0) return std::nullopt;
  const auto at = [&](int64_t i) { return std::clamp<int64_t>(i < 0 ? i + rank : i, 0, rank); };
  return Range{at(a.start), std::max(at(a.start), at(a.end))};
}

Value known_shape(Rewriter& r, const Pending& p) {
  const Facts x = r.facts(p.input(0));
  const auto range = range_of(p.as<ShapeOfAttrs>(), x.rank());
  if (!range) return {};
  const auto wanted = std::span(*x.extents)
                          .subspan(static_cast<size_t>(range->first),
                                   static_cast<size_t>(range->last - range->first));
  return fixed(wanted) ? ints(r, wanted) : Value();
}

// ---- elements of a shape that is put together

// One element: a number, an extent of a value, or something else.
struct Element {
  std::optional<int64_t> number;
  Value of;  // invalid unless it is an extent
  int64_t axis = 0;
};
using Elements = std::vector<Element>;

// How many values may be looked at for one shape: a damaged file may join a part with itself over
// and over.
constexpr int kMostSteps = 64;
std::optional<Elements> elements(Rewriter& r, Value v, int& steps);

std::optional<Elements> elements_of_gather(Rewriter& r, const Node& n, int& steps) {
  const int64_t axis = n.attrs.as<AxisAttrs>().axis;
  const TensorData* at = r.constant(r.input(n, 1));
  if ((axis != 0 && axis != -1) || !at || is_float(at->dtype()) || at->shape().rank() > 1)
    return std::nullopt;
  const std::vector<int64_t> wanted = to_ints(*at);
  const auto from = elements(r, r.input(n, 0), steps);
  if (!from) return std::nullopt;
  Elements out;
  for (int64_t i : wanted) {
    if (i < 0) i += static_cast<int64_t>(from->size());
    if (i < 0 || i >= static_cast<int64_t>(from->size())) return std::nullopt;
    out.push_back((*from)[static_cast<size_t>(i)]);
  }
  return out;
}

std::optional<Elements> elements_of_slice(Rewriter& r, const Node& n, int& steps) {
  const SliceAttrs& a = n.attrs.as<SliceAttrs>();
  const bool plain =
      a.starts.size() == 1 && a.ends.size() == 1 &&
      (a.axes.empty() || a.axes == std::vector<int64_t>{0} || a.axes == std::vector<int64_t>{-1}) &&
      (a.steps.empty() || a.steps == std::vector<int64_t>{1});
  if (!plain) return std::nullopt;
  const int64_t start = a.starts[0], end = a.ends[0];
  const auto from = elements(r, r.input(n, 0), steps);
  if (!from) return std::nullopt;
  const auto range = range_of({start, end}, static_cast<int>(from->size()));
  return Elements(from->begin() + range->first, from->begin() + range->last);
}

std::optional<Elements> elements_of_concat(Rewriter& r, const Node& n, int& steps) {
  const std::vector<ValueId> parts = n.inputs;
  Elements out;
  for (ValueId part : parts) {
    if (part == kNone) return std::nullopt;
    const auto some = elements(r, Value(&r.b, part), steps);
    if (!some) return std::nullopt;
    out.insert(out.end(), some->begin(), some->end());
  }
  return out;
}

// The elements of an integer vector (or the one of a scalar), in order.
std::optional<Elements> elements(Rewriter& r, Value v, int& steps) {
  if (--steps < 0 || !v.valid()) return std::nullopt;
  const Facts facts = r.facts(v);
  if (const TensorData* t = r.constant(v)) {
    if (is_float(t->dtype()) || t->shape().rank() > 1 || t->numel() > kMaxRank) return std::nullopt;
    Elements out;
    for (int64_t i : to_ints(*t)) out.push_back({i, {}, 0});
    return out;
  }
  const Node* n = r.producer(v);
  if (n && n->op == &op::shape_of) {
    const Value x = r.input(*n, 0);
    const Facts of = r.facts(x);
    const auto range = range_of(n->attrs.as<ShapeOfAttrs>(), of.rank());
    if (!range) return std::nullopt;
    Elements out;
    for (int64_t i = range->first; i < range->last; ++i) {
      const int64_t e = (*of.extents)[static_cast<size_t>(i)];
      out.push_back(e >= 0 ? Element{e, {}, 0} : Element{std::nullopt, x, i});
    }
    return out;
  }
  if (n && n->op == &op::gather) return elements_of_gather(r, *n, steps);
  if (n && n->op == &op::slice) return elements_of_slice(r, *n, steps);
  if (n && n->op == &op::concat) return elements_of_concat(r, *n, steps);
  const bool same = n && (n->op == &op::unsqueeze || n->op == &op::squeeze ||
                          n->op == &op::reshape || n->op == &op::identity);
  const bool widened = n && n->op == &op::cast && n->attrs.as<CastAttrs>().to == DType::i64;
  if ((same && facts.has_rank() && facts.rank() <= 1) || widened)
    return elements(r, r.input(*n, 0), steps);
  // One element of which nothing is known.
  if (facts.rank() == 0 || (facts.rank() == 1 && (*facts.extents)[0] == 1)) return Elements(1);
  return std::nullopt;
}

std::optional<Elements> elements(Rewriter& r, Value v) {
  int steps = kMostSteps;
  return elements(r, v, steps);
}

// Whether the element is the extent of x on this axis, whatever that is.
bool is_extent(Rewriter& r, const Element& e, Value x, size_t axis) {
  if (!e.of.valid()) return false;
  if (e.of.id() == x.id()) return e.axis == static_cast<int64_t>(axis);
  const Facts here = r.facts(x), there = r.facts(e.of);
  if (!here.has_rank() || axis >= here.extents->size() || !there.has_rank()) return false;
  const int64_t a = (*here.extents)[axis], b = (*there.extents)[static_cast<size_t>(e.axis)];
  return a == b && a != kAnyExtent;
}

std::optional<std::vector<int64_t>> numbers_of(const Elements& e) {
  std::vector<int64_t> out;
  for (const Element& one : e) {
    if (!one.number) return std::nullopt;
    out.push_back(*one.number);
  }
  return out;
}

// A gather or a slice of a shape whose result is known.
Value known_elements(Rewriter& r, const Pending& p) {
  if (r.facts(p.input(0)).dtype != DType::i64) return {};
  const Node n{&p.op, p.attrs, {p.input(0).id(), p.input(1).id()}, {}, {}};
  const bool gathers = &p.op == &op::gather;
  int steps = kMostSteps;
  const auto found = gathers ? elements_of_gather(r, n, steps) : elements_of_slice(r, n, steps);
  const auto known = found ? numbers_of(*found) : std::nullopt;
  if (!known || r.facts(p.input(0)).rank() != 1) return {};
  const TensorData* at = gathers ? r.constant(p.input(1)) : nullptr;
  if (!at || at->shape().rank() == 1) return ints(r, *known);
  auto one = TensorData::scalar_of(known->front());
  if (one.ok()) return r.constant(*one, {});
  return {};
}

// ---- shapes that were computed

Extents extents_of(Rewriter& r, const Elements& shape) {
  Extents out;
  for (const Element& e : shape) {
    if (e.number) out.push_back(*e.number < 0 ? kAnyExtent : *e.number);
    if (!e.number && !e.of.valid()) out.push_back(kAnyExtent);
    if (!e.number && e.of.valid())
      out.push_back((*r.facts(e.of).extents)[static_cast<size_t>(e.axis)]);
  }
  return out;
}

// Extents of the input become copies (0), one unknown element becomes what is left (-1).
Value computed_reshape(Rewriter& r, const Pending& p) {
  const auto wanted = elements(r, p.input(1));
  if (!wanted || r.facts(p.input(1)).rank() != 1) return {};
  const bool allow_zero = p.as<AllowZeroAttrs>().allow_zero;
  if (const auto known = numbers_of(*wanted))
    return r.emit(op::reshape, {p.input(0)}, ShapeAttrs{*known, allow_zero});
  std::vector<int64_t> shape;
  int64_t open = 0;
  for (size_t i = 0; i < wanted->size(); ++i) {
    const Element& e = (*wanted)[i];
    if (e.number && *e.number == 0) return {};  // a zero that stands for itself, or a copy
    const bool copied = !e.number && is_extent(r, e, p.input(0), i);
    shape.push_back(e.number ? *e.number : copied ? 0 : -1);
    open += shape.back() == -1;
  }
  if (open > 1) return {};
  const Extents extents = extents_of(r, *wanted);
  const Value y = r.emit(op::reshape, {p.input(0)}, ShapeAttrs{std::move(shape), false});
  r.know_extents(y, extents);
  return y;
}

// Extents of the input stay what they are: 1 asks for that.
Value known_expand(Rewriter& r, const Pending& p) {
  const Facts x = r.facts(p.input(0));
  const auto wanted = r.facts(p.input(1)).rank() == 1 ? elements(r, p.input(1)) : std::nullopt;
  if (!wanted) return {};
  std::vector<int64_t> shape;
  for (size_t i = 0; i < wanted->size(); ++i) {
    const Element& e = (*wanted)[i];
    const size_t before =
        x.has_rank() && x.extents->size() < wanted->size() ? wanted->size() - x.extents->size() : 0;
    const bool kept = !e.number && x.has_rank() && x.extents->size() <= wanted->size() &&
                      i >= before && is_extent(r, e, p.input(0), i - before);
    if (!e.number && !kept) return {};
    shape.push_back(kept ? 1 : *e.number);
  }
  return r.emit(op::expand, {p.input(0)}, ShapeAttrs{std::move(shape), true});
}

// ---- reshapes

bool is_view(const Node& n) {
  return n.op == &op::reshape || n.op == &op::flatten || n.op == &op::squeeze ||
         n.op == &op::unsqueeze;
}

// A reshape that copies no extent asks only for the number of elements.
Value reshape_of_view(Rewriter& r, const Pending& p) {
  const ShapeAttrs& a = p.as<ShapeAttrs>();
  const Node* first = r.producer(p.input(0));
  if (!first || !is_view(*first)) return {};
  const bool copies = std::find(a.shape.begin(), a.shape.end(), 0) != a.shape.end();
  return copies ? Value() : r.emit(op::reshape, {r.input(*first, 0)}, p.attrs);
}

Value reshape_to_itself(Rewriter& r, const Pending& p) {
  const ShapeAttrs& a = p.as<ShapeAttrs>();
  const Facts x = r.facts(p.input(0));
  if (!x.has_rank() || x.extents->size() != a.shape.size()) return {};
  int64_t open = 0;
  for (size_t i = 0; i < a.shape.size(); ++i) {
    const bool copied = a.shape[i] == 0 && !a.allow_zero;
    if (a.shape[i] == -1)
      ++open;
    else if (!copied && (a.shape[i] < 0 || a.shape[i] != (*x.extents)[i]))
      return {};
  }
  return open <= 1 ? p.input(0) : Value();
}

Value squeeze_of_unsqueeze(Rewriter& r, const Pending& p) {
  const OpDef& inverse = &p.op == &op::squeeze ? op::unsqueeze : op::squeeze;
  const Node* first = r.producer(p.input(0), inverse);
  const std::vector<int64_t>& axes = p.as<AxesAttrs>().axes;
  if (!first || axes.empty() || first->attrs.as<AxesAttrs>().axes != axes) return {};
  return r.input(*first, 0);
}

Value flatten_of_matrix(Rewriter& r, const Pending& p) {
  const int64_t axis = p.as<AxisAttrs>().axis;
  return r.facts(p.input(0)).rank() == 2 && (axis == 1 || axis == -1) ? p.input(0) : Value();
}

constexpr SimplifyRule kRules[] = {
    {&op::shape_of, "shape arithmetic", known_shape},
    {&op::gather, "shape arithmetic", known_elements},
    {&op::slice, "shape arithmetic", known_elements},
    {&op::reshape_dyn, "shape arithmetic", computed_reshape},
    {&op::expand_dyn, "shape arithmetic", known_expand},
    {&op::reshape, "reshapes", reshape_to_itself},
    {&op::reshape, "reshapes", reshape_of_view},
    {&op::squeeze, "reshapes", squeeze_of_unsqueeze},
    {&op::unsqueeze, "reshapes", squeeze_of_unsqueeze},
    {&op::flatten, "reshapes", flatten_of_matrix},
};

}  // namespace

std::optional<Extents> extents_by_shape_input(Rewriter& r, const Pending& p) {
  const bool fills = &p.op == &op::fill_dyn, reshapes = &p.op == &op::reshape_dyn;
  if (!fills && !reshapes) return std::nullopt;
  const Value shape = p.input(fills ? 0 : 1);
  const auto wanted = r.facts(shape).rank() == 1 ? elements(r, shape) : std::nullopt;
  if (!wanted) return std::nullopt;
  Extents out = extents_of(r, *wanted);
  for (size_t i = 0; i < out.size(); ++i) {
    const bool means_other = reshapes && (*wanted)[i].number && *(*wanted)[i].number <= 0;
    if (means_other) out[i] = kAnyExtent;
  }
  return out;
}

std::span<const SimplifyRule> shape_rules() { return kRules; }

}  // namespace hone
