// SPDX-License-Identifier: Apache-2.0
#include "hone/session.hpp"

#include "tests/runtime/models.hpp"

namespace hone::test {

TEST_CASE("a session runs with any extent of a named dimension and keeps the plans") {
  const Model m = small_mlp();
  Session s = must(Session::create(m));
  const TensorData all = random_tensor({DType::f32, {7, 3}}, 9);
  const TensorData whole = must(s.run(std::vector<TensorData>{all}))[0];
  CHECK_EQ(whole.shape(), Shape{7, 2});
  for (int64_t n : {1, 3, 7, 0}) {
    const TensorData part = must(TensorData::copy_of(
        {DType::f32, {n, 3}}, all.as_bytes().first(static_cast<size_t>(n) * 12)));
    const TensorData y = must(s.run(std::vector<TensorData>{part}))[0];
    REQUIRE_EQ(y.shape(), Shape{n, 2});
    for (int64_t i = 0; i < y.numel(); ++i)
      CHECK_EQ(y.at(i), doctest::Approx(whole.at(i)).epsilon(1e-6));
  }
}

TEST_CASE("a session says what is wrong with an input") {
  const Model m = small_mlp();
  Session s = must(Session::create(m));
  const auto run = [&](const TensorType& type) {
    return s.run(std::vector<TensorData>{random_tensor(type, 1)});
  };
  CHECK_ERROR(run({DType::f32, {2, 4}}), Code::invalid_argument,
              "input 'x': axis 1 is 4, the model expects 3");
  CHECK_ERROR(run({DType::f32, {6}}), Code::invalid_argument,
              "has 1 dimensions [6], the model expects 2: [N, 3]");
  CHECK_ERROR(run({DType::f64, {2, 3}}), Code::invalid_argument,
              "input 'x' is f64, the model expects f32");
  CHECK_ERROR(s.run(std::vector<TensorData>{}), Code::invalid_argument, "1 inputs, got 0");
  const std::vector<NamedTensor> misnamed = {{"y", random_tensor({DType::f32, {2, 3}}, 1)}};
  CHECK_ERROR(s.run(misnamed), Code::invalid_argument, "no input 'y'; its inputs are 'x'");
  CHECK_ERROR(Session::create(m, {.threads = 0}), Code::invalid_argument, "at least one thread");
}

TEST_CASE("threads and kernels do not change what a session computes") {
  const Model m = small_mlp();
  const TensorData x = random_tensor({DType::f32, {33, 3}}, 5);
  Session one = must(Session::create(m, {.threads = 1}));
  Session two = must(Session::create(m, {.threads = 2}));
  Session plain = must(Session::create(m, {.kernels = Kernels::reference}));
  const TensorData y = must(one.run(std::vector<TensorData>{x}))[0];
  CHECK(same_bits(must(two.run(std::vector<TensorData>{x}))[0], y));
  CHECK(all_close(must(plain.run(std::vector<TensorData>{x}))[0], y, 1e-6, 1e-6));
}

TEST_CASE("many different shapes stay within the plan cache and give the same results") {
  const Model m = small_mlp();
  Session s = must(Session::create(m, {.plan_cache = 2}));
  for (int round = 0; round < 3; ++round)
    for (int64_t n = 1; n < 6; ++n)
      CHECK_EQ(must(s.run(std::vector<TensorData>{random_tensor({DType::f32, {n, 3}}, 1)}))[0]
                   .shape()[0],
               n);
}

}  // namespace hone::test
