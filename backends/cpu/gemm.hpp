// SPDX-License-Identifier: Apache-2.0
// Single-precision matrix product: the one dense kernel that convolution and matmul stand on where
// no library does better.
#pragma once

#include <cstddef>
#include <cstdint>

#include "hone/function_ref.hpp"
#include "hone/thread_pool.hpp"

namespace hone::cpu {

/// The widest panel of packed columns on any processor, in floats: for sizing scratch.
inline constexpr int64_t kMaxPanel = 4 * 64;

/// A row-major matrix, or the transpose of one.
struct Matrix {
  const float* data = nullptr;
  int64_t stride = 0;  ///< Elements between rows as stored.
  bool transposed = false;
  const float* at(int64_t row, int64_t column) const {
    return transposed ? data + column * stride + row : data + row * stride + column;
  }
};

/// Writes rows [k0, k0 + kc) and columns [n0, n0 + width) of a (K, N) operand to `out` as kc rows
/// of `panel` floats; columns from `width` on are zero.
using PackPanel =
    FunctionRef<void(int64_t k0, int64_t kc, int64_t n0, int64_t width, int64_t panel, float* out)>;

enum class Into : uint8_t { assign, add };

/// Bytes of scratch for a product with these extents on that many threads.
int64_t gemm_scratch_bytes(int64_t m, int64_t n, int64_t k, int threads);

/// C (M, N; row stride ldc) = or += A (M, K) B (K, N). Each element of C is summed over k in one
/// fixed order, whatever the number of threads.
void gemm(int64_t m, int64_t n, int64_t k, const Matrix& a, PackPanel pack_b, float* c, int64_t ldc,
          Into into, std::byte* scratch, ThreadPool& pool);
void gemm(int64_t m, int64_t n, int64_t k, const Matrix& a, const Matrix& b, float* c, int64_t ldc,
          Into into, std::byte* scratch, ThreadPool& pool);

}  // namespace hone::cpu
