// SPDX-License-Identifier: Apache-2.0
// oneDNN on Hone's threads: the contract of its pool interface, and primitives that use it.
#include "backends/cpu/onednn_threadpool.hpp"

#if HONE_HAVE_ONEDNN

#include <atomic>
#include <memory>
#include <vector>

#include "doctest/doctest.h"
#include "hone/thread_pool.hpp"
#include "oneapi/dnnl/dnnl.h"
#include "oneapi/dnnl/dnnl_threadpool.h"

namespace hone::cpu {
namespace {

TEST_CASE("oneDNN's tasks each run once, and know that they run in parallel") {
  for (int threads = 1; threads <= 4; ++threads) {
    const std::unique_ptr<ThreadPool> pool = make_thread_pool(threads);
    OnednnThreadPool adapter(*pool, pool->size());
    CHECK(adapter.get_num_threads() == pool->size());
    CHECK_FALSE(adapter.get_in_parallel());

    std::vector<std::atomic<int>> visits(57);
    std::atomic<int> outside{0}, wrong_count{0};
    adapter.parallel_for(57, [&](int i, int n) {
      visits[static_cast<size_t>(i)].fetch_add(1);
      if (n != 57) wrong_count.fetch_add(1);
      if (!adapter.get_in_parallel()) outside.fetch_add(1);
    });
    for (const std::atomic<int>& count : visits) CHECK(count == 1);
    CHECK(outside == 0);
    CHECK(wrong_count == 0);
    CHECK_FALSE(adapter.get_in_parallel());
  }
}

TEST_CASE("oneDNN plans for as many threads as the pool has while the scope lasts") {
  int before = 0, inside = 0, after = 0;
  const std::unique_ptr<ThreadPool> pool = make_thread_pool(3);
  dnnl_threadpool_interop_get_max_concurrency(&before);
  {
    const OnednnConcurrency scope(pool->size());
    dnnl_threadpool_interop_get_max_concurrency(&inside);
  }
  dnnl_threadpool_interop_get_max_concurrency(&after);
  CHECK(inside == pool->size());
  CHECK(after == before);
}

// Frees oneDNN's C handles.
struct Handles {
  std::vector<dnnl_memory_desc_t> descs;
  std::vector<dnnl_memory_t> memories;
  dnnl_engine_t engine = nullptr;
  dnnl_stream_t stream = nullptr;
  ~Handles() {
    for (dnnl_memory_t memory : memories) dnnl_memory_destroy(memory);
    for (dnnl_memory_desc_t desc : descs) dnnl_memory_desc_destroy(desc);
    if (stream) dnnl_stream_destroy(stream);
    if (engine) dnnl_engine_destroy(engine);
  }

  dnnl_memory_desc_t desc(std::vector<dnnl_dim_t> dims, dnnl_format_tag_t tag) {
    dnnl_memory_desc_t made = nullptr;
    REQUIRE(dnnl_memory_desc_create_with_tag(&made, static_cast<int>(dims.size()), dims.data(),
                                             dnnl_f32, tag) == dnnl_success);
    descs.push_back(made);
    return made;
  }
  dnnl_memory_t memory(dnnl_memory_desc_t of, std::vector<float>& data) {
    dnnl_memory_t made = nullptr;
    REQUIRE(dnnl_memory_create(&made, of, engine, data.data()) == dnnl_success);
    memories.push_back(made);
    return made;
  }
  void open(OnednnThreadPool& pool) {
    REQUIRE(dnnl_engine_create(&engine, dnnl_cpu, 0) == dnnl_success);
    REQUIRE(dnnl_threadpool_interop_stream_create(&stream, engine, &pool) == dnnl_success);
  }
  void execute(dnnl_primitive_desc_t desc, const std::vector<dnnl_exec_arg_t>& args) {
    dnnl_primitive_t primitive = nullptr;
    REQUIRE(dnnl_primitive_create(&primitive, desc) == dnnl_success);
    REQUIRE(dnnl_primitive_execute(primitive, stream, static_cast<int>(args.size()), args.data()) ==
            dnnl_success);
    dnnl_primitive_destroy(primitive);
    dnnl_primitive_desc_destroy(desc);
  }
};

std::vector<float> counting(size_t n, int modulus) {
  std::vector<float> v(n);
  for (size_t i = 0; i < n; ++i) v[i] = static_cast<float>(static_cast<int>(i) % modulus) - 3.0f;
  return v;
}

TEST_CASE("oneDNN multiplies matrices on Hone's threads") {
  const dnnl_dim_t m = 65, n = 47, k = 33;
  std::vector<float> a = counting(m * k, 7), b = counting(k * n, 5), c(m * n);
  for (int threads = 1; threads <= 4; ++threads) {
    const std::unique_ptr<ThreadPool> pool = make_thread_pool(threads);
    OnednnThreadPool adapter(*pool, pool->size());
    const OnednnConcurrency scope(pool->size());
    Handles h;
    h.open(adapter);
    const auto a_desc = h.desc({m, k}, dnnl_ab), b_desc = h.desc({k, n}, dnnl_ab),
               c_desc = h.desc({m, n}, dnnl_ab);
    dnnl_primitive_desc_t desc = nullptr;
    REQUIRE(dnnl_matmul_primitive_desc_create(&desc, h.engine, a_desc, b_desc, nullptr, c_desc,
                                              nullptr) == dnnl_success);
    h.execute(desc, {{DNNL_ARG_SRC, h.memory(a_desc, a)},
                     {DNNL_ARG_WEIGHTS, h.memory(b_desc, b)},
                     {DNNL_ARG_DST, h.memory(c_desc, c)}});
    for (dnnl_dim_t i = 0; i < m; ++i)
      for (dnnl_dim_t j = 0; j < n; ++j) {
        float expected = 0;
        for (dnnl_dim_t l = 0; l < k; ++l) expected += a[i * k + l] * b[l * n + j];
        REQUIRE(c[i * n + j] == expected);  // small integers: exact
      }
  }
}

// A 3x3 convolution with padding 1, and its gradients, each against the plain loops.
TEST_CASE("oneDNN convolves forward and backward on Hone's threads") {
  const dnnl_dim_t batch = 2, ic = 5, oc = 19, size = 9;
  const dnnl_dim_t strides[] = {1, 1}, dilates[] = {0, 0}, padding[] = {1, 1};
  const std::vector<dnnl_dim_t> x_dims = {batch, ic, size, size}, w_dims = {oc, ic, 3, 3},
                                y_dims = {batch, oc, size, size};
  std::vector<float> x = counting(batch * ic * size * size, 5), w = counting(oc * ic * 9, 4),
                     gy = counting(batch * oc * size * size, 3);

  std::vector<float> y_ref(gy.size()), gx_ref(x.size()), gw_ref(w.size());
  for (dnnl_dim_t b = 0; b < batch; ++b)
    for (dnnl_dim_t o = 0; o < oc; ++o)
      for (dnnl_dim_t r = 0; r < size; ++r)
        for (dnnl_dim_t s = 0; s < size; ++s)
          for (dnnl_dim_t i = 0; i < ic; ++i)
            for (dnnl_dim_t u = 0; u < 3; ++u)
              for (dnnl_dim_t v = 0; v < 3; ++v) {
                const dnnl_dim_t row = r + u - 1, col = s + v - 1;
                if (row < 0 || row >= size || col < 0 || col >= size) continue;
                const auto xi = ((b * ic + i) * size + row) * size + col;
                const auto yi = ((b * oc + o) * size + r) * size + s;
                const auto wi = ((o * ic + i) * 3 + u) * 3 + v;
                y_ref[yi] += x[xi] * w[wi];
                gx_ref[xi] += gy[yi] * w[wi];
                gw_ref[wi] += gy[yi] * x[xi];
              }

  for (int threads = 1; threads <= 4; ++threads) {
    CAPTURE(threads);
    const std::unique_ptr<ThreadPool> pool = make_thread_pool(threads);
    OnednnThreadPool adapter(*pool, pool->size());
    const OnednnConcurrency scope(pool->size());
    Handles h;
    h.open(adapter);
    const auto xd = h.desc(x_dims, dnnl_nchw), wd = h.desc(w_dims, dnnl_oihw),
               yd = h.desc(y_dims, dnnl_nchw);
    std::vector<float> y(gy.size()), gx(x.size()), gw(w.size());

    dnnl_primitive_desc_t forward = nullptr, hint = nullptr, backward = nullptr;
    const auto make_forward = [&](dnnl_primitive_desc_t* desc) {
      REQUIRE(dnnl_convolution_forward_primitive_desc_create(
                  desc, h.engine, dnnl_forward_training, dnnl_convolution_direct, xd, wd, nullptr,
                  yd, strides, dilates, padding, padding, nullptr) == dnnl_success);
    };
    make_forward(&forward);
    make_forward(&hint);
    h.execute(forward, {{DNNL_ARG_SRC, h.memory(xd, x)},
                        {DNNL_ARG_WEIGHTS, h.memory(wd, w)},
                        {DNNL_ARG_DST, h.memory(yd, y)}});
    CHECK(y == y_ref);

    REQUIRE(dnnl_convolution_backward_data_primitive_desc_create(
                &backward, h.engine, dnnl_convolution_direct, xd, wd, yd, strides, dilates, padding,
                padding, hint, nullptr) == dnnl_success);
    h.execute(backward, {{DNNL_ARG_DIFF_DST, h.memory(yd, gy)},
                         {DNNL_ARG_WEIGHTS, h.memory(wd, w)},
                         {DNNL_ARG_DIFF_SRC, h.memory(xd, gx)}});
    CHECK(gx == gx_ref);

    REQUIRE(dnnl_convolution_backward_weights_primitive_desc_create(
                &backward, h.engine, dnnl_convolution_direct, xd, wd, nullptr, yd, strides, dilates,
                padding, padding, hint, nullptr) == dnnl_success);
    h.execute(backward, {{DNNL_ARG_DIFF_DST, h.memory(yd, gy)},
                         {DNNL_ARG_SRC, h.memory(xd, x)},
                         {DNNL_ARG_DIFF_WEIGHTS, h.memory(wd, gw)}});
    CHECK(gw == gw_ref);
    dnnl_primitive_desc_destroy(hint);
  }
}

}  // namespace
}  // namespace hone::cpu

#endif  // HONE_HAVE_ONEDNN
