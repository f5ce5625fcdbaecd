// SPDX-License-Identifier: Apache-2.0
// What is round the nodes of an exported model: inputs, outputs, weights (in the file or beside
// it), opset and metadata.
#include <algorithm>

#include "core/import/onnx_exporter.hpp"
#include "core/import/onnx_weights.hpp"

namespace hone::onnx {

namespace {

constexpr int64_t kInlineBytes = 1024;  // smaller tensors stay in the model file

// The IR version that came with an opset, and the one with metadata of nodes.
int64_t ir_version_of(int opset) {
  return opset >= 25   ? 13
         : opset >= 24 ? 12
         : opset >= 23 ? 11
         : opset >= 21 ? 10
         : opset >= 19 ? 9
                       : 8;
}
constexpr int64_t kNodeMetadata = 10;

void add_metadata(wire::Writer& m, std::string_view key, std::string_view value) {
  if (value.empty()) return;
  wire::Writer w;
  w.text(1, key);
  w.text(2, value);
  m.message(14, std::move(w));
}

}  // namespace

wire::Writer Exporter::value_info(const std::string& name, DType dtype, const Shape* shape) const {
  wire::Writer tensor, type, info;
  tensor.integer(1, static_cast<int64_t>(elem_type_of(dtype)));
  if (shape) {
    wire::Writer dims;
    for (int64_t d : shape->dims()) {
      wire::Writer dim;
      d >= 0 ? dim.integer(1, d) : dim.text(2, graph_.dim_names[static_cast<size_t>(-d - 1)]);
      dims.message(1, std::move(dim));
    }
    tensor.message(2, std::move(dims));
  }
  type.message(1, std::move(tensor));
  info.text(1, name);
  info.message(2, std::move(type));
  return info;
}

wire::Writer Exporter::weight(const std::string& name, const TensorData& t) {
  if (!external_ || t.bytes() < kInlineBytes) return tensor_proto(name, t);
  external_->bytes =
      (external_->bytes + kExternalAlignment - 1) / kExternalAlignment * kExternalAlignment;
  wire::Writer w = external_tensor_proto(name, t, external_->location, external_->bytes);
  external_->tensors.push_back(&t);
  external_->bytes += static_cast<uint64_t>(t.bytes());
  return w;
}

wire::Writer Exporter::graph_proto(ExportState& s) {
  wire::Writer g;
  g.append(std::move(s.nodes));
  g.text(2, graph_.name.empty() ? "graph" : graph_.name);
  for (size_t i = 0; i < graph_.values.size(); ++i) {
    const ValueInfo& v = graph_.values[i];
    if (v.kind == ValueKind::constant || v.kind == ValueKind::state)
      g.message(5, weight(s.names[i], v.data));
  }
  g.append(std::move(s.initializers));
  for (size_t i = 0; i < graph_.inputs.size() && i < captured_from_; ++i) {
    const ValueId id = graph_.inputs[i];
    const ValueInfo& v = graph_.value(id);
    const Shape scalar = {};
    const Shape* shape = v.typed ? &v.type.shape : i < scalar_inputs_ ? &scalar : nullptr;
    g.message(
        11, value_info(s.names[static_cast<size_t>(id)], s.dtypes[static_cast<size_t>(id)], shape));
  }
  for (const GraphOutput& o : graph_.outputs) {
    const ValueInfo& v = graph_.value(o.value);
    const Shape* shape = o.has_declared ? &o.declared : v.typed ? &v.type.shape : nullptr;
    g.message(12, value_info(output_name(s, o), s.dtypes[static_cast<size_t>(o.value)], shape));
  }
  return g;
}

std::string Exporter::output_name(const ExportState& s, const GraphOutput& o) const {
  for (const auto& [output, name] : aliases_)
    if (output == &o) return name;
  return s.names[static_cast<size_t>(o.value)];
}

std::string Exporter::meta(const char* key) const {
  const auto found = model_.metadata.find(key);
  return found == model_.metadata.end() ? "" : found->second;
}

// What the importer's rules could not find out: names of each kind of weight, one a line.
void Exporter::add_weight_kinds(wire::Writer& m, const ExportState& s) const {
  std::string parameters, frozen, buffers, constants;
  for (size_t i = 0; i < graph_.values.size(); ++i) {
    const ValueInfo& v = graph_.values[i];
    const bool parameter = v.kind == ValueKind::state && v.role == StateRole::parameter;
    std::string* list = parameter && v.trainable                                  ? &parameters
                        : parameter                                               ? &frozen
                        : v.kind == ValueKind::state                              ? &buffers
                        : v.kind == ValueKind::constant && is_float(v.type.dtype) ? &constants
                                                                                  : nullptr;
    if (list) *list += format("{}{}", list->empty() ? "" : "\n", s.names[i]);
  }
  for (const std::string& name : s.body_constants)
    constants += format("{}{}", constants.empty() ? "" : "\n", name);
  add_metadata(m, kParametersKey, parameters);
  add_metadata(m, kFrozenKey, frozen);
  add_metadata(m, kBuffersKey, buffers);
  add_metadata(m, kConstantsKey, constants);
}

wire::Writer Exporter::model_proto(ExportState& s) {
  wire::Writer m, opset;
  const int64_t ir_version = ir_version_of(s.opset);
  m.integer(1, s.has_regions ? std::max(ir_version, kNodeMetadata) : ir_version);
  opset.text(1, "");
  opset.integer(2, s.opset);
  m.message(8, std::move(opset));
  m.text(2, "hone");
  m.text(3, HONE_VERSION);
  if (const std::string domain = meta("domain"); !domain.empty()) m.text(4, domain);
  if (const std::string doc = meta("doc"); !doc.empty()) m.text(6, doc);
  for (const auto& [key, value] : model_.metadata) {
    const bool has_own_field =
        key == "domain" || key == "doc" || key == "ir_version" || key == "opset";
    if (!has_own_field)
      add_metadata(m, key.starts_with("onnx.") ? std::string_view(key).substr(5) : key, value);
  }
  add_weight_kinds(m, s);
  m.message(7, graph_proto(s));
  return m;
}

}  // namespace hone::onnx
