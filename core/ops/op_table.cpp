// SPDX-License-Identifier: Apache-2.0
// The table of operators, made from op_list.inc and op_list_special.inc, or from those that
// HONE_OPERATORS names. Here the operators that are left out get a definition without rules, which
// stands wherever others compare with them.
#undef HONE_OP_LINKAGE
#define HONE_OP_LINKAGE
#include "hone/op_table.hpp"

#include "hone/special_ops.hpp"

namespace hone {

#if HONE_SELECTED_OPERATORS

#define HONE_OP(name)
#define HONE_OP_LEFT_OUT(op_name) constinit const OpDef op::op_name = {.name = #op_name};
#include "hone_selected_ops.inc"
#undef HONE_OP
#undef HONE_OP_LEFT_OUT

std::span<const OpDef* const> all_ops() {
  static constexpr const OpDef* kOps[] = {
#define HONE_OP(name) &op::name,
#define HONE_OP_LEFT_OUT(name)
#include "hone_selected_ops.inc"
#undef HONE_OP
#undef HONE_OP_LEFT_OUT
  };
  return kOps;
}

std::string_view advice_on_missing_ops() {
  return " (this build has the operators of its HONE_OPERATORS file only: add the name there)";
}

#else

std::span<const OpDef* const> all_ops() {
  static constexpr const OpDef* kOps[] = {
#define HONE_OP(name) &op::name,
#include "hone/op_list.inc"
#include "hone/op_list_special.inc"
#undef HONE_OP
  };
  return kOps;
}

std::string_view advice_on_missing_ops() { return {}; }

#endif

const OpDef* find_op(std::string_view name) {
  for (const OpDef* d : all_ops())
    if (d->name == name) return d;
  return nullptr;
}

}  // namespace hone
