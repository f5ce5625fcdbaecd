// SPDX-License-Identifier: Apache-2.0
// usage: hone_size_train MODEL.hone RESULT.hone   The smallest app that trains: fits a classifier
// with one input and one output to a batch of made-up images, and saves it.
#include <cstdio>

#include "hone/ops.hpp"
#include "hone/trainer.hpp"

namespace {

constexpr int64_t kBatch = 8;
constexpr int kSteps = 20;

hone::Result<hone::Value> loss(hone::Builder&, const hone::NamedValues& outputs,
                               const hone::NamedValues& targets) {
  HONE_ASSIGN(const hone::Value labels, targets.find("label"));
  return hone::loss::cross_entropy(outputs.items()[0].second, labels, {});
}

hone::Result<std::vector<hone::NamedTensor>> make_batch(const hone::Graph& g) {
  hone::Shape shape = g.type(g.inputs[0]).shape;
  shape[0] = kBatch;
  HONE_ASSIGN(hone::TensorData images, hone::TensorData::allocate({hone::DType::f32, shape}));
  float* const pixel = static_cast<float*>(images.mutable_data());
  uint32_t state = 1;
  for (int64_t i = 0; i < shape.numel(); ++i) {
    state = state * 1664525 + 1013904223;  // Knuth's linear congruential generator
    pixel[i] = static_cast<float>(state >> 8) * 0x1p-24f;
  }
  int64_t label[kBatch];
  for (int64_t i = 0; i < kBatch; ++i) label[i] = i % 3;
  HONE_ASSIGN(hone::TensorData labels,
              hone::TensorData::vector_of(std::span<const int64_t>(label)));
  return std::vector<hone::NamedTensor>{{g.value(g.inputs[0]).name, std::move(images)},
                                        {"label", std::move(labels)}};
}

hone::Status train(const char* path, const char* result) {
  HONE_ASSIGN(const hone::Model model, hone::load_model(path));
  HONE_ASSIGN(const std::vector<hone::NamedTensor> batch, make_batch(model.graph));
  hone::TrainerOptions options;
  options.loss = loss;
  HONE_ASSIGN(hone::Trainer trainer, hone::Trainer::create(model, options));
  double first = 0, last = 0;
  for (int i = 0; i < kSteps; ++i) {
    HONE_ASSIGN(const hone::StepResult step, trainer.step(batch));
    if (i == 0) first = step.loss;
    last = step.loss;
  }
  std::printf("loss: %.4f, after %d steps %.4f\n", first, kSteps, last);
  if (!(last < first)) return hone::invalid("the loss did not fall");
  HONE_ASSIGN(const hone::Model tuned, trainer.snapshot());
  return hone::save_model(tuned, result);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  const hone::Status s = train(argv[1], argv[2]);
  if (!s.ok()) std::fprintf(stderr, "hone_size_train: %s\n", s.message().c_str());
  return s.ok() ? 0 : 1;
}
