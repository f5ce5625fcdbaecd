// SPDX-License-Identifier: Apache-2.0
// What is computed again on chains: against the optimum, which dynamic programming finds, and
// against keeping every sqrt(n)-th result.
#include <cmath>
#include <map>
#include <numeric>
#include <random>
#include <tuple>

#include "core/plan/recompute.hpp"
#include "tests/plan/chain.hpp"
#include "tests/support/check.hpp"

namespace hone::test {

namespace {

constexpr int64_t kUnit = 64;
constexpr double kImpossible = 1e30;

// The least time to compute again on a chain of results of one size, within `room` results: the
// recursion of Griewank and Walther's Revolve ("Algorithm 799", 2000) and of rotor (Beaumont et
// al., "Optimal checkpointing for heterogeneous chains", 2019), for `chain` of chain.hpp, where the
// gradient of a step reads what the step made.
class Optimum {
 public:
  explicit Optimum(const std::vector<double>& costs) : sums_(1, 0) {
    for (const double c : costs) sums_.push_back(sums_.back() + c);
  }

  // Of all runs of forward steps, first ones included.
  double forward(int room) { return of(0, static_cast<int>(sums_.size()) - 1, room, false); }

 private:
  // Steps [begin, end) are to be gone through and back. What step begin - 1 made is kept, and is
  // not part of the room, nor is the gradient that goes in at `end`, which the last step of all
  // does not have.
  double of(int begin, int end, int room, bool has_gradient) {
    if (begin == end) return 0;
    if (room < 2) return kImpossible;  // a result and the gradient that comes out
    const auto key = std::tuple(begin, end, room, has_gradient);
    if (const auto known = known_.find(key); known != known_.end()) return known->second;
    double best = kImpossible;
    const int with_gradient = room - (has_gradient ? 0 : 1);  // once there is one
    for (int kept = begin; kept < end; ++kept) {              // the first step whose result is kept
      if (kept + 1 < end && with_gradient < 2) continue;
      best =
          std::min(best, sums_[static_cast<size_t>(kept) + 1] - sums_[static_cast<size_t>(begin)] +
                             of(kept + 1, end, room - 1, has_gradient) +
                             of(begin, kept, with_gradient, true));
    }
    return known_[key] = best;
  }

  std::vector<double> sums_;
  std::map<std::tuple<int, int, int, bool>, double> known_;
};

double total(const std::vector<double>& costs) {
  return std::accumulate(costs.begin(), costs.end(), 0.0);
}

// Every sqrt(n)-th result is kept, and each stretch between them is run again for its gradients
// (Chen et al., "Training deep nets with sublinear memory cost", 2016); the last is still there.
Sequence by_square_root(size_t n) {
  const size_t stretch = static_cast<size_t>(std::lround(std::sqrt(static_cast<double>(n))));
  Sequence runs;
  for (size_t i = 0; i < n; ++i) runs.push_back(static_cast<int32_t>(i));
  for (size_t end = n; end > 0;) {
    const size_t begin = (end - 1) / stretch * stretch;
    for (size_t i = begin; i + 1 < end && end < n; ++i) runs.push_back(static_cast<int32_t>(i));
    for (size_t i = end; i-- > begin;) runs.push_back(static_cast<int32_t>(2 * n - 1 - i));
    end = begin;
  }
  return runs;
}

}  // namespace

TEST_CASE("the recursion for chains finds what an exact search finds") {
  std::mt19937 random(3);
  for (const size_t n : {2, 3, 4, 5, 6}) {
    std::vector<double> costs(n, 1);
    if (n % 2 == 0)
      for (double& c : costs) c = 1 + static_cast<double>(random() % 5);
    const WorkList w = chain(std::vector<int64_t>(n, kUnit), costs);
    for (int room = 2; room <= static_cast<int>(n) + 1; ++room) {
      CAPTURE(n);
      CAPTURE(room);
      const double exact = cheapest(w, room * kUnit);
      const double found = Optimum(costs).forward(room);
      if (exact < 0)
        CHECK_GE(found, kImpossible);
      else
        CHECK_EQ(found + 2 * total(costs), doctest::Approx(exact));
    }
  }
}

TEST_CASE("chains are computed again at the least cost there is, whatever the limit") {
  std::mt19937 random(9);
  for (const size_t n : {8, 16, 24, 32, 40})
    for (const bool even : {true, false}) {
      std::vector<double> costs(n, 1);
      if (!even)
        for (double& c : costs) c = 1 + static_cast<double>(random() % 5);
      Optimum optimum(costs);
      const WorkList w = chain(std::vector<int64_t>(n, kUnit), costs);
      for (int room = 2; room <= static_cast<int>(n); ++room) {
        CAPTURE(n);
        CAPTURE(even);
        CAPTURE(room);
        const double least = optimum.forward(room) + 2 * total(costs);
        const Result<Recomputation> found = recompute(w, room * kUnit);
        if (least >= kImpossible) {
          CHECK_FALSE(found.ok());
          continue;
        }
        REQUIRE_OK(found);
        CHECK_LE(found->peak, room * kUnit);
        CHECK_EQ(found->cost, doctest::Approx(least));
      }
    }
}

// On an even chain nothing is cheaper in that memory; where steps differ there is something to
// choose.
TEST_CASE(
    "less is computed again than by keeping every sqrt(n)-th result, or it takes less memory") {
  for (const size_t n : {16, 64, 256})
    for (const bool even : {true, false}) {
      CAPTURE(n);
      CAPTURE(even);
      std::vector<double> costs(n, 1);
      if (!even)
        for (size_t i = 0; i < n; i += 4) costs[i] = 9;  // a convolution, then what follows it
      const WorkList w = chain(std::vector<int64_t>(n, kUnit), costs);
      const Timeline root = follow(w, by_square_root(n));
      const double once = 3 * total(costs);
      const Result<Recomputation> found = recompute(w, root.peak);
      REQUIRE_OK(found);
      CHECK_LE(found->peak, root.peak);
      CHECK_LE(found->cost, root.cost);
      if (even) continue;
      CHECK_LE(found->cost - once, 0.75 * (root.cost - once));
      const Result<Recomputation> smaller = recompute(w, root.peak * 3 / 4);
      REQUIRE_OK(smaller);
      CHECK_LE(smaller->cost, root.cost);
    }
}

}  // namespace hone::test
