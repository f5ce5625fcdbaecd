// SPDX-License-Identifier: Apache-2.0
// Tracing: runs the code once, and once more for each free dimension, and checks the model against
// every run.
#include "hone/trace.hpp"

#include <algorithm>
#include <cstring>

#include "core/runtime/tracer.hpp"
#include "hone/specialise.hpp"

namespace hone {

using detail::Recording;

namespace {

// A named dimension and an axis that has it.
struct FreeDim {
  std::string name;
  int64_t extent = 0;
};

Result<std::vector<FreeDim>> find_dims(std::span<const TraceInput> inputs) {
  std::vector<FreeDim> dims;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const TraceInput& in = inputs[i];
    if (in.name.empty()) return invalid("trace: input {} has no name", i);
    if (!in.example.ok())
      return in.example.status().with_context(format("trace: input '{}'", in.name));
    for (size_t k = 0; k < i; ++k)
      if (inputs[k].name == in.name) return invalid("trace: two inputs are called '{}'", in.name);
    if (static_cast<int>(in.dims.size()) > in.example.dim())
      return invalid("trace: input '{}' is {}, {} dimensions are named", in.name, in.example.type(),
                     in.dims.size());
    for (size_t axis = 0; axis < in.dims.size(); ++axis) {
      if (in.dims[axis].empty()) continue;
      const int64_t extent = in.example.shape()[static_cast<int>(axis)];
      const auto known = std::find_if(dims.begin(), dims.end(),
                                      [&](const FreeDim& d) { return d.name == in.dims[axis]; });
      if (known == dims.end())
        dims.push_back({in.dims[axis], extent});
      else if (known->extent != extent)
        return invalid("trace: input '{}': axis {} is {}, but '{}' is already {}", in.name, axis,
                       extent, known->name, known->extent);
      if (extent < 1) return invalid("trace: input '{}': axis {} is empty", in.name, axis);
    }
  }
  return dims;
}

// The examples with another extent of one dimension: repeated, or cut.
std::vector<Tensor> stretch(std::span<const TraceInput> inputs, std::string_view dim, int64_t from,
                            int64_t to) {
  std::vector<Tensor> out;
  for (const TraceInput& in : inputs) {
    Tensor t = in.example.detach();
    for (size_t axis = 0; axis < in.dims.size(); ++axis) {
      if (in.dims[axis] != dim) continue;
      const int64_t a = static_cast<int64_t>(axis);
      const Tensor part = t;
      for (int64_t have = from; have < to; have += from) {
        const Tensor parts[] = {t, part};
        t = apply_all(op::concat, parts, AxisAttrs{a})[0];
      }
      if (t.size(static_cast<int>(axis)) != to) t = t.slice(a, 0, to);
    }
    out.push_back(std::move(t));
  }
  return out;
}

class Tracing {
 public:
  Tracing(const TracedFn& fn, std::span<const TraceInput> inputs, const TraceOptions& options)
      : fn_(fn), inputs_(inputs), options_(options) {}

  Result<Recording> run(std::span<const Tensor> examples, std::vector<int64_t> extents) {
    Recording r;
    r.extents = std::move(extents);
    detail::Tracer tracer(r.graph);
    NoGrad no_grad;
    std::vector<Tensor> outputs;
    Status status;
    {
      detail::Restore<detail::Tracer*> on(detail::eager().tracer, &tracer);
      detail::Restore<std::string> scope(detail::eager().scope, {});
      for (size_t i = 0; i < inputs_.size(); ++i) {
        Shape shape = examples[i].shape();
        for (size_t axis = 0; axis < inputs_[i].dims.size(); ++axis)
          if (!inputs_[i].dims[axis].empty())
            shape[static_cast<int>(axis)] = r.graph.dim(inputs_[i].dims[axis]);
        tracer.input(examples[i], shape, inputs_[i].name);
        r.inputs.push_back(examples[i].data());
      }
      for (const TraceState& s : options_.states)
        if (s.tensor.ok()) tracer.declare(s.tensor, s.role, s.name);
      outputs = fn_(examples);
      for (size_t i = 0; i < outputs.size() && status.ok(); ++i)
        status = outputs[i].status().with_context(format("trace: output {}", i));
      for (size_t i = 0; i < outputs.size() && status.ok(); ++i)
        tracer.output(outputs[i], output_name(i, outputs.size()));
      tracer.end_states();
    }
    if (!status.ok()) return status;
    if (outputs.empty()) return invalid("trace: the code gave no output");
    for (const Tensor& t : outputs) r.outputs.push_back(t.data());
    r.types = std::move(tracer).types();
    return r;
  }

 private:
  std::string output_name(size_t i, size_t count) const {
    if (i < options_.output_names.size()) return options_.output_names[i];
    return count == 1 ? "output" : format("output_{}", i);
  }

  const TracedFn& fn_;
  std::span<const TraceInput> inputs_;
  const TraceOptions& options_;
};

// The model with a run's shapes gives that run's outputs.
Status check_run(const Graph& graph, const Recording& run) {
  std::vector<Shape> shapes;
  std::vector<Tensor> inputs, states;
  for (const TensorData& t : run.inputs) {
    shapes.push_back(t.shape());
    inputs.emplace_back(t);
  }
  HONE_ASSIGN(const Graph g, specialise(graph, shapes));
  for (const ValueInfo& v : g.values)
    if (v.kind == ValueKind::state) states.emplace_back(v.data);
  NoGrad no_grad;
  HONE_ASSIGN(const std::vector<Tensor> outputs, interpret(g, inputs, states));
  for (size_t i = 0; i < outputs.size(); ++i) {
    const TensorData got = outputs[i].data(), &want = run.outputs[i];
    const std::string& name = graph.outputs[i].name;
    if (got.type() != want.type())
      return invalid("trace: output '{}' is {}, the code gave {}", name, got.type(), want.type());
    if (std::memcmp(got.data(), want.data(), static_cast<size_t>(want.bytes())) != 0)
      return invalid(
          "trace: output '{}' is not what the code gave: it depends on something that is not an "
          "input, a state or a constant",
          name);
  }
  return {};
}

// Extents of the outputs, by name where they follow a dimension.
void declare_outputs(Graph& graph, std::span<const Recording> runs) {
  for (size_t i = 0; i < graph.outputs.size(); ++i) {
    Shape shape = runs[0].outputs[i].shape();
    bool known = true;
    for (int axis = 0; axis < shape.rank(); ++axis) {
      const auto follows = [&](auto extent_in) {
        return std::all_of(runs.begin(), runs.end(), [&](const Recording& r) {
          return r.outputs[i].shape()[axis] == extent_in(r);
        });
      };
      const int64_t fixed = shape[axis];
      if (follows([&](const Recording&) { return fixed; })) continue;
      bool named = false;
      for (size_t d = 0; d < graph.dim_names.size() && !named; ++d) {
        named = follows([&](const Recording& r) { return r.extents[d]; });
        if (named) shape[axis] = -static_cast<int64_t>(d) - 1;
      }
      known = known && named;
    }
    if (!known) continue;
    graph.outputs[i].declared = shape;
    graph.outputs[i].has_declared = true;
  }
}

}  // namespace

Result<Model> trace(const TracedFn& fn, std::span<const TraceInput> inputs,
                    const TraceOptions& options) {
  if (is_tracing()) return invalid("trace: a trace is running already");
  HONE_ASSIGN(const std::vector<FreeDim> dims, find_dims(inputs));
  Tracing tracing(fn, inputs, options);
  std::vector<Tensor> examples;
  std::vector<int64_t> extents;
  for (const TraceInput& in : inputs) examples.push_back(in.example.detach());
  for (const FreeDim& d : dims) extents.push_back(d.extent);
  std::vector<Recording> runs;
  HONE_ASSIGN(Recording first, tracing.run(examples, extents));
  runs.push_back(std::move(first));
  for (size_t d = 0; d < dims.size(); ++d) {
    // Twice is likely to divide by what the extent had to; one more is likely to be within a length
    // limit.
    const int64_t n = dims[d].extent;
    Status refused;
    for (const int64_t other : {2 * n, n + 1, n - 1}) {
      if (other < 1) continue;
      std::vector<int64_t> changed = extents;
      changed[d] = other;
      auto run = tracing.run(stretch(inputs, dims[d].name, n, other), changed);
      if (run.ok()) {
        runs.push_back(std::move(*run));
        refused = {};
        break;
      }
      if (refused.ok())
        refused = run.status().with_context(
            format("trace: '{}' is not free: with {} for {}", dims[d].name, other, n));
    }
    HONE_TRY(refused);
  }
  Model model;
  HONE_ASSIGN(model.graph, detail::merge_recordings(runs));
  declare_outputs(model.graph, runs);
  HONE_TRY(remove_dead(model.graph));
  HONE_TRY(verify(model.graph));
  for (const Recording& r : runs) HONE_TRY(check_run(model.graph, r));
  model.metadata["producer"] = "hone trace";
  return model;
}

}  // namespace hone
