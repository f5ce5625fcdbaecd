// SPDX-License-Identifier: Apache-2.0
// Cases for resampling.
#include <numeric>

#include "tests/ops/op_case.hpp"

using namespace hone;
using hone::test::Grad;
using hone::test::In;

namespace {

ResizeAttrs to_sizes(std::vector<int64_t> sizes, ResizeMode mode,
                     CoordinateMode coordinates = CoordinateMode::half_pixel) {
  ResizeAttrs attrs;
  attrs.sizes = std::move(sizes);
  attrs.mode = mode;
  attrs.coordinates = coordinates;
  return attrs;
}
ResizeAttrs by_scales(std::vector<double> scales, ResizeMode mode,
                      CoordinateMode coordinates = CoordinateMode::half_pixel) {
  ResizeAttrs attrs = to_sizes({}, mode, coordinates);
  attrs.scales = std::move(scales);
  return attrs;
}
ResizeAttrs nearest(std::vector<double> scales, CoordinateMode coordinates, NearestMode rounding) {
  ResizeAttrs attrs = by_scales(std::move(scales), ResizeMode::nearest, coordinates);
  attrs.nearest = rounding;
  return attrs;
}
ResizeAttrs excluding_outside(ResizeAttrs attrs) {
  attrs.exclude_outside = true;
  return attrs;
}
In twentieths() {
  std::vector<double> values(20);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<double>(i) / 19;
  return In::typed(DType::f64, {1, 1, 1, 20}, values);
}
std::vector<double> nineteenths(std::vector<double> indices) {
  for (double& v : indices) v /= 19;
  return indices;
}

constexpr auto kNearest = ResizeMode::nearest;
constexpr auto kLinear = ResizeMode::linear;
constexpr auto kCubic = ResizeMode::cubic;

}  // namespace

OP_CASE(resize, {.attrs = by_scales({1, 1, 2, 2}, kNearest), .in = {{2, 3, 3, 2}}})
OP_CASE(resize, {.attrs = by_scales({1, 1, 2, 2}, kLinear), .in = {{2, 3, 3, 2}}})
OP_CASE(resize, {.attrs = by_scales({1, 1, 1.5, 2}, kCubic), .in = {{1, 2, 4, 3}}})
OP_CASE(resize, {.attrs = to_sizes({2, 5, 3}, kLinear), .in = {{2, 3, 7}}})
OP_CASE(resize,
        {.attrs = to_sizes({2, 5, 3}, kLinear, CoordinateMode::align_corners), .in = {{2, 3, 7}}})
OP_CASE(resize, {.attrs = to_sizes({1, 3}, kLinear, CoordinateMode::align_corners), .in = {{2, 3}}})
OP_CASE(resize,
        {.attrs = to_sizes({3, 1}, kLinear, CoordinateMode::pytorch_half_pixel), .in = {{2, 3}}})
OP_CASE(resize,
        {.attrs = by_scales({1, 0.55}, kLinear, CoordinateMode::asymmetric), .in = {{2, 9}}})
OP_CASE(resize, {.attrs = by_scales({1, 1.3}, kLinear, CoordinateMode::half_pixel_symmetric),
                 .in = {{2, 5}}})
OP_CASE(resize, {.attrs = excluding_outside(to_sizes({2, 9}, kCubic)), .in = {{2, 4}}})
OP_CASE(resize, {.attrs = to_sizes({4, 2, 3, 5}, kLinear), .in = {{2, 3, 2, 4}}})  // all axes
OP_CASE(resize, {.attrs = to_sizes({3, 2, 4}, kLinear), .in = {{2, 2, 4}}})        // not the last
OP_CASE(resize, {.attrs = to_sizes({2, 3}, kLinear), .in = {{2, 3}}})              // nothing
OP_CASE(resize, {.attrs = to_sizes({0, 4}, kNearest), .in = {{0, 2}}, .expect_shape = Shape{0, 4}})
OP_CASE(resize, {.in = {{}}})

// By hand: linear 2x of [1, 2] looks at -0.25, 0.25, 0.75, 1.25.
OP_CASE(resize, {.attrs = by_scales({2}, kLinear),
                 .in = {In::typed(DType::f64, {2}, {1, 2})},
                 .expect = {{1, 1.25, 1.75, 2}}})
OP_CASE(resize, {.attrs = to_sizes({5}, kLinear, CoordinateMode::align_corners),
                 .in = {In::typed(DType::f64, {3}, {0, 2, 4})},
                 .expect = {{0, 1, 2, 3, 4}}})
// One axis of ONNX's example resize_upsample_scales_cubic.
OP_CASE(resize, {.attrs = by_scales({2}, kCubic),
                 .in = {In::typed(DType::f64, {4}, {1, 2, 3, 4})},
                 .expect = {{0.89453125, 1.19140625, 1.66796875, 2.296875, 2.703125, 3.33203125,
                             3.80859375, 4.10546875}}})
OP_CASE(resize, {.attrs = nearest({2}, CoordinateMode::asymmetric, NearestMode::floor),
                 .in = {In::of({3}, {1, 2, 3})},
                 .expect = {{1, 1, 2, 2, 3, 3}}})
OP_CASE(resize, {.attrs = nearest({2}, CoordinateMode::asymmetric, NearestMode::ceil),
                 .in = {In::of({3}, {1, 2, 3})},
                 .expect = {{1, 2, 2, 3, 3, 3}}})
OP_CASE(resize, {.attrs = nearest({2}, CoordinateMode::asymmetric, NearestMode::round_prefer_floor),
                 .in = {In::of({3}, {1, 2, 3})},
                 .expect = {{1, 1, 2, 2, 3, 3}}})

// C04: a tie between two pixels goes where the mode says, however the scale was rounded.
OP_CASE(resize, {.attrs = nearest({1, 1, 1, 0.30000001192092896}, CoordinateMode::half_pixel,
                                  NearestMode::round_prefer_ceil),
                 .in = {twentieths()},
                 .expect = {nineteenths({1, 5, 8, 11, 15, 18})}})
OP_CASE(resize, {.attrs = nearest({1, 1, 1, 0.29999998211860657}, CoordinateMode::half_pixel,
                                  NearestMode::round_prefer_ceil),
                 .in = {twentieths()},
                 .expect = {nineteenths({1, 5, 8, 11, 15, 18})}})
OP_CASE(resize, {.attrs = nearest({1, 1, 1, 0.3}, CoordinateMode::half_pixel,
                                  NearestMode::round_prefer_floor),
                 .in = {twentieths()},
                 .expect = {nineteenths({1, 4, 8, 11, 14, 18})}})
// 0.7 as a float is a little less: ten elements become seven all the same.
OP_CASE(resize,
        {.attrs = by_scales({0.699999988079071}, kNearest), .in = {{10}}, .expect_shape = Shape{7}})

OP_CASE(resize_dyn, {.in = {{1, 2}, In::typed(DType::f32, {2}, {1, 2}).as_constant()},
                     .expect_shape = Shape{1, 4}})
OP_CASE(resize_dyn, {.attrs = to_sizes({}, kLinear),
                     .in = {{1, 2}, In::none(), In::ints({2, 3})},
                     .expect_shape = Shape{2, 3}})
OP_CASE(resize_dyn, {.in = {{2}, In::typed(DType::f32, {0}, {}).as_constant(), In::ints({3})},
                     .expect_shape = Shape{3}})

// Shrunk by two, the triangle is twice as wide: weights 1, 3, 3, 1 over 8, the outer ones on edges.
OP_CASE(resize_dyn, {.attrs = ResizeAttrs{.mode = ResizeMode::linear, .antialias = true},
                     .in = {In::of({4}, {0, 8, 16, 24}), In::none(), In::ints({2})},
                     .expect = {{5, 19}}})
OP_CASE(resize_dyn, {.attrs = ResizeAttrs{.mode = ResizeMode::cubic, .antialias = true},
                     .in = {{2, 7}, In::none(), In::ints({2, 3})},
                     .expect_shape = Shape{2, 3}})
OP_CASE(resize_dyn, {.attrs = ResizeAttrs{.aspect = AspectRatio::not_larger, .axes = {1, 2}},
                     .in = {{1, 2, 4}, In::none(), In::ints({3, 3})},
                     .expect_shape = Shape{1, 2, 3}})
OP_CASE(resize_dyn,
        {.attrs = ResizeAttrs{.mode = ResizeMode::linear, .aspect = AspectRatio::not_smaller},
         .in = {{2, 4}, In::none(), In::ints({3, 3})},
         .expect_shape = Shape{3, 6}})
OP_CASE(resize_dyn, {.attrs = ResizeAttrs{.mode = ResizeMode::linear,
                                          .coordinates = CoordinateMode::tf_crop_and_resize,
                                          .extrapolation = 9},
                     .in = {In::of({3}, {1, 2, 3}), In::none(), In::ints({3}),
                            In::typed(DType::f32, {2}, {0.5, 1.5}).as_constant()},
                     .expect = {{2, 3, 9}}})

// C20 (b), and the other modes.
OP_CASE(resize_grad, {.attrs = ResizeGradAttrs{{2}, by_scales({2}, kNearest)},
                      .in = {In::typed(DType::f64, {4}, {1, 2, 3, 4})},
                      .expect = {{3, 7}}})
OP_CASE(resize_grad, {.attrs = ResizeGradAttrs{{2, 3, 3, 2}, by_scales({1, 1, 2, 2}, kLinear)},
                      .in = {{2, 3, 6, 4}}})
OP_CASE(resize_grad, {.attrs = ResizeGradAttrs{{2, 5}, to_sizes({2, 3}, kCubic)}, .in = {{2, 3}}})
OP_CASE(resize_grad, {.attrs = ResizeGradAttrs{{2, 5}, to_sizes({0, 3}, kNearest)}, .in = {{0, 3}}})

OP_REJECTS(resize, {.in = {{2}}}, "either sizes or scales")
OP_REJECTS(resize, {.attrs = to_sizes({2, 2}, kNearest), .in = {{2}}},
           "2 extents are given for the 1 axes")
OP_REJECTS(resize, {.attrs = by_scales({-1}, kNearest), .in = {{2}}},
           "scale -1 of axis 0 is out of range")
OP_REJECTS(resize, {.attrs = by_scales({1e12}, kNearest), .in = {{2}}}, "is out of range")
OP_REJECTS(resize, {.attrs = to_sizes({-3}, kNearest), .in = {{2}}},
           "cannot be resized from 2 to -3")
OP_REJECTS(resize, {.attrs = to_sizes({2}, kNearest), .in = {{0}}}, "no elements to resize from")
OP_REJECTS(resize, {.attrs = to_sizes({3, 3, 3, 3, 3}, kNearest), .in = {{2, 2, 2, 2, 2}}},
           "at most 4")
OP_REJECTS(resize, {.attrs = to_sizes({3}, kLinear), .in = {{2}}, .dtype = DType::bool_},
           "expected a number type")
OP_REJECTS(resize_dyn, {.in = {{2}, In::typed(DType::f32, {1}, {2})}}, "known before running")
OP_REJECTS(resize_dyn,
           {.attrs = ResizeAttrs{.coordinates = CoordinateMode::tf_crop_and_resize},
            .in = {{2}, In::none(), In::ints({2})}},
           "roi has 0 entries")
OP_REJECTS(resize_dyn, {.attrs = ResizeAttrs{.axes = {3}}, .in = {{2}, In::none(), In::ints({2})}},
           "axis 3 does not exist")
OP_REJECTS(resize, {.attrs = ResizeAttrs{.sizes = {1}, .antialias = true}, .in = {{2}}},
           "for resize_dyn")
OP_REJECTS(resize_grad, {.attrs = ResizeGradAttrs{{2}, by_scales({2}, kNearest)}, .in = {{5}}},
           "resizes to")
