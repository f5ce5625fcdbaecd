// SPDX-License-Identifier: Apache-2.0
// Specialisation: the model graph is replayed through a Builder.
#include "hone/specialise.hpp"

#include "core/passes/replay.hpp"
#include "hone/ops.hpp"

namespace hone {

namespace {

// A graph of so many nodes is no longer planned in reasonable time.
constexpr size_t kMostNodes = size_t{1} << 18;

Status replay_all(Replay& replay, Builder& b, const SpecialiseOptions& options) {
  for (;;) {
    HONE_TRY(replay.advance(kMostNodes));
    if (replay.finished()) return {};
    if (b.graph().nodes.size() >= kMostNodes)
      return unsupported("the model's loops unfold to more than {} nodes", kMostNodes);
    if (replay.wanted().empty()) return internal("nodes wait for what nothing makes");
    if (!options.evaluate) {
      if (options.depends_on_data) *options.depends_on_data = true;
      return unsupported("{}", replay.waiting_for());
    }
    for (SlotId s : replay.wanted()) {
      const Value v = replay.value(s);
      if (b.constant_data(v)) continue;
      HONE_ASSIGN(TensorData data, options.evaluate(b.graph(), v.id()));
      b.know(v, std::move(data));
    }
  }
}

}  // namespace

Value TrainingCtx::rng() {
  Graph& g = b.graph();
  const std::vector<ValueId> existing = g.states(StateRole::rng);
  if (!existing.empty()) return {&b, existing[0]};
  auto data = TensorData::zeros({DType::i64, {2}});
  if (!data.ok()) {
    b.fail(data.status());
    return {};
  }
  const Value rng = b.state(StateRole::rng, std::move(*data), "rng");
  const int64_t one[] = {0, 1};
  g.updates.push_back({rng.id(), ops::add(rng, b.ints(one)).id()});
  return rng;
}

int64_t TrainingCtx::next_stream() {
  // The number of nodes so far: it only grows, so no two random nodes share one.
  return static_cast<int64_t>(b.graph().nodes.size());
}

void TrainingCtx::update(int input, Value next) {
  if (!has(input) || !next.valid()) return;
  Graph& g = b.graph();
  const ValueId state = in(input).id();
  if (g.value(state).kind == ValueKind::state) g.updates.push_back({state, next.id()});
}

Result<Graph> specialise(const Graph& model, std::span<const Shape> input_shapes,
                         const SpecialiseOptions& options) {
  Replay replay(model, options);
  HONE_TRY(replay.bind(input_shapes));
  Graph g;
  g.name = model.name;
  Builder b(g);
  b.set_fold_limit(options.fold_limit_bytes);
  b.collect_ops(options.collect_ops);
  b.set_writes_out(options.writes_out);
  replay.begin(b);
  for (size_t i = 0; i < input_shapes.size(); ++i) {
    const ValueInfo& v = model.value(model.inputs[i]);
    replay.set_value(replay.slot(model.inputs[i]),
                     b.input({v.type.dtype, input_shapes[i]}, v.name));
  }
  for (size_t i = 0; i < model.values.size(); ++i)  // in their order
    if (model.values[i].kind == ValueKind::constant || model.values[i].kind == ValueKind::state)
      (void)replay.value(replay.slot(static_cast<ValueId>(i)));
  HONE_TRY(replay_all(replay, b, options));
  for (const GraphOutput& o : model.outputs) {
    GraphOutput out = o;
    out.value = replay.value(replay.slot(o.value)).id();
    out.has_declared = false;
    g.outputs.push_back(std::move(out));
  }
  for (const StateUpdate& u : model.updates) {
    const ValueId state = replay.value(replay.slot(u.state)).id(),
                  next = replay.value(replay.slot(u.next)).id();
    if (g.type(state) != g.type(next))
      return invalid("state '{}' is {}, its update {}", g.value(state).name, g.type(state),
                     g.type(next));
    g.updates.push_back({state, next});
  }
  HONE_TRY(remove_dead(g));
  return g;
}

}  // namespace hone
