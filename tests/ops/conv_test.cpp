// SPDX-License-Identifier: Apache-2.0
#include "hone/window.hpp"
#include "tests/ops/gradient_check.hpp"

namespace hone::test {

namespace {

TensorData doubles(const Shape& shape, uint64_t seed) {
  return random_tensor({DType::f64, shape}, seed);
}

// The definition, element by element, in double.
TensorData convolution(const TensorData& x, const TensorData& w, const ConvAttrs& attrs) {
  const Window win = must(conv_window(attrs, spatial_of(x.shape()), spatial_of(w.shape())));
  const WindowAxis &d = win.depth(), &h = win.height(), &v = win.width();
  const int64_t batch = x.shape()[0], in_channels = x.shape()[1], out_channels = w.shape()[0];
  const int64_t per_group = w.shape()[1], out_per_group = out_channels / attrs.groups;
  std::vector<double> y;
  const auto in_range = [](int64_t i, const WindowAxis& a) { return i >= 0 && i < a.in; };
  for (int64_t n = 0; n < batch; ++n)
    for (int64_t m = 0; m < out_channels; ++m)
      for (int64_t o = 0; o < win.out_size(); ++o) {
        const int64_t od = o / (h.out * v.out), oh = o / v.out % h.out, ow = o % v.out;
        double sum = 0;
        for (int64_t c = 0; c < per_group; ++c)
          for (int64_t t = 0; t < win.kernel_size(); ++t) {
            const int64_t id = d.start(od) + t / (h.kernel * v.kernel) * d.dilation;
            const int64_t ih = h.start(oh) + t / v.kernel % h.kernel * h.dilation;
            const int64_t iw = v.start(ow) + t % v.kernel * v.dilation;
            if (!in_range(id, d) || !in_range(ih, h) || !in_range(iw, v)) continue;
            const int64_t channel = m / out_per_group * per_group + c;
            sum += w.at((m * per_group + c) * win.kernel_size() + t) *
                   x.at((((n * in_channels + channel) * d.in + id) * h.in + ih) * v.in + iw);
          }
        y.push_back(sum);
      }
  Shape shape = {batch, out_channels};
  for (int k = 0; k < win.rank; ++k) shape.push_back(win.spatial(k).out);
  return tensor_from({x.dtype(), shape}, y);
}

struct Case {
  Shape x, w;
  ConvAttrs attrs;
};

const std::vector<Case>& cases() {
  static const std::vector<Case> kCases = {
      {{2, 3, 7}, {4, 3, 3}, {}},
      {{1, 2, 9},
       {2, 2, 3},
       {.strides = {2}, .dilations = {2}, .pads_begin = {3}, .pads_end = {1}}},
      {{2, 3, 5, 6}, {4, 3, 3, 2}, {}},
      {{1, 2, 5, 5}, {3, 2, 1, 1}, {}},
      {{1, 2, 5, 4}, {3, 2, 1, 1}, {.strides = {2, 1}}},
      {{2, 4, 5, 6}, {6, 2, 3, 3}, {.pads_begin = {1, 1}, .pads_end = {1, 1}, .groups = 2}},
      {{1, 3, 6, 5},
       {3, 1, 3, 3},
       {.strides = {2, 2}, .pads_begin = {1, 0}, .pads_end = {0, 2}, .groups = 3}},
      {{1, 2, 4, 4}, {4, 1, 2, 2}, {.dilations = {2, 1}, .groups = 2}},
      {{1, 1, 5, 7}, {2, 1, 4, 4}, {.strides = {2, 3}, .auto_pad = AutoPad::same_upper}},
      {{1, 1, 5, 7}, {2, 1, 4, 4}, {.auto_pad = AutoPad::same_lower}},
      {{1, 1, 5, 7},
       {2, 1, 3, 3},
       {.pads_begin = {1, 1}, .pads_end = {1, 1}, .auto_pad = AutoPad::valid}},
      {{1, 1, 2, 2}, {1, 1, 2, 2}, {.pads_begin = {3, 3}, .pads_end = {3, 3}}},
      {{1, 2, 3, 4, 4},
       {2, 2, 2, 3, 2},
       {.strides = {1, 2, 1}, .pads_begin = {1, 0, 1}, .pads_end = {0, 1, 0}}},
      {{1, 1, 300}, {1, 1, 3}, {.strides = {1}, .pads_begin = {1}, .pads_end = {1}}},
      {{0, 1, 5}, {2, 1, 3}, {}},
  };
  return kCases;
}

}  // namespace

TEST_CASE("conv agrees with the definition") {
  for (const Case& k : cases())
    for (const DType t : {DType::f64, DType::f32, DType::f16, DType::bf16}) {
      const TensorData x = random_tensor({t, k.x}, 1), w = random_tensor({t, k.w}, 2);
      const auto y = must(evaluate(op::conv, k.attrs, {x, w}));
      const double tol = t == DType::f64   ? 1e-12
                         : t == DType::f32 ? 1e-5
                         : t == DType::f16 ? 2e-3
                                           : 1e-2;
      CHECK(all_close(y[0], convolution(x, w, k.attrs), tol, tol));
    }
}

TEST_CASE("conv adds its bias") {
  const auto y =
      must(evaluate(op::conv, {},
                    {tensor_of<float>({1, 1, 3}, {1, 2, 3}),
                     tensor_of<float>({2, 1, 2}, {1, 1, 1, -1}), tensor_of<float>({2}, {10, 20})}));
  CHECK(same_bits(y[0], tensor_of<float>({1, 2, 2}, {13, 15, 19, 19})));
}

// <u, conv(x, w)> = <conv_input_grad(u, w), x> = <conv_weight_grad(x, u), w>
TEST_CASE("conv_input_grad and conv_weight_grad are conv's adjoints, in every type") {
  for (const Case& k : cases())
    for (const DType t : {DType::f64, DType::f32, DType::f16, DType::bf16}) {
      const TensorData x = random_tensor({t, k.x}, 1), w = random_tensor({t, k.w}, 2);
      const TensorData y = convolution(x, w, k.attrs), u = random_tensor(y.type(), 3);
      const auto dot = [](const TensorData& a, const TensorData& b) {
        double sum = 0;
        for (int64_t i = 0; i < a.numel(); ++i) sum += a.at(i) * b.at(i);
        return sum;
      };
      const auto list = [](const Shape& s) { return std::vector<int64_t>(s.begin() + 2, s.end()); };
      const auto gx =
          must(evaluate(op::conv_input_grad, ConvGradAttrs{list(k.x), k.attrs}, {u, w}));
      const auto gw =
          must(evaluate(op::conv_weight_grad, ConvGradAttrs{list(k.w), k.attrs}, {x, u}));
      REQUIRE_EQ(gx[0].type(), x.type());
      REQUIRE_EQ(gw[0].type(), w.type());
      const double tol = t == DType::f64   ? 1e-12
                         : t == DType::f32 ? 1e-5
                         : t == DType::f16 ? 5e-3
                                           : 4e-2;
      CHECK(dot(gx[0], x) == doctest::Approx(dot(u, y)).epsilon(tol).scale(1));
      CHECK(dot(gw[0], w) == doctest::Approx(dot(u, y)).epsilon(tol).scale(1));
    }
}

TEST_CASE("conv has first and second derivatives") {
  for (const Case& k : cases()) {
    if (k.x.numel() > 100) continue;
    check_gradient(op::conv, k.attrs, {doubles(k.x, 1), doubles(k.w, 2), doubles({k.w[0]}, 3)},
                   Order::second);
  }
}

TEST_CASE("the adjoints of conv have first and second derivatives") {
  const ConvAttrs attrs{.strides = {2}, .pads_begin = {1}, .pads_end = {0}, .groups = 2};
  check_gradient(op::conv_input_grad, ConvGradAttrs{{6}, attrs},
                 {doubles({2, 4, 3}, 1), doubles({4, 1, 3}, 2)}, Order::second);
  check_gradient(op::conv_weight_grad, ConvGradAttrs{{3}, attrs},
                 {doubles({2, 2, 6}, 1), doubles({2, 4, 3}, 2)}, Order::second);
}

TEST_CASE("conv says what does not fit") {
  const auto f = [](Shape s) { return random_tensor({DType::f32, s}, 1); };
  CHECK_ERROR(evaluate(op::conv, {}, {f({1, 3, 8, 8}), f({4, 8, 3, 3})}), Code::invalid_argument,
              "conv: weight has 8 input channels, input has 3");
  CHECK_ERROR(evaluate(op::conv, ConvAttrs{.groups = 2}, {f({1, 4, 8}), f({4, 4, 3})}),
              Code::invalid_argument,
              "weight has 4 input channels for each of 2 groups, input has 4");
  CHECK_ERROR(evaluate(op::conv, ConvAttrs{.groups = 2}, {f({1, 4, 8}), f({3, 2, 3})}),
              Code::invalid_argument, "3 output channels do not split into 2 groups");
  CHECK_ERROR(evaluate(op::conv, {}, {f({1, 3, 8, 8}), f({4, 3, 3})}), Code::invalid_argument,
              "expected the same 3 to 5 axes");
  CHECK_ERROR(evaluate(op::conv, {}, {f({1, 3, 8}), f({4, 3, 3}), f({1, 4})}),
              Code::invalid_argument,
              "bias is [1, 4], expected one value for each of 4 output channels");
  CHECK_ERROR(evaluate(op::conv, {}, {f({1, 3, 2}), f({4, 3, 3})}), Code::invalid_argument,
              "the kernel spans 3, the padded input only 2");
  CHECK_ERROR(evaluate(op::conv, {}, {f({1, 3, 8}), random_tensor({DType::f16, {4, 3, 3}}, 1)}),
              Code::invalid_argument, "one dtype");
}

TEST_CASE("C20a: a transposed convolution has its value and its gradients") {
  const TensorData x = tensor_of<double>({1, 1, 2}, {1, 2}),
                   w = tensor_of<double>({1, 1, 2}, {3, 4});
  const ConvTransposeAttrs attrs{.conv = {.strides = {2}}};
  const auto y = must(evaluate(op::conv_transpose, attrs, {x, w}));
  CHECK(same_bits(y[0], tensor_of<double>({1, 1, 4}, {3, 4, 6, 8})));
  const TensorData ones = tensor_of<double>({1, 1, 4}, {1, 1, 1, 1});
  const auto dx = must(evaluate(op::conv, attrs.conv, {ones, w}));
  CHECK(same_bits(dx[0], tensor_of<double>({1, 1, 2}, {7, 7})));
  const auto dw = must(evaluate(op::conv_weight_grad, ConvGradAttrs{{2}, attrs.conv}, {ones, x}));
  CHECK(same_bits(dw[0], tensor_of<double>({1, 1, 2}, {3, 3})));
}

TEST_CASE("conv_transpose sizes its output by pads, output_padding, output_shape or auto_pad") {
  const auto extent = [](const ConvTransposeAttrs& attrs) {
    return must(evaluate(op::conv_transpose, attrs,
                         {doubles({1, 2, 4}, 1), doubles({2, 3, 3}, 2)}))[0]
        .shape()[2];
  };
  CHECK_EQ(extent({}), 6);
  CHECK_EQ(extent({.conv = {.strides = {2}}}), 9);
  CHECK_EQ(extent({.conv = {.strides = {2}, .pads_begin = {1}, .pads_end = {1}}}), 7);
  CHECK_EQ(
      extent({.conv = {.strides = {2}, .pads_begin = {1}, .pads_end = {1}}, .output_padding = {1}}),
      8);
  CHECK_EQ(extent({.conv = {.strides = {2}}, .output_shape = {8}}), 8);
  CHECK_EQ(extent({.conv = {.strides = {2}, .auto_pad = AutoPad::same_upper}}), 8);
}

TEST_CASE("conv_transpose agrees with scattering each element") {
  const TensorData x = tensor_of<double>({1, 1, 2}, {1, 10}),
                   w = tensor_of<double>({1, 1, 3}, {1, 2, 3});
  const auto run = [&](const ConvTransposeAttrs& attrs) {
    return must(evaluate(op::conv_transpose, attrs, {x, w}))[0];
  };
  CHECK(
      same_bits(run({.conv = {.strides = {2}}}), tensor_of<double>({1, 1, 5}, {1, 2, 13, 20, 30})));
  CHECK(same_bits(run({.conv = {.strides = {2}, .pads_begin = {1}, .pads_end = {0}}}),
                  tensor_of<double>({1, 1, 4}, {2, 13, 20, 30})));
  // Of three elements too many, two go at the beginning, unless SAME_UPPER.
  CHECK(same_bits(run({.conv = {.strides = {2}}, .output_shape = {2}}),
                  tensor_of<double>({1, 1, 2}, {13, 20})));
  CHECK(same_bits(
      run({.conv = {.strides = {2}, .auto_pad = AutoPad::same_upper}, .output_shape = {2}}),
      tensor_of<double>({1, 1, 2}, {2, 13})));
  // Two elements of output padding: one that windows of stride 2 could reach, one beyond.
  CHECK(same_bits(run({.conv = {.strides = {2}}, .output_padding = {2}}),
                  tensor_of<double>({1, 1, 7}, {1, 2, 13, 20, 30, 0, 0})));
}

TEST_CASE("conv_transpose has first and second derivatives") {
  const ConvTransposeAttrs grouped{.conv = {.strides = {2, 1},
                                            .dilations = {1, 2},
                                            .pads_begin = {1, 0},
                                            .pads_end = {0, 1},
                                            .groups = 2},
                                   .output_padding = {1, 0}};
  check_gradient(op::conv_transpose, grouped,
                 {doubles({1, 4, 3, 2}, 1), doubles({4, 1, 3, 2}, 2), doubles({2}, 3)},
                 Order::second);
  check_gradient(op::conv_transpose, ConvTransposeAttrs{.output_padding = {2}},
                 {doubles({1, 2, 3}, 1), doubles({2, 3, 2}, 2)}, Order::second);
}

}  // namespace hone::test
