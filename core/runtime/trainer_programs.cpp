// SPDX-License-Identifier: Apache-2.0
// How a trainer gets the program for a batch.
#include <algorithm>
#include <cmath>

#include "core/runtime/trainer_impl.hpp"
#include "hone/specialise.hpp"

namespace hone {

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

// Of the outputs of a program that adds gradients up; the loss may be wide.
constexpr int64_t kLossAndWeightBytes = 12;

int64_t output_bytes(const Graph& g) {
  int64_t sum = 0;
  for (const GraphOutput& o : g.outputs) sum += g.type(o.value).bytes();
  return sum;
}

}  // namespace

Trainer::Impl::Impl(Model model, TrainerOptions o)
    : options(std::move(o)), engine(std::move(model), options.session) {
  for (auto& cache : caches) engine.caches.push_back(&cache);
  engine.spill_folder = options.spill_folder;
  engine.recompute_share = options.recompute_share;
}

Result<Compiled*> Trainer::Impl::program(std::span<const NamedTensor> batch, TrainForm form) {
  std::vector<std::unique_ptr<Compiled>>& cache = caches[static_cast<size_t>(form)];
  for (const auto& c : cache) {
    bool same = c->names.size() == batch.size();
    for (size_t i = 0; same && i < batch.size(); ++i)
      same = c->names[i] == batch[i].name && c->types[i] == batch[i].data.type();
    if (!same) continue;
    HONE_ASSIGN(const bool holds, assumptions_hold(*c, batch));
    if (!holds) continue;
    Compiled* const same_types = c.get();  // binding may drop the others
    same_types->last_used = engine.next_use();
    HONE_TRY(engine.bind(*same_types));
    return same_types;
  }
  const size_t kept = engine.states().entries().size();
  Result<std::unique_ptr<Compiled>> made = build(batch, form);
  if (!made.ok()) engine.states().truncate(kept);
  if (!made.ok() && made.status().code() == Code::out_of_memory &&
      engine.options().memory_limit > 0)
    return explain_limit(batch, form, made.status());
  if (!made.ok()) return made.status();
  cache.push_back(std::move(*made));
  Compiled* c = cache.back().get();
  engine.trim(cache);
  return c;
}

Result<Compiled*> Trainer::Impl::gradient_program(std::span<const NamedTensor> batch) {
  if (options.micro_batches == 1) return program(batch, TrainForm::step);
  HONE_ASSIGN(const int64_t size, part_size(batch));
  return program(rows_of(batch, 0, size), TrainForm::accumulate);
}

Result<TrainGraph> Trainer::Impl::graph_for(std::span<const NamedTensor> batch, TrainForm form,
                                            std::vector<Compiled::Assumption>& assumptions) {
  if (form == TrainForm::apply) return build_apply_graph(engine.model(), options);
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
    HONE_TRY(check_extents(g, *it, t.data.shape(), options.session.max_dims));
    const size_t i = static_cast<size_t>(it - g.inputs.begin());
    if (given[i]) return invalid("the batch has '{}' twice", t.name);
    given[i] = true;
    shapes[i] = t.data.shape();
  }
  for (size_t i = 0; i < given.size(); ++i)
    if (!given[i])
      return invalid("the batch lacks the model's input '{}'", g.value(g.inputs[i]).name);
  const Evaluate evaluate = [&](const Graph& so_far, ValueId value) -> Result<TensorData> {
    HONE_ASSIGN(std::unique_ptr<Compiled> program, prefix(so_far, value));
    HONE_ASSIGN(TensorData content, run_prefix(*program, batch));
    assumptions.push_back({std::move(program), content});
    return content;
  };
  return build_train_graph(engine.model(), shapes, targets, options, form, evaluate);
}

void Trainer::Impl::note_new_states(std::span<const TrainGraph::NewState> states, Draft& d) const {
  std::set<std::string> noted;  // copies: the list moves its names when it grows
  for (const StateTensor& s : d.new_states) noted.insert(s.name);
  for (const TrainGraph::NewState& s : states) {
    if (engine.states().find(s.name) || !noted.insert(s.name).second) continue;
    d.new_states.push_back(
        {s.name, StateRole::optimizer, TensorData::borrow(s.type, nullptr, nullptr)});
    d.optimizer += s.type.bytes();
  }
}

Result<Trainer::Impl::Draft> Trainer::Impl::draft(std::span<const NamedTensor> batch,
                                                  TrainForm form) {
  Draft d;
  HONE_ASSIGN(TrainGraph train, graph_for(batch, form, d.assumptions));
  note_new_states(train.new_states, d);
  d.options.replans = true;
  d.options.reserved = output_bytes(train.graph);
  // With micro-batches two programs take turns: both are to stay.
  if (form == TrainForm::accumulate) {
    HONE_ASSIGN(const TrainGraph apply, build_apply_graph(engine.model(), options));
    note_new_states(apply.new_states, d);  // the update needs its moments: they count from now on
    d.options.beside = output_bytes(apply.graph);
  } else if (form == TrainForm::apply) {
    d.options.beside = kLossAndWeightBytes;
  }
  for (ValueId v : train.graph.states(StateRole::rng)) {
    const ValueInfo& info = train.graph.value(v);
    if (!engine.states().find(info.name)) d.new_states.push_back({info.name, info.role, info.data});
  }
  if (form == TrainForm::accumulate && options.micro_batches > 1)
    for (const StateUpdate& u : train.graph.updates) {
      const ValueInfo& info = train.graph.value(u.state);
      const bool known = std::any_of(undo.begin(), undo.end(),
                                     [&](const StateTensor& s) { return s.name == info.name; });
      if (info.role != StateRole::optimizer && !known)
        d.undo.push_back({info.name, info.role, info.data});
    }
  for (const auto* added : {&d.new_states, &d.undo})
    for (const StateTensor& s : *added) d.options.added += s.data.type().bytes();
  // A prefix keeps its value, and makes it once more to see whether it still holds.
  for (const Compiled::Assumption& a : d.assumptions)
    d.options.reserved += 2 * a.content.bytes() + a.program->program.packed_bytes;
  d.graph = std::move(train.graph);
  return d;
}

Status Trainer::Impl::add_states(const Draft& d) {
  for (const StateTensor& s : d.new_states) {
    HONE_ASSIGN(TensorData zeros, engine.state_zeros(s.name, s.data.type()));
    if (s.role == StateRole::rng)
      zeros.as_mutable<int64_t>()[0] = static_cast<int64_t>(options.seed);
    engine.states().set(s.name, s.role, std::move(zeros));
  }
  for (const StateTensor& s : d.undo) {
    HONE_ASSIGN(TensorData copy, TensorData::zeros(s.data.type()));
    engine.kept_bytes += copy.bytes();
    undo.push_back({s.name, s.role, std::move(copy)});
  }
  return {};
}

Result<std::unique_ptr<Compiled>> Trainer::Impl::build(std::span<const NamedTensor> batch,
                                                       TrainForm form) {
  HONE_ASSIGN(Draft d, draft(batch, form));
  HONE_ASSIGN(std::unique_ptr<Compiled> c, engine.compile(std::move(d.graph), d.options));
  HONE_TRY(add_states(d));
  // The store has the content; another copy in the graph would stay as long as the program.
  Graph& made = c->program.graph;
  for (ValueInfo& v : made.values)
    if (v.kind == ValueKind::state)
      if (const StateStore::Entry* e = engine.states().find(v.name)) v.data = e->data;
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
  c->assumptions = std::move(d.assumptions);
  for (const Compiled::Assumption& a : c->assumptions) {  // beside all this from now on
    a.program->beside = c->reserved;
    HONE_ASSIGN(Program plan, engine.planned(*a.program, engine.options().memory_limit));
    HONE_TRY(engine.adopt(*a.program, std::move(plan)));
  }
  HONE_TRY(engine.bind(*c));
  c->last_used = engine.next_use();
  return c;
}

// A program for one value of a graph that is not finished yet.
Result<std::unique_ptr<Compiled>> Trainer::Impl::prefix(Graph g, ValueId value) {
  g.outputs = {{value, "value", {}, false}};
  g.updates.clear();
  HONE_TRY(remove_dead(g));
  HONE_TRY(add_rng(g));
  const int64_t result = g.type(g.outputs[0].value).bytes();  // renumbered by now
  return engine.compile(std::move(g),
                        {.reserved = 2 * result,
                         .replans = true,
                         .advice = "so much takes what shapes and branches depend on alone, the "
                                   "rest may take more; a smaller batch takes less"});
}

Result<TensorData> Trainer::Impl::run_prefix(Compiled& c, std::span<const NamedTensor> batch) {
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
Result<bool> Trainer::Impl::assumptions_hold(Compiled& c, std::span<const NamedTensor> batch) {
  for (const Compiled::Assumption& a : c.assumptions) {
    HONE_ASSIGN(const TensorData now, run_prefix(*a.program, batch));
    const auto x = now.as_bytes(), y = a.content.as_bytes();
    if (!std::equal(x.begin(), x.end(), y.begin(), y.end())) return false;
  }
  return true;
}

// The random state, seeded from the options when the first graph that draws numbers appears.
Status Trainer::Impl::add_rng(const Graph& g) {
  for (ValueId v : g.states(StateRole::rng)) {
    if (engine.states().find(g.value(v).name)) continue;
    HONE_ASSIGN(TensorData data, TensorData::zeros({DType::i64, {2}}));
    data.as_mutable<int64_t>()[0] = static_cast<int64_t>(options.seed);
    engine.states().set(g.value(v).name, StateRole::rng, std::move(data));
  }
  return {};
}

void Trainer::Impl::feed(Compiled& c, std::span<const NamedTensor> batch) {
  for (size_t i = 0; i < batch.size(); ++i)
    if (c.slot_of[i] >= 0)
      c.input_pointers[static_cast<size_t>(c.slot_of[i])] = batch[i].data.data();
}

Result<double> Trainer::Impl::run_to_loss(Compiled& c, size_t& done) {
  done = steps_until_loss(c.program);
  HONE_TRY(engine.run(c, 0, done));
  const double loss = c.held[0].at(0);
  if (!std::isfinite(loss))
    return invalid(
        "the loss of step {} is {}: nothing was updated; look for NaN or infinity in the batch, "
        "lower the learning rate (now {}) or clip gradients",
        step, loss, lr);
  return loss;
}

Status Trainer::Impl::run_rest(Compiled& c, size_t done) {
  HONE_TRY(engine.run(c, done, c.program.steps.size()));
  engine.states().changed();
  c.packed_version =
      engine.states().version();  // a training program packs nothing that it changes itself
  return {};
}

void Trainer::Impl::begin_step() {
  lr = options.schedule ? options.schedule(step) : options.optimizer.lr;
  step_number = step + 1;
}

}  // namespace hone
