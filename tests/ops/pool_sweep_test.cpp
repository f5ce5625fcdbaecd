// SPDX-License-Identifier: Apache-2.0
// C01 and C03 for every kind of pooling: all small geometries on one axis against the definition,
// and products of them on two and three axes.
#include <cmath>

#include "hone/vision_attrs.hpp"
#include "tests/ops/gradient_check.hpp"

namespace hone::test {

namespace {

struct Geometry {
  int64_t in, kernel, stride, before, after, dilation;
  bool ceil, count_pad;
};

std::vector<double> numbers(int64_t n, double first) {
  std::vector<double> v;
  for (int64_t i = 0; i < n; ++i) v.push_back(first + static_cast<double>((i * 5 + 2) % 7));
  return v;
}

// What each pooling gives along one axis of positive numbers; empty where a window has no input.
struct Pooled {
  std::vector<double> mean, max, norm;
};
Pooled by_definition(const Geometry& g, const std::vector<double>& x) {
  const int64_t span = (g.kernel - 1) * g.dilation + 1, room = g.in + g.before + g.after - span;
  Pooled y;
  for (int64_t start = 0;; start += g.stride) {
    if (start >= room + (g.ceil ? g.stride : 1)) return y;
    if (g.ceil && start >= g.in + g.before) return y;  // the last one, whole or not
    double sum = 0, max = 0, squares = 0, covered = 0, counted = 0;
    for (int64_t tap = 0; tap < g.kernel; ++tap) {
      const int64_t at = start + tap * g.dilation - g.before;
      counted += at < g.in + g.after;
      if (at < 0 || at >= g.in) continue;
      const double v = x[static_cast<size_t>(at)];
      sum += v, squares += v * v, max = std::max(max, v), ++covered;
    }
    if (covered == 0) return {};
    y.mean.push_back(sum / (g.count_pad ? counted : covered));
    y.max.push_back(max);
    y.norm.push_back(std::sqrt(squares));
  }
  return y;
}

PoolAttrs attrs_of(const Geometry& g, size_t axes) {
  const auto all = [&](int64_t v) { return std::vector<int64_t>(axes, v); };
  return {.kernel = all(g.kernel),
          .strides = all(g.stride),
          .dilations = all(g.dilation),
          .pads_begin = all(g.before),
          .pads_end = all(g.after),
          .ceil_mode = g.ceil,
          .count_include_pad = g.count_pad};
}

// v (x) v (x) ..: what pooling gives for a product of equal lines is the product of what it gives
// for a line.
TensorData product(const std::vector<double>& line, size_t axes) {
  std::vector<double> values = {1};
  Shape shape = {1, 1};
  for (size_t k = 0; k < axes; ++k) {
    std::vector<double> next;
    for (const double a : values)
      for (const double b : line) next.push_back(a * b);
    values = std::move(next);
    shape.push_back(static_cast<int64_t>(line.size()));
  }
  return tensor_from({DType::f64, shape}, values);
}

void check(const Geometry& g, size_t axes) {
  CAPTURE(g.in);
  CAPTURE(g.kernel);
  CAPTURE(g.stride);
  CAPTURE(g.before);
  CAPTURE(g.after);
  CAPTURE(g.dilation);
  CAPTURE(g.ceil);
  CAPTURE(g.count_pad);
  CAPTURE(axes);
  const std::vector<double> line = numbers(g.in, 1);
  const Pooled want = by_definition(g, line);
  const PoolAttrs attrs = attrs_of(g, axes);
  const TensorData in[] = {product(line, axes)};
  const auto same = [&](const OpDef& op, const Attrs& a, const std::vector<double>& expected) {
    const auto got = evaluate(op, a, in);
    REQUIRE_EQ(got.ok(), !expected.empty());
    if (got.ok()) CHECK(all_close((*got)[0], product(expected, axes), 1e-12, 0));
  };
  same(op::avg_pool, attrs, want.mean);
  same(op::max_pool, attrs, want.max);
  same(op::max_pool_indices, MaxPoolIndicesAttrs{attrs}, want.max);
  same(op::lp_pool, LpPoolAttrs{2, attrs}, want.norm);
}

}  // namespace

TEST_CASE("C01, C03: every pooling of every small geometry follows the definition") {
  int64_t refused = 0, done = 0;
  for (int64_t in = 1; in <= 5; ++in)
    for (int64_t kernel = 1; kernel <= 3; ++kernel)
      for (int64_t stride = 1; stride <= 3; ++stride)
        for (int64_t before = 0; before <= kernel; ++before)
          for (int64_t after = 0; after <= kernel; ++after)
            for (int64_t dilation = 1; dilation <= 2; ++dilation)
              for (const bool ceil : {false, true}) {
                const Geometry g{in, kernel, stride, before, after, dilation, ceil, after % 2 == 1};
                check(g, 1);
                check({in, kernel, stride, before, after, dilation, ceil, after % 2 == 0}, 1);
                if (in >= 2 && in <= 4) check(g, 2);
                if (in == 3) check(g, 3);
                (by_definition(g, numbers(in, 1)).mean.empty() ? refused : done) += 1;
              }
  CHECK_GT(refused, 100);
  CHECK_GT(done, 1000);
}

}  // namespace hone::test
