// SPDX-License-Identifier: Apache-2.0
// Philox4x32-10, the counter-based random generator of Salmon et al., "Parallel random numbers: as
// easy as 1, 2, 3" (SC 2011). A number is a pure function of (seed, counter, index), so that any
// thread may compute any part, and a recomputed dropout mask is the same mask.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace hone {

struct Philox {
  using Block = std::array<uint32_t, 4>;

  /// Four random words. `seed` is the key; the counter is 128 bits, `counter_lo` its lower half.
  static constexpr Block block(uint64_t seed, uint64_t counter_hi, uint64_t counter_lo) {
    Block c = {low(counter_lo), high(counter_lo), low(counter_hi), high(counter_hi)};
    uint32_t k0 = low(seed), k1 = high(seed);
    for (int round = 0; round < 10; ++round) {
      const uint64_t p0 = uint64_t{0xD2511F53u} * c[0];
      const uint64_t p1 = uint64_t{0xCD9E8D57u} * c[2];
      c = {high(p1) ^ c[1] ^ k0, low(p1), high(p0) ^ c[3] ^ k1, low(p0)};
      k0 += 0x9E3779B9u;
      k1 += 0xBB67AE85u;
    }
    return c;
  }

  /// The upper 24 bits of a word as a multiple of 2^-24 in [0, 1): every such float is equally
  /// likely.
  static constexpr float unit(uint32_t word) { return static_cast<float>(word >> 8) * 0x1p-24f; }

  /// Element `index` of the stream (seed, counter), uniform in [0, 1).
  static constexpr float uniform(uint64_t seed, uint64_t counter, uint64_t index) {
    return unit(block(seed, counter, index / 4)[index % 4]);
  }

  /// out[i] = uniform(seed, counter, first + i).
  static constexpr void fill_uniform(std::span<float> out, uint64_t seed, uint64_t counter,
                                     uint64_t first = 0) {
    size_t i = 0;
    while (i < out.size()) {
      const uint64_t index = first + i;
      const Block words = block(seed, counter, index / 4);
      for (uint64_t lane = index % 4; lane < 4 && i < out.size(); ++lane)
        out[i++] = unit(words[lane]);
    }
  }

 private:
  static constexpr uint32_t low(uint64_t v) { return static_cast<uint32_t>(v); }
  static constexpr uint32_t high(uint64_t v) { return static_cast<uint32_t>(v >> 32); }
};

}  // namespace hone
