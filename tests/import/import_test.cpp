// SPDX-License-Identifier: Apache-2.0
// Importing: names, weights, dimensions, functions, and files that are wrong.
#include "tests/import/onnx_file.hpp"
#include "tests/import/values.hpp"
#include "tests/support/check.hpp"
#include "tests/support/temp_dir.hpp"
#include "tests/support/tensors.hpp"

namespace hone {
namespace {

using namespace test;

// y = (x w + b) - 1, x of [N, 2].
OnnxFile linear() {
  OnnxFile f;
  f.input("x", {"N", 2}).output("y", {"N", 3});
  f.initializer("w", tensor_of<float>({2, 3}, {1, 2, 3, 4, 5, 6}));
  f.initializer("b", tensor_of<float>({3}, {0.5, 0.5, 0.5}));
  f.initializer("one", tensor_of<float>({}, {1}));
  f.node("MatMul", {"x", "w"}, {"m"}, {}, "/fc/MatMul");
  f.node("Add", {"m", "b"}, {"a"}).node("Sub", {"a", "one"}, {"y"});
  return f;
}

TEST_CASE("inputs, weights and nodes keep their names, dimensions theirs") {
  const Model m = must(linear().import());
  REQUIRE_OK(verify(m.graph));
  CHECK_EQ(m.graph.name, "test");
  CHECK_EQ(to_string(m.graph, value(m, "x").type.shape), "[N, 2]");
  CHECK(value(m, "w").kind == ValueKind::state);
  CHECK(value(m, "w").trainable);
  CHECK(value(m, "one").kind == ValueKind::constant);
  REQUIRE_EQ(m.graph.nodes.size(), 3);
  CHECK_EQ(m.graph.nodes[0].name, "/fc/MatMul");
  CHECK_EQ(m.graph.nodes[1].name, "Add_1");
  REQUIRE_EQ(m.graph.outputs.size(), 1);
  CHECK_EQ(m.graph.outputs[0].name, "y");
  CHECK_EQ(to_string(m.graph, m.graph.outputs[0].declared), "[N, 3]");
}

TEST_CASE("metadata says where the model comes from") {
  OnnxFile f = linear();
  f.metadata("author", "someone");
  const Model m = must(f.import());
  CHECK_EQ(m.metadata.at("producer"), "hone-test");
  CHECK_EQ(m.metadata.at("opset"), "17");
  CHECK_EQ(m.metadata.at("ir_version"), "8");
  CHECK_EQ(m.metadata.at("onnx.author"), "someone");
  CHECK_EQ(m.metadata.at("source_sha256").size(), 64);
}

TEST_CASE("a model is read from its file, whose name stays known") {
  TempDir dir;
  write_text(dir.file("m.onnx"), linear().bytes());
  const Model m = must(import_onnx(dir.file("m.onnx")));
  CHECK_EQ(m.metadata.at("source"), "m.onnx");
  CHECK_ERROR(import_onnx(dir.file("none.onnx")), Code::not_found, "none.onnx");
}

TEST_CASE("an extent without name or number is a dimension of its own") {
  OnnxFile f;
  f.input("x", {"", "?", "x_0"}).output("y", {"", 3});
  f.node("Neg", {"x"}, {"y"});
  const Model m = must(f.import());
  CHECK_EQ(to_string(m.graph, value(m, "x").type.shape), "[x_0_, x_1, x_0]");
}

TEST_CASE("initializers that are also listed as inputs are weights") {
  OnnxFile f;
  f.input("x", {1, 2}).input("w", {2, 3}).output("y", {1, 3});
  f.initializer("w", tensor_of<float>({2, 3}, {1, 2, 3, 4, 5, 6}));
  f.node("MatMul", {"x", "w"}, {"y"});
  const Model m = must(f.import());
  CHECK_EQ(m.graph.inputs.size(), 1);
  CHECK(value(m, "w").kind == ValueKind::state);
}

TEST_CASE("weights nobody uses are left out") {
  OnnxFile f = linear();
  f.initializer("stray", tensor_of<float>({3}, {1, 2, 3}));
  CHECK_EQ(must(f.import()).graph.find("stray"), kNone);
}

TEST_CASE("everything Hone lacks is listed in one error") {
  OnnxFile f;
  f.input("x", {1, 2}).output("y", {1, 2});
  f.node("Bar", {"x"}, {"a"}, {}, "bar")
      .node("Neg", {"a"}, {"b"})
      .node("Foo", {"b"}, {"c"}, {}, "foo1");
  f.node("Foo", {"c"}, {"d"}, {}, "foo2")
      .node("Neg", {"d"}, {"y"}, {{"speed", int64_t{1}}}, "last");
  CHECK_ERROR(f.import(), Code::unsupported, "Bar-17 ('bar'), Foo-17 ('foo1', 'foo2')");
  OnnxFile g;
  g.input("x", {1, 2})
      .output("y", {1, 2})
      .node("Neg", {"x"}, {"y"}, {{"speed", int64_t{1}}}, "last");
  CHECK_ERROR(g.import(), Code::unsupported, "Neg-17 with the attribute 'speed' ('last')");
}

TEST_CASE("an operator of an older version than the rules know is named with that version") {
  OnnxFile f(5);
  f.input("x", {1, 2}).output("y", {1, 2}).node("Tile", {"x", "x", "x"}, {"y"});
  CHECK_ERROR(f.import(), Code::unsupported, "Tile-5");
}

TEST_CASE("an operator set from the future is refused") {
  OnnxFile f(999);
  f.input("x", {1}).output("y", {1}).node("Neg", {"x"}, {"y"});
  CHECK_ERROR(f.import(), Code::unsupported, "opset 999");
}

TEST_CASE("a graph that contradicts itself is refused, with the node's name") {
  OnnxFile f;
  f.input("x", {1, 2}).output("y", {1, 2}).node("Neg", {"nothing"}, {"y"}, {}, "n");
  CHECK_ERROR(f.import(), Code::invalid_model,
              "node 'n' (Neg): no earlier node makes its input 'nothing'");
  OnnxFile g;
  g.input("x", {1, 2})
      .output("y", {1, 2})
      .node("Neg", {"x"}, {"y"})
      .node("Abs", {"x"}, {"y"}, {}, "again");
  CHECK_ERROR(g.import(), Code::invalid_model, "node 'again' (Abs): the value 'y' is made twice");
  OnnxFile h;
  h.input("x", {1, 2}).output("z", {1, 2}).node("Neg", {"x"}, {"y"});
  CHECK_ERROR(h.import(), Code::invalid_model, "nothing makes the output 'z'");
  OnnxFile i;
  i.input("x", {1, 2}).output("y", {1, 2}).node("MatMul", {"x", "x"}, {"y"}, {}, "bad");
  CHECK_ERROR(i.import(), Code::invalid_model, "matmul 'bad'");
  OnnxFile j;
  j.input("x", {"N", 2}).output("y", {1, 2}).node("Add", {"x"}, {"y"}, {}, "half");
  CHECK_ERROR(j.import(), Code::invalid_model, "add 'half': takes 2 inputs, got 1");
  OnnxFile k;
  k.input("x", {"N", 2}).output("y", {1, 2}).node("Cast", {"x"}, {"y"}, {{"to", 1.0f}}, "c");
  CHECK_ERROR(k.import(), Code::invalid_model,
              "node 'c' (Cast): attribute 'to' is of type 1, expected 2");
}

TEST_CASE("what is computed from constants alone is computed at import") {
  OnnxFile f;
  f.input("x", {"N", 2}).output("y", {"N", 2});
  f.node("Constant", {}, {"two"}, {{"value_float", 2.0f}})
      .node("Constant", {}, {"three"}, {{"value", tensor_of<float>({}, {3})}});
  f.node("Mul", {"two", "three"}, {"six"}).node("Add", {"x", "six"}, {"y"});
  const Model m = must(f.import());
  CHECK_EQ(m.graph.nodes.size(), 1);
  CHECK_EQ(value(m, "six").data.at(0), 6);
  CHECK_EQ(m.graph.find("two"), kNone);
}

TEST_CASE("Identity is another name for its input, also for a weight and for an output") {
  OnnxFile f;
  f.input("x", {"N", 2}).output("y", {"N", 2}).output("z", {"N", 2});
  f.initializer("w", tensor_of<float>({2, 2}, {1, 2, 3, 4}));
  f.node("Identity", {"w"}, {"w2"})
      .node("MatMul", {"x", "w2"}, {"y"})
      .node("Identity", {"y"}, {"z"});
  const Model m = must(f.import());
  CHECK_EQ(m.graph.nodes.size(), 1);
  CHECK_EQ(m.graph.outputs[0].value, m.graph.outputs[1].value);
  CHECK(value(m, "w").trainable);
}

// A FunctionProto twice(x; by=1) = x + x * by, in domain "f".
wire::Writer twice(std::string_view body_call) {
  wire::Writer fn, opset, by, ref;
  ref.text(1, "value_float");
  ref.text(21, "by");
  ref.integer(20, 1);
  fn.text(1, "twice");
  fn.text(4, "x");
  fn.text(5, "y");
  wire::Writer fallback;
  fallback.text(1, "by");
  fallback.real(2, 1.0f);
  fallback.integer(20, 1);
  fn.message(11, std::move(fallback));
  wire::Writer constant = onnx_node("Constant", {}, {"c"});
  constant.message(5, std::move(ref));
  fn.message(7, std::move(constant));
  fn.message(7, onnx_node("Mul", {"x", "c"}, {"m"}));
  fn.message(7,
             onnx_node(body_call, {"x", "m"}, {"y"}, {}, "sum", body_call == "twice" ? "f" : ""));
  opset.integer(2, 17);
  fn.message(9, std::move(opset));
  fn.text(10, "f");
  return fn;
}

TEST_CASE("a function of the file is imported in place of its call, attributes included") {
  OnnxFile f;
  f.input("x", {"N"}).output("y", {"N"}).field(25, twice("Add"));
  wire::Writer graph;
  graph.message(1, onnx_node("twice", {"x"}, {"y"}, {{"by", 3.0f}}, "call", "f"));
  f.field(7, std::move(graph));  // a second graph field merges into the first
  const Model m = must(f.import());
  REQUIRE_EQ(m.graph.nodes.size(), 2);
  CHECK_EQ(m.graph.nodes[1].name, "call/sum");
  CHECK_EQ(m.graph.value(m.graph.nodes[0].inputs[1]).data.at(0), 3);
}

TEST_CASE("a call's mark of a checkpointed region holds inside; one that is no number is refused") {
  const auto import = [](std::string_view mark) {
    OnnxFile f;
    f.input("x", {"N"}).output("y", {"N"}).field(25, twice("Add"));
    wire::Writer graph, entry, call = onnx_node("twice", {"x"}, {"t"}, {{"by", 3.0f}}, "call", "f");
    entry.text(1, "hone.region");
    entry.text(2, mark);
    call.message(9, std::move(entry));
    graph.message(1, std::move(call));
    graph.message(1, onnx_node("Neg", {"t"}, {"y"}));
    f.field(7, std::move(graph));
    return f.import();
  };
  const Model m = must(import("7"));
  REQUIRE_EQ(m.graph.nodes.size(), 3);
  CHECK_EQ(m.graph.nodes[0].region, 7);
  CHECK_EQ(m.graph.nodes[1].region, 7);
  CHECK_EQ(m.graph.nodes[2].region, 0);
  for (const char* wrong : {"", "0", "-1", "x", "1x", "99999999999"})
    CHECK_ERROR(import(wrong), Code::invalid_model, "expected a number above 0");
}

TEST_CASE("a function that calls itself is refused") {
  OnnxFile f;
  f.input("x", {"N"}).output("y", {"N"}).field(25, twice("twice"));
  wire::Writer graph;
  graph.message(1, onnx_node("twice", {"x"}, {"y"}, {{"by", 3.0f}}, "call", "f"));
  f.field(7, std::move(graph));
  CHECK_ERROR(f.import(), Code::invalid_model, "functions call each other deeper than 32");
}

TEST_CASE("graphs that nest without end are refused") {
  wire::Writer graph;
  graph.text(2, "innermost");
  for (int i = 0; i < 300; ++i) {
    wire::Writer attr, node, outer;
    attr.text(1, "body");
    attr.message(6, std::move(graph));
    node.text(4, "If");
    node.message(5, std::move(attr));
    outer.message(1, std::move(node));
    graph = std::move(outer);
  }
  wire::Writer model;
  model.message(7, std::move(graph));
  CHECK_ERROR(import_bytes(model.to_string()), Code::invalid_model, "nest deeper than 100");
}

TEST_CASE("a file that is no ONNX model says so") {
  CHECK_ERROR(import_bytes(""), Code::invalid_model, "holds no graph");
  CHECK_ERROR(import_bytes("hello, world"), Code::invalid_model, "damaged at byte");
}

TEST_CASE("every truncation of a model is refused or still a valid graph") {
  const std::string bytes = linear().bytes();
  for (size_t n = 0; n < bytes.size(); ++n) {
    const auto m = import_bytes(bytes.substr(0, n));
    if (m.ok()) CHECK_OK(verify(m->graph));
    if (!m.ok()) CHECK_NE(m.status().code(), Code::internal);
  }
}

TEST_CASE("every single flipped bit of a model is refused or gives a valid graph") {
  const std::string bytes = linear().bytes();
  for (size_t i = 0; i < bytes.size() * 8; ++i) {
    std::string damaged = bytes;
    damaged[i / 8] = static_cast<char>(damaged[i / 8] ^ (1 << i % 8));
    const auto m = import_bytes(damaged);
    if (m.ok()) CHECK_OK(verify(m->graph));
    if (!m.ok()) CHECK_NE(m.status().code(), Code::internal);
  }
}

}  // namespace
}  // namespace hone
