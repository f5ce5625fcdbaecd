// SPDX-License-Identifier: Apache-2.0
// The Builder's second form: what it records it also runs.
#pragma once

#include "hone/builder.hpp"
#include "hone/tensor.hpp"

namespace hone {

namespace detail {
struct GraphOwner {
  Graph owned;
};
}  // namespace detail

/// Runs each node as it is emitted, so values have contents at once. Rules that look at constants
/// see small integer results too: shape arithmetic needs no folding here. Nodes go through `apply`,
/// hence are recorded for the gradient, observed and traced like operations on tensors.
class RunningBuilder : private detail::GraphOwner, public Builder {
 public:
  RunningBuilder();

  /// Makes a tensor usable as a value. The tensor must be ok.
  Value add(const Tensor& t);
  /// As add, for a tensor that updates may write to.
  Value add_state(StateRole role, const Tensor& t, std::string name);
  /// The tensor behind a value; an error tensor for an invalid one.
  Tensor tensor(Value v);

 protected:
  Status appended(NodeId id) override;

 private:
  void keep(ValueId id, Tensor t);

  std::vector<Tensor> tensors_;  // by value id
};

}  // namespace hone
