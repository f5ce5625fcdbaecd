// SPDX-License-Identifier: Apache-2.0
// hone convert, hone export: between ONNX and .hone; weights in and out.
#include <cstdio>
#include <filesystem>
#include <memory>

#include "core/cli/commands.hpp"
#include "core/cli/simplifying.hpp"
#include "core/cli/terminal.hpp"
#include "hone/npz.hpp"
#include "hone/onnx.hpp"
#include "hone/precision.hpp"
#include "hone/safetensors.hpp"
#include "hone/weights.hpp"

namespace hone::cli {

namespace {

struct Args {
  std::string model, out, weights, dtype;
  std::vector<std::string> renamings;
  SimplifyArgs simplify;
  bool simplify_only = false, fold_batch_norm = false;
};

// What a path ends in says which of the two formats of weights it is.
enum class WeightFile { none, safetensors, npz };
WeightFile kind_of(std::string_view path) {
  if (path.ends_with(".safetensors")) return WeightFile::safetensors;
  return path.ends_with(".npz") ? WeightFile::npz : WeightFile::none;
}

Result<std::vector<NamedTensor>> read_weights(const std::string& path) {
  if (kind_of(path) == WeightFile::safetensors) {
    HONE_ASSIGN(TensorFile file, load_safetensors(path));
    return std::move(file.tensors);
  }
  if (kind_of(path) == WeightFile::none)
    return invalid("weights '{}': expected a file that ends in .safetensors or .npz", path);
  HONE_ASSIGN(const NpzReader file, NpzReader::open(path));
  std::vector<NamedTensor> out;
  for (const std::string& name : file.names()) {
    HONE_ASSIGN(TensorData data, file.read(name));
    out.push_back({name, std::move(data)});
  }
  return out;
}

Status write_weights(const Model& m, std::vector<NamedTensor> tensors, const std::string& path) {
  if (kind_of(path) == WeightFile::safetensors)
    return save_safetensors({std::move(tensors), m.metadata}, path);
  std::vector<std::pair<std::string, TensorData>> arrays;
  for (NamedTensor& t : tensors) arrays.emplace_back(std::move(t.name), std::move(t.data));
  return write_npz(path, arrays);
}

Result<std::vector<Renaming>> renamings(const Args& a) {
  std::vector<Renaming> out;
  for (const std::string& text : a.renamings) {
    HONE_ASSIGN(Renaming r, parse_renaming(text));
    out.push_back(std::move(r));
  }
  return out;
}

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
  if (!a.simplify_only && a.out.ends_with(".onnx"))
    return invalid("'{}': convert writes .hone files; ONNX comes from --simplify-only or export",
                   a.out);
  HONE_ASSIGN(Simplified opened, open_simplified(a.model, a.simplify));
  Model& m = opened.model;
  HONE_ASSIGN(const std::vector<Renaming> names, renamings(a));
  if (!a.weights.empty()) {
    HONE_ASSIGN(std::vector<NamedTensor> tensors, read_weights(a.weights));
    rename(tensors, names);
    HONE_TRY(set_weights(m, tensors).with_context(a.weights));
  }
  if (!a.dtype.empty()) HONE_TRY(set_precision(m.graph, *dtype_from_string(a.dtype)));
  int64_t folded = 0;
  if (a.fold_batch_norm) {
    HONE_ASSIGN(folded, fold_batch_norm(m.graph));
  }
  HONE_TRY(a.simplify_only ? export_onnx(m, a.out) : save_model(m, a.out));
  std::printf("%s -> %s\n  %s, %s\n", a.model.c_str(), a.out.c_str(), summary(m).c_str(),
              bytes_text(size_of_file(a.out)).c_str());
  if (opened.report) std::printf("%s", text_of(*opened.report).c_str());
  if (a.fold_batch_norm)
    std::printf("  batch normalisations folded into convolutions: %s\n",
                count_text(folded).c_str());
  return {};
}

Status export_model(const Args& a) {
  HONE_ASSIGN(const Model m, open_model(a.model));
  HONE_ASSIGN(const std::vector<Renaming> names, renamings(a));
  if (kind_of(a.out) == WeightFile::none) {
    if (!names.empty()) return invalid("--rename is for weights, '{}' is a whole model", a.out);
    HONE_TRY(export_onnx(m, a.out));
  } else {
    std::vector<NamedTensor> tensors = weights(m);
    rename(tensors, names);
    HONE_TRY(write_weights(m, std::move(tensors), a.out));
  }
  std::printf("%s -> %s\n  %s, %s\n", a.model.c_str(), a.out.c_str(), summary(m).c_str(),
              bytes_text(size_of_file(a.out)).c_str());
  return {};
}

void add_renamings(CLI::App& command, Args& args) {
  command
      .add_option("--rename", args.renamings,
                  "Rename weights: FROM=TO, '*' on both sides stands for the same; the first that "
                  "fits applies")
      ->type_name("FROM=TO");
}

}  // namespace

void add_convert(CLI::App& app, Action& action) {
  auto args = std::make_shared<Args>();
  CLI::App* c = app.add_subcommand("convert", "Turn an ONNX model into a .hone file");
  c->add_option("model", args->model, "The model: .onnx or .tflite (or .hone, to write it anew)")
      ->required()
      ->type_name("MODEL");
  c->add_option("-o,--output", args->out, "The .hone file to write")->required()->type_name("FILE");
  args->simplify.add_to(*c);
  c->add_flag("--fold-batch-norm", args->fold_batch_norm,
              "For inference: put batch normalisation into the convolution before it");
  c->add_flag("--simplify-only", args->simplify_only,
              "Write the simplified model as ONNX instead: -o names an .onnx file");
  c->add_option("--weights", args->weights,
                "Take all parameters and buffers from this file: .safetensors or .npz")
      ->type_name("FILE");
  c->add_option("--dtype", args->dtype,
                "Floating-point type of the result: inputs, outputs, weights and all between")
      ->check(CLI::IsMember({"f64", "f32", "f16", "bf16"}));
  add_renamings(*c, *args);
  c->callback([args, &action] { action = [args] { return convert(*args); }; });
}

void add_export(CLI::App& app, Action& action) {
  auto args = std::make_shared<Args>();
  CLI::App* c = app.add_subcommand("export", "Write a model as ONNX, or its weights alone");
  c->add_option("model", args->model, "The model: .hone, .onnx or .tflite")
      ->required()
      ->type_name("MODEL");
  c->add_option("-o,--output", args->out,
                "The file to write: .onnx, or .safetensors or .npz for the weights")
      ->required()
      ->type_name("FILE");
  add_renamings(*c, *args);
  c->callback([args, &action] { action = [args] { return export_model(*args); }; });
}

}  // namespace hone::cli
