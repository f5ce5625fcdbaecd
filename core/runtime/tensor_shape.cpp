// SPDX-License-Identifier: Apache-2.0
// The methods that move elements about.
#include <numeric>

#include "core/runtime/eager_engine.hpp"
#include "hone/ops.hpp"

namespace hone {

Tensor Tensor::reshape(std::vector<int64_t> shape) const {
  return apply(op::reshape, {*this}, ShapeAttrs{std::move(shape), false});
}

// Extents of leading axes are written as 0 and the joined one as -1, so that a trace holds for
// other extents too.
Tensor Tensor::flatten(int first, int last) const {
  if (!ok()) return apply(op::flatten, {*this});
  const int rank = dim();
  if (rank == 0) return reshape({1});
  const int from = first < 0 ? first + rank : first, to = last < 0 ? last + rank : last;
  if (from < 0 || to >= rank || from > to)
    return error(invalid("flatten: axes {} to {} of {}", first, last, type()));
  if (from == 1 && to == rank - 1) return apply(op::flatten, {*this}, AxisAttrs{1});
  std::vector<int64_t> out(static_cast<size_t>(from), 0);
  out.push_back(-1);
  for (int i = to + 1; i < rank; ++i) out.push_back(shape()[i]);
  return reshape(std::move(out));
}

Tensor Tensor::squeeze(std::vector<int64_t> axes) const {
  return apply(op::squeeze, {*this}, AxesAttrs{std::move(axes)});
}
Tensor Tensor::unsqueeze(int64_t axis) const {
  return apply(op::unsqueeze, {*this}, AxesAttrs{{axis}});
}

Tensor Tensor::permute(std::vector<int64_t> order) const {
  for (int64_t& axis : order)
    if (axis < 0) axis += dim();
  return apply(op::transpose, {*this}, PermAttrs{std::move(order)});
}

Tensor Tensor::transpose(int64_t a, int64_t b) const {
  if (!ok()) return apply(op::transpose, {*this});
  auto from = normalize_axis(a, dim());
  auto to = normalize_axis(b, dim());
  if (!from.ok()) return error(from.status().with_context("transpose"));
  if (!to.ok()) return error(to.status().with_context("transpose"));
  std::vector<int64_t> order(static_cast<size_t>(dim()));
  std::iota(order.begin(), order.end(), 0);
  std::swap(order[static_cast<size_t>(*from)], order[static_cast<size_t>(*to)]);
  return permute(std::move(order));
}

// An extent that stays is written as 1, so that a trace holds for other extents too.
Tensor Tensor::expand(std::vector<int64_t> shape) const {
  if (!ok()) return apply(op::expand, {*this});
  const int lead = static_cast<int>(shape.size()) - dim();
  for (size_t i = 0; i < shape.size(); ++i) {
    const int axis = static_cast<int>(i) - lead;
    const int64_t have = axis < 0 ? 1 : this->shape()[axis];
    if ((axis < 0 && shape[i] < 0) || lead < 0 || (shape[i] != -1 && shape[i] != have && have != 1))
      return error(invalid("expand: axis {} of {} cannot become {}", axis, type(), shape[i]));
    if (shape[i] == have || shape[i] == -1) shape[i] = 1;
  }
  if (lead < 0)
    return error(invalid("expand: {} has more axes than the {} asked for", type(), shape.size()));
  return apply(op::expand, {*this}, ShapeAttrs{std::move(shape), true});
}

Tensor Tensor::slice(int64_t axis, int64_t start, int64_t end, int64_t step) const {
  return apply(op::slice, {*this}, SliceAttrs{{start}, {end}, {axis}, {step}});
}

Tensor Tensor::select(int64_t axis, int64_t index) const {
  if (!ok()) return squeeze({axis});
  const int64_t extent = size(static_cast<int>(axis));
  if (axis < -dim() || axis >= dim() || index < -extent || index >= extent)
    return error(invalid("select: index {} of axis {} of {}", index, axis, type()));
  return slice(axis, index, index == -1 ? INT64_MAX : index + 1).squeeze({axis});
}

Tensor Tensor::index_select(int64_t axis, const Tensor& indices) const {
  return apply(op::gather, {*this, indices}, AxisAttrs{axis});
}
Tensor Tensor::gather(int64_t axis, const Tensor& index) const {
  return apply(op::gather_elements, {*this, index}, AxisAttrs{axis});
}
Tensor Tensor::scatter_add(int64_t axis, const Tensor& index, const Tensor& updates) const {
  return apply(op::scatter_elements, {*this, index, updates}, ScatterAttrs{axis, ScatterMode::add});
}

std::vector<Tensor> Tensor::split(std::vector<int64_t> sizes, int64_t axis) const {
  const Tensor in[] = {*this};
  return apply_all(op::split, in, SplitAttrs{axis, std::move(sizes), 0});
}

std::vector<Tensor> Tensor::split(int64_t size, int64_t axis) const {
  const int64_t extent = this->size(static_cast<int>(axis));
  if (ok() && size < 1)
    return {error(invalid("split: pieces of {} along axis {} of {}", size, axis, type()))};
  std::vector<int64_t> sizes;
  for (int64_t done = 0; ok() && done < extent; done += size)
    sizes.push_back(std::min(size, extent - done));
  return split(std::move(sizes), axis);
}

std::vector<Tensor> Tensor::chunk(int64_t count, int64_t axis) const {
  if (ok() && count < 1)
    return {error(invalid("chunk: {} pieces along axis {} of {}", count, axis, type()))};
  const int64_t extent = size(static_cast<int>(axis));
  return split(std::max<int64_t>(ok() ? (extent + count - 1) / count : 1, 1), axis);
}

std::vector<Tensor> Tensor::unbind(int64_t axis) const {
  if (!ok() || axis < -dim() || axis >= dim()) return {select(axis, 0)};
  std::vector<Tensor> out;
  for (int64_t i = 0; i < size(static_cast<int>(axis)); ++i) out.push_back(select(axis, i));
  return out;
}

Tensor Tensor::flip(std::vector<int64_t> axes) const {
  SliceAttrs attrs;
  attrs.axes = std::move(axes);
  attrs.starts.assign(attrs.axes.size(), -1);
  attrs.ends.assign(attrs.axes.size(), INT64_MIN);
  attrs.steps.assign(attrs.axes.size(), -1);
  return apply(op::slice, {*this}, std::move(attrs));
}

Tensor Tensor::repeat(std::vector<int64_t> repeats) const {
  const int more = static_cast<int>(repeats.size()) - (ok() ? dim() : 0);
  if (!ok() || more <= 0) return apply(op::tile, {*this}, RepeatsAttrs{std::move(repeats)});
  std::vector<int64_t> lead(static_cast<size_t>(more));
  std::iota(lead.begin(), lead.end(), 0);
  return apply(op::unsqueeze, {*this}, AxesAttrs{std::move(lead)}).repeat(std::move(repeats));
}

Tensor Tensor::masked_fill(const Tensor& mask, double value) const {
  return ok() ? apply(op::where, {mask, scalar(value, dtype()), *this}) : *this;
}
Tensor Tensor::tril(int64_t k) const { return apply(op::trilu, {*this}, TriluAttrs{k, false}); }
Tensor Tensor::triu(int64_t k) const { return apply(op::trilu, {*this}, TriluAttrs{k, true}); }
Tensor Tensor::clone() const { return apply(op::identity, {*this}); }

}  // namespace hone
