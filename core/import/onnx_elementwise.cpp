// SPDX-License-Identifier: Apache-2.0
// ONNX's operators on single elements: arithmetic, comparison, logic, casts.
#include <cmath>

#include "core/import/onnx_families.hpp"

namespace hone::onnx {

namespace {

// Max, Min, Sum: any number of inputs, from the left.
void import_chain(ImportCtx& c) {
  if (!c.require(1)) return;
  Value v = c.in(0);
  for (int i = 1; i < c.size(); ++i) v = c.emit(*c.rule.op, {v, c.in(i)});
  c.set(0, v, c.broadcast());
}

void import_mean(ImportCtx& c) {
  if (!c.require(1)) return;
  Value v = c.in(0);
  for (int i = 1; i < c.size(); ++i) v = c.emit(op::add, {v, c.in(i)});
  if (c.size() > 1) v = c.emit(op::div, {v, c.scalar(c.size(), c.dtype(0))});
  c.set(0, v, c.broadcast());
}

// fmod=1 takes the sign of the dividend. For floats Hone's mod does so anyway.
void import_mod(ImportCtx& c) {
  if (!c.require(2)) return;
  const bool fmod = c.flag("fmod");
  if (!fmod || is_float(c.dtype(0))) return import_same(c);
  const Value whole = c.emit(op::mul, {c.emit(op::div, {c.in(0), c.in(1)}), c.in(1)});
  c.set(0, c.emit(op::sub, {c.in(0), whole}), c.broadcast());
}

// The exponent may be of another dtype than the base, whose dtype the result has.
void import_pow(ImportCtx& c) {
  if (!c.require(2)) return;
  const DType base = c.dtype(0), exponent = c.dtype(1);
  Value x = c.in(0), y = c.in(1);
  const bool widen = is_float(exponent) && !is_float(base);
  if (widen) x = c.emit(op::cast, {x}, CastAttrs{exponent});
  if (!widen && exponent != base) y = c.emit(op::cast, {y}, CastAttrs{base});
  Value v = c.emit(op::pow, {x, y});
  if (widen) v = c.emit(op::cast, {v}, CastAttrs{base});
  c.set(0, v, c.broadcast());
}

void cast_to(ImportCtx& c, DType to) {
  const Value v = to == c.dtype(0) ? c.in(0) : c.emit(op::cast, {c.in(0)}, CastAttrs{to});
  c.set(0, v, {to, c.rank(0)});
}

void import_cast(ImportCtx& c) {
  if (!c.require(1)) return;
  c.ignore("saturate");  // for eight-bit floats only
  c.ignore("round_mode");
  if (!c.has_attr("to")) return c.fail("attribute 'to' is missing");
  const ElemType to = static_cast<ElemType>(c.attr("to", int64_t{0}));
  if (const auto dtype = dtype_of(to)) return cast_to(c, *dtype);
  c.unsupported("to {}", to);
}

void import_cast_like(ImportCtx& c) {
  c.ignore("saturate");
  c.ignore("round_mode");
  if (c.require(2)) cast_to(c, c.dtype(1));
}

// Identity is only another name for the value.
void import_identity(ImportCtx& c) {
  if (c.require(1)) c.set(0, c.in(0));
}

void import_where(ImportCtx& c) {
  if (c.require(3))
    c.set(0, c.emit(op::where, {c.in(0), c.in(1), c.in(2)}), {c.dtype(1), c.broadcast().rank});
}

// Bounds that are known become attributes; doubles hold them exactly unless they are integers
// beyond 2^53.
void import_clip(ImportCtx& c) {
  if (!c.require(1)) return;
  ClipAttrs attrs;
  if (c.opset < 11) {
    attrs.low = c.attr("min", attrs.low);
    attrs.high = c.attr("max", attrs.high);
    return c.set(0, c.emit(op::clip, {c.in(0)}, attrs));
  }
  const auto exact = [&](int i) {
    const auto v = c.number(i);
    return !c.has(i) || (v && (is_float(c.dtype(i)) || std::fabs(*v) <= 0x1p53));
  };
  if (!exact(1) || !exact(2)) {
    Value v = c.in(0);
    if (c.has(1)) v = c.emit(op::maximum, {v, c.in(1)});
    if (c.has(2)) v = c.emit(op::minimum, {v, c.in(2)});
    return c.set(0, v);
  }
  attrs.low = c.number(1).value_or(attrs.low);
  attrs.high = c.number(2).value_or(attrs.high);
  c.set(0, c.emit(op::clip, {c.in(0)}, attrs));
}

constexpr ImportRule kImports[] = {
    {"Abs", 6, import_same, &op::abs},
    {"Add", 7, import_same, &op::add},
    {"And", 7, import_same, &op::logical_and},
    {"Cast", 6, import_cast},
    {"CastLike", 15, import_cast_like},
    {"Ceil", 6, import_same, &op::ceil},
    {"Clip", 6, import_clip},
    {"Cos", 7, import_same, &op::cos},
    {"Div", 7, import_same, &op::div},
    {"Equal", 7, import_comparison, &op::equal},
    {"Erf", 9, import_same, &op::erf},
    {"Exp", 6, import_same, &op::exp},
    {"Floor", 6, import_same, &op::floor},
    {"Greater", 7, import_comparison, &op::greater},
    {"GreaterOrEqual", 12, import_comparison, &op::greater_equal},
    {"Identity", 1, import_identity},
    {"IsNaN", 9, import_comparison, &op::is_nan},
    {"Less", 7, import_comparison, &op::less},
    {"LessOrEqual", 12, import_comparison, &op::less_equal},
    {"Log", 6, import_same, &op::log},
    {"Max", 6, import_chain, &op::maximum},
    {"Mean", 8, import_mean},
    {"Min", 6, import_chain, &op::minimum},
    {"Mod", 10, import_mod, &op::mod},
    {"Mul", 7, import_same, &op::mul},
    {"Neg", 6, import_same, &op::neg},
    {"Not", 1, import_same, &op::logical_not},
    {"Or", 7, import_same, &op::logical_or},
    {"Pow", 7, import_pow},
    {"Reciprocal", 6, import_same, &op::reciprocal},
    {"Round", 11, import_same, &op::round},
    {"Sign", 9, import_same, &op::sign},
    {"Sin", 7, import_same, &op::sin},
    {"Sqrt", 6, import_same, &op::sqrt},
    {"Sub", 7, import_same, &op::sub},
    {"Sum", 8, import_chain, &op::add},
    {"Tanh", 6, import_same, &op::tanh},
    {"Where", 9, import_where},
    {"Xor", 7, import_same, &op::logical_xor},
};

// Hone's mod is Python's for integers and C's for floats.
void export_mod(ExportCtx& c) {
  c.write("Mod", c.inputs(), {{"fmod", int64_t{is_float(c.dtype(0))}}});
}

void export_rsqrt(ExportCtx& c) { c.write("Reciprocal", {c.part("Sqrt", {c.in(0)})}); }

void export_cast(ExportCtx& c) {
  c.write("Cast", {c.in(0)}, {{"to", static_cast<int64_t>(elem_type_of(c.attrs<CastAttrs>().to))}});
}

void export_clip(ExportCtx& c) {
  const ClipAttrs& a = c.attrs<ClipAttrs>();
  const auto bound = [&](double v) {
    return std::isinf(v) ? std::string() : c.number(v, c.dtype(0));
  };
  c.write("Clip", {c.in(0), bound(a.low), bound(a.high)});
}

constexpr ExportRule kExports[] = {
    {&op::abs, "Abs"},
    {&op::add, "Add"},
    {&op::cast, "Cast", export_cast, OutType::attribute},
    {&op::ceil, "Ceil"},
    {&op::clip, "Clip", export_clip},
    {&op::cos, "Cos"},
    {&op::div, "Div"},
    {&op::equal, "Equal", nullptr, OutType::boolean},
    {&op::erf, "Erf"},
    {&op::exp, "Exp"},
    {&op::floor, "Floor"},
    {&op::greater, "Greater", nullptr, OutType::boolean},
    {&op::greater_equal, "GreaterOrEqual", nullptr, OutType::boolean},
    {&op::identity, "Identity"},
    {&op::is_nan, "IsNaN", nullptr, OutType::boolean},
    {&op::less, "Less", nullptr, OutType::boolean},
    {&op::less_equal, "LessOrEqual", nullptr, OutType::boolean},
    {&op::log, "Log"},
    {&op::logical_and, "And"},
    {&op::logical_not, "Not"},
    {&op::logical_or, "Or"},
    {&op::logical_xor, "Xor"},
    {&op::maximum, "Max"},
    {&op::minimum, "Min"},
    {&op::mod, "Mod", export_mod},
    {&op::mul, "Mul"},
    {&op::neg, "Neg"},
    {&op::pow, "Pow"},
    {&op::reciprocal, "Reciprocal"},
    {&op::round, "Round"},
    {&op::rsqrt, "", export_rsqrt},
    {&op::sign, "Sign"},
    {&op::sin, "Sin"},
    {&op::sqrt, "Sqrt"},
    {&op::stop_gradient, "Identity"},
    {&op::sub, "Sub"},
    {&op::tanh, "Tanh"},
    {&op::where, "Where", nullptr, OutType::second},
};

}  // namespace

std::span<const ImportRule> elementwise_imports() { return kImports; }
std::span<const ExportRule> elementwise_exports() { return kExports; }

}  // namespace hone::onnx
