// SPDX-License-Identifier: Apache-2.0
// TensorFlow Lite's convolutions, pooling and matrix products. Images and kernels have their
// channels last there; kernels are turned round when they are read.
#include <algorithm>

#include "core/import/tflite_ctx.hpp"
#include "hone/special_ops.hpp"
#include "hone/vision_attrs.hpp"

namespace hone::tflite {

namespace {

// TensorFlow's SAME puts the odd cell of padding at the end.
AutoPad auto_pad(ImportCtx& c, schema::Padding p) {
  if (p != schema::Padding::same && p != schema::Padding::valid)
    c.unsupported("with padding {}", static_cast<int>(p));
  return p == schema::Padding::same ? AutoPad::same_upper : AutoPad::none;
}

template <class Options>
ConvAttrs conv_attrs(ImportCtx& c, const Options& o) {
  ConvAttrs a;
  a.strides = {o.stride_h(), o.stride_w()};
  a.dilations = {o.dilation_h(), o.dilation_w()};
  a.auto_pad = auto_pad(c, o.padding());
  return a;
}

// Channels of the image, input i; 0, and a failure, when they are not known.
int64_t channels(ImportCtx& c, int i) {
  if (!c.require_rank(i, 4)) return 0;
  const int64_t n = c.extents(i)[3];
  if (n <= 0) c.fail("input {} has {} channels", i, n);
  return std::max<int64_t>(n, 0);
}

// (N, H, W, C), (M, kernel_h, kernel_w, C/groups), (M).
void import_conv(ImportCtx& c) {
  const auto* o = c.options<schema::Conv2DOptions>();
  if (!o || !c.require(2) || !c.require_rank(1, 4)) return;
  ConvAttrs attrs = conv_attrs(c, *o);
  const int64_t all = channels(c, 0), each = c.extents(1)[3];
  if (each <= 0 || all % each != 0)
    return c.fail("{} channels do not split into groups of {}", all, each);
  if (all == 0) return;
  attrs.groups = all / each;
  const Value y =
      c.emit(op::conv, {c.channels_first(0), c.weight(1, {0, 3, 1, 2}), c.bias(2, 0, 1)}, attrs);
  c.set_channels_first(0, c.activate(y, o->activation()));
}

// (N, H, W, C), (1, kernel_h, kernel_w, C * multiplier): output channel c * multiplier + m is of
// input channel c, as in a convolution of C groups.
void import_depthwise_conv(ImportCtx& c) {
  const auto* o = c.options<schema::DepthwiseConv2DOptions>();
  if (!o || !c.require(2)) return;
  ConvAttrs attrs = conv_attrs(c, *o);
  attrs.groups = channels(c, 0);
  if (attrs.groups == 0) return;
  const Value y =
      c.emit(op::conv, {c.channels_first(0), c.weight(1, {3, 0, 1, 2}), c.bias(2, 0, 1)}, attrs);
  c.set_channels_first(0, c.activate(y, o->activation()));
}

constexpr int64_t kLargest = (int64_t{1} << 31) - 1;  // of an extent in the file

// Padding of one axis of a transposed convolution: of the whole of what the windows reach, what the
// given extent has less is cut off, the odd cell at the end.
struct Cut {
  int64_t begin = 0, end = 0, added = 0;
};
Cut cut(int64_t reach_beyond) {
  if (reach_beyond < 0) return {0, 0, -reach_beyond};
  return {reach_beyond / 2, reach_beyond - reach_beyond / 2, 0};
}

// Inputs: shape of the output, (M, kernel_h, kernel_w, C), (N, H, W, C), (M). An output of SAME has
// between (H - 1) * stride + 1 and H * stride rows; what is not said is the latter.
void import_transpose_conv(ImportCtx& c) {
  const auto* o = c.options<schema::TransposeConvOptions>();
  if (!o || !c.require(3) || !c.require_rank(1, 4) || !c.require_rank(2, 4)) return;
  const std::vector<int64_t> kernel = c.extents(1), x = c.extents(2);
  if (std::max(x[1], x[2]) > kLargest) return c.fail("an image of {} x {}", x[1], x[2]);
  const auto given = c.ints(0);
  if (given && given->size() != 4)
    return c.fail("the shape of the output has {} extents, expected 4", given->size());
  if (given &&
      (std::min((*given)[1], (*given)[2]) < 1 || std::max((*given)[1], (*given)[2]) > kLargest))
    return c.fail("the output is to be {} x {}", (*given)[1], (*given)[2]);
  ConvTransposeAttrs attrs;
  attrs.conv.strides = {o->stride_h(), o->stride_w()};
  const bool same = auto_pad(c, o->padding()) == AutoPad::same_upper;
  for (size_t k = 0; k < 2; ++k) {
    const int64_t stride = attrs.conv.strides[k], in = x[k + 1];
    int64_t beyond = same ? kernel[k + 1] - stride : std::min<int64_t>(kernel[k + 1] - stride, 0);
    if (given && in > 0) beyond = (in - 1) * stride + kernel[k + 1] - (*given)[k + 1];
    const Cut p = cut(beyond);
    attrs.conv.pads_begin.push_back(p.begin);
    attrs.conv.pads_end.push_back(p.end);
    attrs.output_padding.push_back(p.added);
  }
  const Value y = c.emit(op::conv_transpose,
                         {c.channels_first(2), c.weight(1, {3, 0, 1, 2}), c.bias(3, 2, 1)}, attrs);
  c.set_channels_first(0, c.activate(y, o->activation()));
}

// An average is over the cells inside of the image.
void import_pool(ImportCtx& c) {
  const auto* o = c.options<schema::Pool2DOptions>();
  if (!o || !c.require(1) || !c.require_rank(0, 4)) return;
  PoolAttrs attrs;
  attrs.kernel = {o->filter_h(), o->filter_w()};
  attrs.strides = {o->stride_h(), o->stride_w()};
  attrs.auto_pad = auto_pad(c, o->padding());
  const Value y = c.emit(*c.rule.op, {c.channels_first(0)}, attrs);
  c.set_channels_first(0, c.activate(y, o->activation()));
}

// The sum is over 2 radius + 1 channels; ONNX, whose meaning lrn has, divides alpha by that.
void import_local_response_normalization(ImportCtx& c) {
  const auto* o = c.options<schema::LocalResponseNormalizationOptions>();
  if (!o || !c.require(1) || !c.require_rank(0, 4)) return;
  LrnAttrs attrs;
  attrs.size = 2 * int64_t{o->radius()} + 1;
  attrs.alpha = static_cast<double>(o->alpha()) * static_cast<double>(attrs.size);
  attrs.beta = static_cast<double>(o->beta());
  attrs.bias = static_cast<double>(o->bias());
  c.set_channels_first(0, c.emit(op::lrn, {c.channels_first(0)}, attrs));
}

// (.., I), (O, I), (O). Unless told to keep them, all axes before the last are one in the output;
// the last axis of the input need not be I as long as the elements suffice for whole rows.
void import_fully_connected(ImportCtx& c) {
  const auto* o = c.options<schema::FullyConnectedOptions>();
  if (!o || !c.require(2) || !c.require_rank(1, 2)) return;
  if (o->weights_format() != 0) return c.unsupported("with shuffled weights");
  const int64_t width = c.extents(1)[1];
  if (width <= 0) return c.fail("the weight has rows of {}", width);
  Value x = c.in(0);
  const std::vector<int64_t> from = c.extents(0);
  const bool is_matrix = from.size() == 2 && from[1] == width;
  const Value bias = c.bias(2, 0, 1);
  Value y;
  if (o->keep_num_dims() && from.size() != 2) {
    y = c.emit(op::matmul, {x, c.in(1)}, MatmulAttrs{false, true});
    if (c.has(2)) y = c.emit(op::add, {y, bias});
  } else {
    if (!is_matrix) x = c.emit(op::reshape, {x}, ShapeAttrs{{-1, width}, true});
    y = c.emit(op::gemm, {x, c.in(1), bias}, GemmAttrs{1, 1, false, true});
  }
  c.set(0, c.activate(y, o->activation()));
}

void import_batch_matmul(ImportCtx& c) {
  const auto* o = c.options<schema::BatchMatMulOptions>();
  if (o && c.require(2))
    c.set(0, c.emit(op::matmul, {c.in(0), c.in(1)}, MatmulAttrs{o->adj_x(), o->adj_y()}));
}

constexpr ImportRule kImports[] = {
    {Builtin::AVERAGE_POOL_2D, import_pool, &op::avg_pool},
    {Builtin::BATCH_MATMUL, import_batch_matmul},
    {Builtin::CONV_2D, import_conv},
    {Builtin::DEPTHWISE_CONV_2D, import_depthwise_conv},
    {Builtin::FULLY_CONNECTED, import_fully_connected},
    {Builtin::LOCAL_RESPONSE_NORMALIZATION, import_local_response_normalization},
    {Builtin::MAX_POOL_2D, import_pool, &op::max_pool, Elements::picked},
    {Builtin::TRANSPOSE_CONV, import_transpose_conv},
};

}  // namespace

std::span<const ImportRule> linear_imports() { return kImports; }

}  // namespace hone::tflite
