// SPDX-License-Identifier: Apache-2.0
#include "hone/session.hpp"

#include "tests/runtime/models.hpp"

namespace hone::test {

TEST_CASE("a session runs with any extent of a named dimension and keeps the plans") {
  const Model m = small_mlp();
  Session s = must(Session::create(m));
  const TensorData all = random_tensor({DType::f32, {7, 3}}, 9);
  const TensorData whole = must(s.run(std::vector<TensorData>{all}))[0];
  CHECK_EQ(whole.shape(), Shape{7, 2});
  for (int64_t n : {1, 3, 7, 0}) {
    const TensorData part = must(TensorData::copy_of(
        {DType::f32, {n, 3}}, all.as_bytes().first(static_cast<size_t>(n) * 12)));
    const TensorData y = must(s.run(std::vector<TensorData>{part}))[0];
    REQUIRE_EQ(y.shape(), Shape{n, 2});
    for (int64_t i = 0; i < y.numel(); ++i)
      CHECK_EQ(y.at(i), doctest::Approx(whole.at(i)).epsilon(1e-6));
  }
}

TEST_CASE("a session says what is wrong with an input") {
  const Model m = small_mlp();
  Session s = must(Session::create(m));
  const auto run = [&](const TensorType& type) {
    return s.run(std::vector<TensorData>{random_tensor(type, 1)});
  };
  CHECK_ERROR(run({DType::f32, {2, 4}}), Code::invalid_argument,
              "input 'x': axis 1 is 4, the model expects 3");
  CHECK_ERROR(run({DType::f32, {6}}), Code::invalid_argument,
              "has 1 dimensions [6], the model expects 2: [N, 3]");
  CHECK_ERROR(run({DType::f64, {2, 3}}), Code::invalid_argument,
              "input 'x' is f64, the model expects f32");
  CHECK_ERROR(s.run(std::vector<TensorData>{}), Code::invalid_argument, "1 inputs, got 0");
  const std::vector<NamedTensor> misnamed = {{"y", random_tensor({DType::f32, {2, 3}}, 1)}};
  CHECK_ERROR(s.run(misnamed), Code::invalid_argument, "no input 'y'; its inputs are 'x'");
  CHECK_ERROR(Session::create(m, {.threads = 0}), Code::invalid_argument, "at least one thread");
}

TEST_CASE("threads and kernels do not change what a session computes") {
  const Model m = small_mlp();
  const TensorData x = random_tensor({DType::f32, {33, 3}}, 5);
  Session one = must(Session::create(m, {.threads = 1}));
  Session two = must(Session::create(m, {.threads = 2}));
  Session plain = must(Session::create(m, {.kernels = Kernels::reference}));
  const TensorData y = must(one.run(std::vector<TensorData>{x}))[0];
  CHECK(same_bits(must(two.run(std::vector<TensorData>{x}))[0], y));
  CHECK(all_close(must(plain.run(std::vector<TensorData>{x}))[0], y, 1e-6, 1e-6));
}

TEST_CASE("many different shapes stay within the plan cache and give the same results") {
  const Model m = small_mlp();
  Session s = must(Session::create(m, {.plan_cache = 2}));
  for (int round = 0; round < 3; ++round)
    for (int64_t n = 1; n < 6; ++n)
      CHECK_EQ(must(s.run(std::vector<TensorData>{random_tensor({DType::f32, {n, 3}}, 1)}))[0]
                   .shape()[0],
               n);
}

namespace {

// Operators over both axes of x [M, N], whose kernels get their sizes from the plan.
Model over_both_axes() {
  Model m;
  Builder b(m.graph, Composites::keep);
  const Value x = b.input({DType::f32, {m.graph.dim("M"), m.graph.dim("N")}}, "x");
  const Value turned = ops::transpose(x, std::vector<int64_t>{1, 0});
  b.output(ops::matmul(x, turned), "product");
  b.output(ops::softmax(x, 1), "softmax");
  b.output(b.emit(op::cumsum, {x}, CumsumAttrs{}), "cumsum");
  b.output(b.emit(op::concat, {x, x}, AxisAttrs{0}), "twice");
  b.output(ops::sum(ops::relu(turned), {{0}, false}), "sums");
  REQUIRE_OK(b.status());
  return m;
}

}  // namespace

TEST_CASE("C11: each axis is held to its own limit, not their product to the product of limits") {
  const Model m = over_both_axes();
  const std::vector<DimLimit> limits = {{"M", 4}, {"N", 4}};
  Session limited = must(Session::create(m, {.max_dims = limits}));
  const auto input = [](int64_t rows, int64_t columns) {
    return std::vector<TensorData>{random_tensor({DType::f32, {rows, columns}}, 3)};
  };
  CHECK_ERROR(limited.run(input(2, 6)), Code::invalid_argument,
              "input 'x': axis 1 is 6, above the limit of 4 for the dimension 'N'");
  CHECK_ERROR(limited.run(input(5, 1)), Code::invalid_argument, "axis 0 is 5, above the limit");
  CHECK_ERROR(limited.plan(std::vector<Shape>{{2, 6}}), Code::invalid_argument, "axis 1 is 6");
  // At the limit, then below it, then at it again: nothing of the larger plan may be left over.
  for (const auto& extents : {std::pair{3, 2}, {4, 4}, {3, 2}, {1, 4}, {0, 3}, {4, 4}}) {
    const int rows = extents.first, columns = extents.second;
    CAPTURE(rows);
    CAPTURE(columns);
    const auto in = input(rows, columns);
    const auto got = must(limited.run(in));
    Session fresh = must(Session::create(m, {.kernels = Kernels::reference}));
    const auto want = must(fresh.run(in));
    for (size_t i = 0; i < want.size(); ++i) CHECK(all_close(got[i], want[i], 1e-6, 1e-6));
  }
}

TEST_CASE("limits of dimensions can be written as text") {
  const std::vector<DimLimit> limits = must(parse_dim_limits("N=16,seq_len=512"));
  REQUIRE_EQ(limits.size(), 2);
  CHECK_EQ(limits[0].name, "N");
  CHECK_EQ(limits[0].max, 16);
  CHECK_EQ(limits[1].name, "seq_len");
  CHECK_EQ(limits[1].max, 512);
  CHECK(must(parse_dim_limits("")).empty());
  for (const char* text : {"N", "N=", "=3", "N=3x", "N=4,,M=2", "N=99999999999999999999"})
    CHECK_ERROR(parse_dim_limits(text), Code::invalid_argument, "expected NAME=N");
}

TEST_CASE("limits name dimensions that the model has, and hold in training too") {
  const Model m = small_mlp();
  CHECK_ERROR(Session::create(m, {.max_dims = {{"M", 4}}}), Code::invalid_argument,
              "for the dimension 'M'; the model's dimensions are 'N'");
  CHECK_ERROR(Session::create(m, {.max_dims = {{"N", -1}}}), Code::invalid_argument, "below 0");
  TrainerOptions o;
  o.loss = cross_entropy_loss;
  o.session.max_dims = {{"N", 4}};
  Trainer t = must(Trainer::create(m, o));
  CHECK_OK(t.step(two_clouds(4, 1)));
  CHECK_ERROR(t.step(two_clouds(5, 1)), Code::invalid_argument,
              "input 'x': axis 0 is 5, above the limit of 4 for the dimension 'N'");
  o.session.max_dims = {{"batch", 4}};
  CHECK_ERROR(Trainer::create(m, o), Code::invalid_argument, "for the dimension 'batch'");
}

}  // namespace hone::test
