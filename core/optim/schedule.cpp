// SPDX-License-Identifier: Apache-2.0
// Learning rate schedules.
#include "hone/schedule.hpp"

#include <algorithm>
#include <cmath>

namespace hone::schedule {

namespace {

// From `start` to `end` as `part` goes from 0 to 1.
double anneal(double start, double end, double part) {
  constexpr double kPi = 3.14159265358979323846;
  return end + (start - end) * 0.5 * (1 + std::cos(kPi * std::clamp(part, 0.0, 1.0)));
}

double part_of(int64_t step, int64_t total) {
  return total > 0 ? static_cast<double>(step) / static_cast<double>(total) : 1;
}

}  // namespace

Schedule constant(double lr) {
  return [lr](int64_t) { return lr; };
}

Schedule steps(double lr, int64_t every, double factor) {
  return [=](int64_t step) {
    const int64_t passed = step / std::max<int64_t>(every, 1);
    return lr * std::pow(factor, static_cast<double>(passed));
  };
}

Schedule milestones(double lr, std::vector<int64_t> at, double factor) {
  return [lr, at = std::move(at), factor](int64_t step) {
    const auto passed = std::count_if(at.begin(), at.end(), [&](int64_t m) { return m <= step; });
    return lr * std::pow(factor, static_cast<double>(passed));
  };
}

Schedule cosine(double lr, int64_t total, double end) {
  return [=](int64_t step) { return anneal(lr, end, part_of(step, total)); };
}

Schedule warm_up(double lr, int64_t steps, Schedule after) {
  return [=, after = std::move(after)](int64_t step) {
    return step < steps ? lr * part_of(step + 1, steps) : after(step - steps);
  };
}

Schedule warm_up_cosine(double lr, int64_t warm_up_steps, int64_t total, double end) {
  return warm_up(lr, warm_up_steps, cosine(lr, total - warm_up_steps, end));
}

Schedule one_cycle(double lr, int64_t total, double rise) {
  return [=](int64_t step) {
    const double top = rise * static_cast<double>(total) - 1, last = static_cast<double>(total) - 1;
    const double s = static_cast<double>(step), start = lr / 25, end = start / 1e4;
    if (s <= top) return anneal(start, lr, top > 0 ? s / top : 1);
    return anneal(lr, end, last > top ? (s - top) / (last - top) : 1);
  };
}

}  // namespace hone::schedule
