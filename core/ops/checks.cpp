// SPDX-License-Identifier: Apache-2.0
// The checks of shape rules.
#include "core/ops/checks.hpp"

#include <algorithm>

namespace hone {

Status need(const InferCtx& c, int input, Accepts accepts) {
  const DType t = c.dtype(input);
  bool ok = true;
  std::string_view wanted;
  switch (accepts) {
    case Accepts::floats:
      ok = is_float(t);
      wanted = "floating point";
      break;
    case Accepts::numbers:
      ok = t != DType::bool_;
      wanted = "a number type";
      break;
    case Accepts::bools:
      ok = t == DType::bool_;
      wanted = "bool";
      break;
    case Accepts::indices:
      ok = t == DType::i32 || t == DType::i64;
      wanted = "i32 or i64";
      break;
    case Accepts::any:
      break;
  }
  if (ok) return {};
  return c.error("input {} is {}, expected {}", input, c.in(input), wanted);
}

Status need_same_dtype(const InferCtx& c, int a, int b) {
  if (c.dtype(a) == c.dtype(b)) return {};
  return c.error("input {} is {}, input {} is {}; both need one dtype", a, c.in(a), b, c.in(b));
}

Status need_rank(const InferCtx& c, int input, int rank) {
  if (c.shape(input).rank() == rank) return {};
  return c.error("input {} has {} dimensions {}, expected {}", input, c.shape(input).rank(),
                 c.shape(input), rank);
}

Status need_rank_at_least(const InferCtx& c, int input, int rank) {
  if (c.shape(input).rank() >= rank) return {};
  return c.error("input {} has {} dimensions {}, expected at least {}", input,
                 c.shape(input).rank(), c.shape(input), rank);
}

Result<int> need_axis(const InferCtx& c, int input, int64_t axis) {
  const int rank = c.shape(input).rank();
  if (axis >= -rank && axis < rank) return static_cast<int>(axis < 0 ? axis + rank : axis);
  return c.error("axis {} does not exist in input {} of shape {}", axis, input, c.shape(input));
}

Result<std::vector<int>> need_axes(const InferCtx& c, std::span<const int64_t> axes, int rank) {
  std::vector<int> out;
  for (const int64_t axis : axes) {
    if (axis < -rank || axis >= rank)
      return c.error("axis {} does not exist among {} dimensions", axis, rank);
    out.push_back(static_cast<int>(axis < 0 ? axis + rank : axis));
  }
  std::sort(out.begin(), out.end());
  const auto twice = std::adjacent_find(out.begin(), out.end());
  if (twice != out.end()) return c.error("axis {} is named twice", *twice);
  return out;
}

Result<std::vector<int64_t>> need_constant_ints(const InferCtx& c, int input) {
  HONE_TRY(need(c, input, Accepts::indices));
  HONE_TRY(need_rank(c, input, 1));
  const TensorData* data = c.constant(input);
  if (!data)
    return unsupported(
        "{}: input {} decides the output's shape and depends on data; it needs to be "
        "known before running",
        c.who(), input);
  return to_ints(*data);
}

namespace {

Result<Shape> broadcast_inputs(const InferCtx& c, Accepts accepts) {
  HONE_TRY(need(c, 0, accepts));
  HONE_TRY(need_same_dtype(c, 0, 1));
  auto shape = broadcast(c.shape(0), c.shape(1));
  if (!shape.ok()) return shape.status().with_context(c.who());
  return shape;
}

}  // namespace

Status infer_broadcast(InferCtx& c, Accepts accepts) {
  HONE_ASSIGN(const Shape shape, broadcast_inputs(c, accepts));
  c.out(c.dtype(0), shape);
  return {};
}

Status infer_comparison(InferCtx& c, Accepts accepts) {
  HONE_ASSIGN(const Shape shape, broadcast_inputs(c, accepts));
  c.out(DType::bool_, shape);
  return {};
}

}  // namespace hone
