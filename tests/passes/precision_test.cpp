// SPDX-License-Identifier: Apache-2.0
// A model made anew in another floating-point type.
#include "hone/precision.hpp"
#include "tests/passes/sketch.hpp"
#include "tests/support/check.hpp"

namespace hone {
namespace {

using namespace test;

// A cast, a constant, a parameter and free dimensions.
Value scaled_softmax(Sketch& s) {
  const Value length = s.b.emit(op::cast, {s.extent(s.x, 1)}, CastAttrs{s.dtype});
  const Value w = s.parameter("w", {4, 4});
  return ops::softmax(ops::matmul(s.x, w) / length * s.number(0.3), -1);
}

TEST_CASE("a model in f64 gives what it gives in f32, with more digits") {
  const Model single = drawn(scaled_softmax);
  Model twice = single;
  REQUIRE_OK(set_precision(twice.graph, DType::f64));
  CHECK_OK(verify(twice.graph));
  for (const ValueInfo& v : twice.graph.values) {
    if (v.typed) CHECK(v.type.dtype != DType::f32);
    if (v.data.defined()) CHECK(v.data.dtype() != DType::f32);
  }
  const auto want = outputs(drawn(scaled_softmax, DType::f64), {2, 3});
  const auto got = outputs(twice, {2, 3});
  REQUIRE_EQ(got.size(), 1);
  CHECK_EQ(got[0].dtype(), DType::f64);
  // The parameters were rounded to f32 once; nothing else was.
  const auto rounded = outputs(single, {2, 3});
  CHECK(all_close(got[0], want[0], 1e-6, 1e-6));
  CHECK(all_close(got[0], must(cast(rounded[0], DType::f64)), 1e-6, 1e-6));
}

TEST_CASE("back from f64 the weights have their old bits") {
  const Model before = drawn(scaled_softmax);
  Model after = before;
  REQUIRE_OK(set_precision(after.graph, DType::f64));
  REQUIRE_OK(set_precision(after.graph, DType::f32));
  CHECK_EQ(content_hash(after), content_hash(before));
  CHECK_EQ(print(after.graph), print(before.graph));
}

TEST_CASE("an f16 model takes half the bytes") {
  Model m = drawn(scaled_softmax);
  REQUIRE_OK(set_precision(m.graph, DType::f16));
  const ValueInfo* w = find_state(m, "w");
  REQUIRE(w);
  CHECK_EQ(w->data.bytes(), 4 * 4 * 2);
}

TEST_CASE("integers are no precision, and what is bound to a type says so") {
  Model m = drawn(scaled_softmax);
  const std::string before = print(m.graph);
  CHECK_ERROR(set_precision(m.graph, DType::i32), Code::invalid_argument,
              "f64, f32, f16 or bf16, not in i32");
  CHECK_EQ(print(m.graph), before);
}

}  // namespace
}  // namespace hone
