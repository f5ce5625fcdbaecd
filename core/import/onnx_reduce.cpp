// SPDX-License-Identifier: Apache-2.0
// ONNX's reductions, ArgMax and ArgMin, CumSum.
#include "core/import/onnx_families.hpp"
#include "hone/op_attrs_index.hpp"

namespace hone::onnx {

namespace {

// What a reduction does besides its sum, max, ...: Reduce<op>(x) = after(reduce(before(x))).
enum class Around : uint8_t { nothing, abs, square, norm, log, log_exp };

// The largest finite value: what an infinite maximum is replaced by, so that infinity - infinity
// does not arise.
double largest(DType t) {
  switch (t) {
    case DType::f64:
      return 1.7976931348623157e308;
    case DType::f16:
      return 65504;
    case DType::bf16:
      return 3.3895313892515355e38;
    default:
      return 3.4028234663852886e38;
  }
}

// log(sum(exp(x))) = m + log(sum(exp(x - m))), m = max(x).
Value log_sum_exp(ImportCtx& c, const ReduceAttrs& attrs) {
  ReduceAttrs keep = attrs;
  keep.keepdims = true;
  const double bound = largest(c.dtype(0));
  const auto finite_max = [&](const ReduceAttrs& a) {
    return c.emit(op::stop_gradient,
                  {c.emit(op::clip, {c.emit(op::max, {c.in(0)}, a)}, ClipAttrs{-bound, bound})});
  };
  const Value shifted = c.emit(op::exp, {c.emit(op::sub, {c.in(0), finite_max(keep)})});
  return c.emit(op::add, {c.emit(op::log, {c.emit(op::sum, {shifted}, attrs)}), finite_max(attrs)});
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

// The form of a reduction whose axes are an input.
const OpDef& dyn_of(const OpDef& op) {
  return &op == &op::sum    ? op::sum_dyn
         : &op == &op::mean ? op::mean_dyn
         : &op == &op::max  ? op::max_dyn
         : &op == &op::min  ? op::min_dyn
                            : op::prod_dyn;
}

// The same with axes that are computed.
Value reduce_dyn(ImportCtx& c, Around around, const ReduceDynAttrs& attrs) {
  const Value x = c.in(0), axes = c.in(1);
  const auto by = [&](const OpDef& op, Value v, const ReduceDynAttrs& a) {
    return c.emit(dyn_of(op), {v, axes}, a);
  };
  switch (around) {
    case Around::nothing:
      return by(*c.rule.op, x, attrs);
    case Around::abs:
      return by(op::sum, c.emit(op::abs, {x}), attrs);
    case Around::square:
      return by(op::sum, c.emit(op::mul, {x, x}), attrs);
    case Around::norm:
      return c.emit(op::sqrt, {by(op::sum, c.emit(op::mul, {x, x}), attrs)});
    case Around::log:
      return c.emit(op::log, {by(op::sum, x, attrs)});
    case Around::log_exp:
      break;
  }
  const double bound = largest(c.dtype(0));
  const auto finite_max = [&](const ReduceDynAttrs& a) {
    return c.emit(op::stop_gradient,
                  {c.emit(op::clip, {by(op::max, x, a)}, ClipAttrs{-bound, bound})});
  };
  const Value shifted =
      c.emit(op::exp, {c.emit(op::sub, {x, finite_max({true, attrs.noop_with_empty_axes})})});
  return c.emit(op::add, {c.emit(op::log, {by(op::sum, shifted, attrs)}), finite_max(attrs)});
}

Value reduce(ImportCtx& c, Around around, const ReduceAttrs& attrs) {
  const Value x = c.in(0);
  switch (around) {
    case Around::nothing:
      return c.emit(*c.rule.op, {x}, attrs);
    case Around::abs:
      return c.emit(op::sum, {c.emit(op::abs, {x})}, attrs);
    case Around::square:
      return c.emit(op::sum, {c.emit(op::mul, {x, x})}, attrs);
    case Around::norm:
      return c.emit(op::sqrt, {c.emit(op::sum, {c.emit(op::mul, {x, x})}, attrs)});
    case Around::log:
      return c.emit(op::log, {c.emit(op::sum, {x}, attrs)});
    case Around::log_exp:
      return log_sum_exp(c, attrs);
  }
  return x;
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
  ReduceAttrs attrs;
  attrs.keepdims = c.flag("keepdims", true);
  const bool noop = c.flag("noop_with_empty_axes");
  if (c.has(1) && !c.ints(1))
    return c.set(0, reduce_dyn(c, kAround, {attrs.keepdims, noop}),
                 {c.dtype(0), attrs.keepdims ? c.rank(0) : -1});
  attrs.axes = c.has(1) ? *c.ints(1) : c.attr_ints("axes");
  if (attrs.axes.empty() && noop) return c.set(0, without_reduction(c, kAround));
  c.set(0, reduce(c, kAround, attrs),
        {c.dtype(0), rank_without(c.rank(0), attrs.axes.size(), attrs.keepdims)});
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
