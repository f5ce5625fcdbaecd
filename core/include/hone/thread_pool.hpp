// SPDX-License-Identifier: Apache-2.0
// The one thread pool that kernels, backends and data loading share. A host application may bring
// its own.
#pragma once

#include <cstdint>
#include <memory>

#include "hone/function_ref.hpp"

namespace hone {

/// Runs loops on several threads. Implement it to lend Hone the application's own threads.
class ThreadPool {
 public:
  /// The range [begin, end) to work on, and a number in [0, size()) that no other thread running
  /// the same parallel_for has.
  using Body = FunctionRef<void(int64_t begin, int64_t end, int worker)>;

  virtual ~ThreadPool();

  /// Threads that may run at once, the caller among them; at least 1.
  virtual int size() const = 0;

  /// Calls `body` on disjoint ranges that cover [0, n) and returns when all calls have returned.
  ///
  /// Every range starts at a multiple of `grain`. Which ranges there are depends on n, grain and
  /// size() alone, so a sum kept per range is the same bits in each run; which worker runs which
  /// range does vary. At most 4 * size() ranges. One range, run by the caller, when n <= grain or
  /// size() is 1.
  ///
  /// May be called from any thread, and from within a body: while the pool is taken, a further call
  /// runs its ranges one after the other on its own thread, as worker 0. Allocates nothing and
  /// cannot fail. `body` must not throw.
  virtual void parallel_for(int64_t n, int64_t grain, Body body) = 0;
};

/// A pool of `threads` threads, the caller's included; 0 or less takes one per processor this
/// process may use.
///
/// Threads that wait for work sleep after some 30 microseconds. When the system refuses some of the
/// threads, the pool is smaller: ask size().
std::unique_ptr<ThreadPool> make_thread_pool(int threads);

/// A pool of size 1, shared by all: runs everything in the caller.
ThreadPool& serial_pool();

}  // namespace hone
