// SPDX-License-Identifier: Apache-2.0
// The safetensors format, for exchange of weights with the tools of others.
#pragma once

#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "hone/named_tensor.hpp"

namespace hone {

/// What a safetensors file holds.
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
                                    const std::shared_ptr<const void>& owner);

/// Writes tensors, atomically. Errors: invalid_argument (a name is missing or used twice, or a
/// tensor has no data), io_error.
Status save_safetensors(const TensorFile& file, const std::string& path);

}  // namespace hone
