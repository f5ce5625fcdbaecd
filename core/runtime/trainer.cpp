// SPDX-License-Identifier: Apache-2.0
// Trainers: the programs of the training step, and what they are fed.
#include "hone/trainer.hpp"

#include <algorithm>
#include <cmath>

#include "core/runtime/engine.hpp"
#include "core/runtime/train_graph.hpp"
#include "hone/specialise.hpp"

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

// The first step after which the loss is known; everything that changes a state comes later.
size_t steps_until_loss(const Program& p) {
  for (size_t i = p.steps.size(); i-- > 0;)
    for (BufferId id : p.steps[i].writes) {
      const Buffer& b = p.buffers[static_cast<size_t>(id)];
      if (b.kind == BufferKind::output && b.index == 0) return i + 1;
    }
  return 0;
}

Status check_options(const TrainerOptions& o) {
  if (!o.loss) return invalid("a trainer needs a loss");
  if (!(o.optimizer.lr >= 0) || !std::isfinite(o.optimizer.lr))
    return invalid("the learning rate must be a number not below 0, got {}", o.optimizer.lr);
  if (!(o.clip_norm >= 0)) return invalid("clip_norm must not be below 0, got {}", o.clip_norm);
  if (o.optimizer.nesterov && o.optimizer.momentum <= 0)
    return invalid("Nesterov momentum needs momentum above 0, got {}", o.optimizer.momentum);
  for (const double beta : {o.optimizer.beta1, o.optimizer.beta2})
    if (!(beta >= 0 && beta < 1))
      return invalid("beta1 and beta2 must be in [0, 1), got {} and {}", o.optimizer.beta1,
                     o.optimizer.beta2);
  return {};
}

}  // namespace

struct Trainer::Impl {
  Impl(Model model, const TrainerOptions& o) : options(o), engine(std::move(model), o.session) {}

  TrainerOptions options;
  Engine engine;
  int64_t step = 0;
  float lr = 0;
  int64_t step_number = 0;
  std::vector<std::unique_ptr<Compiled>> caches[3];  // by TrainForm

  // The program for a batch like this one: found without allocating, or built.
  Result<Compiled*> program(std::span<const NamedTensor> batch, TrainForm form) {
    std::vector<std::unique_ptr<Compiled>>& cache = caches[static_cast<size_t>(form)];
    for (const auto& c : cache) {
      bool same = c->names.size() == batch.size();
      for (size_t i = 0; same && i < batch.size(); ++i)
        same = c->names[i] == batch[i].name && c->types[i] == batch[i].data.type();
      if (!same) continue;
      HONE_ASSIGN(const bool holds, assumptions_hold(*c, batch));
      if (!holds) continue;
      c->last_used = engine.next_use();
      HONE_TRY(engine.bind(*c));
      return c.get();
    }
    HONE_ASSIGN(std::unique_ptr<Compiled> made, build(batch, form));
    cache.push_back(std::move(made));
    Compiled* c = cache.back().get();
    engine.trim(cache);
    return c;
  }

  Result<std::unique_ptr<Compiled>> build(std::span<const NamedTensor> batch, TrainForm form) {
    const Graph& g = engine.model().graph;
    std::vector<Shape> shapes(g.inputs.size());
    std::vector<bool> given(g.inputs.size(), false);
    std::vector<std::pair<std::string, TensorType>> targets;
    for (const NamedTensor& t : batch) {
      if (!t.data.defined()) return invalid("'{}' of the batch has no data", t.name);
      const auto it = std::find_if(g.inputs.begin(), g.inputs.end(),
                                   [&](ValueId v) { return g.value(v).name == t.name; });
      if (it == g.inputs.end()) {
        targets.emplace_back(t.name, t.data.type());
        continue;
      }
      HONE_TRY(check_dtype(g, *it, t.data.dtype()));
      const size_t i = static_cast<size_t>(it - g.inputs.begin());
      if (given[i]) return invalid("the batch has '{}' twice", t.name);
      given[i] = true;
      shapes[i] = t.data.shape();
    }
    for (size_t i = 0; i < given.size(); ++i)
      if (!given[i])
        return invalid("the batch lacks the model's input '{}'", g.value(g.inputs[i]).name);
    std::vector<Compiled::Assumption> assumptions;
    const Evaluate evaluate = [&](const Graph& so_far, ValueId value) -> Result<TensorData> {
      HONE_ASSIGN(std::unique_ptr<Compiled> program, prefix(so_far, value));
      HONE_ASSIGN(TensorData content, run_prefix(*program, batch));
      assumptions.push_back({std::move(program), content});
      return content;
    };
    HONE_ASSIGN(TrainGraph train,
                build_train_graph(engine.model(), shapes, targets, options, form, evaluate));
    for (TrainGraph::NewState& s : train.new_states)
      if (!engine.states().find(s.name))
        engine.states().set(s.name, StateRole::optimizer, std::move(s.data));
    HONE_TRY(add_rng(train.graph));
    HONE_ASSIGN(std::unique_ptr<Compiled> c, engine.compile(std::move(train.graph)));
    const Graph& made = c->program.graph;
    for (const NamedTensor& t : batch) {
      c->names.push_back(t.name);
      c->types.push_back(t.data.type());
      int32_t slot = -1;
      for (size_t i = 0; i < made.inputs.size(); ++i)
        if (made.value(made.inputs[i]).name == t.name) slot = static_cast<int32_t>(i);
      c->slot_of.push_back(slot);
    }
    for (size_t i = 0; i < made.inputs.size(); ++i) {
      if (made.value(made.inputs[i]).name == kLrInput) c->input_pointers[i] = &lr;
      if (made.value(made.inputs[i]).name == kStepInput) c->input_pointers[i] = &step_number;
    }
    for (size_t i = 0; i < made.outputs.size(); ++i) {
      HONE_ASSIGN(TensorData t, TensorData::allocate(made.type(made.outputs[i].value)));
      c->output_pointers[i] = t.mutable_data();
      c->held.push_back(std::move(t));
    }
    c->assumptions = std::move(assumptions);
    c->last_used = engine.next_use();
    return c;
  }

  // A program for one value of a graph that is not finished yet.
  Result<std::unique_ptr<Compiled>> prefix(Graph g, ValueId value) {
    g.outputs = {{value, "value", {}, false}};
    g.updates.clear();
    HONE_TRY(remove_dead(g));
    HONE_TRY(add_rng(g));
    return engine.compile(std::move(g));
  }

  Result<TensorData> run_prefix(Compiled& c, std::span<const NamedTensor> batch) {
    const Graph& g = c.program.graph;
    for (size_t i = 0; i < g.inputs.size(); ++i)
      for (const NamedTensor& t : batch)
        if (t.name == g.value(g.inputs[i]).name) c.input_pointers[i] = t.data.data();
    HONE_ASSIGN(TensorData out, TensorData::allocate(g.type(g.outputs[0].value)));
    c.output_pointers[0] = out.mutable_data();
    HONE_TRY(engine.bind(c));
    HONE_TRY(engine.run(c));
    return out;
  }

  // Whether a graph whose shapes or branches depend on data is the one for this batch.
  Result<bool> assumptions_hold(Compiled& c, std::span<const NamedTensor> batch) {
    for (const Compiled::Assumption& a : c.assumptions) {
      HONE_ASSIGN(const TensorData now, run_prefix(*a.program, batch));
      const auto x = now.as_bytes(), y = a.content.as_bytes();
      if (!std::equal(x.begin(), x.end(), y.begin(), y.end())) return false;
    }
    return true;
  }

  // The random state, seeded from the options when the first graph that draws numbers appears.
  Status add_rng(const Graph& g) {
    for (ValueId v : g.states(StateRole::rng)) {
      if (engine.states().find(g.value(v).name)) continue;
      HONE_ASSIGN(TensorData data, TensorData::zeros({DType::i64, {2}}));
      data.as_mutable<int64_t>()[0] = static_cast<int64_t>(options.seed);
      engine.states().set(g.value(v).name, StateRole::rng, std::move(data));
    }
    return {};
  }

  void feed(Compiled& c, std::span<const NamedTensor> batch) {
    for (size_t i = 0; i < batch.size(); ++i)
      if (c.slot_of[i] >= 0)
        c.input_pointers[static_cast<size_t>(c.slot_of[i])] = batch[i].data.data();
  }

  // Runs up to the loss and refuses to go on when it is not finite.
  Result<double> run_to_loss(Compiled& c, size_t& done) {
    done = steps_until_loss(c.program);
    HONE_TRY(engine.run(c, 0, done));
    const double loss = c.held[0].at(0);
    if (!std::isfinite(loss))
      return invalid(
          "the loss of step {} is {}: nothing was updated; look for NaN or infinity in the batch, "
          "lower the learning rate (now {}) or clip gradients",
          step, loss, static_cast<double>(lr));
    return loss;
  }
};

Trainer::Trainer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Trainer::Trainer(Trainer&&) noexcept = default;
Trainer& Trainer::operator=(Trainer&&) noexcept = default;
Trainer::~Trainer() = default;

Result<Trainer> Trainer::create(const Model& model, TrainerOptions options) {
  HONE_TRY(check_options(options));
  if (options.session.threads < 1 && !options.session.pool)
    return invalid("a trainer needs at least one thread, got {}", options.session.threads);
  Model copy = model;
  int64_t trainable = 0;
  std::string names;
  for (ValueInfo& v : copy.graph.values) {
    if (v.kind != ValueKind::state) continue;
    HONE_ASSIGN(v.data, v.data.clone());
    if (v.role != StateRole::parameter || !is_float(v.type.dtype)) continue;
    v.trainable = v.trainable && matches(options.trainable, v.name);
    trainable += v.trainable;
    if (names.size() < 200) names += format("{}'{}'", names.empty() ? "" : ", ", v.name);
  }
  if (trainable == 0)
    return invalid("no parameter matches trainable pattern '{}'; the model's parameters are {}",
                   options.trainable, names.empty() ? "none" : names);
  return Trainer(std::make_unique<Impl>(std::move(copy), options));
}

Result<StepResult> Trainer::step(std::span<const NamedTensor> batch) {
  Impl& t = *impl_;
  t.lr =
      static_cast<float>(t.options.schedule ? t.options.schedule(t.step) : t.options.optimizer.lr);
  t.step_number = t.step + 1;
  HONE_ASSIGN(Compiled* const c, t.program(batch, TrainForm::step));
  t.feed(*c, batch);
  size_t done = 0;
  HONE_ASSIGN(const double loss, t.run_to_loss(*c, done));
  HONE_TRY(t.engine.run(*c, done, c->program.steps.size()));
  t.engine.states().changed();
  c->packed_version =
      t.engine.states().version();  // a training program packs nothing that it changes itself
  StepResult r{t.step, loss, static_cast<double>(t.lr), 0};
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

Result<PlanInfo> Trainer::plan(std::span<const NamedTensor> batch) {
  HONE_ASSIGN(Compiled* const c, impl_->program(batch, TrainForm::step));
  return impl_->engine.info(*c);
}

Result<Trainer::State> Trainer::save() const {
  State out;
  out.step = impl_->step;
  for (const StateStore::Entry& e : impl_->engine.states().entries()) {
    HONE_ASSIGN(TensorData copy, e.data.clone());
    out.entries.push_back({e.name, e.role, std::move(copy)});
  }
  return out;
}

Status Trainer::restore(const State& state) {
  StateStore& store = impl_->engine.states();
  std::string problems;
  const auto complain = [&](std::string text) {
    problems += (problems.empty() ? "" : "; ") + text;
  };
  for (const StateTensor& e : state.entries) {
    const StateStore::Entry* own = store.find(e.name);
    if (!own && (e.role == StateRole::parameter || e.role == StateRole::buffer))
      complain(format("'{}' is not in the model", e.name));
    if (own && own->data.type() != e.data.type())
      complain(format("'{}' is {}, the model has {}", e.name, e.data.type(), own->data.type()));
  }
  for (const StateStore::Entry& own : store.entries()) {
    const bool there = std::any_of(state.entries.begin(), state.entries.end(),
                                   [&](const StateTensor& e) { return e.name == own.name; });
    if (!there) complain(format("'{}' is missing", own.name));
  }
  if (!problems.empty()) return invalid("the saved state does not fit this trainer: {}", problems);
  std::vector<TensorData> copies;
  for (const StateTensor& e : state.entries) {
    HONE_ASSIGN(TensorData copy, e.data.clone());
    copies.push_back(std::move(copy));
  }
  for (size_t i = 0; i < copies.size(); ++i) {
    const StateStore::Entry* own = store.find(state.entries[i].name);
    if (own) {  // in place: programs hold pointers
      TensorData target = own->data;
      std::copy_n(static_cast<const char*>(copies[i].data()), copies[i].bytes(),
                  static_cast<char*>(target.mutable_data()));
    } else {
      store.set(state.entries[i].name, state.entries[i].role, std::move(copies[i]));
    }
  }
  store.changed();
  impl_->step = state.step;
  return {};
}

}  // namespace hone
