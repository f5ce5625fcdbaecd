// SPDX-License-Identifier: Apache-2.0
// Training within a memory limit: what it takes, changing it, and saying why one cannot be kept.
#include <algorithm>

#include "core/runtime/trainer_impl.hpp"

namespace hone {

namespace {

struct States {
  int64_t parameters = 0, optimizer = 0, other = 0, trained = 0;
};

States count(const StateStore& store, const Graph& g) {
  States s;
  for (const StateStore::Entry& e : store.entries()) {
    const int64_t bytes = e.data.bytes();
    if (e.role == StateRole::parameter) {
      s.parameters += bytes;
      const ValueId v = g.find(e.name);
      if (v != kNone && g.value(v).trainable && is_float(e.data.dtype())) s.trained += bytes;
    } else if (e.role == StateRole::optimizer) {
      s.optimizer += bytes;
    } else {
      s.other += bytes;
    }
  }
  return s;
}

std::string amount(int64_t bytes) { return format("{} bytes ({})", bytes, bytes_text(bytes)); }

}  // namespace

Result<Trainer::Impl::Least> Trainer::Impl::least(std::span<const NamedTensor> batch,
                                                  TrainForm form) {
  HONE_ASSIGN(std::unique_ptr<Compiled> c, build(batch, form, true));
  Least out;
  HONE_ASSIGN(out.arena, smallest_arena(c->program));
  out.total = out.arena + engine.states().bytes() + c->program.packed_bytes + c->reserved;
  return out;
}

Status Trainer::Impl::explain_limit(std::span<const NamedTensor> batch, TrainForm form) {
  const size_t kept = engine.states().entries().size();
  Result<Least> planned = least(batch, form);
  if (!planned.ok()) {
    engine.states().truncate(kept);
    return planned.status();
  }
  const Least least_now = *planned;
  const States s = count(engine.states(), engine.model().graph);
  std::string text = format(
      "a memory limit of {} cannot be kept for this batch: the smallest that works is {}. "
      "Parameters and buffers take {}, optimizer state {}, activations, gradients and scratch {}",
      bytes_text(engine.options().memory_limit), amount(least_now.total),
      bytes_text(s.parameters + s.other), bytes_text(s.optimizer), bytes_text(least_now.arena));
  std::string help;
  const auto suggest = [&](const std::string& what) {
    help += (help.empty() ? ". What helps: " : "; ") + what;
  };
  if (s.optimizer > 0 && form != TrainForm::gradients)
    suggest(
        format("plain SGD instead of an optimizer with state saves {}", bytes_text(s.optimizer)));
  if (options.clip_norm > 0)
    suggest(format("without clip_norm the gradients, {}, need not all be kept at once",
                   bytes_text(s.trained)));
  const Result<int64_t> samples = leading_extent(batch);
  if (samples.ok() && *samples > 1 && least_now.arena * 2 > s.optimizer) {
    const Result<Least> smaller = least(rows_of(batch, 0, *samples / 2), form);
    if (smaller.ok())
      suggest(
          format("half the batch, or micro_batches = 2, works within {}", amount(smaller->total)));
  }
  suggest("training fewer parameters (`trainable`) saves their gradients and optimizer state");
  engine.states().truncate(kept);
  return Status(Code::out_of_memory, text + help);
}

Result<PlanInfo> Trainer::Impl::plan(std::span<const NamedTensor> batch) {
  if (options.micro_batches == 1) {
    HONE_ASSIGN(Compiled* const c, program(batch, TrainForm::step));
    return engine.info(*c);
  }
  HONE_ASSIGN(const int64_t size, part_size(batch));
  const std::vector<NamedTensor> part = rows_of(batch, 0, size);
  HONE_ASSIGN(const Compiled* const apply, program({}, TrainForm::apply));
  const int64_t apply_arena = apply->program.arena.bytes;  // the next plan may drop the program
  HONE_ASSIGN(Compiled* const c, program(part, TrainForm::accumulate));
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
  HONE_ASSIGN(const int64_t size, part_size(batch));
  HONE_ASSIGN(const Least part, least(rows_of(batch, 0, size), TrainForm::accumulate));
  HONE_ASSIGN(const Least apply, least({}, TrainForm::apply));
  return std::max(part.total, apply.total);
}

Status Trainer::set_memory_limit(int64_t bytes) {
  Impl& t = *impl_;
  if (bytes < 0) return invalid("a memory limit must not be below 0, got {}", bytes);
  const int64_t before = t.engine.options().memory_limit;
  if (bytes == before) return {};
  // What is not the training step is planned anew when it is needed.
  for (auto* cache : t.engine.caches)
    if (cache != &t.caches[static_cast<size_t>(TrainForm::step)] &&
        cache != &t.caches[static_cast<size_t>(TrainForm::accumulate)] &&
        cache != &t.caches[static_cast<size_t>(TrainForm::apply)])
      cache->clear();
  std::vector<Compiled*> programs;
  for (const TrainForm form : {TrainForm::step, TrainForm::accumulate, TrainForm::apply})
    for (const auto& c : t.caches[static_cast<size_t>(form)]) programs.push_back(c.get());
  Status failed;
  for (size_t i = 0; i < programs.size() && failed.ok(); ++i)
    failed = t.engine.replan(*programs[i], bytes);
  if (failed.ok()) {
    t.engine.set_memory_limit(bytes);
    return {};
  }
  for (Compiled* c : programs) HONE_TRY(t.engine.replan(*c, before));
  t.engine.set_memory_limit(before);
  int64_t least = 0;
  for (const Compiled* c : programs) {
    HONE_ASSIGN(const int64_t arena, smallest_arena(c->program));
    least = std::max(least, arena + t.engine.fixed_bytes());
  }
  return Status(
      Code::out_of_memory,
      format("a memory limit of {} cannot be kept: the smallest that works for the batches "
             "so far is {}; the limit stays at {}",
             bytes_text(bytes), amount(least),
             before == 0 ? std::string("none") : bytes_text(before)));
}

}  // namespace hone
