// SPDX-License-Identifier: Apache-2.0
// The .npy encoding (NEP 1, versions 1.0 to 3.0): a header that is a Python dict in text, then the
// elements.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "hone/tensor_data.hpp"

namespace hone {

enum class Order : uint8_t { c, fortran };

/// What the header says; still a claim, to be held against the bytes there are.
struct NpyHeader {
  std::string descr;  ///< "<f4", "|S5", ...
  Order order = Order::c;
  Shape shape;
  uint64_t data_at = 0;  ///< Bytes from the start of the array's file to the first element.
};

/// Bytes to read before `npy_data_at` can be called.
inline constexpr size_t kNpyPreamble = 12;

/// Where the data starts, from the first kNpyPreamble bytes (or all, if fewer). Errors:
/// invalid_model.
Result<uint64_t> npy_data_at(std::span<const std::byte> start);

/// Parses the header; `bytes` begins with all of it. Errors: invalid_model; unsupported (structured
/// types, too many dimensions).
Result<NpyHeader> parse_npy_header(std::span<const std::byte> bytes);

/// The element type. Errors: unsupported.
Result<DType> npy_dtype(const NpyHeader& header);

/// The type, after checking that `data_bytes` bytes of data are just what it takes. Errors:
/// unsupported, invalid_model.
Result<TensorType> npy_type(const NpyHeader& header, uint64_t data_bytes);

/// Makes a tensor of the elements: over the same bytes if they are aligned and in C order and there
/// is an owner to keep them, a copy otherwise. Errors: invalid_model (a bool that is neither),
/// out_of_memory.
Result<TensorData> npy_tensor(TensorType type, Order order, std::span<const std::byte> data,
                              std::shared_ptr<const void> owner);

/// As npy_tensor, for elements already read into `raw`, which has `type`.
Result<TensorData> npy_tensor(Order order, TensorData raw);

/// The strings of an S or U array, as UTF-8. Errors: unsupported (another type), invalid_model.
Result<std::vector<std::string>> npy_strings(const NpyHeader& header,
                                             std::span<const std::byte> data);

/// A version 1.0 header for C order; a multiple of kAlignment bytes. The type must not be bf16.
std::string make_npy_header(const TensorType& type);

}  // namespace hone
