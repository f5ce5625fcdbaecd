// SPDX-License-Identifier: Apache-2.0
// Convolution and its adjoints: every implementation against the reference kernels.
#include "tests/backends/harness.hpp"

namespace hone::test {

namespace {

struct Conv {
  const char* what;
  Shape x, w;
  ConvAttrs attrs;
};

ConvAttrs attrs(int64_t stride, int64_t pad, int64_t groups = 1, int64_t dilation = 1) {
  ConvAttrs a;
  a.strides = {stride, stride};
  a.pads_begin = a.pads_end = {pad, pad};
  a.dilations = {dilation, dilation};
  a.groups = groups;
  return a;
}

ConvAttrs lopsided() {
  ConvAttrs a;
  a.strides = {2, 1};
  a.pads_begin = {0, 2};
  a.pads_end = {1, 0};
  return a;
}

// Blocks of 8 and 16 channels full, partly filled and hardly begun; windows that hang over an edge.
const std::vector<Conv>& convs() {
  static const std::vector<Conv> table = {
      {"one channel", {2, 1, 13, 11}, {1, 1, 3, 3}, attrs(1, 1)},
      {"one channel to many", {2, 1, 13, 11}, {20, 1, 3, 3}, attrs(1, 1)},
      {"one channel to many, strided", {1, 1, 28, 28}, {32, 1, 5, 5}, attrs(2, 2)},
      {"many channels to one", {2, 20, 13, 11}, {1, 20, 3, 3}, attrs(1, 1)},
      {"two to two", {2, 2, 13, 11}, {2, 2, 3, 3}, attrs(1, 1)},
      {"image to few", {1, 3, 13, 11}, {4, 3, 3, 3}, attrs(2, 1)},
      {"image to block", {2, 3, 17, 14}, {16, 3, 7, 7}, attrs(2, 3)},
      {"blocks full", {2, 16, 9, 9}, {32, 16, 3, 3}, attrs(1, 1)},
      {"blocks partly filled", {2, 24, 9, 8}, {40, 24, 3, 3}, attrs(1, 1)},
      {"out hardly begun", {1, 32, 9, 8}, {17, 32, 3, 3}, attrs(2, 1)},
      {"in hardly begun", {3, 17, 6, 8}, {33, 17, 5, 5}, attrs(1, 2)},
      {"pointwise", {2, 19, 9, 8}, {70, 19, 1, 1}, attrs(1, 0)},
      {"pointwise strided", {1, 32, 9, 8}, {48, 32, 1, 1}, attrs(2, 0)},
      {"groups", {2, 24, 9, 8}, {36, 6, 3, 3}, attrs(1, 1, 4)},
      {"groups of a block", {2, 32, 9, 8}, {32, 16, 3, 3}, attrs(1, 1, 2)},
      {"depthwise", {2, 32, 9, 8}, {32, 1, 3, 3}, attrs(1, 1, 32)},
      {"depthwise partly filled", {2, 21, 13, 8}, {21, 1, 5, 5}, attrs(2, 2, 21)},
      {"depthwise, two out for one", {1, 12, 9, 8}, {24, 1, 3, 3}, attrs(1, 1, 12)},
      {"dilated", {2, 18, 13, 12}, {20, 18, 3, 3}, attrs(1, 2, 1, 2)},
      {"dilated depthwise", {1, 16, 13, 12}, {16, 1, 3, 3}, attrs(1, 2, 16, 2)},
      {"lopsided padding", {2, 18, 10, 9}, {20, 18, 3, 3}, lopsided()},
      {"lopsided depthwise", {1, 18, 10, 9}, {18, 1, 3, 3}, lopsided()},
      {"padding wider than the kernel", {1, 5, 6, 6}, {7, 5, 3, 3}, attrs(1, 4)},
      {"window as large as the image", {2, 20, 5, 5}, {18, 20, 5, 5}, attrs(1, 0)},
  };
  return table;
}

Conv with_groups(Conv c) {
  if (c.w[1] == 1 && c.x[1] > 1) c.attrs.groups = c.x[1];
  return c;
}

Shape output_shape(const Conv& c) {
  Case t;
  const Value y = t.builder().emit(op::conv, {t.input(c.x, "x", 1), t.input(c.w, "w", 2)}, c.attrs);
  REQUIRE_OK(t.builder().status());
  return y.shape();
}

void check_forward(const Conv& c, const Backend& backend, Weights weights) {
  for (const bool biased : {false, true}) {
    INFO("bias ", biased);
    Case t;
    std::vector<Value> in{t.input(c.x, "x", 1), t.weights(c.w, weights)};
    if (biased) in.push_back(t.weights({c.w[0]}, weights, "b", 4));
    t.check(t.builder().emit(op::conv, in, c.attrs), backend);
  }
}

void check_adjoints(const Conv& c, const Backend& backend, Weights weights) {
  const Shape y = output_shape(c);
  {
    INFO("input's gradient");
    Case t;
    const Value gy = t.input(y, "gy", 2), w = t.weights(c.w, weights);
    t.check(
        t.builder().emit(op::conv_input_grad, {gy, w}, ConvGradAttrs{{c.x[2], c.x[3]}, c.attrs}),
        backend);
  }
  INFO("weights' gradient");
  Case t;
  const Value x = t.input(c.x, "x", 1), gy = t.input(y, "gy", 2);
  t.check(t.builder().emit(op::conv_weight_grad, {x, gy}, ConvGradAttrs{{c.w[2], c.w[3]}, c.attrs}),
          backend, Bits::for_same_threads);  // oneDNN's threads sum parts of the batch
}

}  // namespace

TEST_CASE("each implementation of convolution and its adjoints agrees with the reference") {
  for (const NamedBackend& b : built_backends())
    for (const Conv& row : convs())
      for (const Weights weights : {Weights::fixed, Weights::given}) {
        const Conv c = with_groups(row);
        INFO(b.name, ": ", c.what, weights == Weights::fixed ? ", fixed" : ", given");
        check_forward(c, *b.backend, weights);
        check_adjoints(c, *b.backend, weights);
      }
}

TEST_CASE("a batch of no images convolves to no images, and the weights' gradient is zero") {
  const Conv none{"none", {0, 18, 6, 6}, {20, 18, 3, 3}, attrs(1, 1)};
  for (const NamedBackend& b : built_backends()) {
    INFO(b.name);
    check_forward(none, *b.backend, Weights::fixed);
    check_adjoints(none, *b.backend, Weights::fixed);
  }
}

TEST_CASE("convolutions over one and three axes agree with the reference") {
  const Conv line{"line", {2, 18, 23}, {20, 18, 3}, {}};
  const Conv volume{"volume", {1, 3, 6, 5, 7}, {17, 3, 3, 3, 3}, {}};
  for (const NamedBackend& b : built_backends())
    for (const Conv* c : {&line, &volume}) {
      INFO(b.name, ": ", c->what);
      check_forward(*c, *b.backend, Weights::fixed);
      check_forward(*c, *b.backend, Weights::given);
    }
}

TEST_CASE("weights that stay fixed are packed once, not reordered at each run") {
  const Backend* const onednn = cpu::backend_of(cpu::Family::onednn);
  if (!onednn) return;  // not built: nothing to say
  Case t;
  const Value x = t.input({1, 24, 9, 9}, "x", 1);
  const Value w = t.weights({40, 24, 3, 3}, Weights::fixed);
  t.builder().output(t.builder().emit(op::conv, {x, w}, attrs(1, 1)), "y");
  CHECK(t.steps(*onednn).find("onednn.conv") != std::string::npos);
  CHECK(t.packed_bytes(*onednn) >= 40 * 24 * 9 * 4);
}

}  // namespace hone::test
