// SPDX-License-Identifier: Apache-2.0
// TensorFlow Lite's reductions, and what normalises along an axis.
#include <algorithm>

#include "core/import/tflite_ctx.hpp"

namespace hone::tflite {

namespace {

// The axes of a reduction, counted from the front.
std::vector<int64_t> read_axes(ImportCtx& c) {
  std::vector<int64_t> axes = c.fixed_ints(1, "axes");
  for (int64_t& axis : axes) {
    if (axis < 0) axis += c.rank(0);
    if (axis < 0 || axis >= c.rank(0)) c.fail("axis {} does not exist", axis);
  }
  return axes;
}

// Reduces input 0. What is left of (N, C, H, W) is in the file's order when all axes stay, when
// height and width go, or when the channels do.
template <class F>
void reduce(ImportCtx& c, F emit) {
  const auto* o = c.options<schema::ReducerOptions>();
  if (!o || !c.require(2)) return;
  ReduceAttrs attrs{read_axes(c), o->keep_dims()};
  if (!c.missing().empty() || !c.status().ok()) return;
  if (attrs.axes.empty()) return c.unsupported("of no axes");
  const auto goes = [&](int64_t axis) {
    return std::find(attrs.axes.begin(), attrs.axes.end(), axis) != attrs.axes.end();
  };
  const bool in_order = attrs.keepdims || (goes(1) && goes(2)) || goes(3);
  if (!c.prefers_channels_first(0) || !in_order) return c.set(0, emit(c.in(0), attrs));
  for (int64_t& axis : attrs.axes) axis = channels_first_axis(axis);
  c.set(0, emit(c.channels_first(0), attrs), attrs.keepdims);
}

void import_reduce(ImportCtx& c) {
  reduce(c, [&](Value x, const ReduceAttrs& attrs) { return c.emit(*c.rule.op, {x}, attrs); });
}

// Any is the greatest of what is 0 or 1, all the least.
void import_reduce_bool(ImportCtx& c) {
  reduce(c, [&](Value x, const ReduceAttrs& attrs) {
    const Value number = c.emit(op::cast, {x}, CastAttrs{DType::i32});
    return c.emit(op::cast, {c.emit(*c.rule.op, {number}, attrs)}, CastAttrs{DType::bool_});
  });
}

void import_arg(ImportCtx& c) {
  if (!c.require(2) || c.outputs() < 1) return;
  const ArgAttrs attrs{c.fixed_int(1, "the axis"), false, false};
  c.set(0, c.cast(c.emit(*c.rule.op, {c.in(0)}, attrs), DType::i64, c.out_dtype(0)));
}

void import_cumsum(ImportCtx& c) {
  const auto* o = c.options<schema::CumsumOptions>();
  if (!o || !c.require(2)) return;
  const CumsumAttrs attrs{c.fixed_int(1, "the axis"), o->exclusive(), o->reverse()};
  c.set(0, c.emit(op::cumsum, {c.in(0)}, attrs));
}

// Along the last axis, which are the channels of an image.
void import_softmax(ImportCtx& c) {
  const auto* o = c.options<schema::SoftmaxOptions>();
  if (!o || !c.require(1)) return;
  const bool first = c.prefers_channels_first(0);
  Value x = first ? c.channels_first(0) : c.in(0);
  const double beta = static_cast<double>(o->beta());
  if (beta != 1) x = c.emit(op::mul, {x, c.scalar_like(0, beta)});
  c.set(0, c.emit(op::softmax, {x}, AxisAttrs{first ? 1 : -1}), first);
}

void import_log_softmax(ImportCtx& c) {
  if (c.require(1)) c.set(0, c.emit(op::log_softmax, {c.in(0)}, AxisAttrs{-1}));
}

// x / max(norm of x over the last axis, 1e-6): rows of zeros stay zeros, with gradients that are
// numbers.
void import_l2_normalization(ImportCtx& c) {
  const auto* o = c.options<schema::L2NormOptions>();
  if (!o || !c.require(1)) return;
  const Value x = c.in(0);
  const Value norm = c.emit(op::clip, {c.emit(op::l2_norm, {x}, ReduceAttrs{{-1}, true})},
                            ClipAttrs{1e-6, std::numeric_limits<double>::infinity()});
  c.set(0, c.activate(c.emit(op::div, {x, norm}), o->activation()));
}

constexpr ImportRule kImports[] = {
    {Builtin::ARG_MAX, import_arg, &op::argmax},
    {Builtin::ARG_MIN, import_arg, &op::argmin},
    {Builtin::CUMSUM, import_cumsum},
    {Builtin::L2_NORMALIZATION, import_l2_normalization},
    {Builtin::LOG_SOFTMAX, import_log_softmax},
    {Builtin::MEAN, import_reduce, &op::mean},
    {Builtin::REDUCE_ALL, import_reduce_bool, &op::min},
    {Builtin::REDUCE_ANY, import_reduce_bool, &op::max},
    {Builtin::REDUCE_MAX, import_reduce, &op::max, Elements::picked},
    {Builtin::REDUCE_MIN, import_reduce, &op::min, Elements::picked},
    {Builtin::REDUCE_PROD, import_reduce, &op::prod},
    {Builtin::SOFTMAX, import_softmax},
    {Builtin::SUM, import_reduce, &op::sum},
};

}  // namespace

std::span<const ImportRule> reduce_imports() { return kImports; }

}  // namespace hone::tflite
