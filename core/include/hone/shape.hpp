// SPDX-License-Identifier: Apache-2.0
// Shapes: up to eight dimensions, held in place so that they copy without allocating.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>

#include "hone/dtype.hpp"
#include "hone/status.hpp"

namespace hone {

inline constexpr int kMaxRank = 8;

/// The extents of a tensor, outermost first (row-major). In a graph that is not specialised yet a
/// negative extent -k-1 stands for the graph's k-th named dimension.
class Shape {
 public:
  Shape() = default;
  Shape(std::initializer_list<int64_t> dims)
      : Shape(std::span<const int64_t>(dims.begin(), dims.size())) {}
  /// At most kMaxRank dimensions (our own code knows); use `make` for input from outside.
  explicit Shape(std::span<const int64_t> dims);
  /// Errors: invalid_argument when there are more than kMaxRank dimensions.
  static Result<Shape> make(std::span<const int64_t> dims);
  static Shape filled(int rank, int64_t extent);

  int rank() const { return rank_; }
  int64_t operator[](int axis) const { return dims_[static_cast<size_t>(axis)]; }
  int64_t& operator[](int axis) { return dims_[static_cast<size_t>(axis)]; }
  const int64_t* begin() const { return dims_.data(); }
  const int64_t* end() const { return dims_.data() + rank_; }
  std::span<const int64_t> dims() const { return {dims_.data(), static_cast<size_t>(rank_)}; }
  bool operator==(const Shape& o) const;

  void push_back(int64_t extent);  ///< rank() must be below kMaxRank.
  void insert(int axis, int64_t extent);
  void erase(int axis);

  /// No negative (named) extent.
  bool concrete() const;
  /// Product of the extents; 1 for a scalar. The shape must be concrete and have passed
  /// `checked_bytes`.
  int64_t numel() const { return product(0, rank_); }
  /// Product of the extents of axes [first, last).
  int64_t product(int first, int last) const;

 private:
  std::array<int64_t, kMaxRank> dims_{};
  int8_t rank_ = 0;
};

/// "[2, 3, 4]"; "[]" for a scalar.
std::string to_string(const Shape& s);

/// Row-major strides in elements.
Shape strides_of(const Shape& s);

/// Bytes of a tensor. Errors: invalid_argument for a negative extent or a product beyond 2^62.
Result<int64_t> checked_bytes(const Shape& s, DType t);

/// Strides of a contiguous operand of shape `from` walked along the axes of `to`, which it
/// broadcasts to: 0 along the axes it lacks or has once.
Shape broadcast_strides(const Shape& from, const Shape& to);

/// NumPy's broadcasting rule. Errors: invalid_argument naming both shapes.
Result<Shape> broadcast(const Shape& a, const Shape& b);

/// Maps axis in [-rank, rank) to [0, rank). Errors: invalid_argument.
Result<int> normalize_axis(int64_t axis, int rank);

/// Element type and shape: what a value is, apart from its data.
struct TensorType {
  DType dtype = DType::f32;
  Shape shape;
  bool operator==(const TensorType&) const = default;
  int64_t numel() const { return shape.numel(); }
  int64_t bytes() const { return shape.numel() * static_cast<int64_t>(size_of(dtype)); }
};

/// "f32[2, 3]".
std::string to_string(const TensorType& t);

}  // namespace hone
