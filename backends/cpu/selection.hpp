// SPDX-License-Identifier: Apache-2.0
// Which operators this build has, for constant expressions: all, or those that HONE_OPERATORS
// names (core/ops/README.md).
#pragma once

#include "hone/special_ops.hpp"

namespace hone::cpu {

/// Whether this build has the operator. What there is for others is not linked.
#if HONE_SELECTED_OPERATORS
constexpr bool is_built(const OpDef* op) {
  constexpr const OpDef* kLeftOut[] = {
#define HONE_OP(name)
#define HONE_OP_LEFT_OUT(name) &op::name,
#include "hone_selected_ops.inc"
#undef HONE_OP
#undef HONE_OP_LEFT_OUT
      nullptr};
  for (const OpDef* left_out : kLeftOut)
    if (left_out == op) return false;
  return true;
}
#else
constexpr bool is_built(const OpDef*) { return true; }
#endif

}  // namespace hone::cpu
