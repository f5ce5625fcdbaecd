// SPDX-License-Identifier: Apache-2.0
// Cases for convolution.
#include "tests/ops/op_case.hpp"

using namespace hone;
using hone::test::Grad;
using hone::test::In;

OP_CASE(conv, {.in = {{2, 3, 7}, {4, 3, 3}}})
OP_CASE(conv, {.in = {{1, 2, 4, 5}, {3, 2, 3, 2}, {3}}})
OP_CASE(conv, {.in = {{1, 2, 4, 4}, {3, 2, 1, 1}, {3}}})
OP_CASE(conv, {.attrs = ConvAttrs{.strides = {2, 1}}, .in = {{1, 2, 5, 4}, {3, 2, 1, 1}}})
OP_CASE(conv,
        {.attrs = ConvAttrs{.strides = {2}, .dilations = {2}, .pads_begin = {3}, .pads_end = {1}},
         .in = {{1, 2, 9}, {2, 2, 3}}})
OP_CASE(conv, {.attrs = ConvAttrs{.pads_begin = {1, 1}, .pads_end = {1, 1}, .groups = 2},
               .in = {{1, 4, 3, 4}, {6, 2, 3, 3}, {6}}})
OP_CASE(
    conv,
    {.attrs = ConvAttrs{.strides = {2, 2}, .pads_begin = {1, 0}, .pads_end = {0, 2}, .groups = 3},
     .in = {{1, 3, 6, 5}, {3, 1, 3, 3}, {3}}})
OP_CASE(conv,
        {.attrs = ConvAttrs{.dilations = {2, 1}, .groups = 2}, .in = {{1, 2, 4, 4}, {4, 1, 2, 2}}})
OP_CASE(conv, {.attrs = ConvAttrs{.strides = {2, 3}, .auto_pad = AutoPad::same_upper},
               .in = {{1, 1, 5, 7}, {2, 1, 4, 4}},
               .expect_shape = Shape{1, 2, 3, 3}})
OP_CASE(conv, {.attrs = ConvAttrs{.auto_pad = AutoPad::same_lower},
               .in = {{1, 1, 5, 4}, {2, 1, 4, 4}},
               .expect_shape = Shape{1, 2, 5, 4}})
OP_CASE(conv, {.attrs = ConvAttrs{.pads_begin = {3, 3}, .pads_end = {3, 3}},
               .in = {{1, 1, 2, 2}, {1, 1, 2, 2}}})
OP_CASE(conv,
        {.attrs = ConvAttrs{.strides = {1, 2, 1}, .pads_begin = {1, 0, 1}, .pads_end = {0, 1, 0}},
         .in = {{1, 2, 2, 4, 3}, {2, 2, 2, 3, 2}, {2}}})
OP_CASE(conv, {.attrs = ConvAttrs{.pads_begin = {1}, .pads_end = {1}},
               .in = {{1, 1, 300}, {1, 1, 3}},
               .grad = Grad::check})
OP_CASE(conv, {.in = {{0, 1, 5}, {2, 1, 3}}, .expect_shape = Shape{0, 2, 3}})
OP_REJECTS(conv, {.in = {{1, 3, 8, 8}, {4, 8, 3, 3}}}, "weight has 8 input channels, input has 3")
OP_REJECTS(conv, {.in = {{1, 3, 2}, {4, 3, 3}}}, "the kernel spans 3, the padded input only 2")

OP_CASE(conv_input_grad,
        {.attrs = ConvGradAttrs{{6},
                                {.strides = {2}, .pads_begin = {1}, .pads_end = {0}, .groups = 2}},
         .in = {{2, 4, 3}, {4, 1, 3}}})
OP_CASE(conv_input_grad,
        {.attrs = ConvGradAttrs{{4, 5}, {.dilations = {1, 2}}}, .in = {{1, 3, 2, 3}, {3, 2, 3, 2}}})
OP_CASE(conv_input_grad, {.attrs = ConvGradAttrs{{300}, {.strides = {2}}},
                          .in = {{1, 1, 149}, {1, 1, 3}},
                          .grad = Grad::check})
OP_REJECTS(conv_input_grad, {.attrs = ConvGradAttrs{{6}, {}}, .in = {{2, 4, 3}, {4, 1, 3}}},
           "expected [2, 4, 4]")
OP_REJECTS(conv_input_grad, {.attrs = ConvGradAttrs{{6}, {}}, .in = {{2, 4, 4}, {5, 1, 3}}},
           "weight has 5 output channels")

OP_CASE(conv_weight_grad,
        {.attrs = ConvGradAttrs{{3},
                                {.strides = {2}, .pads_begin = {1}, .pads_end = {0}, .groups = 2}},
         .in = {{2, 2, 6}, {2, 4, 3}}})
OP_CASE(conv_weight_grad,
        {.attrs = ConvGradAttrs{{3, 2}, {.dilations = {1, 2}}}, .in = {{2, 2, 4, 5}, {2, 3, 2, 3}}})
OP_CASE(conv_weight_grad, {.attrs = ConvGradAttrs{{1, 1}, {}},
                           .in = {{2, 2, 4, 5}, {2, 3, 4, 5}},
                           .grad = Grad::check})
OP_REJECTS(conv_weight_grad, {.attrs = ConvGradAttrs{{3}, {}}, .in = {{2, 2, 6}, {2, 4, 3}}},
           "expected [2, 4, 4]")

OP_CASE(conv_transpose, {.attrs = ConvTransposeAttrs{.conv = {.strides = {2}}},
                         .in = {In::of({1, 1, 2}, {1, 2}), In::of({1, 1, 2}, {3, 4})},
                         .expect = {{3, 4, 6, 8}}})  // C20a
OP_CASE(conv_transpose, {.in = {{1, 2, 3, 2}, {2, 3, 2, 2}, {3}}})
OP_CASE(conv_transpose, {.attrs = ConvTransposeAttrs{.conv = {.strides = {2, 1},
                                                              .dilations = {1, 2},
                                                              .pads_begin = {1, 0},
                                                              .pads_end = {0, 1},
                                                              .groups = 2},
                                                     .output_padding = {1, 0}},
                         .in = {{1, 4, 3, 2}, {4, 1, 3, 2}, {2}}})
OP_CASE(conv_transpose,
        {.attrs = ConvTransposeAttrs{.output_padding = {2}}, .in = {{1, 2, 3}, {2, 3, 2}, {3}}})
OP_CASE(conv_transpose, {.attrs = ConvTransposeAttrs{.conv = {.strides = {2}}, .output_shape = {2}},
                         .in = {In::of({1, 1, 2}, {1, 10}), In::of({1, 1, 3}, {1, 2, 3})},
                         .expect = {{13, 20}}})
OP_CASE(conv_transpose,
        {.attrs = ConvTransposeAttrs{.conv = {.strides = {2}, .auto_pad = AutoPad::same_upper}},
         .in = {{1, 2, 4}, {2, 3, 3}},
         .expect_shape = Shape{1, 3, 8}})
OP_REJECTS(conv_transpose, {.in = {{1, 3, 4}, {2, 3, 3}}},
           "weight has 2 input channels, input has 3")
OP_REJECTS(conv_transpose,
           {.attrs = ConvTransposeAttrs{.output_shape = {4, 4}}, .in = {{1, 2, 4}, {2, 3, 3}}},
           "output_shape has 2 entries for 1 spatial axes")
