// SPDX-License-Identifier: Apache-2.0
// Operators that take as inputs what their plain forms have as attributes become these once the
// inputs are constant. Their plain forms say more about shapes, and the rules above know them.
#include "core/passes/simplify_rules.hpp"
#include "hone/op_attrs_index.hpp"

namespace hone {

namespace {

// The integers of an input; none when it is left out, nothing when it is computed.
std::optional<std::vector<int64_t>> ints_of(Rewriter& r, const Pending& p, size_t i) {
  if (!p.input(i).valid()) return std::vector<int64_t>();
  const TensorData* t = r.constant(p.input(i));
  if (!t || is_float(t->dtype()) || t->shape().rank() > 1) return std::nullopt;
  return to_ints(*t);
}

Value plain_slice(Rewriter& r, const Pending& p) {
  const auto starts = ints_of(r, p, 1), ends = ints_of(r, p, 2), axes = ints_of(r, p, 3),
             steps = ints_of(r, p, 4);
  if (!starts || !ends || !axes || !steps) return {};
  return r.emit(op::slice, {p.input(0)}, SliceAttrs{*starts, *ends, *axes, *steps});
}

Value plain_pad(Rewriter& r, const Pending& p) {
  const auto pads = ints_of(r, p, 1), axes = ints_of(r, p, 3);
  const auto value = p.input(2).valid() ? r.number(p.input(2)) : 0.0;
  const int rank = r.facts(p.input(0)).rank();
  if (!pads || !axes || !value || rank < 0) return {};
  const size_t all = static_cast<size_t>(rank), count = p.input(3).valid() ? axes->size() : all;
  if (pads->size() != 2 * count) return {};
  PadAttrs attrs;
  attrs.mode = p.as<PadDynAttrs>().mode;
  attrs.value = *value;
  attrs.before.assign(all, 0);
  attrs.after.assign(all, 0);
  for (size_t i = 0; i < count; ++i) {
    int64_t axis = p.input(3).valid() ? (*axes)[i] : static_cast<int64_t>(i);
    if (axis < 0) axis += rank;
    if (axis < 0 || axis >= rank) return {};
    attrs.before[static_cast<size_t>(axis)] = (*pads)[i];
    attrs.after[static_cast<size_t>(axis)] = (*pads)[count + i];
  }
  return r.emit(op::pad, {p.input(0)}, attrs);
}

Value plain_tile(Rewriter& r, const Pending& p) {
  const auto repeats = ints_of(r, p, 1);
  return repeats ? r.emit(op::tile, {p.input(0)}, RepeatsAttrs{*repeats}) : Value();
}

template <const OpDef& kPlain>
Value plain_axes(Rewriter& r, const Pending& p) {
  const auto axes = ints_of(r, p, 1);
  return axes ? r.emit(kPlain, {p.input(0)}, AxesAttrs{*axes}) : Value();
}

// No axes at all: all of them, or none.
template <const OpDef& kPlain>
Value plain_reduction(Rewriter& r, const Pending& p) {
  const ReduceDynAttrs& a = p.as<ReduceDynAttrs>();
  const auto axes = ints_of(r, p, 1);
  if (!axes) return {};
  if (axes->empty() && a.noop_with_empty_axes) return p.input(0);
  return r.emit(kPlain, {p.input(0)}, ReduceAttrs{*axes, a.keepdims});
}

Value plain_cumsum(Rewriter& r, const Pending& p) {
  const auto axis = ints_of(r, p, 1);
  const CumsumDynAttrs& a = p.as<CumsumDynAttrs>();
  if (!axis || axis->size() != 1) return {};
  return r.emit(op::cumsum, {p.input(0)}, CumsumAttrs{axis->front(), a.exclusive, a.reverse});
}

constexpr std::string_view kName = "inputs into attributes";
constexpr SimplifyRule kRules[] = {
    {&op::slice_dyn, kName, plain_slice},
    {&op::pad_dyn, kName, plain_pad},
    {&op::tile_dyn, kName, plain_tile},
    {&op::squeeze_dyn, kName, plain_axes<op::squeeze>},
    {&op::unsqueeze_dyn, kName, plain_axes<op::unsqueeze>},
    {&op::sum_dyn, kName, plain_reduction<op::sum>},
    {&op::mean_dyn, kName, plain_reduction<op::mean>},
    {&op::max_dyn, kName, plain_reduction<op::max>},
    {&op::min_dyn, kName, plain_reduction<op::min>},
    {&op::prod_dyn, kName, plain_reduction<op::prod>},
    {&op::cumsum_dyn, kName, plain_cumsum},
};

}  // namespace

std::span<const SimplifyRule> dynamic_rules() { return kRules; }

}  // namespace hone
