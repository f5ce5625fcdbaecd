// SPDX-License-Identifier: Apache-2.0
// Optimizers for define-by-run code.
#include "hone/optim.hpp"

#include <cmath>

#include "hone/eager.hpp"

namespace hone {

Optimizer::Optimizer(std::vector<ParameterGroup> groups) : groups_(std::move(groups)) {
  size_t count = 0;
  for (const ParameterGroup& g : groups_) count += g.parameters.size();
  moments_.resize(count);
}

Optimizer::Optimizer(std::vector<Tensor> parameters, const OptimizerOptions& options)
    : Optimizer(std::vector<ParameterGroup>{{std::move(parameters), options}}) {}

void Optimizer::zero_grad() {
  for (ParameterGroup& g : groups_)
    for (Tensor& p : g.parameters) p.zero_grad();
}

void Optimizer::set_lr(double lr) {
  for (ParameterGroup& g : groups_) g.options.lr = lr;
}

// The parameter's new value and its new moments.
Result<std::vector<Tensor>> Optimizer::updated(const Tensor& parameter, const OptimizerOptions& o,
                                               const Moments& moments) const {
  // Moments are f32 even for 16-bit weights.
  const DType wide = parameter.dtype() == DType::f64 ? DType::f64 : DType::f32;
  const auto moment = [&](const Tensor& t) {
    return t.defined() ? t : Tensor::zeros(parameter.shape(), wide);
  };
  const Tensor lr = Tensor::scalar(o.lr, DType::f64), gradient = parameter.grad();
  const Tensor step = Tensor::scalar(static_cast<double>(moments.steps + 1), DType::i64);
  std::vector<Tensor> outs;
  if (o.kind == OptimizerKind::sgd) {
    const Tensor in[] = {parameter, o.momentum != 0 ? moment(moments.first) : Tensor(), gradient,
                         lr, step};
    outs = apply_all(op::sgd_update, in,
                     SgdAttrs{o.momentum, o.dampening, o.weight_decay, o.nesterov});
  } else {
    const Tensor in[] = {parameter, moment(moments.first), moment(moments.second), gradient, lr,
                         step};
    outs = apply_all(
        op::adam_update, in,
        AdamAttrs{o.beta1, o.beta2, o.eps, o.weight_decay, o.kind == OptimizerKind::adamw});
  }
  if (!outs[0].ok())
    return outs[0].status().with_context(parameter.name().empty() ? "optimizer" : parameter.name());
  return outs;
}

Status Optimizer::step() {
  NoGrad no_grad;
  struct Update {
    Tensor parameter;
    Moments* moments;
    std::vector<Tensor> values;
  };
  std::vector<Update> updates;
  size_t i = 0;
  for (ParameterGroup& g : groups_)
    for (Tensor& p : g.parameters) {
      Moments& m = moments_[i++];
      if (!p.ok()) return p.status();
      if (!p.grad().defined()) continue;
      HONE_ASSIGN(std::vector<Tensor> values, updated(p, g.options, m));
      updates.push_back({p, &m, std::move(values)});
    }
  for (Update& u : updates) {
    u.parameter.copy_(u.values[0]);
    if (u.values.size() > 1) u.moments->first = u.values[1];
    if (u.values.size() > 2) u.moments->second = u.values[2];
    ++u.moments->steps;
  }
  ++steps_;
  return {};
}

std::vector<NamedTensor> Optimizer::state() const {
  std::vector<NamedTensor> out;
  std::vector<int64_t> counts = {steps_};
  for (size_t i = 0; i < moments_.size(); ++i) {
    const Moments& m = moments_[i];
    counts.push_back(m.steps);
    if (m.first.defined())
      out.push_back({format("{}/{}", i, m.second.defined() ? "m" : "velocity"), m.first.data()});
    if (m.second.defined()) out.push_back({format("{}/v", i), m.second.data()});
  }
  auto steps = TensorData::vector_of<int64_t>(counts);
  if (steps.ok()) out.push_back({"steps", std::move(*steps)});
  return out;
}

Status Optimizer::load_state(std::span<const NamedTensor> state) {
  std::vector<Moments> moments(moments_.size());
  std::vector<Tensor> parameters;
  for (const ParameterGroup& g : groups_)
    parameters.insert(parameters.end(), g.parameters.begin(), g.parameters.end());
  int64_t steps = -1;
  std::string wrong;
  for (const NamedTensor& t : state) {
    if (t.name == "steps" && t.data.dtype() == DType::i64 &&
        t.data.numel() == static_cast<int64_t>(moments.size()) + 1) {
      steps = t.data.int_at(0);
      for (size_t i = 0; i < moments.size(); ++i)
        moments[i].steps = t.data.int_at(static_cast<int64_t>(i) + 1);
      continue;
    }
    bool known = false;
    for (size_t i = 0; i < moments.size(); ++i) {
      if (t.data.shape() != parameters[i].shape()) continue;
      if (t.name == format("{}/m", i) || t.name == format("{}/velocity", i))
        moments[i].first = Tensor(t.data), known = true;
      if (t.name == format("{}/v", i)) moments[i].second = Tensor(t.data), known = true;
    }
    if (!known) wrong += format("{}'{}' {}", wrong.empty() ? "" : ", ", t.name, t.data.type());
  }
  if (!wrong.empty())
    return invalid("optimizer: the state does not fit these parameters: {}", wrong);
  if (steps < 0)
    return invalid("optimizer: the state has no step counts for {} parameters", moments.size());
  moments_ = std::move(moments);
  steps_ = steps;
  return {};
}

// The same formula as in planned training, so that both give the same bits.
Result<double> clip_grad_norm(std::span<const Tensor> parameters, double max_norm) {
  NoGrad no_grad;
  Tensor total;
  for (const Tensor& p : parameters) {
    if (!p.grad().defined()) continue;
    const Tensor g = p.grad();
    const Tensor squares =
        g.to(g.dtype() == DType::f64 ? DType::f64 : DType::f32).square().sum().to_f32();
    total = total.defined() ? total + squares : squares;
  }
  if (!total.defined()) return 0.0;
  const Tensor norm = total.sqrt();
  const Tensor scale = (max_norm / (norm + 1e-6)).minimum(Tensor::scalar(1));
  if (!scale.ok()) return scale.status();
  for (const Tensor& p : parameters) {
    if (!p.grad().defined()) continue;
    Tensor g = p.grad();
    // A small scale has few digits in a half float, or none.
    if (g.dtype() == DType::f16 || g.dtype() == DType::bf16)
      g.copy_((g.to_f32() * scale).to(g.dtype()));
    else
      g.mul_(scale.to(g.dtype()));
  }
  return norm.item<double>();
}

namespace optim {

Optimizer sgd(std::vector<Tensor> parameters, double lr, double weight_decay) {
  return {std::move(parameters),
          {.kind = OptimizerKind::sgd, .lr = lr, .weight_decay = weight_decay}};
}
Optimizer momentum(std::vector<Tensor> parameters, double lr, double momentum,
                   double weight_decay) {
  return {
      std::move(parameters),
      {.kind = OptimizerKind::sgd, .lr = lr, .weight_decay = weight_decay, .momentum = momentum}};
}
Optimizer adam(std::vector<Tensor> parameters, double lr, double weight_decay) {
  return {std::move(parameters),
          {.kind = OptimizerKind::adam, .lr = lr, .weight_decay = weight_decay}};
}
Optimizer adamw(std::vector<Tensor> parameters, double lr, double weight_decay) {
  return {std::move(parameters),
          {.kind = OptimizerKind::adamw, .lr = lr, .weight_decay = weight_decay}};
}

}  // namespace optim

}  // namespace hone
