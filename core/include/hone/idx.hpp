// SPDX-License-Identifier: Apache-2.0
// IDX, the file format of MNIST and its successors.
#pragma once

#include <string>

#include "hone/tensor_data.hpp"

namespace hone {

/// Reads an array; a gzipped file too, whatever its name, when Hone was built with zlib. 16-bit
/// integers, which Hone lacks, come as i32. Errors: not_found, io_error, invalid_model (damaged or
/// no IDX file), unsupported (gzipped, without zlib), out_of_memory.
Result<TensorData> read_idx(const std::string& path);

}  // namespace hone
