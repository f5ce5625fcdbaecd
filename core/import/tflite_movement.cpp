// SPDX-License-Identifier: Apache-2.0
// TensorFlow Lite's operators that move elements without computing: joining, cutting, padding.
#include <algorithm>
#include <limits>

#include "core/import/tflite_ctx.hpp"

namespace hone::tflite {

namespace {

constexpr int64_t kFromEnd = std::numeric_limits<int64_t>::max();
constexpr int64_t kThroughStart = std::numeric_limits<int64_t>::min();

void import_transpose(ImportCtx& c) {
  if (!c.require(2)) return;
  c.set(0, c.emit(op::transpose, {c.in(0)}, PermAttrs{c.fixed_ints(1, "axes")}));
}

void import_concatenation(ImportCtx& c) {
  const auto* o = c.options<schema::ConcatenationOptions>();
  if (!o || !c.require(1) || !c.require(c.size())) return;
  bool first = false;
  std::vector<Value> parts;
  for (int i = 0; i < c.size(); ++i) first |= c.prefers_channels_first(i);
  for (int i = 0; i < c.size(); ++i) {
    if (c.rank(i) != c.rank(0))
      return c.fail("input {} has {} dimensions, input 0 {}", i, c.rank(i), c.rank(0));
    parts.push_back(first ? c.channels_first(i) : c.in(i));
  }
  const int64_t axis = first ? channels_first_axis(o->axis()) : o->axis();
  c.set(0, c.activate(c.b.emit(op::concat, parts, AxisAttrs{axis}), o->activation()), first);
}

// ---- splitting

void split(ImportCtx& c, int i, SplitAttrs attrs) {
  const bool first = c.prefers_channels_first(i);
  if (first) attrs.axis = channels_first_axis(attrs.axis);
  const Value x = first ? c.channels_first(i) : c.in(i);
  const std::vector<Value> outs = c.b.emit_all(op::split, {&x, 1}, attrs, c.outputs());
  if (outs.size() != static_cast<size_t>(c.outputs())) return;
  for (size_t k = 0; k < outs.size(); ++k) c.set(static_cast<int>(k), outs[k], first);
}

// Inputs: axis, what is split.
void import_split(ImportCtx& c) {
  const auto* o = c.options<schema::SplitOptions>();
  if (!o || !c.require(2)) return;
  if (o->num_splits() != c.outputs() || c.outputs() < 1)
    return c.fail("splits into {} parts, has {} outputs", o->num_splits(), c.outputs());
  split(c, 1, {c.fixed_int(0, "the axis"), {}, o->num_splits()});
}

// Inputs: what is split, sizes (one may be -1: the rest), axis.
void import_split_v(ImportCtx& c) {
  if (!c.require(3)) return;
  SplitAttrs attrs{c.fixed_int(2, "the axis"), c.fixed_ints(1, "sizes"), 0};
  if (!c.missing().empty()) return;
  if (attrs.sizes.size() != static_cast<size_t>(c.outputs()))
    return c.fail("splits into {} parts, has {} outputs", attrs.sizes.size(), c.outputs());
  const auto rest = std::find(attrs.sizes.begin(), attrs.sizes.end(), -1);
  if (rest != attrs.sizes.end()) {
    const std::vector<int64_t> extents = c.extents(0);
    const int64_t axis = attrs.axis < 0 ? attrs.axis + c.rank(0) : attrs.axis;
    if (axis < 0 || axis >= c.rank(0)) return c.fail("axis {} does not exist", attrs.axis);
    int64_t left = extents[static_cast<size_t>(axis)];
    if (left < 0) return c.unsupported("of a free extent with a size of -1");
    for (const int64_t n : attrs.sizes) {
      if (n > left) return c.fail("parts of {} are more than {}", n, left);
      if (n >= 0) left -= n;
    }
    *rest = left;
  }
  split(c, 0, attrs);
}

void import_unpack(ImportCtx& c) {
  const auto* o = c.options<schema::UnpackOptions>();
  if (!o || !c.require(1)) return;
  if (o->num() != c.outputs() || c.outputs() < 1)
    return c.fail("unpacks {} parts, has {} outputs", o->num(), c.outputs());
  const Value x = c.in(0);
  const std::vector<Value> outs =
      c.b.emit_all(op::split, {&x, 1}, SplitAttrs{o->axis(), {}, o->num()}, c.outputs());
  if (outs.size() != static_cast<size_t>(c.outputs())) return;
  for (size_t k = 0; k < outs.size(); ++k)
    c.set(static_cast<int>(k), c.emit(op::squeeze, {outs[k]}, AxesAttrs{{o->axis()}}));
}

void import_pack(ImportCtx& c) {
  const auto* o = c.options<schema::PackOptions>();
  if (!o || !c.require(1) || !c.require(c.size())) return;
  std::vector<Value> parts;
  for (int i = 0; i < c.size(); ++i)
    parts.push_back(c.emit(op::unsqueeze, {c.in(i)}, AxesAttrs{{o->axis()}}));
  c.set(0, c.b.emit(op::concat, parts, AxisAttrs{o->axis()}));
}

// ---- cutting

// Inputs: x, begins, sizes (-1: the rest).
void import_slice(ImportCtx& c) {
  if (!c.require(3)) return;
  SliceAttrs attrs;
  const auto begins = c.ints(1), sizes = c.ints(2);
  if (!begins || !sizes) {
    const Value begin = c.indices(1), size = c.indices(2);
    const Value is_rest = c.emit(op::less, {size, c.b.scalar(0, DType::i64)});
    auto far = TensorData::scalar_of(kFromEnd);
    if (!far.ok()) return c.fail(far.status());
    const Value end =
        c.emit(op::where, {is_rest, c.b.constant(std::move(*far)), c.emit(op::add, {begin, size})});
    return c.set(0, c.emit(op::slice_dyn, {c.in(0), begin, end}));
  }
  if (begins->size() != sizes->size())
    return c.fail("{} begins, {} sizes", begins->size(), sizes->size());
  for (size_t k = 0; k < begins->size(); ++k) {
    const int64_t begin = (*begins)[k], size = (*sizes)[k];
    if (begin < 0 || size < -1 || begin > kFromEnd - std::max<int64_t>(size, 0))
      return c.fail("{} elements from {} are no slice", size, begin);
    attrs.starts.push_back(begin);
    attrs.ends.push_back(size < 0 ? kFromEnd : begin + size);
    attrs.axes.push_back(static_cast<int64_t>(k));
  }
  c.set(0, c.emit(op::slice, {c.in(0)}, attrs));
}

// What TensorFlow's x[begin:end:stride, ..., newaxis, index] comes to.
struct Cutting {
  SliceAttrs slice;
  AxesAttrs dropped;   // of the input
  AxesAttrs inserted;  // of the output
};

bool bit(int64_t mask, size_t k) { return k < 31 && ((mask >> k) & 1) != 0; }

void cut_axis(Cutting& out, int64_t axis, int64_t begin, int64_t end, int64_t stride) {
  out.slice.axes.push_back(axis);
  out.slice.starts.push_back(begin);
  out.slice.ends.push_back(end);
  out.slice.steps.push_back(stride);
}

Cutting read_strided_slice(ImportCtx& c, const schema::StridedSliceOptions& o) {
  Cutting out;
  const std::vector<int64_t> begin = c.fixed_ints(1, "begins"), end = c.fixed_ints(2, "ends"),
                             stride = c.fixed_ints(3, "strides");
  if (!c.missing().empty()) return out;
  if (begin.size() != end.size() || begin.size() != stride.size() || begin.size() > 31) {
    c.fail("{} begins, {} ends, {} strides", begin.size(), end.size(), stride.size());
    return out;
  }
  constexpr int64_t kLargest = int64_t{1} << 31;  // what an int32 holds, which bounds usually are
  for (size_t k = 0; k < begin.size(); ++k)
    if (std::max(begin[k], end[k]) > kLargest || std::min(begin[k], end[k]) < -kLargest) {
      c.fail("entry {} is from {} to {}", k, begin[k], end[k]);
      return out;
    }
  int64_t named = 0;  // axes of the input that an entry stands for
  for (size_t k = 0; k < begin.size(); ++k)
    named += !bit(o.ellipsis_mask(), k) && !bit(o.new_axis_mask(), k);
  int64_t axis = 0, to = 0;
  for (size_t k = 0; k < begin.size(); ++k) {
    if (bit(o.ellipsis_mask(), k)) {
      const int64_t skipped = std::max<int64_t>(c.rank(0) - named, 0);
      axis += skipped;
      to += skipped;
    } else if (bit(o.new_axis_mask(), k)) {
      out.inserted.axes.push_back(to++);
    } else if (bit(o.shrink_axis_mask(), k)) {
      cut_axis(out, axis, begin[k], begin[k] == -1 ? kFromEnd : begin[k] + 1, 1);
      out.dropped.axes.push_back(axis++);
    } else {
      if (stride[k] == 0) c.fail("stride {} is 0", k);
      const bool back = stride[k] < 0;
      const int64_t from = bit(o.begin_mask(), k) ? (back ? kFromEnd : 0) : begin[k];
      const int64_t until = o.offset() ? begin[k] + end[k] : end[k];
      cut_axis(out, axis++, from, bit(o.end_mask(), k) ? (back ? kThroughStart : kFromEnd) : until,
               stride[k]);
      ++to;
    }
  }
  return out;
}

void import_strided_slice(ImportCtx& c) {
  const auto* o = c.options<schema::StridedSliceOptions>();
  if (!o || !c.require(4)) return;
  const Cutting cutting = read_strided_slice(c, *o);
  if (!c.missing().empty() || !c.status().ok()) return;
  Value v = c.in(0);
  if (!cutting.slice.axes.empty()) v = c.emit(op::slice, {v}, cutting.slice);
  if (!cutting.dropped.axes.empty()) v = c.emit(op::squeeze, {v}, cutting.dropped);
  if (!cutting.inserted.axes.empty()) v = c.emit(op::unsqueeze, {v}, cutting.inserted);
  c.set(0, v);
}

void import_reverse(ImportCtx& c) {
  if (!c.require(2)) return;
  SliceAttrs attrs;
  attrs.axes = c.fixed_ints(1, "axes");
  attrs.starts.assign(attrs.axes.size(), kFromEnd);
  attrs.ends.assign(attrs.axes.size(), kThroughStart);
  attrs.steps.assign(attrs.axes.size(), -1);
  c.set(0, c.emit(op::slice, {c.in(0)}, attrs));
}

// ---- padding

// Reads pairs of what is added before and after each axis of input 0; false when that fails.
bool read_paddings(ImportCtx& c, PadAttrs& attrs) {
  const std::vector<int64_t> pairs = c.fixed_ints(1, "paddings");
  if (!c.missing().empty()) return false;
  if (pairs.size() != 2 * static_cast<size_t>(c.rank(0))) {
    c.fail("{} paddings for {} dimensions", pairs.size(), c.rank(0));
    return false;
  }
  for (size_t k = 0; k < pairs.size(); k += 2) {
    if (std::min(pairs[k], pairs[k + 1]) < 0) c.fail("a padding of axis {} is negative", k / 2);
    attrs.before.push_back(pairs[k]);
    attrs.after.push_back(pairs[k + 1]);
  }
  return c.status().ok();
}

void pad(ImportCtx& c, PadAttrs attrs) {
  const bool first = c.prefers_channels_first(0);
  const auto reorder = [](std::vector<int64_t>& v) { v = {v[0], v[3], v[1], v[2]}; };
  if (first && attrs.before.size() == 4) reorder(attrs.before), reorder(attrs.after);
  c.set(0, c.emit(op::pad, {first ? c.channels_first(0) : c.in(0)}, attrs), first);
}

void import_pad(ImportCtx& c) {
  PadAttrs attrs;
  if (!c.require(2) || !read_paddings(c, attrs)) return;
  if (c.has(2)) {
    const auto value = c.number(2);
    if (!value) return c.unsupported("with a value that is computed");
    attrs.value = *value;
  }
  pad(c, std::move(attrs));
}

// With the edge itself repeated: the first cells turned round before, the last ones after.
Value mirrored(ImportCtx& c, Value v, int64_t axis, int64_t before, int64_t after) {
  std::vector<Value> parts;
  if (before > 0)
    parts.push_back(
        c.emit(op::slice, {v}, SliceAttrs{{before - 1}, {kThroughStart}, {axis}, {-1}}));
  parts.push_back(v);
  if (after > 0)
    parts.push_back(c.emit(op::slice, {v}, SliceAttrs{{kFromEnd}, {-after - 1}, {axis}, {-1}}));
  return c.b.emit(op::concat, parts, AxisAttrs{axis});
}

void import_mirror_pad(ImportCtx& c) {
  const auto* o = c.options<schema::MirrorPadOptions>();
  PadAttrs attrs;
  if (!o || !c.require(2) || !read_paddings(c, attrs)) return;
  if (o->mode() == schema::MirrorMode::reflect) {
    attrs.mode = PadMode::reflect;
    return pad(c, std::move(attrs));
  }
  Value v = c.in(0);
  const std::vector<int64_t> extents = c.extents(0);
  for (size_t k = 0; k < extents.size(); ++k) {
    const int64_t most = std::max(attrs.before[k], attrs.after[k]);
    if (most == 0) continue;
    if (extents[k] >= 0 && most > extents[k])
      return c.fail("axis {} of extent {} is padded by {}", k, extents[k], most);
    v = mirrored(c, v, static_cast<int64_t>(k), attrs.before[k], attrs.after[k]);
  }
  c.set(0, v);
}

constexpr ImportRule kImports[] = {
    {Builtin::CONCATENATION, import_concatenation, nullptr, Elements::picked},
    {Builtin::MIRROR_PAD, import_mirror_pad, nullptr, Elements::picked},
    {Builtin::PACK, import_pack, nullptr, Elements::picked},
    {Builtin::PAD, import_pad, nullptr, Elements::picked},
    {Builtin::PADV2, import_pad, nullptr, Elements::picked},
    {Builtin::REVERSE_V2, import_reverse, nullptr, Elements::picked},
    {Builtin::SLICE, import_slice, nullptr, Elements::picked},
    {Builtin::SPLIT, import_split, nullptr, Elements::picked},
    {Builtin::SPLIT_V, import_split_v, nullptr, Elements::picked},
    {Builtin::STRIDED_SLICE, import_strided_slice, nullptr, Elements::picked},
    {Builtin::TRANSPOSE, import_transpose, nullptr, Elements::picked},
    {Builtin::UNPACK, import_unpack, nullptr, Elements::picked},
};

}  // namespace

std::span<const ImportRule> movement_imports() { return kImports; }

}  // namespace hone::tflite
