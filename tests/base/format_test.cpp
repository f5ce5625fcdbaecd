// SPDX-License-Identifier: Apache-2.0
#include "hone/format.hpp"

#include <doctest/doctest.h>

#include <limits>

#include "hone/dtype.hpp"

namespace hone {
namespace {

TEST_CASE("format replaces braces in order") {
  CHECK_EQ(format("{} of {}", 1, "two"), "1 of two");
  CHECK_EQ(format("plain"), "plain");
  CHECK_EQ(format("{}{}", 'a', true), "atrue");
}

TEST_CASE("format prints integers of every width exactly") {
  CHECK_EQ(format("{}", std::numeric_limits<int64_t>::min()), "-9223372036854775808");
  CHECK_EQ(format("{}", std::numeric_limits<uint64_t>::max()), "18446744073709551615");
  CHECK_EQ(format("{} {}", int8_t{-5}, uint8_t{200}), "-5 200");
}

TEST_CASE("format prints floats with seven digits") {
  CHECK_EQ(format("{}", 0.1), "0.1");
  CHECK_EQ(format("{}", 1e-9), "1e-09");
  CHECK_EQ(format("{}", 1234567.0), "1234567");
  CHECK_EQ(format("{} {}", std::numeric_limits<double>::infinity(), -0.0), "inf -0");
}

TEST_CASE("format finds to_string of a type by its namespace") {
  CHECK_EQ(format("{}", DType::bf16), "bf16");
}

TEST_CASE("an argument that contains braces is not a format") {
  CHECK_EQ(format("{}|{}", "{}", 1), "{}|1");
}

TEST_CASE("too few or too many arguments lose no text") {
  CHECK_EQ(format("{} {}", 1), "1 {}");
  CHECK_EQ(format("a", 1), "a1");
}

}  // namespace
}  // namespace hone
