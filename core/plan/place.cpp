// SPDX-License-Identifier: Apache-2.0
// From lowered steps to a program with a place for every byte: the order of runs and the offsets
// are chosen (fit.hpp), and each life of a buffer becomes a buffer of its own.
#include <algorithm>
#include <unordered_set>

#include "core/plan/fit.hpp"
#include "core/plan/program.hpp"
#include "core/plan/stored.hpp"

namespace hone {

namespace {

// The steps as the planner sees them. Work counts in nanoseconds of a core that computes 40 and
// moves 8 bytes in each: only the ratio matters, of arithmetic to what waits for memory.
class Abstract {
 public:
  explicit Abstract(const Program& p) : p_(p) {
    index_.assign(p.buffers.size(), -1);
    overwritten_.assign(p.buffers.size(), false);
    for (size_t i = 0; i < p.buffers.size(); ++i)
      if (p.buffers[i].kind == BufferKind::arena) {
        index_[i] = static_cast<int32_t>(list.bytes.size());
        buffer_of.push_back(static_cast<BufferId>(i));
        list.bytes.push_back(round_up(p.buffers[i].bytes));
      }
    std::vector<int> writers(p.buffers.size(), 0);
    for (const Step& s : p.steps)
      for (BufferId b : s.writes)
        if (b != kNone) ++writers[static_cast<size_t>(b)];
    for (const Step& s : p.steps) list.steps.push_back(work(s, writers));
  }

  WorkList list;
  std::vector<BufferId> buffer_of;  // by index in the list
  // For each step, which of its reads and writes are in the list.
  std::vector<std::vector<int32_t>> reads_at, writes_at;

 private:
  const Buffer& buffer(BufferId b) const { return p_.buffers[static_cast<size_t>(b)]; }

  Work work(const Step& s, const std::vector<int>& writers) {
    Work w;
    std::vector<int32_t> reads_at_step, writes_at_step;
    std::vector<int32_t> read_as(s.reads.size(), -1), written_as(s.writes.size(), -1);
    double bytes = 0;
    for (size_t k = 0; k < s.reads.size(); ++k) {
      const BufferId b = s.reads[k];
      if (b == kNone) continue;
      bytes += static_cast<double>(buffer(b).bytes);
      if (buffer(b).kind == BufferKind::state) {
        // What reads the new content of a state stays where it is.
        if (overwritten_[static_cast<size_t>(b)])
          w.repeatable = false;
        else
          w.state_reads.push_back(b);
      }
      if (buffer(b).kind != BufferKind::arena) continue;
      read_as[k] = static_cast<int32_t>(w.reads.size());
      w.reads.push_back(index_[static_cast<size_t>(b)]);
      reads_at_step.push_back(static_cast<int32_t>(k));
    }
    for (size_t k = 0; k < s.writes.size(); ++k) {
      const BufferId b = s.writes[k];
      if (b == kNone) continue;
      bytes += static_cast<double>(buffer(b).bytes);
      if (buffer(b).kind == BufferKind::state) {
        w.state_writes.push_back(b);
        overwritten_[static_cast<size_t>(b)] = true;
      }
      w.gives_output |= buffer(b).kind == BufferKind::output;
      // What leaves the arena happens once; a buffer that several steps fill is filled once.
      if (buffer(b).kind != BufferKind::arena || writers[static_cast<size_t>(b)] > 1 ||
          std::find(s.reads.begin(), s.reads.end(), b) != s.reads.end())
        w.repeatable = false;
      if (buffer(b).kind != BufferKind::arena) continue;
      written_as[k] = static_cast<int32_t>(w.writes.size());
      w.writes.push_back(index_[static_cast<size_t>(b)]);
      writes_at_step.push_back(static_cast<int32_t>(k));
    }
    for (const MayShare m : s.may_share) {
      const int32_t to = written_as[static_cast<size_t>(m.write)];
      const int32_t from = read_as[static_cast<size_t>(m.read)];
      if (to >= 0 && from >= 0) w.may_share.push_back({to, from});
    }
    w.scratch = round_up(s.scratch_bytes);
    w.cost = 1 + s.flops / 40 + bytes / 8;
    reads_at.push_back(std::move(reads_at_step));
    writes_at.push_back(std::move(writes_at_step));
    return w;
  }

  const Program& p_;
  std::vector<int32_t> index_;     // of buffers in the list, or -1
  std::vector<bool> overwritten_;  // states, by the steps so far
};

// Runs and lives become steps and buffers; returns the buffer of each life.
std::vector<BufferId> realise(Program& p, const Abstract& a, const Sequence& sequence,
                              const Timeline& t) {
  std::vector<BufferId> id(t.instances.size());
  std::vector<bool> seen(a.list.bytes.size(), false);
  for (size_t i = 0; i < t.instances.size(); ++i) {
    const Instance& life = t.instances[i];
    const BufferId own = a.buffer_of[static_cast<size_t>(life.buffer)];
    id[i] = own;
    if (seen[static_cast<size_t>(life.buffer)]) {
      id[i] = static_cast<BufferId>(p.buffers.size());
      p.buffers.push_back(p.buffers[static_cast<size_t>(own)]);
    }
    seen[static_cast<size_t>(life.buffer)] = true;
    Buffer& b = p.buffers[static_cast<size_t>(id[i])];
    b.first = life.first;
    b.last = life.last;
    b.shares = life.shares < 0 ? kNone : id[static_cast<size_t>(life.shares)];
  }
  std::vector<Step> runs;
  std::unordered_set<const Kernel*> has_run;
  p.repeats = {};
  for (size_t k = 0; k < sequence.size(); ++k) {
    const size_t s = static_cast<size_t>(sequence[k]);
    Step run = p.steps[s];
    for (size_t i = 0; i < a.reads_at[s].size(); ++i)
      run.reads[static_cast<size_t>(a.reads_at[s][i])] = id[static_cast<size_t>(t.reads(k)[i])];
    for (size_t i = 0; i < a.writes_at[s].size(); ++i)
      run.writes[static_cast<size_t>(a.writes_at[s][i])] =
          id[static_cast<size_t>(t.writes(k, a.list.steps[s])[i])];
    if (!has_run.insert(run.kernel.get()).second) ++p.repeats.runs;
    runs.push_back(std::move(run));
  }
  p.steps = std::move(runs);
  return id;
}

// Lives of what is not in the arena, for the printed plan.
void touch_others(Program& p) {
  for (size_t i = 0; i < p.steps.size(); ++i) {
    const auto touch = [&](BufferId id) {
      if (id == kNone || p.buffers[static_cast<size_t>(id)].kind == BufferKind::arena) return;
      Buffer& b = p.buffers[static_cast<size_t>(id)];
      if (b.first < 0) b.first = static_cast<int32_t>(i);
      b.last = static_cast<int32_t>(i);
    };
    for (BufferId id : p.steps[i].reads) touch(id);
    for (BufferId id : p.steps[i].writes) touch(id);
  }
}

// The program gets the runs, and every buffer its offset.
void settle(Program& p, const Abstract& a, Placement placed) {
  double once = 0;
  std::unordered_set<const Kernel*> seen;  // steps of checkpointed regions are there twice
  for (size_t i = 0; i < p.steps.size(); ++i)
    if (seen.insert(p.steps[i].kernel.get()).second) once += a.list.steps[i].cost;
  const Timeline& t = placed.timeline;
  const std::vector<BufferId> buffer_of = realise(p, a, placed.runs, t);
  if (once > 0) p.repeats.extra_time = t.cost / once - 1;
  touch_others(p);
  const size_t lives = placed.packing.instances.size();
  for (size_t i = 0; i < lives; ++i) {
    const size_t life = static_cast<size_t>(placed.packing.instances[i]);
    p.buffers[static_cast<size_t>(buffer_of[life])].offset = placed.arena.offsets[i];
  }
  for (size_t i = 0; i < t.instances.size(); ++i) {  // what a life takes over has its place already
    Buffer& b = p.buffers[static_cast<size_t>(buffer_of[i])];
    if (b.shares != kNone) b.offset = p.buffers[static_cast<size_t>(b.shares)].offset;
  }
  p.scratch_offsets.assign(p.steps.size(), -1);
  for (size_t i = 0; i < placed.packing.scratch_of.size(); ++i)
    p.scratch_offsets[static_cast<size_t>(placed.packing.scratch_of[i])] =
        placed.arena.offsets[lives + i];
  p.arena = std::move(placed.arena);
  p.runs = std::move(placed.runs);
}

}  // namespace

Status place(Program& p, int64_t room, const PlanHints& hints) {
  const Abstract a(p);
  p.room = room;
  if (hints.any()) p.problem = problem_of(a.list);
  std::optional<Placement> placed = stored_placement(a.list, p.problem, room, hints.stored);
  const bool frugally = room == kNoLimit && hints.repeat_share > 0;
  if (placed && room == kNoLimit && !frugally && placed->runs.size() > p.steps.size())
    placed.reset();  // made by somebody who allowed it
  p.is_stored = placed.has_value();
  if (!placed && frugally) {
    HONE_ASSIGN(placed, frugal(a.list, hints.repeat_share));
  } else if (!placed) {
    HONE_ASSIGN(placed, fit(a.list, room));
  }
  if (!placed)
    return Status(Code::out_of_memory, format("the arena does not fit into {} bytes", room));
  if (hints.keep_going)
    HONE_TRY(search(a.list, frugally ? placed->arena.bytes : room, *hints.keep_going, *placed));
  settle(p, a, std::move(*placed));
  return {};
}

Status place_smallest(Program& p) {
  const Abstract a(p);
  HONE_ASSIGN(Placement placed, tightest(a.list));
  settle(p, a, std::move(placed));
  return {};
}

int64_t window_bytes(const Graph& g, std::span<const Step> steps, std::span<const Buffer> buffers,
                     const PagedStates* paged) {
  if (!paged || paged->empty()) return 0;
  std::vector<int64_t> size(buffers.size(), 0);
  for (size_t i = 0; i < buffers.size(); ++i)
    if (buffers[i].kind == BufferKind::state && paged->count(g.value(buffers[i].value).name) > 0)
      size[i] = paged_size(buffers[i].bytes);
  int64_t most = 0;
  for (const Step& s : steps) {
    std::set<BufferId> used(s.reads.begin(), s.reads.end());
    used.insert(s.writes.begin(), s.writes.end());
    used.erase(kNone);
    int64_t sum = 0;
    for (BufferId b : used) sum += size[static_cast<size_t>(b)];
    most = std::max(most, sum);
  }
  return most;
}

Result<Program> replanned(const Program& p, int64_t limit, const PagedStates* paged,
                          const PlanHints& hints) {
  if (!p.base) return internal("a program without a base cannot be planned anew");
  Program out;
  out.steps = p.base->steps;
  out.buffers = p.base->buffers;
  out.window_bytes = window_bytes(p.graph, out.steps, out.buffers, paged);
  HONE_TRY(
      place(out, limit == kNoLimit ? kNoLimit : limit - p.packed_bytes - out.window_bytes, hints));
  out.packed_bytes = p.packed_bytes;
  out.gave_up_packing = p.gave_up_packing;
  out.flops = p.flops;
  out.base = p.base;
  return out;
}

}  // namespace hone
