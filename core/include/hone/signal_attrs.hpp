// SPDX-License-Identifier: Apache-2.0
// Attributes of Fourier transforms and of the tables that signal processing starts from.
#pragma once

#include "hone/special_ops.hpp"

namespace hone {

/// dft: `axis` counts without the last axis of real and imaginary parts when it is not negative.
struct DftAttrs {
  int64_t axis = 1;
  bool inverse = false, onesided = false;
  template <class F>
  static void fields(DftAttrs& a, F f) {
    f("axis", a.axis), f("inverse", a.inverse), f("onesided", a.onesided);
  }
};

/// fft: the sum over n of x[n] exp(-2 pi i k n / N), with + for `inverse`; nothing is scaled.
struct FftAttrs {
  int64_t axis = -2;
  bool inverse = false;
  template <class F>
  static void fields(FftAttrs& a, F f) {
    f("axis", a.axis), f("inverse", a.inverse);
  }
};

struct StftAttrs {
  bool onesided = true;
  template <class F>
  static void fields(StftAttrs& a, F f) {
    f("onesided", a.onesided);
  }
};

enum class WindowKind : uint8_t { hann, hamming, blackman };
inline std::span<const std::string_view> enum_names(WindowKind) {
  static constexpr std::string_view kNames[] = {"hann", "hamming", "blackman"};
  return kNames;
}
struct SignalWindowAttrs {
  WindowKind kind = WindowKind::hann;
  bool periodic = true;
  DType dtype = DType::f32;
  template <class F>
  static void fields(SignalWindowAttrs& a, F f) {
    f("kind", a.kind), f("periodic", a.periodic), f("dtype", a.dtype);
  }
};

/// mel_weight_matrix.
struct OutDTypeAttrs {
  DType dtype = DType::f32;
  template <class F>
  static void fields(OutDTypeAttrs& a, F f) {
    f("dtype", a.dtype);
  }
};

}  // namespace hone
