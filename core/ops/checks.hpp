// SPDX-License-Identifier: Apache-2.0
// Checks that shape rules share. Each gives a message that names the operator, the input and what
// came.
#pragma once

#include "hone/op.hpp"

namespace hone {

enum class Accepts : uint8_t {
  floats,   ///< f64, f32, f16, bf16.
  numbers,  ///< Floats and integers, not bool.
  bools,
  indices,  ///< i32, i64.
  any,
};

Status need(const InferCtx& c, int input, Accepts accepts);
/// Both inputs have one dtype.
Status need_same_dtype(const InferCtx& c, int a, int b);
Status need_rank(const InferCtx& c, int input, int rank);
Status need_rank_at_least(const InferCtx& c, int input, int rank);
/// An axis of input `input` in [0, rank).
Result<int> need_axis(const InferCtx& c, int input, int64_t axis);
/// Axes in [0, rank), sorted; none of them twice.
Result<std::vector<int>> need_axes(const InferCtx& c, std::span<const int64_t> axes, int rank);
/// The one-dimensional integer constant at `input`, for operators that take a shape as an input.
/// Errors: unsupported when it is not constant.
Result<std::vector<int64_t>> need_constant_ints(const InferCtx& c, int input);

/// Output 0 has the type of input 0.
template <Accepts accepts>
Status same_as_first(InferCtx& c) {
  HONE_TRY(need(c, 0, accepts));
  c.out(c.in(0));
  return {};
}

/// Output 0 is a bool of the shape of input 0.
template <Accepts accepts>
Status bool_like_first(InferCtx& c) {
  HONE_TRY(need(c, 0, accepts));
  c.out(DType::bool_, c.shape(0));
  return {};
}

/// Both inputs broadcast; the output has their dtype (Arithmetic), or is bool (Comparison).
Status infer_broadcast(InferCtx& c, Accepts accepts);
Status infer_comparison(InferCtx& c, Accepts accepts);

/// For operators that move elements and compute nothing.
inline double no_flops(const NodeTypes&) { return 0; }

}  // namespace hone
