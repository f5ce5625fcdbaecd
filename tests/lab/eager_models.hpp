// SPDX-License-Identifier: Apache-2.0
// The models that are written define-by-run, by the name of their folder.
#pragma once

#include <memory>

#include "hone/nn.hpp"

namespace hone::lab {

/// A network and its loss. The names of parameters, inputs and outputs are those of model.onnx.
struct EagerModel {
  std::string_view name;
  std::unique_ptr<nn::Module> (*make)(Generator& rng);
  /// Inputs and outputs in the order of the ONNX model's.
  std::vector<Tensor> (*run)(nn::Module& module, std::span<const Tensor> inputs);
  /// `target` gives the batch's target of a name.
  using TargetFn = std::function<Tensor(const std::string& name)>;
  Tensor (*loss)(std::span<const Tensor> outputs, const TargetFn& target);
};

std::span<const EagerModel> eager_models();

}  // namespace hone::lab
