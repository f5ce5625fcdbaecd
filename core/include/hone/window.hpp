// SPDX-License-Identifier: Apache-2.0
// The geometry of sliding windows: what convolution and pooling share, padding resolved to numbers.
#pragma once

#include <array>

#include "hone/op_attrs.hpp"

namespace hone {

/// One spatial axis. Tap t of window o reads element o * stride - pad_begin + t * dilation, or
/// padding when there is no such element.
struct WindowAxis {
  int64_t in = 1, out = 1;
  int64_t kernel = 1, stride = 1, dilation = 1;
  int64_t pad_begin = 0, pad_end = 0;

  /// Elements from the first tap to the last.
  int64_t span() const { return (kernel - 1) * dilation + 1; }
  /// Element under tap 0 of window o; negative in the padding.
  int64_t start(int64_t o) const { return o * stride - pad_begin; }
};

inline constexpr int kMaxSpatial = 3;
/// Spatial extents are at most this, so that no sum or product with an attribute overflows.
inline constexpr int64_t kLargestExtent = int64_t{1} << 38;

/// Depth, height, width; with fewer spatial axes the leading ones are trivial (all extents 1).
struct Window {
  std::array<WindowAxis, kMaxSpatial> axes;
  int rank = 0;  ///< Spatial axes that are real.

  const WindowAxis& depth() const { return axes[0]; }
  const WindowAxis& height() const { return axes[1]; }
  const WindowAxis& width() const { return axes[2]; }
  /// The k-th real axis.
  const WindowAxis& spatial(int k) const {
    return axes[static_cast<size_t>(kMaxSpatial - rank + k)];
  }
  WindowAxis& spatial(int k) { return axes[static_cast<size_t>(kMaxSpatial - rank + k)]; }
  int64_t in_size() const { return axes[0].in * axes[1].in * axes[2].in; }
  int64_t out_size() const { return axes[0].out * axes[1].out * axes[2].out; }
  int64_t kernel_size() const { return axes[0].kernel * axes[1].kernel * axes[2].kernel; }
};

/// The windows of a convolution over `spatial` with `kernel`.
/// Errors: invalid_argument (attributes of another rank or out of range, a kernel larger than the
/// padded input).
Result<Window> conv_window(const ConvAttrs& attrs, std::span<const int64_t> spatial,
                           std::span<const int64_t> kernel);

/// The windows of a pooling over x of shape (N, C, spatial..). A last window that ceil_mode adds is
/// dropped when it starts at or past the end of input and left padding. Errors: invalid_argument
/// (as conv_window, or a window that covers padding only).
Result<Window> pool_window(const PoolAttrs& attrs, const Shape& x);

/// The spatial extents of (N, C, spatial..).
inline std::span<const int64_t> spatial_of(const Shape& s) { return s.dims().subspan(2); }

}  // namespace hone
