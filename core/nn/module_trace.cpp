// SPDX-License-Identifier: Apache-2.0
// Tracing of modules.
#include "hone/nn/trace.hpp"

namespace hone::nn {

Result<Model> trace(const Module& module, const TracedFn& forward,
                    std::span<const TraceInput> inputs, std::vector<std::string> output_names) {
  TraceOptions options;
  for (NamedMember& m : module.named_parameters())
    options.states.push_back({std::move(m.name), std::move(m.tensor), StateRole::parameter});
  for (NamedMember& m : module.named_buffers())
    options.states.push_back({std::move(m.name), std::move(m.tensor), StateRole::buffer});
  options.output_names = std::move(output_names);
  return hone::trace(forward, inputs, options);
}

Result<Model> trace(Layer& layer, const TraceInput& input, std::string output_name) {
  const auto forward = [&](std::span<const Tensor> x) { return std::vector<Tensor>{layer(x[0])}; };
  return trace(layer, forward, std::span<const TraceInput>(&input, 1), {std::move(output_name)});
}

}  // namespace hone::nn
