// SPDX-License-Identifier: Apache-2.0
// Recurrent loops over time on Hone's matrix product.
#pragma once

#include "backends/cpu/region.hpp"
#include "hone/recurrent.hpp"

namespace hone::cpu {

using RecurrentFn = Status (*)(const KernelArgs&, ProductFn<float>, const FloatActivations&);

/// Sigmoid and hyperbolic tangent over rows, vectorised.
extern const FloatActivations kVectorActivations;

bool accepts_recurrent(const Graph& g, const Node& node);
/// Two directions of a layer run beside each other, where one alone does not occupy the threads.
bool recurrent_beside(const Graph& g, const Node& node, int threads);
Status lower_recurrent_with(Region& region, const Group& group, RecurrentFn fn);

template <RecurrentFn fn>
Status lower_recurrent(Region& region, const Group& group) {
  return lower_recurrent_with(region, group, fn);
}

}  // namespace hone::cpu
