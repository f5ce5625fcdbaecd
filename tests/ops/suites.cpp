// SPDX-License-Identifier: Apache-2.0
// The suites, but for gradients (gradient_suite.cpp).
#include "tests/ops/suites.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <variant>

#include "hone/model.hpp"
#include "hone/specialise.hpp"
#include "tests/ops/backends.hpp"
#include "tests/ops/execute.hpp"
#include "tests/support/check.hpp"
#include "tests/support/tensors.hpp"

namespace hone::test {

void build_one_op(const Instance& x, Composites composites, OneOpGraph& g) {
  Builder b(g.graph, composites);
  std::vector<Value> values;
  for (size_t i = 0; i < x.inputs.size(); ++i) {
    const TensorData& t = x.inputs[i];
    if (!t.defined()) {
      values.emplace_back();
    } else if (x.c.in[i].constant) {
      values.push_back(b.constant(t));
    } else {
      values.push_back(b.input(t.type(), format("in{}", i)));
      g.graph_inputs.push_back(t);
    }
    g.inputs.push_back(values.back().id());
  }
  const std::vector<Value> outs = b.emit_all(x.op, values, x.attrs);
  g.status = b.status();
  for (size_t k = 0; k < outs.size(); ++k) {
    b.output(outs[k], format("out{}", k));
    g.outputs.push_back(outs[k].id());
  }
}

void check_kernel(const Instance& x) {
  if (!x.op.kernel) return;
  const auto first = must(run_guarded(x.op, x.attrs, x.inputs, x.out_types, {}, 0xCD));
  const auto second = must(run_guarded(x.op, x.attrs, x.inputs, x.out_types, {}, 0x3F));
  for (size_t k = 0; k < first.size(); ++k) {
    // Different bytes lay there before: an element that differs was not written, or read too early.
    CHECK_MESSAGE(same_bits(first[k], second[k]),
                  "output " << k << " depends on what its buffers held before");
    CHECK(same_bits(first[k], x.outputs[k]));
  }
}

namespace {

double tolerance_of(const OpCase& c, DType t) {
  switch (t) {
    case DType::f64:
      return 1e-11;
    case DType::f32:
      return c.tol;
    case DType::f16:
      return c.tol_f16;
    case DType::bf16:
      return 8 * c.tol_f16;
    default:
      return 0;
  }
}

}  // namespace

void check_close(const TensorData& got, const TensorData& wanted, double tol) {
  const TensorData a = must(cast(got, DType::f64)), b = must(cast(wanted, DType::f64));
  double largest = 0;
  for (int64_t i = 0; i < b.numel(); ++i)
    if (std::isfinite(b.at(i))) largest = std::max(largest, std::abs(b.at(i)));
  CHECK(all_close(a, b, tol, tol * largest));
}

void check_decomposition(const Instance& x) {
  if (!x.op.kernel || !x.op.decompose) return;
  OneOpGraph g;
  Builder b(g.graph);
  std::vector<ValueId> ids;
  for (size_t i = 0; i < x.inputs.size(); ++i) {
    const TensorData& t = x.inputs[i];
    if (!t.defined()) {
      ids.push_back(kNone);
    } else if (x.c.in[i].constant) {
      ids.push_back(b.constant(t).id());
    } else {
      ids.push_back(b.input(t.type(), format("in{}", i)).id());
      g.graph_inputs.push_back(t);
    }
  }
  DecomposeCtx c(b, ids, x.attrs, x.out_types.size(), std::string(x.op.name));
  x.op.decompose(c);
  REQUIRE_OK(b.status());
  std::vector<ValueId> outs;
  for (size_t k = 0; k < c.outs.size(); ++k) {
    REQUIRE_MESSAGE(c.outs[k].valid(), "the decomposition leaves output " << k << " unset");
    CHECK_EQ(to_string(c.outs[k].type()), to_string(x.out_types[k]));
    outs.push_back(c.outs[k].id());
  }
  const auto results = must(run_graph(g.graph, g.graph_inputs, outs));
  for (size_t k = 0; k < results.size(); ++k) {
    INFO("kernel against decomposition, output " << k);
    check_close(x.outputs[k], results[k], tolerance_of(x.c, x.out_types[k].dtype));
  }
}

void check_in_place(const Instance& x) {
  if (!x.op.kernel || x.op.inplace == Inplace::none) return;
  std::vector<std::vector<Alias>> tries;
  const int inputs = static_cast<int>(x.inputs.size()),
            outputs = static_cast<int>(x.outputs.size());
  if (x.op.inplace == Inplace::any_input) {
    for (int i = 0; i < inputs; ++i) tries.push_back({{0, i}});
  } else {
    tries.emplace_back();
    for (int i = 0; i < std::min(inputs, outputs); ++i) tries.back().push_back({i, i});
  }
  for (const std::vector<Alias>& aliases : tries) {
    const bool fits = std::all_of(aliases.begin(), aliases.end(), [&](const Alias& a) {
      const TensorData& in = x.inputs[static_cast<size_t>(a.in)];
      return in.defined() && in.type() == x.out_types[static_cast<size_t>(a.out)];
    });
    if (!fits) continue;
    const auto results = must(run_guarded(x.op, x.attrs, x.inputs, x.out_types, aliases));
    for (size_t k = 0; k < results.size(); ++k) {
      INFO("in place over input " << aliases[0].in);
      CHECK(same_bits(results[k], x.outputs[k]));
    }
  }
}

namespace {

using Field = std::variant<bool, int64_t, double, std::string, std::vector<int64_t>,
                           std::vector<double>, DType, TensorData, GraphPtr, int>;

// Takes fields out into a map, or puts them back.
class FieldMap final : public AttrVisitor {
 public:
  enum class Direction { take, put };
  explicit FieldMap(Direction direction) : direction_(direction) {}
  std::map<std::string, Field, std::less<>> fields;

  void field(std::string_view name, bool& v) override { move(name, v); }
  void field(std::string_view name, int64_t& v) override { move(name, v); }
  void field(std::string_view name, double& v) override { move(name, v); }
  void field(std::string_view name, std::string& v) override { move(name, v); }
  void field(std::string_view name, std::vector<int64_t>& v) override { move(name, v); }
  void field(std::string_view name, std::vector<double>& v) override { move(name, v); }
  void field(std::string_view name, DType& v) override { move(name, v); }
  void field(std::string_view name, TensorData& v) override { move(name, v); }
  void field(std::string_view name, GraphPtr& v) override { move(name, v); }
  void enum_field(std::string_view name, int& v, std::span<const std::string_view> names) override {
    CHECK_LT(static_cast<size_t>(v), names.size());
    move(name, v);
  }

 private:
  template <class T>
  void move(std::string_view name, T& v) {
    const std::string key(name);
    if (direction_ == Direction::take) {
      CHECK_MESSAGE(fields.emplace(key, v).second, "two attributes are called " << key);
    } else {
      v = std::get<T>(fields.at(key));
    }
  }
  Direction direction_;
};

}  // namespace

void check_attributes(const Instance& x) {
  FieldMap taken(FieldMap::Direction::take), put(FieldMap::Direction::put);
  x.attrs.visit(taken);
  put.fields = taken.fields;
  const std::shared_ptr<void> fresh = x.op.attrs->make();
  x.op.attrs->visit(fresh.get(), put);
  CHECK_MESSAGE(same(Attrs(x.op.attrs, fresh), x.attrs), "attributes do not survive a round trip");
}

void check_save_and_load(const Instance& x) {
  OneOpGraph g;
  build_one_op(x, Composites::keep, g);
  REQUIRE_OK(g.status);
  Model model;
  model.graph = std::move(g.graph);
  const auto bytes = std::make_shared<std::vector<std::byte>>(must(save_model(model)));
  const Model loaded = must(load_model(*bytes, bytes));
  REQUIRE_EQ(loaded.graph.nodes.size(), 1u);
  CHECK(same(loaded.graph.nodes[0].attrs, x.attrs));
  std::vector<Shape> shapes;
  for (const TensorData& t : g.graph_inputs) shapes.push_back(t.shape());
  const Graph graph = must(specialise(loaded.graph, shapes, {.fold_limit_bytes = 0}));
  std::vector<ValueId> wanted;
  for (const GraphOutput& o : graph.outputs) wanted.push_back(o.value);
  const auto results = must(run_graph(graph, g.graph_inputs, wanted));
  REQUIRE_EQ(results.size(), x.outputs.size());
  for (size_t k = 0; k < results.size(); ++k) CHECK(same_bits(results[k], x.outputs[k]));
}

void check_backends(const Instance& x) {
  if (backends_under_test().empty()) return;
  OneOpGraph g;
  build_one_op(x, Composites::expand, g);
  REQUIRE_OK(g.status);
  for (const BackendUnderTest& backend : backends_under_test()) {
    const auto results = must(backend.run(g.graph, g.graph_inputs));
    for (size_t k = 0; k < results.size(); ++k) {
      INFO("backend " << backend.name << ", output " << k);
      check_close(results[k], x.outputs[k], tolerance_of(x.c, x.out_types[k].dtype));
    }
  }
}

}  // namespace hone::test
