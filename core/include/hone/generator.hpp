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

 private:
  uint64_t seed_, counter_;
};

}  // namespace hone
