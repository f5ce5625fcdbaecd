// SPDX-License-Identifier: Apache-2.0
// Optimizers for define-by-run code. The updates are the operators that planned training uses.
//
//   Optimizer optimizer = optim::adamw(net.parameters(), 1e-3);
//   optimizer.zero_grad();
//   HONE_TRY(loss.backward());
//   HONE_TRY(optimizer.step());
#pragma once

#include "hone/tensor.hpp"
#include "hone/trainer.hpp"

namespace hone {

/// Parameters that are updated alike. Handles: the tensors belong to the model.
struct ParameterGroup {
  std::vector<Tensor> parameters;
  OptimizerOptions options;
};

class Optimizer {
 public:
  explicit Optimizer(std::vector<ParameterGroup> groups);
  Optimizer(std::vector<Tensor> parameters, const OptimizerOptions& options);

  /// Updates every parameter that has a gradient, in place. Errors: a parameter or gradient that
  /// carries one; invalid_argument (types that do not fit); then no parameter has changed.
  Status step();
  /// Drops the gradients.
  void zero_grad();
  /// Sets the learning rate of all groups.
  void set_lr(double lr);
  std::vector<ParameterGroup>& groups() { return groups_; }
  /// Steps taken.
  int64_t steps() const { return steps_; }

  /// Moments and the step count, named by the position of their parameter: "3/velocity", "3/m",
  /// "3/v", "steps". Shared, not copied: they do not change with later steps.
  std::vector<NamedTensor> state() const;
  /// Errors: invalid_argument naming what is unexpected or of another type; nothing changes then.
  Status load_state(std::span<const NamedTensor> state);

 private:
  struct Moments {
    Tensor first, second;  // velocity, or m and v
    int64_t steps = 0;
  };
  Result<std::vector<Tensor>> updated(const Tensor& parameter, const OptimizerOptions& options,
                                      const Moments& moments) const;

  std::vector<ParameterGroup> groups_;
  std::vector<Moments> moments_;  // by position of the parameter in all groups
  int64_t steps_ = 0;
};

/// Scales the gradients so that their global norm is at most `max_norm`; returns the norm before.
/// Parameters without a gradient do not count.
Result<double> clip_grad_norm(std::span<const Tensor> parameters, double max_norm);

namespace optim {

Optimizer sgd(std::vector<Tensor> parameters, double lr, double weight_decay = 0);
Optimizer momentum(std::vector<Tensor> parameters, double lr, double momentum = 0.9,
                   double weight_decay = 0);
Optimizer adam(std::vector<Tensor> parameters, double lr = 1e-3, double weight_decay = 0);
Optimizer adamw(std::vector<Tensor> parameters, double lr = 1e-3, double weight_decay = 0.01);

}  // namespace optim

}  // namespace hone
