// SPDX-License-Identifier: Apache-2.0
// The CPU backend's recurrent loops against the reference kernels, at widths that do not fill
// vectors and panels.
#include <cmath>

#include "backends/cpu/cpu_backend.hpp"
#include "hone/op_table.hpp"
#include "hone/recurrent.hpp"
#include "hone/session.hpp"
#include "tests/backends/harness.hpp"
#include "tests/support/check.hpp"
#include "tests/support/tensors.hpp"

namespace hone::test {
namespace {

// All outputs of one node over random inputs, by the backend and by the reference kernels.
void check_backend(const OpDef& op, const RecurrentAttrs& attrs, const std::vector<Shape>& shapes,
                   double low = -1, double high = 1) {
  for (int threads : {1, 2, 3}) {
    INFO(std::string(op.name), " threads ", threads);
    Model m;
    Builder b(m.graph, Composites::keep);
    std::vector<Value> in;
    std::vector<TensorData> data;
    for (size_t i = 0; i < shapes.size(); ++i) {
      data.push_back(random_tensor({DType::f32, shapes[i]}, 7 + i, low, high));
      in.push_back(b.input({DType::f32, shapes[i]}, format("x{}", i)));
    }
    const std::vector<Value> outs = b.emit_all(op, in, attrs);
    REQUIRE_OK(b.status());
    for (size_t k = 0; k < outs.size(); ++k) b.output(outs[k], format("y{}", k));
    Session best = must(Session::create(m, {.threads = threads}));
    Session plain = must(Session::create(m, {.kernels = Kernels::reference}));
    const auto got = must(best.run(data)), want = must(plain.run(data));
    for (size_t k = 0; k < got.size(); ++k) CHECK(all_close(got[k], want[k], 1e-4, 1e-5));
  }
}

TEST_CASE("recurrent layers give the reference's numbers") {
  const RecurrentAttrs both{.direction = Direction::bidirectional};
  check_backend(op::lstm, both, {{7, 5, 11}, {2, 148, 11}, {2, 148, 37}, {2, 296}});
  check_backend(op::gru, both, {{7, 5, 11}, {2, 111, 11}, {2, 111, 37}, {2, 222}});
  check_backend(op::gru, {.linear_before_reset = true},
                {{7, 5, 11}, {1, 111, 11}, {1, 111, 37}, {1, 222}});
  check_backend(op::rnn, both, {{7, 5, 11}, {2, 37, 11}, {2, 37, 37}, {2, 74}});
  check_backend(op::lstm, {.clip = 0.3}, {{3, 2, 4}, {1, 76, 4}, {1, 76, 19}});
}

TEST_CASE("the two directions of a layer are one step, or two where one needs the other") {
  const Backend* gemm = cpu::backend_of(cpu::Family::gemm);
  if (!gemm) return;  // not built
  for (const bool chained : {false, true}) {
    INFO(chained);
    Case c;
    const Value x = c.input({6, 5, 37}, "x", 1), r = c.input({37, 37}, "r", 2);
    const Value h = c.input({5, 37}, "h", 3);
    const auto loop = [&](Value in, Direction direction) {
      const std::vector<Value> operands = {in, r, h};
      return c.builder().emit_all(op::rnn_cells, operands,
                                  RecurrentAttrs{.direction = direction})[0];
    };
    const Value first = loop(x, Direction::forward);
    const Value from = chained ? ops::reshape(ops::reshape(first, {30, 37}), {6, 5, 37}) : x;
    c.check(first + loop(from, Direction::reverse), *gemm);
    const auto loops = [&](int threads) {
      const std::string steps = c.steps(*gemm, threads);
      int n = 0;
      for (size_t at = 0; (at = steps.find("gemm.recurrent", at)) != std::string::npos; ++at) ++n;
      return n;
    };
    CHECK_EQ(loops(1), 2);
    CHECK_EQ(loops(2), chained ? 2 : 1);
  }
}

TEST_CASE("gradients of recurrent loops are the reference's") {
  const Shape gates{6, 5, 148}, states{6, 5, 37}, state{5, 37};
  check_backend(op::lstm_cells_grad, {}, {gates, states, {148, 37}, state, states}, 0.1, 0.9);
  check_backend(op::gru_cells_grad, {}, {{6, 5, 111}, states, {111, 37}, states}, 0.1, 0.9);
  check_backend(op::rnn_cells_grad, {.direction = Direction::reverse}, {states, {37, 37}, states},
                0.1, 0.9);
}

TEST_CASE("large arguments saturate the gates and a NaN passes through") {
  Model m;
  Builder b(m.graph, Composites::keep);
  const Shape x{1, 1, 8}, r{8, 2}, h{1, 2};
  const std::vector<Value> outs =
      b.emit_all(op::lstm_cells,
                 std::vector<Value>{b.input({DType::f32, x}, "x"), b.input({DType::f32, r}, "r"),
                                    b.input({DType::f32, h}, "h"), b.input({DType::f32, h}, "c")});
  REQUIRE_OK(b.status());
  b.output(outs[0], "gates");
  Session s = must(Session::create(m, {}));
  const std::vector<TensorData> in = {
      tensor_of<float>(x, {1000, -1000, 90, NAN, 1e30f, -1e30f, 1000, -1000}),
      tensor_from({DType::f32, r}, std::vector<double>(16, 0.0)), tensor_of<float>(h, {0, 0}),
      tensor_of<float>(h, {0, 0})};
  const TensorData gates = must(s.run(in))[0];
  const double wanted[] = {1, 0, 1, NAN, 1, 0, 1, -1};
  for (int64_t i = 0; i < 8; ++i) {
    INFO(i);
    if (std::isnan(wanted[i])) {
      CHECK(std::isnan(gates.at(i)));
    } else {
      CHECK(std::fabs(gates.at(i) - wanted[i]) < 1e-30);
    }
  }
}

}  // namespace
}  // namespace hone::test
