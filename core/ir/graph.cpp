// SPDX-License-Identifier: Apache-2.0
// The graph's own small operations.
#include "hone/graph.hpp"

#include "hone/op.hpp"

namespace hone {

ValueId Graph::add_value(ValueInfo info) {
  values.push_back(std::move(info));
  return static_cast<ValueId>(values.size()) - 1;
}

ValueId Graph::find(std::string_view wanted) const {
  for (size_t i = 0; i < values.size(); ++i)
    if (values[i].kind != ValueKind::node && values[i].name == wanted)
      return static_cast<ValueId>(i);
  return kNone;
}

int Graph::find_output(std::string_view wanted) const {
  for (size_t i = 0; i < outputs.size(); ++i)
    if (outputs[i].name == wanted) return static_cast<int>(i);
  return -1;
}

ValueId Graph::viewed(ValueId v) const {
  for (;;) {
    const NodeId n = value(v).producer;
    if (n == kNone || !node(n).op->is_view) return v;
    v = node(n).inputs[0];
  }
}

int64_t Graph::dim(std::string_view wanted) {
  for (size_t i = 0; i < dim_names.size(); ++i)
    if (dim_names[i] == wanted) return -static_cast<int64_t>(i) - 1;
  dim_names.emplace_back(wanted);
  return -static_cast<int64_t>(dim_names.size());
}

std::vector<ValueId> Graph::states(StateRole role) const {
  std::vector<ValueId> out;
  for (size_t i = 0; i < values.size(); ++i)
    if (values[i].kind == ValueKind::state && values[i].role == role)
      out.push_back(static_cast<ValueId>(i));
  return out;
}

}  // namespace hone
