// SPDX-License-Identifier: Apache-2.0
// Regions on XNNPACK: what stays channels-last, what is fused, what others still get in plain
// layout.
#include "tests/backends/harness.hpp"

namespace hone::test {

namespace {

const Backend* xnnpack() { return cpu::backend_of(cpu::Family::xnnpack); }

// A graph in the making: x (2, 6, 7, 5) and convolutions with weights of their own.
struct Net {
  Case c;
  Value x = c.input({2, 6, 7, 5}, "x", 1);
  int count = 0;

  Builder& b() { return c.builder(); }
  Value conv(Value in, int64_t out, int64_t kernel, Weights weights = Weights::fixed) {
    ++count;
    const std::string n = std::to_string(count);
    const Value w = c.weights({out, in.shape()[1], kernel, kernel}, weights, ("w" + n).c_str(),
                              static_cast<uint64_t>(count + 10));
    const Value bias =
        c.weights({out}, weights, ("b" + n).c_str(), static_cast<uint64_t>(count + 20));
    ConvAttrs a;
    a.pads_begin = a.pads_end = {kernel / 2, kernel / 2};
    return b().emit(op::conv, {in, w, bias}, a);
  }
  Value one(const OpDef& op, Value v) { return b().emit(op, {v}); }
  // Checks the numbers, then the steps.
  void expect(Value y, std::string_view steps) {
    c.check(y, *xnnpack());
    CHECK(c.steps(*xnnpack()) == steps);
  }
};

constexpr char kConv[] = "cpu.transpose xnnpack.conv cpu.transpose";

}  // namespace

TEST_CASE("a chain of convolutions is transposed at its ends only, bounds are part of them") {
  if (!xnnpack()) return;  // not built: nothing to say
  Net n;
  const Value a = n.one(op::relu, n.conv(n.x, 9, 3));
  const Value y = n.b().emit(op::clip, {n.conv(a, 5, 1)}, ClipAttrs{0, 0.5});
  n.expect(y, "cpu.transpose xnnpack.conv xnnpack.conv cpu.transpose");
}

TEST_CASE("a convolution alone is transposed in and out") {
  if (!xnnpack()) return;
  Net n;
  n.expect(n.conv(n.x, 9, 3), kConv);
  CHECK(n.c.packed_bytes(*xnnpack()) >= (9 * 6 * 9 + 9 + 9) * 4);
}

TEST_CASE("a bound on what others read too is a step of its own") {
  if (!xnnpack()) return;
  Net n;
  const Value a = n.conv(n.x, 6, 3);
  n.expect(n.b().emit(op::add, {n.one(op::relu, a), a}),
           "cpu.transpose xnnpack.conv vector.pointwise cpu.transpose");
}

TEST_CASE("a residual sum stays channels-last; what both branches read is transposed once") {
  if (!xnnpack()) return;
  Net n;
  const Value a = n.one(op::relu, n.conv(n.x, 6, 3));
  n.expect(n.one(op::relu, n.b().emit(op::add, {n.conv(a, 6, 3), n.x})),
           "cpu.transpose xnnpack.conv xnnpack.conv vector.pointwise cpu.transpose");
}

TEST_CASE("gates of a channel each scale an image in its layout") {
  if (!xnnpack()) return;
  Net n;
  const Value a = n.one(op::hard_swish, n.conv(n.x, 8, 3));
  const Value pooled = n.b().emit(op::mean, {a}, ReduceAttrs{{2, 3}, true});
  const Value gate = n.one(op::hard_sigmoid, n.conv(n.one(op::relu, n.conv(pooled, 3, 1)), 8, 1));
  Value y = n.b().emit(op::mul, {a, gate});
  n.c.check(y, *xnnpack());
}

TEST_CASE("operands of lower rank and of every layout broadcast along their own axes") {
  if (!xnnpack()) return;
  for (const Weights weights : {Weights::fixed, Weights::given})
    for (const Shape& s : {Shape{}, Shape{5}, Shape{7, 1}, Shape{4, 1, 1}, Shape{4, 7, 5},
                           Shape{2, 1, 7, 5}, Shape{2, 4, 1, 1}, Shape{1, 4, 7, 5}}) {
      INFO(to_string(s), weights == Weights::fixed ? ", fixed" : ", given");
      Net n;
      const Value other = n.c.weights(s, weights, "other", 7);
      n.c.check(n.b().emit(op::sub, {other, n.conv(n.x, 4, 3)}), *xnnpack());
    }
}

TEST_CASE("a view of a convolution's result sees it in plain layout") {
  if (!xnnpack()) return;
  Net n;
  const Value a = n.conv(n.x, 4, 3);
  const Value flat = n.b().emit(op::reshape, {a}, ShapeAttrs{{2, 140}});
  const Value back = n.b().emit(op::reshape, {flat}, ShapeAttrs{{2, 4, 7, 5}});
  n.c.check(n.b().emit(op::add, {n.one(op::relu, a), n.one(op::tanh, back)}), *xnnpack());
}

TEST_CASE("weights that a run is given are not XNNPACK's") {
  if (!xnnpack()) return;
  Net n;
  n.b().output(n.one(op::relu, n.conv(n.x, 4, 3, Weights::given)), "y");
  CHECK(n.c.steps(*xnnpack()) == "reference vector.pointwise");
}

TEST_CASE("a matrix product with fixed weights is packed") {
  if (!xnnpack()) return;
  for (const bool transposed : {false, true}) {
    Case c;
    const Value x = c.input({3, 5, 37}, "x", 1);
    const Value w = c.weights(transposed ? Shape{21, 37} : Shape{37, 21}, Weights::fixed);
    c.check(c.builder().emit(op::matmul, {x, w}, MatmulAttrs{false, transposed}), *xnnpack());
    CHECK(c.steps(*xnnpack()) == "xnnpack.matmul");
    CHECK(c.packed_bytes(*xnnpack()) >= 21 * 37 * 4);
  }
}

TEST_CASE("a narrow matrix product is left to others, for the sake of equal bits") {
  if (!xnnpack()) return;
  Case c;
  const Value x = c.input({3, 37}, "x", 1), w = c.weights({37, 15}, Weights::fixed);
  c.check(c.builder().emit(op::matmul, {x, w}, MatmulAttrs{}), *xnnpack());
  CHECK(c.steps(*xnnpack()) != "xnnpack.matmul");
}

}  // namespace hone::test
