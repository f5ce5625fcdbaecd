// SPDX-License-Identifier: Apache-2.0
// The command line: picks a command, runs it, reports how it went.
#include <cstdio>

#include "core/cli/commands.hpp"

namespace {

constexpr const char* kFooter = R"(Examples:
  hone convert model.onnx -o model.hone
  hone inspect model.hone
  hone run model.hone --input input=x.npy --output-dir out
  hone train model.hone --data data.npz --loss 'cross_entropy(logits, label)' \
      --optimizer adamw --lr 1e-3 --batch 32 --steps 500 -o tuned.hone
  hone export tuned.hone -o tuned.onnx

'hone COMMAND --help' explains a command. Exit codes: 0 done, 1 failed, 2 wrong usage.)";

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Runs neural networks on this device and goes on training them here.", "hone");
  app.set_version_flag("--version", "hone " HONE_VERSION);
  app.require_subcommand(1);
  app.footer(kFooter);
  hone::cli::Action action;
  hone::cli::add_convert(app, action);
  hone::cli::add_inspect(app, action);
  hone::cli::add_run(app, action);
  hone::cli::add_train(app, action);
  hone::cli::add_eval(app, action);
  hone::cli::add_bench(app, action);
  hone::cli::add_export(app, action);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    return app.exit(e) == 0 ? 0 : 2;
  }
  const hone::Status s = action();
  if (s.ok()) return 0;
  std::fprintf(stderr, "hone: %s\n", s.message().c_str());
  return 1;
}
