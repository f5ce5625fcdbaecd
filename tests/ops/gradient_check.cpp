// SPDX-License-Identifier: Apache-2.0
// Evaluation of functions written with operators, and central differences.
#include "tests/ops/gradient_check.hpp"

#include <cmath>

#include "hone/autodiff.hpp"
#include "hone/thread_pool.hpp"

namespace hone::test {

namespace {

// Runs the nodes of `g` one after the other; `values` holds inputs and receives the rest.
Status run_nodes(const Graph& g, std::vector<TensorData>& values) {
  values.resize(g.values.size());
  for (size_t i = 0; i < g.values.size(); ++i)
    if (g.values[i].data.defined()) values[i] = g.values[i].data;
  for (const Node& n : g.nodes) {
    std::vector<TensorData> in;
    for (ValueId v : n.inputs)
      in.push_back(v == kNone ? TensorData() : values[static_cast<size_t>(v)]);
    std::vector<TensorType> types;
    for (ValueId v : n.outputs) types.push_back(g.type(v));
    HONE_ASSIGN(std::vector<TensorData> outs,
                run_reference(*n.op, n.attrs, in, types, serial_pool()));
    for (size_t i = 0; i < outs.size(); ++i) values[static_cast<size_t>(n.outputs[i])] = outs[i];
  }
  return {};
}

// A function recorded once and run often.
class Recorded {
 public:
  static Result<std::unique_ptr<Recorded>> make(const GraphFunction& f,
                                                std::span<const TensorData> inputs) {
    auto r = std::make_unique<Recorded>();
    Builder b(r->graph_);
    std::vector<Value> in;
    for (size_t i = 0; i < inputs.size(); ++i) {
      in.push_back(inputs[i].defined() ? b.input(inputs[i].type(), format("x{}", i)) : Value());
      r->inputs_.push_back(in.back().id());
    }
    for (Value v : f(b, in)) r->outputs_.push_back(v.id());
    HONE_TRY(b.status());
    HONE_TRY(verify(r->graph_));
    return r;
  }

  Result<std::vector<TensorData>> run(std::span<const TensorData> inputs) const {
    std::vector<TensorData> values(graph_.values.size()), out;
    for (size_t i = 0; i < inputs.size(); ++i)
      if (inputs_[i] != kNone) values[static_cast<size_t>(inputs_[i])] = inputs[i];
    HONE_TRY(run_nodes(graph_, values));
    for (ValueId v : outputs_) out.push_back(values[static_cast<size_t>(v)]);
    return out;
  }

 private:
  Graph graph_;
  std::vector<ValueId> inputs_, outputs_;
};

TensorData seed_of(const TensorType& type, size_t output) {
  return random_tensor(type, 977 + output, -1, 1);
}

// The outputs weighted with their seeds and added up.
double weighted_sum(std::span<const TensorData> outputs) {
  double sum = 0;
  for (size_t k = 0; k < outputs.size(); ++k) {
    if (!is_float(outputs[k].dtype())) continue;
    const TensorData seed = seed_of(outputs[k].type(), k);
    for (int64_t i = 0; i < seed.numel(); ++i) sum += seed.at(i) * outputs[k].at(i);
  }
  return sum;
}

GraphFunction function_of(const OpDef& op, const Attrs& attrs) {
  return [&op, attrs](Builder& b, std::span<const Value> in) { return b.emit_all(op, in, attrs); };
}

bool by_f64(const TensorData& t) { return t.defined() && t.dtype() == DType::f64; }

}  // namespace

Result<std::vector<TensorData>> evaluate(const GraphFunction& f,
                                         std::span<const TensorData> inputs) {
  HONE_ASSIGN(const auto recorded, Recorded::make(f, inputs));
  return recorded->run(inputs);
}

Result<std::vector<TensorData>> evaluate(const OpDef& op, const Attrs& attrs,
                                         std::span<const TensorData> inputs) {
  return evaluate(function_of(op, attrs), inputs);
}

Result<std::vector<TensorData>> evaluate(const Graph& g, std::span<const TensorData> inputs,
                                         std::span<const ValueId> wanted) {
  std::vector<TensorData> values(g.values.size()), out;
  for (size_t i = 0; i < inputs.size(); ++i) values[static_cast<size_t>(g.inputs[i])] = inputs[i];
  HONE_TRY(run_nodes(g, values));
  for (ValueId v : wanted) out.push_back(values[static_cast<size_t>(v)]);
  return out;
}

Result<std::vector<TensorData>> evaluate_decomposition(const OpDef& op, const Attrs& attrs,
                                                       std::span<const TensorData> inputs) {
  HONE_ASSIGN(const std::vector<TensorData> by_kernel, evaluate(op, attrs, inputs));
  const Attrs given = attrs.empty() ? Attrs::defaults(*op.attrs) : attrs;
  const GraphFunction f = [&](Builder& b, std::span<const Value> in) {
    std::vector<ValueId> ids;
    for (const Value& v : in) ids.push_back(v.id());
    DecomposeCtx c(b, ids, given, by_kernel.size(), std::string(op.name));
    op.decompose(c);
    return std::move(c.outs);
  };
  return evaluate(f, inputs);
}

GraphFunction gradient_of(GraphFunction f) {
  return [f = std::move(f)](Builder& b, std::span<const Value> in) {
    std::vector<Value> wrt, total;
    for (const Value& v : in)
      if (v.valid() && v.dtype() == DType::f64) wrt.push_back(v);
    const std::vector<Value> outputs = f(b, in);
    for (size_t k = 0; k < outputs.size() && b.status().ok(); ++k) {
      if (!is_float(outputs[k].dtype())) continue;
      auto grads = differentiate(b, outputs[k], wrt, b.constant(seed_of(outputs[k].type(), k)));
      if (!grads.ok()) {
        b.fail(grads.status());
        break;
      }
      if (total.empty()) {
        total = *grads;
        continue;
      }
      for (size_t i = 0; i < wrt.size(); ++i) total[i] = total[i] + (*grads)[i];
    }
    return total;
  };
}

void check_gradient(const GraphFunction& f, std::span<const TensorData> inputs, Order order,
                    double tolerance, const char* file, int line) {
  // Large enough that rounding (1e-16 / step) stays below the tolerance, small enough that step^2
  // does, too.
  constexpr double kStep = 1e-5;
  const std::vector<TensorData> grads = must(evaluate(gradient_of(f), inputs), file, line);
  const auto recorded = must(Recorded::make(f, inputs), file, line);
  size_t output = 0;
  for (size_t k = 0; k < inputs.size(); ++k) {
    if (!by_f64(inputs[k])) continue;
    std::vector<TensorData> moved(inputs.begin(), inputs.end());
    TensorData difference = must(TensorData::allocate(inputs[k].type()));
    moved[k] = must(inputs[k].clone());
    for (int64_t i = 0; i < inputs[k].numel(); ++i) {
      double& x = moved[k].as_mutable<double>()[i];
      const double at = x;
      x = at + kStep;
      const double above = weighted_sum(must(recorded->run(moved), file, line));
      x = at - kStep;
      const double below = weighted_sum(must(recorded->run(moved), file, line));
      x = at;
      difference.as_mutable<double>()[i] = (above - below) / (2 * kStep);
    }
    const Closeness c = all_close(grads[output++], difference, tolerance, tolerance);
    if (!c) ADD_FAIL_CHECK_AT(file, line, format("gradient by input {}: {}", k, c.difference));
  }
  if (order == Order::second)
    check_gradient(gradient_of(f), inputs, Order::first, 10 * tolerance, file, line);
}

void check_gradient(const OpDef& op, const Attrs& attrs, std::initializer_list<TensorData> inputs,
                    Order order, double tolerance, const char* file, int line) {
  check_gradient(function_of(op, attrs), std::span<const TensorData>(inputs.begin(), inputs.size()),
                 order, tolerance, file, line);
}

}  // namespace hone::test
