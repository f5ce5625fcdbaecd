// SPDX-License-Identifier: Apache-2.0
// Cases for quantization. The expected numbers can be followed by hand.
#include <cmath>

#include "hone/op_attrs_quantize.hpp"
#include "tests/ops/op_case.hpp"

using namespace hone;
using hone::test::Grad;
using hone::test::In;

namespace {
In u8(const Shape& shape, std::vector<double> v) {
  return In::typed(DType::u8, shape, std::move(v));
}
In i8(const Shape& shape, std::vector<double> v) {
  return In::typed(DType::i8, shape, std::move(v));
}
In f32(const Shape& shape, std::vector<double> v) {
  return In::typed(DType::f32, shape, std::move(v));
}
}  // namespace

// C12: int8 reaches -128, and ties go to the even neighbour on both sides of zero.
OP_CASE(quantize_linear,
        {.in = {f32({11}, {-129, -128, -127, -126, 126, 127, 128, 0.5, 1.5, 2.5, -0.5}),
                f32({}, {1}), i8({}, {0})},
         .dtype = DType::f32,
         .expect = {{-128, -128, -127, -126, 126, 127, 127, 0, 2, 2, 0}}})
// Ties go to the even neighbour, what does not fit to the end of the range.
OP_CASE(quantize_linear,
        {.in = {f32({6}, {1, 3, 5, 1000, -254, -1000}), f32({}, {2}), u8({}, {128})},
         .dtype = DType::f32,
         .expect = {{128, 130, 130, 255, 1, 0}}})
OP_CASE(quantize_linear, {.attrs = QuantizeAttrs{0, 0, DType::i8},
                          .in = {f32({2, 2}, {1, 2, 30, -400}), f32({2}, {0.5, 3})},
                          .dtype = DType::f32,
                          .expect = {{2, 4, 10, -128}}})
OP_CASE(quantize_linear, {.attrs = QuantizeAttrs{1, 2, DType::u8},
                          .in = {f32({1, 3}, {2, 4, 9}), f32({1, 2}, {2, 3}), u8({1, 2}, {0, 1})},
                          .dtype = DType::f32,
                          .expect = {{1, 2, 4}}})
OP_CASE(dequantize_linear, {.in = {u8({3}, {0, 3, 255}), f32({}, {2}), u8({}, {128})},
                            .dtype = DType::f32,
                            .expect = {{-256, -250, 254}}})
OP_CASE(dequantize_linear, {.attrs = QuantizeAttrs{1, 0, DType::u8},
                            .in = {i8({2, 2}, {1, 2, 3, -4}), {2}},
                            .expect_shape = Shape{2, 2}})
OP_CASE(dequantize_linear,
        {.attrs = QuantizeAttrs{0, 2, DType::u8},
         .in = {In::typed(DType::i32, {3, 1}, {10, 20, 30}), f32({2, 1}, {2, 0.5})},
         .dtype = DType::f32,
         .expect = {{20, 40, 15}}})
OP_CASE(dynamic_quantize_linear, {.in = {f32({3}, {0, 51, -204})},
                                  .dtype = DType::f32,
                                  .expect = {{204, 255, 0}, {1}, {204}}})
OP_CASE(dynamic_quantize_linear,
        {.in = {f32({2}, {0, 0})}, .dtype = DType::f32, .expect = {{0, 0}, {1}, {0}}})
// C14: so is a range too small to be divided by 255; a block of zeros is zeros whatever its scale.
OP_CASE(dynamic_quantize_linear,
        {.in = {f32({2}, {0, 1e-45})}, .dtype = DType::f32, .expect = {{0, 0}, {1}, {0}}})
OP_CASE(quantize_linear, {.attrs = QuantizeAttrs{1, 2, DType::i8},
                          .in = {f32({1, 4}, {0, 0, 2, -3}), f32({1, 2}, {0, 1})},
                          .dtype = DType::f32,
                          .expect = {{0, 0, 2, -3}}})
OP_CASE(dequantize_linear, {.attrs = QuantizeAttrs{1, 2, DType::u8},
                            .in = {i8({1, 4}, {0, 0, 2, -3}), f32({1, 2}, {0, 1})},
                            .dtype = DType::f32,
                            .expect = {{0, 0, 2, -3}}})
// Narrow integers end where their own range does, and a zero point may be one number in its own
// way.
OP_CASE(quantize_linear, {.attrs = QuantizeAttrs{.narrow = NarrowType::int4},
                          .in = {f32({6}, {-20, -17, -1, 5, 13, 99}), f32({}, {2}), i8({1}, {1})},
                          .dtype = DType::f32,
                          .expect = {{-8, -7, 1, 3, 7, 7}}})
OP_CASE(quantize_linear, {.attrs = QuantizeAttrs{0, 2, DType::u8, NarrowType::uint4},
                          .in = {f32({4}, {-3, 7, 30, 60}), f32({2}, {1, 4})},
                          .dtype = DType::f32,
                          .expect = {{0, 7, 8, 15}}})
OP_CASE(quantize_linear, {.attrs = QuantizeAttrs{.narrow = NarrowType::uint2},
                          .in = {f32({3}, {-1, 2, 9}), f32({}, {1}), u8({}, {0})},
                          .dtype = DType::f32,
                          .expect = {{0, 2, 3}}})
OP_CASE(quantize_linear, {.attrs = QuantizeAttrs{.to = DType::i8, .narrow = NarrowType::int2},
                          .in = {f32({3}, {-9, -1, 9}), f32({}, {1})},
                          .dtype = DType::f32,
                          .expect = {{-2, -1, 1}}})
OP_CASE(quantize_linear,
        {.attrs = QuantizeAttrs{.narrow = NarrowType::int16},
         .in = {f32({3}, {-1e9, 3, 1e9}), f32({}, {2}), In::typed(DType::i32, {}, {-100})},
         .dtype = DType::f32,
         .expect = {{-32768, -98, 32767}}})
OP_CASE(quantize_linear,
        {.attrs = QuantizeAttrs{.narrow = NarrowType::uint16},
         .in = {f32({3}, {-1e9, 3, 1e9}), f32({}, {1}), In::typed(DType::i32, {}, {40000})},
         .dtype = DType::f32,
         .expect = {{0, 40003, 65535}}})
OP_CASE(dequantize_linear, {.attrs = QuantizeAttrs{1, 0, DType::u8, NarrowType::int4},
                            .in = {i8({2, 2}, {-8, 7, 0, 1}), f32({2}, {2, 0.5}), i8({2}, {1, -1})},
                            .dtype = DType::f32,
                            .expect = {{-18, 4, -2, 1}}})
OP_REJECTS(quantize_linear,
           {.attrs = QuantizeAttrs{.narrow = NarrowType::int4},
            .in = {{3}, f32({}, {1}), u8({}, {0})}},
           "int4 is held as i8, not u8")
OP_REJECTS(quantize_linear, {.in = {{3}, f32({}, {1}), In::typed(DType::i32, {}, {0})}},
           "gives i8 or u8, not i32")
OP_REJECTS(dequantize_linear,
           {.attrs = QuantizeAttrs{.narrow = NarrowType::uint16},
            .in = {i8({3}, {1, 2, 3}), f32({}, {1})}},
           "uint16 is held as i32, not i8")
OP_CASE(matmul_integer,
        {.in = {u8({2, 2}, {11, 7, 3, 10}), i8({2, 1}, {1, -4}), u8({}, {10}), i8({}, {2})},
         .expect = {{-1 * 1 + -3 * -6 + 0, 7 * 1}}})
OP_CASE(conv_integer, {.attrs = ConvAttrs{.pads_begin = {1}, .pads_end = {0}},
                       .in = {u8({1, 1, 3}, {2, 3, 4}), u8({1, 1, 2}, {1, 2}), u8({}, {1})},
                       .expect = {{2, 5, 8}}})
OP_CASE(qlinear_matmul,
        {.in = {u8({1, 2}, {3, 5}), f32({}, {0.5}), u8({}, {1}), i8({2, 1}, {4, -1}),
                f32({}, {0.25}), i8({}, {0}), f32({}, {0.5}), u8({}, {100})},
         .expect = {{101}}})
OP_CASE(qlinear_conv, {.in = {u8({1, 1, 2}, {3, 5}), f32({}, {0.5}), u8({}, {1}),
                              i8({2, 1, 1}, {4, -100}), f32({2}, {0.25, 1}), i8({2}, {0, 0}),
                              f32({}, {0.5}), u8({}, {100}), In::typed(DType::i32, {2}, {0, 8})},
                       .expect = {{102, 104, 0, 0}}})

OP_REJECTS(quantize_linear, {.in = {f32({2, 3}, {0, 0, 0, 0, 0, 0}), f32({2}, {1, 1})}},
           "3 of them for axis 1")
OP_REJECTS(quantize_linear, {.in = {f32({1}, {0}), f32({}, {1}), In::typed(DType::i32, {}, {0})}},
           "gives i8 or u8")
OP_REJECTS(dequantize_linear, {.in = {f32({1}, {0}), f32({}, {1})}}, "expected i8, u8 or i32")
OP_REJECTS(dequantize_linear, {.in = {u8({1}, {0}), f32({}, {1}), i8({}, {0})}}, "one dtype")
OP_REJECTS(dynamic_quantize_linear, {.in = {{2}}}, "expected f32")
OP_REJECTS(matmul_integer, {.in = {{2, 2}, {2, 2}}}, "expected i8 or u8")
OP_REJECTS(matmul_integer, {.in = {u8({1, 2}, {0, 0}), u8({1, 2}, {0, 0})}}, "2 columns")
OP_REJECTS(conv_integer, {.in = {u8({1, 1, 2}, {0, 0}), u8({1, 1, 1}, {0}), u8({2}, {0, 0})}},
           "one number")
OP_REJECTS(qlinear_conv,
           {.in = {u8({1, 1, 1}, {0}), f32({2}, {1, 1}), u8({}, {0}), u8({1, 1, 1}, {0}),
                   f32({}, {1}), u8({}, {0}), f32({}, {1}), u8({}, {0})}},
           "expected one number")
OP_REJECTS(qlinear_matmul,
           {.in = {u8({1, 1}, {0}),
                   f32({}, {1}),
                   u8({}, {0}),
                   u8({1, 1}, {0}),
                   f32({}, {1}),
                   u8({}, {0}),
                   f32({}, {1}),
                   {}}},
           "expected i8 or u8")
