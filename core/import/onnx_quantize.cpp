// SPDX-License-Identifier: Apache-2.0
// ONNX's quantization.
#include <algorithm>

#include "core/import/onnx_families.hpp"
#include "hone/op_attrs_quantize.hpp"

namespace hone::onnx {

namespace {

// The element type that an attribute names, or `fallback` when it is absent or 0.
std::optional<DType> named_type(ImportCtx& c, std::string_view name, DType fallback) {
  const auto named = static_cast<ElemType>(c.attr(name, int64_t{0}));
  if (named == ElemType::undefined) return fallback;
  const auto dtype = dtype_of(named);
  if (!dtype) c.unsupported("with {}={}", name, named);
  return dtype;
}

void import_quantize(ImportCtx& c) {
  if (!c.require(2)) return;
  c.ignore("saturate");   // for eight-bit floats only
  c.ignore("precision");  // the division is done in single precision at least
  QuantizeAttrs attrs{c.attr("axis", int64_t{1}), c.attr("block_size", int64_t{0})};
  const auto named = static_cast<ElemType>(c.attr("output_dtype", int64_t{0}));
  attrs.narrow = c.has(2) ? c.narrow(2) : narrow_of(named);
  if (attrs.narrow != NarrowType::none)
    attrs.to = *held_in(attrs.narrow);
  else
    attrs.to = named_type(c, "output_dtype", DType::u8).value_or(DType::u8);
  const DType to = c.has(2) ? c.dtype(2) : attrs.to;
  c.set(0, c.emit(op::quantize_linear, {c.in(0), c.in(1), c.in(2)}, attrs), {to, c.rank(0)});
  c.set_narrow(0, attrs.narrow);
}

void import_dequantize(ImportCtx& c) {
  if (!c.require(2)) return;
  QuantizeAttrs attrs{c.attr("axis", int64_t{1}), c.attr("block_size", int64_t{0})};
  attrs.narrow = c.narrow(0);
  const DType scale = c.dtype(1);
  const DType to = named_type(c, "output_dtype", scale).value_or(scale);
  Value v = dequantize(c.b, c.in(0), c.in(1), c.in(2), attrs);
  if (to != scale) v = c.emit(op::cast, {v}, CastAttrs{to});
  c.set(0, v, {to, c.rank(0)});
}

void import_dynamic_quantize(ImportCtx& c) {
  if (!c.require(1)) return;
  const auto outs = c.b.emit_all(op::dynamic_quantize_linear, c.inputs().first(1), {}, 3);
  if (outs.size() < 3) return;
  c.set(0, outs[0], {DType::u8, c.rank(0)});
  c.set(1, outs[1], {DType::f32, 0});
  c.set(2, outs[2], {DType::u8, 0});
}

int product_rank(ImportCtx& c, int a, int b) {
  const int left = c.rank(a), right = c.rank(b);
  if (left < 0 || right < 0) return -1;
  return std::max({left, right, 2}) - (left == 1) - (right == 1);
}

void import_matmul_integer(ImportCtx& c) {
  if (c.require(2))
    c.set(0, c.b.emit(op::matmul_integer, c.inputs()), {DType::i32, product_rank(c, 0, 1)});
}

void import_qlinear_matmul(ImportCtx& c) {
  if (c.require(8))
    c.set(0, c.b.emit(op::qlinear_matmul, c.inputs()), {c.dtype(7), product_rank(c, 0, 3)});
}

ConvAttrs conv_attrs(ImportCtx& c) {
  ConvAttrs a;
  a.strides = c.attr_ints("strides");
  a.dilations = c.attr_ints("dilations");
  a.groups = c.attr("group", int64_t{1});
  a.auto_pad =
      c.attr_enum("auto_pad", {"NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID"}, AutoPad::none);
  read_pads(c, a.pads_begin, a.pads_end);
  c.ignore("kernel_shape");  // the weight has it
  return a;
}

void import_conv_integer(ImportCtx& c) {
  if (c.require(2))
    c.set(0, c.b.emit(op::conv_integer, c.inputs(), conv_attrs(c)), {DType::i32, c.rank(0)});
}

void import_qlinear_conv(ImportCtx& c) {
  if (c.require(8))
    c.set(0, c.b.emit(op::qlinear_conv, c.inputs(), conv_attrs(c)), {c.dtype(7), c.rank(0)});
}

constexpr ImportRule kImports[] = {
    {"ConvInteger", 10, import_conv_integer},
    {"DequantizeLinear", 10, import_dequantize},
    {"DynamicQuantizeLinear", 11, import_dynamic_quantize},
    {"MatMulInteger", 10, import_matmul_integer},
    {"QLinearConv", 10, import_qlinear_conv},
    {"QLinearMatMul", 10, import_qlinear_matmul},
    {"QuantizeLinear", 10, import_quantize},
};

// Blocks have been there since opset 21.
std::vector<OutAttr> scale_attrs(ExportCtx& c, const QuantizeAttrs& a) {
  std::vector<OutAttr> attrs = {{"axis", a.axis}};
  if (a.block_size == 0) return attrs;
  c.need(21);
  attrs.push_back({"block_size", a.block_size});
  return attrs;
}

// Input i in the type whose range its elements have.
std::string as_narrow(ExportCtx& c, int i, NarrowType t) {
  c.need(t == NarrowType::int2 || t == NarrowType::uint2 ? 25 : 21);
  return c.part("Cast", {c.in(i)}, {{"to", static_cast<int64_t>(elem_type_of(t))}});
}

void export_quantize(ExportCtx& c) {
  const QuantizeAttrs& a = c.attrs<QuantizeAttrs>();
  std::vector<OutAttr> attrs = scale_attrs(c, a);
  if (!c.has(2) && (a.to != DType::u8 || a.narrow != NarrowType::none)) {
    c.need(21);
    attrs.push_back({"output_dtype", static_cast<int64_t>(elem_type_of(a.to))});
  }
  if (c.dtype(0) == DType::f16) c.need(19);
  if (a.narrow == NarrowType::none) return c.write("QuantizeLinear", c.inputs(), std::move(attrs));
  std::vector<std::string> inputs = c.inputs();
  if (c.has(2))
    inputs[2] = as_narrow(c, 2, a.narrow);
  else
    attrs.back().value = static_cast<int64_t>(elem_type_of(a.narrow));
  const std::string narrow = c.part("QuantizeLinear", std::move(inputs), std::move(attrs));
  c.write("Cast", {narrow}, {{"to", static_cast<int64_t>(elem_type_of(*held_in(a.narrow)))}});
}

void export_dequantize(ExportCtx& c) {
  if (c.dtype(1) == DType::f16) c.need(19);
  const QuantizeAttrs& a = c.attrs<QuantizeAttrs>();
  std::vector<std::string> inputs = c.inputs();
  if (a.narrow != NarrowType::none) {
    inputs[0] = as_narrow(c, 0, a.narrow);
    if (c.has(2)) inputs[2] = as_narrow(c, 2, a.narrow);
  }
  c.write("DequantizeLinear", std::move(inputs), scale_attrs(c, a));
}

void export_conv(ExportCtx& c) {
  const ConvAttrs& a = c.attrs<ConvAttrs>();
  std::vector<OutAttr> attrs = {
      {"strides", a.strides}, {"dilations", a.dilations}, {"group", a.groups}};
  add_pads(attrs, a.auto_pad, a.pads_begin, a.pads_end);
  c.write(c.rule.op_type, c.inputs(), std::move(attrs));
}

constexpr ExportRule kExports[] = {
    {&op::conv_integer, "ConvInteger", export_conv, OutType::i32},
    {&op::dequantize_linear, "DequantizeLinear", export_dequantize, OutType::second},
    {&op::dynamic_quantize_linear, "DynamicQuantizeLinear", nullptr, OutType::u8_and_scale},
    {&op::matmul_integer, "MatMulInteger", nullptr, OutType::i32},
    {&op::qlinear_conv, "QLinearConv", export_conv, OutType::eighth},
    {&op::qlinear_matmul, "QLinearMatMul", nullptr, OutType::eighth},
    {&op::quantize_linear, "QuantizeLinear", export_quantize, OutType::third_or_attribute},
};

}  // namespace

std::span<const ImportRule> quantize_imports() { return kImports; }
std::span<const ExportRule> quantize_exports() { return kExports; }

}  // namespace hone::onnx
