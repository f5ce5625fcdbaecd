// SPDX-License-Identifier: Apache-2.0
// Training within a memory limit: what it takes, changing it, and saying why one cannot be kept.
#include <algorithm>

#include "core/runtime/trainer_impl.hpp"

namespace hone {

namespace {

std::string amount(int64_t bytes) { return format("{} bytes ({})", bytes, bytes_text(bytes)); }

bool updates(TrainForm form) {
  return form == TrainForm::step || form == TrainForm::accumulate || form == TrainForm::apply;
}

}  // namespace

Result<Trainer::Impl::Least> Trainer::Impl::least(std::span<const NamedTensor> batch,
                                                  TrainForm form) {
  HONE_ASSIGN(const Draft d, draft(batch, form));
  Least out;
  out.optimizer = d.optimizer;
  Engine::Least& most = out;
  HONE_ASSIGN(most, engine.least(d.graph, d.options));
  const auto consider = [&](const Graph& g, const Engine::CompileOptions& with) -> Status {
    HONE_ASSIGN(Engine::Least other, engine.least(g, with));
    if (other.total > most.total) most = std::move(other);
    return {};
  };
  for (const Compiled::Assumption& a : d.assumptions)
    HONE_TRY(consider(
        a.program->program.graph,
        {.reserved = d.options.reserved + 2 * a.content.bytes(), .added = d.options.added}));
  if (form == TrainForm::accumulate) {
    HONE_ASSIGN(Draft update, draft({}, TrainForm::apply));
    update.options.added = d.options.added;
    HONE_TRY(consider(update.graph, update.options));
  }
  return out;
}

// What would help, as numbers where they can be had.
std::string Trainer::Impl::advice(std::span<const NamedTensor> batch, TrainForm form,
                                  const Least& now) {
  std::string help = "what helps: ";
  const auto suggest = [&](const std::string& what) {
    if (!help.ends_with(": ")) help += "; ";
    help += what;
  };
  const Graph& g = engine.model().graph;
  int64_t trained = 0, moments = 0;
  for (ValueId v : g.states(StateRole::parameter)) {
    const TensorType& type = g.type(v);
    if (!g.value(v).trainable || !is_float(type.dtype)) continue;
    trained += type.bytes();
    moments += type.shape.numel() * (type.dtype == DType::f64 ? 8 : 4);
  }
  const int of_each = options.optimizer.kind != OptimizerKind::sgd ? 2
                      : options.optimizer.momentum != 0            ? 1
                                                                   : 0;
  if (of_each > 0 && updates(form))
    suggest(format("plain SGD instead of an optimizer with state saves {}",
                   bytes_text(of_each * moments)));
  if (options.clip_norm > 0 && updates(form))
    suggest(format("without clip_norm the gradients, {}, need not all be kept at once",
                   bytes_text(trained)));
  const Result<int64_t> samples = leading_extent(batch);
  if (samples.ok() && *samples > 1 && 8 * now.arena > now.total) {
    const std::vector<NamedTensor> half_batch = rows_of(batch, 0, (*samples + 1) / 2);
    const bool cut = form == TrainForm::accumulate && options.micro_batches > 1;
    const Result<Least> half = least(half_batch, form);
    if (half.ok() && half->total < now.total)
      suggest(
          format("{} works within {}",
                 cut ? format("micro_batches = {}", 2 * options.micro_batches) : "half the batch",
                 amount(half->total)));
    if (form == TrainForm::step) {
      options.micro_batches = 2;
      const Result<Least> parts = least(half_batch, TrainForm::accumulate);
      options.micro_batches = 1;
      if (parts.ok() && parts->total < now.total)
        suggest(format("micro_batches = 2 works within {}", amount(parts->total)));
    }
  }
  if (of_each > 0 && updates(form) && engine.spill_folder.empty())
    suggest("optimizer state may be left in files (`spill_folder`)");
  if (form != TrainForm::loss)
    suggest("training fewer parameters (`trainable`) saves their gradients and optimizer state");
  return help;
}

Status Trainer::Impl::explain_limit(std::span<const NamedTensor> batch, TrainForm form,
                                    Status refused) {
  const size_t kept = engine.states().entries().size();
  const Result<Least> now = least(batch, form);
  Status out = now.ok() ? std::move(refused) : now.status();
  if (now.ok() && now->total > engine.options().memory_limit) {
    Engine::Shares shares = engine.shares();
    shares.optimizer += now->optimizer;
    out = engine.refusal(*now, shares, advice(batch, form, *now));
  }
  engine.states().truncate(kept);
  return out;
}

Result<PlanInfo> Trainer::Impl::plan(std::span<const NamedTensor> batch) {
  HONE_ASSIGN(const Compiled* c, gradient_program(batch));
  if (options.micro_batches == 1) return engine.info(*c);
  HONE_ASSIGN(const Compiled* const apply, program({}, TrainForm::apply));
  const int64_t apply_arena = apply->program.arena.bytes;
  HONE_ASSIGN(c, gradient_program(batch));  // the other may have taken its place
  PlanInfo info = engine.info(*c);
  info.peak_bytes += std::max<int64_t>(0, apply_arena - info.arena_bytes);
  return info;
}

Result<int64_t> Trainer::smallest_memory_limit(std::span<const NamedTensor> batch) {
  Impl& t = *impl_;
  const size_t kept = t.engine.states().entries().size();
  Result<int64_t> out = t.least_of_all(batch);
  t.engine.states().truncate(kept);
  return out;
}

Result<int64_t> Trainer::Impl::least_of_all(std::span<const NamedTensor> batch) {
  if (options.micro_batches == 1) {
    HONE_ASSIGN(const Least step_least, least(batch, TrainForm::step));
    return step_least.total;
  }
  HONE_ASSIGN(const int64_t samples, leading_extent(batch));
  HONE_ASSIGN(const int64_t size, part_size(batch));
  HONE_ASSIGN(const Least part, least(rows_of(batch, 0, size), TrainForm::accumulate));
  if (samples % size == 0) return part.total;
  HONE_ASSIGN(const Least last,
              least(rows_of(batch, samples - samples % size, samples), TrainForm::accumulate));
  return std::max(part.total, last.total);
}

Status Trainer::set_memory_limit(int64_t bytes) {
  Impl& t = *impl_;
  if (bytes < 0) return invalid("a memory limit must not be below 0, got {}", bytes);
  const int64_t before = t.engine.options().memory_limit;
  if (bytes == before) return {};
  std::vector<Compiled*> programs;
  for (const TrainForm form : {TrainForm::step, TrainForm::accumulate, TrainForm::apply})
    for (const auto& c : t.caches[static_cast<size_t>(form)]) {
      programs.push_back(c.get());
      for (const Compiled::Assumption& a : c->assumptions) programs.push_back(a.program.get());
    }
  Result<Impl::Plans> found = t.plans_within(bytes, programs);
  if (!found.ok() && found.status().code() == Code::out_of_memory)
    return t.explain_new_limit(bytes, programs);
  if (!found.ok()) return found.status();
  HONE_TRY(t.engine.set_paged(std::move(found->paged)));
  // What is not the training step is planned anew when it is needed.
  for (auto* cache : t.engine.caches)
    if (std::none_of(cache->begin(), cache->end(), [&](const auto& c) {
          return std::find(programs.begin(), programs.end(), c.get()) != programs.end();
        }))
      cache->clear();
  t.engine.set_memory_limit(bytes);
  for (size_t i = 0; i < programs.size(); ++i)
    HONE_TRY(t.engine.adopt(*programs[i], std::move(found->plans[i])));
  return {};
}

// With the fewest states in files.
Result<Trainer::Impl::Plans> Trainer::Impl::plans_within(
    int64_t bytes, std::span<const Compiled* const> programs) const {
  std::vector<const Graph*> graphs;
  for (const Compiled* c : programs) graphs.push_back(&c->program.graph);
  const auto attempt = [&](const PagedStates& paged) -> Result<Plans> {
    Plans out{{}, paged};
    for (const Compiled* c : programs) {
      HONE_ASSIGN(Program plan, engine.planned(*c, bytes, paged));
      out.plans.push_back(std::move(plan));
    }
    return out;
  };
  Result<Plans> in_memory = attempt({});
  const std::vector<std::string> names = engine.pageable(graphs, {});
  if (in_memory.ok() || in_memory.status().code() != Code::out_of_memory || names.empty())
    return in_memory;
  return with_fewest(names, {}, attempt);
}

Status Trainer::Impl::explain_new_limit(int64_t bytes, std::span<const Compiled* const> programs) {
  int64_t smallest = 0;
  for (const Compiled* c : programs) {
    HONE_ASSIGN(const Engine::Least own,
                engine.least(c->program.graph, {.reserved = c->reserved, .beside = c->beside}));
    smallest = std::max(smallest, own.total);
  }
  const int64_t before = engine.options().memory_limit;
  return Status(Code::out_of_memory,
                format("a memory limit of {} cannot be kept: the smallest that works for the "
                       "batches so far is {}; the limit stays at {}",
                       bytes_text(bytes), amount(smallest),
                       before == 0 ? std::string("none") : bytes_text(before)));
}

}  // namespace hone
