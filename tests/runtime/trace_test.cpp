// SPDX-License-Identifier: Apache-2.0
// From define-by-run code to models that give the same bits.
#include "hone/trace.hpp"

#include "hone/eager.hpp"
#include "hone/functional.hpp"
#include "hone/session.hpp"
#include "hone/specialise.hpp"
#include "tests/support/check.hpp"
#include "tests/support/temp_dir.hpp"
#include "tests/support/tensors.hpp"

namespace hone {
namespace {

using test::must;

Tensor rand32(const Shape& shape, uint64_t seed) {
  return Tensor(test::random_tensor({DType::f32, shape}, seed));
}

struct Mlp {
  Tensor w1 = rand32({5, 3}, 1), b1 = rand32({5}, 2), w2 = rand32({2, 5}, 3);
  Mlp() {
    w1.requires_grad_();
    b1.requires_grad_();
  }
  Tensor operator()(const Tensor& x) const {
    NameScope scope("mlp");
    return linear(linear(x, w1, b1).tanh(), w2);
  }
  TraceOptions options() const {
    return {{{"fc1.weight", w1}, {"fc1.bias", b1}, {"fc2.weight", w2}}, {"logits"}};
  }
};

TEST_CASE("a traced model has named inputs, parameters and outputs, and the run's bits") {
  const Mlp mlp;
  const TraceInput in[] = {{"x", rand32({4, 3}, 9), {"batch"}}};
  const Model model =
      must(trace([&](std::span<const Tensor> x) { return std::vector<Tensor>{mlp(x[0])}; }, in,
                 mlp.options()));
  const Graph& g = model.graph;
  CHECK_EQ(to_string(g, g.type(g.inputs[0]).shape), "[batch, 3]");
  CHECK_EQ(to_string(g, g.outputs[0].declared), "[batch, 2]");
  CHECK_EQ(g.outputs[0].name, "logits");
  REQUIRE(find_state(model, "fc1.weight") != nullptr);
  CHECK(find_state(model, "fc1.weight")->trainable);
  CHECK_FALSE(find_state(model, "fc2.weight")->trainable);
  CHECK_EQ(g.nodes.back().name, "mlp");

  Session session = must(Session::create(model));
  for (int64_t batch : {1, 4, 7}) {
    const Tensor x = rand32({batch, 3}, 20);
    const TensorData inputs[] = {x.data()};
    CHECK(test::same_bits(must(session.run(inputs))[0], mlp(x).data()));
  }
}

TEST_CASE("a traced model survives its file") {
  const Mlp mlp;
  const TraceInput in[] = {{"x", rand32({4, 3}, 9), {"batch"}}};
  const Model model =
      must(trace([&](std::span<const Tensor> x) { return std::vector<Tensor>{mlp(x[0])}; }, in,
                 mlp.options()));
  const test::TempDir dir;
  REQUIRE_OK(save_model(model, dir.file("m.hone")));
  Session session = must(Session::create(must(load_model(dir.file("m.hone")))));
  const Tensor x = rand32({6, 3}, 21);
  const TensorData inputs[] = {x.data()};
  CHECK(test::same_bits(must(session.run(inputs))[0], mlp(x).data()));
}

// Traces a function of one input whose axes are called a, b, ... and runs the model at other
// shapes.
Status trace_and_compare(const std::function<Tensor(const Tensor&)>& fn, const Shape& example,
                         const Shape& other) {
  TraceInput in{"x", rand32(example, 4), {}};
  for (int i = 0; i < example.rank(); ++i)
    in.dims.push_back(example[i] == other[i] ? "" : std::string(1, static_cast<char>('a' + i)));
  HONE_ASSIGN(const Model model,
              trace([&](std::span<const Tensor> x) { return std::vector<Tensor>{fn(x[0])}; },
                    std::span<const TraceInput>(&in, 1)));
  HONE_ASSIGN(Session session, Session::create(model));
  const Tensor x = rand32(other, 5);
  const TensorData inputs[] = {x.data()};
  HONE_ASSIGN(const std::vector<TensorData> out, session.run(inputs));
  const test::Closeness c = test::same_bits(out[0], fn(x).data());
  return c.close ? Status() : internal("{}", c.difference);
}

TEST_CASE("extents that the code reads stay free where shapes can say so") {
  const auto batch = [](const Tensor& x) { return x.reshape({x.size(0), x.size(1) * x.size(2)}); };
  CHECK_OK(trace_and_compare(batch, {2, 3, 4}, {5, 3, 4}));
  CHECK_OK(trace_and_compare(batch, {2, 3, 4}, {5, 6, 4}));
  CHECK_OK(trace_and_compare(
      [](const Tensor& x) { return x.flatten(1) + x.flatten(1).mean({1}, KeepDims::yes); },
      {2, 3, 4}, {1, 3, 4}));
  const auto heads = [](const Tensor& x) {
    return x.reshape({x.size(0), x.size(1), 2, 3}).transpose(1, 2);
  };
  CHECK_OK(trace_and_compare(heads, {2, 4, 6}, {3, 5, 6}));
  CHECK_OK(trace_and_compare(
      [](const Tensor& x) { return x.slice(0, 0, x.size(0) - 1) + x.slice(0, 1, x.size(0)); },
      {4, 2}, {7, 2}));
  CHECK_OK(trace_and_compare(
      [](const Tensor& x) {
        return x + Tensor::ones({x.size(0), 1});
      },
      {4, 2}, {7, 2}));
  CHECK_OK(trace_and_compare(
      [](const Tensor& x) {
        return x.mean({0}).expand({x.size(0), 2}) - x;
      },
      {4, 2}, {7, 2}));
}

// Both entries of each shape change, so neither 0 nor -1 can say it.
TEST_CASE("several free extents in one shape are computed from the inputs' shapes") {
  const TraceInput in[] = {{"x", rand32({4, 6, 2}, 1), {"n", "t"}}};
  const auto check = [&](const std::function<Tensor(const Tensor&)>& fn) {
    const auto traced = [&](std::span<const Tensor> x) { return std::vector<Tensor>{fn(x[0])}; };
    const Model model = must(trace(traced, in));
    Session session = must(Session::create(model));
    for (const Shape& shape : {Shape{2, 8, 2}, Shape{6, 2, 2}}) {
      const Tensor x = rand32(shape, 5);
      const TensorData inputs[] = {x.data()};
      CHECK(test::same_bits(must(session.run(inputs))[0], fn(x).data()));
    }
  };
  check([](const Tensor& x) { return x.reshape({x.size(0) * 2, x.size(1)}); });
  check([](const Tensor& x) { return x.reshape({x.size(0) / 2, 4, x.size(1)}); });
  check([](const Tensor& x) { return x.reshape({x.size(0) * x.size(1) / 2, 4, -1}); });
  check([](const Tensor& x) {
    return x.transpose(0, 1).reshape({x.size(1) / 2, 2, x.size(0) * 2, -1}).exp();
  });
  check([](const Tensor& x) {
    const Tensor wide = concat({x, x}, 1);  // its axis 1 is twice t
    return wide.reshape({wide.size(0) / 2, 2, wide.size(1) / 4, 8});
  });
  check([](const Tensor& x) {
    return x + Tensor::ones({x.size(0), x.size(1) * 2, 1}).reshape({x.size(0), x.size(1), 2});
  });
}

TEST_CASE("what freezes a dimension is named, with both forms") {
  const Status constant = trace_and_compare(
      [](const Tensor& x) {
        NameScope s("pos");
        return x + Tensor::arange(0, static_cast<double>(x.size(0)), 1, DType::f32);
      },
      {4}, {5});
  CHECK_ERROR(constant, Code::invalid_argument,
              "trace: 'a' is not free: add 'pos' uses a constant of f32[4] as input 1, which is "
              "f32[8] when it is 8 instead of 4");
  const Status attrs = trace_and_compare(
      [](const Tensor& x) {
        return x.reshape({x.size(0) * 2 / 2, 1, -1}).slice(0, x.size(0) / 2);
      },
      {4, 2}, {6, 2});
  CHECK_ERROR(attrs, Code::invalid_argument, "slice with starts=[2], ends=");
  const Status path = trace_and_compare(
      [](const Tensor& x) { return x.size(0) > 5 ? x.exp() : x.tanh(); }, {4}, {5});
  CHECK_ERROR(path, Code::invalid_argument, "tanh becomes exp when it is 8 instead of 4");
  const Status refused = trace_and_compare(
      [](const Tensor& x) { return x + Tensor::ones({4}).reshape({4}) * 1; }, {4}, {5});
  CHECK_ERROR(refused, Code::invalid_argument,
              "trace: 'a' is not free: with 8 for 4: trace: output 0: add: ");
}

TEST_CASE("unnamed dimensions stay fixed") {
  const TraceInput in[] = {{"x", rand32({2, 3}, 1), {}}};
  const Model model =
      must(trace([](std::span<const Tensor> x) { return std::vector<Tensor>{x[0].exp()}; }, in));
  const Shape other[] = {{3, 3}};
  CHECK_ERROR(specialise(model.graph, other), Code::invalid_argument,
              "axis 0 is 3, the model expects 2");
}

TEST_CASE("a tensor that wants a gradient becomes a parameter, others constants") {
  Tensor w = rand32({3}, 1);
  w.requires_grad_().set_name("scale");
  const Tensor c = rand32({3}, 2);
  const TraceInput in[] = {{"x", rand32({3}, 3), {}}};
  const Model model =
      must(trace([&](std::span<const Tensor> x) { return std::vector<Tensor>{x[0] * w + c}; }, in));
  REQUIRE(find_state(model, "scale") != nullptr);
  CHECK_EQ(model.graph.states(StateRole::parameter).size(), 1u);
}

TEST_CASE("a write in place to a state becomes an update, and the tensor is as before") {
  Tensor count = Tensor::of<float>({5});
  const TraceInput in[] = {{"x", rand32({3}, 3), {}}};
  const TraceOptions options{{{"count", count, StateRole::buffer}}, {}};
  const Model model = must(trace(
      [&](std::span<const Tensor> x) {
        count.add_(1);
        return std::vector<Tensor>{x[0] * count};
      },
      in, options));
  REQUIRE_EQ(model.graph.updates.size(), 1u);
  CHECK_EQ(model.graph.value(model.graph.updates[0].state).name, "count");
  CHECK_EQ(count.item<float>(), 5);
}

TEST_CASE("errors of the traced code and of the request are told") {
  const auto fn = [](std::span<const Tensor> x) {
    return std::vector<Tensor>{x[0] + Tensor::zeros({7})};
  };
  const TraceInput in[] = {{"x", rand32({3}, 3), {}}};
  CHECK_ERROR(trace(fn, in), Code::invalid_argument, "trace: output 0: add: ");
  const TraceInput twice[] = {{"x", rand32({3}, 3), {}}, {"x", rand32({3}, 3), {}}};
  CHECK_ERROR(trace(fn, twice), Code::invalid_argument, "two inputs are called 'x'");
  const TraceInput many[] = {{"x", rand32({3}, 3), {"a", "b"}}};
  CHECK_ERROR(trace(fn, many), Code::invalid_argument, "2 dimensions are named");
  const TraceInput clash[] = {{"x", rand32({3}, 3), {"a"}}, {"y", rand32({4}, 3), {"a"}}};
  CHECK_ERROR(trace(fn, clash), Code::invalid_argument, "'a' is already 3");
}

TEST_CASE("code that depends on what is not recorded is found out") {
  int calls = 0;
  const TraceInput in[] = {{"x", rand32({3}, 3), {"n"}}};
  const Status s = trace(
                       [&](std::span<const Tensor> x) {
                         ++calls;
                         return std::vector<Tensor>{x[0] * static_cast<double>(calls)};
                       },
                       in)
                       .status();
  CHECK_ERROR(s, Code::invalid_argument,
              "mul uses a constant of f32[] as input 1, which has other values");
}

}  // namespace
}  // namespace hone
