// SPDX-License-Identifier: Apache-2.0
#include "core/runtime/staged.hpp"

#include <algorithm>

#include "hone/specialise.hpp"

namespace hone {

namespace {

constexpr int64_t kFoldLimitBytes = 64 << 10;
// A loop that unfolds beyond this goes on in the next stage.
constexpr size_t kStageNodes = 4096;
constexpr size_t kPrograms = 64;

void add(std::string& out, const void* p, size_t n) { out.append(static_cast<const char*>(p), n); }
template <class T>
void add(std::string& out, const T& v) {
  add(out, &v, sizeof v);  // NOLINT(bugprone-sizeof-expression): pointers are keys here
}

// All that a program depends on. States count by name; large constants by where they lie.
std::string fingerprint(const Graph& g) {
  constexpr int64_t kByContent = 4096;
  std::string out;
  for (const ValueInfo& v : g.values) {
    add(out, v.kind);
    add(out, v.producer);
    out += to_string(v.type);
    if (v.kind == ValueKind::input || v.kind == ValueKind::state) out += v.name;
    if (v.kind != ValueKind::constant) continue;
    if (v.data.bytes() <= kByContent)
      add(out, v.data.data(), static_cast<size_t>(v.data.bytes()));
    else
      add(out, v.data.data());
  }
  for (const Node& n : g.nodes) {
    add(out, n.op);
    for (ValueId v : n.inputs) add(out, v);
    add(out, kNone);
    out += exact_bytes(n.attrs);
  }
  for (const GraphOutput& o : g.outputs) {
    add(out, o.value);
    out += o.name;
  }
  return out;
}

}  // namespace

Result<std::vector<TensorData>> Staged::run(std::span<const TensorData> inputs) {
  const Graph& model = engine_.model().graph;
  Replay replay(model, SpecialiseOptions{});
  std::vector<Shape> shapes;
  for (const TensorData& t : inputs) shapes.push_back(t.shape());
  HONE_TRY(replay.bind(shapes));
  for (bool first = true; first || !replay.finished(); first = false)
    HONE_TRY(run_stage(replay, inputs, first));
  std::vector<TensorData> outputs;
  for (const GraphOutput& o : model.outputs) {
    TensorData data = replay.data(replay.slot(o.value));
    if (!data.defined()) {  // a state, as it is now
      const StateStore::Entry* e = engine_.states().find(model.value(o.value).name);
      data = e ? e->data : model.value(o.value).data;
    }
    HONE_ASSIGN(TensorData copy, data.clone());
    outputs.push_back(std::move(copy));
  }
  return outputs;
}

Status Staged::run_stage(Replay& replay, std::span<const TensorData> inputs, bool first) {
  const Graph& model = engine_.model().graph;
  Graph g;
  Builder b(g);
  b.set_fold_limit(kFoldLimitBytes);
  replay.begin(b);
  if (first)
    for (size_t i = 0; i < inputs.size(); ++i)
      replay.set_loose_data(replay.slot(model.inputs[i]), inputs[i]);
  HONE_TRY(replay.advance(kStageNodes));
  std::vector<SlotId> wanted = replay.wanted(), outputs;
  bool progress = false;
  for (SlotId s : replay.needed()) {
    if (replay.data(s).defined()) continue;
    const Value v = replay.value(s);
    if (!v.valid() || g.value(v.id()).kind == ValueKind::state) continue;
    progress = true;
    if (g.value(v.id()).kind == ValueKind::constant) {
      replay.set_data(s, g.value(v.id()).data);
      continue;
    }
    outputs.push_back(s);
    b.output(v, format("s{}", s));
  }
  // What was asked for may have been there all along, but loosely.
  if (!progress && wanted.empty() && !replay.finished())
    return internal("nodes wait for what nothing makes");
  // Weights may change from run to run; nothing is found out by asking again.
  for (SlotId s : wanted) {
    const Value v = replay.value(s);
    if (v.valid() && g.value(v.id()).kind == ValueKind::state)
      return unsupported("a shape depends on the elements of the weight '{}'; make it a constant",
                         g.value(v.id()).name);
  }
  std::vector<NamedTensor> fed;
  for (const auto& [slot, value] : replay.fed())
    fed.push_back({g.value(value.id()).name, replay.data(slot)});
  return outputs.empty() ? Status() : run_graph(std::move(g), replay, outputs, fed);
}

Status Staged::run_graph(Graph g, Replay& replay, std::span<const SlotId> outputs,
                         std::span<const NamedTensor> fed) {
  HONE_TRY(remove_dead(g));
  HONE_ASSIGN(Compiled* const c, program(std::move(g)));
  const Graph& made = c->program.graph;
  for (size_t i = 0; i < made.inputs.size(); ++i)
    for (const NamedTensor& t : fed)
      if (t.name == made.value(made.inputs[i]).name) c->input_pointers[i] = t.data.data();
  std::vector<TensorData> results;
  for (size_t i = 0; i < made.outputs.size(); ++i) {
    HONE_ASSIGN(TensorData t, TensorData::allocate(made.type(made.outputs[i].value)));
    c->output_pointers[i] = t.mutable_data();
    results.push_back(std::move(t));
  }
  HONE_TRY(engine_.run(*c));
  for (size_t i = 0; i < outputs.size(); ++i) replay.set_data(outputs[i], std::move(results[i]));
  return {};
}

Result<Compiled*> Staged::program(Graph g) {
  std::string print = fingerprint(g);
  for (const auto& c : programs_)
    if (c->names[0] == print) {
      Compiled* const same = c.get();  // binding may drop the others
      same->last_used = engine_.next_use();
      HONE_TRY(engine_.bind(*same));
      return same;
    }
  HONE_ASSIGN(std::unique_ptr<Compiled> c,
              engine_.compile(std::move(g), {.advice = Engine::kSmallerInputs}));
  HONE_TRY(engine_.bind(*c));
  c->last_used = engine_.next_use();
  c->names = {std::move(print)};
  if (programs_.size() >= kPrograms)
    programs_.erase(
        std::min_element(programs_.begin(), programs_.end(),
                         [](const auto& a, const auto& b) { return a->last_used < b->last_used; }));
  programs_.push_back(std::move(c));
  return programs_.back().get();
}

}  // namespace hone
