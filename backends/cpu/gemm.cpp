// SPDX-License-Identifier: Apache-2.0
// Goto and van de Geijn, "Anatomy of High-Performance Matrix Multiplication" (2008): B is packed
// into panels as wide as a few vectors, A into strips of kRows rows, and the innermost loop keeps a
// kRows x panel tile of C in registers.
#if HONE_HAVE_HIGHWAY

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/gemm.cpp"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"

#include "backends/cpu/gemm.hpp"
#include "hone/tensor_data.hpp"
// After highway.h: it is compiled for each target anew.
#include "backends/cpu/gemm_tile-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace hone::cpu::HWY_NAMESPACE {

int64_t PanelWidth() {
  return kTileVectors * static_cast<int64_t>(hn::Lanes(hn::ScalableTag<float>()));
}

// `a` has kc groups of kTileRows.
template <int64_t R>
HWY_INLINE void Tile(int64_t kc, const float* HWY_RESTRICT a, const float* HWY_RESTRICT b,
                     int64_t ldb, float* HWY_RESTRICT c, int64_t ldc, int64_t width, bool add) {
  Tile<R, kTileVectors>(kc, ByColumns{a, kTileRows}, b, ldb, c, ldc, width, add);
}

void Strip(int64_t rows, int64_t kc, const float* a, const float* b, int64_t ldb, float* c,
           int64_t ldc, int64_t width, bool add) {
  switch (rows) {
    case 1:
      return Tile<1>(kc, a, b, ldb, c, ldc, width, add);
    case 2:
      return Tile<2>(kc, a, b, ldb, c, ldc, width, add);
    case 3:
      return Tile<3>(kc, a, b, ldb, c, ldc, width, add);
    case 4:
      return Tile<4>(kc, a, b, ldb, c, ldc, width, add);
    case 5:
      return Tile<5>(kc, a, b, ldb, c, ldc, width, add);
    default:
      return Tile<6>(kc, a, b, ldb, c, ldc, width, add);
  }
}

}  // namespace hone::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <algorithm>

namespace hone::cpu {

HWY_EXPORT(PanelWidth);
HWY_EXPORT(Strip);

namespace {

constexpr int64_t kRows = 6;     // as in the kernel
constexpr int64_t kDepth = 256;  // rows of B in one packed block: a strip of A and a panel of B
                                 // stay in the first-level cache
constexpr int64_t kColumns =
    2048;  // columns of B in one packed block: it stays in the second-level cache
constexpr int64_t kStrips = 16;  // strips of A packed at a time

void pack_strip(const Matrix& a, int64_t row, int64_t rows, int64_t k0, int64_t kc, float* out) {
  for (int64_t r = 0; r < kRows; ++r) {
    if (r >= rows) {
      for (int64_t k = 0; k < kc; ++k) out[k * kRows + r] = 0;
    } else if (a.transposed) {
      const float* from = a.data + k0 * a.stride + row + r;
      for (int64_t k = 0; k < kc; ++k) out[k * kRows + r] = from[k * a.stride];
    } else {
      const float* from = a.data + (row + r) * a.stride + k0;
      for (int64_t k = 0; k < kc; ++k) out[k * kRows + r] = from[k];
    }
  }
}

}  // namespace

int64_t gemm_scratch_bytes(int64_t m, int64_t n, int64_t k, int threads) {
  const int64_t depth = std::min(k, kDepth);
  const int64_t strips = std::min(kStrips, (m + kRows - 1) / kRows);
  const int64_t b = depth * round_up(std::min(n, kColumns), kMaxPanel);
  const int64_t a = depth * strips * kRows * threads;
  return (a + b) * static_cast<int64_t>(sizeof(float));
}

namespace {

// `direct`: B itself, where its rows are to be read as they stand; only a last panel that is
// narrower than the others is packed then. Null: all panels are packed.
void multiply(int64_t m, int64_t n, int64_t k, const Matrix& a, const Matrix* direct,
              PackPanel pack_b, float* c, int64_t ldc, Into into, std::byte* scratch,
              ThreadPool& pool) {
  if (m == 0 || n == 0) return;
  if (k == 0) {
    if (into == Into::assign)
      for (int64_t r = 0; r < m; ++r) std::fill_n(c + r * ldc, n, 0.0f);
    return;
  }
  const int64_t panel = HWY_DYNAMIC_DISPATCH(PanelWidth)();
  const int64_t strips = (m + kRows - 1) / kRows;
  const int64_t strips_at_once = std::min(kStrips, strips);
  float* const b_packed = reinterpret_cast<float*>(scratch);
  float* const a_packed =
      b_packed + std::min(k, kDepth) * round_up(std::min(n, kColumns), kMaxPanel);
  const int64_t a_floats = std::min(k, kDepth) * strips_at_once * kRows;
  for (int64_t n0 = 0; n0 < n; n0 += kColumns) {
    const int64_t nc = std::min(kColumns, n - n0);
    const int64_t panels = (nc + panel - 1) / panel;
    for (int64_t k0 = 0; k0 < k; k0 += kDepth) {
      const int64_t kc = std::min(kDepth, k - k0);
      const bool add = into == Into::add || k0 > 0;
      const int64_t as_they_stand = direct ? nc / panel : 0;
      pool.parallel_for(panels - as_they_stand, std::max<int64_t>(1, 8192 / (kc * panel)),
                        [&](int64_t begin, int64_t end, int) {
                          for (int64_t p = as_they_stand + begin; p < as_they_stand + end; ++p)
                            pack_b(k0, kc, n0 + p * panel, std::min(panel, nc - p * panel), panel,
                                   b_packed + p * panel * kc);
                        });
      // Work is split by blocks of strips when there are enough of them, by panels otherwise.
      const int64_t blocks = (strips + strips_at_once - 1) / strips_at_once;
      const int64_t parts =
          blocks >= 2 * pool.size() ? 1 : std::min<int64_t>(panels, 2 * pool.size());
      const int64_t tasks = blocks * parts;
      const double work =
          2.0 * static_cast<double>(m) * static_cast<double>(nc) * static_cast<double>(kc);
      const int64_t grain = work < 1e5 ? tasks : 1;
      pool.parallel_for(tasks, grain, [&](int64_t begin, int64_t end, int worker) {
        float* const mine = a_packed + worker * a_floats;
        int64_t packed_block = -1;
        for (int64_t t = begin; t < end; ++t) {
          const int64_t block = t / parts, part = t % parts;
          const int64_t first = block * strips_at_once,
                        last = std::min(strips, first + strips_at_once);
          if (block != packed_block)
            for (int64_t s = first; s < last; ++s)
              pack_strip(a, s * kRows, std::min(kRows, m - s * kRows), k0, kc,
                         mine + (s - first) * kc * kRows);
          packed_block = block;
          for (int64_t p = panels * part / parts; p < panels * (part + 1) / parts; ++p) {
            const bool stands = p < as_they_stand;
            const float* const b = stands ? direct->data + k0 * direct->stride + n0 + p * panel
                                          : b_packed + p * panel * kc;
            for (int64_t s = first; s < last; ++s) HWY_DYNAMIC_DISPATCH(Strip)
            (std::min(kRows, m - s * kRows), kc, mine + (s - first) * kc * kRows, b,
             stands ? direct->stride : panel, c + s * kRows * ldc + n0 + p * panel, ldc,
             std::min(panel, nc - p * panel), add);
          }
        }
      });
    }
  }
}

}  // namespace

void gemm(int64_t m, int64_t n, int64_t k, const Matrix& a, PackPanel pack_b, float* c, int64_t ldc,
          Into into, std::byte* scratch, ThreadPool& pool) {
  multiply(m, n, k, a, nullptr, pack_b, c, ldc, into, scratch, pool);
}

void gemm(int64_t m, int64_t n, int64_t k, const Matrix& a, const Matrix& b, float* c, int64_t ldc,
          Into into, std::byte* scratch, ThreadPool& pool) {
  // Packing B costs as much as some dozen rows of A.
  constexpr int64_t kFewRows = 48;
  const bool direct = !b.transposed && m <= kFewRows;
  const auto pack = [&b](int64_t k0, int64_t kc, int64_t n0, int64_t width, int64_t panel,
                         float* out) {
    if (!b.transposed) {
      for (int64_t r = 0; r < kc; ++r, out += panel) {
        std::copy_n(b.data + (k0 + r) * b.stride + n0, width, out);
        std::fill(out + width, out + panel, 0.0f);
      }
      return;
    }
    for (int64_t j = 0; j < panel; ++j) {
      const float* from = b.data + (n0 + j) * b.stride + k0;
      for (int64_t r = 0; r < kc; ++r) out[r * panel + j] = j < width ? from[r] : 0.0f;
    }
  };
  multiply(m, n, k, a, direct ? &b : nullptr, pack, c, ldc, into, scratch, pool);
}

}  // namespace hone::cpu
#endif  // HWY_ONCE

#endif  // HONE_HAVE_HIGHWAY
