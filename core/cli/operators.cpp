// SPDX-License-Identifier: Apache-2.0
#include "core/cli/operators.hpp"

#include <set>

#include "core/runtime/train_graph.hpp"
#include "hone/op.hpp"
#include "hone/ops.hpp"
#include "hone/simplify.hpp"

namespace hone::cli {

namespace {

using OpSet = std::set<const OpDef*>;
using Targets = std::vector<std::pair<std::string, TensorType>>;

// Class indices for every output that can be scores; values for every output.
std::string labels_of(const std::string& output) { return output + "/label"; }
std::string values_of(const std::string& output) { return output + "/value"; }

Targets targets_of(const Graph& g) {
  Targets out;
  for (const GraphOutput& o : g.outputs) {
    const TensorType& t = g.type(o.value);
    if (!is_float(t.dtype)) continue;
    out.emplace_back(values_of(o.name), t);
    if (t.shape.rank() < 2) continue;
    TensorType labels{DType::i64, t.shape};
    labels.shape.erase(1);
    out.emplace_back(labels_of(o.name), labels);
  }
  return out;
}

Result<Value> usual_losses(Builder& b, const NamedValues& outputs, const NamedValues& targets) {
  Value total;
  const auto add = [&](Value term) { total = total.valid() ? total + term : term; };
  for (const auto& [name, v] : outputs.items()) {
    if (!is_float(v.dtype())) continue;
    HONE_ASSIGN(const Value value, targets.find(values_of(name)));
    add(loss::mse(v, value));
    if (v.shape().rank() < 2) continue;
    HONE_ASSIGN(const Value label, targets.find(labels_of(name)));
    add(loss::cross_entropy(v, label, {}));
  }
  if (!b.status().ok()) return b.status();
  if (!total.valid()) return invalid("the model has no floating-point output to train on");
  return total;
}

Status add_training(const Model& model, const std::vector<Shape>& shapes, OpSet& ops) {
  HONE_ASSIGN(const Graph g, specialise(model.graph, shapes));
  const Targets targets = targets_of(g);
  TrainerOptions options;
  options.loss = usual_losses;
  options.clip_norm = 1;
  for (const OptimizerKind kind : {OptimizerKind::sgd, OptimizerKind::adamw}) {
    options.optimizer.kind = kind;
    for (const TrainForm form :
         {TrainForm::step, TrainForm::gradients, TrainForm::loss, TrainForm::accumulate})
      HONE_TRY(build_train_graph(model, shapes, targets, options, form, {}, &ops).status());
    HONE_TRY(build_apply_graph(model, options, &ops).status());
  }
  return {};
}

}  // namespace

Result<std::string> operators_text(const Model& model, const std::vector<Shape>& shapes, bool train,
                                   const std::string& title) {
  OpSet ops;
  HONE_TRY(specialise(model.graph, shapes, {.collect_ops = &ops})
               .status()
               .with_context("finding the operators"));
  if (train) HONE_TRY(add_training(model, shapes, ops));
  std::set<std::string_view> names;
  for (const OpDef* op : ops) names.insert(op->name);
  for (const auto& [name, count] : nodes_by_operator(model.graph)) names.insert(name);
  std::string text = format("# Operators for {} {}: for a build with -DHONE_OPERATORS=this file\n",
                            train ? "training and running" : "running", title);
  if (train) text += "gradients\n";
  for (const std::string_view name : names) text += format("{}\n", name);
  return text;
}

}  // namespace hone::cli
