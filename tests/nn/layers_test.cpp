// SPDX-License-Identifier: Apache-2.0
// Layers against their formulas.
#include "hone/nn/layers.hpp"

#include <cmath>

#include "hone/nn/init.hpp"
#include "hone/nn/trace.hpp"
#include "hone/specialise.hpp"
#include "tests/support/check.hpp"
#include "tests/support/tensors.hpp"

namespace hone {
namespace {

Tensor rand32(const Shape& shape, uint64_t seed) {
  return Tensor(test::random_tensor({DType::f32, shape}, seed));
}

void check_close(const Tensor& a, const Tensor& b, double tolerance = 1e-5) {
  REQUIRE_OK(a.status());
  REQUIRE_OK(b.status());
  CHECK(test::all_close(a.data(), b.data(), tolerance, tolerance));
}

double largest(const Tensor& t) { return t.abs().max().item<double>(); }

TEST_CASE("initial values stay within PyTorch's bounds and fill them") {
  Generator rng(1);
  const nn::Linear fc(100, 50, rng);
  CHECK_EQ(fc.weight.shape(), Shape{50, 100});
  CHECK(largest(fc.weight) <= 0.1);
  CHECK(largest(fc.weight) > 0.099);
  CHECK(largest(fc.bias) <= 0.1);
  const nn::Conv2d conv(8, 16, {3, 5}, rng, {.groups = 2});
  CHECK_EQ(conv.weight.shape(), Shape{16, 4, 3, 5});
  CHECK(largest(conv.weight) <= 1 / std::sqrt(60.0));
  const Tensor xavier = nn::init::xavier_uniform({30, 10}, rng);
  CHECK(largest(xavier) <= std::sqrt(6.0 / 40));
  CHECK(largest(xavier) > std::sqrt(6.0 / 40) * 0.95);
  const Tensor normal = nn::init::kaiming_normal({50, 200}, rng);
  CHECK(std::fabs(normal.var().item<double>() - 0.01) < 0.001);
  CHECK(std::fabs(normal.mean().item<double>()) < 0.004);  // four standard deviations of the mean
}

TEST_CASE("linear is x times the transposed weight plus bias, for any leading axes") {
  Generator rng(1);
  nn::Linear fc(3, 2, rng);
  const Tensor x = rand32({4, 5, 3}, 2);
  const Tensor y = fc(x);
  CHECK_EQ(y.shape(), Shape{4, 5, 2});
  const Tensor by_hand = (x.unsqueeze(2) * fc.weight).sum({-1}) + fc.bias;
  check_close(y, by_hand);
  check_close(fc(x.reshape({20, 3})), by_hand.reshape({20, 2}));
  nn::Linear plain(3, 2, rng, nn::Bias::no);
  CHECK_FALSE(plain.bias.defined());
  check_close(plain(x), matmul(x, plain.weight.t()));
}

TEST_CASE("convolutions have their strides, padding and groups") {
  Generator rng(1);
  nn::Conv2d conv(4, 6, 3, rng, {.stride = 2, .padding = {1, 0}, .groups = 2});
  const Tensor x = rand32({2, 4, 7, 7}, 3);
  CHECK_EQ(conv(x).shape(), Shape{2, 6, 4, 3});
  // Output (0, 0, 0, 0) by hand: group 0 has channels 0 and 1; row -1 is padding.
  double sum = conv.bias.at({0});
  for (int64_t c = 0; c < 2; ++c)
    for (int64_t i = 1; i < 3; ++i)
      for (int64_t j = 0; j < 3; ++j) sum += conv.weight.at({0, c, i, j}) * x.at({0, c, i - 1, j});
  CHECK(std::fabs(conv(x).at({0, 0, 0, 0}) - sum) < 1e-5);
  nn::Conv1d line(4, 5, 3, rng, {.padding = 1, .bias = nn::Bias::no});
  CHECK_EQ(line(rand32({2, 4, 9}, 1)).shape(), Shape{2, 5, 9});
  nn::ConvTranspose2d up(4, 3, 2, rng, {.stride = 2});
  CHECK_EQ(up.weight.shape(), Shape{4, 3, 2, 2});
  CHECK_EQ(up(x).shape(), Shape{2, 3, 14, 14});
}

TEST_CASE("batch norm uses the batch in training, the running statistics otherwise") {
  nn::BatchNorm norm(3, {.momentum = 0.25});
  const Tensor x = rand32({4, 3, 5}, 1) * 2 + 1;
  const Tensor mean = x.mean({0, 2}, KeepDims::yes), var = x.var({0, 2}, KeepDims::yes, 0);
  check_close(norm(x), (x - mean) / (var + 1e-5).sqrt(), 1e-4);
  check_close(norm.running_mean, mean.flatten() * 0.25);
  check_close(norm.running_var, x.var({0, 2}) * 0.25 + 0.75);
  CHECK_EQ(norm.num_batches_tracked.item<int64_t>(), 1);
  norm.eval();
  const TensorData before = norm.running_mean.data();
  check_close(
      norm(x),
      (x - norm.running_mean.unsqueeze(-1)) / (norm.running_var.unsqueeze(-1) + 1e-5).sqrt(), 1e-4);
  CHECK(test::same_bits(norm.running_mean.data(), before));
  CHECK_EQ(norm.num_batches_tracked.item<int64_t>(), 1);
}

TEST_CASE("batch norm's statistics are no part of the record") {
  nn::BatchNorm norm(3);
  const EagerCounts before = eager_counts();
  for (int i = 0; i < 3; ++i) CHECK_OK(norm(rand32({4, 3}, 1)).square().sum().backward());
  norm.zero_grad();
  CHECK_EQ(eager_counts().operations, before.operations);
  CHECK(norm.running_mean.is_leaf());
}

TEST_CASE("layer and group norm follow their formulas") {
  nn::LayerNorm layer(Shape{3, 4});
  const Tensor x = rand32({2, 3, 4}, 1);
  const std::vector<int64_t> axes = {1, 2};
  check_close(layer(x),
              (x - x.mean(axes, KeepDims::yes)) / (x.var(axes, KeepDims::yes, 0) + 1e-5).sqrt(),
              1e-4);
  nn::GroupNorm group(2, 4);
  const Tensor y = rand32({3, 4, 5}, 1), grouped = y.reshape({3, 2, 10});
  const Tensor want = (grouped - grouped.mean({2}, KeepDims::yes)) /
                      (grouped.var({2}, KeepDims::yes, 0) + 1e-5).sqrt();
  check_close(group(y), want.reshape({3, 4, 5}), 1e-4);
  nn::GroupNorm bare(2, 4, 1e-5, nn::Affine::no);
  check_close(bare(y), group(y));
}

TEST_CASE("embedding looks up rows, and its gradient adds where an index repeats") {
  Generator rng(1);
  nn::Embedding table(4, 2, rng);
  const Tensor indices = Tensor::of<int64_t>({1, 3, 1, 0}, {2, 2});
  const Tensor y = table(indices);
  CHECK_EQ(y.shape(), Shape{2, 2, 2});
  CHECK_EQ(y.at({0, 1, 1}), table.weight.at({3, 1}));
  CHECK_OK(y.sum().backward());
  CHECK_EQ(table.weight.grad().to_vector<float>(), std::vector<float>{1, 1, 2, 2, 0, 0, 1, 1});
  CHECK_FALSE(table(Tensor::of<int64_t>({7})).ok());
}

TEST_CASE("dropout drops in training only, another mask each time, the same for a seed") {
  Generator rng(1), again(1);
  nn::Dropout drop(0.25, rng), same(0.25, again);
  const Tensor x = Tensor::ones({10000}).requires_grad_();
  const Tensor y = drop(x);
  int64_t kept = 0;
  for (float v : y.to_vector<float>()) {
    CHECK((v == 0 || std::fabs(v - 4 / 3.0f) < 1e-6f));
    kept += v != 0;
  }
  CHECK(std::abs(kept - 7500) < 200);  // four standard deviations are 173
  CHECK(test::same_bits(y.data(), same(x).data()));
  CHECK_FALSE(test::same_bits(y.data(), drop(x).data()).close);
  CHECK_OK(y.sum().backward());
  CHECK(test::same_bits(x.grad().data(), y.data()));
  drop.eval();
  CHECK(test::same_bits(drop(x).data(), x.data()));
}

TEST_CASE("a trace records dropout and batch norm once for both modes, whatever the mode is now") {
  Generator rng(1);
  nn::Sequential net;
  net.add<nn::BatchNorm1d>(3);
  net.add<nn::Dropout>(0.5, rng);
  for (const bool training : {true, false}) {
    net.train(training);
    const Model model = test::must(nn::trace(net, {"x", rand32({4, 3}, 1), {"batch"}}));
    REQUIRE_EQ(model.graph.nodes.size(), 2u);
    CHECK_EQ(model.graph.nodes[0].op->name, "batch_norm");
    CHECK_EQ(model.graph.nodes[1].op->name, "dropout");
    CHECK_EQ(model.graph.nodes[1].name, "1");
    const Shape shapes[] = {{8, 3}};
    const Graph trained = test::must(specialise(model.graph, shapes, {.mode = Mode::train}));
    CHECK_EQ(trained.states(StateRole::rng).size(), 1u);
    CHECK_EQ(trained.updates.size(), 3u);  // two running statistics and the random counter
  }
}

TEST_CASE("pooling takes strides from the kernel unless told") {
  const Tensor x = Tensor::arange(0, 16, 1, DType::f32).reshape({1, 1, 4, 4});
  nn::MaxPool2d largest_of(2);
  CHECK_EQ(largest_of(x).to_vector<float>(), std::vector<float>{5, 7, 13, 15});
  nn::AvgPool2d average(2, {.stride = 1});
  CHECK_EQ(average(x).shape(), Shape{1, 1, 3, 3});
  CHECK_EQ(average(x).at({0, 0, 0, 0}), 2.5);
  nn::AdaptiveAvgPool2d one, two(2);
  CHECK_EQ(one(x).to_vector<float>(), std::vector<float>{7.5f});
  CHECK_EQ(two(x).to_vector<float>(), std::vector<float>{2.5f, 4.5f, 10.5f, 12.5f});
  nn::Flatten flat;
  CHECK_EQ(flat(x).shape(), Shape{1, 16});
}

// Values of torch.nn.functional.adaptive_avg_pool2d.
TEST_CASE("adaptive pooling takes extents that do not divide, with windows that overlap") {
  Tensor x = (Tensor::arange(0, 35, 1, DType::f32).square() / 10).detach().reshape({1, 1, 5, 7});
  x.requires_grad_();
  nn::AdaptiveAvgPool2d pool({2, 3});
  const Tensor y = pool(x);
  check_close(
      y, Tensor::of<float>({9.733333f, 13.333333f, 17.733334f, 51.733334f, 60.933334f, 70.933327f},
                           {1, 1, 2, 3}));
  const Tensor seed = Tensor::arange(1, 7, 1, DType::f32).reshape({1, 1, 2, 3});
  REQUIRE_OK((y * seed).sum().backward());
  const Tensor rows = x.grad().reshape({5, 7});
  check_close(rows[0],
              Tensor::of<float>({1 / 9.f, 1 / 9.f, 1 / 3.f, 2 / 9.f, 5 / 9.f, 1 / 3.f, 1 / 3.f}));
  check_close(rows[2], Tensor::of<float>({5 / 9.f, 5 / 9.f, 4 / 3.f, 7 / 9.f, 16 / 9.f, 1, 1}));
  CHECK_ERROR(pool(x.reshape({5, 7})).status(), Code::invalid_argument, "2 extents for f32[5, 7]");
  nn::AdaptiveAvgPool2d none(0);
  CHECK_ERROR(none(x).status(), Code::invalid_argument,
              "axis 2 of f32[1, 1, 5, 7] cannot become 0");
}

// Values of torch.nn.functional.interpolate.
TEST_CASE("upsampling is PyTorch's in each mode") {
  const Tensor x = Tensor::of<float>({1, 2, 4, 8, 16, 32}, {1, 1, 2, 3});
  nn::Upsample nearest(2), linear(2, nn::UpsampleMode::linear),
      aligned(2, nn::UpsampleMode::linear, nn::Corners::aligned),
      cubic(1.5, nn::UpsampleMode::cubic);
  CHECK_EQ(nearest(x).shape(), Shape{1, 1, 4, 6});
  const auto row = [](const Tensor& y, int64_t i) { return y.reshape({-1, y.size(-1)})[i]; };
  CHECK_EQ(row(nearest(x), 1).to_vector<float>(), std::vector<float>{1, 1, 2, 2, 4, 4});
  check_close(row(linear(x), 1), Tensor::of<float>({2.75f, 3.4375f, 4.8125f, 6.875f, 9.625f, 11}));
  check_close(row(aligned(x), 1),
              Tensor::of<float>({3.333333f, 4.666667f, 6, 8, 10.666667f, 13.333334f}));
  check_close(row(cubic(x), 2), Tensor::of<float>({7.860449f, 11.297525f, 20.43318f, 32.109283f}));
}

TEST_CASE("activation layers are the tensor's methods") {
  const Tensor x = Tensor::of<float>({-8, -0.5, 0.5, 8});
  nn::Relu6 relu6;
  CHECK_EQ(relu6(x).to_vector<float>(), std::vector<float>{0, 0, 0.5, 6});
  nn::LeakyRelu leaky(0.5);
  CHECK_EQ(leaky(x).to_vector<float>(), std::vector<float>{-4, -0.25, 0.5, 8});
  nn::Elu elu(2);
  check_close(elu(x), x.elu(2));
  nn::HardSigmoid gate;
  check_close(gate(x), x.hard_sigmoid());
  nn::Softmax softmax;
  check_close(softmax(x), x.softmax(0));
  nn::Identity same;
  CHECK(test::same_bits(same(x).data(), x.data()));
}

TEST_CASE("a sequence runs its layers in order, and functions are layers") {
  Generator rng(1);
  nn::Sequential net;
  auto& fc = net.add<nn::Linear>(3, 4, rng);
  net.add<nn::Relu>();
  net.add<nn::Function>("Double", [](const Tensor& x) { return x * 2; });
  const Tensor x = rand32({2, 3}, 1);
  check_close(net(x), linear(x, fc.weight, fc.bias).relu() * 2);
}

}  // namespace
}  // namespace hone
