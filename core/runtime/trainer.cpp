// SPDX-License-Identifier: Apache-2.0
// Trainers: the programs of the training step, and what they are fed.
#include "hone/trainer.hpp"

#include <algorithm>
#include <cmath>

#include "core/base/platform.hpp"
#include "core/runtime/trainer_impl.hpp"

namespace hone {

Result<Value> NamedValues::find(std::string_view name) const {
  std::string names;
  for (const auto& [n, v] : items_) {
    if (n == name) return v;
    names += format("{}'{}'", names.empty() ? "" : ", ", n);
  }
  return not_found("there is no '{}'; there are {}", name, names.empty() ? "none" : names);
}

namespace {

Status check_options(const TrainerOptions& o) {
  if (!o.loss) return invalid("a trainer needs a loss");
  if (!(o.optimizer.lr >= 0) || !std::isfinite(o.optimizer.lr))
    return invalid("the learning rate must be a number not below 0, got {}", o.optimizer.lr);
  if (!(o.clip_norm >= 0)) return invalid("clip_norm must not be below 0, got {}", o.clip_norm);
  if (o.micro_batches < 1)
    return invalid("a step runs in at least 1 part, got micro_batches = {}", o.micro_batches);
  if (!(o.recompute_share >= 0) || !std::isfinite(o.recompute_share))
    return invalid("recompute_share must be a number not below 0, got {}", o.recompute_share);
  if (o.session.memory_limit < 0)
    return invalid("a memory limit must not be below 0, got {}", o.session.memory_limit);
  if (o.optimizer.nesterov && o.optimizer.momentum <= 0)
    return invalid("Nesterov momentum needs momentum above 0, got {}", o.optimizer.momentum);
  for (const double beta : {o.optimizer.beta1, o.optimizer.beta2})
    if (!(beta >= 0 && beta < 1))
      return invalid("beta1 and beta2 must be in [0, 1), got {} and {}", o.optimizer.beta1,
                     o.optimizer.beta2);
  return {};
}

}  // namespace

Trainer::Trainer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Trainer::Trainer(Trainer&&) noexcept = default;
Trainer& Trainer::operator=(Trainer&&) noexcept = default;
Trainer::~Trainer() = default;

Result<Trainer> Trainer::create(const Model& model, TrainerOptions options) {
  HONE_TRY(check_options(options));
  if (options.session.threads < 1 && !options.session.pool)
    return invalid("a trainer needs at least one thread, got {}", options.session.threads);
  HONE_TRY(check_limits(model.graph, options.session.max_dims));
  Model copy = model;
  int64_t trainable = 0;
  std::string names;
  for (ValueInfo& v : copy.graph.values) {
    if (v.kind != ValueKind::state) continue;
    const bool may_train = v.role == StateRole::parameter && is_float(v.type.dtype);
    const bool trains = may_train && v.trainable && matches(options.trainable, v.name);
    // What stays as it is in a file is read from there.
    if (trains || v.role != StateRole::parameter ||
        !platform::is_mapped(v.data.data(), v.data.bytes())) {
      HONE_ASSIGN(v.data, v.data.clone());
    }
    if (!may_train) continue;
    v.trainable = trains;
    trainable += trains;
    if (names.size() < 200) names += format("{}'{}'", names.empty() ? "" : ", ", v.name);
  }
  if (trainable == 0)
    return invalid("no parameter matches trainable pattern '{}'; the model's parameters are {}",
                   options.trainable, names.empty() ? "none" : names);
  return Trainer(std::make_unique<Impl>(std::move(copy), std::move(options)));
}

Result<StepResult> Trainer::step(std::span<const NamedTensor> batch) {
  Impl& t = *impl_;
  if (t.options.micro_batches > 1) return t.step_in_parts(batch);
  t.begin_step();
  HONE_ASSIGN(Compiled* const c, t.program(batch, TrainForm::step));
  t.feed(*c, batch);
  size_t done = 0;
  HONE_ASSIGN(const double loss, t.run_to_loss(*c, done));
  HONE_TRY(t.run_rest(*c, done));
  StepResult r{t.step, loss, t.lr, 0};
  if (c->held.size() > 1) r.grad_norm = c->held[1].at(0);
  ++t.step;
  return r;
}

Result<std::vector<NamedTensor>> Trainer::gradients(std::span<const NamedTensor> batch) {
  Impl& t = *impl_;
  HONE_ASSIGN(Compiled* const c, t.program(batch, TrainForm::gradients));
  t.feed(*c, batch);
  HONE_TRY(t.engine.run(*c));
  std::vector<NamedTensor> out;
  const Graph& g = c->program.graph;
  for (size_t i = 1; i < g.outputs.size(); ++i) {
    HONE_ASSIGN(TensorData copy, c->held[i].clone());
    out.push_back({g.outputs[i].name, std::move(copy)});
  }
  return out;
}

Result<double> Trainer::evaluate(std::span<const NamedTensor> batch) {
  Impl& t = *impl_;
  HONE_ASSIGN(Compiled* const c, t.program(batch, TrainForm::loss));
  t.feed(*c, batch);
  HONE_TRY(t.engine.run(*c));
  return c->held[0].at(0);
}

Result<std::vector<TensorData>> Trainer::predict(std::span<const NamedTensor> inputs) {
  Impl& t = *impl_;
  const Graph& g = t.engine.model().graph;
  std::vector<TensorType> types;
  std::vector<TensorData> ordered;
  for (ValueId v : g.inputs) {
    const auto it = std::find_if(inputs.begin(), inputs.end(),
                                 [&](const NamedTensor& n) { return n.name == g.value(v).name; });
    if (it == inputs.end() || !it->data.defined())
      return invalid("the model's input '{}' is missing", g.value(v).name);
    types.push_back(it->data.type());
    ordered.push_back(it->data);
  }
  HONE_ASSIGN(Compiled* const c, t.engine.infer_program(types));
  if (c->depends_on_data) return t.engine.run_staged(ordered);
  for (size_t i = 0; i < ordered.size(); ++i) c->input_pointers[i] = ordered[i].data();
  std::vector<TensorData> out;
  for (size_t i = 0; i < c->program.graph.outputs.size(); ++i) {
    HONE_ASSIGN(TensorData data,
                TensorData::allocate(c->program.graph.type(c->program.graph.outputs[i].value)));
    c->output_pointers[i] = data.mutable_data();
    out.push_back(std::move(data));
  }
  HONE_TRY(t.engine.run(*c));
  return out;
}

Result<Model> Trainer::snapshot() const {
  Model out = impl_->engine.model();
  for (ValueInfo& v : out.graph.values) {
    if (v.kind != ValueKind::state) continue;
    const StateStore::Entry* e = impl_->engine.states().find(v.name);
    HONE_ENSURE(e != nullptr);
    HONE_ASSIGN(v.data, e->data.clone());
  }
  return out;
}

int64_t Trainer::steps() const { return impl_->step; }
const Model& Trainer::model() const { return impl_->engine.model(); }

std::vector<std::string> Trainer::trainable() const {
  std::vector<std::string> out;
  for (const ValueInfo& v : impl_->engine.model().graph.values)
    if (v.kind == ValueKind::state && v.role == StateRole::parameter && v.trainable &&
        is_float(v.type.dtype))
      out.push_back(v.name);
  return out;
}

void Trainer::start_profile(const ProfileOptions& options) { impl_->engine.start_profile(options); }
void Trainer::stop_profile() { impl_->engine.stop_profile(); }
Profile Trainer::profile() const { return impl_->engine.profile(); }

Result<PlanInfo> Trainer::plan(std::span<const NamedTensor> batch) { return impl_->plan(batch); }

Result<PlanDetail> Trainer::plan_detail(std::span<const NamedTensor> batch) {
  HONE_ASSIGN(const Compiled* const c, impl_->gradient_program(batch));
  return hone::plan_detail(c->program);
}

Result<StoredPlan> Trainer::search_plan(std::span<const NamedTensor> batch, double seconds) {
  HONE_ASSIGN(Compiled* const c, impl_->gradient_program(batch));
  std::string name = "training step:";
  for (const NamedTensor& t : batch) name += format(" {} {}", t.name, t.data.shape());
  return impl_->engine.search_plan(*c, seconds, std::move(name));
}

}  // namespace hone
