// SPDX-License-Identifier: Apache-2.0
// The graph of an ONNX model: inputs, weights, nodes, outputs. Everything Hone lacks is gathered on
// the way, so that one error can list it all.
#include <algorithm>

#include "core/base/file.hpp"
#include "core/base/platform.hpp"
#include "core/base/sha256.hpp"
#include "core/import/onnx_importer.hpp"
#include "hone/simplify.hpp"
#include "hone/specialise.hpp"

namespace hone {

namespace onnx {

namespace {

// The newest operator set whose meanings the rules are known to follow.
constexpr int64_t kNewestOpset = 25;

std::map<std::string, std::string> metadata_of(const ModelProto& m) {
  std::map<std::string, std::string> out;
  const auto add = [&](const char* key, std::string value) {
    if (!value.empty()) out[key] = std::move(value);
  };
  add("producer",
      format("{}{}{}", m.producer_name, m.producer_version.empty() ? "" : " ", m.producer_version));
  add("domain", std::string(m.domain));
  add("doc", std::string(m.doc_string));
  if (m.ir_version) out["ir_version"] = format("{}", m.ir_version);
  if (m.model_version) out["model_version"] = format("{}", m.model_version);
  std::string opsets;
  for (const OperatorSetId& o : m.opset_import)
    opsets += is_standard(o.domain)
                  ? format("{}{}", opsets.empty() ? "" : ", ", o.version)
                  : format("{}{} {}", opsets.empty() ? "" : ", ", o.domain, o.version);
  add("opset", opsets);
  for (const KeyValue& kv : m.metadata_props)
    if (!kv.key.starts_with("hone.")) out[format("onnx.{}", kv.key)] = std::string(kv.value);
  return out;
}

}  // namespace

Result<Graph> Importer::run() {
  graph_.name = model_.graph.name;
  HONE_TRY(check_opsets());
  Scope scope;
  Names read;
  collect_read(model_.graph.nodes, read);
  for (const ValueInfoProto& o : model_.graph.outputs) read.insert(o.name);
  HONE_TRY(add_inputs(scope));
  HONE_TRY(add_initializers(scope, read));
  HONE_TRY(import_nodes(model_.graph.nodes, {scope, read, model_.opset_import, "", 0}));
  HONE_TRY(add_outputs(scope));
  if (!state_.missing.empty()) return missing_error();
  HONE_TRY(remove_dead(graph_));
  return std::move(graph_);
}

Status Importer::check_opsets() {
  for (const OperatorSetId& o : model_.opset_import)
    if (is_standard(o.domain) && o.version > kNewestOpset)
      return unsupported("the model uses ONNX opset {}, newer than {}, the newest known here",
                         o.version, kNewestOpset);
  return {};
}

// "?" and the like are what some exporters call an extent they know nothing of: each is a
// dimension of its own.
int64_t Importer::extent(const Dimension& d, std::string_view value, size_t axis) {
  if (d.value && *d.value >= 0) return *d.value;
  const bool named = !d.param.empty() && d.param != "?" && d.param != "-1" && d.param != "None";
  if (named) return graph_.dim(d.param);
  std::string name = format("{}_{}", value, axis);
  while (std::find(graph_.dim_names.begin(), graph_.dim_names.end(), name) !=
         graph_.dim_names.end())
    name += "_";
  return graph_.dim(name);
}

Result<Shape> Importer::shape_of(const ValueInfoProto& v) {
  std::vector<int64_t> dims;
  for (size_t i = 0; i < v.dims.size(); ++i) dims.push_back(extent(v.dims[i], v.name, i));
  auto shape = Shape::make(dims);
  return shape.ok() ? std::move(shape) : shape.status().with_context(format("'{}'", v.name));
}

Status Importer::add_inputs(Scope& scope) {
  Names weights;
  for (const TensorProto& t : model_.graph.initializers) weights.insert(t.name);
  // Named dimensions first: a made-up name must not take one of the file's.
  for (const ValueInfoProto& v : model_.graph.inputs)
    for (const Dimension& d : v.dims)
      if (!d.value && !weights.contains(v.name) && !d.param.empty()) (void)extent(d, v.name, 0);
  for (const ValueInfoProto& v : model_.graph.inputs) {
    if (weights.contains(v.name)) continue;
    if (scope.contains(v.name)) return invalid_model("the input '{}' occurs twice", v.name);
    const NarrowType narrow = narrow_of(v.elem_type);
    const auto dtype = narrow == NarrowType::none ? dtype_of(v.elem_type) : held_in(narrow);
    Value& value = scope[v.name];
    if (v.kind != ValueInfoProto::Kind::tensor) {
      missing("an input that is no tensor", std::string(v.name));
    } else if (!dtype) {
      missing(format("an input of {}", v.elem_type), std::string(v.name));
    } else if (!v.has_shape) {
      missing("an input whose rank is not given", std::string(v.name));
    } else {
      HONE_ASSIGN(const Shape shape, shape_of(v));
      value = b_.input({*dtype, shape}, std::string(v.name));
      state_.set_narrow(value, narrow);
      names_.insert(std::string(v.name));
    }
  }
  return {};
}

Status Importer::add_initializers(Scope& scope, const Names& read) {
  if (model_.graph.sparse_initializers) missing("a sparse initializer", "");
  const auto kinds = classify_weights(model_, tensors_, options_);
  for (const TensorProto& t : model_.graph.initializers) {
    if (scope.contains(t.name)) return invalid_model("the initializer '{}' occurs twice", t.name);
    Value& value = scope[t.name];
    if (!read.contains(t.name)) continue;
    auto data = tensors_.read(t, NarrowElements::widen);
    if (data.status().code() == Code::unsupported) {
      missing(data.status().message(), "");
      continue;
    }
    if (!data.ok()) return data.status();
    value = add_weight(std::move(*data), std::string(t.name), kinds.at(t.name));
    state_.set_narrow(value, narrow_of(t.data_type));
    names_.insert(std::string(t.name));
  }
  return {};
}

Value Importer::add_weight(TensorData data, std::string name, Weight kind) {
  if (kind == Weight::constant) return b_.constant(std::move(data), std::move(name));
  const Value v = b_.state(kind == Weight::buffer ? StateRole::buffer : StateRole::parameter,
                           std::move(data), std::move(name));
  graph_.value(v.id()).trainable = kind == Weight::parameter;
  return v;
}

Status Importer::add_outputs(const Scope& scope) {
  for (const ValueInfoProto& v : model_.graph.outputs) {
    const auto found = scope.find(v.name);
    if (found == scope.end()) return invalid_model("nothing makes the output '{}'", v.name);
    if (graph_.find_output(v.name) >= 0)
      return invalid_model("the output '{}' occurs twice", v.name);
    if (!found->second.valid()) continue;
    b_.output(found->second, std::string(v.name));
    if (!v.has_shape) continue;
    HONE_ASSIGN(graph_.outputs.back().declared, shape_of(v));
    graph_.outputs.back().has_declared = true;
  }
  return {};
}

// "LSTM-17 ('lstm_1', 'lstm_2'), MaxPool-17 with the indices as second output ('pool')".
Status Importer::missing_error() const {
  std::vector<std::string> kinds;
  for (const Missing& m : state_.missing)
    if (std::find(kinds.begin(), kinds.end(), m.what) == kinds.end()) kinds.push_back(m.what);
  std::string list;
  for (const std::string& kind : kinds) {
    std::string nodes;
    for (const Missing& m : state_.missing)
      if (m.what == kind && !m.node.empty())
        nodes += format("{}'{}'", nodes.empty() ? "" : ", ", m.node);
    list += format("{}{}{}", list.empty() ? "" : ", ", kind,
                   nodes.empty() ? "" : format(" ({})", nodes));
  }
  return unsupported("the model needs what cannot be imported: {}", list);
}

}  // namespace onnx

Result<Model> import_onnx(std::span<const std::byte> bytes, std::shared_ptr<const void> owner,
                          const std::string& directory, const OnnxImportOptions& options) {
  HONE_ASSIGN(onnx::ModelProto proto, onnx::read_model(bytes));
  if (!proto.has_graph) return invalid_model("no ONNX model: it holds no graph");
  onnx::hoist_constants(proto.graph);
  onnx::TensorReader tensors(std::move(owner), directory);
  Model model;
  HONE_ASSIGN(model.graph, onnx::Importer(proto, tensors, options).run());
  using Simplify = OnnxImportOptions::Simplify;
  if (options.simplify != Simplify::nothing)
    HONE_TRY(simplify(model.graph, {.recognise = options.simplify == Simplify::fully}).status());
  model.metadata = onnx::metadata_of(proto);
  model.metadata["source_sha256"] = to_hex(sha256(bytes));
  return model;
}

Result<Model> import_onnx(const std::string& path, const OnnxImportOptions& options) {
  HONE_ASSIGN(const MappedFile file, MappedFile::open(path));
  const size_t slash = path.find_last_of('/');
  const std::string directory =
      slash == std::string::npos ? "" : path.substr(0, std::max<size_t>(slash, 1));
  auto model = import_onnx(file.bytes(), file.owner(), directory, options);
  if (!model.ok()) return model.status().with_context(path);
  model->metadata["source"] = path.substr(slash + 1);  // npos + 1 is 0
  platform::release_pages(file.bytes().data(), static_cast<int64_t>(file.bytes().size()));
  return model;
}

}  // namespace hone
