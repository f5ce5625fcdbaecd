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

std::vector<std::string> Engine::pageable(std::span<const Graph* const> graphs,
                                          const PagedStates& paged) const {
  std::set<std::pair<int64_t, std::string_view>> found;
  for (const Graph* g : graphs)
    for (const ValueInfo& v : g->values)
      if (may_page(v) && paged.count(v.name) == 0) found.emplace(v.type.bytes(), v.name);
  std::vector<std::string> names;
  for (const auto& [bytes, name] : found) names.emplace_back(name);
  return names;
}

int64_t Engine::lasting_bytes(const PagedStates& paged) const {
  int64_t sum = states_.bytes() + kept_bytes;
  for (const std::string& name : paged)
    if (const StateStore::Entry* e = states_.find(name)) sum -= e->data.bytes();
  return sum;
}

Engine::Originals Engine::originals(const Compiled& c) const {
  std::set<std::string_view> read;
  const auto note = [&](const Program& p) {
    for (const Step& s : p.steps)
      for (const auto* operands : {&s.reads, &s.writes})
        for (BufferId id : *operands) {
          if (id == kNone) continue;
          const Buffer& b = p.buffers[static_cast<size_t>(id)];
          if (b.kind == BufferKind::state) read.insert(p.graph.value(b.value).name);
        }
  };
  note(c.program);
  for (const auto* cache : caches)
    for (const auto& other : *cache) {
      note(other->program);
      for (const Compiled::Assumption& a : other->assumptions) note(a.program->program);
    }
  Originals out;
  for (const StateStore::Entry& e : states_.entries())
    if (read.count(e.name) == 0 && paged_.count(e.name) == 0 &&
        platform::is_mapped(e.data.data(), e.data.bytes()))
      out.names.insert(e.name);
  for (const Pack& pack : c.program.packs) {
    int64_t bytes = 0;
    for (ValueId v : pack.sources) {
      const ValueInfo& source = c.program.graph.value(v);
      if (out.names.count(source.name) > 0) bytes += source.type.bytes();
    }
    out.most_at_once = std::max(out.most_at_once, bytes);
  }
  return out;
}

int64_t Engine::bytes_beside(const Graph& g, const CompileOptions& options,
                             const PagedStates& paged) const {
  int64_t unborn = 0;  // in files, and not in the store yet
  for (const ValueInfo& v : g.values)
    if (v.kind == ValueKind::state && paged.count(v.name) > 0 && !states_.find(v.name))
      unborn += v.type.bytes();
  return lasting_bytes(paged) + options.added - unborn + options.reserved;
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
  struct Found {
    Program program;
    PagedStates paged;
  };
  const auto attempt = [&](const PagedStates& set) -> Result<Found> {
    const int64_t room = options_.memory_limit - bytes_beside(graph, options, set) - options.beside;
    HONE_ASSIGN(Program p, replanned(lowered, std::max<int64_t>(0, room), &set));
    return Found{std::move(p), set};
  };
  HONE_ASSIGN(Found found, with_fewest(names, paged_, attempt));
  HONE_TRY(set_paged(std::move(found.paged)));
  Program& p = found.program;
  p.graph = std::move(lowered.graph);
  p.gave_up_packing = true;
  if (!options.replans) p.base = nullptr;
  return std::move(p);
}

Result<TensorData> Engine::state_zeros(std::string_view name, const TensorType& type) const {
  if (paged_.count(name) == 0) return TensorData::zeros(type);
  HONE_ASSIGN(platform::SpillFile file, platform::map_spill_file(spill_folder, type.bytes()));
  return TensorData::borrow_writable(type, file.data, std::move(file.owner));
}

void copy_through(const TensorData& from, TensorData& to) {
  auto* at = static_cast<std::byte*>(to.mutable_data());
  platform::read_through(from.as_bytes(), [&](std::span<const std::byte> block) {
    std::copy(block.begin(), block.end(), at);
    platform::release_pages(at, static_cast<int64_t>(block.size()));
    at += block.size();
  });
}

Status Engine::adopt_states(std::span<const StateTensor* const> states) {
  const auto stays = [&](const StateTensor& s) {
    return states_.find(s.name) && platform::is_mapped(s.data.data(), s.data.bytes());
  };
  PagedStates paged = paged_;
  int64_t bytes = lasting_bytes();
  std::set<std::pair<int64_t, std::string_view>> may_spill;
  for (const StateTensor* s : states) {
    if (stays(*s)) continue;
    const bool counted = states_.find(s->name) && paged.erase(s->name) == 0;
    if (!counted) bytes += s->data.bytes();
    if (s->role == StateRole::optimizer && !spill_folder.empty() && s->data.bytes() >= kWorthPaging)
      may_spill.emplace(s->data.bytes(), s->name);
  }
  const int64_t limit = options_.memory_limit;
  for (const auto& [size, name] : may_spill) {  // the smallest first, as in plans
    if (limit == 0 || bytes <= limit) break;
    paged.emplace(name);
    bytes -= size;
  }
  if (limit > 0 && bytes > limit)
    return out_of_memory(
        "a memory limit of {} cannot be kept: with what is to be restored, weights and optimizer "
        "state take {}",
        bytes_text(limit), bytes_text(bytes));
  std::swap(paged, paged_);
  std::vector<TensorData> contents;
  for (const StateTensor* s : states) {
    Result<TensorData> data = stays(*s) ? s->data : state_zeros(s->name, s->data.type());
    if (!data.ok()) {
      std::swap(paged, paged_);
      return data.status();
    }
    if (!stays(*s)) copy_through(s->data, *data);
    contents.push_back(std::move(*data));
  }
  for (size_t i = 0; i < states.size(); ++i)
    states_.set(states[i]->name, states[i]->role, std::move(contents[i]));
  if (limit > 0 && !states.empty()) {  // planned for what was there before
    for (auto* cache : caches) cache->clear();
    arena_ = TensorData();
  }
  moved();
  return {};
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
    copy_through(state->data, room);
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
