// SPDX-License-Identifier: Apache-2.0
#include "hone/glob.hpp"

#include <doctest/doctest.h>

#include <string>

namespace hone {
namespace {

TEST_CASE("a star stands for any run of characters, a question mark for one") {
  CHECK(matches("*", ""));
  CHECK(matches("*", "layer.0.weight"));
  CHECK(matches("layer.?.weight", "layer.0.weight"));
  CHECK_FALSE(matches("layer.?.weight", "layer.10.weight"));
  CHECK(matches("layer.*.weight", "layer.10.weight"));
  CHECK(matches("*.weight", "a.weight.weight"));
  CHECK(matches("a*b*c", "axxbyybzzc"));
  CHECK_FALSE(matches("a*b*c", "axxbyybzz"));
  CHECK_FALSE(matches("weight", "weights"));
}

TEST_CASE("one of several globs is enough, spaces around them do not count") {
  CHECK(matches("bias, head.*", "head.weight"));
  CHECK(matches(" bias ", "bias"));
  CHECK_FALSE(matches("", "bias"));
  CHECK_FALSE(matches(",,", ""));
}

TEST_CASE("many stars against a long name take no exponential time") {
  CHECK_FALSE(matches("*a*a*a*a*a*a*a*a*a*a*a*a*b", std::string(2000, 'a')));
}

}  // namespace
}  // namespace hone
