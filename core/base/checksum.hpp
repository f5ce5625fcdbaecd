// SPDX-License-Identifier: Apache-2.0
// Checksums against accidents (a bad disk, a cut transfer): fast, and no defence against an
// adversary. For that: sha256.hpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace hone {

/// XXH64 as its specification defines it (github.com/Cyan4973/xxHash, doc/xxhash_spec.md): guards
/// the segments of our files. This one takes the bytes piece by piece.
class Xxh64 {
 public:
  explicit Xxh64(uint64_t seed = 0);
  void update(std::span<const std::byte> bytes);
  uint64_t finish() const;

 private:
  void stripe(const std::byte* p);

  uint64_t seed_, size_ = 0;
  uint64_t lanes_[4];
  std::byte rest_[32];  // the first size_ % 32 of them wait for a full stripe
};
uint64_t xxh64(std::span<const std::byte> bytes, uint64_t seed = 0);

/// CRC-32 (ISO 3309, as in zip and gzip). Pass what the bytes before gave to go on from there.
uint32_t crc32(std::span<const std::byte> bytes, uint32_t before = 0);

/// CRC-32C (Castagnoli, RFC 3720 appendix B.4; as in TensorBoard's event files).
uint32_t crc32c(std::span<const std::byte> bytes, uint32_t before = 0);

}  // namespace hone
