// SPDX-License-Identifier: Apache-2.0
// Cases for norms over windows, sampling, regions, deformable convolution, einsum and determinants.
#include <cmath>

#include "hone/vision_attrs.hpp"
#include "tests/ops/op_case.hpp"

using namespace hone;
using hone::test::Grad;
using hone::test::In;

namespace {
EinsumAttrs sum_of(std::string equation) { return {std::move(equation)}; }
const PoolAttrs kPool{
    .kernel = {2, 2}, .strides = {2, 1}, .pads_begin = {1, 0}, .pads_end = {0, 1}};
const Col2ImAttrs kBlocks{.image = {4, 5},
                          .block = {2, 3},
                          .strides = {2, 1},
                          .dilations = {1, 2},
                          .pads_begin = {0, 1},
                          .pads_end = {0, 1}};
DeformConvAttrs deform(int64_t groups, int64_t offset_groups) {
  DeformConvAttrs a;
  a.kernel = {2, 2};
  a.conv.strides = {2, 1};
  a.conv.pads_begin = {1, 0};
  a.conv.groups = groups;
  a.offset_groups = offset_groups;
  return a;
}
}  // namespace

OP_CASE(lp_pool, {.attrs = LpPoolAttrs{2, kPool}, .in = {{1, 2, 3, 4}}})
OP_CASE(lp_pool, {.attrs = LpPoolAttrs{1, kPool}, .in = {{1, 1, 3, 4}}})
OP_CASE(lp_pool, {.attrs = LpPoolAttrs{3, {.kernel = {2}, .strides = {2}, .ceil_mode = true}},
                  .in = {{1, 1, 5}},
                  .tol_grad = 1e-5})
OP_CASE(lp_pool, {.attrs = LpPoolAttrs{2, {.kernel = {2}}},
                  .in = {In::of({1, 1, 3}, {3, 4, 0})},
                  .expect = {{5, 4}}})
OP_REJECTS(lp_pool, {.attrs = LpPoolAttrs{0, kPool}, .in = {{1, 2, 3, 4}}}, "expected at least 1")
OP_CASE(global_lp_pool, {.in = {{2, 2, 3, 2}}, .expect_shape = Shape{2, 2, 1, 1}})
OP_CASE(global_lp_pool, {.attrs = NormOrderAttrs{1}, .in = {{1, 2, 3}}})
OP_CASE(lrn, {.attrs = LrnAttrs{.size = 3, .alpha = 0.5}, .in = {{2, 5, 2, 2}}})
OP_CASE(lrn,
        {.attrs = LrnAttrs{.size = 2, .alpha = 0.3, .beta = 0.5, .bias = 2}, .in = {{1, 3, 4}}})
OP_REJECTS(lrn, {.attrs = LrnAttrs{.size = 0}, .in = {{1, 3, 4}}}, "the size is 0")
OP_CASE(lp_norm, {.in = {{3, 4}}})
OP_CASE(lp_norm, {.attrs = LpNormAttrs{0, 1}, .in = {{3, 4}}})
OP_CASE(lp_norm,
        {.in = {In::of({2, 2}, {3, 4, 0, 0})}, .grad = Grad::skip, .expect = {{0.6, 0.8, 0, 0}}})
OP_REJECTS(lp_norm, {.attrs = LpNormAttrs{0, 3}, .in = {{3, 4}}}, "expected 1 or 2")
OP_CASE(mean_variance_norm, {.attrs = AxesAttrs{{0, 2}}, .in = {{3, 2, 4}}})

OP_CASE(max_pool_indices, {.attrs = MaxPoolIndicesAttrs{kPool}, .in = {{1, 2, 3, 4}}})
OP_CASE(max_pool_indices,
        {.attrs = MaxPoolIndicesAttrs{{.kernel = {2, 2}, .strides = {2, 2}}, true},
         .in = {In::of({1, 1, 2, 4}, {1, 5, 2, 0, 3, 4, 9, 7})},
         .expect = {{5, 9}, {2, 5}}})
OP_CASE(max_unpool, {.attrs = MaxUnpoolAttrs{.kernel = {2}, .strides = {2}},
                     .in = {In::of({1, 1, 2}, {5, 6}), In::typed(DType::i64, {1, 1, 2}, {1, 2})},
                     .expect = {{0, 5, 6, 0}}})
OP_CASE(max_unpool,
        {.attrs = MaxUnpoolAttrs{.kernel = {2}, .strides = {2}},
         .in = {{2, 1, 2}, In::typed(DType::i64, {2, 1, 2}, {1, 2, 4, 7}), In::ints({2, 1, 5})},
         .expect_shape = Shape{2, 1, 5}})
OP_REJECTS(max_unpool,
           {.attrs = MaxUnpoolAttrs{.kernel = {2}, .strides = {int64_t{1} << 62}},
            .in = {{1, 1, 2}, In::typed(DType::i64, {1, 1, 2}, {1, 2})}},
           "a kernel, stride or pad is")
OP_REJECTS(max_unpool,
           {.attrs = MaxUnpoolAttrs{.kernel = {2}, .strides = {2}},
            .in = {{1, 1, 2}, In::typed(DType::i64, {1, 2, 1}, {1, 2})}},
           "differ in shape")

OP_CASE(col2im, {.attrs = kBlocks, .in = {{2, 12, 6}}, .expect_shape = Shape{2, 2, 4, 5}})
OP_CASE(col2im, {.attrs = Col2ImAttrs{.image = {3, 2, 2}, .block = {2, 1, 2}}, .in = {{1, 4, 4}}})
OP_CASE(col2im_dyn, {.attrs = Col2ImAttrs{.strides = {2}},
                     .in = {{1, 4, 2}, In::ints({4}), In::ints({2})},
                     .expect_shape = Shape{1, 2, 4}})
OP_CASE(im2col, {.attrs = kBlocks, .in = {{2, 2, 4, 5}}})
OP_REJECTS(col2im,
           {.attrs = Col2ImAttrs{.image = {int64_t{1} << 40}, .block = {1}}, .in = {{1, 1, 1}}},
           "an extent, stride or dilation is")
OP_REJECTS(col2im, {.attrs = kBlocks, .in = {{2, 12, 5}}}, "expected (N, C * 6, 6)")

OP_CASE(einsum, {.attrs = sum_of("ij,jk->ik"), .in = {{2, 3}, {3, 4}}})
OP_CASE(einsum, {.attrs = sum_of("bij, bjk -> bki"), .in = {{2, 2, 3}, {2, 3, 4}}})
OP_CASE(einsum, {.attrs = sum_of("...ij,...jk->...ik"), .in = {{2, 1, 2, 3}, {3, 3, 2}}})
OP_CASE(einsum,
        {.attrs = sum_of("ii->i"), .in = {In::of({2, 2}, {1, 2, 3, 4})}, .expect = {{1, 4}}})
OP_CASE(einsum, {.attrs = sum_of("ii"), .in = {In::of({2, 2}, {1, 2, 3, 4})}, .expect = {{5}}})
OP_CASE(einsum, {.attrs = sum_of("...ii->...i"), .in = {{2, 3, 3}}})
OP_CASE(einsum,
        {.attrs = sum_of("ba"), .in = {In::of({1, 3}, {1, 2, 3})}, .expect_shape = Shape{3, 1}})
OP_CASE(einsum, {.attrs = sum_of("i,i"),
                 .in = {In::of({2}, {1, 2}), In::of({2}, {3, 4})},
                 .expect = {{11}}})
OP_CASE(einsum, {.attrs = sum_of("i,j->ij"), .in = {{2}, {3}}})
OP_CASE(einsum, {.attrs = sum_of("ij->"), .in = {{2, 3}}})
OP_CASE(einsum, {.attrs = sum_of("ab,bc,cd->ad"), .in = {{2, 3}, {3, 2}, {2, 4}}})
OP_CASE(einsum, {.attrs = sum_of("bhqd,bhkd->bhqk"), .in = {{1, 2, 2, 3}, {1, 2, 4, 3}}})
OP_CASE(einsum, {.attrs = sum_of("abc,bd,ace->de"), .in = {{2, 3, 2}, {3, 2}, {2, 2, 3}}})
OP_REJECTS(einsum,
           {.attrs = sum_of("abcde,fghij,abcde,fghij->"),
            .in = {{1, 1, 1, 1, 1}, {1, 1, 1, 1, 1}, {1, 1, 1, 1, 1}, {1, 1, 1, 1, 1}}},
           "more than 8")
OP_REJECTS(einsum, {.attrs = sum_of("ij,jk->ik"), .in = {{2, 3}, {4, 4}}}, "extents 3 and 4")
OP_REJECTS(einsum, {.attrs = sum_of("ij->k"), .in = {{2, 3}}}, "one of its own")
OP_REJECTS(einsum, {.attrs = sum_of("ij"), .in = {{2, 3, 4}}}, "does not fit 3 axes")
OP_REJECTS(einsum, {.attrs = sum_of("i,j"), .in = {{2}}}, "more terms than operands")

OP_CASE(det, {.in = {In::of({2, 2}, {1, 2, 3, 4})}, .expect = {{-2}}})
OP_CASE(det, {.in = {{2, 3, 3}}, .tol = 1e-4, .tol_f16 = 2e-2})
OP_CASE(matrix_inverse, {.in = {In::of({2, 2}, {0, 2, 4, 0})}, .expect = {{0, 0.25, 0.5, 0}}})
OP_CASE(matrix_inverse, {.in = {In::of({3, 3}, {4, 1, 0, -1, 3, 1, 0.5, -1, 5})}, .tol_f16 = 2e-2})
OP_REJECTS(det, {.in = {{2, 3}}}, "is no square matrix")

#define GRID_CASE(mode_, padding_, corners_)                                               \
  OP_CASE(grid_sample,                                                                     \
          {.attrs = GridSampleAttrs{SampleMode::mode_, SamplePadding::padding_, corners_}, \
           .in = {{2, 2, 4, 3}, In::within({2, 3, 2, 2}, -1.4, 1.4)},                      \
           .grad = Grad::check,                                                            \
           .tol_f16 = 3e-2})
// One line each: cases are told apart by their lines.
GRID_CASE(linear, zeros, false)
GRID_CASE(linear, zeros, true)
GRID_CASE(linear, border, false)
GRID_CASE(linear, border, true)
GRID_CASE(linear, reflection, false)
GRID_CASE(linear, reflection, true)
GRID_CASE(cubic, zeros, false)
GRID_CASE(cubic, border, true)
GRID_CASE(cubic, reflection, false)
OP_CASE(grid_sample, {.attrs = GridSampleAttrs{.mode = SampleMode::nearest},
                      .in = {In::of({1, 1, 2, 2}, {1, 2, 3, 4}),
                             In::of({1, 1, 3, 2}, {-0.5, -0.5, 0.5, -0.4, 0.4, 0.6})},
                      .grad = Grad::check,
                      .expect = {{1, 2, 4}}})
OP_CASE(grid_sample, {.in = {{1, 2, 2, 3, 2}, In::within({1, 2, 1, 2, 3}, -1.1, 1.1)},
                      .grad = Grad::check,
                      .tol_f16 = 3e-2})
OP_CASE(grid_sample_input_grad, {.attrs = GridSampleGradAttrs{{4, 3}, {}},
                                 .in = {{1, 2, 2, 2}, In::within({1, 2, 2, 2}, -1.2, 1.2)},
                                 .grad = Grad::check,
                                 .tol_f16 = 3e-2})
OP_CASE(grid_sample_grid_grad, {.in = {{1, 2, 2, 2}, {1, 2, 4, 3}, In::within({1, 2, 2, 2}, -1, 1)},
                                .tol = 1e-4,
                                .tol_f16 = 6e-1})
OP_REJECTS(grid_sample, {.in = {{1, 1, 2, 2}, {1, 2, 2, 3}}}, "expected (1, places.., 2)")
OP_REJECTS(grid_sample,
           {.attrs = GridSampleAttrs{.mode = SampleMode::cubic},
            .in = {{1, 1, 2, 2, 2}, {1, 2, 2, 2, 3}}},
           "cubic sampling takes 2 spatial axes")

OP_CASE(affine_grid, {.in = {{2, 2, 3}, In::ints({2, 1, 3, 2})}, .expect_shape = Shape{2, 3, 2, 2}})
OP_CASE(affine_grid, {.attrs = AffineGridAttrs{true}, .in = {{1, 3, 4}, In::ints({1, 1, 2, 2, 3})}})
OP_CASE(affine_grid, {.in = {In::of({1, 2, 3}, {1, 0, 0, 0, 1, 0}), In::ints({1, 1, 1, 2})},
                      .expect = {{-0.5, 0, 0.5, 0}}})
OP_REJECTS(affine_grid, {.in = {{1, 2, 3}, In::ints({1, 1, 1 << 20, 1 << 20})}}, "too large")
OP_REJECTS(affine_grid, {.in = {{2, 2, 3}, In::ints({1, 1, 3, 2})}}, "expected [1, 2, 3]")

OP_CASE(roi_align, {.attrs = RoiAlignAttrs{.height = 2, .width = 3, .sampling_ratio = 2},
                    .in = {{2, 2, 5, 6},
                           In::of({3, 4}, {0.5, 0.5, 4, 3, 1, 0, 5, 4, -1, -1, 2, 2}).as_constant(),
                           In::typed(DType::i64, {3}, {0, 1, 1})},
                    .grad = Grad::check,
                    .tol_f16 = 2e-2})
OP_CASE(roi_align,
        {.attrs = RoiAlignAttrs{.height = 2, .width = 2, .scale = 0.5, .half_pixel = false},
         .in = {{1, 2, 5, 5},
                In::of({1, 4}, {1, 1, 9, 7}).as_constant(),
                In::typed(DType::i64, {1}, {0})},
         .grad = Grad::check,
         .tol_f16 = 2e-2})
OP_CASE(roi_align, {.attrs = RoiAlignAttrs{.mode = RoiMode::max, .height = 2, .width = 2},
                    .in = {In::within({1, 1, 5, 5}, 0.5, 3),
                           In::of({1, 4}, {0.3, 0.2, 4.1, 4.3}).as_constant(),
                           In::typed(DType::i64, {1}, {0})},
                    .grad = Grad::check,
                    .tol_f16 = 2e-2})
OP_CASE(roi_align_grad, {.attrs = RoiAlignAttrs{.height = 2, .width = 2},
                         .in = {{1, 2, 2, 2},
                                {1, 2, 5, 5},
                                In::of({1, 4}, {0.25, 0.25, 4, 4.5}),
                                In::typed(DType::i64, {1}, {0})},
                         .tol_f16 = 2e-2})
OP_REJECTS(roi_align,
           {.in = {{1, 1, 4, 4}, In::of({1, 4}, {0, 0, 1, 1}), In::typed(DType::i64, {1}, {1})}},
           "region 0 lies in image 1 of 1")
OP_REJECTS(roi_align, {.in = {{1, 1, 4, 4}, {2, 4}, In::typed(DType::i64, {1}, {0})}},
           "expected [R, 4] and [R]")

// Offsets keep away from whole numbers, where the slope jumps.
OP_CASE(deform_conv,
        {.attrs = deform(1, 1),
         .in = {{2, 2, 4, 3}, {3, 2, 2, 2}, In::within({2, 8, 2, 2}, 0.1, 0.9), {3}, {2, 4, 2, 2}},
         .grad = Grad::check,
         .tol_f16 = 3e-2})
OP_CASE(deform_conv, {.attrs = deform(2, 2),
                      .in = {{1, 4, 4, 3}, {2, 2, 2, 2}, In::within({1, 16, 2, 2}, -0.9, -0.1)},
                      .grad = Grad::check,
                      .tol_f16 = 3e-2})
OP_CASE(deform_columns, {.attrs = deform(1, 2),
                         .in = {{1, 4, 4, 3}, In::within({1, 16, 2, 2}, 0.1, 0.9), {1, 8, 2, 2}},
                         .grad = Grad::check,
                         .tol_f16 = 3e-2})
OP_CASE(deform_columns_grad,
        {.attrs = deform(1, 1),
         .in = {{1, 2, 4, 3}, In::within({1, 8, 2, 2}, 0.1, 0.9), {1, 8, 4}, {1, 4, 2, 2}},
         .tol_f16 = 6e-2})
OP_REJECTS(deform_conv, {.attrs = deform(1, 1), .in = {{2, 2, 4, 3}, {3, 2, 2, 2}, {2, 8, 2, 3}}},
           "expected [2, 8, 2, 2]")
