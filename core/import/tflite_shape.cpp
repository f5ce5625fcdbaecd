// SPDX-License-Identifier: Apache-2.0
// TensorFlow Lite's operators on shapes, and those that make tensors of nothing: fills, ranges.
#include "core/import/tflite_ctx.hpp"

namespace hone::tflite {

namespace {

// The shape is an input; in old files it is an option, where a single 0 stands for a scalar.
void import_reshape(ImportCtx& c) {
  if (!c.require(1)) return;
  if (c.has(1)) {
    if (const auto shape = c.ints(1))
      return c.set(0, c.emit(op::reshape, {c.in(0)}, ShapeAttrs{*shape, true}));
    return c.set(0, c.emit(op::reshape_dyn, {c.in(0), c.indices(1)}, AllowZeroAttrs{true}));
  }
  const auto* o = c.options<schema::ReshapeOptions>();
  if (!o) return;
  const std::span<const int32_t> given = File::list(o->new_shape());
  std::vector<int64_t> shape(given.begin(), given.end());
  if (shape == std::vector<int64_t>{0}) shape.clear();
  c.set(0, c.emit(op::reshape, {c.in(0)}, ShapeAttrs{shape, true}));
}

void import_squeeze(ImportCtx& c) {
  const auto* o = c.options<schema::SqueezeOptions>();
  if (!o || !c.require(1)) return;
  const std::span<const int32_t> axes = File::list(o->squeeze_dims());
  c.set(0, c.emit(op::squeeze, {c.in(0)}, AxesAttrs{{axes.begin(), axes.end()}}));
}

void import_expand_dims(ImportCtx& c) {
  if (!c.require(2)) return;
  c.set(0, c.emit(op::unsqueeze, {c.in(0)}, AxesAttrs{{c.fixed_int(1, "the axis")}}));
}

void import_shape(ImportCtx& c) {
  if (!c.require(1) || c.outputs() < 1) return;
  const Value x = c.in(0);
  if (!x.valid()) return;
  const ValueInfo& info = c.b.graph().value(x.id());
  const bool known = info.typed && info.type.shape.concrete();
  const Value shape = known ? c.b.ints(info.type.shape.dims()) : c.emit(op::shape_of, {x});
  c.set(0, c.cast(shape, DType::i64, c.out_dtype(0)));
}

void import_rank(ImportCtx& c) {
  if (c.require(1) && c.outputs() == 1) c.set(0, c.b.scalar(c.rank(0), c.out_dtype(0)));
}

// Inputs: shape, value.
void import_fill(ImportCtx& c) {
  if (!c.require(2)) return;
  const auto shape = c.ints(0);
  const auto value = c.number(1);
  const DType dtype = c.dtype(1);
  if (shape && value) return c.set(0, c.b.emit(op::fill, {}, FillAttrs{*shape, dtype, *value}));
  if (value) return c.set(0, c.emit(op::fill_dyn, {c.indices(0)}, FillDynAttrs{dtype, *value}));
  if (shape) return c.set(0, c.emit(op::expand, {c.in(1)}, ShapeAttrs{*shape, true}));
  c.set(0, c.emit(op::expand_dyn, {c.in(1), c.indices(0)}));
}

void import_broadcast_to(ImportCtx& c) {
  if (!c.require(2)) return;
  if (const auto shape = c.ints(1))
    return c.set(0, c.emit(op::expand, {c.in(0)}, ShapeAttrs{*shape, true}));
  c.set(0, c.emit(op::expand_dyn, {c.in(0), c.indices(1)}));
}

void import_tile(ImportCtx& c) {
  if (!c.require(2)) return;
  if (const auto repeats = c.ints(1))
    return c.set(0, c.emit(op::tile, {c.in(0)}, RepeatsAttrs{*repeats}));
  c.set(0, c.emit(op::tile_dyn, {c.in(0), c.indices(1)}));
}

void import_range(ImportCtx& c) {
  if (c.require(3)) c.set(0, c.emit(op::range_dyn, {c.in(0), c.in(1), c.in(2)}));
}

constexpr ImportRule kImports[] = {
    {Builtin::BROADCAST_TO, import_broadcast_to, nullptr, Elements::picked},
    {Builtin::EXPAND_DIMS, import_expand_dims, nullptr, Elements::picked},
    {Builtin::FILL, import_fill, nullptr, Elements::picked},
    {Builtin::RANGE, import_range},
    {Builtin::RANK, import_rank},
    {Builtin::RESHAPE, import_reshape, nullptr, Elements::picked},
    {Builtin::SHAPE, import_shape},
    {Builtin::SQUEEZE, import_squeeze, nullptr, Elements::picked},
    {Builtin::TILE, import_tile, nullptr, Elements::picked},
};

}  // namespace

std::span<const ImportRule> shape_imports() { return kImports; }

}  // namespace hone::tflite
