// SPDX-License-Identifier: Apache-2.0
// A small U-Net (Ronneberger et al., 2015) whose three steps up are a transposed convolution, a
// bilinear and a nearest-neighbour enlargement.
#pragma once

#include "models/conv_norm.hpp"

namespace models {

/// x (N, 3, height, width), both multiples of 8 -> (N, classes, height, width)
class UNet : public hone::nn::Layer {
 public:
  UNet(int64_t width, int64_t classes, hone::Generator& rng)
      : pool_(2), up3_(8 * width, 4 * width, 2, rng, {.stride = 2}), head_(width, classes, 1, rng) {
    add_block("e1", e1_, 3, width, rng);
    add_block("e2", e2_, width, 2 * width, rng);
    add_block("e3", e3_, 2 * width, 4 * width, rng);
    add_block("mid", mid_, 4 * width, 8 * width, rng);
    add_child("up3", up3_);
    add_up("up2", up2_, hone::nn::UpsampleMode::linear, 4 * width, 2 * width, rng);
    add_up("up1", up1_, hone::nn::UpsampleMode::nearest, 2 * width, width, rng);
    add_block("d3", d3_, 8 * width, 4 * width, rng);
    add_block("d2", d2_, 4 * width, 2 * width, rng);
    add_block("d1", d1_, 2 * width, width, rng);
    add_child("head", head_);
  }

 protected:
  hone::Tensor forward(const hone::Tensor& x) override {
    const hone::Tensor a = e1_(x);
    const hone::Tensor b = e2_(pool_(a));
    const hone::Tensor c = e3_(pool_(b));
    const hone::Tensor up_c = d3_(hone::concat({up3_(mid_(pool_(c))), c}, 1));
    const hone::Tensor up_b = d2_(hone::concat({up2_(up_c), b}, 1));
    return head_(d1_(hone::concat({up1_(up_b), a}, 1)));
  }

 private:
  void add_block(std::string name, hone::nn::Sequential& block, int64_t in, int64_t out,
                 hone::Generator& rng) {
    add_conv_norm(block, in, out, rng);
    block.add<hone::nn::Relu>();
    add_conv_norm(block, out, out, rng);
    block.add<hone::nn::Relu>();
    add_child(std::move(name), block);
  }
  void add_up(std::string name, hone::nn::Sequential& up, hone::nn::UpsampleMode mode, int64_t in,
              int64_t out, hone::Generator& rng) {
    up.add<hone::nn::Upsample>(2.0, mode);
    up.add<hone::nn::Conv2d>(in, out, 1, rng);
    add_child(std::move(name), up);
  }

  hone::nn::MaxPool2d pool_;
  hone::nn::Sequential e1_, e2_, e3_, mid_, up2_, up1_, d3_, d2_, d1_;
  hone::nn::ConvTranspose2d up3_;
  hone::nn::Conv2d head_;
};

}  // namespace models
