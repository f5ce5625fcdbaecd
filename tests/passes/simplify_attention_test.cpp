// SPDX-License-Identifier: Apache-2.0
// Attention as exporters spell it. In f64, so that a wrong formula or gradient would show.
#include <cmath>
#include <limits>

#include "tests/passes/sketch.hpp"
#include "tests/support/check.hpp"

namespace hone {
namespace {

using namespace test;

const std::string kAttention = "scaled_dot_product_attention";

void check(std::string_view name, const Draw& draw, const std::string& expected) {
  INFO(std::string(name));
  const Model before = drawn(draw, DType::f64);
  const Model after = simplified(before, {.recognise = kFull});
  CHECK_EQ(operators(after.graph), expected);
  for (const std::vector<int64_t>& extents : {std::vector<int64_t>{2, 3}, {1, 1}}) {
    CHECK(all_close(outputs(after, extents)[0], outputs(before, extents)[0], 1e-12, 1e-12));
    const auto want = gradients(before, extents), got = gradients(after, extents);
    REQUIRE_EQ(got.size(), want.size());
    for (size_t i = 0; i < want.size(); ++i) CHECK(all_close(got[i], want[i], 1e-12, 1e-12));
  }
}

Value times(Value a, Value b) { return a.builder().emit(op::mul, {a, b}); }
Value plus(Value a, Value b) { return a.builder().emit(op::add, {a, b}); }
Value product(Value a, Value b, bool trans_b = false) {
  return a.builder().emit(op::matmul, {a, b}, MatmulAttrs{false, trans_b});
}
Value weights(Value scores) { return scores.builder().emit(op::softmax, {scores}, AxisAttrs{-1}); }
Value permuted(Value v, std::vector<int64_t> perm) {
  return v.builder().emit(op::transpose, {v}, PermAttrs{std::move(perm)});
}
// Two heads of two: (N, 2, T, 2).
Value heads(Value v) {
  return permuted(v.builder().emit(op::reshape, {v}, ShapeAttrs{{0, 0, 2, 2}, false}),
                  {0, 2, 1, 3});
}

TEST_CASE("attention is recognised with its scale on the scores, on q, or on both sides") {
  const double root = std::sqrt(std::sqrt(0.5));
  check(
      "scores / sqrt(d)",
      [](Sketch& s) {
        const Value scores =
            s.b.emit(op::div, {product(s.x, permuted(s.x, {0, 2, 1})), s.number(2)});
        return product(weights(scores), s.x);
      },
      "unsqueeze " + kAttention + " squeeze");
  check(
      "on q, with heads",
      [](Sketch& s) {
        const Value q = times(heads(s.x), s.number(0.7));
        return product(weights(product(q, permuted(heads(s.x), {0, 1, 3, 2}))), heads(s.x));
      },
      "reshape " + kAttention + " transpose");
  check(
      "on q and on k transposed",
      [&](Sketch& s) {
        const Value k = times(permuted(heads(s.x), {0, 1, 3, 2}), s.number(root));
        return product(weights(product(times(heads(s.x), s.number(root)), k)), heads(s.x));
      },
      "reshape " + kAttention + " transpose");
}

TEST_CASE("masks of attention are recognised: added once or twice, or chosen by a bool") {
  const double never = -std::numeric_limits<double>::infinity();
  check(
      "added",
      [](Sketch& s) {
        return product(weights(plus(product(s.x, s.x, true), s.number(-2, {1, 1, 1}))), s.x);
      },
      "unsqueeze " + kAttention + " squeeze");
  check(
      "two, one of them learned",
      [](Sketch& s) {
        const Value scores =
            plus(plus(s.number(-1, {1, 1}), product(s.x, s.x, true)), s.parameter("bias", {1, 1}));
        return product(weights(scores), s.x);
      },
      "add unsqueeze " + kAttention + " squeeze");
  check(
      "where",
      [never](Sketch& s) {
        const Value seen = s.b.constant(must(
            cast(must(TensorData::vector_of(std::span<const int64_t>(std::vector<int64_t>{1}))),
                 DType::bool_)));
        const Value scores = s.b.emit(op::where, {seen, product(s.x, s.x, true), s.number(never)});
        return product(weights(scores), s.x);
      },
      "unsqueeze " + kAttention + " squeeze");
}

TEST_CASE("attention stays spelled out where another reads its weights or the shapes may differ") {
  check(
      "weights are read",
      [](Sketch& s) {
        const Value w = weights(product(s.x, s.x, true));
        const Value y = product(w, s.x);
        return plus(y, s.mean(w));
      },
      "matmul softmax matmul mean add");
  check(
      "scores are read",
      [](Sketch& s) {
        const Value scores = product(s.x, s.x, true);
        const Value y = product(weights(scores), s.x);
        return plus(y, s.mean(scores));
      },
      "matmul softmax matmul mean add");
  check(
      "hidden keys have a finite score",
      [](Sketch& s) {
        const Value seen = s.b.emit(op::less, {s.number(0), s.number(1)});
        const Value scores = s.b.emit(op::where, {seen, product(s.x, s.x, true), s.number(-1e4)});
        return product(weights(scores), s.x);
      },
      "matmul where softmax matmul");
  check(
      "one matrix for all samples",
      [](Sketch& s) {
        const Value k = s.parameter("k", {1, 3, 4});
        return product(weights(product(s.x, k, true)), k);
      },
      "matmul softmax matmul");
  check(
      "another axis",
      [](Sketch& s) {
        const Value w = s.b.emit(op::softmax, {product(s.x, s.x, true)}, AxisAttrs{-2});
        return product(w, s.x);
      },
      "matmul softmax matmul");
}

}  // namespace
}  // namespace hone
