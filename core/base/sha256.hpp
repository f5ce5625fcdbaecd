// SPDX-License-Identifier: Apache-2.0
// SHA-256 (FIPS 180-4), to say in a file which other file it came from.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace hone {

using Sha256Digest = std::array<uint8_t, 32>;

/// Hashes bytes as they come: update any number of times, then finish once.
class Sha256 {
 public:
  void update(std::span<const std::byte> bytes);
  Sha256Digest finish();

 private:
  void compress(const std::byte* blocks, size_t count);

  std::array<uint32_t, 8> state_ = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                    0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  std::array<std::byte, 64> block_{};  // the bytes after the last whole block
  uint64_t length_ = 0;
};

Sha256Digest sha256(std::span<const std::byte> bytes);

/// "0c1f..." : two lower-case digits a byte.
std::string to_hex(std::span<const uint8_t> bytes);

}  // namespace hone
