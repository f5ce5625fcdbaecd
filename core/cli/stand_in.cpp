// SPDX-License-Identifier: Apache-2.0
#include "core/cli/stand_in.hpp"

#include "core/cli/common.hpp"
#include "hone/ops.hpp"

namespace hone::cli {

namespace {

Result<Value> stand_in_loss(Builder& b, const NamedValues& outputs, const NamedValues&) {
  Value total;
  for (const auto& [name, v] : outputs.items()) {
    if (!is_float(v.dtype())) continue;
    const Value term = ops::mean(ops::square(v), {.keepdims = false});
    total = total.valid() ? total + term : term;
  }
  if (!total.valid()) return invalid("the model has no floating-point output to train on");
  if (!b.status().ok()) return b.status();
  return total;
}

}  // namespace

TrainerOptions stand_in_training(const SessionOptions& session) {
  TrainerOptions out;
  out.loss = stand_in_loss;
  out.optimizer.lr = 1e-5;
  out.session = session;
  return out;
}

Result<std::vector<NamedTensor>> made_up_inputs(const Graph& g, std::span<const Shape> shapes) {
  std::vector<NamedTensor> out;
  for (size_t i = 0; i < shapes.size(); ++i) {
    const ValueInfo& v = g.value(g.inputs[i]);
    HONE_ASSIGN(TensorData t, made_up({v.type.dtype, shapes[i]}, i + 1));
    out.push_back({v.name, std::move(t)});
  }
  return out;
}

}  // namespace hone::cli
