// SPDX-License-Identifier: Apache-2.0
// Operators that read or write where an integer tensor says. Indices may be negative and then count
// from the end; one out of range is an error that names it, found before anything is written.
#include <algorithm>
#include <cstring>

#include "core/ops/checks.hpp"
#include "core/ops/loops.hpp"
#include "core/ops/scatter_combine.hpp"
#include "hone/ops.hpp"

namespace hone {

namespace {

// i32 or i64 indices into an axis, as non-negative ones.
class Indices {
 public:
  Indices(const ConstTensorView& t, int64_t extent)
      : data_(t.data), count_(t.numel()), extent_(extent), wide_(t.type.dtype == DType::i64) {}
  int64_t operator[](int64_t i) const {
    const int64_t v = raw(i);
    return v < 0 ? v + extent_ : v;
  }
  Status check(int axis) const {
    for (int64_t i = 0; i < count_; ++i)
      if (const int64_t v = raw(i); v < -extent_ || v >= extent_)
        return invalid("index {} (number {}) is out of range for axis {} of extent {}", v, i, axis,
                       extent_);
    return {};
  }

 private:
  int64_t raw(int64_t i) const {
    return wide_ ? static_cast<const int64_t*>(data_)[i] : static_cast<const int32_t*>(data_)[i];
  }
  const void* data_;
  int64_t count_, extent_;
  bool wide_;
};

int resolved(int64_t axis, int rank) { return static_cast<int>(axis < 0 ? axis + rank : axis); }

}  // namespace

// ---- gather(x, indices): x[.., indices, ..] on one axis

namespace {

Status infer_gather(InferCtx& c) {
  HONE_TRY(need(c, 1, Accepts::indices));
  HONE_ASSIGN(const int axis, need_axis(c, 0, c.attrs<AxisAttrs>().axis));
  const Shape &x = c.shape(0), &indices = c.shape(1);
  if (x.rank() + indices.rank() - 1 > kMaxRank)
    return c.error("{} gathered by {} has more than {} dimensions", x, indices, kMaxRank);
  Shape out;
  for (int i = 0; i < axis; ++i) out.push_back(x[i]);
  for (const int64_t d : indices) out.push_back(d);
  for (int i = axis + 1; i < x.rank(); ++i) out.push_back(x[i]);
  c.out(c.dtype(0), out);
  return {};
}

Status gather_kernel(const KernelArgs& args) {
  const Shape& in = args.shape(0);
  const int axis = resolved(args.attrs.as<AxisAttrs>().axis, in.rank());
  const int64_t extent = in[axis], inner = in.product(axis + 1, in.rank());
  const int64_t count = args.in[1].numel(), rows = in.product(0, axis) * count;
  const Indices indices(args.in[1], extent);
  HONE_TRY(indices.check(axis));
  if (args.out[0].numel() == 0) return {};
  dispatch_size(size_of(args.out[0].type.dtype), [&]<class T>() {
    const T* x = static_cast<const T*>(args.in[0].data);
    T* y = static_cast<T*>(args.out[0].data);
    for_ranges(args.pool, rows, std::max<int64_t>(1, kGrain / inner),
               [&](int64_t begin, int64_t end) {
                 for (int64_t row = begin; row < end; ++row) {
                   const T* from = x + (row / count * extent + indices[row % count]) * inner;
                   if (inner == 1)
                     y[row] = *from;
                   else
                     std::memcpy(y + row * inner, from, static_cast<size_t>(inner) * sizeof(T));
                 }
               });
  });
  return {};
}

}  // namespace

constinit const OpDef op::gather = {
    .name = "gather",
    .attrs = &kAttrSchema<AxisAttrs>,
    .min_inputs = 2,
    .max_inputs = 2,
    .infer = infer_gather,
    .diff = Diff::rule,
    .grad =
        [](GradCtx& c) {
          const int axis = resolved(c.attrs<AxisAttrs>().axis, c.shape(0).rank());
          c.set(0, ops::index_sum(c.out_grad(0), c.in(1), axis, c.shape(0)[axis]));
        },
    .kernel = gather_kernel,
    .flops = no_flops,
};

// ---- index_sum(updates, indices): gather's adjoint

namespace {

Status infer_index_sum(InferCtx& c) {
  const IndexSumAttrs& attrs = c.attrs<IndexSumAttrs>();
  HONE_TRY(need(c, 0, Accepts::numbers));
  HONE_TRY(need(c, 1, Accepts::indices));
  const Shape &updates = c.shape(0), &indices = c.shape(1);
  // The axis counts in the output, which has one axis for all of the indices'.
  const int rank = updates.rank() - indices.rank() + 1;
  const int64_t axis = attrs.axis < 0 ? attrs.axis + rank : attrs.axis;
  if (axis < 0 || axis >= rank)
    return c.error("axis {} does not exist for updates {} and indices {}", attrs.axis, updates,
                   indices);
  if (attrs.size < 0) return c.error("the extent {} is negative", attrs.size);
  const int at = static_cast<int>(axis);
  Shape out;
  for (int i = 0; i < at; ++i) out.push_back(updates[i]);
  out.push_back(attrs.size);
  for (int i = 0; i < indices.rank(); ++i)
    if (updates[at + i] != indices[i])
      return c.error("updates {} and indices {} differ from axis {} on", updates, indices, at);
  for (int i = at + indices.rank(); i < updates.rank(); ++i) out.push_back(updates[i]);
  c.out(c.dtype(0), out);
  return {};
}

bool is_half(DType t) { return t == DType::f16 || t == DType::bf16; }

// 16-bit floats are summed in float.
int64_t index_sum_scratch(const NodeTypes& t) {
  return is_half(t.out[0]->dtype) ? t.out[0]->numel() * 4 : 0;
}

// Threads share the columns, so each sum is taken in the order of the indices by one thread.
template <class T, class Sum>
void add_rows(ThreadPool& pool, const T* updates,  // (outer, count, inner)
              const Indices& indices, Sum* sums,   // (outer, extent, inner)
              int64_t outer, int64_t count, int64_t extent, int64_t inner) {
  const int64_t grain = std::max<int64_t>(1, kGrain / std::max<int64_t>(count, 1));
  for_ranges(pool, outer * inner, grain, [&](int64_t begin, int64_t end) {
    while (begin < end) {
      const int64_t o = begin / inner, first = begin % inner;
      const int64_t last = std::min(inner, first + end - begin);
      for (int64_t j = 0; j < count; ++j) {
        const T* from = updates + (o * count + j) * inner;
        Sum* to = sums + (o * extent + indices[j]) * inner;
        for (int64_t i = first; i < last; ++i)
          to[i] = static_cast<Sum>(to[i] + static_cast<Sum>(from[i]));
      }
      begin += last - first;
    }
  });
}

Status index_sum_kernel(const KernelArgs& args) {
  const TensorView& y = args.out[0];
  const Shape& out = y.type.shape;
  const IndexSumAttrs& attrs = args.attrs.as<IndexSumAttrs>();
  const int axis = resolved(attrs.axis, out.rank());
  const int64_t outer = out.product(0, axis), inner = out.product(axis + 1, out.rank());
  const Indices indices(args.in[1], attrs.size);
  HONE_TRY(indices.check(axis));
  if (y.numel() == 0) return {};
  const int64_t count = args.in[1].numel();
  dispatch(y.type.dtype, [&]<class T>() {
    using Sum =
        std::conditional_t<is_float_type<T>, accumulator_t<T>,
                           std::make_unsigned_t<std::conditional_t<
                               std::is_integral_v<T> && !std::is_same_v<T, bool>, T, uint8_t>>>;
    T* result = static_cast<T*>(y.data);
    Sum* sums =
        reinterpret_cast<Sum*>(is_half(y.type.dtype) ? static_cast<void*>(args.scratch) : y.data);
    for_ranges(args.pool, y.numel(), kGrain,
               [&](int64_t begin, int64_t end) { std::fill(sums + begin, sums + end, Sum(0)); });
    add_rows(args.pool, args.input<T>(0), indices, sums, outer, count, attrs.size, inner);
    if (!is_half(y.type.dtype)) return;
    for_ranges(args.pool, y.numel(), kGrain, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) result[i] = static_cast<T>(sums[i]);
    });
  });
  return {};
}

}  // namespace

constinit const OpDef op::index_sum = {
    .name = "index_sum",
    .attrs = &kAttrSchema<IndexSumAttrs>,
    .min_inputs = 2,
    .max_inputs = 2,
    .infer = infer_index_sum,
    .diff = Diff::rule,
    .grad =
        [](GradCtx& c) {
          const int rank = c.shape(0).rank() - c.shape(1).rank() + 1;
          const int axis = resolved(c.attrs<IndexSumAttrs>().axis, rank);
          c.set(0, ops::gather(c.out_grad(0), c.in(1), axis));
        },
    .kernel = index_sum_kernel,
    .scratch = index_sum_scratch,
    .flops = [](const NodeTypes& t) { return static_cast<double>(t.in[0]->numel()); },
};

// ---- gather_elements(x, indices): out[i][j] = x[indices[i][j]][j] for axis 0

namespace {

// Indices have the rank of the data and, but for the axis, extents no larger.
Status check_element_indices(const InferCtx& c, int64_t axis_attr) {
  HONE_TRY(need(c, 1, Accepts::indices));
  HONE_ASSIGN(const int axis, need_axis(c, 0, axis_attr));
  const Shape &x = c.shape(0), &indices = c.shape(1);
  bool fits = x.rank() == indices.rank();
  for (int i = 0; fits && i < x.rank(); ++i) fits = i == axis || indices[i] <= x[i];
  if (!fits) return c.error("indices {} do not fit into {} around axis {}", indices, x, axis);
  return {};
}

// Walks the indices: operand 0 is the indices (and what is shaped like them), operand 1 the data
// with its position on the axis left to the index.
LoopNest<2> element_nest(const Shape& indices, const Shape& data, int axis) {
  const Shape own = strides_of(indices), there = strides_of(data);
  LoopNest<2> nest;
  for (int i = 0; i < indices.rank(); ++i) nest.add(indices[i], {own[i], i == axis ? 0 : there[i]});
  return nest;
}

Status gather_elements_kernel(const KernelArgs& args) {
  const Shape& in = args.shape(0);
  const int axis = resolved(args.attrs.as<AxisAttrs>().axis, in.rank());
  const Indices indices(args.in[1], in[axis]);
  HONE_TRY(indices.check(axis));
  const int64_t step = strides_of(in)[axis];
  const LoopNest<2> nest = element_nest(args.shape(1), in, axis);
  const auto stride = nest.inner_stride();
  dispatch_size(size_of(args.out[0].type.dtype), [&]<class T>() {
    const T* x = static_cast<const T*>(args.in[0].data);
    T* y = static_cast<T*>(args.out[0].data);
    for_ranges(args.pool, nest.size(), kGrain, [&](int64_t begin, int64_t end) {
      nest.for_rows(begin, end, [&](const std::array<int64_t, 2>& at, int64_t n) {
        for (int64_t i = 0; i < n; ++i) {
          const int64_t k = at[0] + i * stride[0];
          y[k] = x[at[1] + i * stride[1] + indices[k] * step];
        }
      });
    });
  });
  return {};
}

}  // namespace

constinit const OpDef op::gather_elements = {
    .name = "gather_elements",
    .attrs = &kAttrSchema<AxisAttrs>,
    .min_inputs = 2,
    .max_inputs = 2,
    .infer =
        [](InferCtx& c) {
          HONE_TRY(check_element_indices(c, c.attrs<AxisAttrs>().axis));
          c.out(c.dtype(0), c.shape(1));
          return Status();
        },
    .diff = Diff::rule,
    .grad =
        [](GradCtx& c) {
          c.set(0,
                c.b.emit(op::scatter_elements, {ops::zeros_like(c.in(0)), c.in(1), c.out_grad(0)},
                         ScatterAttrs{c.attrs<AxisAttrs>().axis, ScatterMode::add}));
        },
    .kernel = gather_elements_kernel,
    .flops = no_flops,
};

// ---- scatter_elements(data, indices, updates): data with the updates written, or combined, where
// gather_elements would have read. With equal indices the last one in row-major order is written.

namespace {

Status infer_scatter(InferCtx& c) {
  const ScatterAttrs& attrs = c.attrs<ScatterAttrs>();
  HONE_TRY(check_element_indices(c, attrs.axis));
  HONE_TRY(need_same_dtype(c, 0, 2));
  if (attrs.reduction != ScatterMode::assign) HONE_TRY(need(c, 0, Accepts::numbers));
  if (c.shape(2) != c.shape(1))
    return c.error("updates {} and indices {} differ in shape", c.shape(2), c.shape(1));
  c.out(c.in(0));
  return {};
}

Status scatter_kernel(const KernelArgs& args) {
  const ScatterAttrs& attrs = args.attrs.as<ScatterAttrs>();
  const Shape& in = args.out[0].type.shape;
  const int axis = resolved(attrs.axis, in.rank());
  const Indices indices(args.in[1], in[axis]);
  HONE_TRY(indices.check(axis));
  if (args.out[0].numel() == 0) return {};
  const int64_t step = strides_of(in)[axis];
  const LoopNest<2> nest = element_nest(args.shape(1), in, axis);
  const auto stride = nest.inner_stride();
  scatter_updates(args, attrs.reduction, [&](auto update) {
    nest.for_rows(0, nest.size(), [&](const std::array<int64_t, 2>& at, int64_t n) {
      for (int64_t i = 0; i < n; ++i) {
        const int64_t k = at[0] + i * stride[0];
        update(at[1] + i * stride[1] + indices[k] * step, k);
      }
    });
  });
  return {};
}

struct Elements {
  int64_t axis;
  Value scatter(Value data, Value indices, Value updates, ScatterMode mode) const {
    return data.builder().emit(op::scatter_elements, {data, indices, updates},
                               ScatterAttrs{axis, mode});
  }
  Value pick(Value x, Value indices) const {
    return x.builder().emit(op::gather_elements, {x, indices}, AxisAttrs{axis});
  }
};

}  // namespace

constinit const OpDef op::scatter_elements = {
    .name = "scatter_elements",
    .attrs = &kAttrSchema<ScatterAttrs>,
    .min_inputs = 3,
    .max_inputs = 3,
    .infer = infer_scatter,
    .diff = Diff::rule,
    .grad =
        [](GradCtx& c) {
          const ScatterAttrs attrs = c.attrs<ScatterAttrs>();
          scatter_grad_with(c, attrs.reduction, Elements{attrs.axis});
        },
    .kernel = scatter_kernel,
    .scratch =
        [](const NodeTypes& t) { return scatter_scratch(t, t.attrs.as<ScatterAttrs>().reduction); },
    .flops = [](const NodeTypes& t) { return static_cast<double>(t.in[2]->numel()); },
    .inplace = Inplace::pairwise,
};

// ---- one_hot(indices, depth, values): values[1] where the new axis has the index, values[0]
// elsewhere. An index outside [-depth, depth) has it nowhere.

namespace {

Result<int64_t> one_hot_depth(const InferCtx& c) {
  if (c.shape(1).numel() != 1) return c.error("input 1, the depth, is {}, not one number", c.in(1));
  const TensorData* depth = c.constant(1);
  if (!depth)
    return unsupported(
        "{}: the depth decides the output's shape and needs to be known before running", c.who());
  const int64_t n = static_cast<int64_t>(depth->at(0));
  if (n < 0) return c.error("the depth {} is negative", n);
  return n;
}

Status infer_one_hot(InferCtx& c) {
  HONE_TRY(need(c, 0, Accepts::numbers));
  HONE_ASSIGN(const int64_t depth, one_hot_depth(c));
  if (c.shape(2) != Shape{2}) return c.error("input 2 is {}, expected [off, on]", c.in(2));
  const int rank = c.shape(0).rank() + 1;
  const int64_t given = c.attrs<AxisAttrs>().axis;
  const int64_t axis = given < 0 ? given + rank : given;
  if (axis < 0 || axis >= rank || rank > kMaxRank)
    return c.error("axis {} does not exist among {} dimensions", given, rank);
  Shape out = c.shape(0);
  out.insert(static_cast<int>(axis), depth);
  c.out(c.dtype(2), out);
  return {};
}

void decompose_one_hot(DecomposeCtx& c) {
  const int64_t depth = static_cast<int64_t>(c.constant(1)->at(0));
  Value indices = ops::cast(c.in(0), DType::i64);
  const Value zero = c.b.scalar(0, DType::i64);
  indices = ops::where(ops::less(indices, zero), indices + static_cast<double>(depth), indices);
  Shape column = c.shape(0), row = Shape::filled(c.shape(0).rank() + 1, 1);
  const int axis = resolved(c.attrs<AxisAttrs>().axis, row.rank());
  column.insert(axis, 1);
  row[axis] = depth;
  std::vector<int64_t> classes;
  for (int64_t i = 0; i < depth; ++i) classes.push_back(i);
  const Value hit = ops::equal(ops::reshape(indices, column), ops::reshape(c.b.ints(classes), row));
  const auto value = [&](int64_t i) { return ops::reshape(ops::slice(c.in(2), 0, i, i + 1), {}); };
  c.set(0, ops::where(hit, value(1), value(0)));
}

}  // namespace

constinit const OpDef op::one_hot = {
    .name = "one_hot",
    .attrs = &kAttrSchema<AxisAttrs>,
    .min_inputs = 3,
    .max_inputs = 3,
    .infer = infer_one_hot,
    .decompose = decompose_one_hot,
    .diff = Diff::by_decomposition,
};

}  // namespace hone
