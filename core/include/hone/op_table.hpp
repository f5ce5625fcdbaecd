// SPDX-License-Identifier: Apache-2.0
// The table of operators.
#pragma once

#include "hone/op.hpp"

namespace hone {

namespace op {
#define HONE_OP(name) extern const OpDef name;
#include "hone/op_list.inc"
#undef HONE_OP
}  // namespace op

/// All operators, in the order of the list.
std::span<const OpDef* const> all_ops();

/// The operator of that name, or null.
const OpDef* find_op(std::string_view name);

}  // namespace hone
