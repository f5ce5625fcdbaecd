// SPDX-License-Identifier: Apache-2.0
// usage: hone_size_everything MODEL RESULT.onnx   An app that offers all there is: opens any kind
// of model, trains it with a loss given as text, keeps checkpoints, infers and exports.
#include <cstdio>
#include <cstdlib>

#include "hone/checkpoint.hpp"
#include "hone/idx.hpp"
#include "hone/loss_text.hpp"
#include "hone/nn.hpp"
#include "hone/nn/trace.hpp"
#include "hone/npz.hpp"
#include "hone/onnx.hpp"
#include "hone/safetensors.hpp"
#include "hone/simplify.hpp"
#include "hone/trainer.hpp"

namespace {

hone::Status run(const hone::Model& model, const char* data) {
  HONE_ASSIGN(hone::Session session, hone::Session::create(model));
  HONE_ASSIGN(const hone::TensorData input, hone::read_npy(data));
  HONE_ASSIGN(const std::vector<hone::TensorData> out, session.run(std::span(&input, 1)));
  const std::pair<std::string, hone::TensorData> named[] = {{"out", out[0]}};
  return hone::write_npz("out.npz", named);
}

hone::Status train(const hone::Model& model, const char* data, const char* result) {
  hone::TrainerOptions options;
  HONE_ASSIGN(options.loss, hone::parse_loss("cross_entropy(logits, label)"));
  HONE_ASSIGN(hone::Trainer trainer, hone::Trainer::create(model, options));
  HONE_ASSIGN(const hone::NpzReader file, hone::NpzReader::open(data));
  HONE_ASSIGN(const hone::TensorData x, file.read("x"));
  HONE_ASSIGN(const hone::TensorData label, hone::read_idx("label.idx"));
  const hone::NamedTensor batch[] = {{"x", x}, {"label", label}};
  HONE_TRY(trainer.step(batch).status());
  HONE_ASSIGN(hone::Model tuned, trainer.snapshot());
  HONE_TRY(hone::save_delta(model, tuned, "tuned.delta"));
  return hone::export_onnx(tuned, result);
}

// Define-by-run code with a layer of each family.
hone::Result<hone::Model> trace_net() {
  hone::Generator rng(1);
  hone::nn::Sequential net;
  net.add<hone::nn::Conv2d>(1, 4, 3, rng);
  net.add<hone::nn::Relu>();
  return hone::nn::trace(net, {"image", hone::Tensor::rand({1, 1, 8, 8}, rng), {"batch"}});
}

hone::Status all(int argc, char** argv) {
  HONE_ASSIGN(const hone::Model model, argc > 1 ? hone::open_model(argv[1]) : trace_net());
  if (argc == 3) return run(model, argv[2]);
  if (argc == 4) return train(model, argv[2], argv[3]);
  return hone::save_model(model, "traced.hone");
}

}  // namespace

int main(int argc, char** argv) {
  const hone::Status s = all(argc, argv);
  if (!s.ok()) std::fprintf(stderr, "hone_size_everything: %s\n", s.message().c_str());
  return s.ok() ? 0 : 1;
}
