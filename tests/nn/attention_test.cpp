// SPDX-License-Identifier: Apache-2.0
// Attention and transformer layers.
#include "hone/nn/attention.hpp"

#include <cmath>

#include "hone/nn/trace.hpp"
#include "hone/session.hpp"
#include "tests/support/check.hpp"
#include "tests/support/tensors.hpp"

namespace hone {
namespace {

Tensor rand_of(DType dtype, const Shape& shape, uint64_t seed) {
  return Tensor(test::random_tensor({dtype, shape}, seed));
}

TEST_CASE("attention is a softmax of scaled products over the values") {
  const Tensor q = rand_of(DType::f64, {2, 3, 4}, 1), k = rand_of(DType::f64, {2, 5, 4}, 2),
               v = rand_of(DType::f64, {2, 5, 6}, 3);
  const Tensor got = attention(q, k, v);
  for (int64_t n = 0; n < 2; ++n)
    for (int64_t i = 0; i < 3; ++i) {
      double weights[5], total = 0;
      for (int64_t j = 0; j < 5; ++j) {
        double dot = 0;
        for (int64_t d = 0; d < 4; ++d) dot += q.at({n, i, d}) * k.at({n, j, d});
        total += weights[j] = std::exp(dot / 2);
      }
      double want = 0;
      for (int64_t j = 0; j < 5; ++j) want += weights[j] / total * v.at({n, j, 1});
      CHECK(std::fabs(got.at({n, i, 1}) - want) < 1e-12);
    }
}

TEST_CASE("a causal query does not see what comes after it") {
  Generator rng(1);
  nn::MultiHeadAttention mha(8, 2, rng);
  Tensor x = rand_of(DType::f32, {1, 4, 8}, 5);
  const Tensor before = mha(x, {}, nn::Look::back);
  const Tensor changed = concat({x.slice(1, 0, 3), rand_of(DType::f32, {1, 1, 8}, 6)}, 1);
  const Tensor after = mha(changed, {}, nn::Look::back);
  CHECK(test::same_bits(before.slice(1, 0, 3).data(), after.slice(1, 0, 3).data()));
  CHECK_FALSE(test::same_bits(before.data(), after.data()).close);
}

TEST_CASE("masks choose keys: as bools, and as numbers that are added") {
  Generator rng(1);
  nn::MultiHeadAttention mha(4, 2, rng);
  const Tensor x = rand_of(DType::f32, {1, 3, 4}, 5);
  const Tensor first_two = Tensor::of<bool>({true, true, false}, {1, 1, 1, 3});
  const Tensor alone = mha(x, x.slice(1, 0, 2), x.slice(1, 0, 2));
  CHECK(test::all_close(mha(x, first_two).data(), alone.data(), 1e-5, 1e-6));
  const Tensor numbers = Tensor::of<float>({0, 0, -1e9f}, {1, 1, 1, 3});
  CHECK(test::all_close(mha(x, numbers).data(), alone.data(), 1e-5, 1e-6));
}

TEST_CASE("heads must divide the width") {
  Generator rng(1);
  nn::MultiHeadAttention mha(6, 4, rng);
  CHECK_ERROR(mha(rand_of(DType::f32, {1, 2, 6}, 1)).status(), Code::invalid_argument,
              "a width of 6 does not split into 4 heads");
}

TEST_CASE("a transformer layer has torch's parameter names") {
  Generator rng(1);
  const nn::TransformerEncoderLayer layer(8, 2, rng, {.feed_forward = 16});
  std::string names;
  for (const auto& m : layer.named_parameters()) names += m.name + " ";
  CHECK_EQ(
      names,
      "self_attn.in_proj_weight self_attn.in_proj_bias self_attn.out_proj.weight "
      "self_attn.out_proj.bias linear1.weight "
      "linear1.bias linear2.weight linear2.bias norm1.weight norm1.bias norm2.weight norm2.bias ");
}

// Every parameter's gradient against central differences along a random direction, in double.
void check_layer(const nn::TransformerOptions& options, nn::Look look) {
  Generator rng(3);
  nn::TransformerEncoderLayer layer(4, 2, rng, options);
  layer.to(DType::f64).eval();
  const Tensor x = rand_of(DType::f64, {2, 3, 4}, 1), target = rand_of(DType::f64, {2, 3, 4}, 2);
  const auto loss = [&] { return loss::mse(layer(x, {}, look), target); };
  CHECK_OK(loss().backward());
  uint64_t seed = 100;
  for (const nn::NamedMember& m : layer.named_parameters()) {
    const Tensor direction = rand_of(DType::f64, m.tensor.shape(), seed++);
    const double got = (m.tensor.grad() * direction).sum().item<double>();
    NoGrad no_grad;
    Tensor parameter = m.tensor;
    constexpr double kStep = 1e-5;
    parameter.add_(direction * kStep);
    const double above = loss().item<double>();
    parameter.sub_(direction * (2 * kStep));
    const double below = loss().item<double>();
    parameter.add_(direction * kStep);
    const double want = (above - below) / (2 * kStep);
    CHECK_MESSAGE(std::fabs(got - want) < 1e-8 + 1e-6 * std::fabs(want), m.name, ": ", got, " and ",
                  want);
  }
}

TEST_CASE("gradients of a transformer layer agree with differences") {
  check_layer(
      {.feed_forward = 6, .activation = nn::FeedForward::gelu, .norm = nn::NormPlace::before},
      nn::Look::back);
  check_layer({.feed_forward = 6, .activation = nn::FeedForward::gelu}, nn::Look::everywhere);
}

TEST_CASE("a traced transformer layer is free in batch and time and gives the same bits") {
  Generator rng(3);
  nn::TransformerEncoderLayer layer(8, 2, rng, {.feed_forward = 16});
  const auto forward = [&](std::span<const Tensor> x) {
    return std::vector<Tensor>{layer(x[0], {}, nn::Look::back)};
  };
  const TraceInput in[] = {{"x", rand_of(DType::f32, {2, 4, 8}, 1), {"batch", "time"}}};
  const Model model = test::must(nn::trace(layer, forward, in));
  CHECK(find_state(model, "self_attn.in_proj_weight") != nullptr);
  Session session = test::must(Session::create(model));
  layer.eval();
  for (const Shape& shape : {Shape{2, 4, 8}, Shape{3, 7, 8}, Shape{1, 1, 8}}) {
    const Tensor x = rand_of(DType::f32, shape, 9);
    const TensorData inputs[] = {x.data()};
    CHECK(test::same_bits(test::must(session.run(inputs))[0], layer(x, {}, nn::Look::back).data()));
  }
}

}  // namespace
}  // namespace hone
