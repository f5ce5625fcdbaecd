// SPDX-License-Identifier: Apache-2.0
// The innermost loop of matrix products: a tile of C in registers. Included once for each
// instruction set, after hwy/highway.h.
#if defined(HONE_GEMM_TILE_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef HONE_GEMM_TILE_INL
#undef HONE_GEMM_TILE_INL
#else
#define HONE_GEMM_TILE_INL
#endif

#include <cstdint>

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace hone::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// With 32 vector registers a 6 x 4 tile of C, four of B and one of A fit; with 16, a 6 x 2 tile.
constexpr int64_t kTileRows = 6;
#if HWY_TARGET <= HWY_AVX3 || HWY_TARGET_IS_NEON || HWY_TARGET_IS_SVE
constexpr int64_t kTileVectors = 4;
#else
constexpr int64_t kTileVectors = 2;
#endif

// The operand A: element (r, 0), and a step along k. Its rows lie `stride` apart, or its columns.
struct ByRows {
  const float* data;
  int64_t stride;
  HWY_INLINE float at(int64_t r) const { return data[r * stride]; }
  HWY_INLINE void next() { ++data; }
};
struct ByColumns {
  const float* data;
  int64_t stride;
  HWY_INLINE float at(int64_t r) const { return data[r]; }
  HWY_INLINE void next() { data += stride; }
};

// One tile: C[R, width] = or += sum over k of A[r, k] B[k, column]. B has kc rows of `Vectors`
// vectors, ldb apart, of which all may be read. Each element is one chain of fused operations that
// starts at zero or at C: in how many pieces k comes makes no difference, and XNNPACK's products
// have the same bits.
template <int64_t R, int64_t Vectors, class A>
HWY_INLINE void Tile(int64_t kc, A a, const float* HWY_RESTRICT b, int64_t ldb,
                     float* HWY_RESTRICT c, int64_t ldc, int64_t width, bool add) {
  const hn::ScalableTag<float> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  using V = hn::Vec<decltype(d)>;
  V acc[R][Vectors];
  const auto all_at = [&](int64_t at) { return at + lanes <= width; };
  const auto left_at = [&](int64_t at) { return static_cast<size_t>(width - at); };
  for (int64_t r = 0; r < R; ++r)
    for (int64_t v = 0; v < Vectors; ++v) {
      const float* const from = c + r * ldc + v * lanes;
      acc[r][v] = !add || v * lanes >= width ? hn::Zero(d)
                  : all_at(v * lanes)        ? hn::LoadU(d, from)
                                             : hn::LoadN(d, from, left_at(v * lanes));
    }
  for (int64_t k = 0; k < kc; ++k) {
    V bv[Vectors];
    for (int64_t v = 0; v < Vectors; ++v) bv[v] = hn::LoadU(d, b + v * lanes);
    for (int64_t r = 0; r < R; ++r) {
      const V av = hn::Set(d, a.at(r));
      for (int64_t v = 0; v < Vectors; ++v) acc[r][v] = hn::MulAdd(av, bv[v], acc[r][v]);
    }
    a.next();
    b += ldb;
  }
  for (int64_t r = 0; r < R; ++r) {
    float* row = c + r * ldc;
    for (int64_t v = 0; v < Vectors; ++v) {
      const int64_t at = v * lanes;
      if (all_at(at))
        hn::StoreU(acc[r][v], d, row + at);
      else if (at < width)
        hn::StoreN(acc[r][v], d, row + at, left_at(at));
    }
  }
}

// The same for any number of rows of C, a strip after the other. A of one row is read by rows.
template <int64_t Vectors>
HWY_INLINE void Strips(int64_t rows, int64_t kc, ByRows a, const float* HWY_RESTRICT b, int64_t ldb,
                       float* HWY_RESTRICT c, int64_t ldc, int64_t width, bool add) {
  int64_t r = 0;
  const auto from = [&] { return ByRows{a.data + r * a.stride, a.stride}; };
  for (; r + kTileRows <= rows; r += kTileRows)
    Tile<kTileRows, Vectors>(kc, from(), b, ldb, c + r * ldc, ldc, width, add);
  for (; r + 2 <= rows; r += 2) Tile<2, Vectors>(kc, from(), b, ldb, c + r * ldc, ldc, width, add);
  for (; r < rows; ++r) Tile<1, Vectors>(kc, from(), b, ldb, c + r * ldc, ldc, width, add);
}

}  // namespace hone::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
