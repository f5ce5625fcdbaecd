// SPDX-License-Identifier: Apache-2.0
// usage: hone_bench_models FOLDER   The models of growth.py: resnet18.hone, and encoders of several
// lengths and depths, encoder_LENGTH_LAYERS.hone.
#include <cstdio>

#include "hone/nn.hpp"
#include "hone/nn/trace.hpp"
#include "models/resnet.hpp"
#include "models/transformer.hpp"

namespace {

using hone::Tensor;

hone::Status save_encoder(const std::string& folder, int64_t length, int64_t layers) {
  hone::Generator rng(1);
  models::Bert net(
      rng, 4, {.width = 128, .heads = 4, .layers = layers, .length = length, .vocabulary = 1000});
  net.eval();
  const auto forward = [&](std::span<const Tensor> in) {
    return std::vector<Tensor>{net(in[0], in[1])};
  };
  const std::vector<hone::TraceInput> inputs = {
      {"ids", Tensor::randint({2, length}, rng, 0, 1000), {"batch"}},
      {"mask", Tensor::full({2, length}, 1, hone::DType::i64), {"batch"}}};
  HONE_ASSIGN(const hone::Model m, hone::nn::trace(net, forward, inputs, {"scores"}));
  return hone::save_model(m, hone::format("{}/encoder_{}_{}.hone", folder, length, layers));
}

hone::Status save_all(const std::string& folder) {
  hone::Generator rng(1);
  models::ResNet18 net(rng);
  net.eval();
  HONE_ASSIGN(const hone::Model m,
              hone::nn::trace(net, {"image", Tensor::rand({2, 3, 224, 224}, rng), {"batch"}}));
  HONE_TRY(hone::save_model(m, folder + "/resnet18.hone"));
  for (const int64_t length : {32, 64, 128, 256, 512, 1024})
    HONE_TRY(save_encoder(folder, length, 2));
  for (const int64_t layers : {1, 4, 8, 16, 32}) HONE_TRY(save_encoder(folder, 64, layers));
  return {};
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: hone_bench_models FOLDER\n");
    return 2;
  }
  const hone::Status s = save_all(argv[1]);
  if (!s.ok()) std::fprintf(stderr, "hone_bench_models: %s\n", s.message().c_str());
  return s.ok() ? 0 : 1;
}
