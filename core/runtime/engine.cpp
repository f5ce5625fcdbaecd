// SPDX-License-Identifier: Apache-2.0
// Preparing, binding and running of programs.
#include "core/runtime/engine.hpp"

#include <algorithm>

#include "core/base/platform.hpp"
#include "core/runtime/profiler.hpp"
#include "core/runtime/staged.hpp"
#include "hone/specialise.hpp"

namespace hone {

void StateStore::set(std::string_view name, StateRole role, TensorData data) {
  const auto [it, added] = index_.try_emplace(std::string(name), entries_.size());
  if (added)
    entries_.push_back({std::string(name), role, std::move(data)});
  else
    entries_[it->second].data = std::move(data);
  changed();
}

const StateStore::Entry* StateStore::find(std::string_view name) const {
  const auto it = index_.find(std::string(name));
  return it == index_.end() ? nullptr : &entries_[it->second];
}

void StateStore::truncate(size_t count) {
  while (entries_.size() > count) {
    index_.erase(entries_.back().name);
    entries_.pop_back();
  }
}

int64_t StateStore::bytes() const {
  int64_t sum = 0;
  for (const Entry& e : entries_) sum += e.data.bytes();
  return sum;
}

Engine::Engine(Model model, const SessionOptions& options)
    : model_(std::move(model)), options_(options) {
  if (options.pool)
    pool_ = options.pool;
  else if (options.threads == 1)
    pool_ = &serial_pool();
  else
    own_pool_ = make_thread_pool(options.threads), pool_ = own_pool_.get();
  for (const ValueInfo& v : model_.graph.values)
    if (v.kind == ValueKind::state) states_.set(v.name, v.role, v.data);
}

Engine::~Engine() = default;

Result<std::vector<TensorData>> Engine::run_staged(std::span<const TensorData> inputs) {
  if (!staged_) staged_ = std::make_unique<Staged>(*this);
  return staged_->run(inputs);
}

Result<std::unique_ptr<Compiled>> Engine::compile(Graph graph, const CompileOptions& options) {
  auto c = std::make_unique<Compiled>();
  HONE_ASSIGN(Program p, prepare_within(graph, options));
  c->reserved = options.reserved;
  c->beside = options.beside;
  c->input_pointers.assign(p.graph.inputs.size(), nullptr);
  c->output_pointers.assign(p.graph.outputs.size(), nullptr);
  HONE_TRY(adopt(*c, std::move(p)));
  return c;
}

Status Engine::adopt(Compiled& c, Program plan) const {
  if (plan.graph.values.empty()) {
    plan.graph = std::move(c.program.graph);
    plan.packs = std::move(c.program.packs);
    c.program = std::move(plan);
  } else {
    c.program = std::move(plan);
    c.packed.clear();
    c.packed_version = 0;
    for (const Pack& pack : c.program.packs) {
      HONE_ASSIGN(TensorData bytes, TensorData::allocate({DType::u8, {pack.bytes}}));
      c.packed.push_back(std::move(bytes));
    }
  }
  index_operands(c);
  return {};
}

void Engine::index_operands(Compiled& c) {
  const Program& p = c.program;
  c.first_operand.clear();
  c.inputs.clear();
  c.outputs.clear();
  size_t at = 0;
  for (const Step& s : p.steps) {
    c.first_operand.push_back(at);
    const auto note = [&](BufferId id) {
      if (id != kNone) {
        const Buffer& b = p.buffers[static_cast<size_t>(id)];
        if (b.kind == BufferKind::input) c.inputs.push_back({at, b.index});
        if (b.kind == BufferKind::output) c.outputs.push_back({at, b.index});
      }
      ++at;
    };
    for (BufferId id : s.reads) note(id);
    for (BufferId id : s.writes) note(id);
  }
  c.operands.assign(at, nullptr);
  c.arena = nullptr;
  c.profiled_by = 0;
}

Status Engine::bind(Compiled& c) {
  HONE_TRY(keep_limit(c));
  HONE_TRY(pack(c));
  if (!arena_.defined() || arena_.bytes() < c.program.arena.bytes) {
    arena_ = TensorData();  // first give back, then take: the two need not fit together
    HONE_ASSIGN(arena_, TensorData::allocate({DType::u8, {c.program.arena.bytes}}));
  }
  if (c.arena == nullptr || c.arena != arena_.data() || c.moves != moves_) HONE_TRY(resolve(c));
  return {};
}

Status Engine::pack(Compiled& c) {
  if (c.packed_version == states_.version()) return {};
  for (size_t i = 0; i < c.program.packs.size(); ++i) {
    const Pack& pack = c.program.packs[i];
    bool constant = true;
    std::vector<const void*> from;
    for (ValueId v : pack.sources) {
      const ValueInfo& source = c.program.graph.value(v);
      constant &= source.kind == ValueKind::constant;
      const StateStore::Entry* state =
          source.kind == ValueKind::state ? states_.find(source.name) : nullptr;
      from.push_back(state ? state->data.data() : source.data.data());
    }
    if (constant && c.packed_version != 0) continue;
    const auto bytes = [&](size_t k) { return c.program.graph.type(pack.sources[k]).bytes(); };
    // What is read from a file for this need not be there together with the arena.
    for (size_t k = 0; k < from.size(); ++k)
      if (platform::is_mapped(from[k], bytes(k))) arena_ = TensorData();
    HONE_TRY(pack.fill(from, c.packed[i].mutable_data()));
    for (size_t k = 0; k < from.size(); ++k) platform::release_pages(from[k], bytes(k));
  }
  c.packed_version = states_.version();
  return {};
}

Status Engine::resolve(Compiled& c) {
  const Program& p = c.program;
  std::byte* arena = static_cast<std::byte*>(arena_.mutable_data());
  for (size_t i = 0; i < p.steps.size(); ++i) {
    size_t at = c.first_operand[i];
    const auto place = [&](BufferId id) -> Status {
      void*& pointer = c.operands[at++];
      if (id == kNone) return {};
      const Buffer& b = p.buffers[static_cast<size_t>(id)];
      switch (b.kind) {
        case BufferKind::arena:
          pointer = arena + b.offset;
          break;
        case BufferKind::constant:
          pointer = const_cast<void*>(p.graph.value(b.value).data.data());
          break;
        case BufferKind::packed:
          pointer = c.packed[static_cast<size_t>(b.index)].mutable_data();
          break;
        case BufferKind::state: {
          const ValueInfo& v = p.graph.value(b.value);
          const StateStore::Entry* e = states_.find(v.name);
          if (!e || e->data.type() != v.type)
            return internal("state '{}' is not in the store as {}", v.name, v.type);
          pointer = const_cast<void*>(e->data.data());
          break;
        }
        case BufferKind::input:
        case BufferKind::output:
          break;  // bound at each run
      }
      return {};
    };
    for (BufferId id : p.steps[i].reads) HONE_TRY(place(id));
    for (BufferId id : p.steps[i].writes) HONE_TRY(place(id));
  }
  c.arena = arena;
  c.moves = moves_;
  note_releases(c);
  return {};
}

namespace {

void release(const Compiled& c, size_t step) {
  for (size_t i = c.first_release[step]; i < c.first_release[step + 1]; ++i)
    platform::release_pages(c.releases[i].data, c.releases[i].bytes);
  if (step + 2 < c.first_release.size())
    for (size_t i = c.first_release[step + 1]; i < c.first_release[step + 2]; ++i)
      platform::expect_pages(c.releases[i].data, c.releases[i].bytes);
}

Status run_step(const Compiled& c, size_t i, std::byte* arena, ThreadPool& pool) {
  const Step& s = c.program.steps[i];
  const std::span<void* const> operands(c.operands.data() + c.first_operand[i],
                                        s.reads.size() + s.writes.size());
  const int64_t scratch = c.program.scratch_offsets[i];
  HONE_TRY(s.kernel->run({operands, scratch < 0 ? nullptr : arena + scratch, pool}));
  if (!c.first_release.empty()) release(c, i);
  return {};
}

}  // namespace

Status Engine::run(Compiled& c, size_t first, size_t last) {
  for (const Compiled::Slot& s : c.inputs)
    c.operands[s.operand] = const_cast<void*>(c.input_pointers[static_cast<size_t>(s.index)]);
  for (const Compiled::Slot& s : c.outputs)
    c.operands[s.operand] = c.output_pointers[static_cast<size_t>(s.index)];
  std::byte* arena = static_cast<std::byte*>(arena_.mutable_data());
  if (profiler_) return run_profiled(c, first, last, arena);
  for (size_t i = first; i < last; ++i) HONE_TRY(run_step(c, i, arena, *pool_));
  return {};
}

Status Engine::run_profiled(Compiled& c, size_t first, size_t last, std::byte* arena) {
  profiler_->begin(c, last - first);
  for (size_t i = first; i < last; ++i) {
    HONE_TRY(run_step(c, i, arena, *pool_));
    profiler_->end_step(c, i);
  }
  return {};
}

PlanInfo Engine::info(const Compiled& c) const {
  const Program& p = c.program;
  PlanInfo out;
  out.arena_bytes = p.arena.bytes;
  out.lower_bound_bytes = p.arena.lower_bound;
  out.packed_bytes = p.packed_bytes;
  const Originals originals = this->originals(c);
  int64_t packed_away = 0;
  for (const StateStore::Entry& e : states_.entries()) {
    const bool is_original = originals.names.count(e.name) > 0;
    const bool in_file = is_original || paged_.count(e.name) > 0;
    if (is_original) packed_away += e.data.bytes();
    (in_file ? out.file_bytes : out.state_bytes) += e.data.bytes();
    if (e.role == StateRole::optimizer && !in_file) out.optimizer_bytes += e.data.bytes();
  }
  // While weights are packed there is no arena.
  out.window_bytes = std::max(p.window_bytes, originals.most_at_once - p.arena.bytes);
  out.held_bytes = c.reserved + kept_bytes;
  // The arena is as large as the largest of the programs needs it.
  out.peak_bytes = out.arena_bytes + lasting_bytes() - packed_away + out.window_bytes +
                   std::max(cached_bytes(), p.packed_bytes + c.reserved);
  out.limit_bytes = options_.memory_limit;
  out.repeated_steps = p.repeats.runs;
  out.extra_time = p.repeats.extra_time;
  out.steps = static_cast<int64_t>(p.steps.size());
  out.flops = p.flops;
  out.stored = p.is_stored;
  out.text = describe_plan(p);
  return out;
}

void Engine::trim(std::vector<std::unique_ptr<Compiled>>& cache) const {
  while (cache.size() > static_cast<size_t>(std::max(1, options_.plan_cache))) {
    const auto oldest =
        std::min_element(cache.begin(), cache.end(),
                         [](const auto& a, const auto& b) { return a->last_used < b->last_used; });
    cache.erase(oldest);
  }
}

Status check_dtype(const Graph& g, ValueId input, DType got) {
  const ValueInfo& v = g.value(input);
  if (v.type.dtype == got) return {};
  return invalid("input '{}' is {}, the model expects {}", v.name, got, v.type.dtype);
}

Status check_extents(const Graph& g, ValueId input, const Shape& got,
                     std::span<const DimLimit> limits) {
  const ValueInfo& v = g.value(input);
  if (got.rank() != v.type.shape.rank()) return {};  // binding the dimensions says so
  for (int i = 0; i < got.rank(); ++i) {
    const int64_t want = v.type.shape[i];
    if (want >= 0) continue;
    const std::string& name = g.dim_names[static_cast<size_t>(-want - 1)];
    for (const DimLimit& limit : limits)
      if (limit.name == name && got[i] > limit.max)
        return invalid("input '{}': axis {} is {}, above the limit of {} for the dimension '{}'",
                       v.name, i, got[i], limit.max, name);
  }
  return {};
}

Status check_limits(const Graph& g, std::span<const DimLimit> limits) {
  for (const DimLimit& limit : limits) {
    if (limit.max < 0)
      return invalid("the limit of the dimension '{}' is below 0 ({})", limit.name, limit.max);
    if (std::find(g.dim_names.begin(), g.dim_names.end(), limit.name) != g.dim_names.end())
      continue;
    std::string names;
    for (const std::string& name : g.dim_names)
      names += format("{}'{}'", names.empty() ? "" : ", ", name);
    return invalid("a limit is given for the dimension '{}'; the model's dimensions are {}",
                   limit.name, names.empty() ? "none" : names);
  }
  return {};
}

WritesOut writes_out(Kernels kernels, Mode mode) {
  if (kernels == Kernels::reference) return {};
  return [mode](const OpDef& op, std::span<const TensorType* const> in, const Attrs& attrs) {
    return default_backend().writes_out(op, in, attrs, mode);
  };
}

Result<Compiled*> Engine::infer_program(std::span<const TensorType> types) {
  for (const auto& c : infer_cache)
    if (std::equal(types.begin(), types.end(), c->types.begin(), c->types.end())) {
      Compiled* const same_types = c.get();  // binding may drop the others
      same_types->last_used = next_use();
      if (!same_types->depends_on_data) HONE_TRY(bind(*same_types));
      return same_types;
    }
  const Graph& g = model_.graph;
  if (types.size() != g.inputs.size())
    return invalid("the model has {} inputs, got {}", g.inputs.size(), types.size());
  std::vector<Shape> shapes;
  for (size_t i = 0; i < types.size(); ++i) {
    HONE_TRY(check_dtype(g, g.inputs[i], types[i].dtype));
    HONE_TRY(check_extents(g, g.inputs[i], types[i].shape, options_.max_dims));
    shapes.push_back(types[i].shape);
  }
  bool depends_on_data = false;
  auto concrete = specialise(g, shapes,
                             {.mode = Mode::infer,
                              .writes_out = writes_out(options_.kernels, Mode::infer),
                              .depends_on_data = &depends_on_data});
  auto c = std::make_unique<Compiled>();
  c->depends_on_data = depends_on_data;
  if (!depends_on_data) {
    if (!concrete.ok()) return concrete.status();
    concrete->updates.clear();
    HONE_TRY(remove_dead(*concrete));
    HONE_ASSIGN(c, compile(std::move(*concrete), {.advice = kSmallerInputs}));
    HONE_TRY(bind(*c));
  }
  c->types.assign(types.begin(), types.end());
  c->last_used = next_use();
  infer_cache.push_back(std::move(c));
  Compiled* made = infer_cache.back().get();
  trim(infer_cache);
  return made;
}

}  // namespace hone
