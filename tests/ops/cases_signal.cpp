// SPDX-License-Identifier: Apache-2.0
// Cases for Fourier transforms, windows and the mel filter bank.
#include <cmath>

#include "hone/signal_attrs.hpp"
#include "tests/ops/op_case.hpp"

using namespace hone;
using hone::test::Grad;
using hone::test::In;

namespace {
In number(int64_t v) { return In::typed(DType::i64, {}, {static_cast<double>(v)}).as_constant(); }
In hertz(double v) { return In::typed(DType::f32, {}, {v}).as_constant(); }
}  // namespace

// Powers of two, and lengths that go through Bluestein's convolution; any axis.
OP_CASE(fft, {.in = {{2, 8, 2}}})
OP_CASE(fft, {.attrs = FftAttrs{.inverse = true}, .in = {{3, 7, 2}}})
OP_CASE(fft, {.attrs = FftAttrs{.axis = 0}, .in = {{6, 3, 2}}})
OP_CASE(fft, {.in = {{1, 2}}})
OP_CASE(fft, {.in = {In::of({4, 2}, {1, 0, 2, 0, 3, 0, 4, 0})},
              .expect = {{10, 0, -2, 2, -2, 0, -2, -2}}})
OP_CASE(fft, {.in = {In::of({3, 2}, {1, 0, 1, 0, 1, 0})}, .expect = {{3, 0, 0, 0, 0, 0}}})
OP_REJECTS(fft, {.in = {{4, 3}}}, "has no real and imaginary part")
OP_REJECTS(fft, {.attrs = FftAttrs{.axis = 1}, .in = {{4, 2}}}, "holds the parts of a number")

OP_CASE(dft, {.in = {{2, 6, 1}}, .expect_shape = Shape{2, 6, 2}})
OP_CASE(dft,
        {.attrs = DftAttrs{.onesided = true}, .in = {{2, 5, 1}}, .expect_shape = Shape{2, 3, 2}})
OP_CASE(dft, {.attrs = DftAttrs{.inverse = true}, .in = {{2, 5, 2}}})
OP_CASE(dft, {.in = {{2, 3, 2}, number(5)}, .expect_shape = Shape{2, 5, 2}})
OP_CASE(dft, {.in = {{4, 3, 2}, number(2), number(0)}, .expect_shape = Shape{2, 3, 2}})
// A one-sided inverse turns half a spectrum into real numbers.
OP_CASE(dft, {.attrs = DftAttrs{.inverse = true, .onesided = true},
              .in = {In::of({1, 3, 2}, {10, 0, -2, 2, -2, 0})},
              .expect = {{1, 2, 3, 4}}})
OP_CASE(dft, {.attrs = DftAttrs{.inverse = true, .onesided = true},
              .in = {{2, 3, 2}, number(5)},
              .expect_shape = Shape{2, 5, 1}})
OP_REJECTS(dft, {.in = {{2, 6, 3}}}, "neither 1 (real) nor 2 (complex)")
OP_REJECTS(dft, {.attrs = DftAttrs{.axis = 2}, .in = {{2, 6, 1}}}, "does not exist")
OP_REJECTS(dft, {.attrs = DftAttrs{.onesided = true}, .in = {{2, 6, 2}}}, "takes real numbers")

OP_CASE(stft, {.in = {{2, 9, 1}, number(2), {4}}, .expect_shape = Shape{2, 3, 3, 2}})
OP_CASE(stft, {.attrs = StftAttrs{.onesided = false},
               .in = {{1, 7, 2}, number(3), In::none(), number(4)},
               .expect_shape = Shape{1, 2, 4, 2}})
OP_REJECTS(signal_window, {.in = {number(int64_t{1} << 40)}}, "the size is")
OP_REJECTS(mel_weight_matrix,
           {.in = {number(1 << 20), number(1 << 20), number(8192), hertz(0), hertz(4000)}},
           "are too many")
OP_REJECTS(stft, {.in = {{1, 3, 1}, number(1), {4}}}, "do not fit a signal of 3")

OP_CASE(signal_window, {.in = {number(4)}, .expect = {{0, 0.5, 1, 0.5}}})
OP_CASE(signal_window, {.attrs = SignalWindowAttrs{WindowKind::hamming, false, DType::f64},
                        .in = {number(3)},
                        .expect = {{4.0 / 46, 1, 4.0 / 46}}})
OP_CASE(signal_window, {.attrs = SignalWindowAttrs{WindowKind::blackman, true, DType::f64},
                        .in = {number(2)},
                        .expect = {{0, 1}}})
OP_REJECTS(signal_window, {.in = {In::typed(DType::i64, {}, {-1}).as_constant()}}, "the size is -1")

OP_CASE(mel_weight_matrix, {.in = {number(8), number(16), number(8192), hertz(0), hertz(4000)},
                            .expect_shape = Shape{9, 8}})
OP_REJECTS(mel_weight_matrix, {.in = {number(8), number(16), number(8192), hertz(0), hertz(5000)}},
           "do not lie below half")
