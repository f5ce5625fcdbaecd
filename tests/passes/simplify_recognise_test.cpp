// SPDX-License-Identifier: Apache-2.0
// Spelled-out operators. In f64, where the spelling and the operator may differ by rounding only:
// a wrong formula or gradient would show.
#include <cmath>
#include <numbers>

#include "tests/passes/sketch.hpp"
#include "tests/support/check.hpp"

namespace hone {
namespace {

using namespace test;

constexpr double kRounding = 1e-12;

struct Case {
  std::string name;
  Draw draw;
  std::string expected;
};

// Outputs and the gradients by x and all parameters are the same up to rounding.
void check(const Case& c) {
  INFO(c.name);
  const Model before = drawn(c.draw, DType::f64);
  const Model after = simplified(before, {.recognise = kFull});
  CHECK_EQ(operators(after.graph), c.expected);
  for (const std::vector<int64_t>& extents : {std::vector<int64_t>{2, 3}, {1, 1}}) {
    CHECK(all_close(outputs(after, extents)[0], outputs(before, extents)[0], kRounding, kRounding));
    const auto want = gradients(before, extents), got = gradients(after, extents);
    REQUIRE_EQ(got.size(), want.size());
    for (size_t i = 0; i < want.size(); ++i)
      CHECK(all_close(got[i], want[i], kRounding, kRounding));
  }
}

// Short forms for the formulas below; a number is a constant of x's dtype.
struct Formula {
  Sketch& s;
  Value x = s.x;
  Value n(double v) { return s.number(v); }
  Value add(Value a, Value b) { return s.b.emit(op::add, {a, b}); }
  Value sub(Value a, Value b) { return s.b.emit(op::sub, {a, b}); }
  Value mul(Value a, Value b) { return s.b.emit(op::mul, {a, b}); }
  Value div(Value a, Value b) { return s.b.emit(op::div, {a, b}); }
  Value pow(Value a, double b) { return s.b.emit(op::pow, {a, n(b)}); }
  Value clip(Value a, double low, double high) {
    return s.b.emit(op::clip, {a}, ClipAttrs{low, high});
  }
  Value scale() { return s.parameter("scale", {4}, 0.5, 1.5); }
  Value bias() { return s.parameter("bias", {4}); }
};
using Written = std::function<Value(Formula)>;
Draw draw(const Written& f) {
  return [f](Sketch& s) { return f({s}); };
}

// ---- GELU

Value erf_gate(Formula f, Value x, double root = std::numbers::sqrt2) {
  return f.add(ops::erf(f.div(x, f.n(root))), f.n(1));
}

TEST_CASE("GELU by erf is recognised in the orders exporters write it") {
  check({"x gate / 2",
         draw([](Formula f) { return f.mul(f.mul(f.x, erf_gate(f, f.x)), f.n(0.5)); }), "gelu"});
  check({"(x / 2) gate",
         draw([](Formula f) { return f.mul(f.mul(f.x, f.n(0.5)), erf_gate(f, f.x)); }), "gelu"});
  check({"x (gate / 2)",
         draw([](Formula f) { return f.mul(f.x, f.div(erf_gate(f, f.x), f.n(2))); }), "gelu"});
  check({"times 1 / sqrt(2)", draw([](Formula f) {
           const Value scaled = f.mul(f.n(1 / std::numbers::sqrt2), f.x);
           return f.mul(f.mul(f.n(0.5), f.x), f.add(f.n(1), ops::erf(scaled)));
         }),
         "gelu"});
}

Value tanh_gate(Formula f, double cubic = 0.044715) {
  const double outer = std::sqrt(2 / std::numbers::pi);
  const Value sum = f.add(f.x, f.mul(f.n(cubic), f.pow(f.x, 3)));
  return f.add(f.n(1), ops::tanh(f.mul(f.n(outer), sum)));
}

TEST_CASE("GELU by tanh is recognised") {
  check({"with x^3", draw([](Formula f) { return f.mul(f.mul(f.n(0.5), f.x), tanh_gate(f)); }),
         "gelu"});
  check({"with x x x", draw([](Formula f) {
           const Value cube = f.mul(f.mul(f.x, f.x), f.x);
           const Value sum = f.add(f.x, f.mul(cube, f.n(0.044715)));
           const Value t = ops::tanh(f.mul(sum, f.n(std::sqrt(2 / std::numbers::pi))));
           return f.mul(f.x, f.mul(f.add(t, f.n(1)), f.n(0.5)));
         }),
         "gelu"});
  check({"with x before the parentheses", draw([](Formula f) {
           const Value inner = f.add(f.n(1), f.mul(f.mul(f.n(0.044715), f.x), f.x));
           const Value outer = f.mul(f.mul(f.x, f.n(std::sqrt(2 / std::numbers::pi))), inner);
           return f.mul(f.mul(f.x, f.n(0.5)), f.add(ops::tanh(outer), f.n(1)));
         }),
         "gelu"});
}

TEST_CASE("what is nearly GELU stays as it is") {
  check({"another root",
         draw([](Formula f) { return f.mul(f.mul(f.x, erf_gate(f, f.x, 1.5)), f.n(0.5)); }),
         "div erf add mul mul"});
  check({"another cubic term", draw([](Formula f) {
           const Value half = f.mul(f.n(0.5), f.x);
           return f.mul(half, tanh_gate(f, 0.04));
         }),
         "mul pow mul add mul tanh add mul"});
  check({"not halved", draw([](Formula f) { return f.mul(f.x, erf_gate(f, f.x)); }),
         "div erf add mul"});
  check({"gate of another value",
         draw([](Formula f) { return f.mul(f.mul(f.x, erf_gate(f, ops::exp(f.x))), f.n(0.5)); }),
         "exp div erf add mul mul"});
  check({"a constant that adds an axis", draw([](Formula f) {
           return f.mul(f.mul(f.x, erf_gate(f, f.x)), f.s.number(0.5, {1, 1, 1, 1}));
         }),
         "div erf add mul mul"});
  check({"a learned half", draw([](Formula f) {
           const Value half =
               f.s.b.state(StateRole::parameter, tensor_from({DType::f64, {}}, {0.5}), "half");
           return f.mul(f.mul(f.x, erf_gate(f, f.x)), half);
         }),
         "div erf add mul mul"});
}

// ---- normalisation

struct Norm {
  std::vector<int64_t> axes = {-1};
  double eps = 1e-5;
};
Value square_mean(Formula f, Value d, const Norm& n = {}) { return f.s.mean(f.pow(d, 2), n.axes); }
Value centred(Formula f, const Norm& n = {}) { return f.sub(f.x, f.s.mean(f.x, n.axes)); }
Value deviation(Formula f, Value d, const Norm& n = {}) {
  return ops::sqrt(f.add(square_mean(f, d, n), f.n(n.eps)));
}

TEST_CASE("layer normalisation is recognised with its scale and bias") {
  check({"d / sqrt(mean(d^2) + eps) scale + bias", draw([](Formula f) {
           const Value d = centred(f);
           const Value y = f.div(d, deviation(f, d));
           return f.add(f.mul(y, f.scale()), f.bias());
         }),
         "layer_norm"});
  check({"bare", draw([](Formula f) {
           const Value d = centred(f);
           return f.div(d, deviation(f, d));
         }),
         "layer_norm"});
  check({"by the reciprocal root, scale first", draw([](Formula f) {
           const Value d = centred(f);
           const Value r = ops::rsqrt(f.add(square_mean(f, d), f.n(1e-5)));
           return f.add(f.bias(), f.mul(f.mul(f.scale(), r), d));
         }),
         "layer_norm"});
  check({"by the reciprocal of the root, squared by multiplication", draw([](Formula f) {
           const Value d = centred(f);
           const Value v = f.add(f.s.mean(f.mul(d, d)), f.n(1e-6));
           return f.mul(f.mul(d, ops::reciprocal(ops::sqrt(v))), f.scale());
         }),
         "layer_norm"});
  check({"by a power of -1/2", draw([](Formula f) {
           const Value d = centred(f);
           return f.mul(d, f.pow(f.add(square_mean(f, d), f.n(1e-5)), -0.5));
         }),
         "layer_norm"});
  check({"as x m + (bias - mean m)", draw([](Formula f) {
           const Value mean = f.s.mean(f.x), d = f.sub(f.x, mean);
           const Value m = f.mul(ops::rsqrt(f.add(square_mean(f, d), f.n(1e-3))), f.scale());
           return f.add(f.mul(f.x, m), f.sub(f.bias(), f.mul(mean, m)));
         }),
         "layer_norm"});
}

TEST_CASE("root mean square normalisation is recognised") {
  check({"x / sqrt(mean(x^2) + eps) scale",
         draw([](Formula f) { return f.mul(f.div(f.x, deviation(f, f.x)), f.scale()); }),
         "rms_norm"});
  check({"scale times x times the reciprocal root", draw([](Formula f) {
           const Value r = ops::rsqrt(f.add(square_mean(f, f.x), f.n(1e-5)));
           return f.mul(f.scale(), f.mul(f.x, r));
         }),
         "rms_norm"});
}

TEST_CASE("what is nearly a normalisation stays as it is") {
  check({"over a free axis, which may be empty", draw([](Formula f) {
           const Norm n{{1}};
           const Value d = centred(f, n);
           return f.div(d, deviation(f, d, n));
         }),
         "mean sub pow mean add sqrt div"});
  check({"over an axis that is not among the last", draw([](Formula f) {
           const Norm n{{0}};
           return f.div(f.x, deviation(f, f.x, n));
         }),
         "pow mean add sqrt div"});
  check({"without eps", draw([](Formula f) { return f.div(f.x, ops::sqrt(square_mean(f, f.x))); }),
         "pow mean sqrt div"});
  check({"mean of another value", draw([](Formula f) {
           const Value d = f.sub(f.x, f.s.mean(ops::exp(f.x)));
           return f.div(d, deviation(f, d));
         }),
         "exp mean sub rms_norm"});
  check({"a scale of one number", draw([](Formula f) {
           const Value one = f.s.parameter("scale", {1}, 0.5, 1.5);
           return f.mul(f.div(f.x, deviation(f, f.x)), one);
         }),
         "rms_norm mul"});
}

// ---- sigmoid, SiLU, the hard ones

Value one_plus_exp(Formula f) { return f.add(ops::exp(ops::neg(f.x)), f.n(1)); }
Value clipped(Formula f) { return f.clip(f.add(f.x, f.n(3)), 0, 6); }

TEST_CASE("sigmoid and SiLU are recognised") {
  check({"1 / (1 + exp(-x))", draw([](Formula f) { return f.div(f.n(1), one_plus_exp(f)); }),
         "sigmoid"});
  check({"its reciprocal", draw([](Formula f) { return ops::reciprocal(one_plus_exp(f)); }),
         "sigmoid"});
  check({"x sigmoid(x)", draw([](Formula f) { return f.mul(f.x, ops::sigmoid(f.x)); }), "silu"});
  check({"x / (1 + exp(-x))", draw([](Formula f) { return f.div(f.x, one_plus_exp(f)); }), "silu"});
  check({"another value times the sigmoid", draw([](Formula f) {
           const Value other = ops::exp(f.x);
           return f.mul(other, ops::sigmoid(f.x));
         }),
         "exp sigmoid mul"});
  check({"1 / (2 + exp(-x))",
         draw([](Formula f) { return f.div(f.n(1), f.add(ops::exp(ops::neg(f.x)), f.n(2))); }),
         "neg exp add div"});
}

TEST_CASE("hard sigmoid and hard swish are recognised") {
  check({"clip(x + 3, 0, 6) / 6", draw([](Formula f) { return f.div(clipped(f), f.n(6)); }),
         "hard_sigmoid"});
  check({"x clip(x + 3, 0, 6) / 6",
         draw([](Formula f) { return f.div(f.mul(f.x, clipped(f)), f.n(6)); }), "hard_swish"});
  check({"x (clip(x + 3, 0, 6) / 6)",
         draw([](Formula f) { return f.mul(f.x, f.mul(clipped(f), f.n(1.0 / 6))); }),
         "hard_swish"});
  check({"x hard_sigmoid(x)", draw([](Formula f) {
           const Value gate = f.s.b.emit(op::hard_sigmoid, {f.x}, AlphaBetaAttrs{1.0 / 6, 0.5});
           return f.mul(f.x, gate);
         }),
         "hard_swish"});
  check({"clip(0.2 x + 0.5, 0, 1)",
         draw([](Formula f) { return f.clip(f.add(f.mul(f.x, f.n(0.2)), f.n(0.5)), 0, 1); }),
         "hard_sigmoid"});
  check({"another bound",
         draw([](Formula f) { return f.div(f.clip(f.add(f.x, f.n(3)), 0, 5), f.n(6)); }),
         "add clip div"});
  check({"hard sigmoid of another slope", draw([](Formula f) {
           const Value gate = f.s.b.emit(op::hard_sigmoid, {f.x}, AlphaBetaAttrs{0.2, 0.5});
           return f.mul(f.x, gate);
         }),
         "hard_sigmoid mul"});
}

TEST_CASE("a product reads its operands transposed") {
  const auto product = [](std::vector<int64_t> left, std::vector<int64_t> right) {
    return [left, right](Sketch& s) {  // x is (N, T, 4)
      const Value a = left.empty() ? s.x : s.b.emit(op::transpose, {s.x}, PermAttrs{left});
      const Value b = right.empty() ? s.x : s.b.emit(op::transpose, {s.x}, PermAttrs{right});
      return ops::matmul(a, b);
    };
  };
  check({"right", product({}, {0, 2, 1}), "matmul"});
  check({"left", product({0, 2, 1}, {}), "matmul"});
  check({"the last axis goes elsewhere", product({1, 0, 2}, {1, 2, 0}), "transpose matmul"});
  check({"a matrix", draw([](Formula f) {
           const Value w = f.s.parameter("weight", {3, 4});
           return ops::matmul(f.x, f.s.b.emit(op::transpose, {w}, PermAttrs{}));
         }),
         "matmul"});
}

TEST_CASE("a product keeps a transpose that brings another axis to the end") {
  check({"rows apart", draw([](Formula f) {
           const Value t = f.s.b.emit(op::transpose, {f.x}, PermAttrs{{1, 0, 2}});
           return ops::matmul(t, f.s.parameter("weight", {4, 3}));
         }),
         "transpose matmul"});
}

TEST_CASE("nothing is recognised when only exact rules are asked for") {
  const Model m = drawn(draw([](Formula f) { return f.mul(f.x, ops::sigmoid(f.x)); }));
  CHECK_EQ(operators(simplified(m, {.recognise = kExact}).graph), "sigmoid mul");
}

TEST_CASE("a part that is read elsewhere stays") {
  Sketch s(DType::f64);
  const Value gate = ops::sigmoid(s.x);
  s.b.output(s.b.emit(op::mul, {s.x, gate}), "y");
  s.b.output(gate, "gate");
  const Model after = simplified(s.model, {.recognise = kFull});
  CHECK_EQ(operators(after.graph), "sigmoid silu");
  CHECK(same_bits(outputs(after, {2, 3})[1], outputs(s.model, {2, 3})[1]));
}

}  // namespace
}  // namespace hone
