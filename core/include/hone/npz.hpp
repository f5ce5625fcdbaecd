// SPDX-License-Identifier: Apache-2.0
// NumPy's files: .npy holds one array, .npz is a zip of named ones.
//
// Arrays are little-endian f64, f32, f16, i64, i32, i8, u8 or bool. Damaged files are refused with
// invalid_model, arrays of other types with unsupported; no more is allocated than the file can
// back.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "hone/tensor_data.hpp"

namespace hone {

/// Reads an array. Its bytes stay in the file (mapped, read-only) where alignment and order allow:
/// replace such a file, do not write into it. An array in Fortran order is converted to C order.
/// Errors: not_found, io_error, invalid_model (damaged), unsupported (element type), out_of_memory.
Result<TensorData> read_npy(const std::string& path);

/// Writes an array, atomically. bf16, which NumPy lacks, is written as f32, losing nothing.
/// Errors: not_found, io_error, out_of_memory.
Status write_npy(const std::string& path, const TensorData& t);

/// An open .npz. Copies share the file; one object may be read from several threads.
class NpzReader {
 public:
  /// Reads the table of contents. Errors: not_found, io_error, invalid_model.
  static Result<NpzReader> open(const std::string& path);

  /// Names of the arrays, without ".npy", in the order of the file.
  const std::vector<std::string>& names() const { return names_; }
  bool contains(const std::string& name) const;

  /// Reads one array and checks its CRC. As with read_npy the bytes stay in the file if they can:
  /// they do when Hone wrote it. Errors: not_found (lists what there is), invalid_model,
  /// unsupported (element type; compressed, and Hone was built without zlib), out_of_memory.
  Result<TensorData> read(const std::string& name) const;

  /// Reads an array of strings (NumPy's S and U types) as UTF-8, flat. Errors: as read.
  Result<std::vector<std::string>> read_strings(const std::string& name) const;

 private:
  struct Archive;
  std::shared_ptr<const Archive> archive_;  // shared: a reader is a handle
  std::vector<std::string> names_;
};

/// Writes named arrays, not compressed and each aligned to kAlignment, atomically. Names must
/// differ. Errors: invalid_argument (names), not_found, io_error, out_of_memory.
Status write_npz(const std::string& path,
                 std::span<const std::pair<std::string, TensorData>> arrays);

}  // namespace hone
