// SPDX-License-Identifier: Apache-2.0
// The table of operators.
#pragma once

#include "hone/op.hpp"

namespace hone {

// How the operators of a build with HONE_OPERATORS are defined (core/ops/README.md).
#ifndef HONE_OP_LINKAGE
#define HONE_OP_LINKAGE
#endif

namespace op {
#define HONE_OP(name) extern const OpDef name HONE_OP_LINKAGE;
#include "hone/op_list.inc"
#undef HONE_OP
}  // namespace op

/// All operators of this build, in the order of the list.
std::span<const OpDef* const> all_ops();

/// The operator of that name, or null.
const OpDef* find_op(std::string_view name);

/// Empty, or in a build with HONE_OPERATORS what to do about an operator that it lacks.
std::string_view advice_on_missing_ops();

}  // namespace hone
