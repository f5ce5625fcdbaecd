// SPDX-License-Identifier: Apache-2.0
// Parts of tensors, and tensors made larger: slice, its adjoint unslice, and pad.
#include <algorithm>
#include <cstring>
#include <limits>

#include "core/ops/checks.hpp"
#include "core/ops/loops.hpp"
#include "core/tensor/convert.hpp"
#include "hone/ops.hpp"

namespace hone {

// ---- slice

namespace {

// What is taken from each axis of a tensor: `shape[i]` elements from `start[i]` in steps.
struct SlicePlan {
  std::array<int64_t, kMaxRank> start{}, step{};
  Shape shape;
};

struct AxisSlice {
  int64_t start, step, count;
};

// ONNX's rule: negative positions count from the end, then both are clamped to the axis.
AxisSlice slice_axis(int64_t extent, int64_t start, int64_t end, int64_t step) {
  if (start < 0) start += extent;
  if (end < 0) end += extent;
  // The most negative step has no opposite; a step that long takes one element in any case.
  step = std::max(step, -std::numeric_limits<int64_t>::max());
  int64_t count = 0;
  if (step > 0) {
    start = std::clamp<int64_t>(start, 0, extent);
    end = std::clamp<int64_t>(end, 0, extent);
    if (end > start) count = 1 + (end - start - 1) / step;
  } else if (extent > 0) {
    start = std::clamp<int64_t>(start, 0, extent - 1);
    end = std::clamp<int64_t>(end, -1, extent - 1);
    if (start > end) count = 1 + (start - end - 1) / -step;
  }
  return {count > 0 ? start : 0, count > 1 ? step : 1, count};
}

Status check_slice(const InferCtx& c, const Shape& in, const SliceAttrs& attrs) {
  const size_t n = attrs.starts.size();
  const auto fits = [n](const std::vector<int64_t>& v) { return v.empty() || v.size() == n; };
  if (attrs.ends.size() != n || !fits(attrs.axes) || !fits(attrs.steps))
    return c.error("starts, ends, axes and steps have {}, {}, {} and {} entries", n,
                   attrs.ends.size(), attrs.axes.size(), attrs.steps.size());
  if (static_cast<int64_t>(n) > in.rank())
    return c.error("{} axes are sliced, {} has {}", n, in, in.rank());
  HONE_TRY(need_axes(c, attrs.axes, in.rank()).status());
  if (std::count(attrs.steps.begin(), attrs.steps.end(), 0) > 0) return c.error("a step is 0");
  return {};
}

// For attributes that have passed check_slice.
SlicePlan plan_slice(const Shape& in, const SliceAttrs& attrs) {
  SlicePlan plan;
  plan.step.fill(1);
  plan.shape = in;
  for (size_t k = 0; k < attrs.starts.size(); ++k) {
    const int64_t axis = attrs.axes.empty() ? static_cast<int64_t>(k) : attrs.axes[k];
    const int at = static_cast<int>(axis < 0 ? axis + in.rank() : axis);
    const AxisSlice s = slice_axis(in[at], attrs.starts[k], attrs.ends[k],
                                   attrs.steps.empty() ? 1 : attrs.steps[k]);
    plan.start[static_cast<size_t>(at)] = s.start;
    plan.step[static_cast<size_t>(at)] = s.step;
    plan.shape[at] = s.count;
  }
  return plan;
}

Status infer_slice_by(InferCtx& c, const SliceAttrs& attrs) {
  HONE_TRY(check_slice(c, c.shape(0), attrs));
  c.out(c.dtype(0), plan_slice(c.shape(0), attrs).shape);
  return {};
}

int64_t element_bytes(const KernelArgs& args) {
  return static_cast<int64_t>(size_of(args.out[0].type.dtype));
}

Status slice_kernel(const KernelArgs& args) {
  const Shape strides = strides_of(args.shape(0));
  const SlicePlan plan = plan_slice(args.shape(0), args.attrs.as<SliceAttrs>());
  const Shape to = strides_of(plan.shape);
  LoopNest<2> nest;
  int64_t first = 0;
  for (int i = 0; i < strides.rank(); ++i) {
    const size_t k = static_cast<size_t>(i);
    first += plan.start[k] * strides[i];
    nest.add(plan.shape[i], {to[i], plan.step[k] * strides[i]});
  }
  const int64_t bytes = element_bytes(args);
  copy_strided(args.pool, nest, args.out[0].data,
               static_cast<const std::byte*>(args.in[0].data) + first * bytes,
               static_cast<size_t>(bytes));
  return {};
}

Status infer_unslice(InferCtx& c) {
  const UnsliceAttrs& attrs = c.attrs<UnsliceAttrs>();
  auto shape = Shape::make(attrs.shape);
  if (!shape.ok()) return shape.status().with_context(c.who());
  HONE_TRY(check_slice(c, *shape, attrs.slice));
  const Shape part = plan_slice(*shape, attrs.slice).shape;
  if (c.shape(0) != part)
    return c.error("input {} does not fill the part {} of {}", c.in(0), part, *shape);
  c.out(c.dtype(0), *shape);
  return {};
}

Status unslice_kernel(const KernelArgs& args) {
  const TensorView& y = args.out[0];
  const SlicePlan plan = plan_slice(y.type.shape, args.attrs.as<UnsliceAttrs>().slice);
  const Shape strides = strides_of(y.type.shape), from = strides_of(plan.shape);
  LoopNest<2> nest;
  int64_t first = 0;
  for (int i = 0; i < strides.rank(); ++i) {
    const size_t k = static_cast<size_t>(i);
    first += plan.start[k] * strides[i];
    nest.add(plan.shape[i], {plan.step[k] * strides[i], from[i]});
  }
  const int64_t bytes = element_bytes(args);
  std::byte* out = static_cast<std::byte*>(y.data);
  for_ranges(args.pool, y.numel(), kGrain, [&](int64_t begin, int64_t end) {
    std::memset(out + begin * bytes, 0, static_cast<size_t>((end - begin) * bytes));
  });
  copy_strided(args.pool, nest, out + first * bytes, args.in[0].data, static_cast<size_t>(bytes));
  return {};
}

// slice_dyn's inputs as attributes; each must be constant.
Result<SliceAttrs> slice_inputs(const InferCtx& c) {
  SliceAttrs attrs;
  HONE_ASSIGN(attrs.starts, need_constant_ints(c, 1));
  HONE_ASSIGN(attrs.ends, need_constant_ints(c, 2));
  if (c.has(3)) {
    HONE_ASSIGN(attrs.axes, need_constant_ints(c, 3));
  }
  if (c.has(4)) {
    HONE_ASSIGN(attrs.steps, need_constant_ints(c, 4));
  }
  return attrs;
}

}  // namespace

constinit const OpDef op::slice = {
    .name = "slice",
    .attrs = &kAttrSchema<SliceAttrs>,
    .infer = [](InferCtx& c) { return infer_slice_by(c, c.attrs<SliceAttrs>()); },
    .diff = Diff::rule,
    .grad =
        [](GradCtx& c) {
          const Shape& in = c.shape(0);
          c.set(0, c.b.emit(op::unslice, {c.out_grad(0)},
                            UnsliceAttrs{{in.begin(), in.end()}, c.attrs<SliceAttrs>()}));
        },
    .kernel = slice_kernel,
    .flops = no_flops,
};

constinit const OpDef op::unslice = {
    .name = "unslice",
    .attrs = &kAttrSchema<UnsliceAttrs>,
    .infer = infer_unslice,
    .diff = Diff::rule,
    .grad =
        [](GradCtx& c) {
          c.set(0, c.b.emit(op::slice, {c.out_grad(0)}, c.attrs<UnsliceAttrs>().slice));
        },
    .kernel = unslice_kernel,
    .flops = no_flops,
};

// slice_dyn(x, starts, ends, axes?, steps?)
constinit const OpDef op::slice_dyn = {
    .name = "slice_dyn",
    .min_inputs = 3,
    .max_inputs = 5,
    .infer =
        [](InferCtx& c) {
          HONE_ASSIGN(const SliceAttrs attrs, slice_inputs(c));
          return infer_slice_by(c, attrs);
        },
    .decompose =
        [](DecomposeCtx& c) {
          SliceAttrs attrs{to_ints(*c.constant(1)), to_ints(*c.constant(2)), {}, {}};
          if (c.has(3)) attrs.axes = to_ints(*c.constant(3));
          if (c.has(4)) attrs.steps = to_ints(*c.constant(4));
          c.set(0, c.b.emit(op::slice, {c.in(0)}, attrs));
        },
    .diff = Diff::by_decomposition,
};

// ---- pad

namespace {

Status infer_pad_by(InferCtx& c, const PadAttrs& attrs) {
  const Shape& in = c.shape(0);
  const size_t rank = static_cast<size_t>(in.rank());
  if (attrs.before.size() != rank || attrs.after.size() != rank)
    return c.error("{} and {} paddings are given for the {} axes of {}", attrs.before.size(),
                   attrs.after.size(), rank, in);
  constexpr int64_t kLimit = int64_t{1} << 40;
  Shape out = in;
  for (int i = 0; i < in.rank(); ++i) {
    const int64_t before = attrs.before[static_cast<size_t>(i)];
    const int64_t after = attrs.after[static_cast<size_t>(i)];
    if (std::max(before, after) > kLimit || std::min(before, after) < -kLimit)
      return c.error("paddings {} and {} of axis {} are out of range", before, after, i);
    out[i] = in[i] + before + after;
    if (out[i] < 0)
      return c.error("paddings {} and {} crop more than axis {} of {} has", before, after, i, in);
    if (in[i] == 0 && out[i] > 0 && attrs.mode != PadMode::constant)
      return c.error("axis {} of {} has nothing to pad with", i, in);
  }
  c.out(c.dtype(0), out);
  return {};
}

// Which element of an axis of `extent` stands at position i, which may lie outside.
int64_t padded_position(PadMode mode, int64_t i, int64_t extent) {
  if (i >= 0 && i < extent) return i;
  if (mode == PadMode::edge || extent == 1) return std::clamp<int64_t>(i, 0, extent - 1);
  const int64_t period = mode == PadMode::wrap ? extent : 2 * (extent - 1);
  const int64_t m = ((i % period) + period) % period;
  return m < extent ? m : period - m;
}

void pad_constant(const KernelArgs& args, const PadAttrs& attrs) {
  const TensorView& y = args.out[0];
  const Shape& in = args.shape(0);
  const Shape& out = y.type.shape;
  const Shape from = strides_of(in), to = strides_of(out);
  dispatch(y.type.dtype, [&]<class T>() {
    const T v = convert_element<T>(attrs.value);
    T* p = static_cast<T*>(y.data);
    for_ranges(args.pool, y.numel(), kGrain,
               [&](int64_t begin, int64_t end) { std::fill(p + begin, p + end, v); });
  });
  LoopNest<2> nest;
  int64_t first_out = 0, first_in = 0;
  for (int i = 0; i < in.rank(); ++i) {
    const int64_t before = attrs.before[static_cast<size_t>(i)];
    const int64_t begin = std::max<int64_t>(before, 0);
    const int64_t end = std::min(out[i], before + in[i]);
    first_out += begin * to[i];
    first_in += (begin - before) * from[i];
    nest.add(std::max<int64_t>(end - begin, 0), {to[i], from[i]});
  }
  const int64_t bytes = element_bytes(args);
  if (nest.size() == 0) return;
  copy_strided(args.pool, nest, static_cast<std::byte*>(y.data) + first_out * bytes,
               static_cast<const std::byte*>(args.in[0].data) + first_in * bytes,
               static_cast<size_t>(bytes));
}

template <class T>
void pad_from_inside(const KernelArgs& args, const PadAttrs& attrs) {
  const Shape& in = args.shape(0);
  const Shape& out = args.out[0].type.shape;
  const Shape from = strides_of(in);
  const T* x = static_cast<const T*>(args.in[0].data);
  T* y = static_cast<T*>(args.out[0].data);
  const auto position = [&](int axis, int64_t i) {
    const int64_t shifted = i - attrs.before[static_cast<size_t>(axis)];
    return padded_position(attrs.mode, shifted, in[axis]);
  };
  const int last = in.rank() - 1;
  const int64_t columns = out[last], rows = out.product(0, last);
  const int64_t grain = std::max<int64_t>(1, kGrain / std::max<int64_t>(columns, 1));
  for_ranges(args.pool, rows, grain, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      int64_t offset = 0, rest = row;
      for (int axis = last - 1; axis >= 0; rest /= out[axis--])
        offset += position(axis, rest % out[axis]) * from[axis];
      for (int64_t j = 0; j < columns; ++j) y[row * columns + j] = x[offset + position(last, j)];
    }
  });
}

Status pad_kernel(const KernelArgs& args) {
  const PadAttrs& attrs = args.attrs.as<PadAttrs>();
  if (args.out[0].numel() == 0) return {};
  if (attrs.mode == PadMode::constant || args.shape(0).rank() == 0)
    pad_constant(args, attrs);
  else
    dispatch_size(static_cast<size_t>(element_bytes(args)),
                  [&]<class T>() { pad_from_inside<T>(args, attrs); });
  return {};
}

// Constant padding is undone by cropping (and cropping by zeros). In the other modes each axis was
// a gather, whose adjoint adds what was copied back to where it came from.
void pad_grad(GradCtx& c) {
  PadAttrs attrs = c.attrs<PadAttrs>();
  const Shape in = c.shape(0);
  Value g = c.out_grad(0);
  if (attrs.mode == PadMode::constant) {
    for (int64_t& v : attrs.before) v = -v;
    for (int64_t& v : attrs.after) v = -v;
    attrs.value = 0;
    return c.set(0, c.b.emit(op::pad, {g}, attrs));
  }
  for (int axis = 0; axis < in.rank(); ++axis) {
    const int64_t before = attrs.before[static_cast<size_t>(axis)];
    const int64_t extent = g.shape()[axis];
    if (before == 0 && extent == in[axis]) continue;
    std::vector<int64_t> from;
    for (int64_t i = 0; i < extent; ++i)
      from.push_back(padded_position(attrs.mode, i - before, in[axis]));
    g = ops::index_sum(g, c.b.ints(from), axis, in[axis]);
  }
  c.set(0, g);
}

// pad_dyn's inputs as attributes; each must be constant.
Result<PadAttrs> pad_inputs(const InferCtx& c) {
  const int rank = c.shape(0).rank();
  HONE_ASSIGN(const std::vector<int64_t> pads, need_constant_ints(c, 1));
  std::vector<int64_t> axes;
  if (c.has(3)) {
    HONE_ASSIGN(axes, need_constant_ints(c, 3));
    HONE_TRY(need_axes(c, axes, rank).status());
  } else {
    for (int i = 0; i < rank; ++i) axes.push_back(i);
  }
  if (pads.size() != 2 * axes.size())
    return c.error("{} paddings are given for {} axes, expected two for each", pads.size(),
                   axes.size());
  PadAttrs attrs;
  attrs.mode = c.attrs<PadDynAttrs>().mode;
  attrs.before.assign(static_cast<size_t>(rank), 0);
  attrs.after = attrs.before;
  for (size_t k = 0; k < axes.size(); ++k) {
    const size_t axis = static_cast<size_t>(axes[k] < 0 ? axes[k] + rank : axes[k]);
    attrs.before[axis] = pads[k];
    attrs.after[axis] = pads[axes.size() + k];
  }
  if (c.has(2)) {
    const TensorData* value = c.constant(2);
    if (!value)
      return unsupported("{}: the value to pad with needs to be known before running", c.who());
    if (value->numel() != 1) return c.error("input 2 is {}, not one value", value->type());
    attrs.value = value->at(0);
  }
  return attrs;
}

}  // namespace

constinit const OpDef op::pad = {
    .name = "pad",
    .attrs = &kAttrSchema<PadAttrs>,
    .infer = [](InferCtx& c) { return infer_pad_by(c, c.attrs<PadAttrs>()); },
    .diff = Diff::rule,
    .grad = pad_grad,
    .kernel = pad_kernel,
    .flops = no_flops,
};

// pad_dyn(x, pads, value?, axes?): pads has all the befores, then all the afters.
constinit const OpDef op::pad_dyn = {
    .name = "pad_dyn",
    .attrs = &kAttrSchema<PadDynAttrs>,
    .min_inputs = 2,
    .max_inputs = 4,
    .infer =
        [](InferCtx& c) {
          HONE_ASSIGN(const PadAttrs attrs, pad_inputs(c));
          return infer_pad_by(c, attrs);
        },
    .decompose =
        [](DecomposeCtx& c) {
          std::vector<const TensorType*> types;
          std::vector<const TensorData*> constants;
          const TensorType x = c.type(0);
          for (int i = 0; i < c.size(); ++i) {
            constants.push_back(c.constant(i));
            types.push_back(i == 0 ? &x : constants.back() ? &constants.back()->type() : nullptr);
          }
          auto attrs = pad_inputs(InferCtx(c.who(), types, constants, c.raw_attrs()));
          if (!attrs.ok()) return c.b.fail(attrs.status());
          c.set(0, c.b.emit(op::pad, {c.in(0)}, *attrs));
        },
    .diff = Diff::by_decomposition,
};

}  // namespace hone
