// SPDX-License-Identifier: Apache-2.0
// Cases for normalisations and softmax.
#include <cmath>

#include "tests/ops/op_case.hpp"

using namespace hone;
using hone::test::Grad;
using hone::test::In;

namespace {
const NormAttrs kTenth{.eps = 0.1};
In positive(const Shape& s) { return In::within(s, 0.5, 2); }
constexpr double kLow = -INFINITY;
}  // namespace

OP_CASE(softmax, {.attrs = AxisAttrs{1}, .in = {{4, 7}}, .range = {-3, 3}})
OP_CASE(softmax, {.attrs = AxisAttrs{0}, .in = {{3, 2}}})
OP_CASE(softmax, {.attrs = AxisAttrs{1}, .in = {{2, 3, 2}}})
OP_CASE(softmax, {.attrs = AxisAttrs{0}, .in = {{1, 5}}, .expect = {{1, 1, 1, 1, 1}}})
OP_CASE(softmax, {.in = {In::of({2, 2}, {kLow, 3, kLow, kLow})},
                  .grad = Grad::skip,
                  .expect = {{0, 1, 0, 0}}})
OP_CASE(softmax, {.in = {{0, 3}}, .expect_shape = Shape{0, 3}})
OP_REJECTS(softmax, {.attrs = AxisAttrs{2}, .in = {{2, 2}}}, "axis 2 does not exist")
OP_CASE(log_softmax, {.attrs = AxisAttrs{1}, .in = {{4, 7}}, .range = {-3, 3}})
OP_CASE(log_softmax, {.attrs = AxisAttrs{1}, .in = {{2, 3, 2}}})
OP_CASE(log_softmax, {.in = {In::of({2, 2}, {kLow, 3, kLow, kLow})},
                      .grad = Grad::skip,
                      .expect = {{kLow, 0, kLow, kLow}}})

OP_CASE(batch_norm,
        {.attrs = BatchNormAttrs{.eps = 0.1}, .in = {{3, 2, 2}, {2}, {2}, {2}, positive({2})}})
OP_CASE(batch_norm, {.in = {{2, 3}, {3}, {3}, {3}, positive({3})}})
OP_CASE(batch_norm_train, {.attrs = kTenth, .in = {{3, 2, 2}, {2}, {2}}})
OP_CASE(batch_norm_train, {.attrs = kTenth, .in = {{4, 2}, {2}, {2}}})
OP_CASE(batch_norm_train, {.attrs = kTenth, .in = {{2, 2, 3, 3}, {2}, {2}}, .grad = Grad::check})
OP_CASE(batch_norm_grad, {.attrs = kTenth, .in = {{3, 2, 2}, {2}, {2}, positive({2}), {3, 2, 2}}})
OP_REJECTS(batch_norm, {.in = {{2, 3}, {3}, {4}, {3}, {3}}}, "bias has shape [4], expected [3]")
OP_REJECTS(batch_norm_train, {.in = {{0, 3}, {3}, {3}}}, "has no elements to take statistics of")
OP_REJECTS(batch_norm_grad, {.in = {{2, 3}, {3}, {3}, {3}, {2, 2}}},
           "the output's gradient is f64[2, 2]")

OP_CASE(layer_norm, {.attrs = kTenth, .in = {{3, 5}, {5}, {5}}})
OP_CASE(layer_norm, {.attrs = NormAttrs{0.1, 1}, .in = {{2, 2, 3}, {2, 3}, {2, 3}}})
OP_CASE(layer_norm, {.attrs = NormAttrs{0.1, 0}, .in = {{2, 3}, {2, 3}}})
OP_CASE(layer_norm, {.attrs = kTenth, .in = {{2, 4}}})
OP_CASE(layer_norm, {.attrs = kTenth, .in = {{2, 4}, In::none(), {4}}})
OP_CASE(layer_norm_grad, {.attrs = kTenth, .in = {{3, 4}, {4}, {3, 1}, positive({3, 1}), {3, 4}}})
OP_CASE(layer_norm_grad,
        {.attrs = NormAttrs{0.1, 0}, .in = {{2, 3}, {2, 3}, {1, 1}, positive({1, 1}), {2, 3}}})
OP_CASE(layer_norm_grad,
        {.attrs = kTenth, .in = {{3, 4}, In::none(), {3, 1}, positive({3, 1}), {3, 4}}})
OP_CASE(layer_norm_grad, {.attrs = kTenth,
                          .in = {{3, 130}, {130}, {3, 1}, positive({3, 1}), {3, 130}},
                          .grad = Grad::skip})
OP_REJECTS(layer_norm, {.in = {{2, 3}, {2}}}, "scale has shape [2], expected [3]")
OP_REJECTS(layer_norm, {.attrs = NormAttrs{0.1, 2}, .in = {{2, 3}}}, "axis 2 does not exist")
OP_REJECTS(layer_norm_grad, {.in = {{2, 3}, {3}, {2, 1}, {2, 1}}}, "input 4 is missing")

OP_CASE(group_norm, {.attrs = GroupNormAttrs{2, 0.1}, .in = {{2, 4, 2}, {4}, {4}}})
OP_CASE(group_norm, {.attrs = GroupNormAttrs{1, 0.1}, .in = {{2, 3, 2, 2}}, .grad = Grad::check})
OP_CASE(instance_norm, {.attrs = kTenth, .in = {{2, 2, 3}, {2}, {2}}})
OP_CASE(rms_norm, {.attrs = kTenth, .in = {{3, 4}, {4}}})
OP_CASE(rms_norm, {.attrs = NormAttrs{0.1, 1}, .in = {{2, 2, 3}}})
OP_REJECTS(group_norm, {.attrs = GroupNormAttrs{.groups = 2}, .in = {{2, 3}}},
           "3 channels do not split into 2 groups")
OP_REJECTS(rms_norm, {.in = {{2, 3}, {2}}}, "scale has shape [2], expected [3]")
