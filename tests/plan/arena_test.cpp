// SPDX-License-Identifier: Apache-2.0
#include "core/plan/arena.hpp"

#include <algorithm>
#include <random>

#include "hone/tensor_data.hpp"
#include "tests/support/check.hpp"

namespace hone::test {

TEST_CASE("the arena planner gives buffers that never meet the same bytes") {
  const Lifetime lives[] = {{100, 0, 1}, {100, 2, 3}, {64, 4, 9}};
  const ArenaPlan plan = must(plan_arena(lives));
  CHECK_EQ(plan.bytes, 128);  // 100 rounded up to the alignment
  CHECK_EQ(plan.offsets, std::vector<int64_t>{0, 0, 0});
}

TEST_CASE("the arena planner keeps buffers apart that share a single step") {
  const Lifetime lives[] = {{64, 0, 2}, {64, 2, 3}};
  const ArenaPlan plan = must(plan_arena(lives));
  CHECK_EQ(plan.bytes, 128);
  CHECK_NE(plan.offsets[0], plan.offsets[1]);
}

TEST_CASE("the arena planner reuses a gap that opens between two live values") {
  // 0 and 2 stay; 1 between them dies; 3 fits exactly where 1 was.
  const Lifetime lives[] = {{128, 0, 9}, {256, 0, 3}, {64, 0, 9}, {256, 4, 9}};
  const ArenaPlan plan = must(plan_arena(lives));
  CHECK_EQ(plan.bytes, plan.lower_bound);
  CHECK_EQ(plan.offsets[1], plan.offsets[3]);
}

TEST_CASE("empty buffers need no bytes and break nothing") {
  const Lifetime lives[] = {{0, 0, 5}, {64, 1, 2}, {0, 1, 1}};
  const ArenaPlan plan = must(plan_arena(lives));
  CHECK_EQ(plan.bytes, 64);
  CHECK_EQ(must(plan_arena({})).bytes, 0);
}

TEST_CASE("the arena planner refuses impossible lifetimes") {
  const Lifetime negative[] = {{-1, 0, 0}};
  CHECK_ERROR(plan_arena(negative), Code::invalid_argument, "negative");
  const Lifetime backwards[] = {{8, 3, 2}};
  CHECK_ERROR(plan_arena(backwards), Code::invalid_argument, "dies at step 2 before step 3");
}

TEST_CASE("plans of random lifetimes are valid and not far above the bound") {
  uint64_t state = 88172645463325252u;  // xorshift
  const auto random = [&](int64_t n) {
    state ^= state << 13, state ^= state >> 7, state ^= state << 17;
    return static_cast<int64_t>(state % static_cast<uint64_t>(n));
  };
  for (int round = 0; round < 50; ++round) {
    std::vector<Lifetime> lives;
    for (int i = 0; i < 120; ++i) {
      const int32_t first = static_cast<int32_t>(random(80));
      lives.push_back({random(5000), first, first + static_cast<int32_t>(random(12))});
    }
    const ArenaPlan plan = must(plan_arena(lives));
    CHECK(is_valid(plan, lives));
    CHECK_GE(plan.bytes, plan.lower_bound);
    CHECK_LE(static_cast<double>(plan.bytes), 1.25 * static_cast<double>(plan.lower_bound));
  }
}

TEST_CASE("the checker sees an overlap, a stray end and a crooked offset") {
  const Lifetime lives[] = {{64, 0, 1}, {64, 1, 2}};
  ArenaPlan plan = must(plan_arena(lives));
  REQUIRE(is_valid(plan, lives));
  ArenaPlan bad = plan;
  bad.offsets = {0, 0};
  CHECK_FALSE(is_valid(bad, lives));
  bad = plan;
  bad.bytes = 64;
  CHECK_FALSE(is_valid(bad, lives));
  bad = plan;
  bad.offsets[0] = 1;
  CHECK_FALSE(is_valid(bad, lives));
}

TEST_CASE("a plan is valid exactly when no two buffers that are live together overlap") {
  std::mt19937 random(4);
  const auto below = [&](int n) {
    return static_cast<int32_t>(random() % static_cast<unsigned>(n));
  };
  int valid = 0;
  constexpr int kRounds = 2000;
  for (int round = 0; round < kRounds; ++round) {
    std::vector<Lifetime> lives;
    ArenaPlan plan;
    plan.bytes = 10 * 64;
    for (int i = 0; i < 5; ++i) {
      const int32_t first = below(10);
      lives.push_back({64 * below(4), first, first + below(4)});
      plan.offsets.push_back(64 * below(8));
    }
    bool expected = true;
    for (size_t a = 0; a < lives.size(); ++a) {
      expected = expected && plan.offsets[a] + lives[a].bytes <= plan.bytes;
      for (size_t b = 0; b < a; ++b) {
        const bool meet = lives[a].first <= lives[b].last && lives[b].first <= lives[a].last;
        const int64_t begin = std::max(plan.offsets[a], plan.offsets[b]);
        const int64_t end =
            std::min(plan.offsets[a] + lives[a].bytes, plan.offsets[b] + lives[b].bytes);
        if (meet && begin < end) expected = false;
      }
    }
    CHECK_EQ(is_valid(plan, lives), expected);
    valid += expected;
  }
  CHECK_GT(valid, kRounds / 10);
  CHECK_LT(valid, kRounds * 9 / 10);
}

}  // namespace hone::test
