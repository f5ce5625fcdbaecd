// SPDX-License-Identifier: Apache-2.0
// resize_dyn(x, scales?, sizes?, roi?): resize with extents as inputs, and all of ONNX's rarer
// modes (antialias, kept aspect ratios, crops). The common ones become `resize`; in the others each
// axis is gathered (nearest) or multiplied by the matrix of its weights.
#include <algorithm>
#include <numeric>

#include "core/ops/checks.hpp"
#include "core/tensor/convert.hpp"
#include "hone/ops.hpp"
#include "hone/resize_axis.hpp"

namespace hone {

namespace {

// Attributes with everything that was an input filled in; sizes, scales and roi have an entry for
// each axis of x.
struct Resolved {
  ResizeAttrs attrs;
  std::vector<AxisScale> axes;
  Shape out;
  bool plain = false;  // `resize` can do it
};

struct Inputs {
  const TensorData *scales, *sizes, *roi;
};

std::vector<double> numbers(const TensorData& t) {
  std::vector<double> v;
  for (int64_t i = 0; i < t.numel(); ++i) v.push_back(t.at(i));
  return v;
}

// Entries for some axes become entries for all of them.
template <class T>
std::vector<T> over_all_axes(std::span<const T> part, std::span<const int> axes,
                             std::vector<T> whole) {
  for (size_t i = 0; i < axes.size(); ++i) whole[static_cast<size_t>(axes[i])] = part[i];
  return whole;
}

// ONNX rounds halves up here.
int64_t rounded(double v) { return static_cast<int64_t>(std::floor(v + 0.5)); }

// The one scale that fits into the sizes, or covers them.
double common_scale(const Shape& in, const ResizeAttrs& a, std::span<const int> axes) {
  double scale = 0;
  for (const int axis : axes) {
    const double s = static_cast<double>(a.sizes[static_cast<size_t>(axis)]) /
                     static_cast<double>(std::max<int64_t>(in[axis], 1));
    const bool first = axis == axes.front();
    const bool smaller = a.aspect == AspectRatio::not_larger;
    scale = first ? s : smaller ? std::min(scale, s) : std::max(scale, s);
  }
  return scale;
}

// The axes that the entries are for, in their order.
Result<std::vector<int>> named_axes(const InferCtx& c, const ResizeAttrs& a) {
  HONE_TRY(need_axes(c, a.axes, c.shape(0).rank()).status());
  std::vector<int> axes;
  for (const int64_t axis : a.axes)
    axes.push_back(static_cast<int>(axis < 0 ? axis + c.shape(0).rank() : axis));
  if (a.axes.empty()) {
    axes.resize(static_cast<size_t>(c.shape(0).rank()));
    std::iota(axes.begin(), axes.end(), 0);
  }
  return axes;
}

Result<ResizeAttrs> with_inputs(const InferCtx& c, const Inputs& in) {
  ResizeAttrs a = c.attrs<ResizeAttrs>();
  HONE_ASSIGN(const std::vector<int> axes, named_axes(c, a));
  const Shape& x = c.shape(0);
  const size_t rank = static_cast<size_t>(x.rank()), count = axes.size();
  if (in.scales && in.scales->numel() > 0) a.scales = numbers(*in.scales);
  if (in.sizes && in.sizes->numel() > 0) a.sizes = to_ints(*in.sizes);
  if (in.roi && in.roi->numel() > 0) a.roi = numbers(*in.roi);
  if (a.sizes.empty() == a.scales.empty() && count > 0)
    return c.error("either sizes or scales must be given, not both or neither");
  if (std::max(a.sizes.size(), a.scales.size()) != count)
    return c.error("{} extents are given for {} axes", std::max(a.sizes.size(), a.scales.size()),
                   count);
  if (a.coordinates == CoordinateMode::tf_crop_and_resize) {
    if (a.roi.size() != 2 * count)
      return c.error("roi has {} entries, expected {}", a.roi.size(), 2 * count);
    const std::span<const double> roi(a.roi);
    auto starts = over_all_axes(roi.first(count), axes, std::vector<double>(rank, 0));
    const auto ends = over_all_axes(roi.subspan(count), axes, std::vector<double>(rank, 1));
    starts.insert(starts.end(), ends.begin(), ends.end());
    a.roi = std::move(starts);
  }
  if (!a.scales.empty())
    a.scales = over_all_axes<double>(a.scales, axes, std::vector<double>(rank, 1));
  if (!a.sizes.empty())
    a.sizes = over_all_axes<int64_t>(a.sizes, axes, std::vector<int64_t>(x.begin(), x.end()));
  if (a.aspect != AspectRatio::stretch && a.sizes.empty())
    return c.error("an aspect ratio is kept for sizes, not for scales");
  return a;
}

Result<Resolved> resolve(const InferCtx& c, const Inputs& inputs) {
  HONE_ASSIGN(ResizeAttrs a, with_inputs(c, inputs));
  HONE_ASSIGN(const std::vector<int> axes, named_axes(c, a));
  const Shape& x = c.shape(0);
  Resolved r;
  r.out = x;
  const bool keeps_ratio = a.aspect != AspectRatio::stretch;
  const double scale = keeps_ratio ? common_scale(x, a, axes) : 0;
  bool shrinks = false;
  constexpr int64_t kLimit = int64_t{1} << 31;
  for (int i = 0; i < x.rank(); ++i) {
    const size_t k = static_cast<size_t>(i);
    if (!a.scales.empty() && !(a.scales[k] > 0 && a.scales[k] < static_cast<double>(kLimit)))
      return c.error("the scale {} of axis {} is out of range", a.scales[k], i);
    AxisScale s = axis_scale(x, a, i);
    const bool named = std::find(axes.begin(), axes.end(), i) != axes.end();
    if (keeps_ratio && named) s = {x[i], rounded(scale * static_cast<double>(x[i])), scale};
    if (s.out < 0 || s.out >= kLimit || (x[i] == 0 && s.out > 0))
      return c.error("axis {} cannot be resized from {} to {}", i, x[i], s.out);
    shrinks |= s.out < s.in || (s.scale != 0 && s.scale < 1);
    r.out[i] = s.out;
    r.axes.push_back(s);
  }
  const bool filters = a.antialias && shrinks && a.mode != ResizeMode::nearest;
  r.plain = !filters && !keeps_ratio && a.coordinates != CoordinateMode::tf_crop_and_resize;
  a.axes.clear();
  r.attrs = std::move(a);
  return r;
}

// Where output i of an axis looks.
double look_at(const Resolved& r, int axis, int64_t i) {
  const AxisScale& s = r.axes[static_cast<size_t>(axis)];
  if (r.attrs.coordinates != CoordinateMode::tf_crop_and_resize) {
    const Position p = position(s, r.attrs.coordinates, i);
    return static_cast<double>(p.whole) + p.fraction;
  }
  const size_t k = static_cast<size_t>(axis), rank = r.axes.size();
  const double start = r.attrs.roi[k], end = r.attrs.roi[rank + k];
  const double last = static_cast<double>(s.in - 1);
  if (s.out == 1) return 0.5 * (start + end) * last;
  return start * last +
         static_cast<double>(i) * (end - start) * last / static_cast<double>(s.out - 1);
}

// Linear interpolation's triangle, or Keys' cubic convolution, at distance d.
double filter(ResizeMode mode, double a, double d) {
  d = std::fabs(d);
  if (mode == ResizeMode::linear) return std::max(0.0, 1 - d);
  if (d <= 1) return ((a + 2) * d - (a + 3)) * d * d + 1;
  return d < 2 ? ((a * d - 5 * a) * d + 8 * a) * d - 4 * a : 0;
}

// (out, in): row i has the weights of output i. Beyond the edges stands the outermost element.
std::vector<double> weights(const Resolved& r, int axis) {
  const AxisScale& s = r.axes[static_cast<size_t>(axis)];
  const double ratio =
      s.scale != 0 ? s.scale : static_cast<double>(s.out) / static_cast<double>(s.in);
  const double stretch = r.attrs.antialias ? std::min(1.0, ratio) : 1.0;
  const double support = (r.attrs.mode == ResizeMode::linear ? 1 : 2) / stretch;
  std::vector<double> w(static_cast<size_t>(s.out * s.in), 0.0);
  for (int64_t i = 0; i < s.out; ++i) {
    const double x = look_at(r, axis, i);
    double* row = w.data() + i * s.in;
    double sum = 0;
    for (auto j = static_cast<int64_t>(std::ceil(x - support));
         j <= static_cast<int64_t>(std::floor(x + support)); ++j) {
      if (r.attrs.exclude_outside && (j < 0 || j >= s.in)) continue;
      const double v =
          filter(r.attrs.mode, r.attrs.cubic_a, (static_cast<double>(j) - x) * stretch);
      row[std::clamp<int64_t>(j, 0, s.in - 1)] += v;
      sum += v;
    }
    for (int64_t j = 0; j < s.in && sum != 0; ++j) row[j] /= sum;
  }
  return w;
}

Value constant_of(Builder& b, const TensorType& type, std::span<const double> v) {
  auto t = TensorData::allocate(type);
  if (!t.ok()) {
    b.fail(t.status());
    return {};
  }
  dispatch(type.dtype, [&]<class T>() {
    for (size_t i = 0; i < v.size(); ++i) t->as_mutable<T>()[i] = convert_element<T>(v[i]);
  });
  return b.constant(std::move(*t));
}

Value gather_nearest(DecomposeCtx& c, Value x, const Resolved& r, int axis) {
  const AxisScale& s = r.axes[static_cast<size_t>(axis)];
  std::vector<int64_t> indices;
  for (int64_t i = 0; i < s.out; ++i)
    indices.push_back(
        std::clamp<int64_t>(nearest_index(cut(look_at(r, axis, i)), r.attrs.nearest), 0, s.in - 1));
  return ops::gather(x, c.b.ints(indices), axis);
}

// The axis goes last, is multiplied, and goes back.
Value multiply_axis(DecomposeCtx& c, Value x, const Resolved& r, int axis) {
  const AxisScale& s = r.axes[static_cast<size_t>(axis)];
  const int rank = x.shape().rank();
  std::vector<int64_t> swap(static_cast<size_t>(rank));
  std::iota(swap.begin(), swap.end(), 0);
  std::swap(swap[static_cast<size_t>(axis)], swap.back());
  const Value w = constant_of(c.b, {x.dtype(), {s.out, s.in}}, weights(r, axis));
  const Value last = ops::transpose(x, swap);
  const Shape shape = last.shape();
  Shape result = shape;
  result[rank - 1] = s.out;
  const Value rows = ops::reshape(last, {shape.product(0, rank - 1), s.in});
  const Value y = ops::matmul(rows, w, {.trans_b = true});
  return ops::transpose(ops::reshape(y, result), swap);
}

// What a crop reads outside of the input.
Value fill_outside(DecomposeCtx& c, Value y, const Resolved& r) {
  for (int axis = 0; axis < r.out.rank(); ++axis) {
    const AxisScale& s = r.axes[static_cast<size_t>(axis)];
    std::vector<double> outside;
    for (int64_t i = 0; i < s.out; ++i) {
      const double x = look_at(r, axis, i);
      outside.push_back(x < 0 || x > static_cast<double>(s.in - 1));
    }
    if (std::find(outside.begin(), outside.end(), 1.0) == outside.end()) continue;
    Shape column = Shape::filled(r.out.rank(), 1);
    column[axis] = s.out;
    y = ops::where(constant_of(c.b, {DType::bool_, column}, outside),
                   c.b.scalar(r.attrs.extrapolation, y.dtype()), y);
  }
  return y;
}

void decompose_resize_dyn(DecomposeCtx& c) {
  std::vector<TensorType> types;
  for (int i = 0; i < c.size(); ++i) types.push_back(c.has(i) ? c.type(i) : TensorType());
  std::vector<const TensorType*> pointers;
  for (int i = 0; i < c.size(); ++i)
    pointers.push_back(c.has(i) ? &types[static_cast<size_t>(i)] : nullptr);
  const InferCtx infer(c.who(), pointers, std::vector<const TensorData*>(pointers.size(), nullptr),
                       c.raw_attrs());
  const auto r = resolve(infer, {c.constant(1), c.constant(2), c.constant(3)});
  if (!r.ok()) return c.b.fail(r.status());
  if (r->plain) {
    ResizeAttrs attrs = r->attrs;
    attrs.antialias = false;
    return c.set(0, c.b.emit(op::resize, {c.in(0)}, attrs));
  }
  const DType t = c.type(0).dtype;
  const bool nearest = r->attrs.mode == ResizeMode::nearest;
  // Narrow floats and integers are interpolated in single precision.
  const DType wide = nearest || t == DType::f64 ? t : DType::f32;
  Value y = ops::cast(c.in(0), wide);
  for (int axis = 0; axis < r->out.rank(); ++axis) {
    const AxisScale& s = r->axes[static_cast<size_t>(axis)];
    const bool crops = r->attrs.coordinates == CoordinateMode::tf_crop_and_resize;
    if (!crops && !is_resized(s)) continue;
    y = nearest ? gather_nearest(c, y, *r, axis) : multiply_axis(c, y, *r, axis);
  }
  if (r->attrs.coordinates == CoordinateMode::tf_crop_and_resize) y = fill_outside(c, y, *r);
  c.set(0, ops::cast(y, t));
}

}  // namespace

constinit const OpDef op::resize_dyn = {
    .name = "resize_dyn",
    .attrs = &kAttrSchema<ResizeAttrs>,
    .min_inputs = 1,
    .max_inputs = 4,
    .infer = [](InferCtx& c) -> Status {
      const bool nearest = c.attrs<ResizeAttrs>().mode == ResizeMode::nearest;
      HONE_TRY(need(c, 0, nearest ? Accepts::any : Accepts::numbers));
      for (int i = 1; i < c.size(); ++i)
        if (c.has(i) && !c.constant(i))
          return unsupported(
              "{}: input {} decides the output's shape and depends on data; it needs to be known "
              "before running",
              c.who(), i);
      HONE_ASSIGN(const Resolved r, resolve(c, {c.constant(1), c.constant(2), c.constant(3)}));
      c.out(c.dtype(0), r.out);
      return {};
    },
    .decompose = decompose_resize_dyn,
    .diff = Diff::by_decomposition,
};

}  // namespace hone
