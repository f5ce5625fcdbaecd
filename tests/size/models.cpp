// SPDX-License-Identifier: Apache-2.0
// usage: hone_size_models FOLDER   The models whose programs are measured: mobilenet_v2.hone and
// lenet.hone; and with_erf.hone, which needs an operator that neither has.
#include <cstdio>

#include "hone/nn.hpp"
#include "hone/nn/trace.hpp"
#include "models/lenet.hpp"
#include "models/mobilenet.hpp"

namespace {

hone::Status save(hone::nn::Layer& net, const hone::Shape& image, hone::Generator& rng,
                  const std::string& path) {
  net.eval();
  HONE_ASSIGN(const hone::Model m,
              hone::nn::trace(net, {"image", hone::Tensor::rand(image, rng), {"batch"}}));
  return hone::save_model(m, path);
}

hone::Status save_all(const std::string& folder) {
  hone::Generator rng(1);
  models::MobileNetV2 mobilenet(rng);
  models::LeNet lenet(rng);
  HONE_TRY(save(mobilenet, {2, 3, 224, 224}, rng, folder + "/mobilenet_v2.hone"));
  HONE_TRY(save(lenet, {2, 1, 28, 28}, rng, folder + "/lenet.hone"));
  hone::nn::Function erf("Erf", [](const hone::Tensor& x) { return x.erf(); });
  return save(erf, {2, 4}, rng, folder + "/with_erf.hone");
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  const hone::Status s = save_all(argv[1]);
  if (!s.ok()) std::fprintf(stderr, "hone_size_models: %s\n", s.message().c_str());
  return s.ok() ? 0 : 1;
}
