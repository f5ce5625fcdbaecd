// SPDX-License-Identifier: Apache-2.0
// The table of operators, made from op_list.inc and op_list_special.inc.
#include "hone/op_table.hpp"

#include "hone/special_ops.hpp"

namespace hone {

std::span<const OpDef* const> all_ops() {
  static constexpr const OpDef* kOps[] = {
#define HONE_OP(name) &op::name,
#include "hone/op_list.inc"
#include "hone/op_list_special.inc"
#undef HONE_OP
  };
  return kOps;
}

const OpDef* find_op(std::string_view name) {
  for (const OpDef* d : all_ops())
    if (d->name == name) return d;
  return nullptr;
}

}  // namespace hone
