// SPDX-License-Identifier: Apache-2.0
// Convolution and matmul of the CPU backend against the reference kernels, over shapes that reach
// each implementation.
#include "hone/ops.hpp"
#include "hone/session.hpp"
#include "tests/support/check.hpp"
#include "tests/support/tensors.hpp"

namespace hone::test {

namespace {

enum class Weights : uint8_t { fixed, given };

// One node, run by the backend and by the reference kernels.
class Case {
 public:
  Case() : b_(m_.graph, Composites::keep) {}
  Value input(const Shape& s, const char* name, uint64_t seed) {
    in_.push_back(random_tensor({DType::f32, s}, seed));
    return b_.input({DType::f32, s}, name);
  }
  Value weights(const Shape& s, Weights w) {
    if (w == Weights::given) return input(s, "w", 3);
    return b_.state(StateRole::parameter, random_tensor({DType::f32, s}, 3), "w");
  }
  Builder& builder() { return b_; }
  Closeness compare(Value y, int threads) {
    REQUIRE_OK(b_.status());
    b_.output(y, "y");
    Session best = must(Session::create(m_, {.threads = threads}));
    Session plain = must(Session::create(m_, {.kernels = Kernels::reference}));
    return all_close(must(best.run(in_))[0], must(plain.run(in_))[0], 1e-4, 1e-4);
  }

 private:
  Model m_;
  Builder b_;
  std::vector<TensorData> in_;
};

struct Conv {
  int64_t images, in, out, kernel, stride, groups;
};

void check_conv(const Conv& c, Weights weights, int threads) {
  ConvAttrs attrs;
  const int64_t pad = c.kernel / 2, h = 13, w = 11;
  attrs.strides = {c.stride, c.stride};
  attrs.pads_begin = attrs.pads_end = {pad, pad};
  attrs.groups = c.groups;
  const auto extent = [&](int64_t n) { return (n + 2 * pad - c.kernel) / c.stride + 1; };
  const Shape x{c.images, c.in, h, w}, k{c.out, c.in / c.groups, c.kernel, c.kernel},
      y{c.images, c.out, extent(h), extent(w)};
  INFO("images ", c.images, " in ", c.in, " out ", c.out, " kernel ", c.kernel, " stride ",
       c.stride, " groups ", c.groups, " threads ", threads, " fixed ", weights == Weights::fixed);
  {
    Case t;
    const Value vx = t.input(x, "x", 1), vw = t.weights(k, weights);
    CHECK(t.compare(t.builder().emit(op::conv, {vx, vw}, attrs), threads));
  }
  {
    Case t;
    const Value gy = t.input(y, "gy", 2), vw = t.weights(k, weights);
    CHECK(t.compare(t.builder().emit(op::conv_input_grad, {gy, vw}, ConvGradAttrs{{h, w}, attrs}),
                    threads));
  }
  if (weights == Weights::fixed) return;
  Case t;
  const Value vx = t.input(x, "x", 1), gy = t.input(y, "gy", 2);
  CHECK(t.compare(
      t.builder().emit(op::conv_weight_grad, {vx, gy}, ConvGradAttrs{{c.kernel, c.kernel}, attrs}),
      threads));
}

}  // namespace

TEST_CASE("the backend's convolutions and their adjoints agree with the reference") {
  for (const Weights weights : {Weights::fixed, Weights::given})
    for (int64_t images : {1, 5})
      for (int64_t in : {1, 3, 16, 32})
        for (int64_t out : {1, 4, 16, 48})
          for (int64_t kernel : {1, 3, 5})
            for (int64_t stride : {1, 2})
              for (int64_t groups : {1, 2, 16})
                if (in % groups == 0 && out % groups == 0)
                  check_conv({images, in, out, kernel, stride, groups}, weights,
                             images == 1 ? 1 : 2);
}

TEST_CASE("the backend's matrix products agree with the reference") {
  for (const Weights weights : {Weights::fixed, Weights::given})
    for (const bool trans_b : {false, true})
      for (int64_t m : {1, 4, 33})
        for (int64_t k : {3, 16, 300})
          for (int64_t n : {2, 8, 70}) {
            INFO("m ", m, " k ", k, " n ", n, " trans_b ", trans_b, " fixed ",
                 weights == Weights::fixed);
            Case t;
            const Value x = t.input({m, k}, "x", 1),
                        w = t.weights(trans_b ? Shape{n, k} : Shape{k, n}, weights);
            CHECK(t.compare(ops::matmul(x, w, {false, trans_b}), 2));
          }
  Case batched;
  const Value a = batched.input({2, 3, 7, 5}, "a", 1), b = batched.input({3, 5, 9}, "b", 2);
  CHECK(batched.compare(ops::matmul(a, b), 2));
  Case turned;
  const Value c = turned.input({4, 5, 7}, "a", 1), d = turned.input({4, 9, 5}, "b", 2);
  CHECK(turned.compare(ops::matmul(c, d, {true, true}), 2));
}

}  // namespace hone::test
