// SPDX-License-Identifier: Apache-2.0
// The lab's models from examples/models, and small ones of the golden training runs
// (tests/golden/cases_train.py) written the same way.
#include "tests/lab/eager_models.hpp"

#include "models/lenet.hpp"
#include "models/mlp.hpp"
#include "models/mobilenet.hpp"
#include "models/resnet.hpp"
#include "models/ssd.hpp"
#include "models/transformer.hpp"
#include "models/unet.hpp"

namespace hone::lab {

namespace {

// ---- cases_train.py

class ConvNet : public nn::Layer {
 public:
  explicit ConvNet(Generator& rng)
      : c1_(2, 6, 3, rng, {.stride = 2, .padding = 1, .bias = nn::Bias::no}),
        dw_(6, 6, 3, rng, {.padding = 1, .groups = 6}),
        s1_(6, 3, 1, rng),
        s2_(3, 6, 1, rng),
        n1_(6),
        n2_(6),
        pool_(2),
        fc_(24, 4, rng) {
    add_child("c1", c1_);
    add_child("n1", n1_);
    add_child("dw", dw_);
    add_child("n2", n2_);
    add_child("s1", s1_);
    add_child("s2", s2_);
    add_child("fc", fc_);
  }

 protected:
  Tensor forward(const Tensor& input) override {
    const Tensor x = n1_(c1_(input)).hard_swish();
    const Tensor y = n2_(dw_(x)).silu();
    const Tensor scale = s2_(s1_(global_avg_pool(y)).relu()).hard_sigmoid();
    return fc_(pool_(x + y * scale).flatten(1));
  }

 private:
  nn::Conv2d c1_, dw_, s1_, s2_;
  nn::BatchNorm2d n1_, n2_;
  nn::MaxPool2d pool_;
  nn::Linear fc_;
};

class Transformer : public nn::Layer {
 public:
  explicit Transformer(Generator& rng)
      : tok_(11, 8, rng),
        pos_(Tensor::zeros({5, 8})),
        n1_(8),
        n2_(8),
        qkv_(8, 24, rng),
        o_(8, 8, rng),
        up_(8, 16, rng),
        down_(16, 8, rng),
        head_(8, 11, rng, nn::Bias::no) {
    add_parameter("pos", pos_);
    add_child("tok", tok_);
    add_child("n1", n1_);
    add_child("n2", n2_);
    add_child("qkv", qkv_);
    add_child("o", o_);
    add_child("up", up_);
    add_child("down", down_);
    add_child("head", head_);
  }

 protected:
  Tensor forward(const Tensor& ids) override {
    Tensor x = tok_(ids) + pos_;
    std::vector<Tensor> parts = qkv_(n1_(x)).chunk(3, -1);
    if (parts.size() != 3) return parts[0];
    for (Tensor& t : parts) t = t.reshape({-1, 5, 2, 4}).transpose(1, 2);
    const Tensor y = attention(parts[0], parts[1], parts[2]);
    x = x + o_(y.transpose(1, 2).reshape({-1, 5, 8}));
    return head_(x + down_(up_(n2_(x)).gelu()));
  }

 private:
  nn::Embedding tok_;
  Tensor pos_;
  nn::LayerNorm n1_, n2_;
  nn::Linear qkv_, o_, up_, down_, head_;
};

class Segment : public nn::Layer {
 public:
  explicit Segment(Generator& rng)
      : d_(1, 4, 3, rng, {.stride = 2, .padding = 1}),
        n_(2, 4),
        up_(2.0, nn::UpsampleMode::linear),
        u_(4, 3, 3, rng, {.stride = 2, .padding = 1, .output_padding = 1}),
        o_(8, 3, 3, rng, {.padding = 2, .dilation = 2}) {
    add_child("d", d_);
    add_child("n", n_);
    add_child("u", u_);
    add_child("o", o_);
  }

 protected:
  Tensor forward(const Tensor& x) override {
    const Tensor y = n_(d_(x)).leaky_relu(0.1);
    return o_(concat({u_(y).tanh(), up_(y), x}, 1));
  }

 private:
  nn::Conv2d d_;
  nn::GroupNorm n_;
  nn::Upsample up_;
  nn::ConvTranspose2d u_;
  nn::Conv2d o_;
};

class TwoHeads : public nn::Module {
 public:
  explicit TwoHeads(Generator& rng) : body_(6, 12, rng), cls_(12, 12, rng), box_(12, 6, rng) {
    add_child("body", body_);
    add_child("cls", cls_);
    add_child("box", box_);
  }
  std::vector<Tensor> operator()(const Tensor& x) {
    const Tensor y = body_(x).elu();
    return {cls_(y).reshape({-1, 3, 4}), box_(y).sigmoid().reshape({-1, 3, 2})};
  }

 private:
  nn::Linear body_, cls_, box_;
};

// ---- how each is run, and its loss

template <class M, auto... kArgs>
std::unique_ptr<nn::Module> make(Generator& rng) {
  return std::make_unique<M>(kArgs..., rng);
}

// As they lie in a Module again.
std::vector<Tensor> run_layer(nn::Module& module, std::span<const Tensor> in) {
  return {static_cast<nn::Layer&>(module)(in[0])};
}

using TargetFn = EagerModel::TargetFn;

Tensor classes_last(std::span<const Tensor> out, const TargetFn& target) {
  return loss::cross_entropy(out[0], target("label"), {.axis = -1});
}
Tensor classes_of_pixels(std::span<const Tensor> out, const TargetFn& target) {
  return loss::cross_entropy(out[0], target("label"), {.axis = 1});
}
Tensor classes_and_boxes(std::span<const Tensor> out, const TargetFn& target) {
  return classes_last(out, target) + loss::smooth_l1(out[1], target("box"));
}
Tensor classes_and_half_boxes(std::span<const Tensor> out, const TargetFn& target) {
  return classes_last(out, target) + 0.5 * loss::smooth_l1(out[1], target("box"));
}

// The lab trains without dropout.
template <class M>
std::unique_ptr<nn::Module> make_mobilenet(Generator& rng) {
  return std::make_unique<M>(rng, models::MobileNetOptions{.dropout = 0});
}
std::unique_ptr<nn::Module> make_bert(Generator& rng) {
  return std::make_unique<models::Bert>(rng, 4);
}
std::vector<Tensor> run_bert(nn::Module& module, std::span<const Tensor> in) {
  return {static_cast<models::Bert&>(module)(in[0], in[1])};
}
std::vector<Tensor> run_ssd(nn::Module& module, std::span<const Tensor> in) {
  models::Ssd::Output out = static_cast<models::Ssd&>(module)(in[0]);
  return {std::move(out.scores), std::move(out.boxes)};
}
std::vector<Tensor> run_two_heads(nn::Module& module, std::span<const Tensor> in) {
  return static_cast<TwoHeads&>(module)(in[0]);
}
std::unique_ptr<nn::Module> make_small_lenet(Generator& rng) {
  return std::make_unique<models::LeNet>(
      rng,
      models::LeNetSizes{
          .input = 16, .channels1 = 2, .channels2 = 4, .hidden1 = 12, .hidden2 = 8, .classes = 5});
}

constexpr EagerModel kModels[] = {
    {"mlp", make<models::Mlp, 784, 512, 256, 10>, run_layer, classes_last},
    {"lenet", make<models::LeNet>, run_layer, classes_last},
    {"resnet18", make<models::ResNet18>, run_layer, classes_last},
    {"mobilenet_v2", make_mobilenet<models::MobileNetV2>, run_layer, classes_last},
    {"mobilenet_v3_small", make_mobilenet<models::MobileNetV3Small>, run_layer, classes_last},
    {"bert_tiny", make_bert, run_bert, classes_last},
    {"gpt_tiny", make<models::Gpt>, run_layer, classes_last},
    {"unet", make<models::UNet, 16, 4>, run_layer, classes_of_pixels},
    {"ssd_tiny", make<models::Ssd>, run_ssd, classes_and_boxes},
    {"train_mlp", make<models::Mlp, 7, 6, 5, 4>, run_layer, classes_last},
    {"train_lenet", make_small_lenet, run_layer, classes_last},
    {"train_convnet", make<ConvNet>, run_layer, classes_last},
    {"train_transformer", make<Transformer>, run_layer, classes_last},
    {"train_segment", make<Segment>, run_layer, classes_of_pixels},
    {"train_two_heads", make<TwoHeads>, run_two_heads, classes_and_half_boxes},
};

}  // namespace

std::span<const EagerModel> eager_models() { return kModels; }

}  // namespace hone::lab
