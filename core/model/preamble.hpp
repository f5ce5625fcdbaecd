// SPDX-License-Identifier: Apache-2.0
// The first 64 bytes of every Hone file. schema/README.md has the table.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

namespace hone {

struct Preamble {
  char magic[4] = {'H', 'O', 'N', 'E'};
  uint32_t version = 1;
  uint64_t file_size = 0;
  uint64_t header_offset = 0;
  uint64_t header_size = 0;
  uint64_t header_checksum = 0;
  uint64_t data_offset = 0;
  uint64_t flags = 0;
  uint64_t checksum = 0;  ///< XXH64 of what stands before it.
};
static_assert(sizeof(Preamble) == 64 && offsetof(Preamble, checksum) == 56);

inline constexpr uint32_t kFormatVersion = 1;

// Weights are used where they lie in the file.
static_assert(std::endian::native == std::endian::little, "Hone files are little-endian");

}  // namespace hone
