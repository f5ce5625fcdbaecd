// SPDX-License-Identifier: Apache-2.0
// Initial values of parameters, after torch.nn.init.
#include "hone/nn/init.hpp"

#include <cmath>

namespace hone::nn::init {

namespace {

double fan_in(const Shape& s) {
  return static_cast<double>(std::max<int64_t>(s.rank() > 1 ? s.product(1, s.rank()) : 1, 1));
}
double fan_out(const Shape& s) {
  return static_cast<double>(s.rank() > 1 ? s[0] * s.product(2, s.rank()) : 1);
}

}  // namespace

Tensor uniform(const Shape& shape, double low, double high, Generator& rng) {
  return Tensor::rand(shape, rng, low, high);
}

Tensor normal(const Shape& shape, double mean, double deviation, Generator& rng) {
  return (Tensor::randn(shape, rng) * deviation + mean).detach();
}

Tensor kaiming_uniform(const Shape& shape, Generator& rng, double a) {
  const double bound = std::sqrt(6 / ((1 + a * a) * fan_in(shape)));
  return uniform(shape, -bound, bound, rng);
}

Tensor kaiming_normal(const Shape& shape, Generator& rng) {
  return normal(shape, 0, std::sqrt(2 / fan_in(shape)), rng);
}

Tensor xavier_uniform(const Shape& shape, Generator& rng) {
  const double bound = std::sqrt(6 / (fan_in(shape) + fan_out(shape)));
  return uniform(shape, -bound, bound, rng);
}

Tensor bias(const Shape& weight, int64_t count, Generator& rng) {
  const double bound = 1 / std::sqrt(fan_in(weight));
  return uniform({count}, -bound, bound, rng);
}

}  // namespace hone::nn::init
