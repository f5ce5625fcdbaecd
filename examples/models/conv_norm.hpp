// SPDX-License-Identifier: Apache-2.0
// Convolution, batch norm and an activation: what image networks are made of.
#pragma once

#include "hone/nn.hpp"

namespace models {

struct ConvNormOptions {
  int64_t kernel = 3, stride = 1, groups = 1;
  hone::BatchNormAttrs norm = {};
};

/// Adds a convolution without bias, padded so that a stride of 1 keeps the extents, and its batch
/// norm.
inline void add_conv_norm(hone::nn::Sequential& net, int64_t in, int64_t out, hone::Generator& rng,
                          const ConvNormOptions& o = {}) {
  net.add<hone::nn::Conv2d>(in, out, o.kernel, rng,
                            hone::nn::ConvOptions{.stride = o.stride,
                                                  .padding = o.kernel / 2,
                                                  .groups = o.groups,
                                                  .bias = hone::nn::Bias::no});
  net.add<hone::nn::BatchNorm2d>(out, o.norm);
}

/// A network in which convolution, norm and activation `Act` are "0", "1" and "2".
template <class Act>
class ConvNormAct : public hone::nn::Sequential {
 public:
  ConvNormAct(int64_t in, int64_t out, hone::Generator& rng, const ConvNormOptions& o = {}) {
    add_conv_norm(*this, in, out, rng, o);
    add<Act>();
  }
};

}  // namespace models
