// SPDX-License-Identifier: Apache-2.0
// ONNX's operators that move elements without computing: transposing, joining, cutting, padding,
// repeating.
#include <numeric>

#include "core/import/evaluate.hpp"
#include "core/import/onnx_families.hpp"
#include "hone/op_attrs_index.hpp"

namespace hone::onnx {

namespace {

void import_transpose(ImportCtx& c) {
  if (c.require(1)) c.set(0, c.emit(op::transpose, {c.in(0)}, PermAttrs{c.attr_ints("perm")}));
}

// Expand broadcasts both ways; a known shape is an attribute.
void import_expand(ImportCtx& c) {
  if (!c.require(2)) return;
  if (const auto shape = c.ints(1)) {
    const int rank = c.rank(0) < 0 ? -1 : std::max(c.rank(0), static_cast<int>(shape->size()));
    return c.set(0, c.emit(op::expand, {c.in(0)}, ShapeAttrs{*shape, true}), {c.dtype(0), rank});
  }
  c.set(0, c.emit(op::expand_dyn, {c.in(0), c.in(1)}), {c.dtype(0), -1});
}

void import_tile(ImportCtx& c) {
  if (!c.require(2)) return;
  if (const auto repeats = c.ints(1))
    return c.set(0, c.emit(op::tile, {c.in(0)}, RepeatsAttrs{*repeats}));
  c.set(0, c.emit(op::tile_dyn, {c.in(0), c.in(1)}));
}

void import_concat(ImportCtx& c) {
  if (!c.require(1)) return;
  if (c.opset >= 4 && !c.has_attr("axis")) return c.fail("attribute 'axis' is missing");
  c.set(0, c.b.emit(op::concat, c.inputs(), AxisAttrs{c.attr("axis", int64_t{1})}));
}

// Sizes are an input from opset 13 on, an attribute before. Without sizes the parts are equal; from
// 18 on the last may be smaller.
void import_split(ImportCtx& c) {
  if (!c.require(1)) return;
  SplitAttrs attrs{c.attr("axis", int64_t{0}), {}, 0};
  if (c.has(1)) {
    const auto sizes = c.ints(1);
    if (!sizes) {
      const auto outs =
          c.b.emit_all(op::split_dyn, c.inputs().first(2), AxisAttrs{attrs.axis}, c.outputs());
      for (size_t i = 0; i < outs.size(); ++i) c.set(static_cast<int>(i), outs[i]);
      return;
    }
    attrs.sizes = *sizes;
  } else {
    attrs.sizes = c.attr_ints("split");
  }
  if (attrs.sizes.empty()) attrs.parts = c.attr("num_outputs", int64_t{c.outputs()});
  const size_t parts = attrs.sizes.empty() ? static_cast<size_t>(attrs.parts) : attrs.sizes.size();
  if (parts != static_cast<size_t>(c.outputs()))
    return c.fail("splits into {} parts, has {} outputs", parts, c.outputs());
  const std::vector<Value> outs = c.b.emit_all(op::split, c.inputs().first(1), attrs, c.outputs());
  for (size_t i = 0; i < outs.size(); ++i) c.set(static_cast<int>(i), outs[i]);
}

// Before opset 10 everything is an attribute.
void import_slice_attributes(ImportCtx& c) {
  if (!c.require(1)) return;
  c.set(0, c.emit(op::slice, {c.in(0)},
                  SliceAttrs{c.attr_ints("starts"), c.attr_ints("ends"), c.attr_ints("axes"), {}}));
}

void import_slice(ImportCtx& c) {
  if (!c.require(3)) return;
  const auto starts = c.ints(1), ends = c.ints(2), axes = c.ints(3), steps = c.ints(4);
  const bool known = starts && ends && (axes || !c.has(3)) && (steps || !c.has(4));
  if (!known) return c.set(0, c.emit(op::slice_dyn, {c.in(0), c.in(1), c.in(2), c.in(3), c.in(4)}));
  const std::vector<int64_t> none;
  c.set(0, c.emit(op::slice, {c.in(0)},
                  SliceAttrs{*starts, *ends, axes.value_or(none), steps.value_or(none)}));
}

PadMode pad_mode(ImportCtx& c) {
  return c.attr_enum("mode", {"constant", "reflect", "edge", "wrap"}, PadMode::constant);
}

void import_pad_attributes(ImportCtx& c) {
  if (!c.require(1)) return;
  PadAttrs attrs;
  read_pads(c, attrs.before, attrs.after);
  attrs.mode = pad_mode(c);
  attrs.value = c.attr("value", 0.0);
  c.set(0, c.emit(op::pad, {c.in(0)}, attrs));
}

// Fills in before and after of each axis; false when that cannot be said without the shape.
bool pads_of_all_axes(ImportCtx& c, PadAttrs& attrs) {
  const auto pads = c.ints(1);
  if (!pads || pads->size() % 2 != 0) return false;
  const size_t count = pads->size() / 2;
  std::vector<int64_t> axes;
  for (size_t i = 0; i < count; ++i) axes.push_back(static_cast<int64_t>(i));
  size_t rank = count;
  if (c.has(3)) {
    const auto given = c.ints(3);
    if (!given || c.rank(0) < 0 || given->size() != count) return false;
    axes = *given;
    rank = static_cast<size_t>(c.rank(0));
  }
  attrs.before.assign(rank, 0);
  attrs.after.assign(rank, 0);
  for (size_t i = 0; i < count; ++i) {
    const auto axis = static_cast<size_t>(front_axis(axes[i], static_cast<int>(rank)));
    if (axis >= rank) return false;
    attrs.before[axis] = (*pads)[i];
    attrs.after[axis] = (*pads)[count + i];
  }
  return true;
}

void import_pad(ImportCtx& c) {
  if (!c.require(2)) return;
  PadAttrs attrs;
  attrs.mode = pad_mode(c);
  const auto value = c.has(2) ? c.number(2) : 0.0;
  if (value && pads_of_all_axes(c, attrs)) {
    attrs.value = *value;
    return c.set(0, c.emit(op::pad, {c.in(0)}, attrs));
  }
  c.set(0, c.emit(op::pad_dyn, {c.in(0), c.in(1), c.in(2), c.in(3)}, PadDynAttrs{attrs.mode}));
}

void import_trilu(ImportCtx& c) {
  if (!c.require(1)) return;
  const auto k = c.has(1) ? c.number(1) : 0.0;
  if (!k)
    return c.set(0,
                 c.emit(op::trilu_dyn, {c.in(0), c.in(1)}, TriluDynAttrs{c.flag("upper", true)}));
  c.set(0,
        c.emit(op::trilu, {c.in(0)}, TriluAttrs{static_cast<int64_t>(*k), c.flag("upper", true)}));
}

// DepthToSpace and SpaceToDepth are a reshape to six axes, a transpose and a reshape back. The
// extents are computed from the input's shape (N, C, H, W), which need not be known yet.
struct ImageShape {
  ImportCtx& c;
  Value extent(int64_t axis) const { return c.shape_of(c.in(0), ShapeOfAttrs{axis, axis + 1}); }
  Value number(int64_t v) const { return c.ints_value({v}); }
  Value times(Value a, int64_t v) const { return c.emit(op::mul, {a, number(v)}); }
  Value over(Value a, int64_t v) const { return c.emit(op::div, {a, number(v)}); }
  Value reshape(Value x, std::initializer_list<Value> extents) const {
    return c.reshape(x, c.emit(op::concat, extents, AxisAttrs{0}), true);
  }
};

void import_depth_to_space(ImportCtx& c) {
  if (!c.require(1)) return;
  const int64_t block = c.attr("blocksize", int64_t{0});
  const bool depth_first = c.attr_enum("mode", {"DCR", "CRD"}, 0) == 0;
  if (block < 1 || block > 1 << 15) return c.fail("blocksize is {}", block);
  const ImageShape s{c};
  const Value n = s.extent(0), depth = s.over(s.extent(1), block * block), h = s.extent(2),
              w = s.extent(3);
  const Value side = s.number(block);
  const Value six = depth_first ? s.reshape(c.in(0), {n, side, side, depth, h, w})
                                : s.reshape(c.in(0), {n, depth, side, side, h, w});
  const PermAttrs perm{depth_first ? std::vector<int64_t>{0, 3, 4, 1, 5, 2}
                                   : std::vector<int64_t>{0, 1, 4, 2, 5, 3}};
  c.set(0,
        s.reshape(c.emit(op::transpose, {six}, perm),
                  {n, depth, s.times(h, block), s.times(w, block)}),
        {c.dtype(0), 4});
}

void import_space_to_depth(ImportCtx& c) {
  if (!c.require(1)) return;
  const int64_t block = c.attr("blocksize", int64_t{0});
  if (block < 1 || block > 1 << 15) return c.fail("blocksize is {}", block);
  const ImageShape s{c};
  const Value n = s.extent(0), depth = s.extent(1), h = s.over(s.extent(2), block),
              w = s.over(s.extent(3), block);
  const Value side = s.number(block);
  const Value six = s.reshape(c.in(0), {n, depth, h, side, w, side});
  const Value moved = c.emit(op::transpose, {six}, PermAttrs{{0, 3, 5, 1, 2, 4}});
  c.set(0, s.reshape(moved, {n, s.times(depth, block * block), h, w}), {c.dtype(0), 4});
}

void import_center_crop_pad(ImportCtx& c) {
  if (c.require(2))
    c.set(0, c.emit(op::center_crop_pad_dyn, {c.in(0), c.in(1)}, AxesAttrs{c.attr_ints("axes")}));
}

void import_reverse_sequence(ImportCtx& c) {
  if (!c.require(2)) return;
  const ReverseSequenceAttrs attrs{c.attr("batch_axis", int64_t{1}),
                                   c.attr("time_axis", int64_t{0})};
  c.set(0, c.emit(op::reverse_sequence, {c.in(0), c.in(1)}, attrs));
}

constexpr ImportRule kImports[] = {
    {"CenterCropPad", 18, import_center_crop_pad},
    {"Concat", 1, import_concat},
    {"DepthToSpace", 1, import_depth_to_space},
    {"Expand", 8, import_expand},
    {"Pad", 2, import_pad_attributes},
    {"Pad", 11, import_pad},
    {"ReverseSequence", 10, import_reverse_sequence},
    {"Slice", 1, import_slice_attributes},
    {"Slice", 10, import_slice},
    {"SpaceToDepth", 1, import_space_to_depth},
    {"Split", 1, import_split},
    {"Tile", 6, import_tile},
    {"Transpose", 1, import_transpose},
    {"Trilu", 14, import_trilu},
};

void export_transpose(ExportCtx& c) {
  c.write("Transpose", {c.in(0)}, {{"perm", c.attrs<PermAttrs>().perm}});
}

void export_expand(ExportCtx& c) {
  c.write("Expand", {c.in(0), c.ints(c.attrs<ShapeAttrs>().shape)});
}

void export_tile(ExportCtx& c) {
  c.write("Tile", {c.in(0), c.ints(c.attrs<RepeatsAttrs>().repeats)});
}

void export_concat(ExportCtx& c) {
  c.write("Concat", c.inputs(), {{"axis", c.attrs<AxisAttrs>().axis}});
}

// Parts that may be unequal have been there since opset 18.
void export_split(ExportCtx& c) {
  const SplitAttrs& a = c.attrs<SplitAttrs>();
  if (!a.sizes.empty()) return c.write("Split", {c.in(0), c.ints(a.sizes)}, {{"axis", a.axis}});
  c.need(18);
  c.write("Split", {c.in(0)}, {{"axis", a.axis}, {"num_outputs", a.parts}});
}

// Which indices of an axis a slice takes, in its order.
Result<std::vector<int64_t>> taken_by_slice(int64_t size, int64_t start, int64_t end,
                                            int64_t step) {
  std::vector<int64_t> all(static_cast<size_t>(size));
  std::iota(all.begin(), all.end(), 0);
  HONE_ASSIGN(const TensorData indices, TensorData::vector_of(std::span<const int64_t>(all)));
  HONE_ASSIGN(const TensorData taken,
              evaluate(op::slice, {&indices, 1}, SliceAttrs{{start}, {end}, {0}, {step}}));
  return to_ints(taken);
}

void export_slice(ExportCtx& c) {
  const SliceAttrs& a = c.attrs<SliceAttrs>();
  const auto given = [&](const std::vector<int64_t>& v) {
    return v.empty() ? std::string() : c.ints(v);
  };
  c.write("Slice", {c.in(0), c.ints(a.starts), c.ints(a.ends), given(a.axes), given(a.steps)});
}

// Zeros between and around what a slice took: around it with Pad; where a step is not 1 every index
// gathers its element, or a zero that Pad has put at the end of the axis.
void export_unslice(ExportCtx& c) {
  const UnsliceAttrs& a = c.attrs<UnsliceAttrs>();
  const size_t rank = a.shape.size();
  std::vector<int64_t> pads(2 * rank);
  std::vector<std::pair<size_t, std::vector<int64_t>>> spread;
  for (size_t k = 0; k < a.slice.starts.size(); ++k) {
    const int64_t named = a.slice.axes.empty() ? static_cast<int64_t>(k) : a.slice.axes[k];
    const size_t axis = static_cast<size_t>(named < 0 ? named + static_cast<int64_t>(rank) : named);
    const int64_t step = a.slice.steps.empty() ? 1 : a.slice.steps[k], size = a.shape[axis];
    const auto taken = taken_by_slice(size, a.slice.starts[k], a.slice.ends[k], step);
    if (!taken.ok()) return c.unsupported(taken.status().message());
    const int64_t count = static_cast<int64_t>(taken->size());
    if (step == 1 || count == 0) {
      pads[axis] = count == 0 ? 0 : taken->front();
      pads[rank + axis] = size - count - pads[axis];
      continue;
    }
    std::vector<int64_t> from(static_cast<size_t>(size), count);
    for (int64_t i = 0; i < count; ++i)
      from[static_cast<size_t>((*taken)[static_cast<size_t>(i)])] = i;
    pads[rank + axis] = 1;
    spread.emplace_back(axis, std::move(from));
  }
  if (spread.empty()) return c.write("Pad", {c.in(0), c.ints(pads)});
  std::string v = c.part("Pad", {c.in(0), c.ints(pads)});
  for (size_t i = 0; i < spread.size(); ++i) {
    const std::vector<OutAttr> axis = {{"axis", static_cast<int64_t>(spread[i].first)}};
    const std::string from = c.ints(spread[i].second);
    if (i + 1 == spread.size()) return c.write("Gather", {v, from}, axis);
    v = c.part("Gather", {v, from}, axis);
  }
}

void export_pad(ExportCtx& c) {
  const PadAttrs& a = c.attrs<PadAttrs>();
  std::vector<int64_t> pads = a.before;
  pads.insert(pads.end(), a.after.begin(), a.after.end());
  if (a.mode == PadMode::wrap) c.need(19);
  const std::string value =
      a.mode == PadMode::constant && a.value != 0 ? c.number(a.value, c.dtype(0)) : std::string();
  c.write("Pad", {c.in(0), c.ints(pads), value},
          {{"mode", enum_names(a.mode)[static_cast<size_t>(a.mode)]}});
}

void export_pad_dyn(ExportCtx& c) {
  const PadMode mode = c.attrs<PadDynAttrs>().mode;
  if (mode == PadMode::wrap) c.need(19);
  if (c.has(3)) c.need(18);
  c.write("Pad", c.inputs(), {{"mode", enum_names(mode)[static_cast<size_t>(mode)]}});
}

void export_trilu(ExportCtx& c) {
  const TriluAttrs& a = c.attrs<TriluAttrs>();
  c.write("Trilu", {c.in(0), c.number(static_cast<double>(a.k), DType::i64)},
          {{"upper", int64_t{a.upper}}});
}

void export_split_dyn(ExportCtx& c) {
  c.write("Split", c.inputs(), {{"axis", c.attrs<AxisAttrs>().axis}});
}

void export_trilu_dyn(ExportCtx& c) {
  c.write("Trilu", c.inputs(), {{"upper", int64_t{c.attrs<TriluDynAttrs>().upper}}});
}

void export_center_crop_pad(ExportCtx& c) {
  c.need(18);
  c.write("CenterCropPad", c.inputs(), {{"axes", c.attrs<AxesAttrs>().axes}});
}

void export_reverse_sequence(ExportCtx& c) {
  const ReverseSequenceAttrs& a = c.attrs<ReverseSequenceAttrs>();
  c.write("ReverseSequence", c.inputs(),
          {{"batch_axis", a.batch_axis}, {"time_axis", a.time_axis}});
}

constexpr ExportRule kExports[] = {
    {&op::center_crop_pad_dyn, "CenterCropPad", export_center_crop_pad},
    {&op::concat, "Concat", export_concat},
    {&op::expand, "Expand", export_expand},
    {&op::expand_dyn, "Expand"},
    {&op::pad, "Pad", export_pad},
    {&op::pad_dyn, "Pad", export_pad_dyn},
    {&op::reverse_sequence, "ReverseSequence", export_reverse_sequence},
    {&op::slice, "Slice", export_slice},
    {&op::slice_dyn, "Slice"},
    {&op::split, "Split", export_split},
    {&op::split_dyn, "Split", export_split_dyn},
    {&op::tile, "Tile", export_tile},
    {&op::tile_dyn, "Tile"},
    {&op::transpose, "Transpose", export_transpose},
    {&op::trilu, "Trilu", export_trilu},
    {&op::trilu_dyn, "Trilu", export_trilu_dyn},
    {&op::unslice, "", export_unslice},
};

}  // namespace

std::span<const ImportRule> movement_imports() { return kImports; }
std::span<const ExportRule> movement_exports() { return kExports; }

}  // namespace hone::onnx
