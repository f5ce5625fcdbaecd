// SPDX-License-Identifier: Apache-2.0
// How parameters start. Shapes are (out, in, spatial..): fan_in is in * spatial, fan_out is out *
// spatial.
#pragma once

#include "hone/tensor.hpp"

namespace hone::nn::init {

Tensor uniform(const Shape& shape, double low, double high, Generator& rng);
Tensor normal(const Shape& shape, double mean, double deviation, Generator& rng);
/// torch.nn.init.kaiming_uniform_ with leaky_relu of slope `a` and fan_in. The default, sqrt(5), is
/// that of torch's layers: the bound is 1 / sqrt(fan_in).
Tensor kaiming_uniform(const Shape& shape, Generator& rng, double a = 2.2360679774997896);
/// torch.nn.init.kaiming_normal_ for relu, fan_in.
Tensor kaiming_normal(const Shape& shape, Generator& rng);
Tensor xavier_uniform(const Shape& shape, Generator& rng);
/// Uniform within 1 / sqrt(fan_in): torch's biases.
Tensor bias(const Shape& weight, int64_t count, Generator& rng);

}  // namespace hone::nn::init
