// SPDX-License-Identifier: Apache-2.0
// Recurrent loops over time on Hone's matrix product.
#pragma once

#include "backends/cpu/implementation.hpp"
#include "hone/recurrent.hpp"

namespace hone::cpu {

using RecurrentFn = Status (*)(const KernelArgs&, ProductFn<float>, const FloatActivations&);

/// Sigmoid and hyperbolic tangent over rows, vectorised.
extern const FloatActivations kVectorActivations;

bool accepts_recurrent(const Graph& g, const Node& n);
Status lower_recurrent_with(Lowering& to, NodeId id, RecurrentFn fn);

template <RecurrentFn fn>
Status lower_recurrent(Lowering& to, NodeId id) {
  return lower_recurrent_with(to, id, fn);
}

}  // namespace hone::cpu
