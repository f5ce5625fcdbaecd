// SPDX-License-Identifier: Apache-2.0
// Two small transformers written from their parts: an encoder that classifies (norm after each
// block, as BERT) and a decoder that predicts the next token (norm before, as GPT-2).
#pragma once

#include <cmath>

#include "hone/nn.hpp"

namespace models {

/// x w + b with w (in, out).
class Dense : public hone::nn::Layer {
 public:
  Dense(int64_t in, int64_t out, hone::Generator& rng)
      : w_(hone::nn::init::normal({in, out}, 0, 1 / std::sqrt(static_cast<double>(in)), rng)),
        b_(hone::Tensor::zeros({out})) {
    add_parameter("w", w_);
    add_parameter("b", b_);
  }

 protected:
  hone::Tensor forward(const hone::Tensor& x) override { return matmul(x, w_) + b_; }

 private:
  hone::Tensor w_, b_;
};

struct TransformerSizes {
  int64_t width = 256, heads = 4, layers = 4, length = 128, vocabulary = 8000;
};

class SelfAttention : public hone::nn::Module {
 public:
  SelfAttention(const TransformerSizes& s, hone::Generator& rng)
      : q_(s.width, s.width, rng),
        k_(s.width, s.width, rng),
        v_(s.width, s.width, rng),
        o_(s.width, s.width, rng),
        sizes_(s) {
    add_child("q", q_);
    add_child("k", k_);
    add_child("v", v_);
    add_child("o", o_);
  }

  /// `bias` is added to the scores (N, heads, length, length).
  hone::Tensor operator()(const hone::Tensor& x, const hone::Tensor& bias) {
    hone::NameScope scope = enter();
    const hone::Tensor y = attention(split(q_(x)), split(k_(x)), split(v_(x)), {.mask = bias});
    return o_(y.permute({0, 2, 1, 3}).reshape({-1, sizes_.length, sizes_.width}));
  }

 private:
  // (N, length, width) -> (N, heads, length, width / heads)
  hone::Tensor split(const hone::Tensor& x) const {
    return x.reshape({-1, sizes_.length, sizes_.heads, sizes_.width / sizes_.heads})
        .permute({0, 2, 1, 3});
  }

  Dense q_, k_, v_, o_;
  TransformerSizes sizes_;
};

class EncoderLayer : public hone::nn::Module {
 public:
  EncoderLayer(const TransformerSizes& s, hone::Generator& rng)
      : att_(s, rng),
        n1_(s.width),
        up_(s.width, 4 * s.width, rng),
        down_(4 * s.width, s.width, rng),
        n2_(s.width) {
    add_child("att", att_);
    add_child("n1", n1_);
    add_child("up", up_);
    add_child("down", down_);
    add_child("n2", n2_);
  }

  hone::Tensor operator()(const hone::Tensor& x, const hone::Tensor& bias) {
    hone::NameScope scope = enter();
    const hone::Tensor y = n1_(x + att_(x, bias));
    return n2_(y + down_(up_(y).gelu()));
  }

 private:
  SelfAttention att_;
  hone::nn::LayerNorm n1_;
  Dense up_, down_;
  hone::nn::LayerNorm n2_;
};

/// input_ids, attention_mask (N, length) -> (N, classes)
class Bert : public hone::nn::Module {
 public:
  Bert(hone::Generator& rng, int64_t classes, const TransformerSizes& s = {})
      : tok_(s.vocabulary, s.width, rng),
        pos_(hone::nn::init::normal({s.length, s.width}, 0, 0.02, rng)),
        norm_(s.width),
        pool_(s.width, s.width, rng),
        cls_(s.width, classes, rng),
        length_(s.length) {
    add_parameter("pos", pos_);
    add_child("tok", tok_);
    add_child("norm", norm_);
    for (int64_t i = 0; i < s.layers; ++i) layers_.add(s, rng);
    add_child("layers", layers_);
    add_child("pool", pool_);
    add_child("cls", cls_);
  }

  hone::Tensor operator()(const hone::Tensor& ids, const hone::Tensor& mask) {
    const hone::Tensor bias =
        ((1.0 - mask.to(pos_.dtype())) * -10000.0).reshape({-1, 1, 1, length_});
    hone::Tensor x = norm_(tok_(ids) + pos_);
    for (size_t i = 0; i < layers_.size(); ++i) x = layers_[i](x, bias);
    return cls_(pool_(x.select(1, 0)).tanh());
  }

 private:
  hone::nn::Embedding tok_;
  hone::Tensor pos_;
  hone::nn::LayerNorm norm_;
  hone::nn::ModuleList<EncoderLayer> layers_;
  Dense pool_, cls_;
  int64_t length_;
};

class DecoderLayer : public hone::nn::Module {
 public:
  DecoderLayer(const TransformerSizes& s, hone::Generator& rng)
      : n1_(s.width),
        att_(s, rng),
        n2_(s.width),
        up_(s.width, 4 * s.width, rng),
        down_(4 * s.width, s.width, rng) {
    add_child("n1", n1_);
    add_child("att", att_);
    add_child("n2", n2_);
    add_child("up", up_);
    add_child("down", down_);
  }

  hone::Tensor operator()(const hone::Tensor& x, const hone::Tensor& bias) {
    hone::NameScope scope = enter();
    const hone::Tensor y = x + att_(n1_(x), bias);
    return y + down_(up_(n2_(y)).gelu(hone::GeluForm::tanh));
  }

 private:
  hone::nn::LayerNorm n1_;
  SelfAttention att_;
  hone::nn::LayerNorm n2_;
  Dense up_, down_;
};

/// ids (N, length) -> logits of the next token (N, length, vocabulary). The output layer is the
/// token embedding.
class Gpt : public hone::nn::Layer {
 public:
  explicit Gpt(hone::Generator& rng, const TransformerSizes& s = {})
      : tok_(s.vocabulary, s.width, rng),
        pos_(hone::nn::init::normal({s.length, s.width}, 0, 0.02, rng)),
        causal_(hone::Tensor::full({s.length, s.length}, -10000.0).triu(1)),
        norm_(s.width) {
    add_parameter("pos", pos_);
    add_child("tok", tok_);
    for (int64_t i = 0; i < s.layers; ++i) layers_.add(s, rng);
    add_child("layers", layers_);
    add_child("norm", norm_);
  }

 protected:
  hone::Tensor forward(const hone::Tensor& ids) override {
    hone::Tensor x = tok_(ids) + pos_;
    for (size_t i = 0; i < layers_.size(); ++i) x = layers_[i](x, causal_);
    return matmul(norm_(x), tok_.weight, {.trans_b = true});
  }

 private:
  hone::nn::Embedding tok_;
  hone::Tensor pos_, causal_;
  hone::nn::ModuleList<DecoderLayer> layers_;
  hone::nn::LayerNorm norm_;
};

}  // namespace models
