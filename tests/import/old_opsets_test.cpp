// SPDX-License-Identifier: Apache-2.0
// What operators meant before opset 7 and 13, and settings that are inputs of the model. All else
// of ONNX's versions: tests/conformance.
#include "hone/session.hpp"
#include "tests/import/onnx_file.hpp"
#include "tests/support/check.hpp"
#include "tests/support/tensors.hpp"

namespace hone {
namespace {

using namespace test;

TensorData run(const OnnxFile& f, std::vector<TensorData> inputs) {
  SessionOptions options;
  options.kernels = Kernels::reference;
  const Model m = must(f.import());
  Session session = must(Session::create(m, options));
  return must(session.run(inputs))[0];
}

TEST_CASE("before opset 7 the second operand is laid along the axes from `axis` on") {
  OnnxFile f(6);
  f.input("a", {2, 2, 2}).input("b", {2}).output("y");
  f.node("Add", {"a", "b"}, {"y"}, {{"broadcast", int64_t{1}}, {"axis", int64_t{1}}});
  const TensorData a = tensor_of<float>({2, 2, 2}, {0, 1, 2, 3, 4, 5, 6, 7});
  const TensorData want = tensor_of<float>({2, 2, 2}, {10, 11, 22, 23, 14, 15, 26, 27});
  CHECK(same_bits(run(f, {a, tensor_of<float>({2}, {10, 20})}), want));
}

TEST_CASE("before opset 7 PRelu has a slope for each channel") {
  OnnxFile f(6);
  f.input("x", {1, 2, 2}).input("slope", {2}).output("y");
  f.node("PRelu", {"x", "slope"}, {"y"});
  const TensorData x = tensor_of<float>({1, 2, 2}, {-1, 1, -1, -2});
  const TensorData want = tensor_of<float>({1, 2, 2}, {-2, 1, -3, -6});
  CHECK(same_bits(run(f, {x, tensor_of<float>({2}, {2, 3})}), want));
}

TEST_CASE("before opset 6 Cast names its type and operators hint at memory") {
  OnnxFile f(5);
  f.input("x", {2}).output("y");
  f.node("Neg", {"x"}, {"n"}, {{"consumed_inputs", std::vector<int64_t>{0}}});
  f.node("Cast", {"n"}, {"y"}, {{"to", std::string("INT32")}});
  CHECK(same_bits(run(f, {tensor_of<float>({2}, {1.5, -2})}), tensor_of<int32_t>({2}, {-1, 2})));
}

TEST_CASE("before opset 5 Reshape has its shape as an attribute") {
  OnnxFile f(4);
  f.input("x", {4}).output("y");
  f.node("Reshape", {"x"}, {"y"}, {{"shape", std::vector<int64_t>{2, -1}}});
  CHECK_EQ(run(f, {tensor_of<float>({4}, {1, 2, 3, 4})}).shape(), Shape({2, 2}));
}

TEST_CASE("axes, sizes and k may be inputs of the model and change from run to run") {
  OnnxFile f(18);
  f.input("x", {2, 3}).input("axes", {1}, DType::i64).output("y");
  f.node("ReduceMax", {"x", "axes"}, {"y"}, {{"keepdims", int64_t{0}}});
  const Model m = must(f.import());
  Session session = must(Session::create(m));
  const TensorData x = tensor_of<float>({2, 3}, {1, 5, 2, 4, 3, 6});
  const auto over = [&](double axis) {
    return must(session.run(std::vector<TensorData>{x, tensor_of<int64_t>({1}, {axis})}))[0];
  };
  CHECK(same_bits(over(1), tensor_of<float>({2}, {5, 6})));
  CHECK(same_bits(over(0), tensor_of<float>({3}, {4, 5, 6})));
}

TEST_CASE("a maximum of bools is whether any is true") {
  OnnxFile f(20);
  f.input("x", {2, 2}, DType::bool_).output("y");
  f.initializer("axes", tensor_of<int64_t>({1}, {1}));
  f.node("ReduceMax", {"x", "axes"}, {"y"}, {{"keepdims", int64_t{0}}});
  CHECK(same_bits(run(f, {tensor_of<bool>({2, 2}, {0, 1, 0, 0})}), tensor_of<bool>({2}, {1, 0})));
}

TEST_CASE("an axis that is no number is refused") {
  OnnxFile f(6);
  f.input("a", {2, 2}).input("b", {2}).output("y");
  f.node("Add", {"a", "b"}, {"y"}, {{"axis", std::string("0")}});
  CHECK_EQ(f.import().status().code(), Code::invalid_model);
}

}  // namespace
}  // namespace hone
