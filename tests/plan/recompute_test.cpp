// SPDX-License-Identifier: Apache-2.0
// The choice of what to compute again, against an exact search on small cases.
#include "core/plan/recompute.hpp"

#include <random>

#include "tests/plan/chain.hpp"
#include "tests/support/check.hpp"

namespace hone::test {

TEST_CASE("a sequence without repeats has the peak of its lives") {
  const WorkList w = chain({100, 200, 300}, {1, 1, 1});
  const Timeline t = follow(w, once_each(w));
  CHECK_EQ(t.peak, 900);  // a1, a2, a3 and the first gradient; the second step frees a3
  CHECK_EQ(t.cost, 9);
}

TEST_CASE("a write may take the bytes of a read that dies") {
  WorkList w = chain({64, 64, 64}, {1, 1, 1});
  for (Work& s : w.steps)
    if (!s.reads.empty()) s.may_share = {{0, 0}};
  const Timeline t = follow(w, once_each(w));
  CHECK_EQ(t.peak, 192);
}

TEST_CASE("on chains what is computed again costs as little as the best way") {
  std::mt19937 random(7);
  int solved = 0;
  for (int k = 0; k < 60; ++k) {
    const size_t n = 3 + static_cast<size_t>(k) % 4;
    std::vector<int64_t> bytes;
    std::vector<double> costs;
    for (size_t i = 0; i < n; ++i) {
      bytes.push_back(k % 2 ? 64 : 64 * (1 + static_cast<int64_t>(random() % 4)));
      costs.push_back(k % 3 ? 1 : 1 + static_cast<double>(random() % 5));
    }
    const WorkList w = chain(bytes, costs);
    const int64_t peak = follow(w, once_each(w)).peak;
    for (int64_t limit = peak - 64; limit > 0; limit -= 64) {
      const double best = cheapest(w, limit);
      const Result<Recomputation> found = recompute(w, limit);
      CAPTURE(k);
      CAPTURE(limit);
      if (best < 0) {
        CHECK_FALSE(found.ok());
        break;
      }
      REQUIRE_OK(found);
      CHECK(is_valid(w, found->sequence));
      CHECK_LE(found->peak, limit);
      CHECK_EQ(found->cost, doctest::Approx(best));
      ++solved;
    }
  }
  CHECK_GT(solved, 100);
}

TEST_CASE("a long chain needs far less than all of it, at a small price") {
  const size_t n = 64;
  const WorkList w = chain(std::vector<int64_t>(n, 1024), std::vector<double>(n, 1));
  const int64_t peak = follow(w, once_each(w)).peak;
  const Result<Recomputation> found = recompute(w, peak / 3);
  REQUIRE_OK(found);
  double once = 0;
  for (const Work& s : w.steps) once += s.cost;
  CHECK_LE(found->cost, once * 4 / 3);  // no more than every forward step twice
}

// Each rehearsal of this many steps would take seconds if it looked at all of them at each.
TEST_CASE("very long chains are planned, and refused, in little time") {
  const size_t n = 10000;
  const WorkList w = chain(std::vector<int64_t>(n, 1024), std::vector<double>(n, 1));
  const int64_t peak = follow(w, once_each(w)).peak;
  const RecomputeOptions few{.tries = 3, .improved = 1, .trials = 1, .effort = 0};
  const std::optional<Recomputation> found = recompute_within(w, peak / 20, few);
  REQUIRE(found.has_value());
  CHECK(is_valid(w, found->sequence));
  CHECK_LE(found->peak, peak / 20);
  CHECK_LE(found->cost, 4.0 / 3 * static_cast<double>(3 * n));  // every forward step twice
  CHECK_FALSE(recompute_within(w, 2 * 1024, few).has_value());
}

TEST_CASE("nothing is computed from a state that has been overwritten") {
  WorkList w = chain({64, 64, 64, 64}, {1, 1, 1, 1});
  for (Work& s : w.steps) s.repeatable = true;
  w.steps[1].state_reads = {0};  // the second forward step reads a weight ...
  w.steps[5].state_writes = {0};
  w.steps[5].repeatable = false;  // ... that the second backward step already replaces
  const int64_t peak = follow(w, once_each(w)).peak;
  for (int64_t limit = peak; limit > 0; limit -= 64) {
    const Result<Recomputation> found = recompute(w, limit);
    if (found.ok()) CHECK(is_valid(w, found->sequence));
  }
  Sequence wrong = once_each(w);
  wrong.insert(wrong.begin() + 6, 1);
  CHECK_FALSE(is_valid(w, wrong));
}

TEST_CASE("a limit that cannot be met is refused with the smallest peak") {
  const WorkList w = chain({64, 64, 64}, {1, 1, 1});
  CHECK_ERROR(recompute(w, 64), Code::out_of_memory, "the smallest that was found is");
  const Recomputation least = smallest(w);
  CHECK(recompute(w, least.peak).ok());
}

TEST_CASE("a small result of something large is made at once and the large freed") {
  // x (large) -> y (large); then other large steps; last, a mask of x and y, and its use.
  WorkList w;
  w.bytes = {1024, 1024, 64, 1024, 1024, 64};
  const auto step = [&](std::vector<int32_t> reads, std::vector<int32_t> writes) {
    Work s;
    s.reads = std::move(reads);
    s.writes = std::move(writes);
    s.cost = 1;
    w.steps.push_back(s);
  };
  step({}, {0});
  step({0}, {1});
  step({1}, {3});
  step({3}, {4});
  step({0, 1}, {2});  // the mask
  step({4, 2}, {5});
  const Sequence order = better_order(w);
  CHECK(is_valid(w, order));
  CHECK_EQ(order[2], 4);
  CHECK_LT(follow(w, order).peak, follow(w, once_each(w)).peak);
}

TEST_CASE("steps that change a state or leave the arena keep their order") {
  std::mt19937 random(5);
  for (int k = 0; k < 200; ++k) {
    WorkList w;
    const int32_t n = 12;
    for (int32_t i = 0; i < n; ++i) {
      w.bytes.push_back(64 * (1 + static_cast<int64_t>(random() % 9)));
      Work s;
      for (int32_t r = 0; r < i; ++r)
        if (random() % 4 == 0) s.reads.push_back(r);
      s.writes = {i};
      s.cost = 1;
      s.repeatable = random() % 4 != 0;
      if (random() % 3 == 0) s.state_reads = {0};
      w.steps.push_back(s);
    }
    w.steps.back().state_writes = {0};
    w.steps.back().state_reads = {};
    const Sequence order = better_order(w);
    REQUIRE(is_valid(w, order));
    CHECK_LE(follow(w, order).peak, follow(w, once_each(w)).peak);
    int32_t before = -1;
    for (int32_t s : order) {
      if (w.steps[static_cast<size_t>(s)].repeatable) continue;
      CHECK_LT(before, s);
      before = s;
    }
  }
}

}  // namespace hone::test
