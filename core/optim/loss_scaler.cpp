// SPDX-License-Identifier: Apache-2.0
// Loss scaling (Micikevicius et al. 2018, "Mixed Precision Training"), with the scale found by
// trial.
#include "hone/loss_scaler.hpp"

#include <cmath>
#include <limits>

#include "hone/eager.hpp"

namespace hone {

namespace {

Status check_options(const LossScalerOptions& o) {
  if (!(o.scale > 0) || !std::isfinite(o.scale))
    return invalid("loss scaling: the scale must be a number above 0, got {}", o.scale);
  if (!(o.growth >= 1)) return invalid("loss scaling: growth must be 1 or more, got {}", o.growth);
  if (!(o.backoff > 0 && o.backoff < 1))
    return invalid("loss scaling: backoff must be between 0 and 1, got {}", o.backoff);
  if (o.growth_interval < 1)
    return invalid("loss scaling: growth_interval must be 1 or more, got {}", o.growth_interval);
  return {};
}

}  // namespace

LossScaler::LossScaler(const LossScalerOptions& options) : options_(options) {}

// A half cannot hold the usual scale.
Tensor LossScaler::scaled(const Tensor& loss) const {
  return (loss.dtype() == DType::f64 ? loss : loss.to_f32()) * options_.scale;
}

LossScaler::Seen* LossScaler::find(const Optimizer& optimizer) {
  for (Seen& s : seen_)
    if (s.optimizer == &optimizer) return &s;
  return nullptr;
}

Status LossScaler::unscale(Optimizer& optimizer) {
  HONE_TRY(check_options(options_));
  if (find(optimizer))
    return invalid("loss scaling: the gradients have been unscaled since the last update");
  NoGrad no_grad;
  std::vector<std::pair<Tensor, Tensor>> unscaled;
  bool overflow = false;
  for (ParameterGroup& g : optimizer.groups())
    for (Tensor& p : g.parameters) {
      const Tensor grad = p.grad();
      if (!grad.defined()) continue;
      const Tensor wide = (grad.dtype() == DType::f64 ? grad : grad.to_f32()) / options_.scale;
      // 0 times what is not finite is NaN.
      const Tensor zero = (wide * 0.0).sum();
      if (!zero.ok()) return zero.status();
      overflow |= zero.item<double>() != 0;
      unscaled.emplace_back(p, wide);
    }
  for (auto& [parameter, grad] : unscaled) parameter.set_grad(grad);
  seen_.push_back({&optimizer, overflow, false});
  return {};
}

Result<ScaledStep> LossScaler::step(Optimizer& optimizer) {
  Seen* seen = find(optimizer);
  if (!seen) {
    HONE_TRY(unscale(optimizer));
    seen = &seen_.back();
  }
  if (seen->stepped)
    return invalid("loss scaling: the optimizer has stepped since the last update");
  if (!seen->overflow) HONE_TRY(optimizer.step());
  seen->stepped = true;
  return seen->overflow ? ScaledStep::skipped : ScaledStep::taken;
}

void LossScaler::update() {
  bool overflow = false;
  for (const Seen& s : seen_) overflow |= s.overflow;
  if (overflow) {
    options_.scale *= options_.backoff;
    good_steps_ = 0;
  } else if (!seen_.empty() && ++good_steps_ == options_.growth_interval) {
    const double grown = options_.scale * options_.growth;
    if (grown <= std::numeric_limits<float>::max()) options_.scale = grown;
    good_steps_ = 0;
  }
  seen_.clear();
}

void LossScaler::restore(double scale, int64_t good_steps) {
  options_.scale = scale;
  good_steps_ = good_steps;
  seen_.clear();
}

}  // namespace hone
