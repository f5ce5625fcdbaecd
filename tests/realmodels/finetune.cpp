// SPDX-License-Identifier: Apache-2.0
// One fine-tuning step of a pretrained model on a made-up target:  finetune MODEL INPUT=FILE.npy
// ... The loss is the mean square of the outputs' distance to targets near what the model gives.
// The model is also made anew in double precision, where central differences over losses in
// training form tell whether the slope along the gradient is the gradient's norm. Prints one line;
// exit status 1 with the reason on stderr.
#include <cmath>
#include <cstdio>
#include <limits>
#include <string>

#include "hone/npz.hpp"
#include "hone/onnx.hpp"
#include "hone/ops.hpp"
#include "hone/precision.hpp"
#include "hone/session.hpp"
#include "hone/trainer.hpp"

namespace hone {
namespace {

constexpr std::string_view kTarget = "finetune.target.";

Result<Value> loss_of(Builder& b, const NamedValues& outputs, const NamedValues& targets) {
  Value loss;
  for (const auto& [name, y] : outputs.items()) {
    const auto target = targets.find(std::string(kTarget) + name);
    if (!target.ok()) continue;
    const Value d = loss::mse(ops::cast(y, DType::f64), *target);
    loss = loss.valid() ? loss + d : d;
  }
  if (!loss.valid()) b.fail(invalid("no output is a floating-point tensor"));
  HONE_TRY(b.status());
  return loss;
}

// Near `y`: the model is asked to change a little everywhere.
Result<TensorData> target_for(const TensorData& y) {
  HONE_ASSIGN(TensorData t, TensorData::allocate({DType::f64, y.shape()}));
  double largest = 1e-3;
  for (int64_t i = 0; i < y.numel(); ++i) largest = std::max(largest, std::abs(y.at(i)));
  for (int64_t i = 0; i < y.numel(); ++i)
    t.as_mutable<double>()[i] =
        y.at(i) + 0.1 * largest * std::sin(0.7 * static_cast<double>(i) + 1);
  return t;
}

// The training-form loss of a model in double precision with the parameters moved by `by` along
// `direction`.
Result<double> loss_at(const Model& model, TrainerOptions options,
                       std::span<const NamedTensor> batch, std::span<const NamedTensor> direction,
                       double by) {
  options.optimizer = {.kind = OptimizerKind::sgd, .lr = 0};
  Model moved = model;
  for (const NamedTensor& d : direction) {
    TensorData& w = moved.graph.value(moved.graph.find(d.name)).data;
    HONE_ASSIGN(w, w.clone());
    for (int64_t i = 0; i < w.numel(); ++i) w.as_mutable<double>()[i] = w.at(i) + by * d.data.at(i);
  }
  HONE_ASSIGN(Trainer t, Trainer::create(moved, options));
  HONE_ASSIGN(const StepResult r, t.step(batch));
  return r.loss;
}

Status finetune(const std::string& path, std::vector<NamedTensor> batch) {
  HONE_ASSIGN(const Model model, open_model(path));
  HONE_ASSIGN(Session session, Session::create(model));
  HONE_ASSIGN(const std::vector<TensorData> outputs, session.run(batch));
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (!is_float(outputs[i].dtype()) || outputs[i].numel() == 0) continue;
    HONE_ASSIGN(TensorData target, target_for(outputs[i]));
    batch.push_back({std::string(kTarget) + model.graph.outputs[i].name, std::move(target)});
  }
  TrainerOptions options;
  options.loss = loss_of;
  HONE_ASSIGN(Trainer trainer, Trainer::create(model, options));
  HONE_ASSIGN(const std::vector<NamedTensor> grads, trainer.gradients(batch));
  Model wide = model;
  HONE_TRY(set_precision(wide.graph, DType::f64));
  std::vector<NamedTensor> wide_batch = batch;
  for (NamedTensor& t : wide_batch)
    if (t.data.dtype() == DType::f32) {
      HONE_ASSIGN(t.data, cast(t.data, DType::f64));
    }
  HONE_ASSIGN(Trainer wide_trainer, Trainer::create(wide, options));
  HONE_ASSIGN(const std::vector<NamedTensor> exact, wide_trainer.gradients(wide_batch));
  double square = 0, off = 0;
  int64_t count = 0;
  for (size_t k = 0; k < grads.size(); ++k) {
    for (int64_t i = 0; i < grads[k].data.numel(); ++i) {
      const double g = grads[k].data.at(i), e = exact[k].data.at(i);
      if (!std::isfinite(g)) return invalid("the gradient of '{}' is not finite", grads[k].name);
      square += e * e;
      off += (g - e) * (g - e);
    }
    count += grads[k].data.numel();
  }
  const double norm = std::sqrt(square);
  if (!(norm > 0)) return invalid("the gradient is zero");
  HONE_ASSIGN(const double loss, loss_at(wide, options, wide_batch, {}, 0));
  double best = std::numeric_limits<double>::infinity();
  for (double change = 1e-7; change > 1e-12 && !(best < 1e-4); change /= 50) {
    const double by = change * loss / square;  // the loss then changes by about this share
    HONE_ASSIGN(const double up, loss_at(wide, options, wide_batch, exact, by));
    HONE_ASSIGN(const double down, loss_at(wide, options, wide_batch, exact, -by));
    best = std::min(best, std::abs((up - down) / (2 * by) / square - 1));
  }
  if (!(best < 1e-4))
    return invalid(
        "along the gradient the loss changes {} percent otherwise than the gradient says",
        100 * best);
  HONE_ASSIGN(const StepResult step, trainer.step(batch));
  std::printf(
      "%lld numbers, loss %.4g, gradient %.3g (fp32 off by %.1g %%), slope within %.1g %%\n",
      static_cast<long long>(count), step.loss, norm, 100 * std::sqrt(off) / norm, 100 * best);
  return {};
}

Status main_program(int argc, char** argv) {
  if (argc < 3) return invalid("usage: finetune MODEL INPUT=FILE.npy ...");
  std::vector<NamedTensor> batch;
  for (int i = 2; i < argc; ++i) {
    const std::string text = argv[i];
    const size_t at = text.find('=');
    if (at == std::string::npos) return invalid("'{}' is not INPUT=FILE.npy", text);
    HONE_ASSIGN(TensorData t, read_npy(text.substr(at + 1)));
    batch.push_back({text.substr(0, at), std::move(t)});
  }
  return finetune(argv[1], std::move(batch));
}

}  // namespace
}  // namespace hone

int main(int argc, char** argv) {
  const hone::Status s = hone::main_program(argc, argv);
  if (s.ok()) return 0;
  std::fprintf(stderr, "%s\n", s.message().c_str());
  return 1;
}
