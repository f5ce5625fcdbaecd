// SPDX-License-Identifier: Apache-2.0
// Statistics of tensors where all is equal or zero, and in types that end soon. What is expected is
// what PyTorch gives.
#include <cmath>

#include "hone/functional.hpp"
#include "hone/tensor.hpp"
#include "tests/support/check.hpp"

namespace hone {
namespace {

std::vector<double> gradient(const Tensor& x, const Tensor& y) {
  REQUIRE_OK(y.sum().backward());
  return x.grad().to_vector<double>();
}
Tensor learned(std::vector<double> v, DType dtype = DType::f32) {
  const int64_t n = static_cast<int64_t>(v.size());
  return Tensor::from(v, {n}).to(dtype).requires_grad_();
}

TEST_CASE("C15: a norm of zeros and a deviation of equal numbers have gradient 0") {
  const std::vector<double> zeros = {0, 0, 0};
  Tensor x = learned({0, 0, 0});
  CHECK_EQ(gradient(x, x.norm()), zeros);
  for (const double correction : {0, 1}) {
    Tensor y = learned({2, 2, 2});
    const Tensor deviation = y.std({}, KeepDims::no, correction);
    CHECK_EQ(deviation.item<double>(), 0);
    CHECK_EQ(gradient(y, deviation), zeros);
  }
  Tensor one = learned({2});
  CHECK(std::isnan(one.std().item<double>()));
  Tensor z = learned({1, 3});
  CHECK_EQ(gradient(z, z.std({}, KeepDims::no, 0)), std::vector<double>{-0.5, 0.5});
}

TEST_CASE("C17: norms and deviations of half floats are computed in f32") {
  Tensor x = learned({300, -300, 300, -300}, DType::f16);
  CHECK_EQ(x.norm().dtype(), DType::f16);
  CHECK_EQ(x.norm().item<double>(), 600);
  CHECK_EQ(x.std({}, KeepDims::no, 0).item<double>(), 300);
  CHECK_EQ(gradient(x, x.norm()), std::vector<double>{0.5, -0.5, 0.5, -0.5});
  // More elements than f16 can count.
  const Tensor many = Tensor::ones({70000}, DType::f16);
  CHECK_EQ(many.norm().item<double>(), doctest::Approx(264.575).epsilon(1e-3));
  CHECK_EQ((many * 2).var().item<double>(), 0);
  const Tensor halves = concat({many, many * 3}, 0);
  CHECK_EQ(halves.var().item<double>(), 1);
}

}  // namespace
}  // namespace hone
