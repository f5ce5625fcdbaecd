// SPDX-License-Identifier: Apache-2.0
// The parts of the shared loops that do not depend on a formula: broadcasting, narrow types,
// strided copies.
#include "core/ops/loops.hpp"

#include <cstring>

#include "core/ops/elementwise.hpp"
#include "core/tensor/convert.hpp"

namespace hone {

namespace {

template <class Narrow, class Wide>
void widen_as(const void* src, void* dst, int64_t n) {
  for (int64_t i = 0; i < n; ++i)
    static_cast<Wide*>(dst)[i] = static_cast<Wide>(static_cast<const Narrow*>(src)[i]);
}
template <class Narrow, class Wide>
void narrow_as(const void* src, void* dst, int64_t n) {
  for (int64_t i = 0; i < n; ++i)
    static_cast<Narrow*>(dst)[i] = static_cast<Narrow>(static_cast<const Wide*>(src)[i]);
}

template <class Rows>
typename Rows::Row row_for(const Rows& rows, DType t) {
  switch (t) {
    case DType::f64:
      return rows.f64;
    case DType::f32:
    case DType::f16:
    case DType::bf16:
      return rows.f32;
    case DType::i64:
      return rows.i64;
    case DType::i32:
    case DType::i8:
    case DType::u8:
    case DType::bool_:
      break;
  }
  return rows.i32;
}

// A block of one of the wide types: floats or int32s.
struct alignas(kAlignment) Block {
  std::byte bytes[kBlock * 4];
};

const std::byte* at(const ConstTensorView& t, int64_t i) {
  return static_cast<const std::byte*>(t.data) + i * static_cast<int64_t>(size_of(t.type.dtype));
}
std::byte* at(const TensorView& t, int64_t i) {
  return static_cast<std::byte*>(t.data) + i * static_cast<int64_t>(size_of(t.type.dtype));
}

}  // namespace

void widen(DType t, const void* src, void* dst, int64_t n) {
  switch (t) {
    case DType::f16:
      return widen_as<f16, float>(src, dst, n);
    case DType::bf16:
      return widen_as<bf16, float>(src, dst, n);
    case DType::i8:
      return widen_as<int8_t, int32_t>(src, dst, n);
    default:
      return widen_as<uint8_t, int32_t>(src, dst, n);  // u8 and bool
  }
}

void narrow(DType t, const void* src, void* dst, int64_t n) {
  switch (t) {
    case DType::f16:
      return narrow_as<f16, float>(src, dst, n);
    case DType::bf16:
      return narrow_as<bf16, float>(src, dst, n);
    case DType::i8:
      return narrow_as<int8_t, int32_t>(src, dst, n);
    default:
      return narrow_as<uint8_t, int32_t>(src, dst, n);
  }
}

Status run_unary(const KernelArgs& args, const UnaryRows& rows) {
  const ConstTensorView& x = args.in[0];
  const TensorView& y = args.out[0];
  const DType type = x.type.dtype;
  const UnaryRows::Row row = row_for(rows, type);
  HONE_ENSURE(row != nullptr);
  for_ranges(args.pool, y.numel(), kGrain, [&](int64_t begin, int64_t end) {
    if (!is_narrow(type)) return row(at(x, begin), at(y, begin), end - begin, args.attrs);
    Block in, out;
    for (int64_t i = begin; i < end; i += kBlock) {
      const int64_t n = std::min(kBlock, end - i);
      widen(type, at(x, i), in.bytes, n);
      if (rows.predicate) {
        row(in.bytes, at(y, i), n, args.attrs);
        continue;
      }
      row(in.bytes, out.bytes, n, args.attrs);
      narrow(type, out.bytes, at(y, i), n);
    }
  });
  return {};
}

namespace {

// One row of a narrow type. A broadcast operand (stride 0) is widened once.
void narrow_binary_row(const BinaryRows& rows, BinaryRows::Row row, const KernelArgs& args,
                       const std::array<int64_t, 3>& offset, const std::array<int64_t, 3>& stride,
                       int64_t n) {
  const DType type = args.in[0].type.dtype;
  Block a, b, y;
  for (int64_t i = 0; i < n; i += kBlock) {
    const int64_t count = std::min(kBlock, n - i);
    if (stride[1] || i == 0)
      widen(type, at(args.in[0], offset[1] + i), a.bytes, stride[1] ? count : 1);
    if (stride[2] || i == 0)
      widen(type, at(args.in[1], offset[2] + i), b.bytes, stride[2] ? count : 1);
    std::byte* out = at(args.out[0], offset[0] + i);
    row(a.bytes, stride[1], b.bytes, stride[2], rows.predicate ? out : y.bytes, count);
    if (!rows.predicate) narrow(type, y.bytes, out, count);
  }
}

}  // namespace

Status run_binary(const KernelArgs& args, const BinaryRows& rows) {
  const TensorView& y = args.out[0];
  const DType type = args.in[0].type.dtype;
  const BinaryRows::Row row = row_for(rows, type);
  HONE_ENSURE(row != nullptr);
  const LoopNest<3> nest =
      broadcast_nest(y.type.shape, y.type.shape, args.in[0].type.shape, args.in[1].type.shape);
  const std::array<int64_t, 3> stride = nest.inner_stride();
  for_ranges(args.pool, nest.size(), kGrain, [&](int64_t begin, int64_t end) {
    nest.for_rows(begin, end, [&](const std::array<int64_t, 3>& offset, int64_t n) {
      if (is_narrow(type)) return narrow_binary_row(rows, row, args, offset, stride, n);
      row(at(args.in[0], offset[1]), stride[1], at(args.in[1], offset[2]), stride[2],
          at(y, offset[0]), n);
    });
  });
  return {};
}

namespace {

template <class T>
void copy_row(T* dst, int64_t dst_stride, const T* src, int64_t src_stride, int64_t n) {
  if (dst_stride == 1 && src_stride == 1) {
    std::memcpy(dst, src, static_cast<size_t>(n) * sizeof(T));
    return;
  }
  for (int64_t i = 0; i < n; ++i) dst[i * dst_stride] = src[i * src_stride];
}

// The axis that the source walks in steps of one, when that is not the innermost: a transposition.
int transposed_axis(const LoopNest<2>& nest) {
  if (nest.rank < 2 || nest.inner_stride()[0] != 1) return -1;
  if (nest.inner_stride()[1] == 0 || nest.inner_stride()[1] == 1) return -1;
  for (int i = nest.rank - 2; i >= 0; --i)
    if (nest.stride[static_cast<size_t>(i)][1] == 1) return i;
  return -1;
}

// Square tiles, so that both sides use whole cache lines: `i` is the source's contiguous axis, `j`
// the destination's.
template <class T>
void transpose_plane(T* dst, int64_t dst_step_i, const T* src, int64_t src_step_j, int64_t i_begin,
                     int64_t i_end, int64_t extent_j) {
  constexpr int64_t kTile = 16;
  for (int64_t i0 = i_begin; i0 < i_end; i0 += kTile) {
    const int64_t i1 = std::min(i0 + kTile, i_end);
    for (int64_t j0 = 0; j0 < extent_j; j0 += kTile) {
      const int64_t j1 = std::min(j0 + kTile, extent_j);
      for (int64_t i = i0; i < i1; ++i)
        for (int64_t j = j0; j < j1; ++j) dst[i * dst_step_i + j] = src[j * src_step_j + i];
    }
  }
}

// Brings the nest into (planes outside, the source's contiguous axis, the destination's) and goes
// through the planes.
template <class T>
void copy_transposed(ThreadPool& pool, const LoopNest<2>& nest, int axis_i, T* dst, const T* src) {
  const size_t i = static_cast<size_t>(axis_i), j = static_cast<size_t>(nest.rank - 1);
  LoopNest<2> planes;
  for (size_t k = 0; k < j; ++k)
    if (k != i) planes.add(nest.extent[k], nest.stride[k]);
  const int64_t extent_i = nest.extent[i], extent_j = nest.extent[j];
  const int64_t grain = std::max<int64_t>(1, kGrain / extent_j);
  for_ranges(pool, planes.size() * extent_i, grain, [&](int64_t begin, int64_t end) {
    while (begin < end) {
      const int64_t plane = begin / extent_i, first = begin % extent_i;
      const int64_t last = std::min(extent_i, first + (end - begin));
      planes.for_rows(plane, plane + 1, [&](const std::array<int64_t, 2>& at, int64_t) {
        transpose_plane(dst + at[0], nest.stride[i][0], src + at[1], nest.stride[j][1], first, last,
                        extent_j);
      });
      begin += last - first;
    }
  });
}

}  // namespace

void copy_strided(ThreadPool& pool, const LoopNest<2>& nest, void* dst, const void* src,
                  size_t bytes) {
  if (nest.size() == 0) return;
  dispatch_size(bytes, [&]<class T>() {
    T* to = static_cast<T*>(dst);
    const T* from = static_cast<const T*>(src);
    const int transposed = transposed_axis(nest);
    if (transposed >= 0) return copy_transposed(pool, nest, transposed, to, from);
    const std::array<int64_t, 2> stride = nest.inner_stride();
    for_ranges(pool, nest.size(), kGrain, [&](int64_t begin, int64_t end) {
      nest.for_rows(begin, end, [&](const std::array<int64_t, 2>& at, int64_t n) {
        copy_row(to + at[0], stride[0], from + at[1], stride[1], n);
      });
    });
  });
}

}  // namespace hone
