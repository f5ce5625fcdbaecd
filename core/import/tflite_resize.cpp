// SPDX-License-Identifier: Apache-2.0
// TensorFlow Lite's resizing of images.
#include "core/import/tflite_ctx.hpp"

namespace hone::tflite {

namespace {

CoordinateMode coordinates(bool align_corners, bool half_pixel_centers) {
  if (align_corners) return CoordinateMode::align_corners;
  return half_pixel_centers ? CoordinateMode::half_pixel : CoordinateMode::asymmetric;
}

// Resizes to the height and width of input 1. The other two extents stay, whatever they are.
void resize(ImportCtx& c, ResizeAttrs attrs) {
  if (!c.require(2) || !c.require_rank(0, 4)) return;
  const Value x = c.channels_first(0);
  const std::vector<int64_t> e = c.extents(0);
  const auto size = c.ints(1);
  if (size && size->size() != 2) return c.fail("{} extents for height and width", size->size());
  if (size && e[0] >= 0 && e[3] >= 0) {
    attrs.sizes = {e[0], e[3], (*size)[0], (*size)[1]};
    return c.set_channels_first(0, c.emit(op::resize, {x}, attrs));
  }
  const Value kept = c.emit(op::shape_of, {x}, ShapeOfAttrs{0, 2}), wanted = c.indices(1);
  const Value parts[] = {kept, wanted};
  const Value sizes = c.b.emit(op::concat, parts, AxisAttrs{0});
  c.set_channels_first(0, c.emit(op::resize_dyn, {x, Value(), sizes}, attrs));
}

void import_resize_bilinear(ImportCtx& c) {
  const auto* o = c.options<schema::ResizeBilinearOptions>();
  if (!o) return;
  ResizeAttrs attrs;
  attrs.mode = ResizeMode::linear;
  attrs.coordinates = coordinates(o->align_corners(), o->half_pixel_centers());
  resize(c, attrs);
}

// With half_pixel_centers cell i comes from floor((i + 0.5) scale), which is (i + 0.5) scale - 0.5
// rounded with halves up; with align_corners i scale is rounded; else it is cut off.
void import_resize_nearest(ImportCtx& c) {
  const auto* o = c.options<schema::ResizeNearestNeighborOptions>();
  if (!o) return;
  ResizeAttrs attrs;
  attrs.mode = ResizeMode::nearest;
  attrs.coordinates = coordinates(o->align_corners(), o->half_pixel_centers());
  attrs.nearest = attrs.coordinates == CoordinateMode::asymmetric ? NearestMode::floor
                                                                  : NearestMode::round_prefer_ceil;
  resize(c, attrs);
}

constexpr ImportRule kImports[] = {
    {Builtin::RESIZE_BILINEAR, import_resize_bilinear},
    {Builtin::RESIZE_NEAREST_NEIGHBOR, import_resize_nearest, nullptr, Elements::picked},
};

}  // namespace

std::span<const ImportRule> resize_imports() { return kImports; }

}  // namespace hone::tflite
