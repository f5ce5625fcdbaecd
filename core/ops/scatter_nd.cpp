// SPDX-License-Identifier: Apache-2.0
// gather_nd and scatter_nd: each row of the indices is a position in the leading axes of the data,
// and names a slice of it. The first batch_dims axes of data and indices go together. Indices may
// be negative and then count from the end.
#include <cstring>

#include "core/ops/checks.hpp"
#include "core/ops/loops.hpp"
#include "core/ops/scatter_combine.hpp"
#include "hone/op_attrs_index.hpp"
#include "hone/ops.hpp"

namespace hone {

namespace {

// data (batch.., indexed.., slice..), indices (batch.., rows.., number of indexed axes)
struct Layout {
  int batch_dims = 0, indexed = 0;
  int64_t batches = 1, rows = 1;  // rows of indices in each batch
  int64_t slice = 1;              // elements behind one position
  Shape slice_shape, rows_shape;  // rows with the batch axes
};

Layout layout_of(const Shape& data, const Shape& indices, int64_t batch_dims) {
  Layout l;
  l.batch_dims = static_cast<int>(batch_dims);
  l.indexed = static_cast<int>(indices[indices.rank() - 1]);
  const int behind = l.batch_dims + l.indexed;
  l.batches = data.product(0, l.batch_dims);
  l.rows = indices.product(l.batch_dims, indices.rank() - 1);
  l.slice = data.product(behind, data.rank());
  l.rows_shape = Shape(indices.dims().first(static_cast<size_t>(indices.rank() - 1)));
  l.slice_shape = Shape(data.dims().subspan(static_cast<size_t>(behind)));
  return l;
}

Status check_layout(const InferCtx& c, int64_t batch_dims) {
  HONE_TRY(need(c, 1, Accepts::indices));
  const Shape &data = c.shape(0), &indices = c.shape(1);
  HONE_TRY(need_rank_at_least(c, 1, 1));
  if (batch_dims < 0 || batch_dims >= indices.rank() || batch_dims > data.rank())
    return c.error("batch_dims {} does not fit {} and indices {}", batch_dims, data, indices);
  for (int i = 0; i < batch_dims; ++i)
    if (data[i] != indices[i])
      return c.error("{} and indices {} differ on batch axis {}", data, indices, i);
  const int64_t indexed = indices[indices.rank() - 1];
  if (batch_dims + indexed > data.rank())
    return c.error("indices {} name {} axes, {} has {} for them", indices, indexed, data,
                   data.rank() - batch_dims);
  return {};
}

Shape joined(const Shape& a, const Shape& b) {
  Shape out = a;
  for (const int64_t d : b) out.push_back(d);
  return out;
}

// Where each row of the indices points, in elements from the start of the data.
class Positions {
 public:
  Positions(const ConstTensorView& indices, const Shape& data, const Layout& l)
      : data_(indices.data), wide_(indices.type.dtype == DType::i64), shape_(data), layout_(l) {}

  Status check() const {
    for (int64_t row = 0; row < layout_.batches * layout_.rows; ++row)
      for (int k = 0; k < layout_.indexed; ++k) {
        const int64_t v = raw(row * layout_.indexed + k), extent = shape_[layout_.batch_dims + k];
        if (v < -extent || v >= extent)
          return invalid("index {} (row {}) is out of range for axis {} of extent {}", v, row,
                         layout_.batch_dims + k, extent);
      }
    return {};
  }
  int64_t operator[](int64_t row) const {
    int64_t at = layout_.rows ? row / layout_.rows : 0;
    for (int k = 0; k < layout_.indexed; ++k) {
      const int64_t v = raw(row * layout_.indexed + k), extent = shape_[layout_.batch_dims + k];
      at = at * extent + (v < 0 ? v + extent : v);
    }
    return at * layout_.slice;
  }

 private:
  int64_t raw(int64_t i) const {
    return wide_ ? static_cast<const int64_t*>(data_)[i] : static_cast<const int32_t*>(data_)[i];
  }
  const void* data_;
  bool wide_;
  Shape shape_;
  const Layout& layout_;
};

Status gather_kernel(const KernelArgs& args) {
  const Layout l =
      layout_of(args.shape(0), args.shape(1), args.attrs.as<GatherNdAttrs>().batch_dims);
  const Positions positions(args.in[1], args.shape(0), l);
  HONE_TRY(positions.check());
  if (args.out[0].numel() == 0) return {};
  const size_t width = size_of(args.out[0].type.dtype),
               bytes = static_cast<size_t>(l.slice) * width;
  const std::byte* from = static_cast<const std::byte*>(args.in[0].data);
  std::byte* to = static_cast<std::byte*>(args.out[0].data);
  const int64_t grain = std::max<int64_t>(1, kGrain / l.slice);
  for_ranges(args.pool, l.batches * l.rows, grain, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row)
      std::memcpy(to + static_cast<size_t>(row) * bytes,
                  from + static_cast<size_t>(positions[row]) * width, bytes);
  });
  return {};
}

Status scatter_kernel(const KernelArgs& args) {
  const ScatterNdAttrs& attrs = args.attrs.as<ScatterNdAttrs>();
  const Layout l = layout_of(args.shape(0), args.shape(1), attrs.batch_dims);
  const Positions positions(args.in[1], args.shape(0), l);
  HONE_TRY(positions.check());
  if (args.out[0].numel() == 0) return {};
  scatter_updates(args, attrs.reduction, [&](auto update) {
    for (int64_t row = 0; row < l.batches * l.rows; ++row) {
      const int64_t first = positions[row];
      for (int64_t i = 0; i < l.slice; ++i) update(first + i, row * l.slice + i);
    }
  });
  return {};
}

struct Nd {
  int64_t batch_dims;
  Value scatter(Value data, Value indices, Value updates, ScatterMode mode) const {
    return data.builder().emit(op::scatter_nd, {data, indices, updates},
                               ScatterNdAttrs{mode, batch_dims});
  }
  Value pick(Value x, Value indices) const {
    return x.builder().emit(op::gather_nd, {x, indices}, GatherNdAttrs{batch_dims});
  }
};

}  // namespace

// gather_nd(data, indices)
constinit const OpDef op::gather_nd = {
    .name = "gather_nd",
    .attrs = &kAttrSchema<GatherNdAttrs>,
    .min_inputs = 2,
    .max_inputs = 2,
    .infer = [](InferCtx& c) -> Status {
      const int64_t batch_dims = c.attrs<GatherNdAttrs>().batch_dims;
      HONE_TRY(check_layout(c, batch_dims));
      const Layout l = layout_of(c.shape(0), c.shape(1), batch_dims);
      if (l.rows_shape.rank() + l.slice_shape.rank() > kMaxRank)
        return c.error("{} gathered by {} has more than {} dimensions", c.shape(0), c.shape(1),
                       kMaxRank);
      c.out(c.dtype(0), joined(l.rows_shape, l.slice_shape));
      return {};
    },
    .diff = Diff::rule,
    .grad =
        [](GradCtx& c) {
          const Nd nd{c.attrs<GatherNdAttrs>().batch_dims};
          c.set(0, nd.scatter(ops::zeros_like(c.in(0)), c.in(1), c.out_grad(0), ScatterMode::add));
        },
    .kernel = gather_kernel,
    .flops = no_flops,
};

// scatter_nd(data, indices, updates): data with the updates written, or combined, where gather_nd
// would have read. Of equal positions the last one in row-major order is written.
constinit const OpDef op::scatter_nd = {
    .name = "scatter_nd",
    .attrs = &kAttrSchema<ScatterNdAttrs>,
    .min_inputs = 3,
    .max_inputs = 3,
    .infer = [](InferCtx& c) -> Status {
      const ScatterNdAttrs& attrs = c.attrs<ScatterNdAttrs>();
      HONE_TRY(check_layout(c, attrs.batch_dims));
      HONE_TRY(need_same_dtype(c, 0, 2));
      if (attrs.reduction != ScatterMode::assign) HONE_TRY(need(c, 0, Accepts::numbers));
      const Layout l = layout_of(c.shape(0), c.shape(1), attrs.batch_dims);
      const Shape updates = joined(l.rows_shape, l.slice_shape);
      if (c.shape(2) != updates)
        return c.error("updates are {}, expected {} for {} and indices {}", c.shape(2), updates,
                       c.shape(0), c.shape(1));
      c.out(c.in(0));
      return {};
    },
    .diff = Diff::rule,
    .grad =
        [](GradCtx& c) {
          const ScatterNdAttrs attrs = c.attrs<ScatterNdAttrs>();
          scatter_grad_with(c, attrs.reduction, Nd{attrs.batch_dims});
        },
    .kernel = scatter_kernel,
    .scratch =
        [](const NodeTypes& t) {
          return scatter_scratch(t, t.attrs.as<ScatterNdAttrs>().reduction);
        },
    .flops = [](const NodeTypes& t) { return static_cast<double>(t.in[2]->numel()); },
    .inplace = Inplace::pairwise,
};

}  // namespace hone
