// SPDX-License-Identifier: Apache-2.0
// ResNet-18 (He et al., "Deep residual learning for image recognition", 2015), with torchvision's
// names of parameters.
#pragma once

#include "hone/nn.hpp"

namespace models {

class BasicBlock : public hone::nn::Layer {
 public:
  BasicBlock(int64_t in, int64_t out, int64_t stride, hone::Generator& rng)
      : conv1_(in, out, 3, rng, {.stride = stride, .padding = 1, .bias = hone::nn::Bias::no}),
        conv2_(out, out, 3, rng, {.padding = 1, .bias = hone::nn::Bias::no}),
        bn1_(out),
        bn2_(out) {
    add_child("conv1", conv1_);
    add_child("bn1", bn1_);
    add_child("conv2", conv2_);
    add_child("bn2", bn2_);
    if (stride == 1 && in == out) return;
    downsample_.add<hone::nn::Conv2d>(
        in, out, 1, rng, hone::nn::ConvOptions{.stride = stride, .bias = hone::nn::Bias::no});
    downsample_.add<hone::nn::BatchNorm2d>(out);
    add_child("downsample", downsample_);
  }

 protected:
  hone::Tensor forward(const hone::Tensor& x) override {
    const hone::Tensor y = bn2_(conv2_(bn1_(conv1_(x)).relu()));
    return (y + downsample_(x)).relu();  // without layers it is the identity
  }

 private:
  hone::nn::Conv2d conv1_, conv2_;
  hone::nn::BatchNorm2d bn1_, bn2_;
  hone::nn::Sequential downsample_;
};

/// x (N, 3, height, width) -> (N, classes)
class ResNet18 : public hone::nn::Layer {
 public:
  explicit ResNet18(hone::Generator& rng, int64_t classes = 1000)
      : conv1_(3, 64, 7, rng, {.stride = 2, .padding = 3, .bias = hone::nn::Bias::no}),
        bn1_(64),
        pool_(3, {.stride = 2, .padding = 1}),
        fc_(512, classes, rng) {
    add_child("conv1", conv1_);
    add_child("bn1", bn1_);
    int64_t in = 64;
    for (int i = 0; i < 4; ++i) {
      const int64_t out = int64_t{64} << i;
      layers_[i].add<BasicBlock>(in, out, i == 0 ? 1 : 2, rng);
      layers_[i].add<BasicBlock>(out, out, 1, rng);
      add_child(hone::format("layer{}", i + 1), layers_[i]);
      in = out;
    }
    add_child("fc", fc_);
  }

 protected:
  hone::Tensor forward(const hone::Tensor& x) override {
    hone::Tensor y = pool_(bn1_(conv1_(x)).relu());
    for (hone::nn::Sequential& layer : layers_) y = layer(y);
    return fc_(global_avg_pool(y).flatten(1));
  }

 private:
  hone::nn::Conv2d conv1_;
  hone::nn::BatchNorm2d bn1_;
  hone::nn::MaxPool2d pool_;
  hone::nn::Sequential layers_[4];
  hone::nn::Linear fc_;
};

}  // namespace models
