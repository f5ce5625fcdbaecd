// SPDX-License-Identifier: Apache-2.0
// XNNPACK's thread pool is Hone's: the functions of pthreadpool.h that XNNPACK calls, on a
// hone::ThreadPool. A pthreadpool_t is a pointer to one; null means the calling thread alone.
//
// Every function follows the contract in pthreadpool.h: the task is called exactly once for each
// tile of an up to six-dimensional grid, and the call returns when all are done. The order of tiles
// is free, so a grid is numbered row by row and the pool splits that range. XNNPACK is built
// against a pthreadpool.h that gives these functions the names hone_pthreadpool_*.
#include "backends/cpu/pthreadpool_shim.hpp"

#if HONE_HAVE_XNNPACK

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "pthreadpool.h"

#if defined(__SSE__)
#include <xmmintrin.h>
#endif

namespace hone::cpu {
namespace {

ThreadPool& pool_of(pthreadpool_t pool) {
  return pool != nullptr ? *reinterpret_cast<ThreadPool*>(pool) : serial_pool();
}

// With PTHREADPOOL_FLAG_DISABLE_DENORMALS, tiny numbers become zero while tasks run; where this is
// not known how to do, they do not.
class DenormalsOff {
 public:
  explicit DenormalsOff(uint32_t flags)
      : active_((flags & PTHREADPOOL_FLAG_DISABLE_DENORMALS) != 0) {
    if (!active_) return;
    saved_ = control();
    set_control(saved_ | kFlushToZero);
  }
  ~DenormalsOff() {
    if (active_) set_control(saved_);
  }
  DenormalsOff(const DenormalsOff&) = delete;
  DenormalsOff& operator=(const DenormalsOff&) = delete;

 private:
#if defined(__SSE__)
  using Control = unsigned int;
  static constexpr Control kFlushToZero = 0x8040;  // results and operands
  static Control control() { return _mm_getcsr(); }
  static void set_control(Control value) { _mm_setcsr(value); }
#elif defined(__aarch64__)
  using Control = uint64_t;
  static constexpr Control kFlushToZero = Control{1} << 24;
  static Control control() {
    Control value;
    __asm__ __volatile__("mrs %0, fpcr" : "=r"(value));
    return value;
  }
  static void set_control(Control value) { __asm__ __volatile__("msr fpcr, %0" : : "r"(value)); }
#else
  using Control = int;
  static constexpr Control kFlushToZero = 0;
  static Control control() { return 0; }
  static void set_control(Control) {}
#endif
  bool active_;
  Control saved_{};
};

// A grid of N dimensions of which the last T are cut into tiles.
template <size_t N, size_t T = 0>
struct Grid {
  std::array<size_t, N> range;
  std::array<size_t, T> tile{};

  // Calls task(worker, start of each dimension..., extent of each tiled dimension...) for every
  // tile.
  template <class Task>
  void run(pthreadpool_t pool, uint32_t flags, const Task& task) const {
    std::array<size_t, N> count;  // tiles in each dimension
    size_t total = 1;
    for (size_t d = 0; d < N; ++d) {
      count[d] = range[d] / step(d) + (range[d] % step(d) != 0);
      total *= count[d];
    }
    pool_of(pool).parallel_for(
        static_cast<int64_t>(total), 1, [&](int64_t begin, int64_t end, int worker) {
          const DenormalsOff scope(flags);
          std::array<size_t, N> at = unravel(static_cast<size_t>(begin), count);
          for (int64_t i = begin; i < end; ++i) {
            call(task, worker, at, std::make_index_sequence<N>{}, std::make_index_sequence<T>{});
            advance(at);
          }
        });
  }

 private:
  size_t step(size_t d) const {
    if constexpr (T > 0) return d >= N - T ? tile[d - (N - T)] : 1;
    return 1;
  }

  // The start of tile number `index`.
  std::array<size_t, N> unravel(size_t index, const std::array<size_t, N>& count) const {
    std::array<size_t, N> at;
    for (size_t d = N; d-- > 0;) {
      at[d] = index % count[d] * step(d);
      index /= count[d];
    }
    return at;
  }

  void advance(std::array<size_t, N>& at) const {
    for (size_t d = N; d-- > 0;) {
      at[d] += step(d);
      if (at[d] < range[d]) return;
      at[d] = 0;
    }
  }

  template <class Task, size_t... D, size_t... E>
  void call(const Task& task, int worker, const std::array<size_t, N>& at,
            std::index_sequence<D...>, std::index_sequence<E...>) const {
    task(static_cast<size_t>(worker), at[D]...,
         std::min(tile[E], range[N - T + E] - at[N - T + E])...);
  }
};

// The kinds of task: plain; told which thread it runs on; told which kind of core it runs on. Hone
// does not tell cores apart, which the contract covers by a default.
template <class... At>
auto plain(void (*task)(void*, At...), void* context) {
  return [=](size_t, At... at) { task(context, at...); };
}
template <class... At>
auto with_thread(void (*task)(void*, size_t, At...), void* context) {
  return [=](size_t thread, At... at) { task(context, thread, at...); };
}
template <class... At>
auto with_uarch(void (*task)(void*, uint32_t, At...), void* context, uint32_t uarch) {
  return [=](size_t, At... at) { task(context, uarch, at...); };
}
template <class... At>
auto with_uarch_and_thread(void (*task)(void*, uint32_t, size_t, At...), void* context,
                           uint32_t uarch) {
  return [=](size_t thread, At... at) { task(context, uarch, thread, at...); };
}

}  // namespace

pthreadpool_t as_pthreadpool(ThreadPool& pool) { return reinterpret_cast<pthreadpool_t>(&pool); }

}  // namespace hone::cpu

using namespace hone::cpu;  // NOLINT: the C functions below

extern "C" {

size_t pthreadpool_get_threads_count(pthreadpool_t pool) {
  return static_cast<size_t>(hone::cpu::pool_of(pool).size());
}

void pthreadpool_parallelize_1d(pthreadpool_t pool, pthreadpool_task_1d_t task, void* context,
                                size_t i, uint32_t flags) {
  Grid<1>{{i}}.run(pool, flags, plain(task, context));
}

void pthreadpool_parallelize_1d_with_thread(pthreadpool_t pool,
                                            pthreadpool_task_1d_with_thread_t task, void* context,
                                            size_t i, uint32_t flags) {
  Grid<1>{{i}}.run(pool, flags, with_thread(task, context));
}

void pthreadpool_parallelize_1d_tile_1d(pthreadpool_t pool, pthreadpool_task_1d_tile_1d_t task,
                                        void* context, size_t i, size_t tile_i, uint32_t flags) {
  Grid<1, 1>{{i}, {tile_i}}.run(pool, flags, plain(task, context));
}

void pthreadpool_parallelize_2d(pthreadpool_t pool, pthreadpool_task_2d_t task, void* context,
                                size_t i, size_t j, uint32_t flags) {
  Grid<2>{{i, j}}.run(pool, flags, plain(task, context));
}

void pthreadpool_parallelize_2d_with_thread(pthreadpool_t pool,
                                            pthreadpool_task_2d_with_thread_t task, void* context,
                                            size_t i, size_t j, uint32_t flags) {
  Grid<2>{{i, j}}.run(pool, flags, with_thread(task, context));
}

void pthreadpool_parallelize_2d_tile_1d(pthreadpool_t pool, pthreadpool_task_2d_tile_1d_t task,
                                        void* context, size_t i, size_t j, size_t tile_j,
                                        uint32_t flags) {
  Grid<2, 1>{{i, j}, {tile_j}}.run(pool, flags, plain(task, context));
}

void pthreadpool_parallelize_2d_tile_1d_with_uarch(pthreadpool_t pool,
                                                   pthreadpool_task_2d_tile_1d_with_id_t task,
                                                   void* context, uint32_t uarch,
                                                   uint32_t /*max_uarch*/, size_t i, size_t j,
                                                   size_t tile_j, uint32_t flags) {
  Grid<2, 1>{{i, j}, {tile_j}}.run(pool, flags, with_uarch(task, context, uarch));
}

void pthreadpool_parallelize_2d_tile_2d(pthreadpool_t pool, pthreadpool_task_2d_tile_2d_t task,
                                        void* context, size_t i, size_t j, size_t tile_i,
                                        size_t tile_j, uint32_t flags) {
  Grid<2, 2>{{i, j}, {tile_i, tile_j}}.run(pool, flags, plain(task, context));
}

void pthreadpool_parallelize_2d_tile_2d_with_uarch(pthreadpool_t pool,
                                                   pthreadpool_task_2d_tile_2d_with_id_t task,
                                                   void* context, uint32_t uarch,
                                                   uint32_t /*max_uarch*/, size_t i, size_t j,
                                                   size_t tile_i, size_t tile_j, uint32_t flags) {
  Grid<2, 2>{{i, j}, {tile_i, tile_j}}.run(pool, flags, with_uarch(task, context, uarch));
}

void pthreadpool_parallelize_3d(pthreadpool_t pool, pthreadpool_task_3d_t task, void* context,
                                size_t i, size_t j, size_t k, uint32_t flags) {
  Grid<3>{{i, j, k}}.run(pool, flags, plain(task, context));
}

void pthreadpool_parallelize_3d_tile_1d(pthreadpool_t pool, pthreadpool_task_3d_tile_1d_t task,
                                        void* context, size_t i, size_t j, size_t k, size_t tile_k,
                                        uint32_t flags) {
  Grid<3, 1>{{i, j, k}, {tile_k}}.run(pool, flags, plain(task, context));
}

void pthreadpool_parallelize_3d_tile_1d_with_thread(pthreadpool_t pool,
                                                    pthreadpool_task_3d_tile_1d_with_thread_t task,
                                                    void* context, size_t i, size_t j, size_t k,
                                                    size_t tile_k, uint32_t flags) {
  Grid<3, 1>{{i, j, k}, {tile_k}}.run(pool, flags, with_thread(task, context));
}

void pthreadpool_parallelize_3d_tile_1d_with_uarch(pthreadpool_t pool,
                                                   pthreadpool_task_3d_tile_1d_with_id_t task,
                                                   void* context, uint32_t uarch,
                                                   uint32_t /*max_uarch*/, size_t i, size_t j,
                                                   size_t k, size_t tile_k, uint32_t flags) {
  Grid<3, 1>{{i, j, k}, {tile_k}}.run(pool, flags, with_uarch(task, context, uarch));
}

void pthreadpool_parallelize_3d_tile_1d_with_uarch_with_thread(
    pthreadpool_t pool, pthreadpool_task_3d_tile_1d_with_id_with_thread_t task, void* context,
    uint32_t uarch, uint32_t /*max_uarch*/, size_t i, size_t j, size_t k, size_t tile_k,
    uint32_t flags) {
  Grid<3, 1>{{i, j, k}, {tile_k}}.run(pool, flags, with_uarch_and_thread(task, context, uarch));
}

void pthreadpool_parallelize_3d_tile_2d(pthreadpool_t pool, pthreadpool_task_3d_tile_2d_t task,
                                        void* context, size_t i, size_t j, size_t k, size_t tile_j,
                                        size_t tile_k, uint32_t flags) {
  Grid<3, 2>{{i, j, k}, {tile_j, tile_k}}.run(pool, flags, plain(task, context));
}

void pthreadpool_parallelize_3d_tile_2d_with_uarch(pthreadpool_t pool,
                                                   pthreadpool_task_3d_tile_2d_with_id_t task,
                                                   void* context, uint32_t uarch,
                                                   uint32_t /*max_uarch*/, size_t i, size_t j,
                                                   size_t k, size_t tile_j, size_t tile_k,
                                                   uint32_t flags) {
  Grid<3, 2>{{i, j, k}, {tile_j, tile_k}}.run(pool, flags, with_uarch(task, context, uarch));
}

void pthreadpool_parallelize_4d(pthreadpool_t pool, pthreadpool_task_4d_t task, void* context,
                                size_t i, size_t j, size_t k, size_t l, uint32_t flags) {
  Grid<4>{{i, j, k, l}}.run(pool, flags, plain(task, context));
}

void pthreadpool_parallelize_4d_tile_2d(pthreadpool_t pool, pthreadpool_task_4d_tile_2d_t task,
                                        void* context, size_t i, size_t j, size_t k, size_t l,
                                        size_t tile_k, size_t tile_l, uint32_t flags) {
  Grid<4, 2>{{i, j, k, l}, {tile_k, tile_l}}.run(pool, flags, plain(task, context));
}

void pthreadpool_parallelize_4d_tile_2d_with_uarch(pthreadpool_t pool,
                                                   pthreadpool_task_4d_tile_2d_with_id_t task,
                                                   void* context, uint32_t uarch,
                                                   uint32_t /*max_uarch*/, size_t i, size_t j,
                                                   size_t k, size_t l, size_t tile_k, size_t tile_l,
                                                   uint32_t flags) {
  Grid<4, 2>{{i, j, k, l}, {tile_k, tile_l}}.run(pool, flags, with_uarch(task, context, uarch));
}

void pthreadpool_parallelize_5d(pthreadpool_t pool, pthreadpool_task_5d_t task, void* context,
                                size_t i, size_t j, size_t k, size_t l, size_t m, uint32_t flags) {
  Grid<5>{{i, j, k, l, m}}.run(pool, flags, plain(task, context));
}

void pthreadpool_parallelize_5d_tile_2d(pthreadpool_t pool, pthreadpool_task_5d_tile_2d_t task,
                                        void* context, size_t i, size_t j, size_t k, size_t l,
                                        size_t m, size_t tile_l, size_t tile_m, uint32_t flags) {
  Grid<5, 2>{{i, j, k, l, m}, {tile_l, tile_m}}.run(pool, flags, plain(task, context));
}

void pthreadpool_parallelize_6d_tile_2d(pthreadpool_t pool, pthreadpool_task_6d_tile_2d_t task,
                                        void* context, size_t i, size_t j, size_t k, size_t l,
                                        size_t m, size_t n, size_t tile_m, size_t tile_n,
                                        uint32_t flags) {
  Grid<6, 2>{{i, j, k, l, m, n}, {tile_m, tile_n}}.run(pool, flags, plain(task, context));
}

}  // extern "C"

#endif  // HONE_HAVE_XNNPACK
