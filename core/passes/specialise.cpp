// SPDX-License-Identifier: Apache-2.0
// Specialisation: the model graph is replayed through a Builder that infers, folds and decomposes.
#include "hone/specialise.hpp"

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

class Replay {
 public:
  Replay(const Graph& from, const SpecialiseOptions& options)
      : from_(from), options_(options), b_(to_) {
    b_.set_fold_limit(options.fold_limit_bytes);
    to_.name = from.name;
    map_.resize(from.values.size());
  }

  Result<Graph> run(std::span<const Shape> shapes) {
    if (shapes.size() != from_.inputs.size())
      return invalid("the model has {} inputs, got {} shapes", from_.inputs.size(), shapes.size());
    std::vector<int64_t> bound(from_.dim_names.size(), -1);
    for (size_t i = 0; i < shapes.size(); ++i) {
      const ValueInfo& v = from_.value(from_.inputs[i]);
      HONE_TRY(bind_dims(from_, v, shapes[i], bound));
      map(from_.inputs[i]) = b_.input({v.type.dtype, shapes[i]}, v.name);
    }
    for (size_t i = 0; i < from_.values.size(); ++i) copy_value(static_cast<ValueId>(i));
    for (const Node& n : from_.nodes) HONE_TRY(replay(n));
    for (const GraphOutput& o : from_.outputs) {
      GraphOutput out = o;
      out.value = map(o.value).id();
      out.has_declared = false;
      to_.outputs.push_back(std::move(out));
    }
    for (const StateUpdate& u : from_.updates) {
      const ValueId state = map(u.state).id(), next = map(u.next).id();
      if (to_.type(state) != to_.type(next))
        return invalid("state '{}' is {}, its update {}", to_.value(state).name, to_.type(state),
                       to_.type(next));
      to_.updates.push_back({state, next});
    }
    HONE_TRY(remove_dead(to_));
    return std::move(to_);
  }

 private:
  Value& map(ValueId v) { return map_[static_cast<size_t>(v)]; }

  void copy_value(ValueId id) {
    const ValueInfo& v = from_.value(id);
    if (v.kind == ValueKind::constant) map(id) = b_.constant(v.data, v.name);
    if (v.kind != ValueKind::state) return;
    map(id) = b_.state(v.role, v.data, v.name);
    to_.value(map(id).id()).trainable = v.trainable;
  }

  Status replay(const Node& n) {
    std::vector<Value> inputs;
    for (ValueId v : n.inputs) inputs.push_back(v == kNone ? Value() : map(v));
    b_.set_scope(n.name);
    std::vector<Value> outs;
    if (options_.mode == Mode::train && n.op->training) {
      std::vector<ValueId> ids;
      for (const Value& v : inputs) ids.push_back(v.id());
      HONE_ASSIGN(const size_t count, outputs_by_inference(n, inputs));
      HONE_TRY(check_count(n, count));
      TrainingCtx c(b_, ids, n.attrs, n.outputs.size(), label(n));
      n.op->training(c);
      outs = std::move(c.outs);
    } else {
      outs = b_.emit_all(*n.op, inputs, n.attrs);
    }
    if (!b_.status().ok()) return b_.status();
    HONE_TRY(check_count(n, outs.size()));
    for (size_t i = 0; i < n.outputs.size(); ++i) {
      map(n.outputs[i]) = outs[i];
      ValueInfo& made = to_.value(outs[i].id());
      if (made.kind == ValueKind::node && made.name.empty())
        made.name = from_.value(n.outputs[i]).name;
    }
    return {};
  }

  // A training form is a decomposition and may take for granted what the operator's shape rule
  // checks.
  Result<size_t> outputs_by_inference(const Node& n, std::span<const Value> inputs) const {
    std::vector<const TensorType*> types;
    std::vector<const TensorData*> constants;
    for (const Value& v : inputs) {
      types.push_back(v.valid() ? &v.type() : nullptr);
      constants.push_back(b_.constant_data(v));
    }
    HONE_ASSIGN(const auto outs,
                infer(*n.op, n.name, std::move(types), std::move(constants), n.attrs));
    return outs.size();
  }

  // A model file may claim more outputs of a node whose types it leaves open.
  static Status check_count(const Node& n, size_t count) {
    if (count >= n.outputs.size()) return {};
    return invalid("{}: has {} outputs, its rule gives {}", label(n), n.outputs.size(), count);
  }

  const Graph& from_;
  SpecialiseOptions options_;
  Graph to_;
  Builder b_;
  std::vector<Value> map_;
};

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
  return Replay(model, options).run(input_shapes);
}

}  // namespace hone
