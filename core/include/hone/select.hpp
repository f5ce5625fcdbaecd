// SPDX-License-Identifier: Apache-2.0
// Attributes of the operators whose output shapes depend on what their inputs contain.
#pragma once

#include "hone/attrs.hpp"

namespace hone {

/// unique: which slices along `axis` (all elements when `flat`) occur first, sorted by content or
/// in order of occurrence (ONNX Unique).
struct UniqueAttrs {
  bool flat = true;
  int64_t axis = 0;
  bool sorted = true;
  template <class F>
  static void fields(UniqueAttrs& a, F f) {
    f("flat", a.flat), f("axis", a.axis), f("sorted", a.sorted);
  }
};

/// non_max_suppression: whether boxes are (y1, x1, y2, x2) or (x centre, y centre, width, height)
/// (ONNX NonMaxSuppression).
struct NonMaxSuppressionAttrs {
  bool center_point_box = false;
  template <class F>
  static void fields(NonMaxSuppressionAttrs& a, F f) {
    f("center_point_box", a.center_point_box);
  }
};

}  // namespace hone
