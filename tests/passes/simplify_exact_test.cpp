// SPDX-License-Identifier: Apache-2.0
// Rules that keep every bit: where they apply, and where they must not.
#include <limits>

#include "hone/op_attrs_quantize.hpp"
#include "tests/passes/sketch.hpp"
#include "tests/support/check.hpp"

namespace hone {
namespace {

using namespace test;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

struct Case {
  std::string name;
  Draw draw;
  std::string expected;  ///< Operators that stay.
};

void check(const Case& c) {
  INFO(c.name);
  const Model before = drawn(c.draw);
  const Model after = simplified(before, {.recognise = kExact});
  CHECK_EQ(operators(after.graph), c.expected);
  for (const std::vector<int64_t>& extents : {std::vector<int64_t>{2, 3}, {1, 5}, {4, 1}}) {
    const auto want = outputs(before, extents), got = outputs(after, extents);
    CHECK(same_bits(got[0], want[0]));
  }
}

Value add_one(Sketch& s, Value v) { return s.b.emit(op::add, {v, s.number(1)}); }

TEST_CASE("nodes that change nothing go") {
  const auto by = [](const OpDef& op, double v, Shape shape = {}) {
    return [&op, v, shape](Sketch& s) { return s.b.emit(op, {s.x, s.number(v, shape)}); };
  };
  const Case cases[] = {
      {"identity", [](Sketch& s) { return ops::exp(s.b.emit(op::identity, {s.x})); }, "exp"},
      {"x * 1", by(op::mul, 1), ""},
      {"1 * x",
       [](Sketch& s) {
         return s.b.emit(op::mul, {s.number(1), s.x});
       },
       ""},
      {"x / 1", by(op::div, 1, {1}), ""},
      {"x ^ 1", by(op::pow, 1, {1, 1, 1}), ""},
      {"x - 0", by(op::sub, 0), ""},
      {"x + -0", by(op::add, -0.0), ""},
      {"relu of relu", [](Sketch& s) { return ops::relu(ops::relu(s.x)); }, "relu"},
      {"clip to everything",
       [](Sketch& s) {
         return s.b.emit(op::clip, {s.x}, ClipAttrs{-kInfinity, kInfinity});
       },
       ""},
      {"tile once",
       [](Sketch& s) {
         return s.b.emit(op::tile, {s.x}, RepeatsAttrs{{1, 1, 1}});
       },
       ""},
      {"pad nothing",
       [](Sketch& s) {
         return s.b.emit(op::pad, {s.x}, PadAttrs{{0, 0, 0}, {0, 0, 0}});
       },
       ""},
      {"concat of one", [](Sketch& s) { return s.b.emit(op::concat, {s.x}, AxisAttrs{1}); }, ""},
      {"expand to its own",
       [](Sketch& s) {
         return s.b.emit(op::expand, {s.x}, ShapeAttrs{{1, 1, 4}, true});
       },
       ""},
      {"slice of all",
       [](Sketch& s) {
         const int64_t all = std::numeric_limits<int64_t>::max();
         return s.b.emit(op::slice, {s.x}, SliceAttrs{{0, 0}, {all, 4}, {1, 2}, {1, 1}});
       },
       ""},
  };
  for (const Case& c : cases) check(c);
}

TEST_CASE("what looks like nothing but is something stays") {
  const auto by = [](const OpDef& op, double v, Shape shape = {}) {
    return [&op, v, shape](Sketch& s) { return s.b.emit(op, {s.x, s.number(v, shape)}); };
  };
  const Case cases[] = {
      {"x + 0 turns -0 into 0", by(op::add, 0), "add"},
      {"x - -0 turns -0 into 0", by(op::sub, -0.0), "sub"},
      {"x * -1", by(op::mul, -1), "mul"},
      {"one that adds an axis", by(op::mul, 1, {1, 1, 1, 1}), "mul"},
      {"1 / x",
       [](Sketch& s) {
         return s.b.emit(op::div, {s.number(1), s.x});
       },
       "div"},
      {"clip from 0",
       [](Sketch& s) {
         return s.b.emit(op::clip, {s.x}, ClipAttrs{0, kInfinity});
       },
       "clip"},
      {"a free axis that may be 1 is expanded",
       [](Sketch& s) {
         const Value one = s.mean(s.x, {1});
         return s.b.emit(op::expand, {one}, ShapeAttrs{{1, 3, 4}, true});
       },
       "mean expand"},
      {"slice of a free axis up to 3",
       [](Sketch& s) {
         return s.b.emit(op::slice, {s.x}, SliceAttrs{{0}, {3}, {1}, {}});
       },
       "slice"},
      {"slice backwards",
       [](Sketch& s) {
         const int64_t least = std::numeric_limits<int64_t>::min() + 1;
         return s.b.emit(op::slice, {s.x}, SliceAttrs{{-1}, {least}, {2}, {-1}});
       },
       "slice"},
  };
  for (const Case& c : cases) check(c);
}

TEST_CASE("a cast goes only when no value is lost on the way") {
  const auto through = [](DType between) {
    return [between](Sketch& s) {
      const Value there = s.b.emit(op::cast, {s.x}, CastAttrs{between});
      return s.b.emit(op::cast, {there}, CastAttrs{DType::f32});
    };
  };
  check({"f32 to f64 and back", through(DType::f64), ""});
  check({"f32 to f16 and back", through(DType::f16), "cast cast"});
  check({"f32 to i64 and back", through(DType::i64), "cast cast"});
  check({"to its own dtype",
         [](Sketch& s) { return s.b.emit(op::cast, {s.x}, CastAttrs{DType::f32}); }, ""});
}

TEST_CASE("transposes are merged, and go when they cancel") {
  const auto twice = [](std::vector<int64_t> a, std::vector<int64_t> b) {
    return [a, b](Sketch& s) {
      const Value t = s.b.emit(op::transpose, {s.x}, PermAttrs{a});
      return s.b.emit(op::transpose, {t}, PermAttrs{b});
    };
  };
  check({"inverse", twice({1, 2, 0}, {2, 0, 1}), ""});
  check({"reversed twice", twice({}, {}), ""});
  check({"two in one", twice({1, 2, 0}, {1, 2, 0}), "transpose"});
  check({"reversed, then another", twice({}, {1, 0, 2}), "transpose"});
}

TEST_CASE("a split that is joined again goes, in its own order only") {
  const auto joined = [](std::vector<size_t> order, int64_t axis) {
    return [order, axis](Sketch& s) {
      const Value in[] = {s.x};
      const std::vector<Value> parts = s.b.emit_all(op::split, in, SplitAttrs{2, {2, 2}, 0}, 2);
      std::vector<Value> again;
      for (size_t i : order) again.push_back(parts[i]);
      return s.b.emit(op::concat, again, AxisAttrs{axis});
    };
  };
  check({"as it was", joined({0, 1}, 2), ""});
  check({"swapped", joined({1, 0}, 2), "split concat"});
  check({"one part", joined({0}, 2), "split"});
  check({"on another axis", joined({0, 1}, 1), "split concat"});
}

TEST_CASE("nodes that do the same become one, random ones do not") {
  check({"equal",
         [](Sketch& s) {
           return s.b.emit(op::add, {ops::exp(s.x), ops::exp(s.x)});
         },
         "exp add"});
  check({"equal once their inputs are",
         [](Sketch& s) {
           const Value a = ops::exp(add_one(s, s.x)), b = ops::exp(add_one(s, s.x));
           return s.b.emit(op::mul, {a, b});
         },
         "add exp mul"});
  check({"other attributes",
         [](Sketch& s) {
           const Value a = s.b.emit(op::leaky_relu, {s.x}, AlphaAttrs{0.1});
           return s.b.emit(op::add, {a, s.b.emit(op::leaky_relu, {s.x}, AlphaAttrs{0.2})});
         },
         "leaky_relu leaky_relu add"});
  check({"dropout",
         [](Sketch& s) {
           const auto drop = [&] { return s.b.emit(op::dropout, {s.x}, DropoutAttrs{0.5, 0}); };
           const Value a = drop();
           return s.b.emit(op::add, {a, drop()});
         },
         "dropout dropout add"});
}

TEST_CASE("what nothing reads goes, states stay") {
  const Model m = drawn([](Sketch& s) {
    (void)s.parameter("unused", {4});
    (void)ops::exp(s.x);
    return ops::relu(s.x);
  });
  const Model after = simplified(m, {.recognise = kExact});
  CHECK_EQ(operators(after.graph), "relu");
  CHECK_NE(after.graph.find("unused"), kNone);
}

TEST_CASE(
    "nodes of constants are computed when their result is small; parameters are not constant") {
  const auto transposed = [](bool learned) {
    return [learned](Sketch& s) {
      const TensorData data = random_tensor({DType::f32, {4, 4}}, 3);
      const Value w =
          learned ? s.b.state(StateRole::parameter, data, "w") : s.b.constant(data, "w");
      return s.b.emit(op::matmul, {s.x, s.b.emit(op::transpose, {w})});
    };
  };
  check({"constant", transposed(false), "matmul"});
  check({"parameter", transposed(true), "transpose matmul"});
  const Model m = drawn(transposed(false));
  const auto with_limit = [&](int64_t bytes) {
    return operators(simplified(m, {.recognise = kExact, .fold_limit_bytes = bytes}).graph);
  };
  CHECK_EQ(with_limit(4 * 4 * 4), "matmul");
  CHECK_EQ(with_limit(4 * 4 * 4 - 1), "transpose matmul");
  CHECK_EQ(with_limit(0), "transpose matmul");
}

TEST_CASE("the report says what was done, how often") {
  Model m = drawn([](Sketch& s) {
    const Value one = s.b.emit(op::mul, {s.x, s.number(1)});
    const Value v = s.b.emit(op::identity, {s.b.emit(op::identity, {one})});
    (void)ops::exp(v);
    return ops::relu(v);
  });
  const SimplifyReport r = must(simplify(m.graph));
  CHECK_EQ(r.nodes_before, 5);
  CHECK_EQ(r.nodes_after, 1);
  std::string text;
  for (const SimplifyReport::Count& c : r.rules) text += format("{}: {}; ", c.rule, c.times);
  CHECK_EQ(text, "arithmetic with 0 or 1: 1; identities: 2; unread nodes: 1; ");
}

TEST_CASE("a graph that an operator refuses is left as it is") {
  Sketch s;
  const Value w = s.parameter("w", {5});
  const Value four = s.extent(s.b.emit(op::identity, {s.x}), 2);
  s.b.output(s.b.emit(op::reshape_dyn, {w, four}), "y");
  REQUIRE_OK(s.b.status());
  const std::string before = operators(s.model.graph);
  CHECK(!must(simplify(s.model.graph)).changed());
  CHECK_EQ(operators(s.model.graph), before);
}

// x as int8, and what becomes of it between dequantize and quantize.
Draw requantized(double scale_after, const std::function<Value(Value)>& between) {
  return [=](Sketch& s) {
    const Value scale = s.number(0.25), zero = s.b.scalar(3, DType::i8);
    const Value q = s.b.emit(op::quantize_linear, {s.x, scale, zero}, QuantizeAttrs{});
    const Value real = s.b.emit(op::dequantize_linear, {q, scale, zero}, QuantizeAttrs{});
    const Value again = s.number(scale_after);
    return s.b.emit(op::quantize_linear, {between(real), again, zero}, QuantizeAttrs{});
  };
}

TEST_CASE("what is quantized as it was before is moved as it is stored") {
  const auto same = [](Value v) { return v; };
  const auto moved = [](Value v) {
    v = v.builder().emit(op::transpose, {v}, PermAttrs{{0, 2, 1}});
    return v.builder().emit(op::reshape, {v}, ShapeAttrs{{0, -1}, false});
  };
  const auto computed = [](Value v) { return v.builder().emit(op::neg, {v}); };
  check({"same", requantized(0.25, same), "quantize_linear"});
  check({"moved", requantized(0.25, moved), "quantize_linear transpose reshape"});
  check({"another scale", requantized(0.5, same),
         "quantize_linear dequantize_linear quantize_linear"});
  check({"computed", requantized(0.25, computed),
         "quantize_linear dequantize_linear neg quantize_linear"});
}

TEST_CASE("a weight stays in eight bits, a single number does not") {
  const auto times = [](const Shape& shape) {
    return [=](Sketch& s) {
      const Value stored = s.b.constant(random_tensor({DType::i8, shape}, 1, -100, 100));
      const Value w = s.b.emit(op::dequantize_linear, {stored, s.number(0.5)}, QuantizeAttrs{});
      return s.b.emit(op::mul, {s.x, w});
    };
  };
  check({"weight", times({4}), "dequantize_linear mul"});
  check({"number", times({1}), "mul"});
}

}  // namespace
}  // namespace hone
