// SPDX-License-Identifier: Apache-2.0
// Padding and output extents of convolution and pooling.
#include "hone/window.hpp"

#include <algorithm>

namespace hone {

namespace {

// No sensible attribute is larger, and no product of two of them with an extent overflows.
constexpr int64_t kLargest = int64_t{1} << 24;

int64_t floor_div(int64_t a, int64_t b) { return a / b - (a % b < 0 ? 1 : 0); }
int64_t ceil_div(int64_t a, int64_t b) { return -floor_div(-a, b); }

// One entry for each spatial axis, each at least `least`; an empty list leaves the default.
Status check_list(std::string_view name, std::span<const int64_t> list, size_t rank,
                  int64_t least) {
  if (!list.empty() && list.size() != rank)
    return invalid("{} has {} entries for {} spatial axes", name, list.size(), rank);
  for (int64_t v : list)
    if (v < least || v > kLargest)
      return invalid("{} has an entry {}, outside [{}, {}]", name, v, least, kLargest);
  return {};
}

template <class A>
Result<Window> window_of(const A& attrs, std::span<const int64_t> spatial,
                         std::span<const int64_t> kernel) {
  const size_t rank = spatial.size();
  if (rank < 1 || rank > kMaxSpatial)
    return invalid("{} spatial axes; 1 to {} are offered", rank, kMaxSpatial);
  if (kernel.size() != rank)
    return invalid("the kernel has {} axes, the input {} spatial ones", kernel.size(), rank);
  HONE_TRY(check_list("kernel", kernel, rank, 1));
  HONE_TRY(check_list("strides", attrs.strides, rank, 1));
  HONE_TRY(check_list("dilations", attrs.dilations, rank, 1));
  HONE_TRY(check_list("pads_begin", attrs.pads_begin, rank, 0));
  HONE_TRY(check_list("pads_end", attrs.pads_end, rank, 0));
  const auto entry = [](std::span<const int64_t> list, size_t k, int64_t otherwise) {
    return list.empty() ? otherwise : list[k];
  };
  for (int64_t extent : spatial)
    if (extent < 0 || extent > kLargestExtent) return invalid("a spatial extent is {}", extent);
  Window w;
  w.rank = static_cast<int>(rank);
  for (size_t k = 0; k < rank; ++k) {
    WindowAxis& a = w.spatial(static_cast<int>(k));
    a.in = spatial[k];
    a.kernel = kernel[k];
    a.stride = entry(attrs.strides, k, 1);
    a.dilation = entry(attrs.dilations, k, 1);
    switch (attrs.auto_pad) {
      case AutoPad::valid:
        break;
      case AutoPad::none:
        a.pad_begin = entry(attrs.pads_begin, k, 0);
        a.pad_end = entry(attrs.pads_end, k, 0);
        break;
      case AutoPad::same_upper:
      case AutoPad::same_lower: {
        const int64_t total =
            std::max<int64_t>((ceil_div(a.in, a.stride) - 1) * a.stride + a.span() - a.in, 0);
        const int64_t smaller = total / 2;
        a.pad_begin = attrs.auto_pad == AutoPad::same_upper ? smaller : total - smaller;
        a.pad_end = total - a.pad_begin;
        break;
      }
    }
    a.out = floor_div(a.in + a.pad_begin + a.pad_end - a.span(), a.stride) + 1;
  }
  return w;
}

Status check_fits(const Window& w) {
  for (int k = 0; k < w.rank; ++k) {
    const WindowAxis& a = w.spatial(k);
    if (a.out < 1)
      return invalid("on spatial axis {} the kernel spans {}, the padded input only {}", k,
                     a.span(), a.in + a.pad_begin + a.pad_end);
  }
  return {};
}

// With a window of padding alone there is nothing to take the maximum or the mean of.
Status check_covered(const Window& w) {
  for (int k = 0; k < w.rank; ++k) {
    const WindowAxis& a = w.spatial(k);
    bool covered = a.start(a.out - 1) < a.in;
    for (int64_t o = 0; o < a.out && a.start(o) < 0; ++o) {
      const int64_t tap = ceil_div(-a.start(o), a.dilation);  // the first one past the padding
      covered &= tap < a.kernel && a.start(o) + tap * a.dilation < a.in;
    }
    if (!covered)
      return invalid(
          "on spatial axis {} a window lies wholly in the padding (input {}, kernel {}, dilation "
          "{}, pads {} and {})",
          k, a.in, a.kernel, a.dilation, a.pad_begin, a.pad_end);
  }
  return {};
}

}  // namespace

Result<Window> conv_window(const ConvAttrs& attrs, std::span<const int64_t> spatial,
                           std::span<const int64_t> kernel) {
  HONE_ASSIGN(Window w, window_of(attrs, spatial, kernel));
  HONE_TRY(check_fits(w));
  return w;
}

Result<Window> pool_window(const PoolAttrs& attrs, const Shape& x) {
  if (x.rank() < 3) return invalid("the input is {}, expected (N, C, spatial..)", x);
  HONE_ASSIGN(Window w, window_of(attrs, spatial_of(x), attrs.kernel));
  const bool same = attrs.auto_pad == AutoPad::same_upper || attrs.auto_pad == AutoPad::same_lower;
  for (int k = 0; k < w.rank && attrs.ceil_mode && !same; ++k) {
    WindowAxis& a = w.spatial(k);
    a.out = ceil_div(a.in + a.pad_begin + a.pad_end - a.span(), a.stride) + 1;
    if (a.start(a.out - 1) >= a.in) --a.out;
  }
  HONE_TRY(check_fits(w));
  HONE_TRY(check_covered(w));
  return w;
}

}  // namespace hone
