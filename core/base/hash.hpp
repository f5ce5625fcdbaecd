// SPDX-License-Identifier: Apache-2.0
// Two hashes: a fast one against accidents, and SHA-256 as the name of a content.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace hone {

/// XXH64 with seed 0. Finds damage; does not resist someone who wants a collision.
uint64_t checksum64(std::span<const std::byte> bytes);

/// SHA-256 (FIPS 180-4) of everything given to `update`.
class Sha256 {
 public:
  void update(std::span<const std::byte> bytes);
  /// 64 lower-case hexadecimal digits. The object must not be used afterwards.
  std::string hex_digest();

 private:
  void block(const std::byte* p);

  std::array<uint32_t, 8> state_ = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                    0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  std::array<std::byte, 64> pending_{};
  size_t pending_bytes_ = 0;
  uint64_t total_bytes_ = 0;
};

}  // namespace hone
