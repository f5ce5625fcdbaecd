// SPDX-License-Identifier: Apache-2.0
// Greedy packing: buffers are placed one by one, each at the lowest (or tightest) offset that is
// free during its whole life. What differs between strategies is the order. After Pisarchyk and
// Lee, "Efficient Memory Management for Deep Neural Net Inference" (2020).
#include "core/plan/arena.hpp"

#include <algorithm>
#include <numeric>

#include "hone/tensor_data.hpp"

namespace hone {

namespace {

int64_t align(int64_t bytes) {
  constexpr int64_t kAlign = static_cast<int64_t>(kAlignment);
  return (bytes + kAlign - 1) / kAlign * kAlign;
}

bool live_together(const Lifetime& a, const Lifetime& b) {
  return a.first <= b.last && b.first <= a.last;
}

int64_t peak_of_live_bytes(std::span<const Lifetime> lifetimes) {
  int32_t steps = 0;
  for (const Lifetime& v : lifetimes) steps = std::max(steps, v.last + 1);
  std::vector<int64_t> change(static_cast<size_t>(steps) + 1, 0);
  for (const Lifetime& v : lifetimes) {
    change[static_cast<size_t>(v.first)] += align(v.bytes);
    change[static_cast<size_t>(v.last) + 1] -= align(v.bytes);
  }
  int64_t live = 0, peak = 0;
  for (int64_t c : change) peak = std::max(peak, live += c);
  return peak;
}

enum class Fit { lowest, tightest };

// Places buffers in the given order. Placed buffers are kept sorted by offset, so the gaps between
// those that are live together with the new one are found in one walk.
ArenaPlan place(std::span<const Lifetime> lifetimes, std::span<const int32_t> order, Fit fit,
                std::string_view strategy) {
  ArenaPlan plan;
  plan.strategy = strategy;
  plan.offsets.assign(lifetimes.size(), 0);
  std::vector<int32_t> placed;  // by offset
  for (int32_t i : order) {
    const Lifetime& v = lifetimes[static_cast<size_t>(i)];
    const int64_t size = align(v.bytes);
    if (size == 0) continue;
    int64_t best = -1, best_gap = 0, end = 0;
    for (int32_t j : placed) {
      const Lifetime& o = lifetimes[static_cast<size_t>(j)];
      if (!live_together(v, o)) continue;
      const int64_t offset = plan.offsets[static_cast<size_t>(j)];
      const int64_t gap = offset - end;
      if (gap >= size && (best < 0 || gap < best_gap)) {
        best = end;
        best_gap = gap;
        if (fit == Fit::lowest) break;
      }
      end = std::max(end, offset + align(o.bytes));
    }
    const int64_t offset = best >= 0 ? best : end;
    plan.offsets[static_cast<size_t>(i)] = offset;
    plan.bytes = std::max(plan.bytes, offset + size);
    const auto at = std::upper_bound(
        placed.begin(), placed.end(), offset,
        [&](int64_t value, int32_t j) { return value < plan.offsets[static_cast<size_t>(j)]; });
    placed.insert(at, i);
  }
  return plan;
}

}  // namespace

bool is_valid(const ArenaPlan& plan, std::span<const Lifetime> lifetimes) {
  if (plan.offsets.size() != lifetimes.size()) return false;
  std::vector<int32_t> order(lifetimes.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
    return plan.offsets[static_cast<size_t>(a)] < plan.offsets[static_cast<size_t>(b)];
  });
  for (size_t i = 0; i < order.size(); ++i) {
    const Lifetime& a = lifetimes[static_cast<size_t>(order[i])];
    const int64_t begin = plan.offsets[static_cast<size_t>(order[i])], end = begin + align(a.bytes);
    if (begin < 0 || begin % static_cast<int64_t>(kAlignment) != 0 || end > plan.bytes)
      return false;
    for (size_t k = i + 1; k < order.size() && plan.offsets[static_cast<size_t>(order[k])] < end;
         ++k) {
      const Lifetime& b = lifetimes[static_cast<size_t>(order[k])];
      if (b.bytes > 0 && live_together(a, b)) return false;
    }
  }
  return true;
}

Result<ArenaPlan> plan_arena(std::span<const Lifetime> lifetimes) {
  for (size_t i = 0; i < lifetimes.size(); ++i) {
    const Lifetime& v = lifetimes[i];
    if (v.bytes < 0) return invalid("arena buffer {}: its size is negative ({})", i, v.bytes);
    if (v.first < 0 || v.last < v.first)
      return invalid("arena buffer {}: it dies at step {} before step {}", i, v.last, v.first);
  }
  const int64_t bound = peak_of_live_bytes(lifetimes);
  const auto life = [&](int32_t i) { return lifetimes[static_cast<size_t>(i)]; };
  const auto duration = [](const Lifetime& v) { return static_cast<double>(v.last - v.first + 1); };
  // Largest first: a big buffer placed late finds only the gaps that small ones left.
  const auto by_size = [&](int32_t a, int32_t b) {
    return life(a).bytes != life(b).bytes ? life(a).bytes > life(b).bytes
                                          : duration(life(a)) > duration(life(b));
  };
  const auto by_area = [&](int32_t a, int32_t b) {
    return duration(life(a)) * static_cast<double>(life(a).bytes) >
           duration(life(b)) * static_cast<double>(life(b).bytes);
  };
  const auto by_duration = [&](int32_t a, int32_t b) {
    return duration(life(a)) != duration(life(b)) ? duration(life(a)) > duration(life(b))
                                                  : life(a).bytes > life(b).bytes;
  };
  const auto by_birth = [&](int32_t a, int32_t b) {
    return life(a).first != life(b).first ? life(a).first < life(b).first
                                          : life(a).bytes > life(b).bytes;
  };
  ArenaPlan best;
  bool found = false;
  const auto attempt = [&](auto before, Fit fit, std::string_view strategy) {
    if (found && best.bytes == bound) return;
    std::vector<int32_t> order(lifetimes.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), before);
    ArenaPlan plan = place(lifetimes, order, fit, strategy);
    if (!found || plan.bytes < best.bytes) best = std::move(plan);
    found = true;
  };
  attempt(by_size, Fit::tightest, "by size, tightest gap");
  attempt(by_size, Fit::lowest, "by size, lowest gap");
  attempt(by_area, Fit::tightest, "by size x duration, tightest gap");
  attempt(by_duration, Fit::tightest, "by duration, tightest gap");
  attempt(by_birth, Fit::lowest, "by birth, lowest gap");
  attempt(by_birth, Fit::tightest, "by birth, tightest gap");
  best.lower_bound = bound;
  HONE_ENSURE(is_valid(best, lifetimes));
  return best;
}

}  // namespace hone
