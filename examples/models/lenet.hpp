// SPDX-License-Identifier: Apache-2.0
// LeNet-5 with ReLU and max pooling (LeCun et al., "Gradient-based learning applied to document
// recognition", 1998).
#pragma once

#include "hone/nn.hpp"

namespace models {

struct LeNetSizes {
  int64_t input = 28;  ///< Height and width; a multiple of 4.
  int64_t channels1 = 6, channels2 = 16, hidden1 = 120, hidden2 = 84, classes = 10;
};

/// x (N, 1, input, input) -> (N, classes)
class LeNet : public hone::nn::Layer {
 public:
  explicit LeNet(hone::Generator& rng, const LeNetSizes& s = {})
      : conv1_(1, s.channels1, 5, rng, {.padding = 2}),
        conv2_(s.channels1, s.channels2, 5, rng),
        pool_(2),
        fc1_(s.channels2 * after_pools(s.input) * after_pools(s.input), s.hidden1, rng),
        fc2_(s.hidden1, s.hidden2, rng),
        fc3_(s.hidden2, s.classes, rng) {
    add_child("conv1", conv1_);
    add_child("conv2", conv2_);
    add_child("fc1", fc1_);
    add_child("fc2", fc2_);
    add_child("fc3", fc3_);
  }

 protected:
  hone::Tensor forward(const hone::Tensor& x) override {
    hone::Tensor y = pool_(conv1_(x).relu());
    y = pool_(conv2_(y).relu()).flatten(1);
    return fc3_(fc2_(fc1_(y).relu()).relu());
  }

 private:
  static int64_t after_pools(int64_t input) { return (input / 2 - 4) / 2; }

  hone::nn::Conv2d conv1_, conv2_;
  hone::nn::MaxPool2d pool_;
  hone::nn::Linear fc1_, fc2_, fc3_;
};

}  // namespace models
