// SPDX-License-Identifier: Apache-2.0
// hone eval: loss and accuracy of a model on data.
#include <cstdio>
#include <memory>

#include "core/cli/commands.hpp"
#include "core/cli/common.hpp"
#include "core/cli/training.hpp"
#include "hone/onnx.hpp"

namespace hone::cli {

namespace {

struct Args {
  std::string model, data, loss;
  int64_t batch = 64;
  DeviceArgs device;
};

Status eval(const Args& a) {
  HONE_ASSIGN(const Model m, open_model(a.model));
  HONE_ASSIGN(const std::vector<LossTerm> terms, loss_terms(a.loss));
  HONE_ASSIGN(std::shared_ptr<const Dataset> data, open_data(a.data, m.graph, terms));
  TrainerOptions options;
  HONE_ASSIGN(options.loss, parse_loss(a.loss));
  HONE_ASSIGN(options.session, a.device.session());
  HONE_ASSIGN(Trainer trainer, Trainer::create(m, options));
  HONE_ASSIGN(const Score score, judge(trainer, data, terms, a.batch));
  std::printf("%s on %s, %lld samples: %s\n", a.model.c_str(), a.data.c_str(),
              static_cast<long long>(score.samples), score.text().c_str());
  return {};
}

}  // namespace

void add_eval(CLI::App& app, Action& action) {
  auto args = std::make_shared<Args>();
  CLI::App* c = app.add_subcommand(
      "eval", "Judge a model on data: loss, and accuracy where the loss has a cross-entropy");
  c->add_option("model", args->model, "The model: .hone, .onnx or .tflite")
      ->required()
      ->type_name("MODEL");
  c->add_option("--data", args->data, "Arrays named as the model's inputs and the loss's targets")
      ->required()
      ->type_name("FILE.npz");
  c->add_option("--loss", args->loss, "The loss, as for 'hone train'")
      ->required()
      ->type_name("LOSS");
  c->add_option("--batch", args->batch, "Samples at a time")
      ->capture_default_str()
      ->check(CLI::PositiveNumber);
  args->device.add_to(*c);
  c->callback([args, &action] { action = [args] { return eval(*args); }; });
}

}  // namespace hone::cli
