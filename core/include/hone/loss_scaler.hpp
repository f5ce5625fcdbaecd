// SPDX-License-Identifier: Apache-2.0
// Loss scaling for training with 16-bit weights, whose small gradients would round to zero.
//
//   LossScaler scaler;
//   HONE_TRY(scaler.scaled(loss).backward());
//   HONE_TRY(scaler.unscale(optimizer));      // only to clip the gradients, or to look at them
//   HONE_ASSIGN(const ScaledStep done, scaler.step(optimizer));
//   scaler.update();
//   optimizer.zero_grad();
#pragma once

#include "hone/optim.hpp"

namespace hone {

struct LossScalerOptions {
  double scale = 65536;
  double growth = 2;     ///< Of the scale, after `growth_interval` steps in a row that were taken.
  double backoff = 0.5;  ///< Of the scale, after a step that was skipped.
  int64_t growth_interval = 2000;
};

enum class ScaledStep : uint8_t {
  taken,
  skipped,  ///< A gradient was infinite or NaN: neither parameters nor step counts have moved.
};

/// Multiplies losses by a scale, divides the gradients by it, and leaves out steps whose gradients
/// have overflowed. A step that is left out does not count in Optimizer::steps, so a schedule that
/// is asked for that step does not move either. May serve several optimizers, each of which must
/// stay where it is until `update`.
class LossScaler {
 public:
  explicit LossScaler(const LossScalerOptions& options = {});

  /// The loss to call backward() on.
  Tensor scaled(const Tensor& loss) const;
  /// Divides the gradients by the scale; those of 16-bit parameters become f32 first. Errors: what
  /// a gradient carries; invalid_argument (a second time before `update`, when they would be
  /// divided twice; a bad option: which).
  Status unscale(Optimizer& optimizer);
  /// Takes the optimizer's step, or skips it. Unscales if that was not done. Errors: as unscale and
  /// Optimizer::step; invalid_argument (a second time before `update`).
  Result<ScaledStep> step(Optimizer& optimizer);
  /// Ends the iteration, whether or not a step was tried: sets the scale for the next one.
  void update();

  double scale() const { return options_.scale; }
  /// Iterations in a row without an overflow, since the scale last changed.
  int64_t good_steps() const { return good_steps_; }
  /// Goes on from a scale and good_steps that were saved (Checkpoint::loss_scale).
  void restore(double scale, int64_t good_steps = 0);

 private:
  struct Seen {
    const Optimizer* optimizer;
    bool overflow, stepped;
  };
  Seen* find(const Optimizer& optimizer);

  LossScalerOptions options_;
  int64_t good_steps_ = 0;
  std::vector<Seen> seen_;  // since the last update
};

}  // namespace hone
