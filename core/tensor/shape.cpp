// SPDX-License-Identifier: Apache-2.0
// Shapes, strides and broadcasting.
#include "hone/shape.hpp"

#include <algorithm>

namespace hone {

Shape::Shape(std::span<const int64_t> dims) : rank_(static_cast<int8_t>(dims.size())) {
  assert(dims.size() <= kMaxRank);
  std::copy(dims.begin(), dims.end(), dims_.begin());
}

Result<Shape> Shape::make(std::span<const int64_t> dims) {
  if (dims.size() > kMaxRank)
    return invalid("a shape has {} dimensions, at most {} are supported", dims.size(), kMaxRank);
  return Shape(dims);
}

Shape Shape::filled(int rank, int64_t extent) {
  Shape s;
  for (int i = 0; i < rank; ++i) s.push_back(extent);
  return s;
}

bool Shape::operator==(const Shape& o) const {
  return rank_ == o.rank_ && std::equal(begin(), end(), o.begin());
}

void Shape::push_back(int64_t extent) {
  assert(rank_ < kMaxRank);
  dims_[static_cast<size_t>(rank_++)] = extent;
}

void Shape::insert(int axis, int64_t extent) {
  push_back(extent);
  for (int i = rank_ - 1; i > axis; --i) std::swap((*this)[i], (*this)[i - 1]);
}

void Shape::erase(int axis) {
  for (int i = axis; i + 1 < rank_; ++i) (*this)[i] = (*this)[i + 1];
  --rank_;
}

bool Shape::concrete() const {
  return std::all_of(begin(), end(), [](int64_t d) { return d >= 0; });
}

int64_t Shape::product(int first, int last) const {
  int64_t n = 1;
  for (int i = first; i < last; ++i) n *= (*this)[i];
  return n;
}

std::string to_string(const Shape& s) {
  std::string out = "[";
  for (int i = 0; i < s.rank(); ++i) {
    if (i) out += ", ";
    detail::append_int(out, s[i]);
  }
  return out + "]";
}

Shape strides_of(const Shape& s) {
  Shape strides = Shape::filled(s.rank(), 1);
  for (int i = s.rank() - 2; i >= 0; --i) strides[i] = strides[i + 1] * s[i + 1];
  return strides;
}

Result<int64_t> checked_bytes(const Shape& s, DType t) {
  // A zero anywhere makes the tensor empty, but even then no partial product may wrap.
  constexpr int64_t kLimit = int64_t{1} << 62;
  int64_t bytes = static_cast<int64_t>(size_of(t));
  bool empty = false;
  for (int64_t d : s) {
    if (d < 0) return invalid("shape {} has a negative extent", s);
    if (d == 0) {
      empty = true;
      continue;
    }
    if (bytes > kLimit / d)
      return invalid("shape {} of {} is too large: more than 2^62 bytes", s, t);
    bytes *= d;
  }
  return empty ? 0 : bytes;
}

Shape broadcast_strides(const Shape& from, const Shape& to) {
  const Shape own = strides_of(from);
  Shape out = Shape::filled(to.rank(), 0);
  const int lead = to.rank() - from.rank();
  for (int axis = lead; axis < to.rank(); ++axis)
    if (from[axis - lead] != 1) out[axis] = own[axis - lead];
  return out;
}

Result<Shape> broadcast(const Shape& a, const Shape& b) {
  const int rank = std::max(a.rank(), b.rank());
  Shape out = Shape::filled(rank, 1);
  for (int i = 0; i < rank; ++i) {
    const int ia = a.rank() - rank + i, ib = b.rank() - rank + i;
    const int64_t da = ia < 0 ? 1 : a[ia], db = ib < 0 ? 1 : b[ib];
    if (da != db && da != 1 && db != 1)
      return invalid("shapes {} and {} do not broadcast: axis {} from the end is {} and {}", a, b,
                     rank - i, da, db);
    out[i] = da == 1 ? db : da;
  }
  return out;
}

Result<int> normalize_axis(int64_t axis, int rank) {
  if (axis < -rank || axis >= rank)
    return invalid("axis {} is out of range for {} dimensions: expected [{}, {}]", axis, rank,
                   -rank, rank - 1);
  return static_cast<int>(axis < 0 ? axis + rank : axis);
}

std::string to_string(const TensorType& t) {
  return std::string(to_string(t.dtype)) + to_string(t.shape);
}

}  // namespace hone
