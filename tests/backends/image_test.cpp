// SPDX-License-Identifier: Apache-2.0
// Normalisation, pooling and copies of channels-last images.
#include <cmath>

#include "tests/backends/harness.hpp"

namespace hone::test {

namespace {

// Channels below, at and above the width of a vector; pixels below and above a stretch of sums.
const Shape kImages[] = {{1, 1, 1, 1},    {2, 3, 5, 4}, {1, 16, 9, 9},   {3, 17, 2, 13},
                         {2, 40, 20, 20}, {4, 7, 31},   {2, 5, 3, 4, 3}, {64, 33}};

const Backend& all() { return default_backend(); }

Value channels(Case& c, const Shape& s, const char* name, uint64_t seed, double low = -1) {
  return c.input(random_tensor({DType::f32, {s[1]}}, seed, low, low + 2), name);
}

PoolAttrs pool(const Shape& s, int64_t kernel, int64_t stride, int64_t pad, int64_t dilation = 1) {
  const size_t n = static_cast<size_t>(s.rank() - 2);
  PoolAttrs a;
  a.kernel.assign(n, kernel);
  a.strides.assign(n, stride);
  a.dilations.assign(n, dilation);
  a.pads_begin.assign(n, pad);
  a.pads_end.assign(n, pad);
  return a;
}

}  // namespace

TEST_CASE("batch normalisation in inference") {
  for (const Shape& s : kImages) {
    INFO(to_string(s));
    Case c;
    const Value x = c.input(s, "x", 1);
    const Value var = channels(c, s, "var", 5, 0.5);
    c.check(c.builder().emit(op::batch_norm,
                             {x, channels(c, s, "scale", 2), channels(c, s, "bias", 3),
                              channels(c, s, "mean", 4), var},
                             BatchNormAttrs{}),
            all());
  }
}

TEST_CASE("batch normalisation in training: outputs and statistics") {
  for (const Shape& s : kImages)
    for (size_t output = 0; output < 3; ++output)
      for (const double offset : {0.0, 100.0}) {
        if (s[0] * s.product(2, s.rank()) == 1 && output != 1) continue;  // a deviation of 0
        INFO(to_string(s), output, offset);
        Case c;
        const Value x = c.input(random_tensor({DType::f32, s}, 1, offset - 3, offset + 3), "x");
        const std::vector<Value> in = {x, channels(c, s, "scale", 2), channels(c, s, "bias", 3)};
        const std::vector<Value> y = c.builder().emit_all(op::batch_norm_train, in, NormAttrs{});
        c.check(y[output], all());
      }
}

// One reader after the other, as in a forward and a backward pass: through an element-wise step in
// each, and where `pooled`, through a step that needs the image itself.
std::string readers(const Shape& s, bool pooled, int norms) {
  Case c;
  const Value x = c.input(s, "x", 1);
  const auto norm = [&](Value v, uint64_t seed) {
    const std::string n = std::to_string(seed);
    const std::vector<Value> in = {v, channels(c, s, ("scale" + n).c_str(), seed),
                                   channels(c, s, ("bias" + n).c_str(), seed + 1)};
    return c.builder().emit_all(op::batch_norm_train, in, NormAttrs{})[0];
  };
  Value y = norm(x, 10), sum = y;
  for (int i = 1; i < norms; ++i) sum = sum + norm(x, static_cast<uint64_t>(10 + 2 * i));
  const Value kept = ops::relu(sum);
  Value out = c.builder().emit(op::max_pool, {kept}, pool(s, 2, 1, 0));
  out = ops::sum(out) + ops::where(ops::greater(y, kept * 0.5), y * y, kept);
  if (pooled) out = out + ops::sum(c.builder().emit(op::max_pool, {y}, pool(s, 3, 1, 1)));
  c.check(out, all());
  return c.steps(all());
}

TEST_CASE("a normalised image is computed where it is read, and written where it must be") {
  const auto count = [](const std::string& all_steps, std::string_view kind) {
    int n = 0;
    for (size_t at = all_steps.find(kind); at != std::string::npos;
         at = all_steps.find(kind, at + 1))
      ++n;
    return n;
  };
  for (const Shape& s : {Shape{2, 5, 6, 7}, Shape{1, 33, 9, 9}, Shape{3, 2, 40, 31}}) {
    INFO(to_string(s));
    const std::string apart = readers(s, false, 1), written = readers(s, true, 1);
    if (apart.find("vector.batch_norm_train") == std::string::npos) return;  // not built
    CHECK_EQ(count(written, "vector.pointwise"), count(apart, "vector.pointwise") + 1);
    for (const int norms : {2, 8}) readers(s, false, norms);  // more than one expression holds
  }
}

TEST_CASE("the gradient of batch normalisation") {
  for (const Shape& s : kImages)
    for (size_t output = 0; output < 3; ++output) {
      INFO(to_string(s), output);
      Case c;
      const Value x = c.input(s, "x", 1), gy = c.input(s, "gy", 2);
      const Value var = channels(c, s, "var", 5, 0.5);
      const std::vector<Value> in = {x, channels(c, s, "scale", 3), channels(c, s, "mean", 4), var,
                                     gy};
      const std::vector<Value> g = c.builder().emit_all(op::batch_norm_grad, in, NormAttrs{});
      c.check(g[output], all());
    }
}

// The gradient of batch normalisation, behind element-wise nodes that make the one that comes in.
std::string behind_chain(const Shape& s, const std::function<Value(Case&, Value, Value)>& chain) {
  std::string steps;
  for (size_t output = 0; output < 3; ++output) {
    Case c;
    const Value x = c.input(s, "x", 1), gy = chain(c, x, c.input(s, "gy", 2));
    const std::vector<Value> in = {x, channels(c, s, "scale", 3), channels(c, s, "mean", 4),
                                   channels(c, s, "var", 5, 0.5), gy};
    c.check(c.builder().emit_all(op::batch_norm_grad, in, NormAttrs{})[output], all());
    steps = c.steps(all());
  }
  return steps;
}

TEST_CASE("the gradient of batch normalisation evaluates the mask of an activation itself") {
  const auto mask = [](Case&, Value x, Value gy) {
    return ops::where(ops::greater(x, x * 0.0), gy, gy * 0.0);
  };
  const auto by_image = [](Case& c, Value x, Value gy) {
    Shape by_channel = x.shape(), by_item = x.shape();
    by_channel[0] = 1;
    for (int i = 2; i < x.shape().rank(); ++i) by_channel[i] = 1;
    for (int i = 1; i < x.shape().rank(); ++i) by_item[i] = 1;
    return gy * ops::sigmoid(x) * c.input(by_channel, "gate", 6) + c.input(by_item, "shift", 7);
  };
  const auto used_twice = [](Case& c, Value x, Value gy) {
    const Value g = gy * c.input(x.shape(), "a", 6);
    return g + ops::sum(g, {.axes = {0}});
  };
  std::vector<Shape> shapes(std::begin(kImages), std::end(kImages));
  shapes.push_back({2, 1100, 3, 2});  // a pixel is longer than a tile
  shapes.push_back({1, 3, 50, 70});   // several stretches
  for (const Shape& s : shapes) {
    INFO(to_string(s));
    const std::string fused = behind_chain(s, mask), also = behind_chain(s, by_image);
    const std::string apart = behind_chain(s, used_twice);
    if (fused.find("vector.batch_norm_grad") == std::string::npos) continue;  // not built
    CHECK(fused.find("vector.pointwise") == std::string::npos);
    CHECK(also.find("vector.pointwise") == std::string::npos);
    CHECK(apart.find("vector.pointwise") != std::string::npos);
  }
}

TEST_CASE("the largest of windows, and where it was") {
  for (const Shape& s : {Shape{2, 3, 9, 8}, Shape{1, 16, 7, 7}, Shape{2, 70, 6, 5}, Shape{1, 9, 20},
                         Shape{1, 2, 5, 6, 7}})
    for (const PoolAttrs& attrs : {pool(s, 2, 2, 0), pool(s, 3, 2, 1), pool(s, 3, 1, 1),
                                   pool(s, 2, 1, 0, 2), pool(s, 1, 3, 0)}) {
      INFO(to_string(s), attrs.kernel[0], attrs.strides[0]);
      Case forward;
      forward.check(forward.builder().emit(op::max_pool, {forward.input(s, "x", 1)}, attrs), all());
      Case back;
      const Value x = back.input(s, "x", 1);
      const Shape y = back.builder().emit(op::max_pool, {x}, attrs).shape();
      back.check(back.builder().emit(op::max_pool_grad, {x, back.input(y, "gy", 2)}, attrs), all());
    }
}

TEST_CASE("of equal elements the first has the gradient; a NaN wins") {
  TensorData x =
      tensor_from({DType::f32, {1, 2, 2, 4}}, {1, 1, 2, 2, 1, 0, 2, 3,  //
                                               5, std::nan(""), 7, 7, std::nan(""), 9, 7, 7});
  const PoolAttrs attrs = pool(x.shape(), 2, 2, 0);
  Case forward;
  forward.check(forward.builder().emit(op::max_pool, {forward.input(x, "x")}, attrs), all());
  Case back;
  const Value in = back.input(x, "x");
  back.check(back.builder().emit(op::max_pool_grad, {in, back.input({1, 2, 1, 2}, "gy", 2)}, attrs),
             all());
}

TEST_CASE("means over all pixels") {
  for (const Shape& s : kImages) {
    if (s.rank() < 3) continue;
    std::vector<int64_t> axes;
    for (int64_t i = 2; i < s.rank(); ++i) axes.push_back(i);
    for (const bool keep : {false, true}) {
      INFO(to_string(s), keep);
      Case c;
      c.check(ops::mean(c.input(s, "x", 1), {.axes = axes, .keepdims = keep}), all());
    }
  }
}

TEST_CASE("sums over leading axes, and over all but the channels") {
  for (const Shape& s : kImages)
    for (const std::vector<int64_t>& axes : {std::vector<int64_t>{0}, {0, 1}, {0, 2}, {0, 2, 3}}) {
      if (axes.back() >= s.rank() || static_cast<int64_t>(axes.size()) == s.rank()) continue;
      INFO(to_string(s), axes.size());
      Case c;
      c.check(ops::sum(c.input(s, "x", 1), {.axes = axes}), all());
    }
  Case rows;  // more than a part
  rows.check(ops::sum(rows.input({5000, 9}, "x", 1), {.axes = {0}}), all());
}

TEST_CASE("layer normalisation and its gradient, rows of any length, far from zero too") {
  for (const Shape& s : {Shape{1, 1, 3}, Shape{7, 16}, Shape{3, 5, 33}, Shape{300, 70}})
    for (const double offset : {0.0, 50.0}) {
      const Shape row = {s[s.rank() - 1]};
      const TensorData x = random_tensor({DType::f32, s}, 1, offset - 2, offset + 2);
      for (size_t output = 0; output < 3; ++output) {
        INFO(to_string(s), offset, output);
        Case forward;
        const std::vector<Value> in = {forward.input(x, "x"), forward.input(row, "scale", 2),
                                       forward.input(row, "bias", 3)};
        forward.check(forward.builder().emit_all(op::layer_norm, in, NormAttrs{})[output], all());
        Case back;
        Shape statistic = s;
        statistic[s.rank() - 1] = 1;
        const TensorData mean = random_tensor({DType::f32, statistic}, 4, offset - 1, offset + 1);
        const std::vector<Value> given = {
            back.input(x, "x"), back.input(row, "scale", 2), back.input(mean, "mean"),
            back.input(random_tensor({DType::f32, statistic}, 5, 0.5, 1.5), "inv"),
            back.input(s, "gy", 6)};
        back.check(back.builder().emit_all(op::layer_norm_grad, given, NormAttrs{})[output], all());
      }
    }
}

TEST_CASE("images are resized, and gradients brought back") {
  for (const Shape& s :
       {Shape{2, 3, 5}, Shape{1, 17, 4, 6}, Shape{2, 70, 3, 5}, Shape{1, 2, 2, 3, 4}})
    for (const ResizeMode mode : {ResizeMode::nearest, ResizeMode::linear})
      for (const CoordinateMode coordinates :
           {CoordinateMode::half_pixel, CoordinateMode::asymmetric, CoordinateMode::align_corners})
        for (const double scale : {2.0, 0.6, 1.5}) {
          INFO(to_string(s), scale);
          ResizeAttrs attrs;
          attrs.mode = mode;
          attrs.coordinates = coordinates;
          attrs.scales.assign(static_cast<size_t>(s.rank()), scale);
          attrs.scales[0] = attrs.scales[1] = 1;
          Case forward;
          const Value y = forward.builder().emit(op::resize, {forward.input(s, "x", 1)}, attrs);
          const Shape out = y.shape();
          forward.check(y, all());
          Case back;
          back.check(back.builder().emit(op::resize_grad, {back.input(out, "gy", 2)},
                                         ResizeGradAttrs{{s.begin(), s.end()}, attrs}),
                     all());
        }
}

TEST_CASE("images are joined and split by channels as they stand") {
  Case c;
  const Value x = c.input({2, 6, 7, 5}, "x", 1);
  const auto conv = [&](Value v, const char* name, uint64_t seed) {
    return c.builder().emit(
        op::conv, {v, c.weights({5, v.shape()[1], 1, 1}, Weights::given, name, seed)}, ConvAttrs{});
  };
  const Value a = conv(x, "a", 2), b = conv(x, "b", 3);
  const Value both = c.builder().emit(op::concat, {a, x, b}, AxisAttrs{1});
  const auto part = [&](int64_t from, int64_t to) {
    return c.builder().emit(op::slice, {both}, SliceAttrs{{from}, {to}, {1}, {}});
  };
  c.check(conv(part(3, 9), "c", 4) + conv(part(-6, 100), "d", 5), all());
}

}  // namespace hone::test
