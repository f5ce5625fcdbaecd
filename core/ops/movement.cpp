// SPDX-License-Identifier: Apache-2.0
// Operators that move elements: transpose, expand, concat, split, tile, trilu. (slice.cpp has the
// others.)
#include <algorithm>
#include <cstring>

#include "core/ops/checks.hpp"
#include "core/ops/loops.hpp"
#include "hone/ops.hpp"

namespace hone {

namespace {

size_t element_bytes(const KernelArgs& args) { return size_of(args.out[0].type.dtype); }

std::byte* offset(void* p, int64_t bytes) { return static_cast<std::byte*>(p) + bytes; }
const std::byte* offset(const void* p, int64_t bytes) {
  return static_cast<const std::byte*>(p) + bytes;
}

}  // namespace

// ---- transpose

namespace {

// The permutation in full: none given means all axes reversed.
std::array<int, kMaxRank> full_perm(const PermAttrs& attrs, int rank) {
  std::array<int, kMaxRank> perm{};
  for (int i = 0; i < rank; ++i)
    perm[static_cast<size_t>(i)] =
        attrs.perm.empty() ? rank - 1 - i : static_cast<int>(attrs.perm[static_cast<size_t>(i)]);
  return perm;
}

Status infer_transpose(InferCtx& c) {
  const PermAttrs& attrs = c.attrs<PermAttrs>();
  const Shape& in = c.shape(0);
  const int rank = in.rank();
  if (!attrs.perm.empty()) {
    std::vector<int64_t> sorted = attrs.perm;
    std::sort(sorted.begin(), sorted.end());
    bool ok = static_cast<int>(sorted.size()) == rank;
    for (int i = 0; ok && i < rank; ++i) ok = sorted[static_cast<size_t>(i)] == i;
    if (!ok)
      return c.error("{} is no permutation of the {} axes of {}", to_string(Attrs(attrs)), rank,
                     in);
  }
  const auto perm = full_perm(attrs, rank);
  Shape out;
  for (int i = 0; i < rank; ++i) out.push_back(in[perm[static_cast<size_t>(i)]]);
  c.out(c.dtype(0), out);
  return {};
}

Status transpose_kernel(const KernelArgs& args) {
  const Shape& out = args.out[0].type.shape;
  const Shape from = strides_of(args.shape(0)), to = strides_of(out);
  const auto perm = full_perm(args.attrs.as<PermAttrs>(), out.rank());
  LoopNest<2> nest;
  for (int i = 0; i < out.rank(); ++i)
    nest.add(out[i], {to[i], from[perm[static_cast<size_t>(i)]]});
  copy_strided(args.pool, nest, args.out[0].data, args.in[0].data, element_bytes(args));
  return {};
}

}  // namespace

constinit const OpDef op::transpose = {
    .name = "transpose",
    .attrs = &kAttrSchema<PermAttrs>,
    .infer = infer_transpose,
    .diff = Diff::rule,
    .grad =
        [](GradCtx& c) {
          const int rank = c.shape(0).rank();
          const auto perm = full_perm(c.attrs<PermAttrs>(), rank);
          std::vector<int64_t> inverse(static_cast<size_t>(rank));
          for (int i = 0; i < rank; ++i)
            inverse[static_cast<size_t>(perm[static_cast<size_t>(i)])] = i;
          c.set(0, ops::transpose(c.out_grad(0), inverse));
        },
    .kernel = transpose_kernel,
    .flops = no_flops,
};

// ---- expand: broadcasting written out

namespace {

Status infer_expand_to(InferCtx& c, std::span<const int64_t> extents) {
  auto wanted = Shape::make(extents);
  if (!wanted.ok()) return wanted.status().with_context(c.who());
  if (!wanted->concrete()) return c.error("the shape {} has a negative extent", *wanted);
  auto out = broadcast(c.shape(0), *wanted);
  if (!out.ok()) return out.status().with_context(c.who());
  c.out(c.dtype(0), *out);
  return {};
}

Status expand_kernel(const KernelArgs& args) {
  const Shape& out = args.out[0].type.shape;
  const LoopNest<2> nest = broadcast_nest(out, out, args.shape(0));
  copy_strided(args.pool, nest, args.out[0].data, args.in[0].data, element_bytes(args));
  return {};
}

}  // namespace

// To the shape that the input's and the given one broadcast to.
constinit const OpDef op::expand = {
    .name = "expand",
    .attrs = &kAttrSchema<ShapeAttrs>,
    .infer = [](InferCtx& c) { return infer_expand_to(c, c.attrs<ShapeAttrs>().shape); },
    .diff = Diff::rule,
    .grad = [](GradCtx& c) { c.set(0, c.out_grad(0)); },
    .kernel = expand_kernel,
    .flops = no_flops,
    .broadcasts = true,
};

// expand_dyn(x, shape)
constinit const OpDef op::expand_dyn = {
    .name = "expand_dyn",
    .min_inputs = 2,
    .max_inputs = 2,
    .infer =
        [](InferCtx& c) {
          HONE_ASSIGN(const std::vector<int64_t> shape, need_constant_ints(c, 1));
          return infer_expand_to(c, shape);
        },
    .decompose =
        [](DecomposeCtx& c) {
          c.set(0, c.b.emit(op::expand, {c.in(0)}, ShapeAttrs{to_ints(*c.constant(1)), true}));
        },
    .diff = Diff::by_decomposition,
};

// ---- concat, split

namespace {

int resolved_axis(int64_t axis, const Shape& shape) {
  return static_cast<int>(axis < 0 ? axis + shape.rank() : axis);
}

Status infer_concat(InferCtx& c) {
  HONE_ASSIGN(const int axis, need_axis(c, 0, c.attrs<AxisAttrs>().axis));
  Shape out = c.shape(0);
  for (int k = 1; k < c.size(); ++k) {
    if (!c.has(k)) return c.error("input {} is missing", k);
    HONE_TRY(need_same_dtype(c, 0, k));
    Shape same = c.shape(k);
    if (same.rank() == out.rank()) same[axis] = c.shape(0)[axis];
    if (same != c.shape(0))
      return c.error("input {} is {}, which differs from input 0, {}, not only on axis {}", k,
                     c.in(k), c.in(0), axis);
    out[axis] += c.shape(k)[axis];
  }
  c.out(c.dtype(0), out);
  return {};
}

// One part of a tensor along an axis: rows of `part` elements in a tensor with rows of `whole`.
LoopNest<2> part_nest(int64_t rows, int64_t part, int64_t dst_row, int64_t src_row) {
  LoopNest<2> nest;
  nest.add(rows, {dst_row, src_row});
  nest.add(part, {1, 1});
  return nest;
}

Status concat_kernel(const KernelArgs& args) {
  const TensorView& y = args.out[0];
  const Shape& out = y.type.shape;
  const int axis = resolved_axis(args.attrs.as<AxisAttrs>().axis, out);
  const int64_t rows = out.product(0, axis), whole = out.product(axis, out.rank());
  const int64_t bytes = static_cast<int64_t>(element_bytes(args));
  int64_t at = 0;
  for (const ConstTensorView& x : args.in) {
    const int64_t part = x.type.shape.product(axis, out.rank());
    copy_strided(args.pool, part_nest(rows, part, whole, part), offset(y.data, at * bytes), x.data,
                 element_bytes(args));
    at += part;
  }
  return {};
}

// Extents of the parts.
std::vector<int64_t> split_sizes(int64_t extent, const SplitAttrs& attrs) {
  if (!attrs.sizes.empty()) return attrs.sizes;
  std::vector<int64_t> sizes;
  const int64_t each = attrs.parts > 0 ? (extent + attrs.parts - 1) / attrs.parts : 0;
  for (int64_t k = 0; k < attrs.parts; ++k)
    sizes.push_back(std::clamp<int64_t>(extent - k * each, 0, each));
  return sizes;
}

Status infer_split(InferCtx& c) {
  const SplitAttrs& attrs = c.attrs<SplitAttrs>();
  HONE_ASSIGN(const int axis, need_axis(c, 0, attrs.axis));
  const int64_t extent = c.shape(0)[axis];
  if (attrs.sizes.empty() && (attrs.parts < 1 || attrs.parts > std::max<int64_t>(extent, 1)))
    return c.error("axis {} of {} cannot be split into {} parts", axis, c.shape(0), attrs.parts);
  int64_t rest = extent;
  for (const int64_t size : split_sizes(extent, attrs)) {
    if (size < 0 || size > rest)
      return c.error("the parts {} do not add up to {}, the extent of axis {}",
                     to_string(Attrs(attrs)), extent, axis);
    rest -= size;
    Shape part = c.shape(0);
    part[axis] = size;
    c.out(c.dtype(0), part);
  }
  if (rest > 0)
    return c.error("the parts leave {} of axis {}'s extent {} over", rest, axis, extent);
  return {};
}

Status split_kernel(const KernelArgs& args) {
  const ConstTensorView& x = args.in[0];
  const Shape& in = x.type.shape;
  const int axis = resolved_axis(args.attrs.as<SplitAttrs>().axis, in);
  const int64_t rows = in.product(0, axis), whole = in.product(axis, in.rank());
  const int64_t bytes = static_cast<int64_t>(element_bytes(args));
  int64_t at = 0;
  for (const TensorView& y : args.out) {
    const int64_t part = y.type.shape.product(axis, in.rank());
    copy_strided(args.pool, part_nest(rows, part, part, whole), y.data, offset(x.data, at * bytes),
                 element_bytes(args));
    at += part;
  }
  return {};
}

}  // namespace

constinit const OpDef op::concat = {
    .name = "concat",
    .attrs = &kAttrSchema<AxisAttrs>,
    .min_inputs = 1,
    .max_inputs = kAnyNumber,
    .infer = infer_concat,
    .diff = Diff::rule,
    .grad =
        [](GradCtx& c) {
          const int axis = resolved_axis(c.attrs<AxisAttrs>().axis, c.shape(0));
          int64_t at = 0;
          for (int k = 0; c.has(k); ++k) {
            const int64_t end = at + c.shape(k)[axis];
            if (c.needs(k)) c.set(k, ops::slice(c.out_grad(0), axis, at, end));
            at = end;
          }
        },
    .kernel = concat_kernel,
    .flops = no_flops,
};

constinit const OpDef op::split = {
    .name = "split",
    .attrs = &kAttrSchema<SplitAttrs>,
    .infer = infer_split,
    .diff = Diff::rule,
    .grad =
        [](GradCtx& c) {
          const SplitAttrs& attrs = c.attrs<SplitAttrs>();
          const int axis = resolved_axis(attrs.axis, c.shape(0));
          std::vector<Value> parts;
          for (size_t k = 0; k < split_sizes(c.shape(0)[axis], attrs).size(); ++k)
            parts.push_back(c.out_grad(static_cast<int>(k)));
          c.set(0, ops::concat(parts, axis));
        },
    .kernel = split_kernel,
    .flops = no_flops,
};

// ---- tile: the whole tensor repeated along each axis

namespace {

Status infer_tile_by(InferCtx& c, std::span<const int64_t> repeats) {
  const Shape& in = c.shape(0);
  if (static_cast<int>(repeats.size()) != in.rank())
    return c.error("{} repeats are given for the {} axes of {}", repeats.size(), in.rank(), in);
  Shape out = in;
  for (int i = 0; i < in.rank(); ++i) {
    const int64_t r = repeats[static_cast<size_t>(i)];
    constexpr int64_t kLimit = int64_t{1} << 62;
    if (r < 0 || (in[i] > 0 && r > kLimit / in[i]))
      return c.error("axis {} cannot be repeated {} times", i, r);
    out[i] *= r;
  }
  c.out(c.dtype(0), out);
  return {};
}

// One axis at a time, innermost first: (outer, d..) -> (outer, 1, d..) -> (outer, r, d..).
Value repeat_axes(Value x, std::span<const int64_t> repeats) {
  for (int i = x.shape().rank() - 1; i >= 0; --i) {
    const int64_t r = repeats[static_cast<size_t>(i)];
    if (r == 1) continue;
    Shape out = x.shape();
    const int64_t outer = out.product(0, i), inner = out.product(i, out.rank());
    out[i] *= r;
    x = ops::reshape(ops::expand(ops::reshape(x, {outer, 1, inner}), {outer, r, inner}), out);
  }
  return ops::identity(x);
}

}  // namespace

constinit const OpDef op::tile = {
    .name = "tile",
    .attrs = &kAttrSchema<RepeatsAttrs>,
    .infer = [](InferCtx& c) { return infer_tile_by(c, c.attrs<RepeatsAttrs>().repeats); },
    .decompose =
        [](DecomposeCtx& c) { c.set(0, repeat_axes(c.in(0), c.attrs<RepeatsAttrs>().repeats)); },
    .diff = Diff::by_decomposition,
};

// tile_dyn(x, repeats)
constinit const OpDef op::tile_dyn = {
    .name = "tile_dyn",
    .min_inputs = 2,
    .max_inputs = 2,
    .infer =
        [](InferCtx& c) {
          HONE_ASSIGN(const std::vector<int64_t> repeats, need_constant_ints(c, 1));
          return infer_tile_by(c, repeats);
        },
    .decompose = [](DecomposeCtx& c) { c.set(0, repeat_axes(c.in(0), to_ints(*c.constant(1)))); },
    .diff = Diff::by_decomposition,
};

// ---- trilu

namespace {

Status trilu_kernel(const KernelArgs& args) {
  const TriluAttrs& attrs = args.attrs.as<TriluAttrs>();
  const Shape& in = args.shape(0);
  const int64_t rows = in[in.rank() - 2], columns = in[in.rank() - 1];
  if (in.numel() == 0) return {};
  dispatch_size(element_bytes(args), [&]<class T>() {
    const T* x = static_cast<const T*>(args.in[0].data);
    T* y = static_cast<T*>(args.out[0].data);
    const int64_t grain = std::max<int64_t>(1, kGrain / columns);
    for_ranges(args.pool, in.numel() / columns, grain, [&](int64_t begin, int64_t end) {
      for (int64_t line = begin; line < end; ++line) {
        // Where the kept part starts (upper) or the dropped part starts (lower).
        const int64_t k = std::clamp(attrs.k, -rows, columns) + (attrs.upper ? 0 : 1);
        const int64_t cut = std::clamp<int64_t>(line % rows + k, 0, columns);
        const int64_t first = attrs.upper ? cut : 0, last = attrs.upper ? columns : cut;
        const T* from = x + line * columns;
        T* to = y + line * columns;
        std::memmove(to + first, from + first, static_cast<size_t>(last - first) * sizeof(T));
        std::fill(to, to + first, T{0});
        std::fill(to + last, to + columns, T{0});
      }
    });
  });
  return {};
}

}  // namespace

constinit const OpDef op::trilu = {
    .name = "trilu",
    .attrs = &kAttrSchema<TriluAttrs>,
    .infer =
        [](InferCtx& c) {
          HONE_TRY(need_rank_at_least(c, 0, 2));
          c.out(c.in(0));
          return Status();
        },
    .diff = Diff::rule,
    .grad =
        [](GradCtx& c) { c.set(0, c.b.emit(op::trilu, {c.out_grad(0)}, c.attrs<TriluAttrs>())); },
    .kernel = trilu_kernel,
    .flops = no_flops,
    .inplace = Inplace::any_input,
};

}  // namespace hone
