// SPDX-License-Identifier: Apache-2.0
// Models with all that a memory limit must not change, and what their trainings are compared by.
#pragma once

#include "hone/nn.hpp"
#include "hone/trainer.hpp"
#include "tests/runtime/models.hpp"

namespace hone::test {

struct Subject {
  const char* name;
  Model model;
  std::vector<NamedTensor> batch;
};

inline TensorData labels(int64_t n) {
  std::vector<double> values;
  for (int64_t i = 0; i < n; ++i) values.push_back(static_cast<double>(i % 4));
  return tensor_from({DType::i64, {n}}, values);
}

inline Tensor example(const Shape& shape) { return Tensor(random_tensor({DType::f32, shape}, 3)); }

inline Subject convolutions() {
  Generator rng(1);
  nn::Sequential net;
  int64_t channels = 3;
  for (const int64_t wide : {8, 8, 16, 16}) {
    net.add<nn::Conv2d>(channels, wide, 3, rng, nn::ConvOptions{.padding = 1});
    net.add<nn::BatchNorm>(wide);
    net.add<nn::Relu>();
    net.add<nn::Dropout>(0.2, rng);
    channels = wide;
  }
  net.add<nn::AdaptiveAvgPool2d>();
  net.add<nn::Flatten>();
  net.add<nn::Linear>(channels, 4, rng);
  net.train();
  Model m = must(nn::trace(net, {"x", example({4, 3, 16, 16}), {"n"}}, "logits"));
  return {"convolutions, batch norm, dropout",
          std::move(m),
          {{"x", random_tensor({DType::f32, {8, 3, 16, 16}}, 5)}, {"label", labels(8)}}};
}

struct Encoder : nn::Module {
  explicit Encoder(Generator& rng)
      : first(32, 4, rng, {.feed_forward = 64, .dropout = 0.1}),
        second(32, 4, rng, {.feed_forward = 64, .dropout = 0.1}),
        head(32, 4, rng) {
    add_child("first", first);
    add_child("second", second);
    add_child("head", head);
  }
  std::string kind() const override { return "Encoder"; }
  nn::TransformerEncoderLayer first, second;
  nn::Linear head;
};

inline Subject attention() {
  Generator rng(2);
  Encoder net(rng);
  const TracedFn forward = [&](std::span<const Tensor> x) {
    return std::vector<Tensor>{net.head(net.second(net.first(x[0]))).mean({1})};
  };
  const TraceInput in[] = {{"x", example({4, 12, 32}), {"n"}}};
  Model m = must(nn::trace(net, forward, in, {"logits"}));
  return {"attention",
          std::move(m),
          {{"x", random_tensor({DType::f32, {8, 12, 32}}, 5)}, {"label", labels(8)}}};
}

struct Tagger : nn::Module {
  explicit Tagger(Generator& rng)
      : first(16, 24, rng, {.bidirectional = true}), second(48, 24, rng), head(24, 4, rng) {
    add_child("first", first);
    add_child("second", second);
    add_child("head", head);
  }
  std::string kind() const override { return "Tagger"; }
  nn::Lstm first, second;
  nn::Linear head;
};

inline Subject recurrent() {
  Generator rng(3);
  Tagger net(rng);
  const TracedFn forward = [&](std::span<const Tensor> x) {
    return std::vector<Tensor>{
        net.head(net.second(net.first(x[0]).output.relu()).output).mean({0})};
  };
  const TraceInput in[] = {{"x", example({10, 4, 16}), {"", "n"}}};
  Model m = must(nn::trace(net, forward, in, {"logits"}));
  return {"LSTM",
          std::move(m),
          {{"x", random_tensor({DType::f32, {10, 8, 16}}, 5)}, {"label", labels(8)}}};
}

inline TrainerOptions options(int64_t limit) {
  TrainerOptions o;
  o.loss = cross_entropy_loss;
  o.optimizer.lr = 1e-2;
  o.seed = 11;
  o.session.memory_limit = limit;
  return o;
}

inline void check_same_states(const Trainer& a, const Trainer& b) {
  const Trainer::State x = must(a.save()), y = must(b.save());
  REQUIRE_EQ(x.entries.size(), y.entries.size());
  for (size_t i = 0; i < x.entries.size(); ++i) {
    CAPTURE(x.entries[i].name);
    CHECK(same_bits(x.entries[i].data, y.entries[i].data));
  }
}

}  // namespace hone::test
