// SPDX-License-Identifier: Apache-2.0
#include "hone/thread_pool.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <ctime>
#include <limits>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "core/base/platform.hpp"

namespace hone {
namespace {

using Range = std::pair<int64_t, int64_t>;

// The ranges a loop is given, in order of position.
std::vector<Range> ranges_of(ThreadPool& pool, int64_t n, int64_t grain) {
  std::mutex mutex;
  std::vector<Range> ranges;
  pool.parallel_for(n, grain, [&](int64_t begin, int64_t end, int) {
    const std::lock_guard lock(mutex);
    ranges.emplace_back(begin, end);
  });
  std::sort(ranges.begin(), ranges.end());
  return ranges;
}

bool tiles(const std::vector<Range>& ranges, int64_t n) {
  int64_t at = 0;
  for (const Range& r : ranges) {
    if (r.first != at || r.second <= r.first) return false;
    at = r.second;
  }
  return at == n;
}

TEST_CASE("the ranges of a loop tile it, whatever its size, grain and threads") {
  for (int threads : {1, 2, 3, 8}) {
    const auto pool = make_thread_pool(threads);
    CHECK_EQ(pool->size(), threads);
    for (int64_t n : {0, 1, 2, 7, 64, 1000, 1001})
      for (int64_t grain : {-1, 1, 3, 64, 5000}) {
        const std::vector<Range> ranges = ranges_of(*pool, n, grain);
        CAPTURE(threads);
        CAPTURE(n);
        CAPTURE(grain);
        CHECK(tiles(ranges, n));
        CHECK_LE(ranges.size(), static_cast<size_t>(4 * threads));
        for (const Range& r : ranges) CHECK_EQ(r.first % std::max<int64_t>(grain, 1), 0);
      }
  }
}

TEST_CASE("nine grains on two threads make eight ranges, the first the longest") {
  const auto pool = make_thread_pool(2);
  const std::vector<Range> ranges = ranges_of(*pool, 88, 10);
  REQUIRE_EQ(ranges.size(), 8u);
  CHECK_EQ(ranges[0], Range{0, 20});
  CHECK_EQ(ranges[1], Range{20, 30});
  CHECK_EQ(ranges[7], Range{80, 88});
}

TEST_CASE("a loop as large as an integer gets does not overflow") {
  const auto pool = make_thread_pool(3);
  const int64_t n = std::numeric_limits<int64_t>::max();
  CHECK(tiles(ranges_of(*pool, n, 1), n));
  CHECK(tiles(ranges_of(*pool, n, n / 2), n));
  CHECK(tiles(ranges_of(*pool, n, n - 1), n));
}

TEST_CASE("a loop no longer than its grain is one call in the caller") {
  const auto pool = make_thread_pool(4);
  const auto caller = std::this_thread::get_id();
  int calls = 0;
  pool->parallel_for(10, 10, [&](int64_t begin, int64_t end, int worker) {
    ++calls;
    CHECK_EQ(begin, 0);
    CHECK_EQ(end, 10);
    CHECK_EQ(worker, 0);
    CHECK(std::this_thread::get_id() == caller);
  });
  CHECK_EQ(calls, 1);
}

TEST_CASE("the ranges are the same when the pool is taken") {
  const auto pool = make_thread_pool(3);
  const std::vector<Range> free = ranges_of(*pool, 1000, 7);
  std::vector<Range> nested;
  std::atomic<bool> first{true};
  pool->parallel_for(12, 1, [&](int64_t, int64_t, int) {
    if (first.exchange(false)) nested = ranges_of(*pool, 1000, 7);
  });
  CHECK(nested == free);
}

TEST_CASE("a nested loop runs whole, on the thread that calls it, as worker 0") {
  const auto pool = make_thread_pool(4);
  std::atomic<int64_t> sum{0}, elsewhere{0};
  pool->parallel_for(16, 1, [&](int64_t begin, int64_t end, int) {
    const auto me = std::this_thread::get_id();
    for (int64_t i = begin; i < end; ++i)
      pool->parallel_for(100, 1, [&](int64_t b, int64_t e, int worker) {
        sum += e - b;
        elsewhere += worker != 0 || std::this_thread::get_id() != me;
      });
  });
  CHECK_EQ(sum.load(), 1600);
  CHECK_EQ(elsewhere.load(), 0);
}

TEST_CASE("no two threads in one loop share a worker number") {
  const auto pool = make_thread_pool(4);
  std::vector<std::atomic<int>> inside(4);
  std::atomic<int> clashes{0};
  for (int round = 0; round < 200; ++round)
    pool->parallel_for(64, 1, [&](int64_t, int64_t, int worker) {
      auto& mine = inside[static_cast<size_t>(worker)];
      clashes += mine.fetch_add(1) != 0;
      mine.fetch_sub(1);
    });
  CHECK_EQ(clashes.load(), 0);
}

TEST_CASE("what a loop wrote is there when it returns") {
  const auto pool = make_thread_pool(4);
  std::vector<int64_t> values(1000);
  int64_t wrong = 0;
  for (int64_t round = 0; round < 500; ++round) {  // plain memory: a race detector looks on
    pool->parallel_for(1000, 10, [&](int64_t begin, int64_t end, int) {
      for (int64_t i = begin; i < end; ++i) values[static_cast<size_t>(i)] = round + i;
    });
    for (int64_t i = 0; i < 1000; ++i) wrong += values[static_cast<size_t>(i)] != round + i;
  }
  CHECK_EQ(wrong, 0);
}

TEST_CASE("several threads may use one pool at once") {
  const auto pool = make_thread_pool(3);
  std::atomic<int64_t> total{0};
  std::vector<std::thread> callers;
  for (int t = 0; t < 4; ++t)
    callers.emplace_back([&] {
      for (int round = 0; round < 200; ++round) {
        std::vector<int64_t> seen(64, 0);
        pool->parallel_for(64, 1, [&](int64_t begin, int64_t end, int) {
          for (int64_t i = begin; i < end; ++i) ++seen[static_cast<size_t>(i)];
        });
        total += std::count(seen.begin(), seen.end(), 1);
      }
    });
  for (std::thread& t : callers) t.join();
  CHECK_EQ(total.load(), 4 * 200 * 64);
}

TEST_CASE("a worker that is through takes over from one that is stuck") {
  const auto pool = make_thread_pool(2);
  // Range 0 waits for all others, so whoever runs it leaves the rest, its own neighbours too, to
  // the other worker.
  std::atomic<int> others{0};
  std::atomic<bool> gave_up{false};
  pool->parallel_for(8, 1, [&](int64_t begin, int64_t, int) {
    if (begin != 0) {
      ++others;
      return;
    }
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    while (others < 7 && !gave_up) {
      gave_up = std::chrono::steady_clock::now() > deadline;
      std::this_thread::yield();
    }
  });
  CHECK_EQ(others.load(), 7);
  CHECK_FALSE(gave_up.load());
}

TEST_CASE("workers wake from sleep for a later loop") {
  const auto pool = make_thread_pool(2);
  for (int round = 0; round < 3; ++round) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));  // well past the spin
    CHECK(tiles(ranges_of(*pool, 100, 1), 100));
  }
}

TEST_CASE("idle workers use no processor time") {
  const auto pool = make_thread_pool(3);
  CHECK(tiles(ranges_of(*pool, 100, 1), 100));
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  const std::clock_t before = std::clock();  // of the whole process
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  const double seconds = static_cast<double>(std::clock() - before) / CLOCKS_PER_SEC;
  CHECK(seconds < 0.1);  // two spinning workers would use 0.2 to 0.4
}

TEST_CASE("a pool may be made and dropped without work") {
  for (int i = 0; i < 50; ++i) CHECK_EQ(make_thread_pool(4)->size(), 4);
}

TEST_CASE("asking for no particular size gives one thread per processor") {
  CHECK_EQ(make_thread_pool(0)->size(), platform::available_processors());
}

TEST_CASE("the serial pool is one pool of size one") {
  CHECK_EQ(serial_pool().size(), 1);
  CHECK_EQ(&serial_pool(), &serial_pool());
  CHECK(ranges_of(serial_pool(), 100, 1) == std::vector<Range>{{0, 100}});
}

}  // namespace
}  // namespace hone
