// SPDX-License-Identifier: Apache-2.0
// Layers.
#include "hone/nn/layers.hpp"

#include "hone/nn/init.hpp"

namespace hone::nn {

namespace {

Shape weight_shape(int64_t first, int64_t second, const std::vector<int64_t>& kernel) {
  Shape shape = {first, second};
  for (int64_t k : kernel) shape.push_back(k);
  return shape;
}

ConvAttrs conv_attrs(int spatial, const ConvOptions& o) {
  ConvAttrs a;
  a.strides = o.stride.spread(spatial);
  a.dilations = o.dilation.spread(spatial);
  a.pads_begin = a.pads_end = o.padding.spread(spatial);
  a.groups = o.groups;
  return a;
}

PoolAttrs pool_attrs(const Extents& kernel, const PoolOptions& o) {
  PoolAttrs a;
  a.kernel = kernel.spread(2);
  a.strides = o.stride.spread(2);
  for (size_t i = 0; i < a.strides.size() && i < a.kernel.size(); ++i)
    if (a.strides[i] == 0) a.strides[i] = a.kernel[i];
  a.pads_begin = a.pads_end = o.padding.spread(2);
  a.ceil_mode = o.ceil_mode;
  a.count_include_pad = o.count_include_pad;
  return a;
}

}  // namespace

Linear::Linear(int64_t in, int64_t out, Generator& rng, Bias with_bias)
    : weight(init::kaiming_uniform({out, in}, rng)) {
  if (with_bias == Bias::yes) bias = init::bias(weight.shape(), out, rng);
  add_parameter("weight", weight);
  add_parameter("bias", bias);
}
Tensor Linear::forward(const Tensor& x) { return linear(x, weight, bias); }

ConvNd::ConvNd(int spatial, int64_t in, int64_t out, Extents kernel, Generator& rng,
               const ConvOptions& options)
    : attrs_(conv_attrs(spatial, options)) {
  weight =
      init::kaiming_uniform(weight_shape(out, in / options.groups, kernel.spread(spatial)), rng);
  if (options.bias == Bias::yes) bias = init::bias(weight.shape(), out, rng);
  add_parameter("weight", weight);
  add_parameter("bias", bias);
}
Tensor ConvNd::forward(const Tensor& x) { return conv(x, weight, bias, attrs_); }

ConvTranspose2d::ConvTranspose2d(int64_t in, int64_t out, Extents kernel, Generator& rng,
                                 const ConvOptions& options) {
  attrs_.conv = conv_attrs(2, options);
  attrs_.output_padding = options.output_padding.spread(2);
  weight = init::kaiming_uniform(weight_shape(in, out / options.groups, kernel.spread(2)), rng);
  if (options.bias == Bias::yes) bias = init::bias(weight.shape(), out, rng);
  add_parameter("weight", weight);
  add_parameter("bias", bias);
}
Tensor ConvTranspose2d::forward(const Tensor& x) { return conv_transpose(x, weight, bias, attrs_); }

BatchNorm::BatchNorm(int64_t channels, BatchNormAttrs attrs, Affine affine)
    : running_mean(Tensor::zeros({channels})),
      running_var(Tensor::ones({channels})),
      num_batches_tracked(Tensor::zeros({}, DType::i64)),
      attrs_(attrs) {
  if (affine == Affine::yes) {
    weight = Tensor::ones({channels});
    bias = Tensor::zeros({channels});
  }
  add_parameter("weight", weight);
  add_parameter("bias", bias);
  add_buffer("running_mean", running_mean);
  add_buffer("running_var", running_var);
  add_buffer("num_batches_tracked", num_batches_tracked);
}
Tensor BatchNorm::forward(const Tensor& x) {
  if (!is_training()) return batch_norm(x, weight, bias, running_mean, running_var, attrs_);
  if (!is_tracing()) num_batches_tracked.add_(1);
  return batch_norm_train(x, weight, bias, running_mean, running_var, attrs_);
}

LayerNorm::LayerNorm(const Shape& shape, double eps, Affine affine) : attrs_{eps, -shape.rank()} {
  if (affine == Affine::yes) {
    weight = Tensor::ones(shape);
    bias = Tensor::zeros(shape);
  }
  add_parameter("weight", weight);
  add_parameter("bias", bias);
}
Tensor LayerNorm::forward(const Tensor& x) { return layer_norm(x, weight, bias, attrs_); }

GroupNorm::GroupNorm(int64_t groups, int64_t channels, double eps, Affine affine)
    : attrs_{groups, eps} {
  if (affine == Affine::yes) {
    weight = Tensor::ones({channels});
    bias = Tensor::zeros({channels});
  }
  add_parameter("weight", weight);
  add_parameter("bias", bias);
}
Tensor GroupNorm::forward(const Tensor& x) { return group_norm(x, weight, bias, attrs_); }

Embedding::Embedding(int64_t count, int64_t width, Generator& rng)
    : weight(init::normal({count, width}, 0, 1, rng)) {
  add_parameter("weight", weight);
}
Tensor Embedding::forward(const Tensor& indices) { return embedding(indices, weight); }

// A trace records the operator whatever the mode: the model decides when it is specialised.
Tensor Dropout::forward(const Tensor& x) {
  return is_training() || is_tracing() ? dropout(x, p_, rng_) : x;
}

MaxPool2d::MaxPool2d(Extents kernel, const PoolOptions& options)
    : attrs_(pool_attrs(kernel, options)) {}
AvgPool2d::AvgPool2d(Extents kernel, const PoolOptions& options)
    : attrs_(pool_attrs(kernel, options)) {}

Upsample::Upsample(double scale, UpsampleMode mode, Corners corners) : scale_(scale) {
  switch (mode) {
    case UpsampleMode::nearest:
      attrs_.coordinates = CoordinateMode::asymmetric;
      attrs_.nearest = NearestMode::floor;
      return;
    case UpsampleMode::linear:
      attrs_.mode = ResizeMode::linear;
      break;
    case UpsampleMode::cubic:
      attrs_.mode = ResizeMode::cubic;
      break;
  }
  attrs_.coordinates =
      corners == Corners::aligned ? CoordinateMode::align_corners : CoordinateMode::half_pixel;
}
Tensor Upsample::forward(const Tensor& x) {
  ResizeAttrs attrs = attrs_;
  attrs.scales.assign(static_cast<size_t>(x.dim()), scale_);
  for (size_t axis = 0; axis < 2 && axis < attrs.scales.size(); ++axis) attrs.scales[axis] = 1;
  return resize(x, std::move(attrs));
}

}  // namespace hone::nn
