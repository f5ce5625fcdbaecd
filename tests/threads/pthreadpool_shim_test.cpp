// SPDX-License-Identifier: Apache-2.0
// XNNPACK's thread functions on Hone's pool: whatever the grid, every index is visited exactly
// once.
#include "backends/cpu/pthreadpool_shim.hpp"

#if HONE_HAVE_XNNPACK

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "doctest/doctest.h"
#include "hone/thread_pool.hpp"

namespace hone::cpu {
namespace {

constexpr uint32_t kUarch = 7;
constexpr uint32_t kMaxUarch = 9;
constexpr int kMaxThreads = 8;

// Counts the visits to each index of a grid, from several threads.
class Visits {
 public:
  explicit Visits(std::vector<size_t> range) : range_(std::move(range)), cells_(product(range_)) {}

  // One call of a task: a start for each dimension, then an extent for each tiled one.
  template <size_t Tiled, size_t Count>
  void add(const std::array<size_t, Count>& arguments) {
    constexpr size_t kDims = Count - Tiled;
    std::array<size_t, kDims> begin, end;
    for (size_t d = 0; d < kDims; ++d) {
      begin[d] = arguments[d];
      end[d] = begin[d] + (d < kDims - Tiled ? 1 : arguments[d + Tiled]);
    }
    calls.fetch_add(1);
    mark<kDims>(begin, end, 0, 0);
  }

  // A task that is told its thread: no other task may have that number at the same time.
  void enter(size_t thread) {
    if (thread >= kMaxThreads || busy_[thread].fetch_add(1) != 0) bad_threads.fetch_add(1);
  }
  void leave(size_t thread) {
    if (thread < kMaxThreads) busy_[thread].fetch_sub(1);
  }

  bool each_once() const {
    for (const std::atomic<int>& cell : cells_)
      if (cell.load() != 1) return false;
    return outside.load() == 0;
  }

  std::atomic<int> calls{0};
  std::atomic<int> outside{0};
  std::atomic<int> bad_threads{0};
  std::atomic<int> bad_uarch{0};

 private:
  static size_t product(const std::vector<size_t>& range) {
    size_t p = 1;
    for (size_t r : range) p *= r;
    return p;
  }

  template <size_t Dims>
  void mark(const std::array<size_t, Dims>& begin, const std::array<size_t, Dims>& end, size_t d,
            size_t index) {
    if (d == Dims) {
      cells_[index].fetch_add(1);
      return;
    }
    for (size_t i = begin[d]; i < end[d]; ++i) {
      if (i >= range_[d])
        outside.fetch_add(1);
      else
        mark<Dims>(begin, end, d + 1, index * range_[d] + i);
    }
  }

  std::vector<size_t> range_;
  std::vector<std::atomic<int>> cells_;
  std::array<std::atomic<int>, kMaxThreads> busy_{};
};

// Tasks of every signature; the last Tiled of `at` are extents.
template <size_t Tiled, class... At>
void visit(void* visits, At... at) {
  static_cast<Visits*>(visits)->add<Tiled>(std::array<size_t, sizeof...(At)>{at...});
}
template <size_t Tiled, class... At>
void visit_thread(void* visits, size_t thread, At... at) {
  static_cast<Visits*>(visits)->enter(thread);
  visit<Tiled>(visits, at...);
  static_cast<Visits*>(visits)->leave(thread);
}
template <size_t Tiled, class... At>
void visit_uarch(void* visits, uint32_t uarch, At... at) {
  if (uarch > kMaxUarch) static_cast<Visits*>(visits)->bad_uarch.fetch_add(1);
  visit<Tiled>(visits, at...);
}
template <size_t Tiled, class... At>
void visit_uarch_thread(void* visits, uint32_t uarch, size_t thread, At... at) {
  if (uarch > kMaxUarch) static_cast<Visits*>(visits)->bad_uarch.fetch_add(1);
  visit_thread<Tiled>(visits, thread, at...);
}

// Runs `call(pool, visits)` with no pool and with pools of one to four threads.
template <class Call>
void check_visits(std::vector<size_t> range, int expected_calls, Call call) {
  for (int threads = 0; threads <= 4; ++threads) {
    CAPTURE(threads);
    std::unique_ptr<ThreadPool> pool;
    if (threads > 0) pool = make_thread_pool(threads);
    for (int repeat = 0; repeat < 20; ++repeat) {
      Visits visits(range);
      call(pool ? as_pthreadpool(*pool) : nullptr, &visits);
      CHECK(visits.each_once());
      CHECK(visits.calls == expected_calls);
      CHECK(visits.bad_threads == 0);
      CHECK(visits.bad_uarch == 0);
    }
  }
}

TEST_CASE("a pool tells XNNPACK its size, and no pool is one thread") {
  const std::unique_ptr<ThreadPool> pool = make_thread_pool(3);
  CHECK(pthreadpool_get_threads_count(as_pthreadpool(*pool)) == static_cast<size_t>(pool->size()));
  CHECK(pthreadpool_get_threads_count(nullptr) == 1);
}

TEST_CASE("one dimension: each index once") {
  check_visits({101}, 101, [](pthreadpool_t p, void* v) {
    pthreadpool_parallelize_1d(p, visit<0>, v, 101, 0);
  });
  check_visits({101}, 101, [](pthreadpool_t p, void* v) {
    pthreadpool_parallelize_1d_with_thread(p, visit_thread<0>, v, 101, 0);
  });
  check_visits({101}, 15, [](pthreadpool_t p, void* v) {
    pthreadpool_parallelize_1d_tile_1d(p, visit<1>, v, 101, 7, 0);
  });
}

TEST_CASE("two dimensions: each index once") {
  check_visits({7, 23}, 161, [](pthreadpool_t p, void* v) {
    pthreadpool_parallelize_2d(p, visit<0>, v, 7, 23, 0);
  });
  check_visits({7, 23}, 161, [](pthreadpool_t p, void* v) {
    pthreadpool_parallelize_2d_with_thread(p, visit_thread<0>, v, 7, 23, 0);
  });
  check_visits({7, 23}, 7 * 5, [](pthreadpool_t p, void* v) {
    pthreadpool_parallelize_2d_tile_1d(p, visit<1>, v, 7, 23, 5, 0);
  });
  check_visits({7, 23}, 7 * 5, [](pthreadpool_t p, void* v) {
    pthreadpool_parallelize_2d_tile_1d_with_uarch(p, visit_uarch<1>, v, kUarch, kMaxUarch, 7, 23, 5,
                                                  0);
  });
  check_visits({7, 23}, 3 * 6, [](pthreadpool_t p, void* v) {
    pthreadpool_parallelize_2d_tile_2d(p, visit<2>, v, 7, 23, 3, 4, 0);
  });
  check_visits({7, 23}, 3 * 6, [](pthreadpool_t p, void* v) {
    pthreadpool_parallelize_2d_tile_2d_with_uarch(p, visit_uarch<2>, v, kUarch, kMaxUarch, 7, 23, 3,
                                                  4, 0);
  });
}

TEST_CASE("three dimensions: each index once") {
  check_visits({3, 5, 11}, 165, [](pthreadpool_t p, void* v) {
    pthreadpool_parallelize_3d(p, visit<0>, v, 3, 5, 11, 0);
  });
  check_visits({3, 5, 11}, 3 * 5 * 3, [](pthreadpool_t p, void* v) {
    pthreadpool_parallelize_3d_tile_1d(p, visit<1>, v, 3, 5, 11, 4, 0);
  });
  check_visits({3, 5, 11}, 3 * 5 * 3, [](pthreadpool_t p, void* v) {
    pthreadpool_parallelize_3d_tile_1d_with_thread(p, visit_thread<1>, v, 3, 5, 11, 4, 0);
  });
  check_visits({3, 5, 11}, 3 * 5 * 3, [](pthreadpool_t p, void* v) {
    pthreadpool_parallelize_3d_tile_1d_with_uarch(p, visit_uarch<1>, v, kUarch, kMaxUarch, 3, 5, 11,
                                                  4, 0);
  });
  check_visits({3, 5, 11}, 3 * 5 * 3, [](pthreadpool_t p, void* v) {
    pthreadpool_parallelize_3d_tile_1d_with_uarch_with_thread(p, visit_uarch_thread<1>, v, kUarch,
                                                              kMaxUarch, 3, 5, 11, 4, 0);
  });
  check_visits({3, 5, 11}, 3 * 3 * 3, [](pthreadpool_t p, void* v) {
    pthreadpool_parallelize_3d_tile_2d(p, visit<2>, v, 3, 5, 11, 2, 4, 0);
  });
  check_visits({3, 5, 11}, 3 * 3 * 3, [](pthreadpool_t p, void* v) {
    pthreadpool_parallelize_3d_tile_2d_with_uarch(p, visit_uarch<2>, v, kUarch, kMaxUarch, 3, 5, 11,
                                                  2, 4, 0);
  });
}

TEST_CASE("four to six dimensions: each index once") {
  check_visits({2, 3, 5, 7}, 210, [](pthreadpool_t p, void* v) {
    pthreadpool_parallelize_4d(p, visit<0>, v, 2, 3, 5, 7, 0);
  });
  check_visits({2, 3, 5, 7}, 2 * 3 * 3 * 2, [](pthreadpool_t p, void* v) {
    pthreadpool_parallelize_4d_tile_2d(p, visit<2>, v, 2, 3, 5, 7, 2, 4, 0);
  });
  check_visits({2, 3, 5, 7}, 2 * 3 * 3 * 2, [](pthreadpool_t p, void* v) {
    pthreadpool_parallelize_4d_tile_2d_with_uarch(p, visit_uarch<2>, v, kUarch, kMaxUarch, 2, 3, 5,
                                                  7, 2, 4, 0);
  });
  check_visits({2, 3, 2, 5, 7}, 420, [](pthreadpool_t p, void* v) {
    pthreadpool_parallelize_5d(p, visit<0>, v, 2, 3, 2, 5, 7, 0);
  });
  check_visits({2, 3, 2, 5, 7}, 12 * 3 * 2, [](pthreadpool_t p, void* v) {
    pthreadpool_parallelize_5d_tile_2d(p, visit<2>, v, 2, 3, 2, 5, 7, 2, 4, 0);
  });
  check_visits({2, 1, 3, 2, 5, 7}, 12 * 3 * 2, [](pthreadpool_t p, void* v) {
    pthreadpool_parallelize_6d_tile_2d(p, visit<2>, v, 2, 1, 3, 2, 5, 7, 2, 4, 0);
  });
}

TEST_CASE("an empty dimension calls nothing, and a tile larger than the range is one call") {
  check_visits({3, 0, 5}, 0, [](pthreadpool_t p, void* v) {
    pthreadpool_parallelize_3d(p, visit<0>, v, 3, 0, 5, 0);
  });
  check_visits({4, 6}, 1, [](pthreadpool_t p, void* v) {
    pthreadpool_parallelize_2d_tile_2d(p, visit<2>, v, 4, 6, 100, 100, 0);
  });
}

#if defined(__x86_64__) || defined(__aarch64__)
TEST_CASE("with denormals disabled tiny results are zero inside tasks and not outside") {
  static volatile float tiny = 1e-38f;
  struct Seen {
    std::atomic<int> nonzero{0};
  } seen;
  const auto task = [](void* s, size_t) {
    if (tiny * 0.01f != 0.0f) static_cast<Seen*>(s)->nonzero.fetch_add(1);
  };
  const std::unique_ptr<ThreadPool> pool = make_thread_pool(2);
  pthreadpool_parallelize_1d(as_pthreadpool(*pool), task, &seen, 100,
                             PTHREADPOOL_FLAG_DISABLE_DENORMALS);
  CHECK(seen.nonzero == 0);
  pthreadpool_parallelize_1d(as_pthreadpool(*pool), task, &seen, 100, 0);
  CHECK(seen.nonzero == 100);
}
#endif

}  // namespace
}  // namespace hone::cpu

#endif  // HONE_HAVE_XNNPACK
