// SPDX-License-Identifier: Apache-2.0
// From a specialised graph to a program: regions are lowered to steps, then every byte gets its
// place.
#include <algorithm>
#include <utility>

#include "core/plan/program.hpp"

namespace hone {

namespace {

// Runs an operator's reference kernel.
class ReferenceKernel final : public Kernel {
 public:
  ReferenceKernel(const Graph& g, const Node& n) : op_(n.op), attrs_(n.attrs), who_(label(n)) {
    for (ValueId v : n.inputs) in_.push_back({v == kNone ? TensorType{} : g.type(v), nullptr});
    for (ValueId v : n.outputs) out_.push_back({g.type(v), nullptr});
  }
  Status run(const StepArgs& args) override {
    for (size_t i = 0; i < in_.size(); ++i) in_[i].data = args.operands[i];
    for (size_t i = 0; i < out_.size(); ++i) out_[i].data = args.operands[in_.size() + i];
    Status s = op_->kernel({in_, out_, attrs_, args.scratch, args.pool});
    return s.ok() ? s : s.with_context(who_);
  }

 private:
  const OpDef* op_;
  Attrs attrs_;
  std::string who_;
  std::vector<ConstTensorView> in_;
  std::vector<TensorView> out_;
};

class CopyKernel final : public Kernel {
 public:
  explicit CopyKernel(int64_t bytes) : bytes_(static_cast<size_t>(bytes)) {}
  Status run(const StepArgs& args) override;

 private:
  size_t bytes_;
};

Status CopyKernel::run(const StepArgs& args) {
  if (bytes_ > 0) std::copy_n(args.in<char>(0), bytes_, args.out<char>(1));
  return {};
}

class Preparer final : public Lowering {
 public:
  /// `pack`: whether weights may be copied into a kernel's own layout.
  Preparer(Graph g, const PrepareOptions& options, bool pack) : options_(options), pack_(pack) {
    p_.graph = std::move(g);
  }
  bool has_packed() const { return p_.packed_bytes > 0; }

  Result<Program> run() {
    index_values();
    HONE_TRY(lower_all());
    place_outputs();
    place_updates();
    for (const Step& s : p_.steps) p_.flops += s.flops;
    repeat_marked(p_);
    if (options_.keep_base) p_.base = std::make_shared<Base>(Base{p_.steps, p_.buffers});
    p_.window_bytes = window_bytes(p_.graph, p_.steps, p_.buffers, options_.paged);
    const int64_t limit = options_.memory_limit;
    if (options_.smallest) {
      HONE_TRY(place_smallest(p_));
      return std::move(p_);
    }
    HONE_TRY(place(p_, limit == kNoLimit ? kNoLimit : limit - p_.packed_bytes - p_.window_bytes,
                   options_.hints));
    return std::move(p_);
  }

  // ---- Lowering
  const Graph& graph() const override { return p_.graph; }
  int threads() const override { return options_.threads; }
  int parts() const override { return options_.parts > 0 ? options_.parts : options_.threads; }
  BufferId of(ValueId v) override {
    return v == kNone ? kNone : buffer_of_[static_cast<size_t>(p_.graph.viewed(v))];
  }
  BufferId temporary(int64_t bytes) override { return add_buffer({.bytes = bytes}); }
  BufferId packed(std::span<const ValueId> sources, int64_t bytes, PackFn pack) override {
    const BufferId id = add_buffer({.kind = BufferKind::packed,
                                    .bytes = bytes,
                                    .index = static_cast<int32_t>(p_.packs.size())});
    std::vector<ValueId> roots;
    for (ValueId v : sources) roots.push_back(p_.graph.viewed(v));
    p_.packs.push_back({std::move(roots), bytes, std::move(pack)});
    p_.packed_bytes += bytes;
    return id;
  }
  bool is_fixed(ValueId v) const override {
    const ValueInfo& info = p_.graph.value(p_.graph.viewed(v));
    return info.kind == ValueKind::constant ||
           (info.kind == ValueKind::state && !updated_[static_cast<size_t>(p_.graph.viewed(v))]);
  }
  bool packs() const override { return pack_; }
  int uses(ValueId v) const override { return uses_[static_cast<size_t>(v)]; }
  void add(Step step) override { p_.steps.push_back(std::move(step)); }
  Status add_reference(NodeId id) override {
    const Graph& g = p_.graph;
    const Node& n = g.node(id);
    if (!n.op->kernel) return unsupported("{}: has no kernel", label(n));
    Step s;
    s.kernel = std::make_unique<ReferenceKernel>(g, n);
    s.node = id;
    s.kind = "reference";
    std::vector<const TensorType*> in, out;
    for (ValueId v : n.inputs) {
      s.reads.push_back(of(v));
      in.push_back(v == kNone ? nullptr : &g.type(v));
    }
    for (ValueId v : n.outputs) {
      s.writes.push_back(of(v));
      out.push_back(&g.type(v));
    }
    const NodeTypes types{in, out, n.attrs};
    if (n.op->scratch) s.scratch_bytes = n.op->scratch(types);
    s.flops = n.op->flops   ? n.op->flops(types)
              : out.empty() ? 0
                            : static_cast<double>(out[0]->numel());
    s.may_share = sharable(n, s);
    add(std::move(s));
    return {};
  }

 private:
  Buffer& buffer(BufferId id) { return p_.buffers[static_cast<size_t>(id)]; }
  BufferId add_buffer(Buffer b) {
    p_.buffers.push_back(b);
    return static_cast<BufferId>(p_.buffers.size()) - 1;
  }

  void index_values() {
    const Graph& g = p_.graph;
    updated_.assign(g.values.size(), false);
    uses_.assign(g.values.size(), 0);
    buffer_of_.assign(g.values.size(), kNone);
    for (const StateUpdate& u : g.updates)
      updated_[static_cast<size_t>(u.state)] = true, ++uses_[static_cast<size_t>(u.next)];
    for (const GraphOutput& o : g.outputs) ++uses_[static_cast<size_t>(o.value)];
    for (const Node& n : g.nodes)
      for (ValueId v : n.inputs)
        if (v != kNone) ++uses_[static_cast<size_t>(v)];
    for (size_t i = 0; i < g.values.size(); ++i) {
      const ValueId v = static_cast<ValueId>(i);
      if (p_.graph.viewed(v) != v) continue;
      Buffer b{.bytes = g.type(v).bytes(), .value = v};
      if (g.value(v).kind == ValueKind::constant) b.kind = BufferKind::constant;
      if (g.value(v).kind == ValueKind::state) b.kind = BufferKind::state;
      if (g.value(v).kind == ValueKind::input) {
        b.kind = BufferKind::input;
        b.index =
            static_cast<int32_t>(std::find(g.inputs.begin(), g.inputs.end(), v) - g.inputs.begin());
      }
      buffer_of_[i] = add_buffer(b);
    }
  }

  Status lower_all() {
    const std::vector<NodeId> order = schedule(p_.graph);
    std::vector<NodeId> region;
    const auto flush = [&]() -> Status {
      if (region.empty()) return {};
      Status s = options_.backend->lower(*this, region);
      region.clear();
      return s;
    };
    for (NodeId n : order) {
      if (p_.graph.node(n).op->is_view) continue;
      if (options_.backend && options_.backend->claims(p_.graph, n)) {
        region.push_back(n);
        continue;
      }
      HONE_TRY(flush());
      HONE_TRY(add_reference(n));
    }
    return flush();
  }

  std::vector<MayShare> sharable(const Node& n, const Step& s) const {
    const Graph& g = p_.graph;
    std::vector<MayShare> out;
    if (n.op->inplace == Inplace::any_input) {
      for (size_t i = 0; i < n.inputs.size(); ++i) {
        if (n.inputs[i] == kNone || g.type(n.inputs[i]) != g.type(n.outputs[0])) continue;
        // Other operands that see the same bytes under another shape would be read out of step with
        // the writes.
        bool clean = true;
        for (size_t k = 0; k < n.inputs.size(); ++k)
          if (n.inputs[k] != kNone && s.reads[k] == s.reads[i] &&
              g.type(n.inputs[k]) != g.type(n.inputs[i]))
            clean = false;
        if (clean) out.push_back({0, static_cast<int32_t>(i)});
      }
    } else if (n.op->inplace == Inplace::pairwise) {
      for (size_t k = 0; k < n.outputs.size() && k < n.inputs.size(); ++k)
        if (n.inputs[k] != kNone && g.type(n.inputs[k]) == g.type(n.outputs[k]) &&
            std::count(s.reads.begin(), s.reads.end(), s.reads[k]) == 1)
          out.push_back({static_cast<int32_t>(k), static_cast<int32_t>(k)});
    }
    return out;
  }

  Step copy_step(BufferId from, BufferId to) {
    Step s;
    s.kernel = std::make_unique<CopyKernel>(buffer(to).bytes);
    s.reads = {from};
    s.writes = {to};
    s.kind = "copy";
    return s;
  }

  // A computed value that is an output is written straight into the caller's memory; anything else
  // is copied there.
  void place_outputs() {
    const Graph& g = p_.graph;
    std::vector<Step> first;  // copies of what the steps may overwrite: inputs and states, taken
                              // before everything else
    for (size_t i = 0; i < g.outputs.size(); ++i) {
      const BufferId b = of(g.outputs[i].value);
      if (buffer(b).kind == BufferKind::arena) {
        buffer(b).kind = BufferKind::output;
        buffer(b).index = static_cast<int32_t>(i);
        continue;
      }
      const BufferId out = add_buffer(
          {.kind = BufferKind::output, .bytes = buffer(b).bytes, .index = static_cast<int32_t>(i)});
      if (buffer(b).kind == BufferKind::output)
        add(copy_step(b, out));
      else
        first.push_back(copy_step(b, out));
    }
    p_.steps.insert(p_.steps.begin(), std::make_move_iterator(first.begin()),
                    std::make_move_iterator(first.end()));
  }

  // Steps that read and write each buffer, in order, each once.
  struct Users {
    std::vector<int32_t> readers, writers;
  };

  std::vector<Users> list_users() const {
    std::vector<Users> out(p_.buffers.size());
    const auto note = [](std::vector<int32_t>& steps, int32_t step) {
      if (steps.empty() || steps.back() != step) steps.push_back(step);
    };
    for (size_t i = 0; i < p_.steps.size(); ++i) {
      const int32_t step = static_cast<int32_t>(i);
      for (BufferId b : p_.steps[i].reads)
        if (b != kNone) note(out[static_cast<size_t>(b)].readers, step);
      for (BufferId b : p_.steps[i].writes)
        if (b != kNone) note(out[static_cast<size_t>(b)].writers, step);
    }
    return out;
  }

  // The next content of a state is written over the old one when the step that makes it allows that
  // and nothing reads the old content later; otherwise it is copied at the end.
  void place_updates() {
    std::vector<Users> users = list_users();
    struct Copy {
      StateUpdate update;
      BufferId saved;  // of another state's old content, which may change before; or kNone
    };
    std::vector<Step> first;
    std::vector<Copy> last;
    for (const StateUpdate& u : p_.graph.updates) {
      const BufferId next = of(u.next), state = of(u.state);
      if (next == state) continue;
      if (buffer(next).kind == BufferKind::arena && can_overwrite(users, state, next)) {
        overwrite(users, state, next);
        continue;
      }
      BufferId saved = kNone;
      if (p_.graph.value(p_.graph.viewed(u.next)).kind == ValueKind::state) {
        saved = temporary(buffer(next).bytes);
        first.push_back(copy_step(next, saved));
      }
      last.push_back({u, saved});
    }
    p_.steps.insert(p_.steps.begin(), std::make_move_iterator(first.rbegin()),
                    std::make_move_iterator(first.rend()));
    for (const Copy& c : last)
      add(copy_step(c.saved == kNone ? of(c.update.next) : c.saved, of(c.update.state)));
  }

  bool can_overwrite(std::span<const Users> users, BufferId state, BufferId next) const {
    const Users& of_state = users[static_cast<size_t>(state)];
    const std::vector<int32_t>& writers = users[static_cast<size_t>(next)].writers;
    if (!of_state.writers.empty()) return false;
    if (writers.size() != 1) return false;  // written piece by piece
    if (!of_state.readers.empty() && of_state.readers.back() > writers[0]) return false;
    // Only the update operators: what merely may run in place could do so before a step is found
    // to be bad and abandoned.
    const Step& s = p_.steps[static_cast<size_t>(writers[0])];
    if (s.node == kNone || p_.graph.node(s.node).op->inplace != Inplace::pairwise) return false;
    const int32_t index =
        static_cast<int32_t>(std::find(s.writes.begin(), s.writes.end(), next) - s.writes.begin());
    return std::any_of(s.may_share.begin(), s.may_share.end(), [&](MayShare m) {
      return m.write == index && s.reads[static_cast<size_t>(m.read)] == state;
    });
  }

  // The bytes of `next` are from now on the state's.
  void overwrite(std::span<Users> users, BufferId state, BufferId next) {
    Users& from = users[static_cast<size_t>(next)];
    for (int32_t step : from.readers) {
      std::vector<BufferId>& reads = p_.steps[static_cast<size_t>(step)].reads;
      std::replace(reads.begin(), reads.end(), next, state);
    }
    for (int32_t step : from.writers) {
      std::vector<BufferId>& writes = p_.steps[static_cast<size_t>(step)].writes;
      std::replace(writes.begin(), writes.end(), next, state);
    }
    users[static_cast<size_t>(state)] = std::exchange(from, {});
    buffer_of_[static_cast<size_t>(buffer(next).value)] = state;
  }

  PrepareOptions options_;
  const bool pack_;
  Program p_;
  std::vector<BufferId> buffer_of_;
  std::vector<bool> updated_;
  std::vector<int> uses_;
};

}  // namespace

Result<Program> prepare(Graph graph, const PrepareOptions& options) {
  const bool pack = options.pack && (!options.paged || options.paged->empty());
  if (options.memory_limit == kNoLimit || !pack)
    return Preparer(std::move(graph), options, pack).run();
  Preparer packing(graph, options, true);
  Result<Program> p = packing.run();
  // Packed copies are the first to go when memory is short.
  if (p.ok() || p.status().code() != Code::out_of_memory || !packing.has_packed()) return p;
  p = Preparer(std::move(graph), options, false).run();
  if (p.ok()) p->gave_up_packing = true;
  return p;
}

}  // namespace hone
