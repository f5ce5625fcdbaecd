// SPDX-License-Identifier: Apache-2.0
// Views, shape arithmetic, and tensors made of nothing but their shape.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "core/ops/checks.hpp"
#include "core/ops/loops.hpp"
#include "core/tensor/convert.hpp"
#include "hone/ops.hpp"

namespace hone {

// ---- reshape: the same elements in the same order under another shape

namespace {

// -1 stands for what is left; 0 copies the input's extent unless zeros are meant. Axes that are
// copied do not enter the reckoning of -1: [0, -1] of (0, 2) is (0, 2).
Result<Shape> resolve_reshape(const InferCtx& c, std::span<const int64_t> wanted, bool allow_zero) {
  const Shape& in = c.shape(0);
  auto made = Shape::make(wanted);
  if (!made.ok()) return made.status().with_context(c.who());
  Shape out = *made;
  Shape left = in;  // the input's extents that are not copied; copied ones are 1
  int open = -1;
  for (int i = 0; i < out.rank(); ++i) {
    if (out[i] == 0 && !allow_zero) {
      if (i >= in.rank())
        return c.error("axis {} of the new shape {} copies from {}, which lacks it", i, *made, in);
      out[i] = in[i];
      left[i] = 1;
    } else if (out[i] == -1) {
      if (open >= 0) return c.error("the new shape {} leaves two extents open", *made);
      open = i;
      out[i] = 1;
    } else if (out[i] < 0) {
      return c.error("the new shape {} has a negative extent", *made);
    }
  }
  auto bytes = checked_bytes(out, c.dtype(0));
  if (!bytes.ok()) return bytes.status().with_context(c.who());
  const int64_t have = in.numel();
  int64_t known = 1;
  for (int i = 0; i < out.rank(); ++i)
    if ((*made)[i] != 0 || allow_zero) known *= out[i];
  if (open >= 0 && known > 0) out[open] = left.numel() / known;
  if (out.numel() != have || (open >= 0 && known == 0))
    return c.error("input 0 is {} with {} elements, which do not fill {}", c.in(0), have, *made);
  return out;
}

Status infer_reshape_dyn(InferCtx& c) {
  HONE_ASSIGN(const std::vector<int64_t> wanted, need_constant_ints(c, 1));
  HONE_ASSIGN(const Shape shape, resolve_reshape(c, wanted, c.attrs<AllowZeroAttrs>().allow_zero));
  c.out(c.dtype(0), shape);
  return {};
}

Status copy_bytes(const KernelArgs& args) {
  const size_t bytes = static_cast<size_t>(args.out[0].type.bytes());
  if (bytes > 0) std::memmove(args.out[0].data, args.in[0].data, bytes);
  return {};
}

}  // namespace

constinit const OpDef op::reshape = {
    .name = "reshape",
    .attrs = &kAttrSchema<ShapeAttrs>,
    .infer =
        [](InferCtx& c) {
          const ShapeAttrs& attrs = c.attrs<ShapeAttrs>();
          HONE_ASSIGN(const Shape shape, resolve_reshape(c, attrs.shape, attrs.allow_zero));
          c.out(c.dtype(0), shape);
          return Status();
        },
    .diff = Diff::rule,
    .grad = [](GradCtx& c) { c.set(0, ops::reshape(c.out_grad(0), c.shape(0))); },
    .kernel = copy_bytes,
    .flops = no_flops,
    .is_view = true,
    .inplace = Inplace::any_input,
};

// reshape_dyn(x, shape)
constinit const OpDef op::reshape_dyn = {
    .name = "reshape_dyn",
    .attrs = &kAttrSchema<AllowZeroAttrs>,
    .min_inputs = 2,
    .max_inputs = 2,
    .infer = infer_reshape_dyn,
    .decompose =
        [](DecomposeCtx& c) {
          const bool allow_zero = c.attrs<AllowZeroAttrs>().allow_zero;
          c.set(0,
                c.b.emit(op::reshape, {c.in(0)}, ShapeAttrs{to_ints(*c.constant(1)), allow_zero}));
        },
    .diff = Diff::by_decomposition,
};

// ---- flatten, squeeze, unsqueeze: reshapes that say what they mean

namespace {

// [d0 .. d(axis-1)] and the rest as one matrix; axis may be the rank.
Result<Shape> flattened(const InferCtx& c) {
  const Shape& in = c.shape(0);
  const int64_t axis = c.attrs<AxisAttrs>().axis;
  const int64_t at = axis < 0 ? axis + in.rank() : axis;
  if (at < 0 || at > in.rank()) return c.error("axis {} does not exist in {}", axis, in);
  const int cut = static_cast<int>(at);
  return Shape{in.product(0, cut), in.product(cut, in.rank())};
}

Result<Shape> squeezed(const InferCtx& c) {
  const Shape& in = c.shape(0);
  const std::vector<int64_t>& given = c.attrs<AxesAttrs>().axes;
  HONE_ASSIGN(const std::vector<int> axes, need_axes(c, given, in.rank()));
  Shape out;
  for (int i = 0; i < in.rank(); ++i) {
    const bool named = std::find(axes.begin(), axes.end(), i) != axes.end();
    if (named && in[i] != 1)
      return c.error("axis {} of {} is {}, only extents of 1 can go", i, in, in[i]);
    if (!(named || (given.empty() && in[i] == 1))) out.push_back(in[i]);
  }
  return out;
}

// Axes count in the output's shape.
Result<Shape> unsqueezed(const InferCtx& c) {
  const Shape& in = c.shape(0);
  const std::vector<int64_t>& given = c.attrs<AxesAttrs>().axes;
  const int64_t rank = in.rank() + static_cast<int64_t>(given.size());
  if (rank > kMaxRank) return c.error("{} would get {} dimensions, at most {}", in, rank, kMaxRank);
  HONE_ASSIGN(const std::vector<int> axes, need_axes(c, given, static_cast<int>(rank)));
  Shape out = in;
  for (const int axis : axes) out.insert(axis, 1);  // sorted, so each lands where it says
  return out;
}

template <Result<Shape> (*shape_of)(const InferCtx&)>
Status infer_view(InferCtx& c) {
  HONE_ASSIGN(const Shape shape, shape_of(c));
  c.out(c.dtype(0), shape);
  return {};
}

template <Result<Shape> (*shape_of)(const InferCtx&)>
void decompose_view(DecomposeCtx& c) {
  const TensorType type = c.type(0);
  const InferCtx infer(c.who(), {&type}, {nullptr}, c.raw_attrs());
  auto shape = shape_of(infer);
  if (!shape.ok()) return c.b.fail(shape.status());
  c.set(0, ops::reshape(c.in(0), *shape));
}

template <Result<Shape> (*shape_of)(const InferCtx&)>
constexpr OpDef view_op(std::string_view name, const AttrSchema* attrs) {
  return {.name = name,
          .attrs = attrs,
          .infer = infer_view<shape_of>,
          .decompose = decompose_view<shape_of>,
          .diff = Diff::by_decomposition};
}

}  // namespace

constinit const OpDef op::flatten = view_op<flattened>("flatten", &kAttrSchema<AxisAttrs>);
constinit const OpDef op::squeeze = view_op<squeezed>("squeeze", &kAttrSchema<AxesAttrs>);
constinit const OpDef op::unsqueeze = view_op<unsqueezed>("unsqueeze", &kAttrSchema<AxesAttrs>);

// ---- shapes as tensors: known when the graph is specialised, so they become constants

namespace {

// Extents [start, end) of a shape, both clamped to it, negative ones counted from its end.
std::vector<int64_t> extents(const Shape& shape, const ShapeOfAttrs& attrs) {
  const auto clamp = [&](int64_t i) {
    return std::clamp<int64_t>(i < 0 ? i + shape.rank() : i, 0, shape.rank());
  };
  const int64_t first = clamp(attrs.start), last = std::max(first, clamp(attrs.end));
  return {shape.begin() + first, shape.begin() + last};
}

}  // namespace

constinit const OpDef op::shape_of = {
    .name = "shape_of",
    .attrs = &kAttrSchema<ShapeOfAttrs>,
    .infer =
        [](InferCtx& c) {
          const auto kept = extents(c.shape(0), c.attrs<ShapeOfAttrs>());
          c.out(DType::i64, {static_cast<int64_t>(kept.size())});
          return Status();
        },
    .decompose =
        [](DecomposeCtx& c) { c.set(0, c.b.ints(extents(c.shape(0), c.attrs<ShapeOfAttrs>()))); },
    .diff = Diff::zero,
};

constinit const OpDef op::size_of = {
    .name = "size_of",
    .infer =
        [](InferCtx& c) {
          c.out(DType::i64, {});
          return Status();
        },
    .decompose =
        [](DecomposeCtx& c) {
          auto count = TensorData::scalar_of<int64_t>(c.shape(0).numel());
          if (!count.ok()) return c.b.fail(count.status());
          c.set(0, c.b.constant(std::move(*count)));
        },
    .diff = Diff::zero,
};

// ---- fill: a tensor of one value

namespace {

Status infer_fill_shape(InferCtx& c, DType dtype, std::span<const int64_t> extents) {
  auto shape = Shape::make(extents);
  if (!shape.ok()) return shape.status().with_context(c.who());
  c.out(dtype, *shape);
  return {};
}

Status fill_kernel(const KernelArgs& args) {
  const TensorView& y = args.out[0];
  const double value = args.attrs.as<FillAttrs>().value;
  dispatch(y.type.dtype, [&]<class T>() {
    const T v = convert_element<T>(value);
    T* out = static_cast<T*>(y.data);
    for_ranges(args.pool, y.numel(), kGrain,
               [&](int64_t begin, int64_t end) { std::fill(out + begin, out + end, v); });
  });
  return {};
}

}  // namespace

constinit const OpDef op::fill = {
    .name = "fill",
    .attrs = &kAttrSchema<FillAttrs>,
    .min_inputs = 0,
    .max_inputs = 0,
    .infer =
        [](InferCtx& c) {
          const FillAttrs& attrs = c.attrs<FillAttrs>();
          return infer_fill_shape(c, attrs.dtype, attrs.shape);
        },
    .diff = Diff::zero,
    .kernel = fill_kernel,
    .flops = no_flops,
};

// fill_dyn(shape)
constinit const OpDef op::fill_dyn = {
    .name = "fill_dyn",
    .attrs = &kAttrSchema<FillDynAttrs>,
    .infer =
        [](InferCtx& c) {
          HONE_ASSIGN(const std::vector<int64_t> shape, need_constant_ints(c, 0));
          return infer_fill_shape(c, c.attrs<FillDynAttrs>().dtype, shape);
        },
    .decompose =
        [](DecomposeCtx& c) {
          const FillDynAttrs& attrs = c.attrs<FillDynAttrs>();
          c.set(0, c.b.emit(op::fill, {},
                            FillAttrs{to_ints(*c.constant(0)), attrs.dtype, attrs.value}));
        },
    .diff = Diff::zero,
};

// ---- range_dyn(start, limit, step): start, start + step, ... before limit

namespace {

struct RangeBounds {
  double start, limit, step;
  int64_t count;
};

Result<RangeBounds> range_bounds(const InferCtx& c) {
  double v[3];
  for (int i = 0; i < 3; ++i) {
    HONE_TRY(need(c, i, Accepts::numbers));
    HONE_TRY(need_same_dtype(c, 0, i));
    if (c.shape(i).numel() != 1) return c.error("input {} is {}, not one number", i, c.in(i));
    const TensorData* data = c.constant(i);
    if (!data)
      return unsupported(
          "{}: input {} decides the output's shape and depends on data; it needs to "
          "be known before running",
          c.who(), i);
    v[i] = data->at(0);
  }
  constexpr double kLimit = 9.0e15;  // beyond 2^53 a double does not count by one
  const double count = std::ceil((v[1] - v[0]) / v[2]);
  if (v[2] == 0 || !std::isfinite(count) || std::fabs(count) > kLimit)
    return c.error("from {} to {} in steps of {} is no finite range", v[0], v[1], v[2]);
  return RangeBounds{v[0], v[1], v[2], std::max<int64_t>(0, static_cast<int64_t>(count))};
}

}  // namespace

constinit const OpDef op::range_dyn = {
    .name = "range_dyn",
    .min_inputs = 3,
    .max_inputs = 3,
    .infer =
        [](InferCtx& c) {
          HONE_ASSIGN(const RangeBounds range, range_bounds(c));
          c.out(c.dtype(0), {range.count});
          return Status();
        },
    .decompose =
        [](DecomposeCtx& c) {
          const double start = c.constant(0)->at(0), step = c.constant(2)->at(0);
          const double limit = c.constant(1)->at(0);
          const int64_t count =
              std::max<int64_t>(0, static_cast<int64_t>(std::ceil((limit - start) / step)));
          auto data = TensorData::allocate({c.type(0).dtype, {count}});
          if (!data.ok()) return c.b.fail(data.status());
          dispatch(c.type(0).dtype, [&]<class T>() {
            for (int64_t i = 0; i < count; ++i)
              data->as_mutable<T>()[i] = convert_element<T>(start + static_cast<double>(i) * step);
          });
          c.set(0, c.b.constant(std::move(*data)));
        },
    .diff = Diff::zero,
};

}  // namespace hone
