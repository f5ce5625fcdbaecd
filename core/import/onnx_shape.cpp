// SPDX-License-Identifier: Apache-2.0
// ONNX's operators on shapes, and those that make tensors of nothing: constants, fills, ranges.
#include "core/import/onnx_families.hpp"
#include "hone/op_attrs_index.hpp"

namespace hone::onnx {

namespace {

void import_reshape(ImportCtx& c) {
  if (!c.require(2)) return;
  const auto shape = c.ints(1);
  const int rank = shape ? static_cast<int>(shape->size()) : -1;
  c.set(0, c.reshape(c.in(0), c.in(1), c.flag("allowzero")), {c.dtype(0), rank});
}

void import_reshape_attribute(ImportCtx& c) {
  if (!c.require(1)) return;
  const std::vector<int64_t> shape = c.attr_ints("shape");
  c.set(0, c.emit(op::reshape, {c.in(0)}, ShapeAttrs{shape, false}),
        {c.dtype(0), static_cast<int>(shape.size())});
}

void import_flatten(ImportCtx& c) {
  if (!c.require(1)) return;
  c.set(0, c.emit(op::flatten, {c.in(0)}, AxisAttrs{c.attr("axis", int64_t{1})}), {c.dtype(0), 2});
}

// Squeeze, Unsqueeze. Axes are an input from opset 13 on, an attribute before.
void import_axes(ImportCtx& c) {
  if (!c.require(1)) return;
  AxesAttrs attrs;
  const bool removes = c.rule.op == &op::squeeze;
  if (c.has(1)) {
    const auto axes = c.ints(1);
    if (!axes) {
      const OpDef& dyn = removes ? op::squeeze_dyn : op::unsqueeze_dyn;
      return c.set(0, c.emit(dyn, {c.in(0), c.in(1)}), {c.dtype(0), -1});
    }
    attrs.axes = *axes;
  } else {
    attrs.axes = c.attr_ints("axes");
  }
  const int count = static_cast<int>(attrs.axes.size());
  int rank = c.rank(0) < 0 ? -1 : removes ? std::max(0, c.rank(0) - count) : c.rank(0) + count;
  if (removes && count == 0) rank = -1;
  c.set(0, c.emit(*c.rule.op, {c.in(0)}, std::move(attrs)), {c.dtype(0), rank});
}

void import_shape(ImportCtx& c) {
  if (!c.require(1)) return;
  ShapeOfAttrs attrs;
  attrs.start = c.attr("start", attrs.start);
  attrs.end = c.attr("end", attrs.end);
  c.set(0, c.shape_of(c.in(0), attrs), {DType::i64, 1});
}

void import_size(ImportCtx& c) {
  if (!c.require(1)) return;
  const ValueInfo& info = c.b.graph().value(c.in(0).id());
  const bool known = info.typed && info.type.shape.concrete();
  const Value size = known ? c.scalar(static_cast<double>(info.type.numel()), DType::i64)
                           : c.emit(op::size_of, {c.in(0)});
  c.set(0, size, {DType::i64, 0});
}

void import_constant_of_shape(ImportCtx& c) {
  if (!c.require(1)) return;
  DType dtype = DType::f32;
  double value = 0;
  if (const AttributeProto* a = c.attribute("value", AttributeType::tensor);
      a && !a->tensors.empty()) {
    auto t = c.tensor(a->tensors[0]);
    if (!t.ok()) return c.fail(t.status());
    if (t->numel() != 1) return c.fail("'value' has {} elements, expected one", t->numel());
    dtype = t->dtype();
    value = is_float(dtype) ? t->at(0) : static_cast<double>(t->int_at(0));
  }
  if (const auto shape = c.ints(0))
    return c.set(0, c.b.emit(op::fill, {}, FillAttrs{*shape, dtype, value}),
                 {dtype, static_cast<int>(shape->size())});
  c.set(0, c.emit(op::fill_dyn, {c.in(0)}, FillDynAttrs{dtype, value}), {dtype, -1});
}

void set_constant(ImportCtx& c, Result<TensorData> data) {
  if (data.ok()) return c.set(0, c.b.constant(std::move(*data)));
  data.status().code() == Code::unsupported ? c.unsupported("of {}", data.status().message())
                                            : c.fail(data.status());
}

void import_constant(ImportCtx& c) {
  if (const AttributeProto* a = c.attribute("value", AttributeType::tensor);
      a && !a->tensors.empty()) {
    set_constant(c, c.tensor(a->tensors[0], NarrowElements::widen));
    return c.set_narrow(0, narrow_of(a->tensors[0].data_type));
  }
  if (const AttributeProto* a = c.attribute("value_float", AttributeType::float_))
    return set_constant(c, TensorData::scalar_of(a->f));
  if (const AttributeProto* a = c.attribute("value_int", AttributeType::int_))
    return set_constant(c, TensorData::scalar_of(a->i));
  if (const AttributeProto* a = c.attribute("value_floats", AttributeType::floats))
    return set_constant(c, TensorData::vector_of(std::span<const float>(a->floats)));
  if (const AttributeProto* a = c.attribute("value_ints", AttributeType::ints))
    return set_constant(c, TensorData::vector_of(std::span<const int64_t>(a->ints)));
  c.unsupported("of strings or sparse values");
}

void import_range(ImportCtx& c) {
  if (c.require(3)) c.set(0, c.emit(op::range_dyn, {c.in(0), c.in(1), c.in(2)}), {c.dtype(0), 1});
}

void import_eye_like(ImportCtx& c) {
  if (!c.require(1)) return;
  EyeLikeAttrs attrs{c.dtype(0), c.attr("k", int64_t{0})};
  if (c.has_attr("dtype")) {
    const ElemType to = static_cast<ElemType>(c.attr("dtype", int64_t{0}));
    const auto dtype = dtype_of(to);
    if (!dtype) return c.unsupported("of {}", to);
    attrs.dtype = *dtype;
  }
  c.set(0, c.emit(op::eye_like, {c.in(0)}, attrs), {attrs.dtype, 2});
}

constexpr ImportRule kImports[] = {
    {"Constant", 1, import_constant},
    {"ConstantOfShape", 9, import_constant_of_shape},
    {"EyeLike", 9, import_eye_like},
    {"Flatten", 1, import_flatten},
    {"Range", 11, import_range},
    {"Reshape", 1, import_reshape_attribute},
    {"Reshape", 5, import_reshape},
    {"Shape", 1, import_shape},
    {"Size", 1, import_size},
    {"Squeeze", 1, import_axes, &op::squeeze},
    {"Unsqueeze", 1, import_axes, &op::unsqueeze},
};

void export_reshape(ExportCtx& c) {
  const ShapeAttrs& a = c.attrs<ShapeAttrs>();
  c.write("Reshape", {c.in(0), c.ints(a.shape)}, {{"allowzero", int64_t{a.allow_zero}}});
}

void export_reshape_dyn(ExportCtx& c) {
  c.write("Reshape", c.inputs(), {{"allowzero", int64_t{c.attrs<AllowZeroAttrs>().allow_zero}}});
}

void export_flatten(ExportCtx& c) {
  c.write("Flatten", {c.in(0)}, {{"axis", c.attrs<AxisAttrs>().axis}});
}

void export_axes(ExportCtx& c) {
  const std::vector<int64_t>& axes = c.attrs<AxesAttrs>().axes;
  c.write(c.rule.op_type, {c.in(0), axes.empty() ? std::string() : c.ints(axes)});
}

void export_shape(ExportCtx& c) {
  const ShapeOfAttrs& a = c.attrs<ShapeOfAttrs>();
  std::vector<OutAttr> attrs;
  if (a.start != ShapeOfAttrs().start) attrs.push_back({"start", a.start});
  if (a.end != ShapeOfAttrs().end) attrs.push_back({"end", a.end});
  c.write("Shape", {c.in(0)}, std::move(attrs));
}

void write_fill(ExportCtx& c, std::string shape, DType dtype, double value) {
  auto wide = TensorData::vector_of(std::span<const double>(&value, 1));
  auto t = wide.ok() ? cast(*wide, dtype) : std::move(wide);
  if (!t.ok()) return c.unsupported(t.status().message());
  c.write("ConstantOfShape", {std::move(shape)}, {{"value", std::move(*t)}});
}

void export_fill(ExportCtx& c) {
  const FillAttrs& a = c.attrs<FillAttrs>();
  write_fill(c, c.ints(a.shape), a.dtype, a.value);
}

void export_fill_dyn(ExportCtx& c) {
  const FillDynAttrs& a = c.attrs<FillDynAttrs>();
  write_fill(c, c.in(0), a.dtype, a.value);
}

void export_eye_like(ExportCtx& c) {
  const EyeLikeAttrs& a = c.attrs<EyeLikeAttrs>();
  c.write("EyeLike", {c.in(0)},
          {{"dtype", static_cast<int64_t>(elem_type_of(a.dtype))}, {"k", a.k}});
}

constexpr ExportRule kExports[] = {
    {&op::eye_like, "EyeLike", export_eye_like, OutType::attribute},
    {&op::fill, "ConstantOfShape", export_fill, OutType::attribute},
    {&op::fill_dyn, "ConstantOfShape", export_fill_dyn, OutType::attribute},
    {&op::flatten, "Flatten", export_flatten},
    {&op::range_dyn, "Range"},
    {&op::reshape, "Reshape", export_reshape},
    {&op::reshape_dyn, "Reshape", export_reshape_dyn},
    {&op::shape_of, "Shape", export_shape, OutType::index},
    {&op::size_of, "Size", nullptr, OutType::index},
    {&op::squeeze, "Squeeze", export_axes},
    {&op::squeeze_dyn, "Squeeze"},
    {&op::unsqueeze, "Unsqueeze", export_axes},
    {&op::unsqueeze_dyn, "Unsqueeze"},
};

}  // namespace

std::span<const ImportRule> shape_imports() { return kImports; }
std::span<const ExportRule> shape_exports() { return kExports; }

}  // namespace hone::onnx
