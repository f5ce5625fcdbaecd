// SPDX-License-Identifier: Apache-2.0
#include "tests/passes/sketch.hpp"

#include "hone/autodiff.hpp"
#include "hone/session.hpp"
#include "hone/specialise.hpp"
#include "tests/support/check.hpp"
#include "tests/support/graph_text.hpp"

namespace hone::test {

Model drawn(const Draw& draw, DType dtype) {
  Sketch s(dtype);
  s.b.output(draw(s), "y");
  REQUIRE_OK(s.b.status());
  REQUIRE_OK(verify(s.model.graph));
  return s.model;
}

Model simplified(const Model& m, const SimplifyOptions& options) {
  Model out = m;
  const SimplifyReport report = must(simplify(out.graph, options));
  CHECK_OK(verify(out.graph));
  CHECK_EQ(report.nodes_before, count_nodes(m.graph));
  CHECK_EQ(report.nodes_after, count_nodes(out.graph));
  Model again = out;
  CHECK(!must(simplify(again.graph, options)).changed());
  CHECK_EQ(graph_text(again.graph), graph_text(out.graph));
  const auto names = [](const Graph& g, ValueKind kind) {
    std::string all;
    for (const ValueInfo& v : g.values)
      if (v.kind == kind) all += format("{} {}\n", v.name, to_string(g, v.type.shape));
    return all;
  };
  for (ValueKind kind : {ValueKind::input, ValueKind::state})
    CHECK_EQ(names(out.graph, kind), names(m.graph, kind));
  REQUIRE_EQ(out.graph.outputs.size(), m.graph.outputs.size());
  for (size_t i = 0; i < m.graph.outputs.size(); ++i)
    CHECK_EQ(out.graph.outputs[i].name, m.graph.outputs[i].name);
  return out;
}

namespace {

std::vector<Shape> shapes(const Graph& g, const std::vector<int64_t>& extents) {
  std::vector<Shape> out;
  for (ValueId id : g.inputs) {
    Shape s = g.type(id).shape;
    for (int i = 0; i < s.rank(); ++i)
      if (s[i] < 0) s[i] = extents[static_cast<size_t>(-s[i] - 1)];
    out.push_back(s);
  }
  return out;
}

std::vector<TensorData> run(const Model& m, std::span<const ValueId> inputs,
                            std::span<const Shape> shapes) {
  SessionOptions options;
  options.kernels = Kernels::reference;
  Session session = must(Session::create(m, options));
  std::vector<TensorData> in;
  for (size_t i = 0; i < inputs.size(); ++i)
    in.push_back(random_tensor({m.graph.type(inputs[i]).dtype, shapes[i]}, 100 + i, -2, 2));
  return must(session.run(in));
}

}  // namespace

std::vector<TensorData> outputs(const Model& m, std::vector<int64_t> extents) {
  return run(m, m.graph.inputs, shapes(m.graph, extents));
}

std::vector<TensorData> gradients(const Model& m, std::vector<int64_t> extents) {
  const std::vector<Shape> in = shapes(m.graph, extents);
  Model joint;
  joint.graph = must(specialise(m.graph, in));
  Graph& g = joint.graph;
  Builder b(g);
  std::vector<Value> wrt;
  for (ValueId id : g.inputs) wrt.push_back({&b, id});
  for (ValueId id : g.states(StateRole::parameter)) wrt.push_back({&b, id});
  const Value y(&b, g.outputs[0].value);
  const Value seed = b.constant(random_tensor(y.type(), 7));
  const std::vector<Value> by = must(differentiate(b, y, wrt, seed));
  g.outputs.clear();
  for (size_t i = 0; i < by.size(); ++i) b.output(by[i], format("g{}", i));
  REQUIRE_OK(b.status());
  return run(joint, g.inputs, in);
}

}  // namespace hone::test
