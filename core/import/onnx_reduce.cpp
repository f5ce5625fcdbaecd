// SPDX-License-Identifier: Apache-2.0
// ONNX's reductions, ArgMax and ArgMin, CumSum.
#include <limits>

#include "core/import/onnx_families.hpp"
#include "hone/op_attrs_index.hpp"

namespace hone::onnx {

namespace {

// What a reduction does besides its sum, max, ...: Reduce<op>(x) = after(reduce(before(x))).
enum class Around : uint8_t { nothing, abs, square, norm, log, log_exp };

// The form of a reduction whose axes are an input.
const OpDef& dyn_of(const OpDef& op) {
  return &op == &op::sum    ? op::sum_dyn
         : &op == &op::mean ? op::mean_dyn
         : &op == &op::max  ? op::max_dyn
         : &op == &op::min  ? op::min_dyn
                            : op::prod_dyn;
}

// Which axes a node reduces: those it names, or those that are computed.
struct Axes {
  std::vector<int64_t> named;
  Value computed;
  bool keepdims = true, noop = false;

  Value reduce(ImportCtx& c, const OpDef& op, Value x) const { return reduce(c, op, x, keepdims); }
  Value reduce(ImportCtx& c, const OpDef& op, Value x, bool keep) const {
    if (computed.valid()) return c.emit(dyn_of(op), {x, computed}, ReduceDynAttrs{keep, noop});
    return c.emit(op, {x}, ReduceAttrs{named, keep});
  }
};

// sqrt(sum(x^2)), with gradient 0 at 0.
Value norm(ImportCtx& c, const Axes& axes, Value x, DType t) {
  if (!axes.computed.valid())
    return c.emit(op::l2_norm, {x}, ReduceAttrs{axes.named, axes.keepdims});
  const Value sum = axes.reduce(c, op::sum, c.emit(op::mul, {x, x}));
  const Value zero = c.scalar(0, t), at_zero = c.emit(op::equal, {sum, zero});
  const Value root = c.emit(op::sqrt, {c.emit(op::where, {at_zero, c.scalar(1, t), sum})});
  return c.emit(op::where, {at_zero, zero, root});
}

// log(sum(exp(x))) = m + log(sum(exp(x - m))), m = max(x), or the largest finite value in place of
// infinity, so that infinity - infinity does not arise.
Value log_sum_exp(ImportCtx& c, const Axes& axes, Value x, DType t) {
  const double bound = t == DType::f64 ? std::numeric_limits<double>::max()
                                       : double{std::numeric_limits<float>::max()};
  const auto finite_max = [&](bool keep) {
    const Value max = axes.reduce(c, op::max, x, keep);
    return c.emit(op::stop_gradient, {c.emit(op::clip, {max}, ClipAttrs{-bound, bound})});
  };
  const Value shifted = c.emit(op::exp, {c.emit(op::sub, {x, finite_max(true)})});
  const Value log = c.emit(op::log, {axes.reduce(c, op::sum, shifted)});
  return c.emit(op::add, {log, finite_max(axes.keepdims)});
}

// No axes and noop_with_empty_axes: nothing is summed, the rest of the operator stays.
Value without_reduction(ImportCtx& c, Around around) {
  const Value x = c.in(0);
  switch (around) {
    case Around::abs:
    case Around::norm:
      return c.emit(op::abs, {x});
    case Around::square:
      return c.emit(op::mul, {x, x});
    case Around::log:
      return c.emit(op::log, {x});
    case Around::nothing:
    case Around::log_exp:
      return x;
  }
  return x;
}

Value reduce(ImportCtx& c, Around around, const Axes& axes, Value x, DType t) {
  switch (around) {
    case Around::nothing:
      return axes.reduce(c, *c.rule.op, x);
    case Around::abs:
      return axes.reduce(c, op::sum, c.emit(op::abs, {x}));
    case Around::square:
      return axes.reduce(c, op::sum, c.emit(op::mul, {x, x}));
    case Around::norm:
      return norm(c, axes, x, t);
    case Around::log:
      return c.emit(op::log, {axes.reduce(c, op::sum, x)});
    case Around::log_exp:
      return log_sum_exp(c, axes, x, t);
  }
  return x;
}

// Squares and sums on the way may not fit a half float though the result does.
Value reduce(ImportCtx& c, Around around, const Axes& axes) {
  const DType t = c.dtype(0);
  const bool half = t == DType::f16 || t == DType::bf16;
  if (!half || around == Around::nothing) return reduce(c, around, axes, c.in(0), t);
  const Value wide = c.emit(op::cast, {c.in(0)}, CastAttrs{DType::f32});
  return c.emit(op::cast, {reduce(c, around, axes, wide, DType::f32)}, CastAttrs{t});
}

int rank_without(int rank, size_t axes, bool keepdims) {
  if (rank < 0 || keepdims) return rank;
  return axes == 0 ? 0 : std::max(0, rank - static_cast<int>(axes));
}

// Since opset 20 bools have a maximum (any) and a minimum (all): those of 0 and 1.
void import_bool_extremum(ImportCtx& c) {
  if (!c.require(1)) return;
  const ReduceDynAttrs attrs{c.flag("keepdims", true), c.flag("noop_with_empty_axes")};
  const Value x = c.emit(op::cast, {c.in(0)}, CastAttrs{DType::u8});
  const Value y = c.emit(dyn_of(*c.rule.op), {x, c.in(1)}, attrs);
  c.set(0, c.emit(op::cast, {y}, CastAttrs{DType::bool_}),
        {DType::bool_, attrs.keepdims ? c.rank(0) : -1});
}

// Axes are an input from opset 18 on (ReduceSum: 13), an attribute before.
template <Around kAround>
void import_reduction(ImportCtx& c) {
  if (!c.require(1)) return;
  if (kAround == Around::nothing && c.opset >= 20 && c.dtype(0) == DType::bool_)
    return import_bool_extremum(c);
  Axes axes{.keepdims = c.flag("keepdims", true), .noop = c.flag("noop_with_empty_axes")};
  const bool computed = c.has(1) && !c.ints(1);
  if (computed)
    axes.computed = c.in(1);
  else
    axes.named = c.has(1) ? *c.ints(1) : c.attr_ints("axes");
  if (!computed && axes.named.empty() && axes.noop) return c.set(0, without_reduction(c, kAround));
  const int rank =
      computed && !axes.keepdims ? -1 : rank_without(c.rank(0), axes.named.size(), axes.keepdims);
  c.set(0, reduce(c, kAround, axes), {c.dtype(0), rank});
}

void import_arg(ImportCtx& c) {
  if (!c.require(1)) return;
  const ArgAttrs attrs{c.attr("axis", int64_t{0}), c.flag("keepdims", true),
                       c.flag("select_last_index")};
  c.set(0, c.emit(*c.rule.op, {c.in(0)}, attrs),
        {DType::i64, rank_without(c.rank(0), 1, attrs.keepdims)});
}

void import_cumsum(ImportCtx& c) {
  if (!c.require(2)) return;
  const auto axis = c.ints(1);
  const bool exclusive = c.flag("exclusive"), reverse = c.flag("reverse");
  if (!axis || axis->size() != 1)
    return c.set(0, c.emit(op::cumsum_dyn, {c.in(0), c.in(1)}, CumsumDynAttrs{exclusive, reverse}));
  c.set(0, c.emit(op::cumsum, {c.in(0)}, CumsumAttrs{axis->front(), exclusive, reverse}));
}

constexpr ImportRule kImports[] = {
    {"ArgMax", 1, import_arg, &op::argmax},
    {"ArgMin", 1, import_arg, &op::argmin},
    {"CumSum", 11, import_cumsum},
    {"ReduceL1", 1, import_reduction<Around::abs>, &op::sum},
    {"ReduceL2", 1, import_reduction<Around::norm>, &op::sum},
    {"ReduceLogSum", 1, import_reduction<Around::log>, &op::sum},
    {"ReduceLogSumExp", 1, import_reduction<Around::log_exp>, &op::sum},
    {"ReduceMax", 1, import_reduction<Around::nothing>, &op::max},
    {"ReduceMean", 1, import_reduction<Around::nothing>, &op::mean},
    {"ReduceMin", 1, import_reduction<Around::nothing>, &op::min},
    {"ReduceProd", 1, import_reduction<Around::nothing>, &op::prod},
    {"ReduceSum", 1, import_reduction<Around::nothing>, &op::sum},
    {"ReduceSumSquare", 1, import_reduction<Around::square>, &op::sum},
};

// ReduceSum takes axes as an input from opset 13 on, the others from 18 on.
void export_reduction(ExportCtx& c) {
  const ReduceAttrs& a = c.attrs<ReduceAttrs>();
  const OutAttr keepdims = {"keepdims", int64_t{a.keepdims}};
  if (c.rule.op == &op::sum || c.opset >= 18)
    return c.write(c.rule.op_type, {c.in(0), a.axes.empty() ? std::string() : c.ints(a.axes)},
                   {keepdims});
  c.write(c.rule.op_type, {c.in(0)}, {keepdims, {"axes", a.axes}});
}

// Axes as an input: since opset 18, ReduceSum's since 13.
void export_reduction_dyn(ExportCtx& c) {
  const ReduceDynAttrs& a = c.attrs<ReduceDynAttrs>();
  if (c.rule.op != &op::sum_dyn) c.need(18);
  c.write(c.rule.op_type, c.inputs(),
          {{"keepdims", int64_t{a.keepdims}},
           {"noop_with_empty_axes", int64_t{a.noop_with_empty_axes}}});
}

void export_cumsum_dyn(ExportCtx& c) {
  const CumsumDynAttrs& a = c.attrs<CumsumDynAttrs>();
  c.write("CumSum", c.inputs(),
          {{"exclusive", int64_t{a.exclusive}}, {"reverse", int64_t{a.reverse}}});
}

void export_arg(ExportCtx& c) {
  const ArgAttrs& a = c.attrs<ArgAttrs>();
  c.write(c.rule.op_type, {c.in(0)},
          {{"axis", a.axis},
           {"keepdims", int64_t{a.keepdims}},
           {"select_last_index", int64_t{a.select_last}}});
}

void export_cumsum(ExportCtx& c) {
  const CumsumAttrs& a = c.attrs<CumsumAttrs>();
  c.write("CumSum", {c.in(0), c.number(static_cast<double>(a.axis), DType::i64)},
          {{"exclusive", int64_t{a.exclusive}}, {"reverse", int64_t{a.reverse}}});
}

constexpr ExportRule kExports[] = {
    {&op::argmax, "ArgMax", export_arg, OutType::index},
    {&op::argmin, "ArgMin", export_arg, OutType::index},
    {&op::cumsum, "CumSum", export_cumsum},
    {&op::cumsum_dyn, "CumSum", export_cumsum_dyn},
    {&op::l2_norm, "ReduceL2", export_reduction},
    {&op::max, "ReduceMax", export_reduction},
    {&op::mean, "ReduceMean", export_reduction},
    {&op::min, "ReduceMin", export_reduction},
    {&op::prod, "ReduceProd", export_reduction},
    {&op::sum, "ReduceSum", export_reduction},
    {&op::max_dyn, "ReduceMax", export_reduction_dyn},
    {&op::mean_dyn, "ReduceMean", export_reduction_dyn},
    {&op::min_dyn, "ReduceMin", export_reduction_dyn},
    {&op::prod_dyn, "ReduceProd", export_reduction_dyn},
    {&op::sum_dyn, "ReduceSum", export_reduction_dyn},
};

}  // namespace

std::span<const ImportRule> reduce_imports() { return kImports; }
std::span<const ExportRule> reduce_exports() { return kExports; }

}  // namespace hone::onnx
