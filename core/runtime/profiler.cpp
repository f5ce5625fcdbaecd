// SPDX-License-Identifier: Apache-2.0
#include "core/runtime/profiler.hpp"

#include <algorithm>

#include "hone/op.hpp"

namespace hone {

namespace {

int64_t bytes_touched(const Program& p, const Step& s) {
  std::vector<BufferId> all = s.reads;
  all.insert(all.end(), s.writes.begin(), s.writes.end());
  std::sort(all.begin(), all.end());
  all.erase(std::unique(all.begin(), all.end()), all.end());
  int64_t sum = 0;
  for (BufferId id : all)
    if (id != kNone) sum += p.buffers[static_cast<size_t>(id)].bytes;
  return sum;
}

}  // namespace

Profiler::Profiler(uint64_t id, const ProfileOptions& options)
    : id_(id), max_events_(options.max_events) {
  profile_.events.reserve(static_cast<size_t>(max_events_));
  profile_.origin_ns = platform::now_ns();
}

void Profiler::begin(Compiled& c, size_t steps) {
  if (c.profiled_by != id_) {
    c.profiled_by = id_;
    c.first_row = profile_.rows.size();
    add_rows(c.program);
  }
  full_ = full_ || static_cast<int64_t>(profile_.events.size() + steps) > max_events_;
  keeps_events_ = !full_;
  last_ns_ = platform::now_ns();
}

void Profiler::add_rows(const Program& p) {
  const PlanDetail plan = plan_detail(p);
  for (size_t i = 0; i < p.steps.size(); ++i) {
    const Step& s = p.steps[i];
    ProfileRow row;
    row.program = programs_;
    row.step = static_cast<int32_t>(i);
    row.name = plan.steps[i].name;
    if (s.node != kNone) row.op = p.graph.node(s.node).op->name;
    row.kernel = s.kind;
    row.phase = plan.steps[i].phase;
    row.flops = s.flops;
    row.bytes = bytes_touched(p, s);
    profile_.rows.push_back(std::move(row));
  }
  ++programs_;
}

void Engine::start_profile(const ProfileOptions& options) {
  profiler_ = std::make_unique<Profiler>(++profiles_, options);
}

void Engine::stop_profile() { profiler_.reset(); }

Profile Engine::profile() const { return profiler_ ? profiler_->profile() : Profile(); }

}  // namespace hone
