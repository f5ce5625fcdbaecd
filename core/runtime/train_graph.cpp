// SPDX-License-Identifier: Apache-2.0
// The training step as one graph: specialise, append the loss, differentiate, clip, update.
#include "core/runtime/train_graph.hpp"

#include "core/runtime/engine.hpp"
#include "hone/autodiff.hpp"
#include "hone/ops.hpp"

namespace hone {

namespace {

class Writer {
 public:
  Writer(Graph graph, const TrainerOptions& options, std::set<const OpDef*>* ops)
      : options_(options), b_(out_.graph) {
    out_.graph = std::move(graph);
    b_.collect_ops(ops);
  }

  Result<TrainGraph> run(std::span<const std::pair<std::string, TensorType>> targets,
                         TrainForm form) {
    HONE_ASSIGN(const Value loss, append_loss(targets));
    Graph& g = out_.graph;
    Value weight;
    if (form == TrainForm::accumulate) {
      HONE_ASSIGN(weight, append_weight());
    }
    g.outputs.clear();
    b_.output(loss, "loss");
    if (weight.valid()) b_.output(weight, "weight");
    weight_ = weight;
    if (form == TrainForm::loss)
      g.updates.clear();
    else
      HONE_TRY(append_backward(loss, form));
    if (!b_.status().ok()) return b_.status();
    HONE_TRY(remove_dead(g));
    return std::move(out_);
  }

 private:
  Result<Value> append_loss(std::span<const std::pair<std::string, TensorType>> targets) {
    Graph& g = out_.graph;
    for (const GraphOutput& o : g.outputs) outputs_.add(o.name, Value(&b_, o.value));
    for (const auto& [name, type] : targets) targets_.add(name, b_.input(type, name));
    b_.set_scope("loss");
    HONE_ASSIGN(const Value loss, options_.loss(b_, outputs_, targets_));
    if (!b_.status().ok()) return b_.status();
    if (!loss.valid() || !is_float(loss.dtype()) || loss.shape().numel() != 1)
      return invalid("the loss must be a floating-point scalar, it is {}", loss.type());
    return ops::reshape(loss, {});
  }

  // How much the mean over this batch counts: targets if the caller counts them, else samples.
  Result<Value> append_weight() {
    const Graph& g = out_.graph;
    if (!options_.count_targets) {
      int64_t samples = 1;
      for (ValueId v : g.inputs)
        if (g.type(v).shape.rank() > 0) {
          samples = g.type(v).shape[0];
          break;
        }
      return b_.scalar(static_cast<double>(samples), DType::f32);
    }
    b_.set_scope("count");
    HONE_ASSIGN(const Value count, options_.count_targets(b_, outputs_, targets_));
    if (!b_.status().ok()) return b_.status();
    if (!count.valid() || count.shape().numel() != 1)
      return invalid("the number of targets must be a scalar, it is {}", count.type());
    return ops::reshape(ops::cast(count, DType::f32), {});
  }

  Status append_backward(Value loss, TrainForm form) {
    Graph& g = out_.graph;
    std::vector<Value> wrt;
    for (ValueId v : g.states(StateRole::parameter)) {
      const ValueInfo& info = g.value(v);
      if (!info.trainable || !is_float(info.type.dtype)) continue;
      wrt.emplace_back(&b_, v);
      out_.trainable.push_back(info.name);
    }
    HONE_ASSIGN(std::vector<Value> grads, differentiate(b_, loss, wrt));
    if (form == TrainForm::gradients) {
      g.updates.clear();
      for (size_t i = 0; i < grads.size(); ++i) b_.output(grads[i], out_.trainable[i]);
      return b_.status();
    }
    if (form == TrainForm::accumulate) return add_up(wrt, grads);
    return append_updates(wrt, std::move(grads));
  }

  Status append_updates(const std::vector<Value>& wrt, std::vector<Value> grads) {
    if (options_.clip_norm > 0) clip(grads);
    b_.set_scope("update");
    const Value lr = b_.input({DType::f64, {}}, std::string(kLrInput));
    const Value step = b_.input({DType::i64, {}}, std::string(kStepInput));
    for (size_t i = 0; i < wrt.size(); ++i) HONE_TRY(update(wrt[i], grads[i], lr, step));
    return b_.status();
  }

  // sum += weight * gradient, in place: a step of plain gradient descent with -weight as its rate.
  Status add_up(const std::vector<Value>& wrt, const std::vector<Value>& grads) {
    b_.set_scope("accumulate");
    Graph& g = out_.graph;
    const Value rate = ops::neg(weight_), step = b_.scalar(1, DType::i64);
    for (size_t i = 0; i < wrt.size(); ++i) {
      const Value sum = moment(wrt[i], kSumSuffix);
      const Value inputs[] = {sum, Value(), ops::cast(grads[i], sum.dtype()), rate, step};
      const std::vector<Value> next = b_.emit_all(op::sgd_update, inputs, SgdAttrs{});
      if (next.empty()) return b_.status();
      g.updates.push_back({sum.id(), next[0].id()});
    }
    const Value total = weight_sum();
    g.updates.push_back({total.id(), (total + weight_).id()});
    return b_.status();
  }

 public:
  Result<TrainGraph> apply(const Graph& model) {
    Graph& g = out_.graph;
    const Value total = weight_sum();
    std::vector<Value> wrt, grads;
    for (ValueId v : model.states(StateRole::parameter)) {
      const ValueInfo& info = model.value(v);
      if (!info.trainable || !is_float(info.type.dtype)) continue;
      wrt.push_back(b_.state(StateRole::parameter, info.data, info.name));
      const Value sum = moment(wrt.back(), kSumSuffix);
      grads.push_back(ops::cast(sum / ops::cast(total, sum.dtype()), info.type.dtype));
    }
    HONE_TRY(append_updates(wrt, std::move(grads)));
    if (!b_.status().ok()) return b_.status();
    HONE_TRY(remove_dead(g));
    return std::move(out_);
  }

 private:
  Value new_state(std::string name, const TensorType& type) {
    out_.new_states.push_back({name, type});
    return b_.state(StateRole::optimizer, TensorData::borrow(type, nullptr, nullptr),
                    std::move(name));
  }
  Value weight_sum() { return new_state(std::string(kWeightState), {DType::f32, {}}); }

  // All gradients times min(1, clip / (norm + 1e-6)), as torch.nn.utils.clip_grad_norm_ does.
  void clip(std::vector<Value>& grads) {
    b_.set_scope("clip");
    Value total;
    for (const Value& grad : grads) {
      const Value wide = ops::cast(grad, grad.dtype() == DType::f64 ? DType::f64 : DType::f32);
      const Value squares = ops::cast(ops::sum(ops::square(wide), {.keepdims = false}), DType::f32);
      total = total.valid() ? total + squares : squares;
    }
    if (!total.valid()) return;
    const Value norm = ops::sqrt(total);
    const Value scale = ops::minimum(options_.clip_norm / (norm + 1e-6), b_.scalar(1, DType::f32));
    for (Value& grad : grads) {  // in f32: a small scale has few digits in a half float, or none
      const DType t = grad.dtype(), wide = t == DType::f64 ? DType::f64 : DType::f32;
      grad = ops::cast(ops::cast(grad, wide) * ops::cast(scale, wide), t);
    }
    b_.output(norm, "grad_norm");
  }

  // An optimizer state in the moments' dtype: f32 even for 16-bit weights.
  Value moment(const Value& param, std::string_view suffix) {
    const ValueInfo& info = out_.graph.value(param.id());
    const TensorType type{info.type.dtype == DType::f64 ? DType::f64 : DType::f32, info.type.shape};
    return new_state(format("{}/{}", info.name, suffix), type);
  }

  Status update(Value param, Value grad, Value lr, Value step) {
    const OptimizerOptions& o = options_.optimizer;
    std::vector<Value> states = {param};
    std::vector<Value> outs;
    if (o.kind == OptimizerKind::sgd) {
      const SgdAttrs attrs{o.momentum, o.dampening, o.weight_decay, o.nesterov};
      Value velocity;
      if (o.momentum != 0) {
        velocity = moment(param, "velocity");
        states.push_back(velocity);
      }
      const Value inputs[] = {param, velocity, grad, lr, step};
      outs = b_.emit_all(op::sgd_update, inputs, attrs);
    } else {
      const AdamAttrs attrs{o.beta1, o.beta2, o.eps, o.weight_decay,
                            o.kind == OptimizerKind::adamw};
      const Value m = moment(param, "m");
      const Value v = moment(param, "v");
      states.push_back(m);
      states.push_back(v);
      const Value inputs[] = {param, m, v, grad, lr, step};
      outs = b_.emit_all(op::adam_update, inputs, attrs);
    }
    if (outs.size() < states.size()) return b_.status();
    for (size_t i = 0; i < states.size(); ++i)
      out_.graph.updates.push_back({states[i].id(), outs[i].id()});
    return {};
  }

  const TrainerOptions& options_;
  TrainGraph out_;
  Builder b_;
  NamedValues outputs_, targets_;  // of the model and the batch, as losses see them
  Value weight_;
};

}  // namespace

Result<TrainGraph> build_apply_graph(const Model& model, const TrainerOptions& options,
                                     std::set<const OpDef*>* ops) {
  return Writer({}, options, ops).apply(model.graph);
}

Result<TrainGraph> build_train_graph(const Model& model, std::span<const Shape> input_shapes,
                                     std::span<const std::pair<std::string, TensorType>> targets,
                                     const TrainerOptions& options, TrainForm form,
                                     Evaluate evaluate, std::set<const OpDef*>* ops) {
  const Mode mode = form == TrainForm::loss ? Mode::infer : Mode::train;
  HONE_ASSIGN(Graph g, specialise(model.graph, input_shapes,
                                  {.mode = mode,
                                   .frozen_in_eval = options.frozen_in_eval,
                                   .writes_out = writes_out(options.session.kernels, mode),
                                   .evaluate = std::move(evaluate),
                                   .collect_ops = ops}));
  for (const auto& [name, type] : targets)
    if (g.find(name) != kNone)
      return invalid("the target '{}' has the name of a tensor of the model", name);
  for (const StateUpdate& u : g.updates)
    if (g.value(u.state).kind != ValueKind::state)
      return internal("an update of something that is no state");
  return Writer(std::move(g), options, ops).run(targets, form);
}

}  // namespace hone
