// SPDX-License-Identifier: Apache-2.0
// A source of random numbers for code that draws them one after another.
#pragma once

#include <cstdint>

namespace hone {

/// A seed and a counter. Every draw is a pure function of both and advances the counter by one, so
/// the same seed gives the same numbers on every machine, and two integers restore it. Not for
/// several threads at once.
class Generator {
 public:
  explicit Generator(uint64_t seed, uint64_t counter = 0) : seed_(seed), counter_(counter) {}
  uint64_t seed() const { return seed_; }
  /// Draws so far.
  uint64_t counter() const { return counter_; }
  void set_counter(uint64_t counter) { counter_ = counter; }
  /// The counter of the draw about to be made; advances.
  uint64_t next() { return counter_++; }
  /// A source with a seed of its own that depends on this one's seed and counter; advances.
  Generator fork() {
    // SplitMix64's finisher (Steele, Lea, Flood 2014): close counters give far seeds.
    uint64_t z = seed_ + (next() + 1) * 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return Generator(z ^ (z >> 31));
  }

 private:
  uint64_t seed_, counter_;
};

}  // namespace hone
