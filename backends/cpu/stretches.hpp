// SPDX-License-Identifier: Apache-2.0
// How sums over many rows are cut up, so that they are accurate and do not depend on the number of
// threads: f32 over short stretches of rows, double over the stretches of a part, then over parts.
#pragma once

#include <algorithm>

#include "hone/thread_pool.hpp"

namespace hone::cpu {

inline constexpr int64_t kStretch = 128;  ///< Rows whose sums are taken in f32.

/// How rows are cut up: into at most kParts parts of whole stretches, whatever the threads.
struct Parts {
  static constexpr int64_t kParts = 16;
  int64_t rows, each, count;
  explicit Parts(int64_t n) : rows(n) {
    const int64_t stretches = (n + kStretch - 1) / kStretch;
    each = (stretches + kParts - 1) / kParts * kStretch;
    count = (n + each - 1) / each;
  }
  /// f(first row, rows) for each stretch of the part.
  template <class F>
  void for_stretches(int64_t part, F f) const {
    const int64_t end = std::min(rows, (part + 1) * each);
    for (int64_t p = part * each; p < end; p += kStretch) f(p, std::min(kStretch, end - p));
  }
};

/// Scratch: doubles by part and channel, then floats by part and channel, two of each, and five
/// vectors of a float a channel.
class Scratch {
 public:
  Scratch(std::byte* at, const Parts& parts, int64_t channels)
      : channels_(channels),
        parts_(parts.count),
        doubles_(reinterpret_cast<double*>(at)),
        floats_(reinterpret_cast<float*>(doubles_ + 2 * parts_ * channels)) {}
  static int64_t bytes(const Parts& parts, int64_t channels) {
    return parts.count * channels * 2 * static_cast<int64_t>(sizeof(double) + sizeof(float)) +
           5 * channels * static_cast<int64_t>(sizeof(float));
  }
  double* wide(int which, int64_t part) const {
    return doubles_ + (which * parts_ + part) * channels_;
  }
  float* narrow(int which, int64_t part) const {
    return floats_ + (which * parts_ + part) * channels_;
  }
  float* vector(int which) const { return floats_ + 2 * parts_ * channels_ + which * channels_; }

 private:
  int64_t channels_, parts_;
  double* doubles_;
  float* floats_;
};

/// f(first, count) for ranges of rows of `channels` elements each.
inline void for_rows(ThreadPool& pool, int64_t rows, int64_t channels,
                     FunctionRef<void(int64_t, int64_t)> f) {
  constexpr int64_t kElements = 16384;  // for one thread, at least
  pool.parallel_for(rows, 1 + kElements / channels,
                    [&](int64_t begin, int64_t end, int) { f(begin, end - begin); });
}

}  // namespace hone::cpu
