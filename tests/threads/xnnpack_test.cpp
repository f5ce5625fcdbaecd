// SPDX-License-Identifier: Apache-2.0
// XNNPACK itself, running on Hone's threads.
#include "backends/cpu/pthreadpool_shim.hpp"

#if HONE_HAVE_XNNPACK

#include <cmath>
#include <memory>
#include <vector>

#include "doctest/doctest.h"
#include "hone/thread_pool.hpp"
#include "xnnpack.h"

namespace hone::cpu {
namespace {

// y = x w^T + b through a subgraph of one fully connected node.  x (M, K), w (N, K), b (N), y (M,
// N)
std::vector<float> fully_connected(ThreadPool* pool, size_t m, size_t n, size_t k,
                                   const std::vector<float>& x, const std::vector<float>& w,
                                   const std::vector<float>& b) {
  const size_t x_shape[] = {m, k}, w_shape[] = {n, k}, b_shape[] = {n}, y_shape[] = {m, n};
  xnn_subgraph_t graph = nullptr;
  REQUIRE(xnn_create_subgraph(2, 0, &graph) == xnn_status_success);
  uint32_t x_id = 0, w_id = 0, b_id = 0, y_id = 1;
  REQUIRE(xnn_define_tensor_value(graph, xnn_datatype_fp32, 2, x_shape, nullptr, 0,
                                  XNN_VALUE_FLAG_EXTERNAL_INPUT, &x_id) == xnn_status_success);
  REQUIRE(xnn_define_tensor_value(graph, xnn_datatype_fp32, 2, w_shape, w.data(),
                                  XNN_INVALID_VALUE_ID, 0, &w_id) == xnn_status_success);
  REQUIRE(xnn_define_tensor_value(graph, xnn_datatype_fp32, 1, b_shape, b.data(),
                                  XNN_INVALID_VALUE_ID, 0, &b_id) == xnn_status_success);
  REQUIRE(xnn_define_tensor_value(graph, xnn_datatype_fp32, 2, y_shape, nullptr, 1,
                                  XNN_VALUE_FLAG_EXTERNAL_OUTPUT, &y_id) == xnn_status_success);
  REQUIRE(xnn_define_fully_connected(graph, -INFINITY, INFINITY, x_id, w_id, b_id, y_id, 0) ==
          xnn_status_success);

  xnn_runtime_t runtime = nullptr;
  REQUIRE(xnn_create_runtime_v2(graph, pool ? as_pthreadpool(*pool) : nullptr, 0, &runtime) ==
          xnn_status_success);
  std::vector<float> padded(x);
  padded.resize(x.size() + XNN_EXTRA_BYTES / sizeof(float));  // XNNPACK may read past the end
  std::vector<float> y(m * n);
  const xnn_external_value values[] = {{0, padded.data()}, {1, y.data()}};
  REQUIRE(xnn_setup_runtime(runtime, 2, values) == xnn_status_success);
  REQUIRE(xnn_invoke_runtime(runtime) == xnn_status_success);
  xnn_delete_runtime(runtime);
  xnn_delete_subgraph(graph);
  return y;
}

TEST_CASE("XNNPACK computes a matrix product on Hone's threads, the same bits for any number") {
  REQUIRE(xnn_initialize(nullptr) == xnn_status_success);
  const size_t m = 37, n = 53, k = 29;
  std::vector<float> x(m * k), w(n * k), b(n);
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i % 13) - 6.0f;
  for (size_t i = 0; i < w.size(); ++i) w[i] = static_cast<float>(i % 7) - 3.0f;
  for (size_t i = 0; i < b.size(); ++i) b[i] = static_cast<float>(i);

  const std::vector<float> serial = fully_connected(nullptr, m, n, k, x, w, b);
  for (size_t i = 0; i < m; ++i)
    for (size_t j = 0; j < n; ++j) {
      float expected = b[j];
      for (size_t l = 0; l < k; ++l) expected += x[i * k + l] * w[j * k + l];
      REQUIRE(serial[i * n + j] == expected);  // small integers: exact
    }
  for (int threads = 1; threads <= 4; ++threads) {
    const std::unique_ptr<ThreadPool> pool = make_thread_pool(threads);
    CHECK(fully_connected(pool.get(), m, n, k, x, w, b) == serial);
  }
}

}  // namespace
}  // namespace hone::cpu

#endif  // HONE_HAVE_XNNPACK
