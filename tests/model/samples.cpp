// SPDX-License-Identifier: Apache-2.0
// Small models, and the tools to run them and to forge their files.
#include "tests/model/samples.hpp"

#include <cstring>

#include "core/base/checksum.hpp"
#include "core/model/preamble.hpp"
#include "hone/ops.hpp"
#include "hone/specialise.hpp"
#include "hone/thread_pool.hpp"
#include "tests/support/check.hpp"
#include "tests/support/tensors.hpp"

namespace hone::test {

Model sample_model() {
  Model m;
  m.metadata = {{"producer", "a test"}, {"seed", "7"}};
  Graph& g = m.graph;
  g.name = "sample";
  Builder b(g, Composites::keep);
  const Value x = b.input({DType::f32, {g.dim("batch"), 4}}, "x");
  const TensorData weight = random_tensor({DType::f32, {4, 3}}, 1);
  const Value w = b.state(StateRole::parameter, weight, "w");
  const Value bias = b.state(StateRole::parameter, random_tensor({DType::f32, {3}}, 2), "bias");
  g.value(bias.id()).trainable = false;
  const Value seen = b.state(StateRole::buffer, must(TensorData::zeros({DType::i64, {}})), "seen");
  b.constant(must(weight.reshaped({12})), "w_again");
  b.set_scope("fc");
  const Value y = ops::tanh(b.emit(op::add, {b.emit(op::matmul, {x, w}), bias}));
  const Value one = b.constant(must(TensorData::scalar_of<int64_t>(1)));
  const Value next = b.emit(op::add, {seen, one});
  b.output(y, "y");
  g.outputs[0].declared = {g.dim("batch"), 3};
  g.outputs[0].has_declared = true;
  g.updates.push_back({seen.id(), next.id()});
  REQUIRE_OK(b.status());
  return m;
}

Model tiny_model() {
  Model m;
  Builder b(m.graph, Composites::keep);
  const Value x = b.input({DType::f32, {2, 2}}, "x");
  const Value w = b.state(StateRole::parameter, tensor_of<float>({2, 2}, {1, 2, 3, 4}), "w");
  b.output(b.emit(op::matmul, {x, w}, MatmulAttrs{.trans_b = true}), "y");
  REQUIRE_OK(b.status());
  return m;
}

Bytes file_of(const Model& model) { return must(save_model(model)); }

Result<Model> load_copy(const Bytes& bytes, const LoadOptions& options) {
  const size_t size = bytes.size();
  std::shared_ptr<std::byte> copy(
      static_cast<std::byte*>(::operator new (size, std::align_val_t{kAlignment})),
      [](std::byte* p) { ::operator delete (p, std::align_val_t{kAlignment}); });
  if (size > 0) std::memcpy(copy.get(), bytes.data(), size);
  return load_model({copy.get(), size}, copy, options);
}

std::vector<TensorData> run(const Model& model, const std::vector<TensorData>& inputs) {
  std::vector<Shape> shapes;
  for (const TensorData& t : inputs) shapes.push_back(t.shape());
  const Graph g = must(specialise(model.graph, shapes));
  std::vector<TensorData> values;
  for (const ValueInfo& v : g.values) values.push_back(v.data);
  for (size_t i = 0; i < inputs.size(); ++i) values[static_cast<size_t>(g.inputs[i])] = inputs[i];
  for (const Node& n : g.nodes) {
    std::vector<TensorData> in;
    for (ValueId v : n.inputs)
      in.push_back(v == kNone ? TensorData() : values[static_cast<size_t>(v)]);
    std::vector<TensorType> types;
    for (ValueId v : n.outputs) types.push_back(g.type(v));
    std::vector<TensorData> out = must(run_reference(*n.op, n.attrs, in, types, serial_pool()));
    for (size_t i = 0; i < out.size(); ++i) values[static_cast<size_t>(n.outputs[i])] = out[i];
  }
  std::vector<TensorData> outputs;
  for (const GraphOutput& o : g.outputs) outputs.push_back(values[static_cast<size_t>(o.value)]);
  return outputs;
}

Bytes forge(const Bytes& file, const std::function<void(schema::FileT&)>& change) {
  Preamble p;
  std::memcpy(&p, file.data(), sizeof p);
  const std::unique_ptr<schema::FileT> header = schema::UnPackFile(file.data() + p.header_offset);
  change(*header);
  flatbuffers::FlatBufferBuilder builder;
  schema::FinishFileBuffer(builder, schema::File::Pack(builder, header.get()));
  return assemble(builder, std::span(file).subspan(p.data_offset));
}

Bytes assemble(const flatbuffers::FlatBufferBuilder& header, std::span<const std::byte> data) {
  const auto bytes = std::as_bytes(std::span(header.GetBufferPointer(), header.GetSize()));
  Preamble p;
  p.header_offset = sizeof p;
  p.header_size = bytes.size();
  p.header_checksum = xxh64(bytes);
  p.data_offset = (sizeof p + bytes.size() + kAlignment - 1) / kAlignment * kAlignment;
  p.file_size = p.data_offset + data.size();
  p.checksum = xxh64(std::as_bytes(std::span(&p, 1)).first(offsetof(Preamble, checksum)));
  Bytes out(p.file_size);
  std::memcpy(out.data(), &p, sizeof p);
  std::memcpy(out.data() + sizeof p, bytes.data(), bytes.size());
  if (!data.empty()) std::memcpy(out.data() + p.data_offset, data.data(), data.size());
  return out;
}

}  // namespace hone::test
