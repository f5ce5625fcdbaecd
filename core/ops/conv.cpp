// SPDX-License-Identifier: Apache-2.0
// Convolution of one to three spatial axes and its two adjoints. The three are linear in each
// operand and are each other's derivatives, so gradients of any order stay among them.
#include <algorithm>

#include "core/ops/conv_kernels.hpp"
#include "hone/ops.hpp"
#include "hone/window.hpp"

namespace hone {

namespace {

// x (N, C, spatial..) and w (M, C/groups, kernel..), or a pair of such for a gradient.
Status check_pair(const InferCtx& c) {
  if (!is_float(c.dtype(0))) return c.error("takes floating-point tensors, got {}", c.in(0));
  if (c.dtype(1) != c.dtype(0))
    return c.error("operands have one dtype, got {} and {}", c.in(0), c.in(1));
  for (int i = 0; i < 2; ++i)
    if (c.shape(i).rank() < 3 || c.shape(i).rank() != c.shape(0).rank())
      return c.error("operands are {} and {}, expected the same 3 to 5 axes", c.in(0), c.in(1));
  return {};
}

Status check_groups(const InferCtx& c, int64_t groups, int64_t in_channels, int64_t weight_channels,
                    int64_t out_channels) {
  if (groups < 1) return c.error("groups is {}", groups);
  if (out_channels % groups != 0)
    return c.error("{} output channels do not split into {} groups", out_channels, groups);
  if (in_channels % groups == 0 && in_channels / groups == weight_channels) return {};
  if (groups == 1)
    return c.error("weight has {} input channels, input has {}", weight_channels, in_channels);
  return c.error("weight has {} input channels for each of {} groups, input has {}",
                 weight_channels, groups, in_channels);
}

Status check_bias(const InferCtx& c, int64_t channels) {
  if (!c.has(2)) return {};
  if (c.dtype(2) != c.dtype(0)) return c.error("bias is {}, the input {}", c.dtype(2), c.dtype(0));
  if (c.shape(2) == Shape{channels}) return {};
  return c.error("bias is {}, expected one value for each of {} output channels", c.shape(2),
                 channels);
}

Shape with_channels(int64_t batch, int64_t channels, std::span<const int64_t> spatial) {
  Shape s = {batch, channels};
  for (int64_t extent : spatial) s.push_back(extent);
  return s;
}

Shape out_shape(int64_t batch, int64_t channels, const Window& w) {
  Shape s = {batch, channels};
  for (int k = 0; k < w.rank; ++k) s.push_back(w.spatial(k).out);
  return s;
}

std::vector<int64_t> spatial_list(Value v) {
  const auto s = spatial_of(v.shape());
  return {s.begin(), s.end()};
}

Value conv_input_grad(Value gy, Value w, std::vector<int64_t> spatial, const ConvAttrs& attrs) {
  return gy.valid() ? gy.builder().emit(op::conv_input_grad, {gy, w},
                                        ConvGradAttrs{std::move(spatial), attrs})
                    : gy;
}
Value conv_weight_grad(Value x, Value gy, std::vector<int64_t> kernel, const ConvAttrs& attrs) {
  return x.valid() ? x.builder().emit(op::conv_weight_grad, {x, gy},
                                      ConvGradAttrs{std::move(kernel), attrs})
                   : x;
}
Value conv(Value x, Value w, const ConvAttrs& attrs) {
  return x.valid() ? x.builder().emit(op::conv, {x, w}, attrs) : x;
}

double product(int64_t a, int64_t b, int64_t c) {
  return 2.0 * static_cast<double>(a) * static_cast<double>(b) * static_cast<double>(c);
}

Status infer_conv(InferCtx& c) {
  const ConvAttrs& attrs = c.attrs<ConvAttrs>();
  HONE_TRY(check_pair(c));
  const Shape &x = c.shape(0), &w = c.shape(1);
  HONE_TRY(check_groups(c, attrs.groups, x[1], w[1], w[0]));
  HONE_TRY(check_bias(c, w[0]));
  const auto window = conv_window(attrs, spatial_of(x), spatial_of(w));
  if (!window.ok()) return window.status().with_context(c.who());
  c.out(c.dtype(0), out_shape(x[0], w[0], *window));
  return {};
}

void grad_conv(GradCtx& c) {
  const ConvAttrs attrs = c.attrs<ConvAttrs>();
  const Value x = c.in(0), w = c.in(1), gy = c.out_grad(0);
  if (c.needs(0)) c.set(0, conv_input_grad(gy, w, spatial_list(x), attrs));
  if (c.needs(1)) c.set(1, conv_weight_grad(x, gy, spatial_list(w), attrs));
  if (!c.needs(2)) return;
  ReduceAttrs all_but_channels{{0}, false};
  for (int i = 2; i < gy.shape().rank(); ++i) all_but_channels.axes.push_back(i);
  c.set(2, ops::sum(gy, all_but_channels));
}

Status infer_conv_input_grad(InferCtx& c) {
  const ConvGradAttrs& attrs = c.attrs<ConvGradAttrs>();
  HONE_TRY(check_pair(c));
  const Shape &gy = c.shape(0), &w = c.shape(1);
  const int64_t groups = attrs.conv.groups;
  if (groups < 1 || w[0] % groups != 0)
    return c.error("{} output channels do not split into {} groups", w[0], groups);
  if (gy[1] != w[0])
    return c.error("weight has {} output channels, the output's gradient {}", w[0], gy[1]);
  if (w[1] > kLargestExtent / groups)
    return c.error("{} channels in {} groups are too many", w[1], groups);
  const auto window = conv_window(attrs.conv, attrs.spatial, spatial_of(w));
  if (!window.ok()) return window.status().with_context(c.who());
  if (out_shape(gy[0], gy[1], *window) != gy)
    return c.error("the output's gradient is {}, expected {}", gy,
                   out_shape(gy[0], gy[1], *window));
  c.out(c.dtype(0), with_channels(gy[0], w[1] * groups, attrs.spatial));
  return {};
}

// Linear in gy, whose adjoint is the convolution, and in w.
void grad_conv_input_grad(GradCtx& c) {
  const ConvAttrs attrs = c.attrs<ConvGradAttrs>().conv;
  const Value gy = c.in(0), w = c.in(1), u = c.out_grad(0);
  if (c.needs(0)) c.set(0, conv(u, w, attrs));
  if (c.needs(1)) c.set(1, conv_weight_grad(u, gy, spatial_list(w), attrs));
}

Status infer_conv_weight_grad(InferCtx& c) {
  const ConvGradAttrs& attrs = c.attrs<ConvGradAttrs>();
  HONE_TRY(check_pair(c));
  const Shape &x = c.shape(0), &gy = c.shape(1);
  const int64_t groups = attrs.conv.groups;
  if (groups < 1 || x[1] % groups != 0 || gy[1] % groups != 0)
    return c.error("{} input and {} output channels do not split into {} groups", x[1], gy[1],
                   groups);
  const auto window = conv_window(attrs.conv, spatial_of(x), attrs.spatial);
  if (!window.ok()) return window.status().with_context(c.who());
  if (out_shape(x[0], gy[1], *window) != gy)
    return c.error("the output's gradient is {}, expected {}", gy, out_shape(x[0], gy[1], *window));
  c.out(c.dtype(0), with_channels(gy[1], x[1] / groups, attrs.spatial));
  return {};
}

void grad_conv_weight_grad(GradCtx& c) {
  const ConvAttrs attrs = c.attrs<ConvGradAttrs>().conv;
  const Value x = c.in(0), gy = c.in(1), u = c.out_grad(0);
  if (c.needs(0)) c.set(0, conv_input_grad(gy, u, spatial_list(x), attrs));
  if (c.needs(1)) c.set(1, conv(x, u, attrs));
}

// A transposed convolution as the adjoint of a convolution with explicit pads, followed by zeros
// that no window reaches.
struct Transposed {
  ConvAttrs conv;
  std::vector<int64_t> spatial;  // of the adjoint
  std::vector<int64_t> extra;    // zeros behind it on each axis
};

// ONNX: total_padding = stride * (in - 1) + output_padding + span - out, or out from the pads. With
// an odd total SAME_UPPER pads the end more, all others the beginning.
Result<Transposed> transposed(const ConvTransposeAttrs& attrs, const Shape& x, const Shape& w) {
  // Checks the attributes and reads strides and dilations; its extents mean nothing here, so the
  // input is one that fits.
  const std::vector<int64_t> fits(static_cast<size_t>(x.rank() - 2), kLargestExtent);
  HONE_ASSIGN(const Window window, conv_window(attrs.conv, fits, spatial_of(w)));
  const AutoPad auto_pad = attrs.conv.auto_pad;
  const size_t rank = fits.size();
  if (!attrs.output_padding.empty() && attrs.output_padding.size() != rank)
    return invalid("output_padding has {} entries for {} spatial axes", attrs.output_padding.size(),
                   rank);
  if (!attrs.output_shape.empty() && attrs.output_shape.size() != rank)
    return invalid("output_shape has {} entries for {} spatial axes", attrs.output_shape.size(),
                   rank);
  Transposed t;
  t.conv.groups = attrs.conv.groups;
  for (size_t k = 0; k < rank; ++k) {
    const WindowAxis& a = window.spatial(static_cast<int>(k));
    const int64_t in = spatial_of(x)[k];
    int64_t more = attrs.output_padding.empty() ? 0 : attrs.output_padding[k];
    const int64_t wanted = attrs.output_shape.empty() ? 1 : attrs.output_shape[k];
    if (more < 0 || more > kLargestExtent) return invalid("output_padding has an entry {}", more);
    if (wanted < 1 || wanted > kLargestExtent)
      return invalid("output_shape has an entry {}", wanted);
    if (in < 1 || in > kLargestExtent / a.stride)
      return invalid("the input {} has an extent {} with stride {}", x, in, a.stride);
    const int64_t full = a.stride * (in - 1) + more + a.span();
    int64_t before = 0, after = 0;
    const bool same = auto_pad == AutoPad::same_upper || auto_pad == AutoPad::same_lower;
    if (!attrs.output_shape.empty() || same) {
      const int64_t total =
          full - (attrs.output_shape.empty() ? a.stride * in : attrs.output_shape[k]);
      more += std::max<int64_t>(-total, 0);
      const int64_t smaller = std::max<int64_t>(total, 0) / 2;
      before = auto_pad == AutoPad::same_upper ? smaller : std::max<int64_t>(total, 0) - smaller;
      after = std::max<int64_t>(total, 0) - before;
    } else if (auto_pad == AutoPad::none) {
      before = a.pad_begin;
      after = a.pad_end;
    }
    // Windows reach stride - 1 elements past the last one at most.
    const int64_t reached = std::min(more, a.stride - 1);
    const int64_t out = a.stride * (in - 1) + reached + a.span() - before - after;
    if (out < 1)
      return invalid("on spatial axis {} pads {} and {} leave nothing of {} elements", k, before,
                     after, full);
    t.conv.strides.push_back(a.stride);
    t.conv.dilations.push_back(a.dilation);
    t.conv.pads_begin.push_back(before);
    t.conv.pads_end.push_back(after);
    t.spatial.push_back(out);
    t.extra.push_back(more - reached);
  }
  return t;
}

Status infer_conv_transpose(InferCtx& c) {
  const ConvTransposeAttrs& attrs = c.attrs<ConvTransposeAttrs>();
  HONE_TRY(check_pair(c));
  const Shape &x = c.shape(0), &w = c.shape(1);
  const int64_t groups = attrs.conv.groups;
  if (groups < 1 || x[1] % groups != 0)
    return c.error("{} input channels do not split into {} groups", x[1], groups);
  if (w[0] != x[1]) return c.error("weight has {} input channels, input has {}", w[0], x[1]);
  if (w[1] > kLargestExtent / groups)
    return c.error("{} channels in {} groups are too many", w[1], groups);
  HONE_TRY(check_bias(c, w[1] * groups));
  const auto t = transposed(attrs, x, w);
  if (!t.ok()) return t.status().with_context(c.who());
  Shape y = with_channels(x[0], w[1] * groups, t->spatial);
  for (size_t k = 0; k < t->extra.size(); ++k) y[static_cast<int>(k) + 2] += t->extra[k];
  c.out(c.dtype(0), y);
  return {};
}

void decompose_conv_transpose(DecomposeCtx& c) {
  const auto t = transposed(c.attrs<ConvTransposeAttrs>(), c.shape(0), c.shape(1));
  if (!t.ok()) return c.fail(t.status().message());
  Value y = conv_input_grad(c.in(0), c.in(1), t->spatial, t->conv);
  if (std::any_of(t->extra.begin(), t->extra.end(), [](int64_t n) { return n > 0; })) {
    PadAttrs pad;
    pad.before.assign(t->extra.size() + 2, 0);
    pad.after = {0, 0};
    pad.after.insert(pad.after.end(), t->extra.begin(), t->extra.end());
    y = c.b.emit(op::pad, {y}, pad);
  }
  if (c.has(2)) {
    Shape channels = Shape::filled(y.shape().rank(), 1);
    channels[1] = c.shape(2)[0];
    y = y + ops::reshape(c.in(2), channels);
  }
  c.set(0, y);
}

}  // namespace

// conv(x, w, b?): y[n, m, o] = b[m] + sum over channels c of the group and taps t of w[m, c, t] *
// x[n, c, o * stride - pad + t * dilation], zero outside x.   (N, C, in..), (M, C/groups,
// kernel..), (M) -> (N, M, out..)
const OpDef op::conv = {
    .name = "conv",
    .attrs = &kAttrSchema<ConvAttrs>,
    .min_inputs = 2,
    .max_inputs = 3,
    .infer = infer_conv,
    .diff = Diff::rule,
    .grad = grad_conv,
    .kernel = conv_kernel,
    .flops =
        [](const NodeTypes& n) {
          return product(n.out[0]->numel(), n.in[1]->shape.product(1, n.in[1]->shape.rank()), 1);
        },
};

// conv_input_grad(gy, w): the adjoint of conv in x.   (N, M, out..), (M, C/groups, kernel..) -> (N,
// C, spatial..)
const OpDef op::conv_input_grad = {
    .name = "conv_input_grad",
    .attrs = &kAttrSchema<ConvGradAttrs>,
    .min_inputs = 2,
    .max_inputs = 2,
    .infer = infer_conv_input_grad,
    .diff = Diff::rule,
    .grad = grad_conv_input_grad,
    .kernel = conv_input_grad_kernel,
    .flops =
        [](const NodeTypes& n) {
          return product(n.in[0]->numel(), n.in[1]->shape.product(1, n.in[1]->shape.rank()), 1);
        },
};

// conv_weight_grad(x, gy): the adjoint of conv in w.   (N, C, in..), (N, M, out..) -> (M, C/groups,
// spatial..)
const OpDef op::conv_weight_grad = {
    .name = "conv_weight_grad",
    .attrs = &kAttrSchema<ConvGradAttrs>,
    .min_inputs = 2,
    .max_inputs = 2,
    .infer = infer_conv_weight_grad,
    .diff = Diff::rule,
    .grad = grad_conv_weight_grad,
    .kernel = conv_weight_grad_kernel,
    .flops =
        [](const NodeTypes& n) {
          return product(n.in[1]->numel(), n.out[0]->shape.product(1, n.out[0]->shape.rank()), 1);
        },
};

// conv_transpose(x, w, b?): the adjoint of conv as a layer of its own.   (N, C, in..), (C,
// M/groups, kernel..), (M) -> (N, M, out..) Elements that no window reaches (output_padding of a
// stride or more) hold the bias.
const OpDef op::conv_transpose = {
    .name = "conv_transpose",
    .attrs = &kAttrSchema<ConvTransposeAttrs>,
    .min_inputs = 2,
    .max_inputs = 3,
    .infer = infer_conv_transpose,
    .decompose = decompose_conv_transpose,
    .diff = Diff::by_decomposition,
    .flops =
        [](const NodeTypes& n) {
          return product(n.in[0]->numel(), n.in[1]->shape.product(1, n.in[1]->shape.rank()), 1);
        },
};

}  // namespace hone
