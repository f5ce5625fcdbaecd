// SPDX-License-Identifier: Apache-2.0
// ONNX's Resize in its versions, and Upsample.
#include "core/import/onnx_families.hpp"

namespace hone::onnx {

namespace {

// Emits a resize by `scales` or to `sizes`; what is constant becomes an attribute.
void emit_resize(ImportCtx& c, ResizeAttrs attrs, Value scales, Value sizes) {
  const TensorData* known = c.b.constant_data(scales.valid() ? scales : sizes);
  if (!known) return c.set(0, c.emit(op::resize_dyn, {c.in(0), scales, sizes}, attrs));
  for (int64_t i = 0; i < known->numel(); ++i) {
    if (!scales.valid()) attrs.sizes.push_back(known->int_at(i));
    if (scales.valid()) attrs.scales.push_back(as_written(static_cast<float>(known->at(i))));
  }
  c.set(0, c.emit(op::resize, {c.in(0)}, attrs));
}

// Upsample and Resize before opset 11: coordinates by division, nearest rounds down.
ResizeAttrs asymmetric(ImportCtx& c) {
  ResizeAttrs a;
  a.mode = c.attr_enum("mode", {"nearest", "linear"}, ResizeMode::nearest);
  a.coordinates = CoordinateMode::asymmetric;
  a.nearest = NearestMode::floor;
  return a;
}

void import_upsample_attributes(ImportCtx& c) {
  if (!c.require(1)) return;
  ResizeAttrs attrs = asymmetric(c);
  attrs.scales = c.attr_numbers("scales");
  c.set(0, c.emit(op::resize, {c.in(0)}, attrs));
}

void import_resize_asymmetric(ImportCtx& c) {
  if (c.require(2)) emit_resize(c, asymmetric(c), c.in(1), Value());
}

ResizeAttrs resize_attrs(ImportCtx& c) {
  ResizeAttrs a;
  a.mode = c.attr_enum("mode", {"nearest", "linear", "cubic"}, ResizeMode::nearest);
  a.coordinates = c.attr_enum("coordinate_transformation_mode",
                              {"half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel",
                               "half_pixel_symmetric", "tf_crop_and_resize"},
                              CoordinateMode::half_pixel);
  a.nearest =
      c.attr_enum("nearest_mode", {"round_prefer_floor", "round_prefer_ceil", "floor", "ceil"},
                  NearestMode::round_prefer_floor);
  a.cubic_a = c.attr("cubic_coeff_a", -0.75);
  a.exclude_outside = c.flag("exclude_outside");
  a.extrapolation = c.attr("extrapolation_value", 0.0);
  a.antialias = c.flag("antialias");
  a.aspect = c.attr_enum("keep_aspect_ratio_policy", {"stretch", "not_larger", "not_smaller"},
                         AspectRatio::stretch);
  a.axes = c.attr_ints("axes");
  return a;
}

// An input of no elements is as good as left out.
Value given(ImportCtx& c, int i) {
  const TensorData* t = c.constant(i);
  return t && t->numel() == 0 ? Value() : c.in(i);
}

void import_resize(ImportCtx& c) {
  if (!c.require(1)) return;
  ResizeAttrs attrs = resize_attrs(c);
  const bool crops = attrs.coordinates == CoordinateMode::tf_crop_and_resize;
  const Value scales = given(c, 2), sizes = given(c, 3), roi = crops ? given(c, 1) : Value();
  if (!scales.valid() && !sizes.valid()) return c.fail("one of scales and sizes must be given");
  const bool rare = attrs.antialias || crops || attrs.aspect != AspectRatio::stretch ||
                    !attrs.axes.empty() || (scales.valid() && sizes.valid());
  if (rare) return c.set(0, c.emit(op::resize_dyn, {c.in(0), scales, sizes, roi}, attrs));
  attrs.extrapolation = 0;  // for crops only
  emit_resize(c, attrs, scales, sizes);
}

constexpr ImportRule kImports[] = {
    {"Resize", 10, import_resize_asymmetric},
    {"Resize", 11, import_resize},
    {"Upsample", 7, import_upsample_attributes},
    {"Upsample", 9, import_resize_asymmetric},
};

template <class E>
std::string_view name_of(E e) {
  return enum_names(e)[static_cast<size_t>(e)];
}

void write_resize(ExportCtx& c, const ResizeAttrs& a, std::string scales, std::string sizes,
                  std::string roi = {}) {
  if (a.coordinates == CoordinateMode::half_pixel_symmetric) c.need(19);
  if (a.antialias || a.aspect != AspectRatio::stretch || !a.axes.empty()) c.need(18);
  std::vector<OutAttr> attrs = {{"mode", name_of(a.mode)},
                                {"coordinate_transformation_mode", name_of(a.coordinates)},
                                {"nearest_mode", name_of(a.nearest)}};
  if (a.mode == ResizeMode::cubic) {
    attrs.push_back({"cubic_coeff_a", a.cubic_a});
    attrs.push_back({"exclude_outside", int64_t{a.exclude_outside}});
  }
  if (a.antialias) attrs.push_back({"antialias", int64_t{1}});
  if (a.aspect != AspectRatio::stretch)
    attrs.push_back({"keep_aspect_ratio_policy", name_of(a.aspect)});
  if (a.extrapolation != 0) attrs.push_back({"extrapolation_value", a.extrapolation});
  attrs.push_back({"axes", a.axes});
  c.write("Resize", {c.in(0), std::move(roi), std::move(scales), std::move(sizes)},
          std::move(attrs));
}

void export_resize(ExportCtx& c) {
  const ResizeAttrs& a = c.attrs<ResizeAttrs>();
  if (!a.sizes.empty()) return write_resize(c, a, "", c.ints(a.sizes));
  std::vector<float> scales(a.scales.begin(), a.scales.end());
  auto t = TensorData::vector_of(std::span<const float>(scales));
  if (!t.ok()) return c.unsupported(t.status().message());
  write_resize(c, a, c.tensor(*t), "");
}

void export_resize_dyn(ExportCtx& c) {
  write_resize(c, c.attrs<ResizeAttrs>(), c.in(1), c.in(2), c.in(3));
}

constexpr ExportRule kExports[] = {
    {&op::resize, "Resize", export_resize},
    {&op::resize_dyn, "Resize", export_resize_dyn},
};

}  // namespace

std::span<const ImportRule> resize_imports() { return kImports; }
std::span<const ExportRule> resize_exports() { return kExports; }

}  // namespace hone::onnx
