// SPDX-License-Identifier: Apache-2.0
// Matrix products and convolutions of quantized tensors. They are written out with operators on
// wider types: integers of 32 bits for products of matrices, doubles, which hold every sum that 32
// bits hold, for convolutions.
#include <algorithm>

#include "core/ops/checks.hpp"
#include "core/ops/quantized.hpp"
#include "hone/ops.hpp"

namespace hone {

namespace {

Status need_bytes(const InferCtx& c, int input) {
  if (c.dtype(input) == DType::i8 || c.dtype(input) == DType::u8) return {};
  return c.error("input {} is {}, expected i8 or u8", input, c.in(input));
}

// A zero point or scale of operand `of`: one number, or one for each index of `axis`.
Status need_per_tensor_or_axis(const InferCtx& c, int input, int of, int axis) {
  const Shape& s = c.shape(input);
  const bool one = s.numel() == 1 && s.rank() <= 1;
  if (one || (axis < c.shape(of).rank() && s == Shape{c.shape(of)[axis]})) return {};
  // One for each row or column of a batch of matrices: it broadcasts as it is.
  auto both = broadcast(c.shape(of), s);
  if (both.ok() && *both == c.shape(of)) return {};
  return c.error("input {} is {}, which does not fit input {}, {}", input, c.in(input), of,
                 c.in(of));
}

Status infer_like(InferCtx& c, const OpDef& op, const TensorType& a, const TensorType& b,
                  const Attrs& attrs, DType out) {
  auto types = infer(op, c.who(), {&a, &b}, {nullptr, nullptr}, attrs);
  if (!types.ok()) return types.status();
  c.out(out, (*types)[0].shape);
  return {};
}

// A vector laid along `axis` of a tensor of `rank` axes; one number is left as it is.
Value along(Value v, int rank, int axis) {
  const Shape s = v.shape();
  if (s.numel() == 1) return ops::reshape(v, {});
  if (s.rank() != 1) return v;
  Shape column = Shape::filled(rank, 1);
  column[axis] = s[0];
  return ops::reshape(v, column);
}

// x - zero_point in type t; zero points along `axis`.
Value centred(DecomposeCtx& c, int x, int zero_point, DType t, int axis) {
  const Value v = ops::cast(c.in(x), t);
  if (!c.has(zero_point)) return v;
  return v - along(ops::cast(c.in(zero_point), t), c.shape(x).rank(), axis);
}

// saturate(round(sum * scale) + zero_point): the scale is a * b / y.
// Zero points lie along `axis`.
Value requantized(DecomposeCtx& c, Value sum, Value scale, int zero_point, int axis) {
  const Value y = ops::round(ops::cast(sum, DType::f32) * scale);
  const Value shift = along(ops::cast(c.in(zero_point), DType::f32), y.shape().rank(), axis);
  return saturate(y + shift, c.type(zero_point).dtype);
}

// ---- matrices

// The rows of the left operand and the columns of the right one may have zero points of their own.
Value integer_product(DecomposeCtx& c, int a, int a_zero, int b, int b_zero) {
  const int rows = c.shape(a).rank() - 2, cols = c.shape(b).rank() - 1;
  const Value left = centred(c, a, a_zero, DType::i32, std::max(rows, 0));
  return ops::matmul(left, centred(c, b, b_zero, DType::i32, cols));
}

// The shape of a product with vectors for rows and columns, as ONNX has it.
Status infer_product(InferCtx& c, int a, int b, DType out) {
  Shape left = c.shape(a), right = c.shape(b);
  const bool row = left.rank() == 1, column = right.rank() == 1;
  if (row) left.insert(0, 1);
  if (column) right.insert(1, 1);
  const TensorType wide_left{DType::i32, left}, wide_right{DType::i32, right};
  HONE_TRY(infer_like(c, op::matmul, wide_left, wide_right, MatmulAttrs{}, out));
  const Shape full = c.outs[0].shape;
  Shape& y = c.outs[0].shape;
  y = {};
  for (int i = 0; i < full.rank(); ++i)
    if (!(row && i == full.rank() - 2) && !(column && i == full.rank() - 1)) y.push_back(full[i]);
  return {};
}

Status infer_matmul_integer(InferCtx& c) {
  HONE_TRY(need_bytes(c, 0));
  HONE_TRY(need_bytes(c, 1));
  if (c.has(2)) {
    HONE_TRY(need_same_dtype(c, 0, 2));
    HONE_TRY(need_per_tensor_or_axis(c, 2, 0, std::max(c.shape(0).rank() - 2, 0)));
  }
  if (c.has(3)) {
    HONE_TRY(need_same_dtype(c, 1, 3));
    HONE_TRY(need_per_tensor_or_axis(c, 3, 1, c.shape(1).rank() - 1));
  }
  return infer_product(c, 0, 1, DType::i32);
}

Status infer_qlinear_matmul(InferCtx& c) {
  for (const int i : {0, 3, 7}) HONE_TRY(need_bytes(c, i));
  for (const int i : {1, 4, 6}) HONE_TRY(need(c, i, Accepts::floats));
  HONE_TRY(need_same_dtype(c, 0, 2));
  HONE_TRY(need_same_dtype(c, 3, 5));
  const int rows = std::max(c.shape(0).rank() - 2, 0), cols = c.shape(3).rank() - 1;
  HONE_TRY(need_per_tensor_or_axis(c, 1, 0, rows));
  HONE_TRY(need_per_tensor_or_axis(c, 2, 0, rows));
  HONE_TRY(need_per_tensor_or_axis(c, 4, 3, cols));
  HONE_TRY(need_per_tensor_or_axis(c, 5, 3, cols));
  HONE_TRY(need_per_tensor_or_axis(c, 6, 0, rows));
  HONE_TRY(need_per_tensor_or_axis(c, 7, 0, rows));
  return infer_product(c, 0, 3, c.dtype(7));
}

void decompose_qlinear_matmul(DecomposeCtx& c) {
  const Value sum = integer_product(c, 0, 2, 3, 5);
  const int rank = sum.shape().rank();
  const auto scale = [&](int i, int axis) {
    return along(ops::cast(c.in(i), DType::f32), rank, std::max(axis, 0));
  };
  const Value factor = scale(1, rank - 2) * scale(4, rank - 1) / scale(6, rank - 2);
  c.set(0, requantized(c, sum, factor, 7, std::max(rank - 2, 0)));
}

// ---- convolutions

// Padding adds zeros after the zero point is gone: what is padded is a real 0.
Value integer_conv(DecomposeCtx& c, int x, int x_zero, int w, int w_zero) {
  const Value input = centred(c, x, x_zero, DType::f64, 1);
  const Value weight = centred(c, w, w_zero, DType::f64, 0);
  return c.b.emit(op::conv, {input, weight}, c.raw_attrs());
}

Status infer_conv(InferCtx& c, int x, int w, DType out) {
  const TensorType input{DType::f64, c.shape(x)}, weight{DType::f64, c.shape(w)};
  return infer_like(c, op::conv, input, weight, c.attrs<ConvAttrs>(), out);
}

Status infer_conv_integer(InferCtx& c) {
  HONE_TRY(need_bytes(c, 0));
  HONE_TRY(need_bytes(c, 1));
  HONE_TRY(infer_conv(c, 0, 1, DType::i32));
  if (c.has(2)) {
    HONE_TRY(need_same_dtype(c, 0, 2));
    if (c.shape(2).numel() != 1) return c.error("input 2 is {}, expected one number", c.in(2));
  }
  if (!c.has(3)) return {};
  HONE_TRY(need_same_dtype(c, 1, 3));
  return need_per_tensor_or_axis(c, 3, 1, 0);
}

Status infer_qlinear_conv(InferCtx& c) {
  for (const int i : {0, 3, 7}) HONE_TRY(need_bytes(c, i));
  for (const int i : {1, 4, 6}) HONE_TRY(need(c, i, Accepts::floats));
  HONE_TRY(need_same_dtype(c, 0, 2));
  HONE_TRY(need_same_dtype(c, 3, 5));
  for (const int i : {1, 2, 6, 7})
    if (c.shape(i).numel() != 1) return c.error("input {} is {}, expected one number", i, c.in(i));
  HONE_TRY(need_per_tensor_or_axis(c, 4, 3, 0));
  HONE_TRY(need_per_tensor_or_axis(c, 5, 3, 0));
  HONE_TRY(infer_conv(c, 0, 3, c.dtype(7)));
  if (c.has(8) && (c.dtype(8) != DType::i32 || c.shape(8) != Shape{c.shape(3)[0]}))
    return c.error("the bias is {}, expected i32[{}]", c.in(8), c.shape(3)[0]);
  return {};
}

void decompose_qlinear_conv(DecomposeCtx& c) {
  Value sum = integer_conv(c, 0, 2, 3, 5);
  const int rank = sum.shape().rank();
  if (c.has(8)) sum = sum + along(ops::cast(c.in(8), DType::f64), rank, 1);
  const auto scale = [&](int i) { return along(ops::cast(c.in(i), DType::f32), rank, 1); };
  c.set(0, requantized(c, sum, scale(1) * scale(4) / scale(6), 7, 1));
}

}  // namespace

// matmul_integer(a, b, a_zero_point?, b_zero_point?) -> i32
constinit const OpDef op::matmul_integer = {
    .name = "matmul_integer",
    .min_inputs = 2,
    .max_inputs = 4,
    .infer = infer_matmul_integer,
    .decompose = [](DecomposeCtx& c) { c.set(0, integer_product(c, 0, 2, 1, 3)); },
    .diff = Diff::zero,
};

// conv_integer(x, w, x_zero_point?, w_zero_point?) -> i32
constinit const OpDef op::conv_integer = {
    .name = "conv_integer",
    .attrs = &kAttrSchema<ConvAttrs>,
    .min_inputs = 2,
    .max_inputs = 4,
    .infer = infer_conv_integer,
    .decompose =
        [](DecomposeCtx& c) { c.set(0, ops::cast(integer_conv(c, 0, 2, 1, 3), DType::i32)); },
    .diff = Diff::zero,
};

// qlinear_matmul(a, a_scale, a_zero_point, b, b_scale, b_zero_point, y_scale, y_zero_point)
constinit const OpDef op::qlinear_matmul = {
    .name = "qlinear_matmul",
    .min_inputs = 8,
    .max_inputs = 8,
    .infer = infer_qlinear_matmul,
    .decompose = decompose_qlinear_matmul,
    .diff = Diff::zero,
};

// qlinear_conv(x, x_scale, x_zero_point, w, w_scale, w_zero_point, y_scale, y_zero_point, bias?)
constinit const OpDef op::qlinear_conv = {
    .name = "qlinear_conv",
    .attrs = &kAttrSchema<ConvAttrs>,
    .min_inputs = 8,
    .max_inputs = 9,
    .infer = infer_qlinear_conv,
    .decompose = decompose_qlinear_conv,
    .diff = Diff::zero,
};

}  // namespace hone
