// SPDX-License-Identifier: Apache-2.0
// The attribute structs of operators that choose and rearrange elements, and of those whose
// settings are inputs.
#pragma once

#include "hone/op_attrs.hpp"

namespace hone {

/// is_inf: which infinities count.
struct IsInfAttrs {
  bool detect_negative = true, detect_positive = true;
  template <class F>
  static void fields(IsInfAttrs& a, F f) {
    f("detect_negative", a.detect_negative), f("detect_positive", a.detect_positive);
  }
};

/// top_k: the k largest (or smallest) along an axis and their indices, in order when `sorted` and
/// in any order otherwise; of equal ones those with the lower index. top_k_dyn takes k as an input.
struct TopKAttrs {
  int64_t k = 1;
  int64_t axis = -1;
  bool largest = true, sorted = true;
  template <class F>
  static void fields(TopKAttrs& a, F f) {
    f("k", a.k), f("axis", a.axis), f("largest", a.largest), f("sorted", a.sorted);
  }
};

/// gather_nd: the first batch_dims axes of data and indices go together.
struct GatherNdAttrs {
  int64_t batch_dims = 0;
  template <class F>
  static void fields(GatherNdAttrs& a, F f) {
    f("batch_dims", a.batch_dims);
  }
};

/// reverse_sequence: of each sequence along `batch_axis` the first steps along `time_axis` turn
/// round, as many as its length says.
struct ReverseSequenceAttrs {
  int64_t batch_axis = 1, time_axis = 0;
  template <class F>
  static void fields(ReverseSequenceAttrs& a, F f) {
    f("batch_axis", a.batch_axis), f("time_axis", a.time_axis);
  }
};

/// eye_like: ones on diagonal k.
struct EyeLikeAttrs {
  DType dtype = DType::f32;
  int64_t k = 0;
  template <class F>
  static void fields(EyeLikeAttrs& a, F f) {
    f("dtype", a.dtype), f("k", a.k);
  }
};

/// sum_dyn and its like, where the axes are an input: no axes means all of them, or none when
/// noop_with_empty_axes.
struct ReduceDynAttrs {
  bool keepdims = true;
  bool noop_with_empty_axes = false;
  template <class F>
  static void fields(ReduceDynAttrs& a, F f) {
    f("keepdims", a.keepdims), f("noop_with_empty_axes", a.noop_with_empty_axes);
  }
};

/// cumsum_dyn, where the axis is an input.
struct CumsumDynAttrs {
  bool exclusive = false, reverse = false;
  template <class F>
  static void fields(CumsumDynAttrs& a, F f) {
    f("exclusive", a.exclusive), f("reverse", a.reverse);
  }
};

/// trilu_dyn, where the diagonal is an input.
struct TriluDynAttrs {
  bool upper = true;
  template <class F>
  static void fields(TriluDynAttrs& a, F f) {
    f("upper", a.upper);
  }
};

/// scatter_nd: combines as ScatterMode says; the first batch_dims axes of data, indices and updates
/// go together.
struct ScatterNdAttrs {
  ScatterMode reduction = ScatterMode::assign;
  int64_t batch_dims = 0;
  template <class F>
  static void fields(ScatterNdAttrs& a, F f) {
    f("reduction", a.reduction), f("batch_dims", a.batch_dims);
  }
};

}  // namespace hone
