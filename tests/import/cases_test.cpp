// SPDX-License-Identifier: Apache-2.0
// Small cases with known right answers: faults that importers of ONNX are known for.
#include "hone/op_attrs.hpp"
#include "hone/session.hpp"
#include "tests/import/onnx_file.hpp"
#include "tests/support/check.hpp"
#include "tests/support/tensors.hpp"

namespace hone {
namespace {

using namespace test;

// The first output of the model on `inputs`, with the reference kernels.
TensorData run(const Model& m, std::vector<TensorData> inputs) {
  SessionOptions options;
  options.kernels = Kernels::reference;
  Session session = must(Session::create(m, options));
  return must(session.run(inputs))[0];
}
TensorData run(const OnnxFile& f, std::vector<TensorData> inputs,
               const OnnxImportOptions& options = {}) {
  return run(must(f.import(options)), std::move(inputs));
}

OnnxFile average_pool(int64_t opset) {
  OnnxFile f(opset);
  const std::vector<int64_t> three = {3, 3}, two = {2, 2}, pads = {1, 1, 1, 1};
  f.input("x", {1, 1, 4, 4}).output("y", {1, 1, 3, 3});
  f.node("AveragePool", {"x"}, {"y"},
         {{"kernel_shape", three},
          {"strides", two},
          {"pads", pads},
          {"ceil_mode", int64_t{1}},
          {"count_include_pad", int64_t{1}}});
  return f;
}

TEST_CASE(
    "C01: AveragePool never counts cells beyond the declared padding, unless an old model wants it "
    "so") {
  std::vector<double> v(16);
  for (size_t i = 0; i < 16; ++i) v[i] = static_cast<double>(i + 1);
  const TensorData x = tensor_from({DType::f32, {1, 1, 4, 4}}, v);
  const TensorData right =
      tensor_of<float>({1, 1, 3, 3}, {14.0 / 9, 30.0 / 9, 2, 57.0 / 9, 11, 6, 4.5, 7.5, 4});
  const TensorData old = tensor_of<float>(
      {1, 1, 3, 3}, {14.0 / 9, 30.0 / 9, 12.0 / 9, 57.0 / 9, 11, 4, 27.0 / 9, 5, 16.0 / 9});
  CHECK(all_close(run(average_pool(19), {x}), right, 1e-6, 0));
  CHECK(all_close(run(average_pool(17), {x}), right, 1e-6, 0));
  const OnnxImportOptions legacy{.legacy_average_pool_divisor = true};
  CHECK(all_close(run(average_pool(17), {x}, legacy), old, 1e-6, 0));
  CHECK(all_close(run(average_pool(19), {x}, legacy), right, 1e-6, 0));
}

TEST_CASE("C03: a pooling window with nothing in it is dropped") {
  for (const char* op : {"MaxPool", "AveragePool"}) {
    OnnxFile f;
    const std::vector<int64_t> one = {1}, three = {3};
    f.input("x", {1, 1, 3})
        .output("y")
        .node(op, {"x"}, {"y"},
              {{"kernel_shape", one}, {"strides", three}, {"ceil_mode", int64_t{1}}});
    CHECK(same_bits(run(f, {tensor_of<float>({1, 1, 3}, {1, 2, 3})}),
                    tensor_of<float>({1, 1, 1}, {1})));
  }
}

TEST_CASE("C06: Clip without an upper bound, and with bounds the wrong way round") {
  OnnxFile i;
  i.input("x", {3}, DType::i32)
      .output("y", {3}, DType::i32)
      .initializer("min", tensor_of<int32_t>({}, {1}));
  i.node("Clip", {"x", "min", ""}, {"y"});
  CHECK(
      same_bits(run(i, {tensor_of<int32_t>({3}, {-5, 0, 7})}), tensor_of<int32_t>({3}, {1, 1, 7})));
  OnnxFile f;
  f.input("x", {3})
      .output("y", {3})
      .initializer("min", tensor_of<float>({}, {2}))
      .initializer("max", tensor_of<float>({}, {1}));
  f.node("Clip", {"x", "min", "max"}, {"y"});
  CHECK(same_bits(run(f, {tensor_of<float>({3}, {-2, 0, 6})}), tensor_of<float>({3}, {1, 1, 1})));
}

TEST_CASE("C06: Clip folds like it runs") {
  OnnxFile f;
  f.input("x", {3}).output("y", {3});
  f.node("Constant", {}, {"c"}, {{"value", tensor_of<float>({3}, {-2, 0, 6})}});
  f.node("Constant", {}, {"two"}, {{"value_float", 2.0f}})
      .node("Constant", {}, {"one"}, {{"value_float", 1.0f}});
  f.node("Clip", {"c", "two", "one"}, {"d"}).node("Add", {"x", "d"}, {"y"});
  CHECK(same_bits(run(f, {tensor_of<float>({3}, {0, 0, 0})}), tensor_of<float>({3}, {1, 1, 1})));
}

TEST_CASE(
    "C07: reductions without axes reduce nothing when noop_with_empty_axes says so, and all "
    "otherwise") {
  const TensorData x = tensor_of<float>({2, 2}, {1, -2, 3, -4});
  struct Want {
    const char* op;
    TensorData kept, all;
  };
  const Want wants[] = {
      {"ReduceSum", x, tensor_of<float>({1, 1}, {-2})},
      {"ReduceSumSquare", tensor_of<float>({2, 2}, {1, 4, 9, 16}), tensor_of<float>({1, 1}, {30})},
      {"ReduceL1", tensor_of<float>({2, 2}, {1, 2, 3, 4}), tensor_of<float>({1, 1}, {10})}};
  for (const Want& w : wants)
    for (const bool omitted : {true, false})
      for (const int64_t noop : {1, 0}) {
        INFO(w.op, " omitted=", omitted, " noop=", noop);
        OnnxFile f(18);
        f.input("x", {2, 2})
            .output("y")
            .initializer("axes", must(TensorData::zeros({DType::i64, {0}})));
        f.node(w.op, {"x", omitted ? "" : "axes"}, {"y"}, {{"noop_with_empty_axes", noop}});
        CHECK(same_bits(run(f, {x}), noop ? w.kept : w.all));
      }
}

TEST_CASE("C08: an exclusive CumSum over an axis of one element is zero, over none empty") {
  for (const int64_t axis : {0, -2}) {
    OnnxFile f;
    f.input("x", {"M", "N"}).output("y").initializer("axis", must(TensorData::scalar_of(axis)));
    f.node("CumSum", {"x", "axis"}, {"y"}, {{"exclusive", int64_t{1}}});
    CHECK(same_bits(run(f, {tensor_of<float>({1, 2}, {1, 2})}), tensor_of<float>({1, 2}, {0, 0})));
    CHECK_EQ(run(f, {must(TensorData::zeros({DType::f32, {0, 3}}))}).shape(), Shape{0, 3});
  }
}

TEST_CASE("C10: a free axis stays free") {
  OnnxFile f;
  f.input("x", {"N", 4}).output("y", {"N", 2});
  f.initializer("w", tensor_of<float>({4, 2}, {1, 2, 3, 4, 5, 6, 7, 8}))
      .initializer("shape", tensor_of<int64_t>({2}, {0, -1}));
  f.node("MatMul", {"x", "w"}, {"m"}).node("Reshape", {"m", "shape"}, {"y"});
  const Model m = must(f.import());
  const Model as_written = must(f.import({.simplify = OnnxImportOptions::Simplify::nothing}));
  CHECK_EQ(to_string(m.graph, m.graph.type(m.graph.inputs[0]).shape), "[N, 4]");
  CHECK_EQ(to_string(m.graph, m.graph.outputs[0].declared), "[N, 2]");
  for (const int64_t n : {1, 3, 7, 0}) {
    const TensorData x =
        tensor_from({DType::f32, {n, 4}}, std::vector<double>(4 * static_cast<size_t>(n), 1));
    std::vector<double> want;
    for (int64_t i = 0; i < n; ++i) want.insert(want.end(), {1 + 3 + 5 + 7, 2 + 4 + 6 + 8});
    CHECK(same_bits(run(m, {x}), tensor_from({DType::f32, {n, 2}}, want)));
    CHECK(same_bits(run(as_written, {x}), tensor_from({DType::f32, {n, 2}}, want)));
  }
}

TEST_CASE("C14: nothing but zeros, quantized by its own range, has scale 1 and stays zero") {
  const auto output = [](std::string_view name) {
    OnnxFile f;
    f.input("x", {3}).output(name).node("Relu", {"x"}, {"r"});
    f.node("DynamicQuantizeLinear", {"r"}, {"q", "scale", "zero"});
    f.node("DequantizeLinear", {"q", "scale", "zero"}, {"back"});
    return run(f, {tensor_of<float>({3}, {-1, -2, -3})});
  };
  CHECK(same_bits(output("q"), tensor_of<uint8_t>({3}, {0, 0, 0})));
  CHECK(same_bits(output("scale"), tensor_of<float>({}, {1})));
  CHECK(same_bits(output("zero"), tensor_of<uint8_t>({}, {0})));
  CHECK(same_bits(output("back"), tensor_of<float>({3}, {0, 0, 0})));
}

TEST_CASE("Softmax before opset 13 sees a matrix") {
  OnnxFile f(11);
  f.input("x", {"N", 2, 2}).output("y").node("Softmax", {"x"}, {"y"});
  const double quarter = 0.25;
  CHECK(all_close(run(f, {tensor_of<float>({1, 2, 2}, {3, 3, 3, 3})}),
                  tensor_of<float>({1, 2, 2}, {quarter, quarter, quarter, quarter}), 1e-6, 0));
}

TEST_CASE("an attribute is the number its author wrote, not the nearest single-precision one") {
  OnnxFile f;
  f.input("x", {"N", 2, 2}).output("y");
  for (const char* name : {"s", "b", "m", "v"}) f.initializer(name, tensor_of<float>({2}, {1, 2}));
  f.node("BatchNormalization", {"x", "s", "b", "m", "v"}, {"y"},
         {{"momentum", 0.9f}, {"epsilon", 1e-3f}});
  const Model m = must(f.import());
  CHECK_EQ(m.graph.nodes[0].attrs.as<BatchNormAttrs>().momentum, 0.1);
  CHECK_EQ(m.graph.nodes[0].attrs.as<BatchNormAttrs>().eps, 1e-3);
}

// What holds a narrow integer does not wrap around where the integer does.
TEST_CASE("operators that would take narrow integers for wider ones are refused by name") {
  const auto model = [](const char* op) {
    OnnxFile f(21);
    f.input("x", {2}).output("y", {2});
    f.node("Cast", {"x"}, {"a"}, {{"to", int64_t{5}}})  // int16
        .node(op, {"a"}, {"b"})
        .node("Cast", {"b"}, {"y"}, {{"to", int64_t{1}}});
    return f;
  };
  CHECK_ERROR(model("Neg").import(), Code::unsupported, "Neg-21 of int16");
  const TensorData x = tensor_of<float>({2}, {-5, 40000});
  CHECK(same_bits(run(model("Identity"), {x}), tensor_of<float>({2}, {-5, 40000 - 65536})));
}

// y = x * x * w; dy/dx of every element of y, at the values that the graph has computed with.
OnnxFile graded(std::initializer_list<OnnxDim> dims, const char* at) {
  using Names = std::vector<std::string>;
  OnnxFile f(17);
  f.input("x", dims).input("w", {2}).output("dx").output("dw");
  f.node("Mul", {"x", "x"}, {"xx"}).node("Mul", {"xx", "w"}, {"y"});
  f.node("Gradient", {at, "w"}, {"dx", "dw"}, {{"xs", Names{"x", "w"}}, {"y", std::string("y")}},
         "", "ai.onnx.preview.training");
  return f;
}

TEST_CASE("Gradient gives the derivatives of what the graph has computed") {
  Session session = must(Session::create(must(graded({3, 2}, "x").import())));
  const std::vector<TensorData> in = {tensor_of<float>({3, 2}, {1, 2, 3, 4, 5, 6}),
                                      tensor_of<float>({2}, {10, 100})};
  const std::vector<TensorData> out = must(session.run(in));
  CHECK(same_bits(out[0], tensor_of<float>({3, 2}, {20, 400, 60, 800, 100, 1200})));
  CHECK(same_bits(out[1], tensor_of<float>({2}, {1 + 9 + 25, 4 + 16 + 36})));
}

TEST_CASE("Gradient is refused at other values, and where shapes are not known") {
  CHECK_ERROR(graded({3, 2}, "xx").import(), Code::unsupported,
              "Gradient-1 at values that the graph has not computed with");
  CHECK_ERROR(graded({"N", 2}, "x").import(), Code::unsupported,
              "Gradient-1 where shapes are not known before the model runs");
}

}  // namespace
}  // namespace hone
