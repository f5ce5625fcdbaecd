// SPDX-License-Identifier: Apache-2.0
// Programs within a memory limit: what is planned for, who must go when memory is short, and what
// to say when a limit cannot be kept.
#include <algorithm>
#include <chrono>

#include "core/runtime/engine.hpp"

namespace hone {

int64_t Engine::cached_bytes() const {
  int64_t sum = 0;
  for (const auto* cache : caches)
    for (const auto& c : *cache) sum += c->program.packed_bytes + c->reserved;
  return sum;
}

void Engine::set_memory_limit(int64_t bytes) {
  options_.memory_limit = bytes;
  arena_ = TensorData();
}

PrepareOptions Engine::how_to_prepare() const {
  constexpr int kFixedParts = 8;  // keeps eight threads busy; each part takes scratch memory
  return {.backend = options_.kernels == Kernels::best ? &default_backend() : nullptr,
          .threads = pool_->size(),
          .parts = options_.deterministic ? kFixedParts : 0,
          .hints = {.stored = model_.plans, .repeat_share = recompute_share}};
}

// Within the limit, giving up the other programs where it must be.
Result<Program> Engine::prepare_within(const Graph& graph, const CompileOptions& options) {
  PrepareOptions o = how_to_prepare();
  o.paged = &paged_;
  o.keep_base = options.replans;
  if (!options.replans) o.hints.repeat_share = 0;
  if (options_.memory_limit == 0) return prepare(graph, o);
  const auto attempt = [&](int64_t others) {
    o.memory_limit =
        std::max<int64_t>(0, options_.memory_limit - bytes_beside(graph, options, paged_) - others);
    return prepare(graph, o);
  };
  Result<Program> p = attempt(std::max(cached_bytes(), options.beside));
  if (!p.ok() && p.status().code() == Code::out_of_memory && cached_bytes() > options.beside) {
    for (auto* cache : caches) cache->clear();
    p = attempt(options.beside);
  }
  if (!p.ok() && p.status().code() == Code::out_of_memory) p = prepare_paged(graph, options);
  if (p.ok() || p.status().code() != Code::out_of_memory || options.advice.empty()) return p;
  HONE_ASSIGN(const Least smallest, least(graph, options));
  return refusal(smallest, shares(), options.advice);
}

int64_t Engine::room_for(const Compiled& c, int64_t limit, const PagedStates& paged) const {
  if (limit == 0) return kNoLimit;
  return std::max<int64_t>(0, limit - lasting_bytes(paged) - c.reserved - c.beside);
}

Result<Program> Engine::planned(const Compiled& c, int64_t limit, const PagedStates& paged) const {
  const int64_t room = room_for(c, limit, paged);
  const bool packs = c.program.packed_bytes > 0;
  if (!c.program.gave_up_packing && (paged.empty() || !packs)) {
    Result<Program> p = replanned(c.program, room, &paged, how_to_prepare().hints);
    if (p.ok() || p.status().code() != Code::out_of_memory || !packs) return p;
  }
  PrepareOptions o = how_to_prepare();
  o.paged = &paged;
  o.keep_base = true;
  o.memory_limit = room;
  return prepare(c.program.graph, o);
}

Result<StoredPlan> Engine::search_plan(Compiled& c, double seconds, std::string name) {
  if (!(seconds >= 0)) return invalid("a plan is searched for 0 or more seconds, got {}", seconds);
  using Clock = std::chrono::steady_clock;
  const auto end = Clock::now() + std::chrono::duration<double>(seconds);
  const std::function<bool()> keep_going = [&] { return Clock::now() < end; };
  PrepareOptions o = how_to_prepare();
  o.paged = &paged_;
  o.keep_base = c.program.base != nullptr;
  o.memory_limit = room_for(c, options_.memory_limit, paged_);
  o.pack = !c.program.gave_up_packing;
  o.hints.keep_going = &keep_going;
  HONE_ASSIGN(Program plan, prepare(c.program.graph, o));
  plan.gave_up_packing = c.program.gave_up_packing;
  HONE_TRY(adopt(c, std::move(plan)));
  HONE_TRY(bind(c));
  const Program& p = c.program;
  return StoredPlan{std::move(name), p.problem, p.room, p.arena.bytes, p.runs, p.arena.offsets};
}

// Programs that were made one after the other may together pass the limit: the others go then, and
// an arena that is larger than this program needs; where states have been added, it is planned
// anew.
Status Engine::keep_limit(Compiled& c) {
  const int64_t limit = options_.memory_limit;
  if (limit == 0) return {};
  const auto holds = [&](const auto& cache) {
    return std::any_of(cache.begin(), cache.end(), [&](const auto& p) { return p.get() == &c; });
  };
  const bool cached =
      std::any_of(caches.begin(), caches.end(), [&](auto* all) { return holds(*all); });
  const int64_t own = cached ? 0 : c.program.packed_bytes + c.reserved;
  const int64_t while_running = c.program.arena.bytes + c.program.window_bytes;
  if (cached && fixed_bytes() + while_running > limit)
    for (auto* cache : caches)
      cache->erase(std::remove_if(cache->begin(), cache->end(),
                                  [&](const auto& p) { return p.get() != &c; }),
                   cache->end());
  if (cached && c.program.base && fixed_bytes() + while_running > limit) {
    HONE_ASSIGN(Program plan, planned(c, limit));
    HONE_TRY(adopt(c, std::move(plan)));
  }
  if (arena_.defined() && arena_.bytes() > c.program.arena.bytes &&
      fixed_bytes() + own + c.program.window_bytes + arena_.bytes() > limit)
    arena_ = TensorData();
  return {};
}

Result<Engine::Least> Engine::least(const Graph& graph, const CompileOptions& options) const {
  HONE_ASSIGN(Least in_memory, least(graph, options, paged_));
  const std::vector<std::string> names = pageable(graph, paged_);
  if (names.empty()) return in_memory;
  PagedStates all = paged_;
  all.insert(names.begin(), names.end());
  HONE_ASSIGN(Least in_files, least(graph, options, all));
  return in_files.total < in_memory.total ? in_files : in_memory;
}

Result<Engine::Least> Engine::least(const Graph& graph, const CompileOptions& options,
                                    const PagedStates& paged) const {
  PrepareOptions o = how_to_prepare();
  o.smallest = true;
  o.paged = &paged;
  HONE_ASSIGN(Program p, prepare(graph, o));
  if (p.packed_bytes > 0) {  // the first to go when memory is short
    o.pack = false;
    HONE_ASSIGN(Program plain, prepare(graph, o));
    if (plain.arena.bytes < p.arena.bytes + p.packed_bytes) p = std::move(plain);
  }
  Least out;
  out.arena = p.arena.bytes;
  out.packed = p.packed_bytes;
  const int64_t beside = bytes_beside(graph, options, paged);
  out.in_files = bytes_beside(graph, options, {}) - beside;
  out.total = beside + options.beside + out.arena + out.packed + p.window_bytes;
  const PlanDetail detail = plan_detail(p);
  if (detail.peak_step >= 0) out.where = detail.steps[static_cast<size_t>(detail.peak_step)].name;
  return out;
}

Engine::Shares Engine::shares() const {
  Shares s;
  for (const StateStore::Entry& e : states_.entries()) {
    int64_t& share = e.role == StateRole::parameter   ? s.parameters
                     : e.role == StateRole::optimizer ? s.optimizer
                                                      : s.other;
    share += e.data.bytes();
  }
  return s;
}

Status Engine::refusal(const Least& least, const Shares& shares, std::string_view advice) const {
  std::string text = format(
      "a memory limit of {} cannot be kept for these shapes: the smallest that works is {} bytes "
      "({}). Parameters and buffers take {}, ",
      bytes_text(options_.memory_limit), least.total, bytes_text(least.total),
      bytes_text(shares.parameters + shares.other));
  if (shares.optimizer > 0) text += format("optimizer state {}, ", bytes_text(shares.optimizer));
  text += format("what is computed and scratch {}", bytes_text(least.arena));
  if (!least.where.empty()) text += format(" (the most at {})", least.where);
  if (least.in_files > 0)
    text += format(", all but {} of it in memory", bytes_text(least.in_files));
  if (least.packed > 0)
    text += format(", weights in a kernel's layout {}", bytes_text(least.packed));
  return Status(Code::out_of_memory, text + "; " + std::string(advice));
}

}  // namespace hone
