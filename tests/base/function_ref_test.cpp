// SPDX-License-Identifier: Apache-2.0
#include "hone/function_ref.hpp"

#include <doctest/doctest.h>

#include <memory>
#include <string>

namespace hone {
namespace {

int twice(int v) { return 2 * v; }
int apply(FunctionRef<int(int)> f, int v) { return f(v); }

TEST_CASE("a reference calls lambdas, functions and function objects") {
  int calls = 0;
  CHECK_EQ(apply([&](int v) { return ++calls, v + 1; }, 4), 5);
  CHECK_EQ(calls, 1);
  CHECK_EQ(apply(twice, 4), 8);
  CHECK_EQ(apply(&twice, 4), 8);
  const auto add = [](int v) { return v + 10; };
  CHECK_EQ(apply(add, 4), 14);
}

TEST_CASE("a reference does not copy its callable") {
  int state = 0;
  auto count = [&state, own = 0](int v) mutable { return state = ++own, v; };
  const FunctionRef<int(int)> ref = count;
  ref(0);
  ref(0);
  CHECK_EQ(state, 2);
  count(0);
  CHECK_EQ(state, 3);
}

TEST_CASE("arguments are forwarded, moves included") {
  const auto take = [](std::unique_ptr<int> p) { return *p; };
  const FunctionRef<int(std::unique_ptr<int>)> ref = take;
  CHECK_EQ(ref(std::make_unique<int>(3)), 3);
}

TEST_CASE("a copy refers to the same callable, not to the first reference") {
  const auto one = [] { return 1; };
  FunctionRef<int()> copy = one;
  {
    const FunctionRef<int()> first = one;
    copy = first;
  }
  CHECK_EQ(copy(), 1);
}

}  // namespace
}  // namespace hone
