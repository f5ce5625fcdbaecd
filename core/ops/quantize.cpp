// SPDX-License-Identifier: Apache-2.0
// From numbers to small integers and back: real = (stored - zero_point) * scale.
#include <limits>

#include "core/ops/checks.hpp"
#include "core/ops/quantized.hpp"
#include "hone/ops.hpp"

namespace hone {

QuantizedRange range_of(DType t) {
  switch (t) {
    case DType::i8:
      return {-128, 127};
    case DType::u8:
      return {0, 255};
    default:
      return {std::numeric_limits<int32_t>::min(), std::numeric_limits<int32_t>::max()};
  }
}

QuantizedRange range_of(NarrowType t, DType held) {
  if (t == NarrowType::none) return range_of(held);
  const double count = static_cast<double>(1 << bits_of(t));
  return is_signed(t) ? QuantizedRange{-count / 2, count / 2 - 1} : QuantizedRange{0, count - 1};
}

Value saturate(Value x, DType to, NarrowType narrow) {
  const QuantizedRange r = range_of(narrow, to);
  return ops::cast(ops::clip(x, r.low, r.high), to);
}

namespace {

bool is_quantized(DType t) { return t == DType::i8 || t == DType::u8 || t == DType::i32; }

Status check_narrow(const InferCtx& c, const QuantizeAttrs& a, DType held) {
  const auto want = held_in(a.narrow);
  if (!want || *want == held) return {};
  return c.error("{} is held as {}, not {}", enum_names(a.narrow)[static_cast<size_t>(a.narrow)],
                 *want, held);
}

// One number; or a vector along the axis; or blocks along it.
Status check_scale(const InferCtx& c, const QuantizeAttrs& a) {
  const Shape &x = c.shape(0), &scale = c.shape(1);
  const auto is_one = [](const Shape& s) { return s.numel() == 1 && s.rank() <= 1; };
  const bool both_one = is_one(scale) && (!c.has(2) || is_one(c.shape(2)));
  if (both_one) return {};
  if (c.has(2) && c.shape(2) != scale)
    return c.error("the zero point is {}, the scale {}; both need one shape", c.in(2), c.in(1));
  HONE_ASSIGN(const int axis, need_axis(c, 0, a.axis));
  if (a.block_size == 0) {
    if (scale == Shape{x[axis]}) return {};
    return c.error("the scale is {}, expected one number or {} of them for axis {} of {}", c.in(1),
                   x[axis], axis, x);
  }
  Shape blocks = x;
  if (a.block_size < 0) return c.error("block_size is {}", a.block_size);
  blocks[axis] = (x[axis] + a.block_size - 1) / a.block_size;
  if (scale == blocks) return {};
  return c.error("the scale is {}, expected {}: blocks of {} along axis {} of {}", c.in(1), blocks,
                 a.block_size, axis, x);
}

// The scale or zero point so that it broadcasts against x.
Value spread(DecomposeCtx& c, Value v, const QuantizeAttrs& a) {
  const Shape x = c.shape(0), s = v.shape();
  if (s.numel() == 1 && s.rank() <= 1) return ops::reshape(v, {});
  const int axis = static_cast<int>(a.axis < 0 ? a.axis + x.rank() : a.axis);
  if (a.block_size == 0) {
    Shape column = Shape::filled(x.rank(), 1);
    column[axis] = s[0];
    return ops::reshape(v, column);
  }
  Shape split = s, repeated = s, whole = s;
  split.insert(axis + 1, 1);
  repeated.insert(axis + 1, a.block_size);
  whole[axis] = s[axis] * a.block_size;
  const Value all = ops::reshape(ops::expand(ops::reshape(v, split), repeated), whole);
  return whole == x ? all : ops::slice(all, axis, 0, x[axis]);
}

Status infer_quantize(InferCtx& c) {
  const QuantizeAttrs& a = c.attrs<QuantizeAttrs>();
  HONE_TRY(need(c, 0, Accepts::numbers));
  HONE_TRY(need(c, 1, Accepts::floats));
  HONE_TRY(check_scale(c, a));
  const DType to = c.has(2) ? c.dtype(2) : a.to;
  HONE_TRY(check_narrow(c, a, to));
  if (to != DType::i8 && to != DType::u8 && a.narrow == NarrowType::none)
    return c.error("gives i8 or u8, not {}", to);
  c.out(to, c.shape(0));
  return {};
}

void decompose_quantize(DecomposeCtx& c) {
  const QuantizeAttrs& a = c.attrs<QuantizeAttrs>();
  const DType to = c.has(2) ? c.type(2).dtype : a.to;
  // Half floats divide in float; f64 stays.
  const DType t = c.type(0).dtype == DType::f64 ? DType::f64 : DType::f32;
  const Value scale = spread(c, ops::cast(c.in(1), t), a);
  Value y = ops::round(ops::cast(c.in(0), t) / scale);
  if (c.has(2)) y = y + spread(c, ops::cast(c.in(2), t), a);
  c.set(0, saturate(y, to, a.narrow));
}

Status infer_dequantize(InferCtx& c) {
  if (!is_quantized(c.dtype(0))) return c.error("input 0 is {}, expected i8, u8 or i32", c.in(0));
  HONE_TRY(need(c, 1, Accepts::floats));
  if (c.has(2)) HONE_TRY(need_same_dtype(c, 0, 2));
  HONE_TRY(check_narrow(c, c.attrs<QuantizeAttrs>(), c.dtype(0)));
  HONE_TRY(check_scale(c, c.attrs<QuantizeAttrs>()));
  c.out(c.dtype(1), c.shape(0));
  return {};
}

void decompose_dequantize(DecomposeCtx& c) {
  const QuantizeAttrs& a = c.attrs<QuantizeAttrs>();
  Value x = ops::cast(c.in(0), DType::i32);
  if (c.has(2)) x = x - spread(c, ops::cast(c.in(2), DType::i32), a);
  const DType t = c.type(1).dtype;
  // Sixteen bits and more do not fit a half float: they are multiplied as f32.
  const bool wide = c.type(0).dtype == DType::i32;
  if (!wide || t == DType::f64) return c.set(0, ops::cast(x, t) * spread(c, c.in(1), a));
  const Value scale = ops::cast(spread(c, c.in(1), a), DType::f32);
  c.set(0, ops::cast(ops::cast(x, DType::f32) * scale, t));
}

// The range of x with 0 in it is mapped to 0 .. 255. Where all is zero the scale is 1.
void decompose_dynamic(DecomposeCtx& c) {
  const Value x = c.in(0), zero = c.b.scalar(0, DType::f32);
  const ReduceAttrs all{{}, false};
  const Value high = ops::maximum(ops::max(x, all), zero);
  const Value low = ops::minimum(ops::min(x, all), zero);
  const Value scale = (high - low) / 255.0;
  const Value safe = ops::where(ops::equal(scale, zero), c.b.scalar(1, DType::f32), scale);
  const Value zero_point = ops::round(ops::clip(-low / safe, 0, 255));
  c.set(0, saturate(ops::round(x / safe) + zero_point, DType::u8));
  c.set(1, safe);
  c.set(2, ops::cast(zero_point, DType::u8));
}

}  // namespace

// quantize_linear(x, scale, zero_point?) = saturate(round(x / scale) + zero_point), ties to even
constinit const OpDef op::quantize_linear = {
    .name = "quantize_linear",
    .attrs = &kAttrSchema<QuantizeAttrs>,
    .min_inputs = 2,
    .max_inputs = 3,
    .infer = infer_quantize,
    .decompose = decompose_quantize,
    .diff = Diff::zero,
};

// dequantize_linear(x, scale, zero_point?) = (x - zero_point) * scale
constinit const OpDef op::dequantize_linear = {
    .name = "dequantize_linear",
    .attrs = &kAttrSchema<QuantizeAttrs>,
    .min_inputs = 2,
    .max_inputs = 3,
    .infer = infer_dequantize,
    .decompose = decompose_dequantize,
    .diff = Diff::by_decomposition,
};

// dynamic_quantize_linear(x) -> (y u8, scale f32, zero_point u8); the scale is 1 for a range of
// zero
constinit const OpDef op::dynamic_quantize_linear = {
    .name = "dynamic_quantize_linear",
    .infer = [](InferCtx& c) -> Status {
      if (c.dtype(0) != DType::f32) return c.error("input 0 is {}, expected f32", c.in(0));
      c.out(DType::u8, c.shape(0));
      c.out(DType::f32, {});
      c.out(DType::u8, {});
      return {};
    },
    .decompose = decompose_dynamic,
    .diff = Diff::zero,
};

}  // namespace hone
