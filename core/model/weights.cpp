// SPDX-License-Identifier: Apache-2.0
// Weights by name, out of models.
#include "hone/weights.hpp"

#include "core/model/tensor_list.hpp"

namespace hone {

std::vector<NamedTensor> weights(const Model& model) {
  std::vector<NamedTensor> out;
  for (const ValueInfo& v : model.graph.values)
    if (is_weight(v)) out.push_back({v.name, v.data});
  return out;
}

}  // namespace hone
