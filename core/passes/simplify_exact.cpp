// SPDX-License-Identifier: Apache-2.0
// Nodes that change nothing, or that undo or repeat what the node before did.
#include <algorithm>
#include <cmath>

#include "core/passes/simplify_rules.hpp"

namespace hone {

namespace {

Value first_input(Rewriter&, const Pending& p) { return p.input(0); }

// Whether `c`, of one element, broadcasts to `x` without giving it more axes.
bool leaves_shape(Rewriter& r, Value c, Value x) {
  const TensorData* t = r.constant(c);
  if (!t || t->numel() != 1) return false;
  return t->shape().rank() == 0 || t->shape().rank() <= r.facts(x).rank();
}

bool is_number(Rewriter& r, Value c, double v, Value x) {
  const auto n = r.number(c);
  return n && *n == v && std::signbit(*n) == std::signbit(v) && leaves_shape(r, c, x);
}

// x * 1, x / 1, x ^ 1, x - 0. x + 0 is not x where x is -0, unless x is an integer.
Value times_one(Rewriter& r, const Pending& p) {
  if (is_number(r, p.input(1), 1, p.input(0))) return p.input(0);
  return is_number(r, p.input(0), 1, p.input(1)) ? p.input(1) : Value();
}
Value by_one(Rewriter& r, const Pending& p) {
  return is_number(r, p.input(1), 1, p.input(0)) ? p.input(0) : Value();
}
Value minus_zero(Rewriter& r, const Pending& p) {
  return is_number(r, p.input(1), 0, p.input(0)) ? p.input(0) : Value();
}
Value plus_zero(Rewriter& r, const Pending& p) {
  for (const size_t i : {size_t{0}, size_t{1}}) {
    const Value zero = p.input(i), x = p.input(1 - i);
    const TensorData* t = r.constant(zero);
    if (t && is_number(r, zero, is_float(t->dtype()) ? -0.0 : 0.0, x)) return x;
  }
  return {};
}

// ---- casts

// Whether every value of `from` is one of `to`.
bool holds(DType to, DType from) {
  if (to == from) return true;
  if (from == DType::bool_) return true;
  if (to == DType::f64) return from != DType::i64 && (is_float(from) || size_of(from) <= 4);
  if (to == DType::f32)
    return from == DType::f16 || from == DType::bf16 || (!is_float(from) && size_of(from) <= 2);
  if (to == DType::i64) return from == DType::i32;
  return false;
}

Value cast_to_same(Rewriter& r, const Pending& p) {
  return r.facts(p.input(0)).dtype == p.as<CastAttrs>().to ? p.input(0) : Value();
}

Value cast_of_cast(Rewriter& r, const Pending& p) {
  const Node* first = r.producer(p.input(0), op::cast);
  if (!first) return {};
  const Value x = r.input(*first, 0);
  const DType between = first->attrs.as<CastAttrs>().to;
  const auto from = r.facts(x).dtype;
  if (!from || !holds(between, *from)) return {};
  return r.emit(op::cast, {x}, p.attrs);
}

// ---- transposes

std::vector<int64_t> reversed(size_t rank) {
  std::vector<int64_t> perm(rank);
  for (size_t i = 0; i < rank; ++i) perm[i] = static_cast<int64_t>(rank - 1 - i);
  return perm;
}

bool counts_up(const std::vector<int64_t>& perm) {
  for (size_t i = 0; i < perm.size(); ++i)
    if (perm[i] != static_cast<int64_t>(i)) return false;
  return !perm.empty();
}

Value transpose_of_nothing(Rewriter& r, const Pending& p) {
  const std::vector<int64_t>& perm = p.as<PermAttrs>().perm;
  const int rank = r.facts(p.input(0)).rank();
  const bool flat = perm.empty() && (rank == 0 || rank == 1);
  return counts_up(perm) || flat ? p.input(0) : Value();
}

Value transpose_of_transpose(Rewriter& r, const Pending& p) {
  const Node* first = r.producer(p.input(0), op::transpose);
  if (!first) return {};
  const Value x = r.input(*first, 0);
  std::vector<int64_t> a = first->attrs.as<PermAttrs>().perm, b = p.as<PermAttrs>().perm;
  if (a.empty() && b.empty()) return x;
  if (a.empty()) a = reversed(b.size());
  if (b.empty()) b = reversed(a.size());
  if (a.size() != b.size()) return {};
  std::vector<int64_t> both;
  for (const int64_t axis : b) {
    if (axis < 0 || axis >= static_cast<int64_t>(a.size())) return {};
    both.push_back(a[static_cast<size_t>(axis)]);
  }
  return counts_up(both) ? x : r.emit(op::transpose, {x}, PermAttrs{std::move(both)});
}

// ---- moving nothing

bool all(std::span<const int64_t> v, int64_t value) {
  return std::all_of(v.begin(), v.end(), [&](int64_t x) { return x == value; });
}

Value concat_of_one(Rewriter&, const Pending& p) { return p.in.size() == 1 ? p.in[0] : Value(); }

// All parts of a split, in their order, joined on the same axis.
Value concat_of_split(Rewriter& r, const Pending& p) {
  NodeId from = kNone;
  for (size_t i = 0; i < p.in.size(); ++i) {
    if (!p.in[i].valid()) return {};
    const ValueInfo& v = r.b.graph().value(p.in[i].id());
    if (v.kind != ValueKind::node || v.output_index != static_cast<int32_t>(i)) return {};
    if (i > 0 && v.producer != from) return {};
    from = v.producer;
  }
  if (from == kNone) return {};
  const Node& n = r.b.graph().node(from);
  if (n.op != &op::split || n.outputs.size() != p.in.size()) return {};
  if (n.attrs.as<SplitAttrs>().axis != p.as<AxisAttrs>().axis) return {};
  return r.input(n, 0);
}

Value split_into_one(Rewriter&, const Pending& p) {
  const SplitAttrs& a = p.as<SplitAttrs>();
  return (a.sizes.empty() ? a.parts : static_cast<int64_t>(a.sizes.size())) == 1 ? p.input(0)
                                                                                 : Value();
}

Value tile_once(Rewriter&, const Pending& p) {
  return all(p.as<RepeatsAttrs>().repeats, 1) ? p.input(0) : Value();
}

Value pad_nothing(Rewriter&, const Pending& p) {
  const PadAttrs& a = p.as<PadAttrs>();
  return all(a.before, 0) && all(a.after, 0) ? p.input(0) : Value();
}

Value expand_to_itself(Rewriter& r, const Pending& p) {
  const std::vector<int64_t>& shape = p.as<ShapeAttrs>().shape;
  const Facts x = r.facts(p.input(0));
  if (shape.empty()) return p.input(0);
  if (!x.has_rank() || x.extents->size() < shape.size()) return {};
  const size_t more = x.extents->size() - shape.size();
  for (size_t i = 0; i < shape.size(); ++i)
    if (shape[i] != 1 && (shape[i] < 0 || shape[i] != (*x.extents)[more + i])) return {};
  return p.input(0);
}

// From the start to the end, whatever the extent.
Value slice_everything(Rewriter& r, const Pending& p) {
  const SliceAttrs& a = p.as<SliceAttrs>();
  const Facts x = r.facts(p.input(0));
  for (size_t i = 0; i < a.starts.size(); ++i) {
    if (i >= a.ends.size() || (!a.steps.empty() && (i >= a.steps.size() || a.steps[i] != 1)))
      return {};
    if (a.starts[i] != 0) return {};
    if (a.ends[i] == std::numeric_limits<int64_t>::max()) continue;
    int64_t axis = a.axes.empty() ? static_cast<int64_t>(i) : i < a.axes.size() ? a.axes[i] : -100;
    if (axis < 0) axis += x.rank();
    if (!x.has_rank() || axis < 0 || axis >= x.rank()) return {};
    const int64_t extent = (*x.extents)[static_cast<size_t>(axis)];
    if (extent < 0 || a.ends[i] < extent) return {};
  }
  return p.input(0);
}

Value clip_nothing(Rewriter&, const Pending& p) {
  const ClipAttrs& a = p.as<ClipAttrs>();
  const bool open = std::isinf(a.low) && a.low < 0 && std::isinf(a.high) && a.high > 0;
  return open ? p.input(0) : Value();
}

// Doing it again changes nothing.
template <const OpDef& kOp>
Value again(Rewriter& r, const Pending& p) {
  return r.producer(p.input(0), kOp) ? p.input(0) : Value();
}

constexpr SimplifyRule kRules[] = {
    {&op::identity, "identities", first_input},
    {&op::mul, "arithmetic with 0 or 1", times_one},
    {&op::div, "arithmetic with 0 or 1", by_one},
    {&op::pow, "arithmetic with 0 or 1", by_one},
    {&op::sub, "arithmetic with 0 or 1", minus_zero},
    {&op::add, "arithmetic with 0 or 1", plus_zero},
    {&op::cast, "casts", cast_to_same},
    {&op::cast, "casts", cast_of_cast},
    {&op::transpose, "transposes", transpose_of_nothing},
    {&op::transpose, "transposes", transpose_of_transpose},
    {&op::concat, "movements of nothing", concat_of_one},
    {&op::concat, "movements of nothing", concat_of_split},
    {&op::split, "movements of nothing", split_into_one},
    {&op::tile, "movements of nothing", tile_once},
    {&op::pad, "movements of nothing", pad_nothing},
    {&op::expand, "movements of nothing", expand_to_itself},
    {&op::slice, "movements of nothing", slice_everything},
    {&op::clip, "identities", clip_nothing},
    {&op::relu, "identities", again<op::relu>},
    {&op::stop_gradient, "identities", again<op::stop_gradient>},
};

}  // namespace

std::span<const SimplifyRule> exact_rules() { return kRules; }

}  // namespace hone
