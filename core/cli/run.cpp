// SPDX-License-Identifier: Apache-2.0
// hone run: outputs of a model for given inputs.
#include <cstdio>
#include <memory>

#include "core/cli/commands.hpp"
#include "core/cli/common.hpp"
#include "core/cli/terminal.hpp"
#include "hone/npz.hpp"
#include "hone/onnx.hpp"

namespace hone::cli {

namespace {

struct Args {
  std::string model, folder;
  TensorArgs tensors;
  DeviceArgs device;
};

Status run(const Args& a) {
  HONE_ASSIGN(const Model m, open_model(a.model));
  HONE_ASSIGN(const SessionOptions options, a.device.session());
  HONE_ASSIGN(const std::vector<NamedTensor> inputs, a.tensors.load(m.graph));
  HONE_ASSIGN(Session session, Session::create(m, options));
  HONE_ASSIGN(const std::vector<TensorData> outputs, session.run(inputs));
  HONE_TRY(make_folder(a.folder));
  for (size_t i = 0; i < outputs.size(); ++i) {
    const std::string& name = m.graph.outputs[i].name;
    const std::string path = a.folder + "/" + file_name(name) + ".npy";
    HONE_TRY(write_npy(path, outputs[i]));
    const std::string text = describe(outputs[i], 0);
    std::printf("%s: %s -> %s\n", name.c_str(),
                text.substr(0, text.find_first_of("\n[", text.find(']') + 1)).c_str(),
                path.c_str());
  }
  return {};
}

}  // namespace

void add_run(CLI::App& app, Action& action) {
  auto args = std::make_shared<Args>();
  CLI::App* c = app.add_subcommand("run", "Run a model on inputs from files");
  c->add_option("model", args->model, "The model: .hone, .onnx or .tflite")
      ->required()
      ->type_name("MODEL");
  args->tensors.add_to(*c);
  c->add_option("--output-dir", args->folder, "Folder for one .npy per output")
      ->required()
      ->type_name("DIR");
  args->device.add_to(*c);
  c->callback([args, &action] { action = [args] { return run(*args); }; });
}

}  // namespace hone::cli
