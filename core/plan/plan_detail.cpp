// SPDX-License-Identifier: Apache-2.0
// A program's plan with names, for people.
#include "hone/plan_detail.hpp"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "core/plan/program.hpp"

namespace hone {

namespace {

class Describer {
 public:
  explicit Describer(const Program& p) : p_(p), g_(p.graph) {}

  PlanDetail run() {
    find_phases();
    name_gradients();
    describe_steps();
    describe_buffers();
    describe_scratch();
    std::stable_sort(out_.buffers.begin(), out_.buffers.end(),
                     [](const PlanBuffer& a, const PlanBuffer& b) { return a.first < b.first; });
    out_.arena_bytes = p_.arena.bytes;
    find_peak();
    return std::move(out_);
  }

 private:
  // The loss and what it takes, and new statistics of the model's, are forward; what writes
  // parameters and optimizer states is the update; between them is the backward pass.
  void find_phases() {
    const auto learns = [&](const StateUpdate& u) {
      const StateRole role = g_.value(u.state).role;
      return role == StateRole::parameter || role == StateRole::optimizer;
    };
    phase_of_.assign(g_.nodes.size(), PlanPhase::forward);
    out_.trains = std::any_of(g_.updates.begin(), g_.updates.end(), learns);
    if (!out_.trains) return;
    std::fill(phase_of_.begin(), phase_of_.end(), PlanPhase::backward);
    for (size_t n = 0; n < g_.nodes.size(); ++n)
      if (g_.nodes[n].name == "clip") phase_of_[n] = PlanPhase::update;
    for (const StateUpdate& u : g_.updates)
      if (const NodeId n = g_.value(u.next).producer; learns(u) && n != kNone)
        phase_of_[static_cast<size_t>(n)] = PlanPhase::update;
    std::vector<ValueId> forward;
    if (!g_.outputs.empty()) forward.push_back(g_.outputs[0].value);
    for (const StateUpdate& u : g_.updates)
      if (!learns(u)) forward.push_back(u.next);
    while (!forward.empty()) {
      const NodeId n = g_.value(forward.back()).producer;
      forward.pop_back();
      if (n == kNone || phase_of_[static_cast<size_t>(n)] == PlanPhase::forward) continue;
      phase_of_[static_cast<size_t>(n)] = PlanPhase::forward;
      for (ValueId v : g_.node(n).inputs)
        if (v != kNone) forward.push_back(v);
    }
  }

  // What an update reads beside states, inputs and constants is its parameter's gradient.
  void name_gradients() {
    for (const StateUpdate& u : g_.updates) {
      const NodeId n = g_.value(u.next).producer;
      if (n == kNone || g_.value(u.state).role != StateRole::parameter) continue;
      for (ValueId v : g_.node(n).inputs) {
        if (v == kNone || g_.value(g_.viewed(v)).kind != ValueKind::node) continue;
        gradient_of_.try_emplace(g_.viewed(v), u.state);
      }
    }
  }

  std::string name_of(NodeId id) const {
    constexpr std::string_view kGradient = "/grad";
    const Node& n = g_.node(id);
    std::string_view name = n.name;
    if (phase_of_[static_cast<size_t>(id)] == PlanPhase::update) {
      for (const StateUpdate& u : g_.updates)
        if (g_.value(u.next).producer == id)
          return format("update of {} ({})", g_.value(u.state).name, n.op->name);
      return label(n);
    }
    if (phase_of_[static_cast<size_t>(id)] == PlanPhase::forward) return label(n);
    if (name.size() > kGradient.size() && name.ends_with(kGradient)) {
      name.remove_suffix(kGradient.size());
      return format("backward of '{}' ({})", name, n.op->name);
    }
    return format("backward ({})", label(n));
  }

  void describe_steps() {
    std::unordered_set<const Kernel*> seen;
    writer_.assign(p_.buffers.size(), -1);
    for (size_t i = 0; i < p_.steps.size(); ++i) {
      const Step& s = p_.steps[i];
      PlanStep step;
      step.kernel = s.kind;
      step.again = !seen.insert(s.kernel.get()).second;
      if (s.node != kNone)
        step.phase = phase_of_[static_cast<size_t>(s.node)];
      else if (i > 0)
        step.phase = out_.steps.back().phase;
      for (BufferId id : s.writes) {
        if (id == kNone) continue;
        const Buffer& b = p_.buffers[static_cast<size_t>(id)];
        int32_t& writer = writer_[static_cast<size_t>(id)];
        if (writer < 0) writer = static_cast<int32_t>(i);
        if (out_.trains && b.kind == BufferKind::output && b.index == 0)
          out_.loss_step = static_cast<int32_t>(i);
      }
      step.name = s.node != kNone ? name_of(s.node) : name_of_copy(s);
      out_.steps.push_back(std::move(step));
    }
  }

  std::string name_of_copy(const Step& s) const {
    std::string name(s.kind);
    for (BufferId id : s.writes) {
      if (id == kNone) continue;
      const Buffer& b = p_.buffers[static_cast<size_t>(id)];
      if (b.kind == BufferKind::output)
        name += format(" to the output '{}'", g_.outputs[static_cast<size_t>(b.index)].name);
      else if (b.value != kNone && !g_.value(b.value).name.empty())
        name += format(" to '{}'", g_.value(b.value).name);
    }
    return name;
  }

  void name(BufferId id, PlanBuffer& out) const {
    const Buffer& b = p_.buffers[static_cast<size_t>(id)];
    const int32_t writer = writer_[static_cast<size_t>(id)];
    if (b.value == kNone) {
      out.name = writer >= 0 ? out_.steps[static_cast<size_t>(writer)].name : "unused";
      out.type = "kernel's layout";
      return;
    }
    const ValueInfo& v = g_.value(b.value);
    out.type = to_string(v.type);
    const auto parameter = gradient_of_.find(b.value);
    if (parameter != gradient_of_.end())
      out.name = format("gradient of {}", g_.value(parameter->second).name);
    else if (!v.name.empty() || v.producer == kNone)
      out.name = v.name;
    else if (g_.node(v.producer).outputs.size() == 1)
      out.name = name_of(v.producer);
    else
      out.name = format("{}, output {}", name_of(v.producer), v.output_index);
  }

  // Data in a kernel's layout that only steps of one and the same node touch.
  bool is_conversion(BufferId id) const {
    const Buffer& b = p_.buffers[static_cast<size_t>(id)];
    if (b.value != kNone) return false;
    const auto touches = [&](const Step& s) {
      return std::find(s.reads.begin(), s.reads.end(), id) != s.reads.end() ||
             std::find(s.writes.begin(), s.writes.end(), id) != s.writes.end();
    };
    const NodeId node = p_.steps[static_cast<size_t>(b.first)].node;
    return std::all_of(p_.steps.begin() + b.first, p_.steps.begin() + b.last + 1,
                       [&](const Step& s) { return s.node == node || !touches(s); });
  }

  PlanUse use_of(BufferId id, int32_t first, int32_t last) const {
    if (out_.steps[static_cast<size_t>(first)].again) return PlanUse::again;
    if (is_conversion(id)) return PlanUse::work;
    if (!out_.trains || last <= out_.loss_step) return PlanUse::passing;
    if (first <= out_.loss_step) return PlanUse::kept;
    return PlanUse::gradient;
  }

  // One entry for each stretch of steps in which bytes hold the same thing: the owner's own, then
  // those of the buffers that take the bytes over, one after the other.
  void describe_buffers() {
    std::vector<std::vector<BufferId>> takers(p_.buffers.size());
    const auto in_arena = [](const Buffer& b) {
      return b.kind == BufferKind::arena && b.first >= 0 && b.bytes > 0;
    };
    for (size_t i = 0; i < p_.buffers.size(); ++i)
      if (in_arena(p_.buffers[i]) && p_.buffers[i].shares != kNone)
        takers[static_cast<size_t>(p_.buffers[i].shares)].push_back(static_cast<BufferId>(i));
    for (size_t i = 0; i < p_.buffers.size(); ++i) {
      const Buffer& owner = p_.buffers[i];
      if (!in_arena(owner) || owner.shares != kNone) continue;
      std::vector<BufferId>& chain = takers[i];
      std::stable_sort(chain.begin(), chain.end(), [&](BufferId a, BufferId b) {
        return p_.buffers[static_cast<size_t>(a)].first < p_.buffers[static_cast<size_t>(b)].first;
      });
      chain.insert(chain.begin(), static_cast<BufferId>(i));
      for (size_t k = 0; k < chain.size(); ++k) {
        const Buffer& b = p_.buffers[static_cast<size_t>(chain[k])];
        PlanBuffer out;
        out.bytes = round_up(owner.bytes);
        out.offset = owner.offset;
        out.first = b.first;
        out.last = k + 1 < chain.size() ? p_.buffers[static_cast<size_t>(chain[k + 1])].first - 1
                                        : owner.last;
        out.in_place = k > 0;
        if (out.last < out.first) continue;
        name(chain[k], out);
        // The last step that reads is the taker's first.
        out.use = use_of(chain[k], out.first, k + 1 < chain.size() ? out.last + 1 : out.last);
        out_.buffers.push_back(std::move(out));
      }
    }
  }

  void describe_scratch() {
    for (size_t i = 0; i < p_.steps.size(); ++i) {
      if (p_.scratch_offsets[i] < 0 || p_.steps[i].scratch_bytes <= 0) continue;
      PlanBuffer out;
      out.name = "scratch of " + out_.steps[i].name;
      out.use = PlanUse::work;
      out.bytes = round_up(p_.steps[i].scratch_bytes);
      out.offset = p_.scratch_offsets[i];
      out.first = out.last = static_cast<int32_t>(i);
      out_.buffers.push_back(std::move(out));
    }
  }

  void find_peak() {
    std::vector<int64_t> change(p_.steps.size() + 1, 0);
    for (const PlanBuffer& b : out_.buffers) {
      change[static_cast<size_t>(b.first)] += b.bytes;
      change[static_cast<size_t>(b.last) + 1] -= b.bytes;
    }
    int64_t live = 0;
    for (size_t i = 0; i < p_.steps.size(); ++i) {
      live += change[i];
      out_.live_bytes.push_back(live);
      if (out_.peak_step < 0 || live > out_.peak_bytes()) out_.peak_step = static_cast<int32_t>(i);
    }
  }

  const Program& p_;
  const Graph& g_;
  PlanDetail out_;
  std::vector<PlanPhase> phase_of_;                   // by node
  std::unordered_map<ValueId, ValueId> gradient_of_;  // value -> the parameter
  std::vector<int32_t> writer_;                       // by buffer: the first step that writes it
};

}  // namespace

PlanDetail plan_detail(const Program& program) { return Describer(program).run(); }

}  // namespace hone
