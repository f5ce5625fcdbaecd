// SPDX-License-Identifier: Apache-2.0
#include "hone/dtype.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>

namespace hone {
namespace {

template <class H>
H from_bits(uint32_t bits) {
  H h;
  h.bits = static_cast<uint16_t>(bits);
  return h;
}

// The definition of binary16, in double arithmetic and apart from the code under test.
double value_of_f16(uint32_t bits) {
  const int exponent = static_cast<int>((bits >> 10) & 31);
  const double fraction = bits & 1023;
  const double magnitude = exponent == 0    ? std::ldexp(fraction, -24)
                           : exponent == 31 ? (fraction == 0 ? INFINITY : NAN)
                                            : std::ldexp(1024 + fraction, exponent - 25);
  return bits & 0x8000 ? -magnitude : magnitude;
}

// Widening every pattern and narrowing it again gives the pattern back (a NaN becomes a quiet NaN
// of the same sign).
template <class H>
int64_t round_trip_failures() {
  int64_t failures = 0;
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    const float wide = from_bits<H>(bits);
    const H back(wide);
    const float again = back;
    const bool same = std::isnan(wide)
                          ? std::isnan(again) && std::signbit(again) == std::signbit(wide)
                          : back.bits == bits;
    failures += !same;
  }
  return failures;
}

// Between neighbours, the exact middle goes to the even pattern and one float to either side goes
// to the nearer one.
template <class H>
int64_t rounding_failures(uint32_t infinity_bits) {
  int64_t failures = 0;
  for (uint32_t bits = 0; bits + 1 < infinity_bits; ++bits) {
    const float low = from_bits<H>(bits), high = from_bits<H>(bits + 1);
    const float middle = low + (high - low) / 2;
    for (float sign : {1.0f, -1.0f}) {
      const uint32_t sign_bit = sign < 0 ? 0x8000u : 0u;
      const uint32_t even = (bits & 1) ? bits + 1 : bits;
      failures += H(sign * middle).bits != (even | sign_bit);
      failures += H(sign * std::nextafter(middle, low)).bits != (bits | sign_bit);
      failures += H(sign * std::nextafter(middle, high)).bits != ((bits + 1) | sign_bit);
    }
  }
  return failures;
}

TEST_CASE("f16 widens to the value its bits define") {
  int64_t failures = 0;
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    const double want = value_of_f16(bits);
    const float got = from_bits<f16>(bits);
    failures += std::isnan(want) ? !std::isnan(got) : static_cast<double>(got) != want;
  }
  CHECK_EQ(failures, 0);
  CHECK(std::signbit(static_cast<float>(from_bits<f16>(0x8000))));
}

TEST_CASE("f16 round-trips through float for all 65536 patterns") {
  CHECK_EQ(round_trip_failures<f16>(), 0);
}
TEST_CASE("bf16 round-trips through float for all 65536 patterns") {
  CHECK_EQ(round_trip_failures<bf16>(), 0);
}

TEST_CASE("f16 rounds to nearest, ties to even, subnormals included") {
  CHECK_EQ(rounding_failures<f16>(0x7c00), 0);
}
// The middle between the first two bf16 subnormals is a float subnormal, so floats can tell all of
// these apart.
TEST_CASE("bf16 rounds to nearest, ties to even, subnormals included") {
  CHECK_EQ(rounding_failures<bf16>(0x7f80), 0);
}

TEST_CASE("f16 overflows to infinity from 65520 on") {
  CHECK_EQ(f16(65504.0f).bits, 0x7bff);
  CHECK_EQ(f16(std::nextafter(65520.0f, 0.0f)).bits, 0x7bff);
  CHECK_EQ(f16(65520.0f).bits, 0x7c00);
  CHECK_EQ(f16(-1e30f).bits, 0xfc00);
}

TEST_CASE("f16 underflows to a signed zero below half of its smallest subnormal") {
  CHECK_EQ(f16(0x1p-24f).bits, 0x0001);
  CHECK_EQ(f16(0x1p-25f).bits, 0x0000);
  CHECK_EQ(f16(std::nextafter(0x1p-25f, 1.0f)).bits, 0x0001);
  CHECK_EQ(f16(-0x1p-30f).bits, 0x8000);
}

TEST_CASE("a NaN stays a NaN even when its payload lies in the dropped bits") {
  const float nan = std::bit_cast<float>(0x7f800001u);
  CHECK(std::isnan(static_cast<float>(f16(nan))));
  CHECK(std::isnan(static_cast<float>(bf16(nan))));
}

TEST_CASE("bf16 overflows to infinity past its largest value") {
  CHECK_EQ(bf16(std::numeric_limits<float>::max()).bits, 0x7f80);
  CHECK_EQ(bf16(std::bit_cast<float>(0x7f7f7fffu)).bits, 0x7f7f);
}

TEST_CASE("half types construct from any arithmetic type") {
  CHECK_EQ(static_cast<float>(f16(3)), 3.0f);
  CHECK_EQ(static_cast<float>(f16(0.5)), 0.5f);
  CHECK_EQ(static_cast<float>(bf16(int64_t{-2})), -2.0f);
  CHECK_EQ(f16().bits, 0);
}

TEST_CASE("dtype names read back, and nothing else is a name") {
  for (int i = 0; i < kDTypeCount; ++i) {
    const DType t = static_cast<DType>(i);
    CHECK(dtype_from_string(to_string(t)) == t);
    CHECK(dispatch(t, [&]<class T>() { return dtype_of<T> == t && sizeof(T) == size_of(t); }));
  }
  CHECK_FALSE(dtype_from_string("float").has_value());
  CHECK_FALSE(dtype_from_string("").has_value());
  CHECK_FALSE(is_valid_dtype(kDTypeCount));
  CHECK_FALSE(is_valid_dtype(-1));
}

TEST_CASE("the numbers of element types are those in files") {
  CHECK_EQ(static_cast<int>(DType::f64), 0);
  CHECK_EQ(static_cast<int>(DType::f32), 1);
  CHECK_EQ(static_cast<int>(DType::f16), 2);
  CHECK_EQ(static_cast<int>(DType::bf16), 3);
  CHECK_EQ(static_cast<int>(DType::i8), 4);
  CHECK_EQ(static_cast<int>(DType::u8), 5);
  CHECK_EQ(static_cast<int>(DType::i32), 6);
  CHECK_EQ(static_cast<int>(DType::i64), 7);
  CHECK_EQ(static_cast<int>(DType::bool_), 8);
  CHECK(is_float(DType::bf16));
  CHECK_FALSE(is_float(DType::i8));
}

}  // namespace
}  // namespace hone
