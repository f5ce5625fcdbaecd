// SPDX-License-Identifier: Apache-2.0
// Reduction kernels. The input's axes are split into kept and reduced ones; neighbours join, so
// that two shapes of loop remain: the innermost axis is reduced (rows are folded to a number), or
// it is kept (rows are folded onto each other).
//
// A float sum is carried in float for a short stretch and in double across stretches: its error
// stays near one rounding whatever the length. How the work is cut never depends on the number of
// threads, so neither do the bits.
#pragma once

#include <cmath>
#include <limits>

#include "core/ops/loops.hpp"
#include "hone/op_attrs.hpp"

namespace hone {

// A reducer over wide type W: parts are carried over a stretch, totals across stretches.
template <class W>
struct SumOf {
  using Wide = W;
  using Part = std::conditional_t<std::is_integral_v<W>, uint64_t, W>;  // integers wrap
  using Total = std::conditional_t<std::is_integral_v<W>, uint64_t, double>;
  static Part start() { return 0; }
  static Part step(Part p, W x) { return p + static_cast<Part>(x); }
  static Total zero() { return 0; }
  static Total join(Total t, Part p) { return t + static_cast<Total>(p); }
  static Total merge(Total a, Total b) { return a + b; }
  static W finish(Total t, int64_t) { return static_cast<W>(t); }
};

template <class W>
struct MeanOf : SumOf<W> {
  static W finish(typename SumOf<W>::Total t, int64_t count) {
    if constexpr (std::is_integral_v<W>)
      return static_cast<W>(static_cast<int64_t>(t) / std::max<int64_t>(count, 1));
    else
      return static_cast<W>(t / static_cast<double>(count));
  }
};

template <class W>
struct ProdOf {
  using Wide = W;
  using Part = std::conditional_t<std::is_integral_v<W>, uint64_t, double>;
  using Total = Part;
  static Part start() { return 1; }
  static Part step(Part p, W x) { return p * static_cast<Part>(x); }
  static Total zero() { return 1; }
  static Total join(Total t, Part p) { return t * p; }
  static Total merge(Total a, Total b) { return a * b; }
  static W finish(Total t, int64_t) { return static_cast<W>(t); }
};

// Greatest or least; a NaN wins over everything.
template <class W, bool kGreatest>
struct ExtremumOf {
  using Wide = W;
  using Part = W;
  using Total = W;
  static W start() {
    using Limits = std::numeric_limits<W>;
    if constexpr (Limits::has_infinity)
      return kGreatest ? -Limits::infinity() : Limits::infinity();
    else
      return kGreatest ? Limits::lowest() : Limits::max();
  }
  static W step(W p, W x) { return ((kGreatest ? p > x : p < x) || p != p) ? p : x; }
  static W zero() { return start(); }
  static W join(W t, W p) { return step(t, p); }
  static W merge(W a, W b) { return step(a, b); }
  static W finish(W t, int64_t) { return t; }
};
template <class W>
using MaxOf = ExtremumOf<W, true>;
template <class W>
using MinOf = ExtremumOf<W, false>;

/// The loops of one reduction; offsets are elements of the input.
struct ReducePlan {
  LoopNest<1> kept, reduced;
  bool rows_are_kept = false;  ///< The innermost axis is kept.
};
ReducePlan plan_reduction(const Shape& in, std::span<const int64_t> axes);

/// Elements of one output that one thread reduces at least; also where a long reduction is cut.
inline constexpr int64_t kReduceChunk = 65536;
/// With fewer outputs than this, threads share the elements of an output.
inline constexpr int64_t kFewOutputs = 32;

namespace detail {

template <class W>
struct ReduceData {
  DType dtype;
  const std::byte* in;
  std::byte* out;

  // n input elements from `offset`, as wide ones: in place or widened into `buffer`.
  const W* load(int64_t offset, int64_t n, W* buffer) const {
    const std::byte* p = in + offset * static_cast<int64_t>(size_of(dtype));
    if (!is_narrow(dtype)) return reinterpret_cast<const W*>(p);
    widen(dtype, p, buffer, n);
    return buffer;
  }
  void store(int64_t offset, int64_t n, const W* values) const {
    std::byte* p = out + offset * static_cast<int64_t>(size_of(dtype));
    if (is_narrow(dtype)) return narrow(dtype, values, p, n);
    std::copy(values, values + n, reinterpret_cast<W*>(p));
  }
};

// Folds n contiguous elements into a total; several lanes, so that the loop vectorises.
template <class R>
typename R::Total fold_row(const ReduceData<typename R::Wide>& data, int64_t offset, int64_t n,
                           typename R::Total total) {
  using W = typename R::Wide;
  constexpr int64_t kLanes = 16;
  W buffer[kBlock];
  if (n < kLanes) {
    const W* x = data.load(offset, n, buffer);
    for (int64_t k = 0; k < n; ++k) total = R::join(total, R::step(R::start(), x[k]));
    return total;
  }
  for (int64_t i = 0; i < n; i += kBlock) {
    const int64_t count = std::min(kBlock, n - i);
    const W* x = data.load(offset + i, count, buffer);
    typename R::Part parts[kLanes];
    for (auto& p : parts) p = R::start();
    int64_t k = 0;
    for (; k + kLanes <= count; k += kLanes)
      for (int64_t lane = 0; lane < kLanes; ++lane) parts[lane] = R::step(parts[lane], x[k + lane]);
    for (int64_t lane = 0; k < count; ++k, ++lane) parts[lane] = R::step(parts[lane], x[k]);
    for (const auto& p : parts) total = R::join(total, p);
  }
  return total;
}

// The total of reduced elements [begin, end) of the output whose input starts at `base`.
template <class R>
typename R::Total fold_range(const ReducePlan& plan, const ReduceData<typename R::Wide>& data,
                             int64_t base, int64_t begin, int64_t end) {
  typename R::Total total = R::zero();
  const int64_t stride = plan.reduced.inner_stride()[0];
  plan.reduced.for_rows(begin, end, [&](const std::array<int64_t, 1>& at, int64_t n) {
    if (stride == 1) {
      total = fold_row<R>(data, base + at[0], n, total);
      return;
    }
    for (int64_t i = 0; i < n; ++i) total = fold_row<R>(data, base + at[0] + i * stride, 1, total);
  });
  return total;
}

template <class R>
void fold_rows_to_numbers(const KernelArgs& args, const ReducePlan& plan,
                          const ReduceData<typename R::Wide>& data) {
  using Total = typename R::Total;
  const int64_t outputs = plan.kept.size(), size = plan.reduced.size();
  const int64_t chunks = (size + kReduceChunk - 1) / kReduceChunk;
  const auto chunk = [&](int64_t base, int64_t i) {
    return fold_range<R>(plan, data, base, i * kReduceChunk,
                         std::min(size, (i + 1) * kReduceChunk));
  };
  const auto finish = [&](int64_t output, Total total) {
    const typename R::Wide y = R::finish(total, size);
    data.store(output, 1, &y);
  };
  if (outputs < kFewOutputs && chunks > 1) {
    Total* totals = reinterpret_cast<Total*>(args.scratch);
    for (int64_t o = 0; o < outputs; ++o) {
      int64_t base = 0;
      plan.kept.for_rows(o, o + 1,
                         [&](const std::array<int64_t, 1>& at, int64_t) { base = at[0]; });
      for_ranges(args.pool, chunks, 1, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) totals[i] = chunk(base, i);
      });
      Total total = R::zero();
      for (int64_t i = 0; i < chunks; ++i) total = R::merge(total, totals[i]);
      finish(o, total);
    }
    return;
  }
  const int64_t stride = plan.kept.inner_stride()[0];
  const int64_t grain = std::max<int64_t>(1, kGrain / std::max<int64_t>(size, 1));
  for_ranges(args.pool, outputs, grain, [&](int64_t begin, int64_t end) {
    int64_t o = begin;
    plan.kept.for_rows(begin, end, [&](const std::array<int64_t, 1>& at, int64_t n) {
      for (int64_t i = 0; i < n; ++i, ++o) {
        Total total = R::zero();
        for (int64_t k = 0; k < chunks; ++k) total = R::merge(total, chunk(at[0] + i * stride, k));
        finish(o, total);
      }
    });
  });
}

// A block of columns: all reduced rows are folded onto each other.
template <class R>
void fold_columns(const ReducePlan& plan, const ReduceData<typename R::Wide>& data, int64_t base,
                  int64_t output, int64_t columns) {
  using W = typename R::Wide;
  constexpr int64_t kStretch = 128;  // rows that are summed in float before the sum moves to double
  W buffer[kBlock];
  typename R::Part parts[kBlock];
  typename R::Total totals[kBlock];
  for (int64_t j = 0; j < columns; ++j) parts[j] = R::start(), totals[j] = R::zero();
  int64_t rows = 0;
  const auto flush = [&] {
    for (int64_t j = 0; j < columns; ++j)
      totals[j] = R::join(totals[j], parts[j]), parts[j] = R::start();
    rows = 0;
  };
  const int64_t stride = plan.reduced.inner_stride()[0];
  plan.reduced.for_rows(0, plan.reduced.size(), [&](const std::array<int64_t, 1>& at, int64_t n) {
    for (int64_t i = 0; i < n; ++i) {
      const W* x = data.load(base + at[0] + i * stride, columns, buffer);
      for (int64_t j = 0; j < columns; ++j) parts[j] = R::step(parts[j], x[j]);
      if (++rows == kStretch) flush();
    }
  });
  flush();
  for (int64_t j = 0; j < columns; ++j) buffer[j] = R::finish(totals[j], plan.reduced.size());
  data.store(output, columns, buffer);
}

template <class R>
void fold_rows_onto_each_other(const KernelArgs& args, const ReducePlan& plan,
                               const ReduceData<typename R::Wide>& data) {
  constexpr int64_t kColumns = 128;
  static_assert(kColumns <= kBlock);
  const int64_t inner = plan.kept.inner(), blocks = (inner + kColumns - 1) / kColumns;
  const int64_t units = plan.kept.size() / inner * blocks;
  const int64_t work = std::min(inner, kColumns) * std::max<int64_t>(plan.reduced.size(), 1);
  for_ranges(args.pool, units, std::max<int64_t>(1, kGrain / work),
             [&](int64_t begin, int64_t end) {
               for (int64_t unit = begin; unit < end; ++unit) {
                 const int64_t column = unit % blocks * kColumns;
                 const int64_t first = unit / blocks * inner + column;
                 const int64_t columns = std::min(kColumns, inner - column);
                 plan.kept.for_rows(first, first + columns,
                                    [&](const std::array<int64_t, 1>& at, int64_t n) {
                                      fold_columns<R>(plan, data, at[0], first, n);
                                    });
               }
             });
}

}  // namespace detail

/// The kernel of a reduction with ReduceAttrs: R is SumOf, MeanOf, ...
template <template <class> class R>
Status reduce_kernel(const KernelArgs& args) {
  const ConstTensorView& x = args.in[0];
  if (args.out[0].numel() == 0) return {};
  const ReducePlan plan = plan_reduction(x.type.shape, args.attrs.as<ReduceAttrs>().axes);
  dispatch_wide(x.type.dtype, [&]<class W>() {
    const detail::ReduceData<W> data{x.type.dtype, static_cast<const std::byte*>(x.data),
                                     static_cast<std::byte*>(args.out[0].data)};
    if (plan.rows_are_kept)
      detail::fold_rows_onto_each_other<R<W>>(args, plan, data);
    else
      detail::fold_rows_to_numbers<R<W>>(args, plan, data);
  });
  return {};
}

}  // namespace hone
