// SPDX-License-Identifier: Apache-2.0
// The discrete Fourier transform of complex rows: Cooley & Tukey's radix two where the length is a
// power of two, Bluestein's convolution (1970) elsewhere. Everything is computed in double, so that
// single precision comes out correctly rounded but for an ulp.
#include <cmath>

#include "core/ops/checks.hpp"
#include "core/ops/loops.hpp"
#include "hone/ops.hpp"
#include "hone/signal_attrs.hpp"

namespace hone {

namespace {

struct Complex {
  double re = 0, im = 0;
};
Complex operator*(Complex a, Complex b) {
  return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
}
Complex operator+(Complex a, Complex b) { return {a.re + b.re, a.im + b.im}; }
Complex operator-(Complex a, Complex b) { return {a.re - b.re, a.im - b.im}; }
Complex conjugate(Complex a) { return {a.re, -a.im}; }

constexpr double kTwoPi = 6.283185307179586476925286766559;

// exp(-2 pi i k / n), for 0 <= k < n.
Complex root(int64_t k, int64_t n) {
  const double angle = -kTwoPi * static_cast<double>(k) / static_cast<double>(n);
  return {std::cos(angle), std::sin(angle)};
}

bool is_power_of_two(int64_t n) { return (n & (n - 1)) == 0; }

// The length of Bluestein's convolution.
int64_t padded(int64_t n) {
  int64_t m = 1;
  while (m < 2 * n) m *= 2;
  return m;
}

// In place, forward; roots[k] = root(k, n) for k < n / 2.
void radix_two(Complex* x, int64_t n, const Complex* roots) {
  for (int64_t i = 1, j = 0; i < n; ++i) {
    int64_t bit = n / 2;
    for (; j & bit; bit /= 2) j ^= bit;
    j ^= bit;
    if (i < j) std::swap(x[i], x[j]);
  }
  for (int64_t half = 1; half < n; half *= 2) {
    const int64_t step = n / (2 * half);
    for (int64_t first = 0; first < n; first += 2 * half)
      for (int64_t k = 0; k < half; ++k) {
        const Complex odd = x[first + k + half] * roots[k * step];
        x[first + k + half] = x[first + k] - odd;
        x[first + k] = x[first + k] + odd;
      }
  }
}

// Tables for one length: the roots, and for Bluestein's way the chirp exp(-pi i k^2 / n) and the
// transform of its conjugate.
struct Tables {
  int64_t n, m;  // m: length of the radix-two transforms
  Complex *roots, *chirp, *kernel;
};

int64_t table_size(int64_t n) {
  if (n == 0) return 0;
  return is_power_of_two(n) ? n / 2 + 1 : padded(n) / 2 + n + padded(n);
}
int64_t work_size(int64_t n) { return n == 0 ? 0 : is_power_of_two(n) ? n : padded(n); }

Tables make_tables(int64_t n, Complex* at) {
  Tables t{n, is_power_of_two(n) ? n : padded(n), at, nullptr, nullptr};
  for (int64_t k = 0; k < t.m / 2; ++k) t.roots[k] = root(k, t.m);
  if (t.m == n) return t;
  t.chirp = t.roots + t.m / 2;
  t.kernel = t.chirp + n;
  // k^2 modulo 2 n keeps the angle small, and exact.
  for (int64_t k = 0, square = 0; k < n; ++k) {
    t.chirp[k] = root(square, 2 * n);
    square = (square + 2 * k + 1) % (2 * n);
  }
  std::fill_n(t.kernel, t.m, Complex{});
  for (int64_t k = 0; k < n; ++k) {
    t.kernel[k] = conjugate(t.chirp[k]);
    if (k > 0) t.kernel[t.m - k] = t.kernel[k];
  }
  radix_two(t.kernel, t.m, t.roots);
  return t;
}

// The forward transform of work[0, n), in place.
void transform(const Tables& t, Complex* work) {
  if (t.m == t.n) return radix_two(work, t.n, t.roots);
  for (int64_t k = 0; k < t.n; ++k) work[k] = work[k] * t.chirp[k];
  std::fill(work + t.n, work + t.m, Complex{});
  radix_two(work, t.m, t.roots);
  // The inverse transform is the conjugate of the forward one of the conjugate.
  for (int64_t k = 0; k < t.m; ++k) work[k] = conjugate(work[k] * t.kernel[k]);
  radix_two(work, t.m, t.roots);
  const double scale = 1.0 / static_cast<double>(t.m);
  for (int64_t k = 0; k < t.n; ++k) {
    const Complex c = conjugate(work[k]);
    work[k] = Complex{c.re * scale, c.im * scale} * t.chirp[k];
  }
}

int resolved_axis(const FftAttrs& a, int rank) {
  return static_cast<int>(a.axis < 0 ? a.axis + rank : a.axis);
}

Status fft_kernel(const KernelArgs& args) {
  const FftAttrs& attrs = args.attrs.as<FftAttrs>();
  const Shape& s = args.shape(0);
  const int axis = resolved_axis(attrs, s.rank());
  const int64_t n = s[axis], inner = s.product(axis + 1, s.rank() - 1),
                rows = n > 0 ? s.numel() / (2 * n) : 0;
  if (n == 0) return {};
  Complex* at = reinterpret_cast<Complex*>(args.scratch);
  const Tables tables = make_tables(n, at);
  Complex* const work = at + table_size(n);
  // The inverse transform: real and imaginary parts change places on the way in and out.
  const int64_t re = attrs.inverse ? 1 : 0, im = 1 - re;
  dispatch_float(args.in[0].type.dtype, [&]<class T>() {
    using S = accumulator_t<T>;
    const T* x = args.input<T>(0);
    T* y = args.output<T>(0);
    for (int64_t row = 0; row < rows; ++row) {
      const int64_t first = (row / inner * n * inner + row % inner) * 2;
      for (int64_t k = 0; k < n; ++k) {
        const T* from = x + first + k * inner * 2;
        work[k] = {static_cast<double>(static_cast<S>(from[re])),
                   static_cast<double>(static_cast<S>(from[im]))};
      }
      transform(tables, work);
      for (int64_t k = 0; k < n; ++k) {
        T* to = y + first + k * inner * 2;
        to[re] = static_cast<T>(work[k].re);
        to[im] = static_cast<T>(work[k].im);
      }
    }
  });
  return {};
}

}  // namespace

// fft(x): the Fourier transform along an axis of complex numbers, whose parts are the last axis.
// (.., N, .., 2) -> same. It is linear: its adjoint is the transform with the other sign.
const OpDef op::fft = {
    .name = "fft",
    .attrs = &kAttrSchema<FftAttrs>,
    .infer = [](InferCtx& c) -> Status {
      HONE_TRY(need(c, 0, Accepts::floats));
      HONE_TRY(need_rank_at_least(c, 0, 2));
      const Shape& s = c.shape(0);
      HONE_ASSIGN(const int axis, need_axis(c, 0, c.attrs<FftAttrs>().axis));
      if (axis == s.rank() - 1) return c.error("axis {} holds the parts of a number", axis);
      if (s[s.rank() - 1] != 2)
        return c.error("the last axis of {} has no real and imaginary part", c.in(0));
      c.out(c.in(0));
      return {};
    },
    .diff = Diff::rule,
    .grad =
        [](GradCtx& c) {
          FftAttrs a = c.attrs<FftAttrs>();
          a.inverse = !a.inverse;
          c.set(0, c.b.emit(op::fft, {c.out_grad(0)}, a));
        },
    .kernel = fft_kernel,
    .scratch = [](const NodeTypes& t) -> int64_t {
      const Shape& s = t.in[0]->shape;
      const int64_t n = s[resolved_axis(t.attrs.as<FftAttrs>(), s.rank())];
      return (table_size(n) + work_size(n)) * static_cast<int64_t>(sizeof(Complex));
    },
    .flops = [](const NodeTypes& t) -> double {
      const Shape& s = t.in[0]->shape;
      const int64_t n = s[resolved_axis(t.attrs.as<FftAttrs>(), s.rank())];
      return 2.5 * static_cast<double>(s.numel()) * std::log2(static_cast<double>(n) + 1);
    },
};

}  // namespace hone
