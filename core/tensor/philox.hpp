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
      const uint64_t p0 = kMultiply0 * c[0];
      const uint64_t p1 = kMultiply1 * c[2];
      c = {high(p1) ^ c[1] ^ k0, low(p1), high(p0) ^ c[3] ^ k1, low(p0)};
      k0 += kWeyl0;
      k1 += kWeyl1;
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
      const uint64_t at = first + i;
      if (at % 4 == 0 && out.size() - i >= 4 * kLanes) {
        fill_lanes(out.data() + i, seed, counter, at / 4);
        i += 4 * kLanes;
        continue;
      }
      const Block words = block(seed, counter, at / 4);
      for (uint64_t lane = at % 4; lane < 4 && i < out.size(); ++lane) out[i++] = unit(words[lane]);
    }
  }

 private:
  static constexpr int kLanes = 8;  // blocks computed side by side, for compilers that vectorise

  // out[0, 4 * kLanes) = the blocks from counter_lo on, as uniforms. The same arithmetic as
  // `block`.
  static constexpr void fill_lanes(float* out, uint64_t seed, uint64_t counter_hi,
                                   uint64_t counter_lo) {
    uint32_t c0[kLanes] = {}, c1[kLanes] = {}, c2[kLanes] = {}, c3[kLanes] = {};
    for (int i = 0; i < kLanes; ++i) {
      const uint64_t counter = counter_lo + static_cast<uint64_t>(i);
      c0[i] = low(counter), c1[i] = high(counter), c2[i] = low(counter_hi),
      c3[i] = high(counter_hi);
    }
    uint32_t k0 = low(seed), k1 = high(seed);
    for (int round = 0; round < 10; ++round, k0 += kWeyl0, k1 += kWeyl1)
      for (int i = 0; i < kLanes; ++i) {
        const uint64_t p0 = kMultiply0 * c0[i], p1 = kMultiply1 * c2[i];
        c0[i] = high(p1) ^ c1[i] ^ k0;
        c2[i] = high(p0) ^ c3[i] ^ k1;
        c1[i] = low(p1);
        c3[i] = low(p0);
      }
    for (int i = 0; i < kLanes; ++i, out += 4) {
      out[0] = unit(c0[i]), out[1] = unit(c1[i]), out[2] = unit(c2[i]), out[3] = unit(c3[i]);
    }
  }

  static constexpr uint64_t kMultiply0 = 0xD2511F53u, kMultiply1 = 0xCD9E8D57u;
  static constexpr uint32_t kWeyl0 = 0x9E3779B9u, kWeyl1 = 0xBB67AE85u;
  static constexpr uint32_t low(uint64_t v) { return static_cast<uint32_t>(v); }
  static constexpr uint32_t high(uint64_t v) { return static_cast<uint32_t>(v >> 32); }
};

}  // namespace hone
