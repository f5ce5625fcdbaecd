// SPDX-License-Identifier: Apache-2.0
#include "tests/import/tflite_file.hpp"

#include <algorithm>

#include "hone/session.hpp"
#include "tests/support/check.hpp"

namespace hone::test {

namespace {

lite::ElementType element_of(DType t) {
  switch (t) {
    case DType::f16:
      return lite::ElementType::float16;
    case DType::i32:
      return lite::ElementType::int32;
    case DType::i64:
      return lite::ElementType::int64;
    case DType::i8:
      return lite::ElementType::int8;
    case DType::u8:
      return lite::ElementType::uint8;
    case DType::bool_:
      return lite::ElementType::boolean;
    default:
      return lite::ElementType::float32;
  }
}

}  // namespace

LiteFile::LiteFile() {
  model_.version = 3;
  model_.description = "hone-test";
  model_.subgraphs.push_back(std::make_unique<lite::SubGraphT>());
  model_.buffers.push_back(std::make_unique<lite::BufferT>());  // buffer 0 is no data
}

int LiteFile::next_graph() {
  model_.subgraphs.push_back(std::make_unique<lite::SubGraphT>());
  return static_cast<int>(model_.subgraphs.size()) - 1;
}

int LiteFile::tensor(std::string name, std::vector<int32_t> extents, lite::ElementType type) {
  auto t = std::make_unique<lite::TensorT>();
  t->name = std::move(name);
  t->type = type;
  if (std::find(extents.begin(), extents.end(), -1) != extents.end()) t->shape_signature = extents;
  for (int32_t& extent : extents) extent = extent < 0 ? 1 : extent;
  t->shape = std::move(extents);
  graph().tensors.push_back(std::move(t));
  return static_cast<int>(graph().tensors.size()) - 1;
}

int LiteFile::input(std::string name, std::vector<int32_t> extents, lite::ElementType type) {
  graph().inputs.push_back(tensor(std::move(name), std::move(extents), type));
  return graph().inputs.back();
}

int LiteFile::constant(std::string name, const TensorData& data) {
  std::vector<int32_t> extents;
  for (const int64_t extent : data.shape().dims()) extents.push_back(static_cast<int32_t>(extent));
  const int t = tensor(std::move(name), std::move(extents), element_of(data.dtype()));
  auto buffer = std::make_unique<lite::BufferT>();
  const auto* bytes = reinterpret_cast<const uint8_t*>(data.data());
  buffer->data.assign(bytes, bytes + data.bytes());
  graph().tensors.back()->buffer = static_cast<uint32_t>(model_.buffers.size());
  model_.buffers.push_back(std::move(buffer));
  return t;
}

int LiteFile::quantize(int tensor, std::vector<float> scale, std::vector<int64_t> zero_point,
                       int32_t axis) {
  auto q = std::make_unique<lite::QuantizationT>();
  q->scale = std::move(scale);
  q->zero_point = std::move(zero_point);
  q->quantized_dimension = axis;
  graph().tensors[static_cast<size_t>(tensor)]->quantization = std::move(q);
  return tensor;
}

int LiteFile::ints(std::vector<int32_t> values) {
  return constant("ints", must(TensorData::vector_of(std::span<const int32_t>(values))));
}

int LiteFile::op(lite::Builtin code, std::vector<int32_t> inputs, std::vector<int32_t> extents,
                 lite::ElementType type) {
  const int out = tensor(format("t{}", graph().tensors.size()), std::move(extents), type);
  node(code, std::move(inputs), {out});
  return out;
}

lite::OperatorT& LiteFile::node(lite::Builtin code, std::vector<int32_t> inputs,
                                std::vector<int32_t> outputs) {
  auto kind = std::make_unique<lite::OperatorCodeT>();
  kind->code = code;
  kind->small_code = static_cast<int8_t>(std::min(static_cast<int>(code), 127));
  model_.operator_codes.push_back(std::move(kind));
  auto o = std::make_unique<lite::OperatorT>();
  o->opcode_index = static_cast<uint32_t>(model_.operator_codes.size()) - 1;
  o->inputs = std::move(inputs);
  o->outputs = std::move(outputs);
  graph().operators.push_back(std::move(o));
  return *graph().operators.back();
}

LiteFile& LiteFile::output(int tensor) {
  graph().outputs.push_back(tensor);
  return *this;
}

std::string LiteFile::bytes() const {
  flatbuffers::FlatBufferBuilder builder;
  lite::FinishModelBuffer(builder, lite::Model::Pack(builder, &model_));
  return {reinterpret_cast<const char*>(builder.GetBufferPointer()), builder.GetSize()};
}

Result<Model> LiteFile::import(const OnnxImportOptions& options) const {
  return import_lite(bytes(), options);
}

Result<Model> import_lite(std::string_view bytes, const OnnxImportOptions& options) {
  return import_tflite(std::as_bytes(std::span(bytes.data(), bytes.size())), nullptr, options);
}

std::vector<TensorData> run_all(const Model& m, std::vector<TensorData> inputs) {
  SessionOptions options;
  options.kernels = Kernels::reference;
  Session session = must(Session::create(m, options));
  return must(session.run(inputs));
}

TensorData run(const LiteFile& f, std::vector<TensorData> inputs) {
  const std::vector<TensorData> outs = run_all(must(f.import()), std::move(inputs));
  REQUIRE_EQ(outs.size(), 1);
  return outs[0];
}

}  // namespace hone::test
