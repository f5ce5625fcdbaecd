// SPDX-License-Identifier: Apache-2.0
// Branches and loops: in one program where nothing depends on data, in stages where it does, saved
// and loaded, and trained through.
#include "hone/control.hpp"

#include <cmath>

#include "hone/ops.hpp"
#include "hone/session.hpp"
#include "hone/trainer.hpp"
#include "tests/support/check.hpp"
#include "tests/support/tensors.hpp"

namespace hone::test {

namespace {

using Bodies = std::function<std::vector<Value>(Builder&, std::span<const Value>)>;

GraphPtr body(int inputs, const Bodies& make) {
  auto g = std::make_shared<Graph>();
  Builder b(*g, Composites::keep);
  std::vector<Value> in;
  for (int i = 0; i < inputs; ++i) in.push_back(b.untyped_input(format("in_{}", i)));
  int i = 0;
  for (Value v : make(b, in)) b.output(v, format("out_{}", i++));
  REQUIRE_OK(b.status());
  return g;
}

Value node(const OpDef& op, std::initializer_list<Value> in, Attrs attrs = {}) {
  return in.begin()->builder().emit(op, in, std::move(attrs));
}

Model through_file(const Model& m) {
  const auto bytes = std::make_shared<std::vector<std::byte>>(must(save_model(m)));
  return must(load_model(*bytes, bytes));
}

// y = sum(x) > 0 ? w * x : x - w, by a branch; w is a parameter.
Model branching() {
  Model m;
  Builder b(m.graph, Composites::keep);
  const Value x = b.input({DType::f32, {m.graph.dim("N")}}, "x");
  const Value w = b.state(StateRole::parameter, tensor_of<float>({1}, {3}), "w");
  const Value sum = node(op::sum, {x}, ReduceAttrs{{}, false});
  const Value positive = node(op::greater, {sum, b.scalar(0, DType::f32)});
  const GraphPtr yes = body(2, [](Builder&, std::span<const Value> in) {
    return std::vector{node(op::mul, {in[0], in[1]})};
  });
  const GraphPtr no = body(2, [](Builder&, std::span<const Value> in) {
    return std::vector{node(op::sub, {in[0], in[1]})};
  });
  const Value in[] = {positive, x, w};
  b.output(b.emit_all(op::if_else, in, IfAttrs{yes, no})[0], "y");
  REQUIRE_OK(b.status());
  return m;
}

// From a, as long as it is below `limit`: a *= 2; every a is stacked. `limit` is an input.
Model doubling() {
  Model m;
  Builder b(m.graph, Composites::keep);
  const Value a = b.input({DType::f32, {1}}, "a"), limit = b.input({DType::f32, {1}}, "limit");
  const GraphPtr step = body(4, [](Builder& g, std::span<const Value> in) {
    const Value next = node(op::mul, {in[2], g.scalar(2, DType::f32)});
    return std::vector{node(op::less, {next, in[3]}), next, next};
  });
  const Value start = node(op::less, {a, limit});
  const Value in[] = {Value(), start, a, limit};
  const std::vector<Value> outs = b.emit_all(op::loop, in, LoopAttrs{step, 1}, 2);
  b.output(outs[0], "last");
  b.output(outs[1], "all");
  REQUIRE_OK(b.status());
  return m;
}

// h = tanh(w h + x_t) over the rows of x (time, features), from zero; all h are stacked.
Model recurrent(ScanAttrs attrs = {{}, 1, {0}, {0}, {0}, {0}}) {
  Model m;
  Builder b(m.graph, Composites::keep);
  const Value x = b.input({DType::f64, {m.graph.dim("T"), 2}}, "x");
  const Value w = b.state(StateRole::parameter, tensor_of<double>({2}, {0.5, -0.8}), "w");
  const Value h = b.constant(tensor_of<double>({2}, {0, 0}));
  attrs.body = body(3, [](Builder&, std::span<const Value> in) {
    const Value next = node(op::tanh, {node(op::add, {node(op::mul, {in[0], in[2]}), in[1]})});
    return std::vector{next, next};
  });
  const Value in[] = {h, x, w};
  const std::vector<Value> outs = b.emit_all(op::scan, in, attrs, 2);
  b.output(outs[0], "h");
  b.output(outs[1], "all");
  REQUIRE_OK(b.status());
  return m;
}

std::vector<double> list(const TensorData& t) {
  std::vector<double> out;
  for (int64_t i = 0; i < t.numel(); ++i) out.push_back(t.at(i));
  return out;
}

}  // namespace

TEST_CASE("a branch is taken by what the data say, at each run anew") {
  for (const Model& m : {branching(), through_file(branching())}) {
    Session s = must(Session::create(m));
    const TensorData up = tensor_of<float>({2}, {1, 2}), down = tensor_of<float>({2}, {1, -2});
    for (int round = 0; round < 2; ++round) {
      CHECK_EQ(list(must(s.run(std::span(&up, 1)))[0]), std::vector<double>{3, 6});
      CHECK_EQ(list(must(s.run(std::span(&down, 1)))[0]), std::vector<double>{-2, -5});
    }
    std::vector<TensorData> room = {tensor_of<float>({2}, {0, 0})};
    REQUIRE_OK(s.run(std::span(&up, 1), room));
    CHECK_EQ(list(room[0]), std::vector<double>{3, 6});
    room = {tensor_of<float>({3}, {0, 0, 0})};
    CHECK_ERROR(s.run(std::span(&up, 1), room), Code::invalid_argument, "got room for f32[3]");
    const Shape two[] = {{2}};
    CHECK_ERROR(s.output_types(two), Code::unsupported, "depend on its data");
  }
}

TEST_CASE("a loop goes on as long as its condition says, also not at all") {
  for (const Model& m : {doubling(), through_file(doubling())}) {
    Session s = must(Session::create(m));
    std::vector<TensorData> in = {tensor_of<float>({1}, {1}), tensor_of<float>({1}, {10})};
    auto out = must(s.run(in));
    CHECK_EQ(list(out[0]), std::vector<double>{16});
    CHECK_EQ(out[1].shape(), Shape{4, 1});
    CHECK_EQ(list(out[1]), std::vector<double>{2, 4, 8, 16});
    in[1] = tensor_of<float>({1}, {1});
    out = must(s.run(in));
    CHECK_EQ(list(out[0]), std::vector<double>{1});
    CHECK_EQ(out[1].shape(), Shape{0, 1});
  }
}

TEST_CASE("a scan is one planned program, whatever axes and directions it has") {
  const TensorData x = tensor_of<double>({3, 2}, {1, 2, 3, 4, 5, 6});
  Session s = must(Session::create(through_file(recurrent())));
  const auto out = must(s.run(std::span(&x, 1)));
  double h[2] = {0, 0};
  const double w[2] = {0.5, -0.8};
  for (int t = 0; t < 3; ++t)
    for (int i = 0; i < 2; ++i) {
      h[i] = std::tanh(w[i] * h[i] + x.at(2 * t + i));
      CHECK_EQ(out[1].at(2 * t + i), doctest::Approx(h[i]).epsilon(1e-12));
    }
  CHECK_EQ(out[0].at(1), doctest::Approx(h[1]).epsilon(1e-12));
  const Shape shape[] = {{3, 2}};
  CHECK_EQ(must(s.output_types(shape))[1].shape, Shape{3, 2});

  Session reverse = must(Session::create(recurrent({{}, 1, {0}, {1}, {-1}, {1}})));
  const TensorData turned = tensor_of<double>({3, 2}, {5, 6, 3, 4, 1, 2});
  const auto back = must(reverse.run(std::span(&turned, 1)));
  REQUIRE_EQ(back[1].shape(), Shape{2, 3});
  for (int t = 0; t < 3; ++t)
    for (int i = 0; i < 2; ++i) CHECK_EQ(back[1].at(3 * i + 2 - t), out[1].at(2 * t + i));

  const TensorData none = must(TensorData::zeros({DType::f64, {0, 2}}));
  CHECK_EQ(must(s.run(std::span(&none, 1)))[1].shape(), Shape{0, 2});
}

TEST_CASE("gradients flow through scans, loops and the branch taken") {
  const auto check = [](const Model& m, const std::vector<NamedTensor>& batch, double eps,
                        double tolerance) {
    TrainerOptions options;
    options.loss = [](Builder&, const NamedValues& outputs, const NamedValues&) -> Result<Value> {
      HONE_ASSIGN(const Value y, outputs.find("y"));
      return ops::mean(ops::square(y), {{}, false});
    };
    options.optimizer = {.kind = OptimizerKind::sgd, .lr = 0};
    Trainer t = must(Trainer::create(m, options));
    const auto grads = must(t.gradients(batch));
    REQUIRE_EQ(grads.size(), 1);
    for (int64_t i = 0; i < grads[0].data.numel(); ++i) {
      double loss[2];
      for (int side = 0; side < 2; ++side) {
        Model moved = m;
        TensorData& w = moved.graph.value(moved.graph.find("w")).data;
        w = must(w.clone());
        const double to = w.at(i) + (side ? eps : -eps);
        if (w.dtype() == DType::f64)
          w.as_mutable<double>()[i] = to;
        else
          w.as_mutable<float>()[i] = static_cast<float>(to);
        loss[side] = must(must(Trainer::create(moved, options)).evaluate(batch));
      }
      CHECK_EQ(grads[0].data.at(i),
               doctest::Approx((loss[1] - loss[0]) / (2 * eps)).epsilon(tolerance));
    }
  };
  Model scan = recurrent();
  scan.graph.outputs = {{scan.graph.outputs[1].value, "y", {}, false}};
  check(scan, {{"x", tensor_of<double>({3, 2}, {1, 0.5, -0.3, 0.4, 0.2, 0.1})}}, 1e-5, 1e-8);
  check(branching(), {{"x", tensor_of<float>({2}, {1, 2})}}, 1e-2, 1e-4);
  check(branching(), {{"x", tensor_of<float>({2}, {1, -2})}}, 1e-2, 1e-4);
}

TEST_CASE("a training program whose branch depends on data is not used for other data") {
  TrainerOptions options;
  options.loss = [](Builder&, const NamedValues& outputs, const NamedValues&) -> Result<Value> {
    HONE_ASSIGN(const Value y, outputs.find("y"));
    return ops::sum(y, {{}, false});
  };
  options.optimizer = {.kind = OptimizerKind::sgd, .lr = 0};
  Trainer t = must(Trainer::create(branching(), options));
  const std::vector<NamedTensor> up = {{"x", tensor_of<float>({2}, {1, 2})}},
                                 down = {{"x", tensor_of<float>({2}, {1, -2})}};
  for (int round = 0; round < 2; ++round) {
    CHECK_EQ(must(t.gradients(up))[0].data.at(0), 3);
    CHECK_EQ(must(t.gradients(down))[0].data.at(0), -2);
    CHECK_EQ(must(t.step(up)).loss, 9);
    CHECK_EQ(must(t.step(down)).loss, -7);
    CHECK_EQ(list(must(t.predict(down))[0]), std::vector<double>{-2, -5});
  }
}

TEST_CASE("a shape that is an input decides the output's shape at each run") {
  Model m;
  Builder b(m.graph, Composites::keep);
  const Value x = b.input({DType::f32, {m.graph.dim("N")}}, "x"),
              shape = b.input({DType::i64, {2}}, "shape");
  b.output(b.emit_all(op::reshape_dyn, std::vector{x, shape})[0], "y");
  REQUIRE_OK(b.status());
  Session s = must(Session::create(m));
  for (const auto& [rows, columns] : {std::pair<double, double>{2, 3}, {3, 2}, {6, 1}}) {
    const std::vector<TensorData> in = {tensor_of<float>({6}, {1, 2, 3, 4, 5, 6}),
                                        tensor_of<int64_t>({2}, {rows, columns})};
    CHECK_EQ(must(s.run(in))[0].shape(),
             Shape{static_cast<int64_t>(rows), static_cast<int64_t>(columns)});
  }
  const std::vector<TensorData> wrong = {tensor_of<float>({6}, {1, 2, 3, 4, 5, 6}),
                                         tensor_of<int64_t>({2}, {4, 2})};
  CHECK_ERROR(s.run(wrong), Code::invalid_argument, "reshape");
}

TEST_CASE(
    "how many elements are chosen is found out while running, and training goes on through it") {
  // y = the positive elements of w * x: nonzero of what is computed, then gather.
  Model m;
  Builder b(m.graph, Composites::keep);
  const Value x = b.input({DType::f32, {m.graph.dim("N")}}, "x");
  const Value w = b.state(StateRole::parameter, tensor_of<float>({1}, {-2}), "w");
  const Value wx = node(op::mul, {x, w});
  const Value where = node(op::nonzero, {node(op::greater, {wx, b.scalar(0, DType::f32)})});
  b.output(node(op::gather, {wx, node(op::reshape, {where}, ShapeAttrs{{-1}})}, AxisAttrs{0}), "y");
  REQUIRE_OK(b.status());
  Session s = must(Session::create(through_file(m)));
  const TensorData in = tensor_of<float>({4}, {1, -1, 3, -4});
  CHECK_EQ(list(must(s.run(std::span(&in, 1)))[0]), std::vector<double>{2, 8});
  const TensorData none = tensor_of<float>({2}, {1, 1});
  CHECK_EQ(must(s.run(std::span(&none, 1)))[0].shape(), Shape{0});
  TrainerOptions options;
  options.loss = [](Builder&, const NamedValues& outputs, const NamedValues&) -> Result<Value> {
    HONE_ASSIGN(const Value y, outputs.find("y"));
    return ops::sum(y, {{}, false});
  };
  options.optimizer = {.kind = OptimizerKind::sgd, .lr = 0};
  Trainer t = must(Trainer::create(m, options));
  CHECK_EQ(must(t.gradients(std::vector<NamedTensor>{{"x", in}}))[0].data.at(0), -5);
}

TEST_CASE("a body that does not fit is refused with the reason") {
  Model m = branching();
  Node& n = m.graph.nodes.back();
  n.attrs =
      IfAttrs{n.attrs.as<IfAttrs>().then_branch,
              body(1, [](Builder&, std::span<const Value> in) { return std::vector{in[0]}; })};
  Session s = must(Session::create(m));
  const TensorData down = tensor_of<float>({2}, {1, -2});
  CHECK_ERROR(s.run(std::span(&down, 1)), Code::invalid_argument, "takes 1 inputs, it gets 2");
  n.attrs = IfAttrs{};
  CHECK_ERROR(save_model(m), Code::invalid_argument, "is missing");
}

}  // namespace hone::test
