// SPDX-License-Identifier: Apache-2.0
// Unfolding of if_else, loop and scan: the body's nodes take the place of the node, once for each
// iteration.
#include <algorithm>

#include "core/passes/replay.hpp"
#include "hone/ops.hpp"

namespace hone {

namespace {

Status check_body(const Node& n, const GraphPtr& body, size_t inputs, size_t outputs) {
  if (!body) return invalid("{}: has no body", label(n));
  if (body->inputs.size() != inputs)
    return invalid("{}: its body takes {} inputs, it gets {}", label(n), body->inputs.size(),
                   inputs);
  if (body->outputs.size() < outputs)
    return invalid("{}: its body has {} outputs, expected {}", label(n), body->outputs.size(),
                   outputs);
  return {};
}

Result<bool> truth(const Node& n, const TensorData& t) {
  if (t.dtype() != DType::bool_ || t.numel() != 1)
    return invalid("{}: its condition is {}, expected one truth value", label(n), t.type());
  return t.at(0) != 0;
}

}  // namespace

void Replay::splice_nodes(Items::iterator after, int frame) {
  const auto before = std::next(after);
  for (const Node& n : frames_[static_cast<size_t>(frame)].graph->nodes)
    items_.insert(before, {frame, &n, nullptr});
}

Result<Replay::Done> Replay::unfold_if(Items::iterator at) {
  const Node& n = *at->node;
  const int outer = at->frame;
  const SlotId condition = slot_of(outer, n.inputs[0]);
  const TensorData* known = content(condition);
  if (!known) return want(condition, format("{}: which branch it takes depends on data", label(n)));
  HONE_ASSIGN(const bool taken, truth(n, *known));
  const IfAttrs& attrs = n.attrs.as<IfAttrs>();
  const GraphPtr& body = taken ? attrs.then_branch : attrs.else_branch;
  HONE_TRY(check_body(n, body, n.inputs.size() - 1, n.outputs.size()));
  const int frame =
      add_frame(*body, format("{}{}/", frames_[static_cast<size_t>(outer)].prefix, n.name),
                region_of(outer, n));
  for (size_t i = 1; i < n.inputs.size(); ++i)
    slot_of(frame, body->inputs[i - 1]) = slot_of(outer, n.inputs[i]);
  // Its outputs are those of the branch. They stay where the branch makes them; an output of the
  // branch that another control operator in it makes is looked up when that is unfolded.
  auto run = std::make_shared<Run>();
  run->frame = outer;
  run->node = &n;
  run->body = body;
  run->last_frame = frame;
  for (size_t i = 0; i < n.outputs.size(); ++i) run->carried.push_back(kNone);
  items_.insert(std::next(at), {outer, &n, run});
  splice_nodes(at, frame);
  return Done::yes;
}

Result<Replay::Done> Replay::start_loop(Items::iterator at) {
  const Node& n = *at->node;
  const LoopAttrs& attrs = n.attrs.as<LoopAttrs>();
  auto run = std::make_shared<Run>();
  run->frame = at->frame;
  run->node = &n;
  run->body = attrs.body;
  run->has_condition = true;
  run->trips = -1;
  const auto given = [&](size_t i) {
    return i < n.inputs.size() && n.inputs[i] != kNone ? slot_of(at->frame, n.inputs[i]) : kNone;
  };
  if (const SlotId trips = given(0); trips != kNone) {
    const TensorData* known = content(trips);
    if (!known) return want(trips, format("{}: how often it runs depends on data", label(n)));
    if (known->dtype() != DType::i64 || known->numel() != 1)
      return invalid("{}: its number of iterations is {}, expected one i64", label(n),
                     known->type());
    run->trips = std::max<int64_t>(0, static_cast<int64_t>(known->at(0)));
  }
  run->condition = given(1);
  const int64_t most = static_cast<int64_t>(n.inputs.size()) - 2;
  if (attrs.carried < 0 || attrs.carried > std::max<int64_t>(most, 0))
    return invalid("{}: says that it carries {} values, it has {} inputs", label(n), attrs.carried,
                   n.inputs.size());
  for (size_t i = 2; i < n.inputs.size(); ++i)
    (static_cast<int64_t>(i) - 2 < attrs.carried ? run->carried : run->captured)
        .push_back(slot_of(at->frame, n.inputs[i]));
  const size_t carried = run->carried.size();
  if (n.outputs.size() < carried) return invalid("{}: has too few outputs", label(n));
  run->stacked.resize(n.outputs.size() - carried);
  HONE_TRY(check_body(n, run->body, 2 + carried + run->captured.size(),
                      1 + carried + run->stacked.size()));
  items_.insert(std::next(at), {at->frame, &n, run});
  return Done::yes;
}

Result<Replay::Done> Replay::start_scan(Items::iterator at) {
  const Node& n = *at->node;
  const ScanAttrs& attrs = n.attrs.as<ScanAttrs>();
  auto run = std::make_shared<Run>();
  run->frame = at->frame;
  run->node = &n;
  run->body = attrs.body;
  run->trips = -1;
  const size_t carried = static_cast<size_t>(std::max<int64_t>(attrs.carried, 0));
  const size_t sequences = attrs.in_axes.size();
  if (n.inputs.size() < carried + sequences || n.outputs.size() < carried || sequences == 0)
    return invalid("{}: has {} inputs, expected {} carried values and {} sequences", label(n),
                   n.inputs.size(), carried, sequences);
  for (size_t i = 0; i < n.inputs.size(); ++i) {
    const SlotId s = slot_of(at->frame, n.inputs[i]);
    if (i < carried) run->carried.push_back(s);
    if (i >= carried + sequences) run->captured.push_back(s);
  }
  for (size_t k = 0; k < sequences; ++k) {
    const Value x = value(slot_of(at->frame, n.inputs[carried + k]));
    const int rank = x.shape().rank();
    const int64_t axis = attrs.in_axes[k] < 0 ? attrs.in_axes[k] + rank : attrs.in_axes[k];
    if (axis < 0 || axis >= rank)
      return invalid("{}: scans axis {} of {}", label(n), attrs.in_axes[k], x.type());
    const int64_t length = x.shape()[static_cast<int>(axis)];
    if (run->trips >= 0 && run->trips != length)
      return invalid("{}: its sequences have {} and {} elements", label(n), run->trips, length);
    run->trips = length;
    Shape element = x.shape();
    element.erase(static_cast<int>(axis));
    std::vector<SlotId> slots;
    if (length > 0) {
      stand_for(at->frame, n);
      const SplitAttrs split{axis, std::vector<int64_t>(static_cast<size_t>(length), 1)};
      for (const Value& v : b_->emit_all(op::split, std::span(&x, 1), split))
        slots.push_back(new_slot({ops::reshape(v, element), {}, nullptr}));
      if (!b_->status().ok()) return b_->status();
    }
    if (k < attrs.in_reverse.size() && attrs.in_reverse[k])
      std::reverse(slots.begin(), slots.end());
    run->sequences.push_back(std::move(slots));
  }
  run->stacked.resize(n.outputs.size() - carried);
  HONE_TRY(check_body(n, run->body, n.inputs.size(), n.outputs.size()));
  items_.insert(std::next(at), {at->frame, &n, run});
  return Done::yes;
}

// Takes the outputs of the iteration before, and unfolds the next one or ends the loop.
Result<Replay::Done> Replay::iterate(Items::iterator at) {
  Run& run = *at->run;
  const size_t first = run.has_condition ? 1 : 0;  // of the body's outputs that are carried
  if (run.last_frame >= 0) {
    for (const GraphOutput& o : run.body->outputs)
      if (!available(slot_of(run.last_frame, o.value))) return Done::waits;
    const auto output = [&](size_t i) {
      return slot_of(run.last_frame, run.body->outputs[i].value);
    };
    if (run.has_condition) run.condition = output(0);
    for (size_t i = 0; i < run.carried.size(); ++i) run.carried[i] = output(first + i);
    for (size_t k = 0; k < run.stacked.size(); ++k)
      run.stacked[k].push_back(output(first + run.carried.size() + k));
    run.last_frame = -1;
    ++run.done;
  }
  if (run.node->op == &op::if_else) return finish(run);
  bool more = run.trips < 0 || run.done < run.trips;
  if (more && run.condition != kNone) {
    const TensorData* known = content(run.condition);
    if (!known)
      return want(run.condition,
                  format("{}: whether it goes on depends on data", label(*run.node)));
    HONE_ASSIGN(more, truth(*run.node, *known));
  }
  if (!more) return finish(run);
  const Graph& body = *run.body;
  const int frame = add_frame(
      body,
      format("{}{}/{}/", frames_[static_cast<size_t>(run.frame)].prefix, run.node->name, run.done),
      region_of(run.frame, *run.node));
  size_t next = 0;
  const auto give = [&](SlotId s) { slot_of(frame, body.inputs[next++]) = s; };
  if (run.has_condition) {
    HONE_ASSIGN(TensorData iteration, TensorData::scalar_of(run.done));
    HONE_ASSIGN(TensorData yes, TensorData::scalar_of(true));
    give(new_slot({{}, std::move(iteration), nullptr}));
    give(new_slot({{}, std::move(yes), nullptr}));
  }
  for (SlotId s : run.carried) give(s);
  for (const auto& sequence : run.sequences) give(sequence[static_cast<size_t>(run.done)]);
  for (SlotId s : run.captured) give(s);
  run.last_frame = frame;
  // This item comes again after the body's nodes.
  items_.insert(std::next(at), {at->frame, at->node, at->run});
  splice_nodes(at, frame);
  return Done::yes;
}

Result<Replay::Done> Replay::finish(const Run& run) {
  const Node& n = *run.node;
  for (SlotId s : run.carried)
    if (!available(s)) return Done::waits;
  const size_t carried = run.carried.size();
  for (size_t i = 0; i < carried && i < n.outputs.size(); ++i)
    slot_of(run.frame, n.outputs[i]) = run.carried[i];
  stand_for(run.frame, n);
  for (size_t k = 0; k < run.stacked.size(); ++k) {
    HONE_ASSIGN(const Value v, stack(run, k));
    set_value(slot_of(run.frame, n.outputs[carried + k]), v);
  }
  return Done::yes;
}

Result<Value> Replay::stack(const Run& run, size_t k) {
  int64_t axis = 0;
  bool reverse = false;
  if (run.node->op == &op::scan) {
    const ScanAttrs& attrs = run.node->attrs.as<ScanAttrs>();
    if (k < attrs.out_axes.size()) axis = attrs.out_axes[k];
    reverse = k < attrs.out_reverse.size() && attrs.out_reverse[k];
  }
  const auto with_axis = [&](const Shape& element, int64_t extent) -> Result<Shape> {
    const int rank = element.rank() + 1;
    const int64_t at = axis < 0 ? axis + rank : axis;
    if (at < 0 || at >= rank || rank > kMaxRank)
      return invalid("{}: stacks elements {} along axis {}", label(*run.node), element, axis);
    Shape out = element;
    out.insert(static_cast<int>(at), extent);
    return out;
  };
  if (run.stacked[k].empty()) {
    HONE_ASSIGN(const TensorType element, empty_element(run, k));
    HONE_ASSIGN(const Shape shape, with_axis(element.shape, 0));
    HONE_ASSIGN(TensorData none, TensorData::zeros({element.dtype, shape}));
    return b_->constant(std::move(none));
  }
  std::vector<Value> parts;
  for (SlotId s : run.stacked[k]) {
    const Value v = value(s);
    HONE_ASSIGN(const Shape shape, with_axis(v.shape(), 1));
    parts.push_back(ops::reshape(v, shape));
  }
  if (reverse) std::reverse(parts.begin(), parts.end());
  const int64_t rank = parts[0].shape().rank();
  const Value out =
      parts.size() == 1 ? parts[0] : ops::concat(parts, axis < 0 ? axis + rank : axis);
  if (!b_->status().ok()) return b_->status();
  return out;
}

// What one iteration would have given: the body is replayed once on values of the right types.
Result<TensorType> Replay::empty_element(const Run& run, size_t k) {
  Graph g;
  Builder b(g);
  Replay body(*run.body, SpecialiseOptions{});
  body.begin(b);
  size_t next = 0;
  const auto give = [&](Value v) { body.set_value(body.slot(run.body->inputs[next++]), v); };
  const auto like = [&](SlotId s) { give(b.input(value(s).type(), format("x{}", next))); };
  if (run.has_condition) {
    give(b.input({DType::i64, {}}, "iteration"));
    give(b.input({DType::bool_, {}}, "condition"));
  }
  for (SlotId s : run.carried) like(s);
  const bool scans = !run.sequences.empty();
  for (size_t i = 0; scans && i < run.sequences.size(); ++i) {
    const ScanAttrs& attrs = run.node->attrs.as<ScanAttrs>();
    const Value x = value(slot_of(run.frame, run.node->inputs[run.carried.size() + i]));
    const int64_t axis =
        attrs.in_axes[i] < 0 ? attrs.in_axes[i] + x.shape().rank() : attrs.in_axes[i];
    Shape element = x.shape();
    element.erase(static_cast<int>(axis));
    give(b.input({x.dtype(), element}, format("x{}", next)));
  }
  for (SlotId s : run.captured) like(s);
  HONE_TRY(body.advance(size_t{1} << 16));
  const size_t output = (run.has_condition ? 1 : 0) + run.carried.size() + k;
  const Value v = body.value(body.slot(run.body->outputs[output].value));
  if (!v.valid())
    return unsupported("{}: runs no iteration, and the shape of its output {} depends on data",
                       label(*run.node), run.carried.size() + k);
  return v.type();
}

}  // namespace hone
