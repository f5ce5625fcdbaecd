// SPDX-License-Identifier: Apache-2.0
// The rules that tell what is learned (core/import/README.md), one by one.
#include "hone/op_attrs.hpp"
#include "tests/import/onnx_file.hpp"
#include "tests/support/check.hpp"
#include "tests/support/source_path.hpp"
#include "tests/support/tensors.hpp"

namespace hone {
namespace {

using namespace test;

// "parameter", "frozen", "buffer" or "constant": what the importer made of a tensor; "gone" when it
// was folded away or unused.
std::string kind_of(const Model& m, std::string_view name) {
  const ValueId id = m.graph.find(name);
  if (id == kNone) return "gone";
  const ValueInfo& v = m.graph.value(id);
  if (v.kind == ValueKind::constant) return "constant";
  if (v.role == StateRole::buffer) return "buffer";
  return v.trainable ? "parameter" : "frozen";
}

TensorData vector() { return tensor_of<float>({4}, {1, 2, 3, 4}); }
TensorData matrix() {
  return tensor_of<float>({4, 4}, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16});
}

// y = x `op` w, x of [N, 4].
OnnxFile binary(std::string_view op, std::string_view name, const TensorData& w) {
  OnnxFile f;
  f.input("x", {"N", 4}).output("y", {"N", 4}).initializer(name, w);
  f.node("Relu", {"x"}, {"h"}).node(op, {"h", name}, {"y"});
  return f;
}

TEST_CASE("the options have the last word") {
  CHECK_EQ(kind_of(must(binary("Mul", "pe.table", vector()).import({.constants = "pos.*, pe.*"})),
                   "pe.table"),
           "constant");
  const TensorData one = tensor_of<float>({}, {2});
  CHECK_EQ(kind_of(must(binary("Mul", "temperature", one).import({.parameters = "temp*"})),
                   "temperature"),
           "parameter");
}

TEST_CASE("a file that Hone wrote says itself what is what") {
  OnnxFile f = binary("Mul", "a", vector());
  f.metadata("hone.frozen", "b\na");
  CHECK_EQ(kind_of(must(f.import()), "a"), "frozen");
}

TEST_CASE(
    "weights in Constant nodes are found by where they stand, when there are no initializers") {
  const Model m = must(import_onnx(source_path("tests/golden/weights_in_nodes_op11/model.onnx")));
  for (const char* name : {"conv.w", "bn.scale", "bn.bias"})
    CHECK_EQ(kind_of(m, name), "parameter");
  for (const char* name : {"bn.mean", "bn.var"}) CHECK_EQ(kind_of(m, name), "buffer");
  CHECK_EQ(kind_of(m, "gain"), "constant");
}

TEST_CASE("integers are constants") {
  OnnxFile f;
  f.input("x", {"N", 4}, DType::i64).output("y", {"N", 4}, DType::i64);
  f.initializer("w", tensor_of<int64_t>({4}, {1, 2, 3, 4})).node("Add", {"x", "w"}, {"y"});
  CHECK_EQ(kind_of(must(f.import()), "w"), "constant");
}

TEST_CASE("running statistics are buffers, scale and bias are learned") {
  OnnxFile f;
  f.input("x", {"N", 4, 3}).output("y", {"N", 4, 3});
  for (const char* name : {"s", "b", "mean", "var"}) f.initializer(name, vector());
  f.node("BatchNormalization", {"x", "s", "b", "mean", "var"}, {"y"});
  const Model m = must(f.import());
  CHECK_EQ(kind_of(m, "s"), "parameter");
  CHECK_EQ(kind_of(m, "b"), "parameter");
  CHECK_EQ(kind_of(m, "mean"), "buffer");
  CHECK_EQ(kind_of(m, "var"), "buffer");
}

TEST_CASE("settings are constants and become attributes") {
  OnnxFile f;
  f.input("x", {"N", 4}).output("y", {"N", 4});
  f.initializer("low", tensor_of<float>({1}, {0}))
      .initializer("ratio", tensor_of<float>({1}, {0.25}));
  f.node("Clip", {"x", "low"}, {"h"}).node("Dropout", {"h", "ratio"}, {"y"});
  const Model m = must(f.import());
  CHECK_EQ(kind_of(m, "low"), "gone");
  CHECK_EQ(m.graph.nodes[0].attrs.as<ClipAttrs>().low, 0);
  CHECK_EQ(m.graph.nodes[1].attrs.as<DropoutAttrs>().p, 0.25);
}

TEST_CASE("what was a Constant node is constant, whatever its shape and place") {
  CHECK_EQ(kind_of(must(binary("MatMul", "/head/Constant_3_output_0", matrix()).import()),
                   "/head/Constant_3_output_0"),
           "constant");
  CHECK_EQ(kind_of(must(binary("Mul", "Constant_7", vector()).import()), "Constant_7"), "constant");
  CHECK_EQ(kind_of(must(binary("Mul", "ConstantScale", vector()).import()), "ConstantScale"),
           "parameter");
}

TEST_CASE(
    "where weights stand they are learned, also transposed ones and those an exporter renamed") {
  CHECK_EQ(kind_of(must(binary("MatMul", "onnx::MatMul_12", matrix()).import()), "onnx::MatMul_12"),
           "parameter");
  CHECK_EQ(kind_of(must(binary("MatMul", "/fc/Transpose_output_0", matrix()).import()),
                   "/fc/Transpose_output_0"),
           "parameter");
  OnnxFile f;
  f.input("x", {"N", 4}).output("y", {"N", 4}).initializer("/w", matrix());
  f.node("Transpose", {"/w"}, {"t"}, {{"perm", std::vector<int64_t>{1, 0}}})
      .node("MatMul", {"x", "t"}, {"y"});
  CHECK_EQ(kind_of(must(f.import()), "/w"), "parameter");
}

TEST_CASE("a bias of one element is learned, other single numbers are not") {
  OnnxFile f;
  f.input("x", {"N", 4}).output("y", {"N", 1});
  f.initializer("w", tensor_of<float>({4, 1}, {1, 2, 3, 4}))
      .initializer("b", tensor_of<float>({1}, {5}));
  f.initializer("half", tensor_of<float>({1}, {0.5}));
  f.node("MatMul", {"x", "w"}, {"m"})
      .node("Add", {"m", "b"}, {"a"})
      .node("Mul", {"a", "half"}, {"y"});
  const Model m = must(f.import());
  CHECK_EQ(kind_of(m, "w"), "parameter");
  CHECK_EQ(kind_of(m, "b"), "parameter");
  CHECK_EQ(kind_of(m, "half"), "constant");
}

TEST_CASE("what is added to a product of two activations is no bias") {
  OnnxFile f;
  f.input("x", {"N", 4, 4}).output("y", {"N", 4, 4});
  f.initializer("mask", tensor_of<float>({4, 4}, {0, -1e4, -1e4, -1e4, 0, 0, -1e4, -1e4, 0, 0, 0,
                                                  -1e4, 0, 0, 0, 0}));
  f.node("MatMul", {"x", "x"}, {"s"}).node("Add", {"s", "mask"}, {"y"});
  CHECK_EQ(kind_of(must(f.import()), "mask"), "constant");
}

TEST_CASE("masks are constants; zeros, ones and near misses are not masks") {
  const auto kind = [](std::initializer_list<double> v) {
    return kind_of(must(binary("Add", "t", tensor_of<float>({1, 4}, v)).import()), "t");
  };
  CHECK_EQ(kind({0, 1, 0, 1}), "constant");
  CHECK_EQ(kind({0, -1e9, 0, 0}), "constant");
  CHECK_EQ(kind({0, -std::numeric_limits<double>::infinity(), 0, 0}), "constant");
  CHECK_EQ(kind({0, 0, 0, 0}), "parameter");
  CHECK_EQ(kind({1, 1, 1, 1}), "parameter");
  CHECK_EQ(kind({0, 0.5, 0, 0}), "parameter");
  CHECK_EQ(kind({0, 1, 2, 0}), "parameter");
}

TEST_CASE("mean and deviation of the data are frozen, what comes after a weight is learned") {
  OnnxFile f;
  f.input("x", {"N", 4}).output("y", {"N", 4});
  f.initializer("mean", vector())
      .initializer("std", vector())
      .initializer("w", matrix())
      .initializer("shift", vector());
  f.node("Sub", {"x", "mean"}, {"a"})
      .node("Div", {"a", "std"}, {"b"})
      .node("MatMul", {"b", "w"}, {"c"});
  f.node("Sub", {"c", "shift"}, {"y"});
  const Model m = must(f.import());
  CHECK_EQ(kind_of(m, "mean"), "frozen");
  CHECK_EQ(kind_of(m, "std"), "frozen");
  CHECK_EQ(kind_of(m, "shift"), "parameter");
}

}  // namespace
}  // namespace hone
