// SPDX-License-Identifier: Apache-2.0
// A small single-shot detector (Liu et al., 2016) on a backbone of depthwise-separable
// convolutions: class scores and boxes of the anchors of two feature maps.
#pragma once

#include "models/conv_norm.hpp"

namespace models {

class Ssd : public hone::nn::Module {
 public:
  static constexpr int64_t kClasses = 6, kAnchors = 3;

  explicit Ssd(hone::Generator& rng)
      : c1_(96, kAnchors * kClasses, 3, rng, {.padding = 1}),
        r1_(96, kAnchors * 4, 3, rng, {.padding = 1}),
        c2_(128, kAnchors * kClasses, 3, rng, {.padding = 1}),
        r2_(128, kAnchors * 4, 3, rng, {.padding = 1}) {
    add_conv_norm(stem_, 3, 16, rng, {.stride = 2});
    stem_.add<hone::nn::Silu>();
    add_child("stem", stem_);
    add_block("b1", b1_, 16, 32, 2, rng);
    add_block("b2", b2_, 32, 64, 2, rng);
    add_block("b3", b3_, 64, 96, 1, rng);
    add_block("b4", b4_, 96, 128, 2, rng);
    add_child("c1", c1_);
    add_child("r1", r1_);
    add_child("c2", c2_);
    add_child("r2", r2_);
  }

  struct Output {
    hone::Tensor scores;  ///< (N, anchors, kClasses)
    hone::Tensor boxes;   ///< (N, anchors, 4)
  };
  Output operator()(const hone::Tensor& x) {  // (N, 3, 128, 128)
    const hone::Tensor f1 = b3_(b2_(b1_(stem_(x)))), f2 = b4_(f1);
    return {hone::concat({anchors(c1_(f1), kClasses), anchors(c2_(f2), kClasses)}, 1),
            hone::concat({anchors(r1_(f1), 4), anchors(r2_(f2), 4)}, 1)};
  }

 private:
  void add_block(std::string name, hone::nn::Sequential& block, int64_t in, int64_t out,
                 int64_t stride, hone::Generator& rng) {
    add_conv_norm(block, in, in, rng, {.stride = stride, .groups = in});
    block.add<hone::nn::Silu>();
    add_conv_norm(block, in, out, rng, {.kernel = 1});
    block.add<hone::nn::Silu>();
    add_child(std::move(name), block);
  }
  // (N, kAnchors * values, height, width) -> (N, height * width * kAnchors, values)
  static hone::Tensor anchors(const hone::Tensor& x, int64_t values) {
    return x.permute({0, 2, 3, 1}).reshape({-1, x.size(2) * x.size(3) * kAnchors, values});
  }

  hone::nn::Sequential stem_, b1_, b2_, b3_, b4_;
  hone::nn::Conv2d c1_, r1_, c2_, r2_;
};

}  // namespace models
