// SPDX-License-Identifier: Apache-2.0
// Gradients of recorded operations: the record becomes a graph, the one `differentiate` appends to
// it, and what it appended is run in order, each value freed after its last use.
#include <algorithm>
#include <unordered_map>

#include "core/runtime/eager_engine.hpp"
#include "hone/autodiff.hpp"
#include "hone/ops.hpp"

namespace hone {

namespace detail {

namespace {

// The part of the record that leads to some tensors, as a graph.
class Record {
 public:
  Record() : b_(g_) {}
  Record(const Record&) = delete;

  Builder& builder() { return b_; }
  Graph& graph() { return g_; }
  NodeId recorded() const { return static_cast<NodeId>(nodes_.size()); }

  // Finds everything `roots` depend on and emits it in the order in which it ran.
  Status collect(std::span<const std::shared_ptr<Var>> roots) {
    for (const auto& root : roots) HONE_TRY(visit(root));
    std::sort(nodes_.begin(), nodes_.end(),
              [](const auto& a, const auto& b) { return a->number < b->number; });
    for (size_t i = 0; i < nodes_.size(); ++i) emit(i);
    for (const auto& root : roots) value_of(root);
    return {};
  }

  // The graph's value for a recorded one; a new input when it is no part of the record.
  Value value_of(const std::shared_ptr<Var>& var) {
    ValueId id = kNone;
    if (var->producer) {
      const auto first = first_output_.find(var->producer.get());
      if (first != first_output_.end()) id = first->second + var->output_index;
    } else if (const auto leaf = leaves_.find(var.get()); leaf != leaves_.end()) {
      id = leaf->second;
    }
    if (id == kNone) {
      id = b_.input(var->type, {}).id();
      resize();
      leaves_[var.get()] = id;
    }
    std::vector<std::shared_ptr<Var>>& aliases = vars_[static_cast<size_t>(id)];
    if (std::find(aliases.begin(), aliases.end(), var) == aliases.end()) aliases.push_back(var);
    return {&b_, id};
  }

  bool contains(const std::shared_ptr<Var>& var) const {
    return var->producer ? first_output_.count(var->producer.get()) > 0
                         : leaves_.count(var.get()) > 0;
  }

  // The recorded values that stand for a graph value.
  const std::vector<std::shared_ptr<Var>>& vars(ValueId id) const {
    return vars_[static_cast<size_t>(id)];
  }
  ValueId values() const { return static_cast<ValueId>(vars_.size()); }

  // Whether the content that `id` had is there; else it lies inside a checkpointed region.
  bool kept(ValueId id) const {
    const std::vector<Use>& uses = saved_[static_cast<size_t>(id)];
    return std::any_of(uses.begin(), uses.end(), [&](const Use& use) {
      const TapeNode& node = *nodes_[use.node];
      return (use.is_output ? node.saved_outputs : node.saved_inputs)[use.index].storage != nullptr;
    });
  }

  // A tensor with the content that `id` had when it was recorded.
  Result<Tensor> fetch(ValueId id) const {
    const Saved* found = nullptr;
    for (const Use& use : saved_[static_cast<size_t>(id)]) {
      const TapeNode& node = *nodes_[use.node];
      const Saved& s = (use.is_output ? node.saved_outputs : node.saved_inputs)[use.index];
      if (!s.storage) continue;
      if (s.storage->version != s.version)
        return invalid(
            "backward: the gradient of {} needs its {} {}, but {} has written to it in place since",
            label(node), use.is_output ? "output" : "input", use.index, s.storage->writer);
      found = &s;
    }
    HONE_ENSURE(found != nullptr);
    Tensor t = make_tensor(found->storage->data);
    t.impl()->var = var_of(id);
    return t;
  }

  // The recorded value, so that what is computed from it can be recorded in turn. An output that no
  // other operation used has lost its own; an equal one takes its place.
  std::shared_ptr<Var> var_of(ValueId id) const {
    if (!vars(id).empty()) return vars(id)[0];
    const ValueInfo& info = g_.value(id);
    auto var = std::make_shared<Var>();
    var->type = info.type;
    var->producer = nodes_[static_cast<size_t>(info.producer)];
    var->output_index = info.output_index;
    var->requires_grad = is_float(info.type.dtype);
    return var;
  }

  // Drops what the record kept, so that memory is free as soon as the last gradient has read it.
  void free() {
    for (const auto& node : nodes_) {
      node->freed = true;
      node->inputs.clear();
      node->saved_inputs.clear();
      node->saved_outputs.clear();
    }
    for (auto& uses : saved_) uses.clear();
  }

 private:
  // Where a value was saved.
  struct Use {
    size_t node;
    bool is_output;
    size_t index;
  };

  Status visit(const std::shared_ptr<Var>& root) {
    std::vector<std::shared_ptr<TapeNode>> todo;
    const auto reach = [&](const std::shared_ptr<Var>& var) {
      if (!var || !var->producer || !first_output_.try_emplace(var->producer.get(), kNone).second)
        return;
      todo.push_back(var->producer);
    };
    reach(root);
    while (!todo.empty()) {
      std::shared_ptr<TapeNode> node = std::move(todo.back());
      todo.pop_back();
      if (node->freed)
        return invalid(
            "backward: the record of {} was freed by an earlier backward; that one needed "
            "Retain::graph",
            label(*node));
      for (const auto& var : node->inputs) reach(var);
      nodes_.push_back(std::move(node));
    }
    return {};
  }

  void emit(size_t index) {
    const TapeNode& node = *nodes_[index];
    Node n{node.op, node.attrs, {}, {}, node.name};
    for (const auto& var : node.inputs) n.inputs.push_back(var ? value_of(var).id() : kNone);
    for (size_t i = 0; i < node.output_types.size(); ++i) {
      ValueInfo info;
      info.type = node.output_types[i];
      info.typed = true;
      info.producer = static_cast<NodeId>(g_.nodes.size());
      info.output_index = static_cast<int32_t>(i);
      n.outputs.push_back(g_.add_value(std::move(info)));
    }
    resize();
    if (!n.outputs.empty()) first_output_[&node] = n.outputs[0];
    for (size_t i = 0; i < n.inputs.size(); ++i)
      if (n.inputs[i] != kNone)
        saved_[static_cast<size_t>(n.inputs[i])].push_back({index, false, i});
    for (size_t i = 0; i < n.outputs.size(); ++i)
      saved_[static_cast<size_t>(n.outputs[i])].push_back({index, true, i});
    g_.nodes.push_back(std::move(n));
  }

  void resize() {
    vars_.resize(g_.values.size());
    saved_.resize(g_.values.size());
  }

  Graph g_;
  Builder b_;
  std::vector<std::shared_ptr<TapeNode>> nodes_;
  std::unordered_map<const TapeNode*, ValueId> first_output_;
  std::unordered_map<const Var*, ValueId> leaves_;
  std::vector<std::vector<std::shared_ptr<Var>>> vars_;  // by value id
  std::vector<std::vector<Use>> saved_;                  // by value id
};

// Runs the nodes that were appended to a record, as far as `wanted` needs them, and again those
// recorded ones whose results lie inside a checkpointed region, each when it is needed first.
class AppendedRun {
 public:
  AppendedRun(Record& record, NodeId first, std::span<const Value> wanted)
      : record_(record),
        g_(record.graph()),
        first_(first),
        uses_(g_.values.size(), 0),
        tensors_(g_.values.size()) {
    for (const Value& v : wanted) ++uses_[static_cast<size_t>(v.id())];
    live_.assign(g_.nodes.size(), false);
    for (NodeId n = static_cast<NodeId>(g_.nodes.size()) - 1; n >= 0; --n) {
      const Node& node = g_.node(n);
      const auto used = [&](ValueId v) {
        return uses_[static_cast<size_t>(v)] > 0 && (n >= first_ || !record_.kept(v));
      };
      if (!std::any_of(node.outputs.begin(), node.outputs.end(), used)) continue;
      live_[static_cast<size_t>(n)] = true;
      for (ValueId v : node.inputs)
        if (v != kNone) ++uses_[static_cast<size_t>(v)];
    }
  }

  // Gives a content to a value that is neither recorded nor computed.
  void provide(Value v, Tensor t) { tensors_[static_cast<size_t>(v.id())] = std::move(t); }

  // Takes what the gradient reads from the record, which may then be freed. Errors: something was
  // overwritten.
  Status fetch() {
    for (size_t i = 0; i < tensors_.size(); ++i) {
      const ValueInfo& info = g_.values[i];
      if (uses_[i] == 0 || tensors_[i].defined() || info.producer >= first_) continue;
      if (info.producer != kNone && !record_.kept(static_cast<ValueId>(i))) continue;
      if (info.kind == ValueKind::constant) {
        tensors_[i] = make_tensor(info.data);
      } else {
        HONE_ASSIGN(tensors_[i], record_.fetch(static_cast<ValueId>(i)));
      }
    }
    return {};
  }

  // `made` sees each value once it is there.
  Status run(const std::function<void(ValueId, const Tensor&)>& made) {
    for (NodeId n = first_; n < static_cast<NodeId>(g_.nodes.size()); ++n) {
      if (!live_[static_cast<size_t>(n)]) continue;
      for (NodeId again : missing_before(n)) {
        Restore<bool> recorded_already(eager().record, false);
        HONE_TRY(run_node(again, [](ValueId, const Tensor&) {}));
      }
      HONE_TRY(run_node(n, made));
    }
    return {};
  }

  const Tensor& tensor(ValueId v) const { return tensors_[static_cast<size_t>(v)]; }

 private:
  // Recorded nodes that must run again before `n` can, in order.
  std::vector<NodeId> missing_before(NodeId n) {
    std::vector<NodeId> found, open = {n};
    while (!open.empty()) {
      const NodeId at = open.back();
      open.pop_back();
      for (ValueId v : g_.node(at).inputs) {
        if (v == kNone || tensor(v).defined()) continue;
        const NodeId p = g_.value(v).producer;
        if (p == kNone || p >= first_ || !live_[static_cast<size_t>(p)]) continue;
        live_[static_cast<size_t>(p)] = false;
        found.push_back(p);
        open.push_back(p);
      }
    }
    std::sort(found.begin(), found.end());
    return found;
  }

  Status run_node(NodeId n, const std::function<void(ValueId, const Tensor&)>& made) {
    const Node& node = g_.node(n);
    std::vector<Tensor> inputs;
    for (ValueId v : node.inputs) inputs.push_back(v == kNone ? Tensor() : tensor(v));
    for (ValueId v : node.inputs)
      if (v != kNone && --uses_[static_cast<size_t>(v)] == 0) tensors_[static_cast<size_t>(v)] = {};
    Restore<std::string> scope(eager().scope, node.name);
    std::vector<Tensor> outs = apply_all(*node.op, inputs, node.attrs);
    if (!outs[0].ok()) return outs[0].status().with_context("backward");
    HONE_ENSURE(outs.size() == node.outputs.size());
    for (size_t i = 0; i < outs.size(); ++i) {
      const ValueId v = node.outputs[i];
      Tensor& place = tensors_[static_cast<size_t>(v)];
      if (uses_[static_cast<size_t>(v)] == 0 || place.defined()) continue;
      if (n < first_) outs[i].impl()->var = record_.var_of(v);
      made(v, outs[i]);
      place = std::move(outs[i]);
    }
    return {};
  }

  Record& record_;
  const Graph& g_;
  NodeId first_;
  std::vector<int> uses_;
  std::vector<bool> live_;
  std::vector<Tensor> tensors_;
};

// The target's seed: given, or left to `differentiate` for one element.
struct Target {
  Value value, seed;
  std::vector<std::pair<Value, Tensor>> provided;
};

Result<Value> seed_for(Record& record, Value output, const Tensor& seed, Target& target) {
  if (!seed.defined()) return Value();
  if (!seed.ok()) return seed.status();
  if (seed.type() != output.type())
    return invalid("backward: the seed is {}, the tensor {}", seed.type(), output.type());
  const Value v = record.builder().input(seed.type(), {});
  target.provided.emplace_back(v, seed);
  return v;
}

Result<Target> make_target(Record& record, std::span<const Tensor> outputs,
                           std::span<const Tensor> seeds) {
  Target target;
  for (size_t i = 0; i < outputs.size(); ++i) {
    const Value out = record.value_of(outputs[i].impl()->var);
    HONE_ASSIGN(const Value seed,
                seed_for(record, out, i < seeds.size() ? seeds[i] : Tensor(), target));
    if (outputs.size() == 1) {
      target.value = out;
      target.seed = seed;
      return target;
    }
    if (!seed.valid() && out.shape().numel() != 1)
      return invalid("backward: output {} is {}, not one element, and has no seed", i, out.type());
    const Value part = ops::sum(seed.valid() ? out * seed : out, ReduceAttrs{{}, false});
    target.value = target.value.valid() ? target.value + part : part;
  }
  return target;
}

// What to do with the gradient of one value.
struct Want {
  Value value;
  std::function<Status(const Tensor& gradient)> take;
};

Status run_gradient(Record& record, const Target& target, std::span<const Want> wants,
                    Retain retain) {
  std::vector<Value> wrt;
  for (const Want& w : wants) wrt.push_back(w.value);
  const NodeId first = record.recorded();
  HONE_ASSIGN(const std::vector<Value> grads,
              differentiate(record.builder(), target.value, wrt, target.seed));
  AppendedRun run(record, first, grads);
  for (const auto& [value, tensor] : target.provided) run.provide(value, tensor);
  HONE_TRY(run.fetch());
  if (retain == Retain::nothing) record.free();
  Restore<bool> recording(eager().record, retain == Retain::gradient);
  std::vector<bool> taken(grads.size(), false);
  Status status;
  const auto give = [&](size_t i, const Tensor& t) {
    taken[i] = true;
    // Two gradients may be one value; each taker gets a tensor of its own.
    Tensor own = retain == Retain::gradient ? t : make_tensor(t.data());
    if (Status s = wants[i].take(own); status.ok()) status = std::move(s);
  };
  HONE_TRY(run.run([&](ValueId id, const Tensor& t) {
    for (size_t i = 0; i < grads.size(); ++i)
      if (grads[i].id() == id) give(i, t);
  }));
  for (size_t i = 0; i < grads.size(); ++i)  // seeds and constants
    if (!taken[i]) give(i, run.tensor(grads[i].id()));
  return status;
}

Status accumulate(Var& var, const Tensor& gradient) {
  var.grad = var.grad.defined() ? var.grad + gradient : gradient;
  return var.grad.status();
}

}  // namespace

}  // namespace detail

Status Tensor::backward(Retain retain, const Tensor& seed) const {
  using namespace detail;
  if (!ok()) return status();
  if (eager().tracer) return unsupported("backward: a trace records forward code only");
  if (!requires_grad())
    return invalid(
        "backward: nothing was recorded: no tensor that went into this one wants a gradient, or "
        "NoGrad was on");
  Record record;
  const std::shared_ptr<Var> roots[] = {impl_->var};
  HONE_TRY(record.collect(roots));
  const Tensor outputs[] = {*this}, seeds[] = {seed};
  HONE_ASSIGN(const Target target, make_target(record, outputs, seeds));
  std::vector<Want> wants;
  for (ValueId id = 0; id < record.values(); ++id) {
    const std::vector<std::shared_ptr<Var>> vars = record.vars(id);
    const auto interested = [](const std::shared_ptr<Var>& v) {
      return v->requires_grad && (!v->producer || v->retain_grad || !v->hooks.empty());
    };
    if (!std::any_of(vars.begin(), vars.end(), interested)) continue;
    wants.push_back({Value(&record.builder(), id), [vars](const Tensor& gradient) -> Status {
                       for (const auto& var : vars) {
                         for (const auto& [hook_id, hook] : var->hooks) hook(gradient);
                         if (!var->producer || var->retain_grad)
                           HONE_TRY(accumulate(*var, gradient));
                       }
                       return {};
                     }});
  }
  return run_gradient(record, target, wants, retain);
}

Result<std::vector<Tensor>> grad(std::span<const Tensor> outputs, std::span<const Tensor> inputs,
                                 Retain retain, std::span<const Tensor> seeds) {
  using namespace detail;
  if (outputs.empty()) return invalid("grad: there is no output");
  if (eager().tracer) return unsupported("grad: a trace records forward code only");
  std::vector<std::shared_ptr<Var>> roots;
  for (size_t i = 0; i < outputs.size(); ++i) {
    HONE_TRY(operand_status("grad: outputs", static_cast<int>(i), outputs[i]));
    roots.push_back(outputs[i].impl()->var);
  }
  Record record;
  HONE_TRY(record.collect(roots));
  for (size_t i = 0; i < inputs.size(); ++i) {
    HONE_TRY(operand_status("grad: inputs", static_cast<int>(i), inputs[i]));
    if (!inputs[i].requires_grad())
      return invalid("grad: input {} of {} was not recorded: it wants no gradient", i,
                     inputs[i].type());
    record.value_of(inputs[i].impl()->var);
  }
  HONE_ASSIGN(const Target target, make_target(record, outputs, seeds));
  std::vector<Tensor> results(inputs.size());
  std::vector<Want> wants;
  for (size_t i = 0; i < inputs.size(); ++i)
    wants.push_back(
        {record.value_of(inputs[i].impl()->var), [&results, i](const Tensor& gradient) -> Status {
           results[i] = gradient;
           return {};
         }});
  HONE_TRY(run_gradient(record, target, wants, retain));
  return results;
}

Tensor grad(const Tensor& output, const Tensor& input, Retain retain) {
  auto result =
      grad(std::span<const Tensor>(&output, 1), std::span<const Tensor>(&input, 1), retain);
  return result.ok() ? std::move((*result)[0]) : Tensor::error(result.status());
}

}  // namespace hone
