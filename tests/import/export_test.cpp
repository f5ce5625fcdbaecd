// SPDX-License-Identifier: Apache-2.0
// Exporting, and opening a model of any kind.
#include "core/base/file.hpp"
#include "hone/op_attrs.hpp"
#include "hone/op_table.hpp"
#include "tests/import/onnx_file.hpp"
#include "tests/support/check.hpp"
#include "tests/support/temp_dir.hpp"
#include "tests/support/tensors.hpp"

namespace hone {
namespace {

using namespace test;

// A model graph under construction: one input x of [N, 4].
struct Sketch {
  Model model;
  Builder b{model.graph, Composites::keep};
  Value x = b.input({DType::f32, {model.graph.dim("N"), 4}}, "x");

  Value parameter(std::string name, const TensorData& t) {
    return b.state(StateRole::parameter, t, std::move(name));
  }
};

Model there_and_back(const Model& m, const OnnxExportOptions& options = {}) {
  TempDir dir;
  REQUIRE_OK(export_onnx(m, dir.file("m.onnx"), options));
  return must(import_onnx(dir.file("m.onnx")));
}

TEST_CASE("what each weight is for survives the way to ONNX and back") {
  Sketch s;
  const Value odd = s.parameter("/layer/Sub_output_0", tensor_of<float>({4}, {1, 2, 3, 4}));
  const Value mask = s.parameter("mask", tensor_of<float>({2, 2}, {0, 1, 1, 0}));
  const Value scale = s.parameter("scale", tensor_of<float>({}, {2}));
  const Value frozen = s.parameter("frozen", tensor_of<float>({4}, {1, 2, 3, 4}));
  s.model.graph.value(frozen.id()).trainable = false;
  const Value seen = s.b.state(StateRole::buffer, tensor_of<float>({4}, {5, 6, 7, 8}), "seen");
  const Value fixed = s.b.constant(tensor_of<float>({4}, {1, 1, 2, 2}), "fixed");
  Value v = s.x;
  for (Value t : {odd, scale, frozen, seen, fixed}) v = s.b.emit(op::add, {v, t});
  s.b.output(v, "y");
  s.b.output(s.b.emit(op::add, {mask, mask}), "z");
  REQUIRE_OK(s.b.status());
  const Model again = there_and_back(s.model);
  const auto& g = again.graph;
  const auto is = [&](const char* name, ValueKind kind, StateRole role, bool trainable) {
    const ValueInfo& info = g.value(g.find(name));
    return info.kind == kind &&
           (kind != ValueKind::state || (info.role == role && info.trainable == trainable));
  };
  CHECK(is("/layer/Sub_output_0", ValueKind::state, StateRole::parameter, true));
  CHECK(is("mask", ValueKind::state, StateRole::parameter, true));
  CHECK(is("scale", ValueKind::state, StateRole::parameter, true));
  CHECK(is("frozen", ValueKind::state, StateRole::parameter, false));
  CHECK(is("seen", ValueKind::state, StateRole::buffer, false));
  CHECK(is("fixed", ValueKind::constant, StateRole::parameter, true));
}

TEST_CASE("an output under two names, and one that is an input, get names of their own") {
  Sketch s;
  const Value y = s.b.emit(op::neg, {s.x});
  s.b.output(y, "y");
  s.b.output(y, "z");
  s.b.output(s.x, "same");
  const Model again = there_and_back(s.model);
  REQUIRE_EQ(again.graph.outputs.size(), 3);
  CHECK_EQ(again.graph.nodes.size(), 1);
  CHECK_EQ(again.graph.outputs[0].value, again.graph.outputs[1].value);
  CHECK_EQ(again.graph.outputs[1].name, "z");
  CHECK_EQ(again.graph.outputs[2].value, again.graph.inputs[0]);
}

TEST_CASE("names that clash inside the graph give way to those of inputs, weights and outputs") {
  Sketch s;
  s.b.set_scope("n");
  const Value a = s.b.emit(op::neg, {s.x});
  s.model.graph.value(a.id()).name = "x";
  s.b.output(s.b.emit(op::abs, {a}), "n_output_0");
  const Model again = there_and_back(s.model);
  CHECK_EQ(again.graph.nodes.size(), 2);
  CHECK_EQ(again.graph.outputs[0].name, "n_output_0");
}

TEST_CASE("nodes keep their names; those that share one are told apart") {
  Sketch s;
  s.b.set_scope("n");
  const Value a = s.b.emit(op::neg, {s.x}), b = s.b.emit(op::abs, {a});
  s.b.set_scope("m");
  s.b.output(s.b.emit(op::exp, {b}), "y");
  const Model again = there_and_back(s.model);
  CHECK_EQ(again.graph.nodes[0].name, "n");
  CHECK_EQ(again.graph.nodes[1].name, "n_1");
  CHECK_EQ(again.graph.nodes[2].name, "m");
}

TEST_CASE("the lowest opset that has every operator is taken") {
  Sketch s;
  s.b.output(s.b.emit(op::neg, {s.x}), "y");
  CHECK_EQ(there_and_back(s.model).metadata.at("opset"), "17");
  Sketch t;
  t.b.output(t.b.emit(op::scatter_elements, {t.x, t.x, t.x}, ScatterAttrs{0, ScatterMode::max}),
             "y");
  TempDir dir;
  REQUIRE_OK(export_onnx(t.model, dir.file("m.onnx")));
  const std::string bytes = read_text(dir.file("m.onnx"));
  const onnx::ModelProto proto = must(onnx::read_model(std::as_bytes(std::span(bytes))));
  CHECK_EQ(proto.opset_import[0].version, 18);
  CHECK_EQ(proto.ir_version, 8);
}

TEST_CASE("marks of checkpointed regions survive the way to ONNX and back") {
  Sketch s;
  s.b.set_region(1);
  const Value a = s.b.emit(op::neg, {s.x});
  s.b.set_region(2);
  const Value b = s.b.emit(op::silu, {a});  // two nodes in ONNX
  s.b.set_region(0);
  s.b.output(s.b.emit(op::exp, {b}), "y");
  TempDir dir;
  REQUIRE_OK(export_onnx(s.model, dir.file("m.onnx")));
  const std::string bytes = read_text(dir.file("m.onnx"));
  const onnx::ModelProto proto = must(onnx::read_model(std::as_bytes(std::span(bytes))));
  CHECK_EQ(proto.ir_version, 10);  // the first whose nodes have metadata
  CHECK_EQ(proto.graph.nodes.size(), 4);
  const Model again = must(import_onnx(dir.file("m.onnx")));
  REQUIRE_EQ(again.graph.nodes.size(), 3);
  const int32_t regions[] = {1, 2, 0};
  for (size_t i = 0; i < 3; ++i) CHECK_EQ(again.graph.nodes[i].region, regions[i]);
}

TEST_CASE("everything that ONNX cannot say is listed in one error") {
  Sketch s;
  s.b.set_scope("first");
  const Value a = s.b.emit(op::max_pool_pick, {s.x, s.x});
  s.b.set_scope("second");
  s.b.output(s.b.emit(op::cross_entropy, {a, s.x}, CrossEntropyAttrs{1, -100, 0.1}), "y");
  TempDir dir;
  CHECK_ERROR(export_onnx(s.model, dir.file("m.onnx")), Code::unsupported,
              "max_pool_pick 'first', cross_entropy with label smoothing ('second')");
}

TEST_CASE("large weights go to a second file, from which they come back") {
  Sketch s;
  const TensorData w = random_tensor({DType::f32, {4, 300}}, 3),
                   b = random_tensor({DType::f32, {300}}, 4);
  const Value y = s.b.emit(op::matmul, {s.x, s.parameter("w", w)});
  s.b.output(s.b.emit(op::add, {y, s.parameter("b", b)}), "y");
  TempDir dir;
  REQUIRE_OK(export_onnx(s.model, dir.file("m.onnx"), {.external_data_bytes = 1000}));
  CHECK_LT(read_text(dir.file("m.onnx")).size(), 1000);
  CHECK_EQ(read_text(dir.file("m.onnx.data")).size(), 4096 + 1200 + (4800 - 4096) + 3392);
  const Model again = must(import_onnx(dir.file("m.onnx")));
  CHECK(same_bits(again.graph.value(again.graph.find("w")).data, w));
  CHECK(same_bits(again.graph.value(again.graph.find("b")).data, b));
}

TEST_CASE("metadata goes out and comes back") {
  Sketch s;
  s.b.output(s.b.emit(op::neg, {s.x}), "y");
  s.model.metadata = {{"onnx.author", "someone"}, {"doc", "text"}, {"seed", "7"}};
  const Model again = there_and_back(s.model);
  CHECK_EQ(again.metadata.at("onnx.author"), "someone");
  CHECK_EQ(again.metadata.at("doc"), "text");
  CHECK_EQ(again.metadata.at("onnx.seed"), "7");
}

TEST_CASE("open_model tells files apart by their content") {
  TempDir dir;
  Sketch s;
  s.b.output(s.b.emit(op::neg, {s.x}), "y");
  REQUIRE_OK(export_onnx(s.model, dir.file("a")));
  REQUIRE_OK(save_model(s.model, dir.file("b")));
  CHECK_OK(open_model(dir.file("a")));
  CHECK_OK(open_model(dir.file("b")));
}

TEST_CASE("open_model says what a foreign file is") {
  TempDir dir;
  const auto open = [&](std::string_view bytes) {
    write_text(dir.file("f"), bytes);
    return open_model(dir.file("f"));
  };
  using namespace std::string_view_literals;
  CHECK_ERROR(open("PK\x03\x04rest of it"), Code::invalid_model, "torch.onnx.export");
  CHECK_ERROR(open("\x1c\0\0\0TFL3 and more"sv), Code::invalid_model, "FlatBuffer");
  CHECK_ERROR(open("\x10\0\0\0\0\0\0\0{\"a\":{}}"sv), Code::invalid_model, "safetensors");
  CHECK_ERROR(open("GGUF...."), Code::invalid_model, "GGUF");
  CHECK_ERROR(open(""), Code::invalid_model, "is empty");
  CHECK_ERROR(open("some text"), Code::invalid_model, "no model that can be opened but text");
  CHECK_ERROR(open("version https://git-lfs.github.com/spec/v1"), Code::invalid_model, "git lfs");
  CHECK_ERROR(open("<html>404</html>"), Code::invalid_model, "failed download");
  CHECK_ERROR(open("\x89PNG\r\n\x1a\n"), Code::invalid_model, "a PNG image");
  CHECK_ERROR(open("\x93NUMPY\1"), Code::invalid_model, "NumPy");
  CHECK_ERROR(open("\x08\x08\x3a\x40\x0a"), Code::invalid_model, "the file may be cut short");
  CHECK_ERROR(open_model(dir.file("none")), Code::not_found, "none");
}

}  // namespace
}  // namespace hone
