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
  a.coordinates = c.attr_enum(
      "coordinate_transformation_mode",
      {"half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel", "half_pixel_symmetric"},
      CoordinateMode::half_pixel);
  a.nearest =
      c.attr_enum("nearest_mode", {"round_prefer_floor", "round_prefer_ceil", "floor", "ceil"},
                  NearestMode::round_prefer_floor);
  a.cubic_a = c.attr("cubic_coeff_a", -0.75);
  a.exclude_outside = c.flag("exclude_outside");
  c.ignore("extrapolation_value");  // for tf_crop_and_resize, which is unsupported
  if (c.flag("antialias")) c.unsupported("with antialias=1");
  if (c.attr("keep_aspect_ratio_policy", std::string_view("stretch")) != "stretch")
    c.unsupported("with a keep_aspect_ratio_policy");
  return a;
}

// `part` has one entry for each of `axes`: spread over all axes, the others are taken from `whole`,
// a vector.
Value spread(ImportCtx& c, Value part, std::span<const int64_t> axes, Value whole) {
  std::vector<Value> entries;
  for (int axis = 0; axis < c.rank(0); ++axis) {
    Value from = whole;
    int64_t at = axis;
    for (size_t i = 0; i < axes.size(); ++i)
      if (front_axis(axes[i], c.rank(0)) == axis) {
        from = part;
        at = static_cast<int64_t>(i);
      }
    entries.push_back(c.emit(op::slice, {from}, SliceAttrs{{at}, {at + 1}, {0}, {}}));
  }
  return c.b.emit(op::concat, entries, AxisAttrs{0});
}

// An input of no elements is as good as left out.
Value given(ImportCtx& c, int i) {
  const TensorData* t = c.constant(i);
  return t && t->numel() == 0 ? Value() : c.in(i);
}

void import_resize(ImportCtx& c) {
  if (!c.require(1)) return;
  const ResizeAttrs attrs = resize_attrs(c);
  const std::vector<int64_t> axes = c.attr_ints("axes");
  Value scales = given(c, 2), sizes = given(c, 3);
  if (scales.valid() == sizes.valid())
    return c.fail("exactly one of scales and sizes must be given");
  if (!axes.empty()) {
    if (c.rank(0) < 0) return c.unsupported("with axes for an input whose rank is not known");
    const TensorType ones{c.dtype(2), {c.rank(0)}};
    if (scales.valid())
      scales =
          spread(c, scales, axes, c.b.emit(op::fill, {}, FillAttrs{{c.rank(0)}, ones.dtype, 1}));
    else
      sizes = spread(c, sizes, axes, c.shape_of(c.in(0)));
  }
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

void write_resize(ExportCtx& c, const ResizeAttrs& a, std::string scales, std::string sizes) {
  if (a.coordinates == CoordinateMode::half_pixel_symmetric) c.need(19);
  std::vector<OutAttr> attrs = {{"mode", name_of(a.mode)},
                                {"coordinate_transformation_mode", name_of(a.coordinates)},
                                {"nearest_mode", name_of(a.nearest)}};
  if (a.mode == ResizeMode::cubic) {
    attrs.push_back({"cubic_coeff_a", a.cubic_a});
    attrs.push_back({"exclude_outside", int64_t{a.exclude_outside}});
  }
  c.write("Resize", {c.in(0), "", std::move(scales), std::move(sizes)}, std::move(attrs));
}

void export_resize(ExportCtx& c) {
  const ResizeAttrs& a = c.attrs<ResizeAttrs>();
  if (!a.sizes.empty()) return write_resize(c, a, "", c.ints(a.sizes));
  std::vector<float> scales(a.scales.begin(), a.scales.end());
  auto t = TensorData::vector_of(std::span<const float>(scales));
  if (!t.ok()) return c.unsupported(t.status().message());
  write_resize(c, a, c.tensor(*t), "");
}

void export_resize_dyn(ExportCtx& c) { write_resize(c, c.attrs<ResizeAttrs>(), c.in(1), c.in(2)); }

constexpr ExportRule kExports[] = {
    {&op::resize, "Resize", export_resize},
    {&op::resize_dyn, "Resize", export_resize_dyn},
};

}  // namespace

std::span<const ImportRule> resize_imports() { return kImports; }
std::span<const ExportRule> resize_exports() { return kExports; }

}  // namespace hone::onnx
