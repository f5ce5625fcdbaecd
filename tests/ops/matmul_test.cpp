// SPDX-License-Identifier: Apache-2.0
#include "tests/ops/gradient_check.hpp"

namespace hone::test {

namespace {

// Straight from the definition, in double.
TensorData product(const TensorData& a, const TensorData& b, bool trans_a, bool trans_b) {
  const int64_t m = a.shape()[trans_a ? 1 : 0], k = a.shape()[trans_a ? 0 : 1],
                n = b.shape()[trans_b ? 0 : 1];
  std::vector<double> y;
  for (int64_t i = 0; i < m; ++i)
    for (int64_t j = 0; j < n; ++j) {
      double sum = 0;
      for (int64_t l = 0; l < k; ++l)
        sum += a.at(trans_a ? l * m + i : i * k + l) * b.at(trans_b ? j * k + l : l * n + j);
      y.push_back(sum);
    }
  return tensor_from({a.dtype(), {m, n}}, y);
}

TensorData doubles(const Shape& shape, uint64_t seed) {
  return random_tensor({DType::f64, shape}, seed);
}

}  // namespace

TEST_CASE("matmul multiplies two matrices") {
  const auto y = must(evaluate(op::matmul, {},
                               {tensor_of<float>({2, 3}, {1, 2, 3, 4, 5, 6}),
                                tensor_of<float>({3, 2}, {1, 0, 0, 1, 1, 1})}));
  CHECK(same_bits(y[0], tensor_of<float>({2, 2}, {4, 5, 10, 11})));
}

TEST_CASE("matmul agrees with the definition across tiles and transpositions") {
  for (const bool trans_a : {false, true})
    for (const bool trans_b : {false, true})
      for (const DType t :
           {DType::f64, DType::f32, DType::f16, DType::bf16, DType::i32, DType::i64}) {
        const int64_t m = 33, k = 70, n = 65;
        const TensorData a = random_tensor({t, trans_a ? Shape{k, m} : Shape{m, k}}, 1, -4, 4);
        const TensorData b = random_tensor({t, trans_b ? Shape{n, k} : Shape{k, n}}, 2, -4, 4);
        const auto y = must(evaluate(op::matmul, MatmulAttrs{trans_a, trans_b}, {a, b}));
        const double rtol = t == DType::f16 ? 1e-3 : t == DType::bf16 ? 8e-3 : 1e-5;
        CHECK(all_close(y[0], product(a, b, trans_a, trans_b), is_float(t) ? rtol : 0,
                        is_float(t) ? rtol : 0));
      }
}

TEST_CASE("matmul broadcasts batch axes") {
  const TensorData a = doubles({2, 1, 3, 4}, 1), b = doubles({5, 4, 2}, 2);
  const auto y = must(evaluate(op::matmul, {}, {a, b}));
  REQUIRE_EQ(y[0].shape(), Shape{2, 5, 3, 2});
  // Batch (1, 3): the second matrix of a, the fourth of b.
  double sum = 0;
  for (int64_t k = 0; k < 4; ++k) sum += a.at(12 + 4 * 2 + k) * b.at(3 * 8 + k * 2 + 1);
  CHECK_EQ(y[0].at((5 + 3) * 6 + 2 * 2 + 1), doctest::Approx(sum));
}

TEST_CASE("matmul of nothing is zero, and of no rows is empty") {
  const auto zero = must(evaluate(op::matmul, {}, {doubles({2, 0}, 1), doubles({0, 2}, 2)}));
  CHECK(same_bits(zero[0], tensor_of<double>({2, 2}, {0, 0, 0, 0})));
  const auto empty = must(evaluate(op::matmul, {}, {doubles({0, 3}, 1), doubles({3, 2}, 2)}));
  CHECK_EQ(empty[0].shape(), Shape{0, 2});
}

TEST_CASE("matmul has first and second derivatives") {
  for (const bool trans_a : {false, true})
    for (const bool trans_b : {false, true}) {
      const TensorData a = doubles(trans_a ? Shape{3, 2} : Shape{2, 3}, 1);
      const TensorData b = doubles(trans_b ? Shape{4, 3} : Shape{3, 4}, 2);
      check_gradient(op::matmul, MatmulAttrs{trans_a, trans_b}, {a, b}, Order::second);
    }
  check_gradient(op::matmul, {}, {doubles({2, 1, 2, 3}, 1), doubles({2, 3, 2}, 2)}, Order::second);
  check_gradient(op::matmul, MatmulAttrs{true, true}, {doubles({2, 3, 2}, 1), doubles({2, 3}, 2)},
                 Order::second);
  check_gradient(op::matmul, {}, {doubles({2, 3, 2}, 1), doubles({2, 3}, 2)}, Order::second);
  check_gradient(op::matmul, MatmulAttrs{false, true}, {doubles({2, 3, 2}, 1), doubles({3, 2}, 2)},
                 Order::second);
}

TEST_CASE("matmul says what does not fit") {
  const auto f = [](Shape s) { return random_tensor({DType::f32, s}, 1); };
  CHECK_ERROR(
      evaluate(op::matmul, {}, {f({2, 3}), f({4, 5})}), Code::invalid_argument,
      "matmul: the left operand has 3 columns, the right one 4 rows (f32[2, 3] times f32[4, 5])");
  CHECK_ERROR(evaluate(op::matmul, {}, {f({3}), f({3, 5})}), Code::invalid_argument,
              "operand 0 is f32[3]");
  CHECK_ERROR(evaluate(op::matmul, {}, {f({2, 2, 3}), f({3, 3, 5})}), Code::invalid_argument,
              "do not broadcast");
  CHECK_ERROR(evaluate(op::matmul, {}, {f({2, 3}), random_tensor({DType::f64, {3, 5}}, 1)}),
              Code::invalid_argument, "one dtype, got f32 and f64");
}

TEST_CASE("ops::matmul takes vectors as rows on the left and columns on the right") {
  const TensorData v = tensor_of<float>({2}, {1, 2}), m = tensor_of<float>({2, 2}, {1, 2, 3, 4});
  const GraphFunction f = [](Builder&, std::span<const Value> in) {
    return std::vector<Value>{ops::matmul(in[0], in[1]), ops::matmul(in[1], in[0]),
                              ops::matmul(in[0], in[0])};
  };
  const auto y = must(evaluate(f, std::vector<TensorData>{v, m}));
  CHECK(same_bits(y[0], tensor_of<float>({2}, {7, 10})));
  CHECK(same_bits(y[1], tensor_of<float>({2}, {5, 11})));
  CHECK(same_bits(y[2], tensor_of<float>({}, {5})));
}

TEST_CASE("gemm scales, transposes and adds") {
  const TensorData a = tensor_of<float>({1, 2}, {1, 2}),
                   b = tensor_of<float>({3, 2}, {1, 0, 0, 1, 1, 1});
  const auto y = must(
      evaluate(op::gemm, GemmAttrs{2, 0.5, false, true}, {a, b, tensor_of<float>({1, 1}, {4})}));
  CHECK(same_bits(y[0], tensor_of<float>({1, 3}, {4, 6, 8})));
  check_gradient(op::gemm, GemmAttrs{2, 0.5, true, false},
                 {doubles({3, 2}, 1), doubles({3, 4}, 2), doubles({4}, 3)}, Order::second);
  CHECK_ERROR(
      evaluate(op::gemm, {}, {a, tensor_of<float>({2, 1}, {1, 1}), tensor_of<float>({2}, {4, 4})}),
      Code::invalid_argument, "the addend f32[2] does not broadcast to the product [1, 1]");
}

}  // namespace hone::test
