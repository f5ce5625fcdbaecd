// SPDX-License-Identifier: Apache-2.0
#include "hone/window.hpp"

#include "tests/support/check.hpp"

namespace hone::test {

namespace {
const std::vector<int64_t> kOne = {1};
}  // namespace

TEST_CASE("a convolution window without attributes slides one by one inside the input") {
  const std::vector<int64_t> spatial = {5, 7}, kernel = {3, 2};
  const Window w = must(conv_window({}, spatial, kernel));
  CHECK_EQ(w.rank, 2);
  CHECK_EQ(w.depth().out, 1);
  CHECK_EQ(w.height().out, 3);
  CHECK_EQ(w.width().out, 6);
  CHECK_EQ(w.kernel_size(), 6);
}

TEST_CASE("dilation widens a window, stride rounds down") {
  const std::vector<int64_t> spatial = {10}, kernel = {3};
  const Window w = must(conv_window(
      {.strides = {2}, .dilations = {2}, .pads_begin = {1}, .pads_end = {0}}, spatial, kernel));
  CHECK_EQ(w.width().span(), 5);
  CHECK_EQ(w.width().out, 4);  // floor((10 + 1 - 5) / 2) + 1
  CHECK_EQ(w.width().start(0), -1);
}

TEST_CASE("auto_pad keeps ceil(input / stride) and puts the odd element where it says") {
  const std::vector<int64_t> spatial = {5}, kernel = {4};
  const Window upper = must(conv_window({.auto_pad = AutoPad::same_upper}, spatial, kernel));
  CHECK_EQ(upper.width().out, 5);
  CHECK_EQ(upper.width().pad_begin, 1);
  CHECK_EQ(upper.width().pad_end, 2);
  const Window lower =
      must(conv_window({.strides = {2}, .auto_pad = AutoPad::same_lower}, spatial, kernel));
  CHECK_EQ(lower.width().out, 3);
  CHECK_EQ(lower.width().pad_begin, 2);
  CHECK_EQ(lower.width().pad_end, 1);
}

TEST_CASE("ceil_mode adds a window that hangs over the edge") {
  const PoolAttrs attrs{.kernel = {2}, .strides = {2}, .ceil_mode = true};
  CHECK_EQ(must(pool_window(attrs, {1, 1, 5})).width().out, 3);
  CHECK_EQ(must(pool_window({.kernel = {2}, .strides = {2}}, {1, 1, 5})).width().out, 2);
}

TEST_CASE("C03: ceil_mode adds no window that starts past the input and its left padding") {
  CHECK_EQ(
      must(pool_window({.kernel = {1}, .strides = {3}, .ceil_mode = true}, {1, 1, 3})).width().out,
      1);
  // The second window would start at 4 - 1 = 3, the end of the input.
  const PoolAttrs padded{
      .kernel = {2}, .strides = {4}, .pads_begin = {1}, .pads_end = {1}, .ceil_mode = true};
  CHECK_EQ(must(pool_window(padded, {1, 1, 3})).width().out, 1);
}

TEST_CASE("windows that cannot be are refused") {
  const std::vector<int64_t> two = {2}, three = {3};
  CHECK_ERROR(conv_window({}, two, three), Code::invalid_argument,
              "on spatial axis 0 the kernel spans 3, the padded input only 2");
  CHECK_ERROR(conv_window({.strides = {1, 1}}, two, kOne), Code::invalid_argument,
              "strides has 2 entries for 1 spatial axes");
  CHECK_ERROR(conv_window({.strides = {0}}, two, kOne), Code::invalid_argument,
              "strides has an entry 0");
  CHECK_ERROR(conv_window({.dilations = {int64_t{1} << 62}}, two, kOne), Code::invalid_argument,
              "dilations has an entry 4611686018427387904");
  CHECK_ERROR(conv_window({.pads_begin = {-1}}, two, kOne), Code::invalid_argument,
              "pads_begin has an entry -1");
  CHECK_ERROR(pool_window({.kernel = {2}, .pads_begin = {2}, .pads_end = {0}}, {1, 1, 4}),
              Code::invalid_argument, "a window lies wholly in the padding");
  CHECK_ERROR(pool_window({.kernel = {2}, .pads_begin = {0}, .pads_end = {2}}, {1, 1, 4}),
              Code::invalid_argument, "a window lies wholly in the padding");
  // Taps -2 and 1 step over the only element.
  CHECK_ERROR(
      pool_window({.kernel = {2}, .dilations = {3}, .pads_begin = {2}, .pads_end = {2}}, {1, 1, 1}),
      Code::invalid_argument, "a window lies wholly in the padding");
  CHECK_ERROR(pool_window({.kernel = {2}}, {1, 4}), Code::invalid_argument,
              "expected (N, C, spatial..)");
}

}  // namespace hone::test
