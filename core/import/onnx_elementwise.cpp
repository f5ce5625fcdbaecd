// SPDX-License-Identifier: Apache-2.0
// ONNX's operators on single elements: arithmetic, comparison, logic, casts.
#include <cmath>

#include "core/import/onnx_families.hpp"
#include "hone/op_attrs_index.hpp"

namespace hone::onnx {

namespace {

// Max, Min, Sum: any number of inputs, from the left.
void import_chain(ImportCtx& c) {
  if (!c.require(1)) return;
  Value v = c.in(0);
  for (int i = 1; i < c.size(); ++i) v = c.emit(*c.rule.op, {v, c.in(i)});
  c.set(0, v, c.broadcast());
}

// Before opset 7 the second operand was broadcast on request only: laid along the first one's axes
// from `axis` on, or along the last ones.
template <bool kComparison>
void import_aligned(ImportCtx& c) {
  if (!c.require(2)) return;
  Value b = c.in(1);
  const bool placed = c.has_attr("axis"), broadcast = c.flag("broadcast");
  const int64_t axis = front_axis(c.attr("axis", int64_t{0}), c.rank(0));
  if (placed && broadcast) {
    if (c.rank(0) < 0 || c.rank(1) < 0) return c.unsupported("with an axis and an unknown rank");
    std::vector<int64_t> behind;
    for (int64_t i = c.rank(1); i < c.rank(0) - axis; ++i) behind.push_back(i);
    if (!behind.empty()) b = c.emit(op::unsqueeze, {b}, AxesAttrs{behind});
  }
  c.set(0, c.emit(*c.rule.op, {c.in(0), b}), {kComparison ? DType::bool_ : c.dtype(0), c.rank(0)});
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
  // Narrow integers become whole ones: another value, though its elements stay.
  const bool widens = c.narrow(0) != NarrowType::none;
  if (to != c.dtype(0))
    c.set(0, c.emit(op::cast, {c.in(0)}, CastAttrs{to}), {to, c.rank(0)});
  else
    c.set(0, widens ? c.emit(op::identity, {c.in(0)}) : c.in(0));
}

// The lowest bits of the integer, whose uppermost is the sign: (x & mask) ^ half - half.
void cast_to_narrow(ImportCtx& c, NarrowType to) {
  constexpr DType wide = DType::i32;
  const int bits = bits_of(to);
  const DType held = *held_in(to);
  Value v = c.dtype(0) == wide ? c.in(0) : c.emit(op::cast, {c.in(0)}, CastAttrs{wide});
  v = c.emit(op::bitwise_and, {v, c.scalar((1 << bits) - 1, wide)});
  if (is_signed(to)) {
    const Value half = c.scalar(1 << (bits - 1), wide);
    v = c.emit(op::sub, {c.emit(op::bitwise_xor, {v, half}), half});
  }
  if (held != wide) v = c.emit(op::cast, {v}, CastAttrs{held});
  c.set(0, v, {held, c.rank(0)});
  c.set_narrow(0, to);
}

void import_cast(ImportCtx& c) {
  if (!c.require(1)) return;
  c.ignore("saturate");  // for eight-bit floats only
  c.ignore("round_mode");
  if (!c.has_attr("to")) return c.fail("attribute 'to' is missing");
  const ElemType to = static_cast<ElemType>(c.attr("to", int64_t{0}));
  if (const auto dtype = dtype_of(to)) return cast_to(c, *dtype);
  if (const NarrowType narrow = narrow_of(to); narrow != NarrowType::none)
    return cast_to_narrow(c, narrow);
  c.unsupported("to {}", to);
}

// Before opset 6 the type was a name.
void import_cast_by_name(ImportCtx& c) {
  if (!c.require(1)) return;
  constexpr std::pair<std::string_view, DType> kNames[] = {
      {"FLOAT", DType::f32}, {"DOUBLE", DType::f64}, {"FLOAT16", DType::f16},
      {"INT8", DType::i8},   {"UINT8", DType::u8},   {"INT32", DType::i32},
      {"INT64", DType::i64}, {"BOOL", DType::bool_},
  };
  const std::string_view to = c.attr("to", std::string_view());
  for (const auto& [name, dtype] : kNames)
    if (name == to) return cast_to(c, dtype);
  c.unsupported("to {}", to);
}

void import_cast_like(ImportCtx& c) {
  c.ignore("saturate");
  c.ignore("round_mode");
  if (!c.require(2)) return;
  const NarrowType narrow = c.narrow(1);
  narrow == NarrowType::none ? cast_to(c, c.dtype(1)) : cast_to_narrow(c, narrow);
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

void import_is_inf(ImportCtx& c) {
  if (!c.require(1)) return;
  const IsInfAttrs attrs{c.flag("detect_negative", true), c.flag("detect_positive", true)};
  c.set(0, c.emit(op::is_inf, {c.in(0)}, attrs), {DType::bool_, c.rank(0)});
}

void import_bit_shift(ImportCtx& c) {
  if (!c.require(2)) return;
  const bool left = c.attr_enum("direction", {"RIGHT", "LEFT"}, 0) != 0;
  c.set(0, c.emit(left ? op::shift_left : op::shift_right, {c.in(0), c.in(1)}), c.broadcast());
}

constexpr ImportRule kImports[] = {
    {"Abs", 1, import_same, &op::abs},
    {"Acos", 7, import_same, &op::acos},
    {"Acosh", 9, import_same, &op::acosh},
    {"Add", 1, import_aligned<false>, &op::add},
    {"Add", 7, import_same, &op::add},
    {"And", 1, import_aligned<true>, &op::logical_and},
    {"And", 7, import_same, &op::logical_and},
    {"Asin", 7, import_same, &op::asin},
    {"Asinh", 9, import_same, &op::asinh},
    {"Atan", 7, import_same, &op::atan},
    {"Atanh", 9, import_same, &op::atanh},
    {"BitShift", 11, import_bit_shift},
    {"BitwiseAnd", 18, import_same, &op::bitwise_and},
    {"BitwiseNot", 18, import_same, &op::bitwise_not},
    {"BitwiseOr", 18, import_same, &op::bitwise_or},
    {"BitwiseXor", 18, import_same, &op::bitwise_xor},
    {"Cast", 1, import_cast_by_name},
    {"Cast", 6, import_cast},
    {"CastLike", 15, import_cast_like},
    {"Ceil", 1, import_same, &op::ceil},
    {"Clip", 1, import_clip},
    {"Cos", 7, import_same, &op::cos},
    {"Cosh", 9, import_same, &op::cosh},
    {"Div", 1, import_aligned<false>, &op::div},
    {"Div", 7, import_same, &op::div},
    {"Equal", 1, import_aligned<true>, &op::equal},
    {"Equal", 7, import_comparison, &op::equal},
    {"Erf", 9, import_same, &op::erf},
    {"Exp", 1, import_same, &op::exp},
    {"Floor", 1, import_same, &op::floor},
    {"Greater", 1, import_aligned<true>, &op::greater},
    {"Greater", 7, import_comparison, &op::greater},
    {"GreaterOrEqual", 12, import_comparison, &op::greater_equal},
    {"Identity", 1, import_identity},
    {"IsInf", 10, import_is_inf},
    {"IsNaN", 9, import_comparison, &op::is_nan},
    {"Less", 1, import_aligned<true>, &op::less},
    {"Less", 7, import_comparison, &op::less},
    {"LessOrEqual", 12, import_comparison, &op::less_equal},
    {"Log", 1, import_same, &op::log},
    {"Max", 1, import_chain, &op::maximum},
    {"Mean", 1, import_mean},
    {"Min", 1, import_chain, &op::minimum},
    {"Mod", 10, import_mod, &op::mod},
    {"Mul", 1, import_aligned<false>, &op::mul},
    {"Mul", 7, import_same, &op::mul},
    {"Neg", 1, import_same, &op::neg},
    {"Not", 1, import_same, &op::logical_not},
    {"Or", 1, import_aligned<true>, &op::logical_or},
    {"Or", 7, import_same, &op::logical_or},
    {"Pow", 1, import_aligned<false>, &op::pow},
    {"Pow", 7, import_pow},
    {"Reciprocal", 1, import_same, &op::reciprocal},
    {"Round", 11, import_same, &op::round},
    {"Sign", 9, import_same, &op::sign},
    {"Sin", 7, import_same, &op::sin},
    {"Sinh", 9, import_same, &op::sinh},
    {"Sqrt", 1, import_same, &op::sqrt},
    {"Sub", 1, import_aligned<false>, &op::sub},
    {"Sub", 7, import_same, &op::sub},
    {"Sum", 1, import_chain, &op::add},
    {"Tan", 7, import_same, &op::tan},
    {"Tanh", 1, import_same, &op::tanh},
    {"Where", 9, import_where},
    {"Xor", 1, import_aligned<true>, &op::logical_xor},
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

void export_is_inf(ExportCtx& c) {
  const IsInfAttrs& a = c.attrs<IsInfAttrs>();
  c.write("IsInf", {c.in(0)},
          {{"detect_negative", int64_t{a.detect_negative}},
           {"detect_positive", int64_t{a.detect_positive}}});
}

// ONNX shifts unsigned integers only.
void export_shift(ExportCtx& c) {
  if (c.dtype(0) != DType::u8) return c.unsupported("of signed integers");
  const bool left = c.rule.op == &op::shift_left;
  c.write("BitShift", c.inputs(), {{"direction", std::string_view(left ? "LEFT" : "RIGHT")}});
}

void export_bitwise(ExportCtx& c) {
  c.need(18);
  c.write(c.rule.op_type, c.inputs());
}

constexpr ExportRule kExports[] = {
    {&op::abs, "Abs"},
    {&op::acos, "Acos"},
    {&op::acosh, "Acosh"},
    {&op::add, "Add"},
    {&op::asin, "Asin"},
    {&op::asinh, "Asinh"},
    {&op::atan, "Atan"},
    {&op::atanh, "Atanh"},
    {&op::bitwise_and, "BitwiseAnd", export_bitwise},
    {&op::bitwise_not, "BitwiseNot", export_bitwise},
    {&op::bitwise_or, "BitwiseOr", export_bitwise},
    {&op::bitwise_xor, "BitwiseXor", export_bitwise},
    {&op::cast, "Cast", export_cast, OutType::attribute},
    {&op::ceil, "Ceil"},
    {&op::clip, "Clip", export_clip},
    {&op::cos, "Cos"},
    {&op::cosh, "Cosh"},
    {&op::div, "Div"},
    {&op::equal, "Equal", nullptr, OutType::boolean},
    {&op::erf, "Erf"},
    {&op::exp, "Exp"},
    {&op::floor, "Floor"},
    {&op::greater, "Greater", nullptr, OutType::boolean},
    {&op::greater_equal, "GreaterOrEqual", nullptr, OutType::boolean},
    {&op::identity, "Identity"},
    {&op::is_inf, "IsInf", export_is_inf, OutType::boolean},
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
    {&op::shift_left, "BitShift", export_shift},
    {&op::shift_right, "BitShift", export_shift},
    {&op::sign, "Sign"},
    {&op::sin, "Sin"},
    {&op::sinh, "Sinh"},
    {&op::sqrt, "Sqrt"},
    {&op::stop_gradient, "Identity"},
    {&op::sub, "Sub"},
    {&op::tan, "Tan"},
    {&op::tanh, "Tanh"},
    {&op::where, "Where", nullptr, OutType::second},
};

}  // namespace

std::span<const ImportRule> elementwise_imports() { return kImports; }
std::span<const ExportRule> elementwise_exports() { return kExports; }

}  // namespace hone::onnx
