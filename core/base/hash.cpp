// SPDX-License-Identifier: Apache-2.0
// XXH64 as specified by its author (github.com/Cyan4973/xxHash, doc/xxhash_spec.md) and SHA-256.
#include "core/base/hash.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

namespace hone {

namespace {

template <class T>
T load(const std::byte* p) {
  static_assert(std::endian::native == std::endian::little, "files hold little-endian words");
  T v;
  std::memcpy(&v, p, sizeof v);
  return v;
}

// ---- XXH64

constexpr uint64_t kPrime1 = 0x9E3779B185EBCA87u, kPrime2 = 0xC2B2AE3D27D4EB4Fu,
                   kPrime3 = 0x165667B19E3779F9u, kPrime4 = 0x85EBCA77C2B2AE63u,
                   kPrime5 = 0x27D4EB2F165667C5u;

uint64_t round64(uint64_t lane, uint64_t word) {
  return std::rotl(lane + word * kPrime2, 31) * kPrime1;
}

uint64_t merge_lane(uint64_t hash, uint64_t lane) {
  return (hash ^ round64(0, lane)) * kPrime1 + kPrime4;
}

// ---- SHA-256

constexpr std::array<uint32_t, 64> kRoundConstants = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

uint32_t load_big_endian(const std::byte* p) {
  const auto byte = [&](int i) { return std::to_integer<uint32_t>(p[i]); };
  return byte(0) << 24 | byte(1) << 16 | byte(2) << 8 | byte(3);
}

}  // namespace

uint64_t checksum64(std::span<const std::byte> bytes) {
  const std::byte* p = bytes.data();
  size_t left = bytes.size();
  uint64_t hash = kPrime5;
  if (left >= 32) {
    // Four independent lanes keep the multiplier busy.
    uint64_t a = kPrime1 + kPrime2, b = kPrime2, c = 0, d = 0 - kPrime1;
    for (; left >= 32; p += 32, left -= 32) {
      a = round64(a, load<uint64_t>(p));
      b = round64(b, load<uint64_t>(p + 8));
      c = round64(c, load<uint64_t>(p + 16));
      d = round64(d, load<uint64_t>(p + 24));
    }
    hash = std::rotl(a, 1) + std::rotl(b, 7) + std::rotl(c, 12) + std::rotl(d, 18);
    for (uint64_t lane : {a, b, c, d}) hash = merge_lane(hash, lane);
  }
  hash += bytes.size();
  for (; left >= 8; p += 8, left -= 8)
    hash = std::rotl(hash ^ round64(0, load<uint64_t>(p)), 27) * kPrime1 + kPrime4;
  if (left >= 4) {
    hash = std::rotl(hash ^ load<uint32_t>(p) * kPrime1, 23) * kPrime2 + kPrime3;
    p += 4, left -= 4;
  }
  for (; left > 0; ++p, --left)
    hash = std::rotl(hash ^ std::to_integer<uint64_t>(*p) * kPrime5, 11) * kPrime1;
  hash = (hash ^ (hash >> 33)) * kPrime2;
  hash = (hash ^ (hash >> 29)) * kPrime3;
  return hash ^ (hash >> 32);
}

void Sha256::block(const std::byte* p) {
  std::array<uint32_t, 64> w;
  for (size_t i = 0; i < 16; ++i) w[i] = load_big_endian(p + 4 * i);
  for (size_t i = 16; i < 64; ++i) {
    const uint32_t x = w[i - 15], y = w[i - 2];
    w[i] = w[i - 16] + (std::rotr(x, 7) ^ std::rotr(x, 18) ^ (x >> 3)) + w[i - 7] +
           (std::rotr(y, 17) ^ std::rotr(y, 19) ^ (y >> 10));
  }
  auto [a, b, c, d, e, f, g, h] = state_;
  for (size_t i = 0; i < 64; ++i) {
    const uint32_t t1 = h + (std::rotr(e, 6) ^ std::rotr(e, 11) ^ std::rotr(e, 25)) +
                        ((e & f) ^ (~e & g)) + kRoundConstants[i] + w[i];
    const uint32_t t2 =
        (std::rotr(a, 2) ^ std::rotr(a, 13) ^ std::rotr(a, 22)) + ((a & b) ^ (a & c) ^ (b & c));
    h = g, g = f, f = e, e = d + t1;
    d = c, c = b, b = a, a = t1 + t2;
  }
  const std::array<uint32_t, 8> mixed = {a, b, c, d, e, f, g, h};
  for (size_t i = 0; i < 8; ++i) state_[i] += mixed[i];
}

void Sha256::update(std::span<const std::byte> bytes) {
  total_bytes_ += bytes.size();
  while (!bytes.empty()) {
    if (pending_bytes_ == 0 && bytes.size() >= 64) {
      block(bytes.data());
      bytes = bytes.subspan(64);
      continue;
    }
    const size_t n = std::min(bytes.size(), pending_.size() - pending_bytes_);
    std::memcpy(pending_.data() + pending_bytes_, bytes.data(), n);
    pending_bytes_ += n;
    bytes = bytes.subspan(n);
    if (pending_bytes_ == pending_.size()) {
      block(pending_.data());
      pending_bytes_ = 0;
    }
  }
}

std::string Sha256::hex_digest() {
  const uint64_t bits = total_bytes_ * 8;
  const std::byte mark{0x80};
  update({&mark, 1});
  const std::byte zero{0};
  while (pending_bytes_ != 56) update({&zero, 1});
  std::array<std::byte, 8> length;
  for (size_t i = 0; i < 8; ++i) length[i] = static_cast<std::byte>(bits >> (56 - 8 * i));
  update(length);
  std::string hex;
  for (uint32_t word : state_)
    for (int shift = 28; shift >= 0; shift -= 4) hex += "0123456789abcdef"[(word >> shift) & 15];
  return hex;
}

}  // namespace hone
