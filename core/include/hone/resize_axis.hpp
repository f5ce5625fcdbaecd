// SPDX-License-Identifier: Apache-2.0
// Where the outputs of one resized axis look (ONNX operator Resize).
#pragma once

#include <algorithm>
#include <cmath>

#include "hone/op_attrs.hpp"

namespace hone {

/// A position on the input's axis, cut at the integer below.
struct Position {
  int64_t whole;
  double fraction;  // in [0, 1)
};

/// n / d, exactly: a tie between two pixels is a fraction of exactly one half.
inline Position quotient(int64_t n, int64_t d) {
  const int64_t whole = n >= 0 ? n / d : -((-n + d - 1) / d);
  return {whole, static_cast<double>(n - whole * d) / static_cast<double>(d)};
}
inline Position cut(double x) {
  const double whole = std::floor(x);
  return {static_cast<int64_t>(whole), x - whole};
}

/// How one axis is resized.
struct AxisScale {
  int64_t in, out;
  double scale;  // 0: exactly out / in
};

/// Scales come from files as floats. One that gives a whole number of outputs, but for that
/// rounding, is taken as the ratio of the two extents.
inline AxisScale axis_scale(const Shape& in, const ResizeAttrs& attrs, int axis) {
  const size_t k = static_cast<size_t>(axis);
  if (!attrs.sizes.empty()) return {in[axis], attrs.sizes[k], 0};
  const double scale = attrs.scales[k];
  const double exact = scale * static_cast<double>(in[axis]);
  const double nearest = std::nearbyint(exact);
  const bool whole = std::fabs(exact - nearest) <= 1e-6 * std::max(1.0, nearest);
  return {in[axis], static_cast<int64_t>(whole ? nearest : std::floor(exact)), whole ? 0 : scale};
}

/// An axis is left alone when it keeps its extent and its scale is exactly one.
inline bool is_resized(const AxisScale& a) { return a.in != a.out || a.scale != 0; }

/// Where output i looks. ONNX's coordinate_transformation_mode.
inline Position position(const AxisScale& a, CoordinateMode mode, int64_t i) {
  switch (mode) {
    case CoordinateMode::align_corners:
      return a.out == 1 ? Position{0, 0} : quotient(i * (a.in - 1), a.out - 1);
    case CoordinateMode::asymmetric:
      return a.scale == 0 ? quotient(i * a.in, a.out) : cut(static_cast<double>(i) / a.scale);
    case CoordinateMode::pytorch_half_pixel:
      if (a.out == 1) return {0, 0};
      break;
    case CoordinateMode::half_pixel:
    case CoordinateMode::half_pixel_symmetric:
    case CoordinateMode::tf_crop_and_resize:  // resize_dyn's business
      break;
  }
  if (a.scale == 0) return quotient((2 * i + 1) * a.in - a.out, 2 * a.out);
  double x = (static_cast<double>(i) + 0.5) / a.scale - 0.5;
  if (mode == CoordinateMode::half_pixel_symmetric) {
    const double extent = static_cast<double>(a.in);
    x += extent / 2 * (1 - static_cast<double>(a.out) / (a.scale * extent));
  }
  return cut(x);
}

inline int64_t nearest_index(const Position& p, NearestMode mode) {
  switch (mode) {
    case NearestMode::round_prefer_floor:
      return p.whole + (p.fraction > 0.5);
    case NearestMode::round_prefer_ceil:
      return p.whole + (p.fraction >= 0.5);
    case NearestMode::floor:
      return p.whole;
    case NearestMode::ceil:
      break;
  }
  return p.whole + (p.fraction > 0);
}

/// Keys' cubic convolution at distances 1 + t, t, 1 - t and 2 - t.
inline void cubic_weights(double t, double a, double* w) {
  const auto near_part = [a](double d) { return ((a + 2) * d - (a + 3)) * d * d + 1; };
  const auto far_part = [a](double d) { return ((a * d - 5 * a) * d + 8 * a) * d - 4 * a; };
  w[0] = far_part(1 + t);
  w[1] = near_part(t);
  w[2] = near_part(1 - t);
  w[3] = far_part(2 - t);
}

/// One input that an output is made from.
struct Tap {
  int64_t index;  // along the input's axis
  double weight;
};

/// Taps of each output along one axis.
inline int taps_per_output(ResizeMode mode) {
  return mode == ResizeMode::nearest ? 1 : mode == ResizeMode::linear ? 2 : 4;
}

/// The taps of output i.
inline void set_taps(const AxisScale& a, const ResizeAttrs& attrs, int64_t i, Tap* taps) {
  const Position p = position(a, attrs.coordinates, i);
  const int count = taps_per_output(attrs.mode);
  double w[4] = {1, 0, 0, 0};
  int64_t first = p.whole;
  if (attrs.mode == ResizeMode::nearest) {
    first = nearest_index(p, attrs.nearest);
  } else if (attrs.mode == ResizeMode::linear) {
    w[0] = 1 - p.fraction;
    w[1] = p.fraction;
  } else {
    first = p.whole - 1;
    cubic_weights(p.fraction, attrs.cubic_a, w);
  }
  double sum = 0;
  for (int k = 0; k < count; ++k) {
    const bool outside = first + k < 0 || first + k >= a.in;
    if (outside && attrs.exclude_outside && count > 1) w[k] = 0;
    taps[k] = {std::clamp<int64_t>(first + k, 0, a.in - 1), w[k]};
    sum += w[k];
  }
  if (attrs.exclude_outside && sum != 0)
    for (int k = 0; k < count; ++k) taps[k].weight /= sum;
}

}  // namespace hone
