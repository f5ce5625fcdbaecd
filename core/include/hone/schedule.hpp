// SPDX-License-Identifier: Apache-2.0
// Learning rates as functions of the step, for Optimizer::step and TrainerOptions::schedule.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

namespace hone {

/// The learning rate of step 0, 1, ...
using Schedule = std::function<double(int64_t step)>;

namespace schedule {

Schedule constant(double lr);
/// lr * factor^(step / every), in whole steps of `every`.
Schedule steps(double lr, int64_t every, double factor = 0.1);
/// lr * factor^(number of milestones passed).
Schedule milestones(double lr, std::vector<int64_t> at, double factor = 0.1);
/// Half a cosine from `lr` at step 0 to `end` at `total` and after.
Schedule cosine(double lr, int64_t total, double end = 0);
/// A straight line from lr / steps at step 0 to lr at step `steps` - 1; then `after`, which counts
/// from there.
Schedule warm_up(double lr, int64_t steps, Schedule after);
/// warm_up, then cosine; `total` counts both.
Schedule warm_up_cosine(double lr, int64_t warm_up_steps, int64_t total, double end = 0);
/// torch.optim.lr_scheduler.OneCycleLR with cosine annealing: from lr / 25 up to lr at 30 % of
/// `total`, then down to lr / 250000.
Schedule one_cycle(double lr, int64_t total, double rise = 0.3);

}  // namespace schedule

}  // namespace hone
