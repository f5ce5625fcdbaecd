// SPDX-License-Identifier: Apache-2.0
// Declares the operators of op_list_special.inc, as op_table.hpp does those of op_list.inc.
#pragma once

#include "hone/op_table.hpp"

namespace hone::op {
#define HONE_OP(name) extern const OpDef name HONE_OP_LINKAGE;
#include "hone/op_list_special.inc"
#undef HONE_OP
}  // namespace hone::op
