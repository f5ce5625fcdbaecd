// SPDX-License-Identifier: Apache-2.0
// Gradients, first and second, against central differences in double precision.
#include <algorithm>
#include <cmath>

#include "hone/autodiff.hpp"
#include "hone/ops.hpp"
#include "tests/ops/execute.hpp"
#include "tests/ops/suites.hpp"
#include "tests/support/check.hpp"
#include "tests/support/tensors.hpp"

namespace hone::test {

namespace {

// Differences of large inputs are taken at this many elements, spread over them.
constexpr int64_t kMostElements = 48;
constexpr double kStep = 1e-5;

// A scalar that any mistake in any element shows in: the sum of the values, each weighted at
// random.
Value weighted_sum(Builder& b, std::span<const Value> values, uint64_t seed) {
  Value total;
  for (const Value& v : values) {
    const Value w = b.constant(random_tensor(v.type(), seed++, 0.5, 1.5));
    const Value part = ops::sum(v * w, {.axes = {}, .keepdims = false});
    total = total.valid() ? total + part : part;
  }
  return total;
}

// d(graph's `loss`)/d(input) at one element.
double difference(const OneOpGraph& g, ValueId loss, size_t graph_input, int64_t element) {
  const auto at = [&](double shift) {
    std::vector<TensorData> inputs = g.graph_inputs;
    inputs[graph_input] = must(inputs[graph_input].clone());
    inputs[graph_input].as_mutable<double>()[element] += shift;
    const ValueId wanted[] = {loss};
    return must(run_graph(g.graph, inputs, wanted))[0].at(0);
  };
  return (at(kStep) - at(-kStep)) / (2 * kStep);
}

void compare(const Instance& x, const OneOpGraph& g, ValueId loss, std::span<const Value> wrt,
             std::span<const Value> grads, const char* order) {
  std::vector<ValueId> ids;
  for (const Value& v : grads) ids.push_back(v.id());
  const std::vector<TensorData> analytic = must(run_graph(g.graph, g.graph_inputs, ids));
  for (size_t w = 0; w < wrt.size(); ++w) {
    const auto position = std::find(g.graph.inputs.begin(), g.graph.inputs.end(), wrt[w].id());
    const size_t graph_input = static_cast<size_t>(position - g.graph.inputs.begin());
    const int64_t n = analytic[w].numel();
    const int64_t stride = std::max<int64_t>(1, n / kMostElements);
    double largest = 1;
    for (int64_t i = 0; i < n; ++i) largest = std::max(largest, std::fabs(analytic[w].at(i)));
    int shown = 0;
    for (int64_t i = 0; i < n && shown < 4; i += stride) {
      const double numeric = difference(g, loss, graph_input, i);
      const double error = std::fabs(numeric - analytic[w].at(i));
      if (error <= x.c.tol_grad * largest) continue;  // a NaN is not
      ++shown;
      CHECK_MESSAGE(false, order << " derivative by " << g.graph.value(wrt[w].id()).name
                                 << ", element " << i << ": " << analytic[w].at(i)
                                 << ", by differences " << numeric);
    }
  }
}

}  // namespace

void check_gradient(const Instance& x) {
  if (x.c.grad == Grad::skip || x.op.diff == Diff::missing) return;
  OneOpGraph g;
  build_one_op(x, Composites::expand, g);
  REQUIRE_OK(g.status);
  Builder b(g.graph);
  std::vector<Value> wrt, outs;
  for (size_t i = 0; i < x.inputs.size(); ++i)
    if (x.differentiable(i)) wrt.emplace_back(&b, g.inputs[i]);
  for (const ValueId v : g.outputs)
    if (is_float(g.graph.type(v).dtype)) outs.emplace_back(&b, v);
  if (wrt.empty() || outs.empty()) return;

  const Value loss = weighted_sum(b, outs, 11);
  REQUIRE_OK(b.status());
  const std::vector<Value> first = must(differentiate(b, loss, wrt));
  REQUIRE_OK(verify(g.graph));
  compare(x, g, loss.id(), wrt, first, "first");
  if (x.c.grad != Grad::second) return;

  const Value slope = weighted_sum(b, first, 23);
  REQUIRE_OK(b.status());
  const std::vector<Value> second = must(differentiate(b, slope, wrt));
  REQUIRE_OK(verify(g.graph));
  compare(x, g, slope.id(), wrt, second, "second");
}

}  // namespace hone::test
