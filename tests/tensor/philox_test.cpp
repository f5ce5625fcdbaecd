// SPDX-License-Identifier: Apache-2.0
#include "core/tensor/philox.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <vector>

namespace hone {
namespace {

// The known answers that Random123 ships for philox4x32 with 10 rounds (kat_vectors).
TEST_CASE("philox gives the published answers") {
  CHECK(Philox::block(0, 0, 0) == Philox::Block{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
  CHECK(Philox::block(~uint64_t{0}, ~uint64_t{0}, ~uint64_t{0}) ==
        Philox::Block{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
  CHECK(Philox::block(0x299f31d0a4093822u, 0x0370734413198a2eu, 0x85a308d3243f6a88u) ==
        Philox::Block{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});
}

TEST_CASE("philox is known at compile time") {
  static_assert(Philox::block(0, 0, 0)[0] == 0x6627e8d5);
  static_assert(Philox::uniform(1, 2, 3) < 1.0f);
}

TEST_CASE("uniforms lie in [0, 1), with every multiple of 2^-24 within reach") {
  CHECK_EQ(Philox::unit(0), 0.0f);
  CHECK_EQ(Philox::unit(0xff), 0.0f);
  CHECK_EQ(Philox::unit(0x100), 0x1p-24f);
  CHECK_EQ(Philox::unit(0xffffffff), 1.0f - 0x1p-24f);
}

TEST_CASE("a stream filled in pieces is the stream filled at once") {
  std::vector<float> whole(203), pieces(203);
  Philox::fill_uniform(whole, 42, 7);
  size_t at = 0;
  for (size_t n : {1, 2, 3, 4, 5, 6, 7, 40, 32, 31, 33, 39}) {
    Philox::fill_uniform(std::span(pieces).subspan(at, n), 42, 7, at);
    at += n;
  }
  CHECK_EQ(at, whole.size());
  CHECK(whole == pieces);
  for (size_t i = 0; i < whole.size(); ++i) CHECK_EQ(whole[i], Philox::uniform(42, 7, i));
}

TEST_CASE("seed, counter and index each change the stream") {
  const float base = Philox::uniform(1, 1, 1);
  CHECK_NE(base, Philox::uniform(2, 1, 1));
  CHECK_NE(base, Philox::uniform(1, 2, 1));
  CHECK_NE(base, Philox::uniform(1, 1, 2));
  CHECK_NE(base, Philox::uniform(uint64_t{1} << 32 | 1, 1, 1));
}

TEST_CASE("uniforms have the mean and variance of a uniform distribution") {
  std::vector<float> u(1 << 16);
  Philox::fill_uniform(u, 3, 0);
  double sum = 0, squares = 0;
  for (float v : u) {
    sum += v;
    squares += static_cast<double>(v) * v;
  }
  const double n = static_cast<double>(u.size()), mean = sum / n;
  CHECK(std::fabs(mean - 0.5) < 4 * std::sqrt(1.0 / 12 / n));
  CHECK(std::fabs(squares / n - mean * mean - 1.0 / 12) < 4 * std::sqrt(1.0 / 180 / n));
}

}  // namespace
}  // namespace hone
