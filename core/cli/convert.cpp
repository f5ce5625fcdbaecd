// SPDX-License-Identifier: Apache-2.0
// hone convert, hone export: between ONNX and .hone.
#include <cstdio>
#include <filesystem>
#include <memory>

#include "core/cli/commands.hpp"
#include "core/cli/terminal.hpp"
#include "hone/onnx.hpp"

namespace hone::cli {

namespace {

struct Args {
  std::string model, out;
};

int64_t size_of_file(const std::string& path) {
  std::error_code problem;
  const auto size = std::filesystem::file_size(path, problem);
  return problem ? 0 : static_cast<int64_t>(size);
}

std::string summary(const Model& m) {
  int64_t parameters = 0, elements = 0;
  for (const ValueInfo& v : m.graph.values)
    if (v.kind == ValueKind::state && v.role == StateRole::parameter)
      ++parameters, elements += v.type.numel();
  return format("{} nodes, {} parameters ({} numbers)", m.graph.nodes.size(), parameters,
                count_text(elements));
}

Status convert(const Args& a) {
  HONE_ASSIGN(const Model m, open_model(a.model));
  HONE_TRY(save_model(m, a.out));
  std::printf("%s -> %s\n  %s, %s\n", a.model.c_str(), a.out.c_str(), summary(m).c_str(),
              bytes_text(size_of_file(a.out)).c_str());
  return {};
}

Status export_model(const Args& a) {
  HONE_ASSIGN(const Model m, open_model(a.model));
  HONE_TRY(export_onnx(m, a.out));
  std::printf("%s -> %s\n  %s, %s\n", a.model.c_str(), a.out.c_str(), summary(m).c_str(),
              bytes_text(size_of_file(a.out)).c_str());
  return {};
}

}  // namespace

void add_convert(CLI::App& app, Action& action) {
  auto args = std::make_shared<Args>();
  CLI::App* c = app.add_subcommand("convert", "Turn an ONNX model into a .hone file");
  c->add_option("model", args->model, "The model: .onnx (or .hone, to write it anew)")
      ->required()
      ->type_name("MODEL");
  c->add_option("-o,--output", args->out, "The .hone file to write")->required()->type_name("FILE");
  c->callback([args, &action] { action = [args] { return convert(*args); }; });
}

void add_export(CLI::App& app, Action& action) {
  auto args = std::make_shared<Args>();
  CLI::App* c = app.add_subcommand("export", "Write a model as ONNX");
  c->add_option("model", args->model, "The model: .hone or .onnx")->required()->type_name("MODEL");
  c->add_option("-o,--output", args->out, "The .onnx file to write")->required()->type_name("FILE");
  c->callback([args, &action] { action = [args] { return export_model(*args); }; });
}

}  // namespace hone::cli
