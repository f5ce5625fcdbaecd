// SPDX-License-Identifier: Apache-2.0
// A perceptron with two hidden layers.
#pragma once

#include "hone/nn.hpp"

namespace models {

class Mlp : public hone::nn::Layer {
 public:
  Mlp(int64_t in, int64_t hidden1, int64_t hidden2, int64_t classes, hone::Generator& rng)
      : fc1_(in, hidden1, rng), fc2_(hidden1, hidden2, rng), fc3_(hidden2, classes, rng) {
    add_child("fc1", fc1_);
    add_child("fc2", fc2_);
    add_child("fc3", fc3_);
  }

 protected:
  hone::Tensor forward(const hone::Tensor& x) override { return fc3_(fc2_(fc1_(x).relu()).relu()); }

 private:
  hone::nn::Linear fc1_, fc2_, fc3_;
};

}  // namespace models
