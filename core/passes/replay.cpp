// SPDX-License-Identifier: Apache-2.0
#include "core/passes/replay.hpp"

#include <algorithm>

#include "hone/ops.hpp"

namespace hone {

namespace {

// Checks one input's shape against its declaration and binds named dimensions.
Status bind_dims(const Graph& g, const ValueInfo& input, const Shape& got,
                 std::vector<int64_t>& bound) {
  const Shape& want = input.type.shape;
  if (got.rank() != want.rank())
    return invalid("input '{}' has {} dimensions {}, the model expects {}: {}", input.name,
                   got.rank(), got, want.rank(), to_string(g, want));
  for (int i = 0; i < want.rank(); ++i) {
    if (got[i] < 0) return invalid("input '{}': axis {} is negative ({})", input.name, i, got[i]);
    if (want[i] >= 0) {
      if (got[i] != want[i])
        return invalid(
            "input '{}': axis {} is {}, the model expects {} (whole shape {}, expected {})",
            input.name, i, got[i], want[i], got, to_string(g, want));
      continue;
    }
    int64_t& value = bound[static_cast<size_t>(-want[i] - 1)];
    if (value >= 0 && value != got[i])
      return invalid("input '{}': axis {} is {}, but the dimension '{}' is already {}", input.name,
                     i, got[i], g.dim_names[static_cast<size_t>(-want[i] - 1)], value);
    value = got[i];
  }
  return {};
}

// Content of at most so many elements, if integers or truth values, enters a graph as a constant:
// it is most likely about shapes, and what is computed from it then folds.
constexpr int64_t kSmall = 64;

}  // namespace

Replay::Replay(const Graph& model, const SpecialiseOptions& options)
    : model_(model), mode_(options.mode), frozen_in_eval_(options.frozen_in_eval) {
  const int frame = add_frame(model, "");
  for (const Node& n : model.nodes) items_.push_back({frame, &n, nullptr});
}

Status Replay::bind(std::span<const Shape> shapes) {
  if (shapes.size() != model_.inputs.size())
    return invalid("the model has {} inputs, got {} shapes", model_.inputs.size(), shapes.size());
  std::vector<int64_t> bound(model_.dim_names.size(), -1);
  for (size_t i = 0; i < shapes.size(); ++i)
    if (model_.value(model_.inputs[i]).typed)
      HONE_TRY(bind_dims(model_, model_.value(model_.inputs[i]), shapes[i], bound));
  return {};
}

void Replay::begin(Builder& b) {
  b_ = &b;
  std::vector<bool> keep(slots_.size(), false);
  for (SlotId s : needed()) keep[static_cast<size_t>(s)] = true;
  for (size_t i = 0; i < slots_.size(); ++i) {
    slots_[i].value = Value();
    if (!keep[i]) slots_[i].data = TensorData();
  }
  fixed_.clear();
  fed_.clear();
  trained_.clear();
}

SlotId Replay::new_slot(Slot s) {
  slots_.push_back(std::move(s));
  return static_cast<SlotId>(slots_.size()) - 1;
}

void Replay::stand_for(int frame, const Node& n) {
  b_->set_scope(frames_[static_cast<size_t>(frame)].prefix + n.name);
  b_->set_region(region_of(frame, n));
}

int Replay::add_frame(const Graph& g, std::string prefix, int32_t region) {
  Frame f{&g, {}, std::move(prefix), region};
  for (const ValueInfo& v : g.values) {
    Slot s;
    if (v.kind == ValueKind::constant || v.kind == ValueKind::state) s.fixed = &v;
    f.slots.push_back(new_slot(std::move(s)));
  }
  frames_.push_back(std::move(f));
  return static_cast<int>(frames_.size()) - 1;
}

bool Replay::available(SlotId s) const {
  const Slot& slot = slots_[static_cast<size_t>(s)];
  return slot.value.valid() || slot.data.defined() || slot.fixed;
}

Value Replay::value(SlotId id) {
  Slot& s = slots_[static_cast<size_t>(id)];
  if (s.value.valid()) return s.value;
  if (s.fixed) {
    Value& v = fixed_[s.fixed];
    if (!v.valid()) {
      const bool named = frames_.size() == 1 || s.fixed->kind == ValueKind::state;
      if (s.fixed->kind == ValueKind::constant)
        v = b_->constant(s.fixed->data, named ? s.fixed->name : std::string());
      else
        v = b_->state(s.fixed->role, s.fixed->data, s.fixed->name);
      b_->graph().value(v.id()).trainable = s.fixed->trainable;
    }
    return v;
  }
  if (!s.data.defined()) return {};
  if (!s.loose && !is_float(s.data.dtype()) && s.data.numel() <= kSmall) {
    s.value = b_->constant(s.data);
  } else {
    s.value = b_->input(s.data.type(), format("kept_{}", id));
    if (!s.loose) b_->know(s.value, s.data);
    fed_[id] = s.value;
  }
  return s.value;
}

const TensorData* Replay::content(SlotId id) {
  const Slot& s = slots_[static_cast<size_t>(id)];
  if (s.data.defined() && !s.loose) return &s.data;
  return b_->constant_data(value(id));
}

Replay::Done Replay::want(SlotId s, std::string_view why) {
  if (wanted_.empty()) waiting_for_ = why;
  wanted_.push_back(s);
  slots_[static_cast<size_t>(s)].asked = true;
  slots_[static_cast<size_t>(s)].loose = false;
  return Done::waits;
}

Status Replay::advance(size_t max_nodes) {
  wanted_.clear();
  max_nodes_ = max_nodes;
  for (auto at = items_.begin(); at != items_.end();) {
    HONE_ASSIGN(const Done done, process(at));
    at = done == Done::yes ? items_.erase(at) : std::next(at);
  }
  return {};
}

Result<Replay::Done> Replay::process(Items::iterator at) {
  if (b_->graph().nodes.size() >= max_nodes_) return Done::waits;
  if (at->run) return iterate(at);
  for (ValueId v : at->node->inputs)
    if (v != kNone && !available(slot_of(at->frame, v))) return Done::waits;
  if (at->node->op == &op::if_else) return unfold_if(at);
  if (at->node->op == &op::loop) return start_loop(at);
  if (at->node->op == &op::scan) return start_scan(at);
  return replay(*at);
}

// A training form is a decomposition and may take for granted what the operator's shape rule
// checks. A model file may claim more outputs of a node whose types it leaves open.
Result<Replay::Done> Replay::replay(const Item& item) {
  const Node& n = *item.node;
  std::vector<Value> inputs;
  std::vector<const TensorType*> types;
  std::vector<const TensorData*> constants;
  for (ValueId v : n.inputs) {
    inputs.push_back(v == kNone ? Value() : value(slot_of(item.frame, v)));
  }
  for (const Value& v : inputs) {
    constants.push_back(b_->constant_data(v));
    types.push_back(v.valid() ? &v.type() : nullptr);
  }
  uint64_t missed = 0;
  const std::string name = frames_[static_cast<size_t>(item.frame)].prefix + n.name;
  auto outs = infer(*n.op, name, std::move(types), std::move(constants), n.attrs, &missed);
  if (!outs.ok()) {
    if (outs.status().code() != Code::unsupported || missed == 0) return outs.status();
    for (size_t i = 0; i < n.inputs.size() && i < 64; ++i)
      if (missed >> i & 1) want(slot_of(item.frame, n.inputs[i]), outs.status().message());
    return Done::waits;
  }
  if (outs->size() < n.outputs.size())
    return invalid("{}: has {} outputs, its rule gives {}", label(n), n.outputs.size(),
                   outs->size());
  stand_for(item.frame, n);
  HONE_ASSIGN(const std::vector<Value> made, emit(n, inputs));
  if (made.size() < n.outputs.size()) return internal("{}: gave too few outputs", label(n));
  for (size_t i = 0; i < n.outputs.size(); ++i) {
    set_value(slot_of(item.frame, n.outputs[i]), made[i]);
    ValueInfo& info = b_->graph().value(made[i].id());
    if (item.frame == 0 && info.kind == ValueKind::node && info.name.empty())
      info.name = model_.value(n.outputs[i]).name;
  }
  return Done::yes;
}

bool Replay::takes_training_form(const Node& n, std::span<const Value> inputs) {
  if (mode_ != Mode::train || !n.op->training) return false;
  if (!frozen_in_eval_) return true;
  const Graph& g = b_->graph();
  const auto trained = [&](ValueId v) { return v != kNone && trained_[static_cast<size_t>(v)]; };
  while (trained_.size() < g.values.size()) {
    const ValueInfo& v = g.values[trained_.size()];
    bool depends = v.kind == ValueKind::state && v.role == StateRole::parameter && v.trainable &&
                   is_float(v.type.dtype);
    if (v.kind == ValueKind::node)
      for (ValueId in : g.node(v.producer).inputs) depends |= trained(in);
    trained_.push_back(depends);
  }
  return std::any_of(inputs.begin(), inputs.end(), [&](const Value& v) { return trained(v.id()); });
}

Result<std::vector<Value>> Replay::emit(const Node& n, std::span<const Value> inputs) {
  std::vector<Value> outs;
  if (takes_training_form(n, inputs)) {
    std::vector<ValueId> ids;
    for (const Value& v : inputs) ids.push_back(v.id());
    TrainingCtx c(*b_, ids, n.attrs, n.outputs.size(), label(n));
    n.op->training(c);
    outs = std::move(c.outs);
  } else {
    outs = b_->emit_all(*n.op, inputs, n.attrs);
  }
  if (!b_->status().ok()) return b_->status();
  return outs;
}

void Replay::refer(const Item& item, const std::function<void(SlotId)>& f) const {
  const auto frame = [&](int i) -> const Frame& { return frames_[static_cast<size_t>(i)]; };
  if (!item.run) {
    for (ValueId v : item.node->inputs)
      if (v != kNone) f(frame(item.frame).slots[static_cast<size_t>(v)]);
    return;
  }
  const Run& run = *item.run;
  if (run.condition != kNone) f(run.condition);
  for (SlotId s : run.carried)
    if (s != kNone) f(s);
  for (SlotId s : run.captured) f(s);
  for (size_t i = 0; i < run.sequences.size(); ++i)
    for (size_t t = static_cast<size_t>(run.done); t < run.sequences[i].size(); ++t)
      f(run.sequences[i][t]);
  for (const auto& list : run.stacked)
    for (SlotId s : list) f(s);
  if (run.last_frame >= 0)
    for (const GraphOutput& o : run.body->outputs)
      f(frame(run.last_frame).slots[static_cast<size_t>(o.value)]);
}

std::vector<SlotId> Replay::needed() const {
  std::vector<SlotId> all;
  for (const Item& item : items_) refer(item, [&](SlotId s) { all.push_back(s); });
  for (const GraphOutput& o : model_.outputs) all.push_back(slot(o.value));
  std::sort(all.begin(), all.end());
  all.erase(std::unique(all.begin(), all.end()), all.end());
  return all;
}

}  // namespace hone
