// SPDX-License-Identifier: Apache-2.0
// XXH64, and the two CRCs eight bytes at a time ("slicing by 8", Kounavis and Berry, 2005).
#include "core/base/checksum.hpp"

#include <algorithm>
#include <array>
#include <bit>

#include "core/base/bytes.hpp"

namespace hone {

namespace {

constexpr uint64_t kPrime1 = 0x9E3779B185EBCA87u;
constexpr uint64_t kPrime2 = 0xC2B2AE3D27D4EB4Fu;
constexpr uint64_t kPrime3 = 0x165667B19E3779F9u;
constexpr uint64_t kPrime4 = 0x85EBCA77C2B2AE63u;
constexpr uint64_t kPrime5 = 0x27D4EB2F165667C5u;

uint64_t xxh_round(uint64_t lane, uint64_t input) {
  return std::rotl(lane + input * kPrime2, 31) * kPrime1;
}

uint64_t xxh_merge(uint64_t hash, uint64_t lane) {
  return (hash ^ xxh_round(0, lane)) * kPrime1 + kPrime4;
}

// tables[k][b]: the CRC of byte b followed by k zero bytes. `polynomial` is bit-reversed.
using CrcTables = std::array<std::array<uint32_t, 256>, 8>;

constexpr CrcTables crc_tables(uint32_t polynomial) {
  CrcTables tables{};
  for (uint32_t b = 0; b < 256; ++b) {
    uint32_t crc = b;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ (crc & 1 ? polynomial : 0);
    tables[0][b] = crc;
  }
  for (size_t k = 1; k < 8; ++k)
    for (size_t b = 0; b < 256; ++b) {
      const uint32_t crc = tables[k - 1][b];
      tables[k][b] = (crc >> 8) ^ tables[0][crc & 0xff];
    }
  return tables;
}

uint32_t crc_update(const CrcTables& t, std::span<const std::byte> bytes, uint32_t crc) {
  const std::byte* p = bytes.data();
  size_t n = bytes.size();
  crc = ~crc;
  for (; n >= 8; n -= 8, p += 8) {
    const uint32_t a = load_le<uint32_t>(p) ^ crc, b = load_le<uint32_t>(p + 4);
    crc = t[7][a & 0xff] ^ t[6][(a >> 8) & 0xff] ^ t[5][(a >> 16) & 0xff] ^ t[4][a >> 24] ^
          t[3][b & 0xff] ^ t[2][(b >> 8) & 0xff] ^ t[1][(b >> 16) & 0xff] ^ t[0][b >> 24];
  }
  for (; n > 0; --n, ++p) crc = (crc >> 8) ^ t[0][(crc ^ static_cast<uint32_t>(*p)) & 0xff];
  return ~crc;
}

}  // namespace

Xxh64::Xxh64(uint64_t seed)
    : seed_(seed), lanes_{seed + kPrime1 + kPrime2, seed + kPrime2, seed, seed - kPrime1} {}

void Xxh64::stripe(const std::byte* p) {
  for (size_t i = 0; i < 4; ++i) lanes_[i] = xxh_round(lanes_[i], load_le<uint64_t>(p + 8 * i));
}

void Xxh64::update(std::span<const std::byte> bytes) {
  size_t waiting = size_ % sizeof rest_;
  size_ += bytes.size();
  while (!bytes.empty()) {
    if (waiting == 0 && bytes.size() >= sizeof rest_) {
      const std::byte *p = bytes.data(), *const end =
                                             p + bytes.size() / sizeof rest_ * sizeof rest_;
      for (; p != end; p += sizeof rest_) stripe(p);
      bytes = bytes.subspan(bytes.size() / sizeof rest_ * sizeof rest_);
      continue;
    }
    const size_t taken = std::min(sizeof rest_ - waiting, bytes.size());
    std::copy_n(bytes.data(), taken, rest_ + waiting);
    bytes = bytes.subspan(taken);
    waiting = (waiting + taken) % sizeof rest_;
    if (waiting == 0) stripe(rest_);
  }
}

uint64_t Xxh64::finish() const {
  uint64_t hash = seed_ + kPrime5;
  if (size_ >= sizeof rest_) {
    hash = std::rotl(lanes_[0], 1) + std::rotl(lanes_[1], 7) + std::rotl(lanes_[2], 12) +
           std::rotl(lanes_[3], 18);
    for (const uint64_t lane : lanes_) hash = xxh_merge(hash, lane);
  }
  hash += size_;
  const std::byte* p = rest_;
  size_t n = size_ % sizeof rest_;
  for (; n >= 8; n -= 8, p += 8)
    hash = std::rotl(hash ^ xxh_round(0, load_le<uint64_t>(p)), 27) * kPrime1 + kPrime4;
  if (n >= 4) {
    hash = std::rotl(hash ^ load_le<uint32_t>(p) * kPrime1, 23) * kPrime2 + kPrime3;
    n -= 4;
    p += 4;
  }
  for (; n > 0; --n, ++p)
    hash = std::rotl(hash ^ static_cast<uint64_t>(*p) * kPrime5, 11) * kPrime1;
  hash = (hash ^ (hash >> 33)) * kPrime2;
  hash = (hash ^ (hash >> 29)) * kPrime3;
  return hash ^ (hash >> 32);
}

uint64_t xxh64(std::span<const std::byte> bytes, uint64_t seed) {
  Xxh64 hash(seed);
  hash.update(bytes);
  return hash.finish();
}

uint32_t crc32(std::span<const std::byte> bytes, uint32_t before) {
  static constexpr CrcTables kTables = crc_tables(0xEDB88320u);
  return crc_update(kTables, bytes, before);
}

uint32_t crc32c(std::span<const std::byte> bytes, uint32_t before) {
  static constexpr CrcTables kTables = crc_tables(0x82F63B78u);
  return crc_update(kTables, bytes, before);
}

}  // namespace hone
