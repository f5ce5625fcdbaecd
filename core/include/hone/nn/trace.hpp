// SPDX-License-Identifier: Apache-2.0
// Tracing of modules: parameters and buffers under their paths.
#pragma once

#include "hone/nn/module.hpp"
#include "hone/trace.hpp"

namespace hone::nn {

/// hone::trace of `forward`, in which the parameters and buffers of `module` that it uses are
/// states named by their paths.
Result<Model> trace(const Module& module, const TracedFn& forward,
                    std::span<const TraceInput> inputs, std::vector<std::string> output_names = {});
/// The same for a layer and its one input.
Result<Model> trace(Layer& layer, const TraceInput& input, std::string output_name = "output");

}  // namespace hone::nn
