// SPDX-License-Identifier: Apache-2.0
#include "tests/import/onnx_file.hpp"

namespace hone::test {

namespace {

wire::Writer value_info(std::string_view name, std::initializer_list<OnnxDim> dims, DType dtype) {
  wire::Writer shape, tensor, type, info;
  for (const OnnxDim& d : dims) {
    wire::Writer dim;
    if (!d.param.empty()) dim.text(2, d.param);
    if (d.param.empty() && d.value >= 0) dim.integer(1, d.value);
    shape.message(1, std::move(dim));
  }
  tensor.integer(1, static_cast<int64_t>(onnx::elem_type_of(dtype)));
  tensor.message(2, std::move(shape));
  type.message(1, std::move(tensor));
  info.text(1, name);
  info.message(2, std::move(type));
  return info;
}

wire::Writer attribute(const OnnxAttr& a) {
  wire::Writer w;
  w.text(1, a.name);
  if (const auto* i = std::get_if<int64_t>(&a.value)) w.integer(3, *i), w.integer(20, 2);
  if (const auto* f = std::get_if<float>(&a.value)) w.real(2, *f), w.integer(20, 1);
  if (const auto* s = std::get_if<std::string>(&a.value)) w.text(4, *s), w.integer(20, 3);
  if (const auto* v = std::get_if<std::vector<int64_t>>(&a.value))
    w.packed(8, *v), w.integer(20, 7);
  if (const auto* v = std::get_if<std::vector<float>>(&a.value)) w.packed(7, *v), w.integer(20, 6);
  if (const auto* t = std::get_if<TensorData>(&a.value))
    w.message(5, onnx_tensor("", *t)), w.integer(20, 4);
  if (const auto* v = std::get_if<std::vector<std::string>>(&a.value)) {
    for (const std::string& s : *v) w.text(9, s);
    w.integer(20, 8);
  }
  return w;
}

}  // namespace

wire::Writer onnx_tensor(std::string_view name, const TensorData& t) {
  wire::Writer w;
  w.packed(1, t.shape().dims());
  w.integer(2, static_cast<int64_t>(onnx::elem_type_of(t.dtype())));
  w.text(8, name);
  w.text(9, {reinterpret_cast<const char*>(t.data()), static_cast<size_t>(t.bytes())});
  return w;
}

wire::Writer onnx_node(std::string_view op_type, std::initializer_list<std::string_view> inputs,
                       std::initializer_list<std::string_view> outputs,
                       std::initializer_list<OnnxAttr> attrs, std::string_view name,
                       std::string_view domain) {
  wire::Writer w;
  for (std::string_view in : inputs) w.text(1, in);
  for (std::string_view out : outputs) w.text(2, out);
  if (!name.empty()) w.text(3, name);
  w.text(4, op_type);
  for (const OnnxAttr& a : attrs) w.message(5, attribute(a));
  if (!domain.empty()) w.text(7, domain);
  return w;
}

OnnxFile& OnnxFile::input(std::string_view name, std::initializer_list<OnnxDim> dims, DType dtype) {
  graph_.push_back({11, value_info(name, dims, dtype).to_string()});
  return *this;
}
OnnxFile& OnnxFile::output(std::string_view name, std::initializer_list<OnnxDim> dims,
                           DType dtype) {
  graph_.push_back({12, value_info(name, dims, dtype).to_string()});
  return *this;
}
OnnxFile& OnnxFile::output(std::string_view name) {
  wire::Writer info;
  info.text(1, name);
  graph_.push_back({12, info.to_string()});
  return *this;
}
OnnxFile& OnnxFile::initializer(std::string_view name, const TensorData& t) {
  return initializer(onnx_tensor(name, t));
}
OnnxFile& OnnxFile::initializer(wire::Writer tensor) {
  graph_.push_back({5, tensor.to_string()});
  return *this;
}
OnnxFile& OnnxFile::node(std::string_view op_type, std::initializer_list<std::string_view> inputs,
                         std::initializer_list<std::string_view> outputs,
                         std::initializer_list<OnnxAttr> attrs, std::string_view name,
                         std::string_view domain) {
  graph_.push_back({1, onnx_node(op_type, inputs, outputs, attrs, name, domain).to_string()});
  return *this;
}
OnnxFile& OnnxFile::metadata(std::string_view key, std::string_view value) {
  wire::Writer w;
  w.text(1, key);
  w.text(2, value);
  return field(14, std::move(w));
}
OnnxFile& OnnxFile::field(uint32_t number, wire::Writer message) {
  model_.push_back({number, message.to_string()});
  return *this;
}

std::string OnnxFile::bytes() const {
  wire::Writer graph, opset, model;
  for (const Entry& e : graph_) graph.text(e.field, e.bytes);
  graph.text(2, "test");
  opset.text(1, "");
  opset.integer(2, opset_);
  model.integer(1, 8);
  model.text(2, "hone-test");
  model.message(8, std::move(opset));
  model.message(7, std::move(graph));
  for (const Entry& e : model_) model.text(e.field, e.bytes);
  return model.to_string();
}

Result<Model> OnnxFile::import(const OnnxImportOptions& options) const {
  return import_bytes(bytes(), options);
}

Result<Model> import_bytes(std::string_view bytes, const OnnxImportOptions& options,
                           const std::string& directory) {
  const auto owned = std::make_shared<const std::string>(bytes);
  return import_onnx(std::as_bytes(std::span(*owned)), owned, directory, options);
}

}  // namespace hone::test
