// SPDX-License-Identifier: Apache-2.0
// Weights by name: out of models, into models, renamed on the way.
#pragma once

#include "hone/model.hpp"
#include "hone/named_tensor.hpp"

namespace hone {

/// The parameters and buffers of a model, in the order of its graph. Shared, not copied.
std::vector<NamedTensor> weights(const Model& model);

/// Gives each parameter and buffer of the model the tensor of its name. Floating-point values are
/// converted to the model's type. PyTorch's num_batches_tracked, which models lack, is passed over.
/// Errors: invalid_argument naming every tensor that is missing, left over, given twice or of
/// another shape; the model is then as before.
Status set_weights(Model& model, std::span<const NamedTensor> tensors);

/// Names of the form `from` become `to`. Each holds at most one '*', which stands for any run of
/// characters, the same in both: {"model.*", "*"}.
struct Renaming {
  std::string from, to;
};
/// "model.*=*". Errors: invalid_argument.
Result<Renaming> parse_renaming(std::string_view text);
/// Renames each tensor by the first renaming that its name has the form of.
void rename(std::vector<NamedTensor>& tensors, std::span<const Renaming> renamings);

}  // namespace hone
