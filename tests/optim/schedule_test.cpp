// SPDX-License-Identifier: Apache-2.0
// Learning rates by step.
#include "hone/schedule.hpp"

#include <doctest/doctest.h>

#include <cmath>

namespace hone {
namespace {

bool near(double a, double b) { return std::fabs(a - b) < 1e-12; }

TEST_CASE("steps and milestones multiply by a factor") {
  const Schedule s = schedule::steps(1, 10, 0.5);
  CHECK(near(s(0), 1));
  CHECK(near(s(9), 1));
  CHECK(near(s(10), 0.5));
  CHECK(near(s(25), 0.25));
  const Schedule m = schedule::milestones(1, {3, 5}, 0.1);
  CHECK(near(m(2), 1));
  CHECK(near(m(3), 0.1));
  CHECK(near(m(9), 0.01));
  CHECK(near(schedule::constant(0.3)(7), 0.3));
}

TEST_CASE("cosine falls from the rate to the end and stays there") {
  const Schedule s = schedule::cosine(2, 100, 1);
  CHECK(near(s(0), 2));
  CHECK(near(s(50), 1.5));
  CHECK(near(s(100), 1));
  CHECK(near(s(500), 1));
}

TEST_CASE("warm-up rises in a straight line and then hands over") {
  const Schedule s = schedule::warm_up_cosine(1, 4, 104);
  CHECK(near(s(0), 0.25));
  CHECK(near(s(3), 1));
  CHECK(near(s(4), 1));
  CHECK(near(s(54), 0.5));
  CHECK(near(s(104), 0));
}

TEST_CASE("one cycle has PyTorch's start, top and end") {
  const Schedule s = schedule::one_cycle(1, 101);
  CHECK(near(s(0), 0.04));
  CHECK(near(s(100), 4e-6));
  double top = 0;
  for (int64_t i = 0; i < 101; ++i) top = std::max(top, s(i));
  CHECK(top > 0.999);
  CHECK(s(10) > s(5));
  CHECK(s(80) < s(60));
}

}  // namespace
}  // namespace hone
