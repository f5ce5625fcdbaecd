// SPDX-License-Identifier: Apache-2.0
// Regions on oneDNN: what is fused to a convolution, and where images are transposed.
#include "tests/backends/harness.hpp"

namespace hone::test {

namespace {

const Backend* onednn() { return cpu::backend_of(cpu::Family::onednn); }

struct Net {
  Case c;
  Value x = c.input({2, 6, 7, 5}, "x", 1);
  int count = 0;

  Builder& b() { return c.builder(); }
  std::string name(const char* what) { return what + std::to_string(count); }
  Value conv(Value in, int64_t out, Weights weights, bool bias = false, int64_t groups = 1) {
    ++count;
    const uint64_t seed = static_cast<uint64_t>(10 * count);
    const Value w =
        c.weights({out, in.shape()[1] / groups, 3, 3}, weights, name("w").c_str(), seed);
    const Value bb = bias ? c.weights({out}, weights, name("b").c_str(), seed + 1) : Value();
    ConvAttrs a;
    a.pads_begin = a.pads_end = {1, 1};
    a.groups = groups;
    return b().emit(op::conv, {in, w, bb}, a);
  }
  Value norm(Value v, Weights weights) {
    ++count;
    const uint64_t seed = static_cast<uint64_t>(10 * count);
    const Shape s = {v.shape()[1]};
    const Value scale = c.weights(s, weights, name("scale").c_str(), seed);
    const Value shift = c.weights(s, weights, name("shift").c_str(), seed + 1);
    const Value mean = c.weights(s, weights, name("mean").c_str(), seed + 2);
    const Value var = weights == Weights::fixed
                          ? b().state(StateRole::buffer,
                                      random_tensor({DType::f32, s}, seed + 4, 0.5, 2), name("var"))
                          : ops::square(c.input(s, name("deviation").c_str(), seed + 3)) + 0.5;
    return b().emit(op::batch_norm, {v, scale, shift, mean, var}, BatchNormAttrs{});
  }
  Value relu(Value v) { return b().emit(op::relu, {v}); }
  void expect(Value y, std::string_view steps) {
    c.check(y, *onednn());
    CHECK(c.steps(*onednn()) == steps);
  }
};

}  // namespace

TEST_CASE("normalisation, sum and bound are part of the convolution before them") {
  if (!onednn()) return;  // not built: nothing to say
  for (const bool bias : {false, true})
    for (const int64_t groups : {1, 2, 6}) {
      INFO(groups, std::string(bias ? " with bias" : ""));
      Net n;
      const Value a = n.relu(n.norm(n.conv(n.x, 6, Weights::fixed, bias, groups), Weights::fixed));
      const Value y = n.norm(n.conv(a, 6, Weights::fixed, bias, groups), Weights::fixed);
      n.expect(n.b().emit(op::clip, {y + n.x}, ClipAttrs{0, 1}),
               "cpu.transpose onednn.conv onednn.conv cpu.transpose");
    }
}

TEST_CASE("silu and hard_swish are part of the convolution before them") {
  if (!onednn()) return;
  for (const OpDef* op : {&op::silu, &op::hard_swish}) {
    INFO(std::string(op->name));
    Net n;
    const Value a = n.b().emit(*op, {n.norm(n.conv(n.x, 6, Weights::fixed), Weights::fixed)});
    n.expect(n.b().emit(*op, {n.conv(a, 6, Weights::fixed, true, 6) * 1.0}),
             "cpu.transpose onednn.conv onednn.conv vector.pointwise cpu.transpose");
  }
}

TEST_CASE("a normalisation whose statistics a run is given follows the convolution") {
  if (!onednn()) return;
  Net n;
  n.c.check(n.relu(n.norm(n.conv(n.x, 9, Weights::given, true), Weights::given)), *onednn());
}

TEST_CASE("weights that a run is given are not folded into") {
  if (!onednn()) return;
  Net n;
  n.expect(n.relu(n.norm(n.conv(n.x, 9, Weights::given, true), Weights::fixed)),
           "cpu.transpose onednn.reorder cpu.batch_norm_coefficients onednn.conv cpu.transpose");
}

TEST_CASE("what others read too is not fused away") {
  if (!onednn()) return;
  Net n;
  const Value a = n.conv(n.x, 6, Weights::fixed);
  const Value b = n.norm(a, Weights::fixed);
  n.c.check(n.relu(b) + a + b, *onednn());
}

TEST_CASE("the sum of two convolutions is part of the later one") {
  if (!onednn()) return;
  Net n;
  const Value a = n.norm(n.conv(n.x, 9, Weights::fixed), Weights::fixed);
  const Value b = n.norm(n.conv(n.x, 9, Weights::fixed), Weights::fixed);
  n.expect(n.relu(a + b), "cpu.transpose onednn.conv onednn.conv cpu.transpose");
}

TEST_CASE("a sum with a tensor of another shape is not the convolution's") {
  if (!onednn()) return;
  Net n;
  const Value other = n.c.input({9, 1, 1}, "other", 4);
  n.c.check(n.relu(n.conv(n.x, 9, Weights::fixed) + other), *onednn());
}

}  // namespace hone::test
