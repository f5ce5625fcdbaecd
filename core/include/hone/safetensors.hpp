// SPDX-License-Identifier: Apache-2.0
// Weights in the safetensors format, for exchange with the tools of others.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "hone/named_tensor.hpp"

namespace hone {

/// What a safetensors file holds. The format knows no roles: all tensors are parameters.
struct TensorFile {
  std::vector<NamedTensor> tensors;  ///< In the order of their data.
  std::map<std::string, std::string> metadata;
};

/// Opens a safetensors file. Tensors that lie aligned to kAlignment borrow from the mapped file,
/// the others are copied. Errors: not_found, io_error, invalid_model, unsupported (element types
/// that Hone lacks, named), out_of_memory.
Result<TensorFile> load_safetensors(const std::string& path);
/// The same for bytes in memory, which `owner` keeps alive.
Result<TensorFile> load_safetensors(std::span<const std::byte> bytes,
                                    std::shared_ptr<const void> owner);

/// Writes tensors, atomically. Errors: invalid_argument (a name is missing or used twice, or a
/// tensor has no data), io_error.
Status save_safetensors(const TensorFile& file, const std::string& path);

/// Gives each parameter and buffer of the model the tensor of its name. Errors: as
/// load_safetensors; invalid_argument naming every tensor that is missing, left over or of another
/// type; the model is then as before.
Status load_weights(Model& model, const std::string& path);
/// Writes all parameters and buffers of the model, and its metadata, as a safetensors file.
Status save_weights(const Model& model, const std::string& path);

}  // namespace hone
