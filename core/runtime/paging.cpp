// SPDX-License-Identifier: Apache-2.0
// States that lie in files: weights that are read from a mapped file whenever a step needs them,
// and optimizer state for which memory is too small. They count while a step uses them.
#include <algorithm>

#include "core/base/platform.hpp"
#include "core/runtime/engine.hpp"

namespace hone {

namespace {

// What is smaller wins less than the pages around it take.
constexpr int64_t kWorthPaging = 64 << 10;

}  // namespace

bool Engine::may_page(const ValueInfo& v) const {
  if (v.kind != ValueKind::state || v.type.bytes() < kWorthPaging) return false;
  if (v.role == StateRole::optimizer) return !spill_folder.empty();
  if (!options_.stream_weights || v.role != StateRole::parameter) return false;
  const StateStore::Entry* e = states_.find(v.name);
  return e && platform::is_mapped(e->data.data(), e->data.bytes());
}

std::vector<std::string> Engine::pageable(const Graph& g, const PagedStates& paged) const {
  std::vector<const ValueInfo*> found;
  for (const ValueInfo& v : g.values)
    if (may_page(v) && paged.count(v.name) == 0) found.push_back(&v);
  std::sort(found.begin(), found.end(), [](const ValueInfo* a, const ValueInfo* b) {
    return std::pair(a->type.bytes(), std::string_view(a->name)) <
           std::pair(b->type.bytes(), std::string_view(b->name));
  });
  std::vector<std::string> names;
  for (const ValueInfo* v : found) names.push_back(v->name);
  return names;
}

int64_t Engine::lasting_bytes(const PagedStates& paged) const {
  int64_t sum = states_.bytes() + kept_bytes;
  for (const std::string& name : paged)
    if (const StateStore::Entry* e = states_.find(name)) sum -= e->data.bytes();
  return sum;
}

int64_t Engine::unborn_bytes(const Graph& g, const PagedStates& paged) const {
  int64_t sum = 0;
  if (paged.empty()) return 0;
  for (const ValueInfo& v : g.values)
    if (v.kind == ValueKind::state && paged.count(v.name) > 0 && !states_.find(v.name))
      sum += v.type.bytes();
  return sum;
}

// The fewest states in files, smallest first, with which the limit is kept: a state in memory costs
// no time, and the largest sets the window.
Result<Program> Engine::prepare_paged(const Graph& graph, const CompileOptions& options) {
  const std::vector<std::string> names = pageable(graph, paged_);
  if (names.empty()) return out_of_memory("the limit cannot be kept");
  PrepareOptions o = how_to_prepare();
  o.pack = false;
  o.keep_base = true;
  HONE_ASSIGN(Program lowered, prepare(graph, o));
  const auto with = [&](size_t count) {
    PagedStates set = paged_;
    set.insert(names.begin(), names.begin() + static_cast<ptrdiff_t>(count));
    return set;
  };
  const auto attempt = [&](size_t count) {
    const PagedStates set = with(count);
    const int64_t others = lasting_bytes(set) + options.added - unborn_bytes(graph, set) +
                           options.reserved + options.beside;
    return replanned(lowered, std::max<int64_t>(0, options_.memory_limit - others), &set);
  };
  size_t too_few = 0, enough = names.size();
  Result<Program> best = attempt(enough);
  if (!best.ok()) return best;
  while (enough - too_few > 1) {
    const size_t middle = (too_few + enough) / 2;
    Result<Program> p = attempt(middle);
    if (!p.ok() && p.status().code() != Code::out_of_memory) return p;
    (p.ok() ? enough : too_few) = middle;
    if (p.ok()) best = std::move(p);
  }
  HONE_TRY(set_paged(with(enough)));
  best->graph = std::move(lowered.graph);
  best->gave_up_packing = true;
  if (!options.replans) best->base = nullptr;
  return best;
}

Result<TensorData> Engine::state_zeros(std::string_view name, const TensorType& type) const {
  if (paged_.count(name) == 0) return TensorData::zeros(type);
  HONE_ASSIGN(platform::SpillFile file, platform::map_spill_file(spill_folder, type.bytes()));
  return TensorData::borrow_writable(type, file.data, std::move(file.owner));
}

Status Engine::set_paged(PagedStates paged) {
  std::swap(paged, paged_);
  std::vector<std::pair<StateTensor*, TensorData>> moves;
  for (StateTensor& s : states_.entries()) {
    if (s.role != StateRole::optimizer || paged.count(s.name) == paged_.count(s.name)) continue;
    Result<TensorData> room = state_zeros(s.name, s.data.type());
    if (!room.ok()) {
      std::swap(paged, paged_);
      return room.status();
    }
    moves.emplace_back(&s, std::move(*room));
  }
  for (auto& [state, room] : moves) {
    std::copy_n(static_cast<const char*>(state->data.data()), state->data.bytes(),
                static_cast<char*>(room.mutable_data()));
    platform::release_pages(room.data(), room.bytes());
    for (auto* cache : caches)
      for (const auto& c : *cache)
        for (ValueInfo& v : c->program.graph.values)
          if (v.kind == ValueKind::state && v.name == state->name) v.data = room;
    state->data = std::move(room);
  }
  for (const StateTensor& s : states_.entries())
    if (paged_.count(s.name) > 0) platform::release_pages(s.data.data(), s.data.bytes());
  moved();
  return {};
}

void Engine::note_releases(Compiled& c) const {
  c.releases.clear();
  c.first_release.clear();
  if (paged_.empty()) return;
  const Program& p = c.program;
  for (const Step& s : p.steps) {
    c.first_release.push_back(c.releases.size());
    const auto note = [&](BufferId id) {
      if (id == kNone || p.buffers[static_cast<size_t>(id)].kind != BufferKind::state) return;
      const std::string& name = p.graph.value(p.buffers[static_cast<size_t>(id)].value).name;
      if (paged_.count(name) == 0) return;
      const TensorData& data = states_.find(name)->data;
      const auto known = [&](const Compiled::Release& r) { return r.data == data.data(); };
      const auto from = c.releases.begin() + static_cast<ptrdiff_t>(c.first_release.back());
      if (std::none_of(from, c.releases.end(), known))
        c.releases.push_back({data.data(), data.bytes()});
    };
    for (BufferId id : s.reads) note(id);
    for (BufferId id : s.writes) note(id);
  }
  c.first_release.push_back(c.releases.size());
}

}  // namespace hone
