// SPDX-License-Identifier: Apache-2.0
// MobileNetV2 (Sandler et al., 2018) and MobileNetV3-Small (Howard et al., 2019), with
// torchvision's names of parameters.
#pragma once

#include "models/conv_norm.hpp"

namespace models {

struct MobileNetOptions {
  int64_t classes = 1000;
  double dropout = 0.2;
};

/// Expand, convolve each channel, project; the input is added where it fits.
class InvertedResidual : public hone::nn::Layer {
 public:
  InvertedResidual(int64_t in, int64_t out, int64_t stride, int64_t expand, hone::Generator& rng)
      : adds_input_(stride == 1 && in == out) {
    const int64_t wide = in * expand;
    if (expand != 1)
      conv_.add<ConvNormAct<hone::nn::Relu6>>(in, wide, rng, ConvNormOptions{.kernel = 1});
    conv_.add<ConvNormAct<hone::nn::Relu6>>(wide, wide, rng,
                                            ConvNormOptions{.stride = stride, .groups = wide});
    add_conv_norm(conv_, wide, out, rng, {.kernel = 1});
    add_child("conv", conv_);
  }

 protected:
  hone::Tensor forward(const hone::Tensor& x) override {
    return adds_input_ ? x + conv_(x) : conv_(x);
  }

 private:
  bool adds_input_;
  hone::nn::Sequential conv_;
};

/// x (N, 3, height, width) -> (N, classes)
class MobileNetV2 : public hone::nn::Layer {
 public:
  explicit MobileNetV2(hone::Generator& rng, const MobileNetOptions& o = {}) {
    struct Stage {
      int64_t expand, out, blocks, stride;
    };
    constexpr Stage kStages[] = {{1, 16, 1, 1}, {6, 24, 2, 2},  {6, 32, 3, 2}, {6, 64, 4, 2},
                                 {6, 96, 3, 1}, {6, 160, 3, 2}, {6, 320, 1, 1}};
    features_.add<ConvNormAct<hone::nn::Relu6>>(3, 32, rng, ConvNormOptions{.stride = 2});
    int64_t in = 32;
    for (const Stage& s : kStages)
      for (int64_t i = 0; i < s.blocks; ++i) {
        features_.add<InvertedResidual>(in, s.out, i == 0 ? s.stride : 1, s.expand, rng);
        in = s.out;
      }
    features_.add<ConvNormAct<hone::nn::Relu6>>(in, 1280, rng, ConvNormOptions{.kernel = 1});
    classifier_.add<hone::nn::Dropout>(o.dropout, rng);
    classifier_.add<hone::nn::Linear>(1280, o.classes, rng);
    add_child("features", features_);
    add_child("classifier", classifier_);
  }

 protected:
  hone::Tensor forward(const hone::Tensor& x) override {
    return classifier_(global_avg_pool(features_(x)).flatten(1));
  }

 private:
  hone::nn::Sequential features_, classifier_;
};

/// Scales each channel by what a small network makes of all channels' means.
class SqueezeExcite : public hone::nn::Layer {
 public:
  SqueezeExcite(int64_t channels, int64_t squeezed, hone::Generator& rng)
      : fc1_(channels, squeezed, 1, rng), fc2_(squeezed, channels, 1, rng) {
    add_child("fc1", fc1_);
    add_child("fc2", fc2_);
  }

 protected:
  hone::Tensor forward(const hone::Tensor& x) override {
    return x * fc2_(fc1_(global_avg_pool(x)).relu()).hard_sigmoid();
  }

 private:
  hone::nn::Conv2d fc1_, fc2_;
};

struct V3Block {
  int64_t in, kernel, wide, out;
  bool squeeze_excite, hard_swish;
  int64_t stride;
};

class InvertedResidualV3 : public hone::nn::Layer {
 public:
  InvertedResidualV3(const V3Block& b, const hone::BatchNormAttrs& norm, hone::Generator& rng)
      : adds_input_(b.stride == 1 && b.in == b.out) {
    if (b.wide != b.in) add_conv(b, b.in, b.wide, {.kernel = 1, .norm = norm}, rng);
    add_conv(b, b.wide, b.wide,
             {.kernel = b.kernel, .stride = b.stride, .groups = b.wide, .norm = norm}, rng);
    if (b.squeeze_excite) block_.add<SqueezeExcite>(b.wide, multiple_of_8(b.wide / 4), rng);
    add_conv_norm(block_.add<hone::nn::Sequential>(), b.wide, b.out, rng,
                  {.kernel = 1, .norm = norm});
    add_child("block", block_);
  }

 protected:
  hone::Tensor forward(const hone::Tensor& x) override {
    return adds_input_ ? block_(x) + x : block_(x);
  }

 private:
  void add_conv(const V3Block& b, int64_t in, int64_t out, const ConvNormOptions& o,
                hone::Generator& rng) {
    if (b.hard_swish)
      block_.add<ConvNormAct<hone::nn::HardSwish>>(in, out, rng, o);
    else
      block_.add<ConvNormAct<hone::nn::Relu>>(in, out, rng, o);
  }
  // The nearest one that is not more than a tenth below.
  static int64_t multiple_of_8(int64_t n) {
    const int64_t near = std::max<int64_t>(8, (n + 4) / 8 * 8);
    return near * 10 < n * 9 ? near + 8 : near;
  }

  bool adds_input_;
  hone::nn::Sequential block_;
};

/// x (N, 3, height, width) -> (N, classes)
class MobileNetV3Small : public hone::nn::Layer {
 public:
  explicit MobileNetV3Small(hone::Generator& rng, const MobileNetOptions& o = {}) {
    constexpr V3Block kBlocks[] = {
        {16, 3, 16, 16, true, false, 2},  {16, 3, 72, 24, false, false, 2},
        {24, 3, 88, 24, false, false, 1}, {24, 5, 96, 40, true, true, 2},
        {40, 5, 240, 40, true, true, 1},  {40, 5, 240, 40, true, true, 1},
        {40, 5, 120, 48, true, true, 1},  {48, 5, 144, 48, true, true, 1},
        {48, 5, 288, 96, true, true, 2},  {96, 5, 576, 96, true, true, 1},
        {96, 5, 576, 96, true, true, 1}};
    const hone::BatchNormAttrs norm{.eps = 1e-3, .momentum = 0.01};
    features_.add<ConvNormAct<hone::nn::HardSwish>>(3, 16, rng,
                                                    ConvNormOptions{.stride = 2, .norm = norm});
    for (const V3Block& b : kBlocks) features_.add<InvertedResidualV3>(b, norm, rng);
    features_.add<ConvNormAct<hone::nn::HardSwish>>(96, 576, rng,
                                                    ConvNormOptions{.kernel = 1, .norm = norm});
    classifier_.add<hone::nn::Linear>(576, 1024, rng);
    classifier_.add<hone::nn::HardSwish>();
    classifier_.add<hone::nn::Dropout>(o.dropout, rng);
    classifier_.add<hone::nn::Linear>(1024, o.classes, rng);
    add_child("features", features_);
    add_child("classifier", classifier_);
  }

 protected:
  hone::Tensor forward(const hone::Tensor& x) override {
    return classifier_(global_avg_pool(features_(x)).flatten(1));
  }

 private:
  hone::nn::Sequential features_, classifier_;
};

}  // namespace models
