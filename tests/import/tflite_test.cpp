// SPDX-License-Identifier: Apache-2.0
// Importing TensorFlow Lite: names, weights, what is refused, and files that are wrong.
#include "hone/onnx.hpp"
#include "tests/import/tflite_file.hpp"
#include "tests/import/values.hpp"
#include "tests/support/check.hpp"
#include "tests/support/damage.hpp"
#include "tests/support/temp_dir.hpp"
#include "tests/support/tensors.hpp"

namespace hone {
namespace {

using namespace test;
using lite::Builtin;
using lite::ElementType;

// y = relu(x W^T + b) - 1, x of (batch, 2).
LiteFile linear() {
  LiteFile f;
  const int x = f.input("x", {-1, 2});
  const int w = f.constant("w", tensor_of<float>({3, 2}, {1, 2, 3, 4, 5, 6}));
  const int b = f.constant("b", tensor_of<float>({3}, {0.5, 0.5, -40}));
  lite::FullyConnectedOptionsT o;
  o.activation = lite::Activation::relu;
  const int h = f.op(Builtin::FULLY_CONNECTED, {x, w, b}, {-1, 3}, o);
  const int one = f.constant("one", tensor_of<float>({}, {1}));
  f.output(f.op(Builtin::SUB, {h, one}, {-1, 3}, lite::SubOptionsT()));
  return f;
}

TEST_CASE("a TensorFlow Lite model computes, and its tensors keep their names") {
  const Model m = must(linear().import());
  REQUIRE_OK(verify(m.graph));
  CHECK_EQ(to_string(m.graph, value(m, "x").type.shape), "[batch, 2]");
  CHECK(value(m, "w").trainable);
  CHECK(value(m, "b").trainable);
  CHECK(value(m, "one").kind == ValueKind::constant);
  CHECK_EQ(m.graph.outputs[0].name, "t5");
  CHECK_EQ(m.metadata.at("producer"), "TensorFlow Lite: hone-test");
  CHECK_EQ(m.metadata.at("source_sha256").size(), 64);
  CHECK(all_close(run_all(m, {tensor_of<float>({2, 2}, {1, 0, 0, 1})})[0],
                  tensor_of<float>({2, 3}, {0.5, 2.5, -1, 1.5, 3.5, -1}), 1e-6, 0));
}

TEST_CASE("open_model knows a TensorFlow Lite file by its content") {
  TempDir dir;
  write_text(dir.file("m"), linear().bytes());
  const Model m = must(open_model(dir.file("m")));
  CHECK_EQ(m.metadata.at("source"), "m");
  CHECK_ERROR(import_tflite(dir.file("none")), Code::not_found, "none");
}

TEST_CASE("the caller can say what is learned") {
  OnnxImportOptions options;
  options.constants = "b";
  options.parameters = "on*";
  const Model m = must(linear().import(options));
  CHECK(value(m, "b").kind == ValueKind::constant);
  CHECK(value(m, "one").kind == ValueKind::state);
}

TEST_CASE("mean and deviation of the data are frozen, masks are constant, the rest is learned") {
  LiteFile f;
  const int x = f.input("x", {2, 2});
  const auto matrix = [&](const char* name, std::initializer_list<double> v) {
    return f.constant(name, tensor_of<float>({2, 2}, v));
  };
  int v = f.op(Builtin::SUB, {x, matrix("mean", {1, 2, 3, 4})}, {2, 2}, lite::SubOptionsT());
  v = f.op(Builtin::DIV, {v, matrix("deviation", {1, 2, 3, 4})}, {2, 2}, lite::DivOptionsT());
  v = f.op(Builtin::MUL, {v, matrix("mask", {0, 1, 1, 0})}, {2, 2}, lite::MulOptionsT());
  v = f.op(Builtin::MUL, {v, matrix("scale", {1, 2, 1, 2})}, {2, 2}, lite::MulOptionsT());
  v = f.op(Builtin::SUB, {v, matrix("shift", {1, 2, 1, 2})}, {2, 2}, lite::SubOptionsT());
  f.output(f.op(Builtin::ADD, {v, matrix("causal", {0, -1e9, 0, 0})}, {2, 2}, lite::AddOptionsT()));
  const Model m = must(f.import());
  for (const char* name : {"mean", "deviation"}) {
    CHECK(value(m, name).kind == ValueKind::state);
    CHECK_FALSE(value(m, name).trainable);
  }
  CHECK(value(m, "mask").kind == ValueKind::constant);
  CHECK(value(m, "causal").kind == ValueKind::constant);
  CHECK(value(m, "scale").trainable);
  CHECK(value(m, "shift").trainable);
}

TEST_CASE("weights of float16 become float32 parameters") {
  LiteFile f;
  const int x = f.input("x", {1, 2});
  const int half =
      f.constant("half", must(cast(tensor_of<float>({2, 2}, {1, 2, 0.5, -1}), DType::f16)));
  const int w = f.op(Builtin::DEQUANTIZE, {half}, {2, 2});
  f.output(f.op(Builtin::FULLY_CONNECTED, {x, w}, {1, 2}, lite::FullyConnectedOptionsT()));
  const Model m = must(f.import());
  CHECK(value(m, "t2").kind == ValueKind::state);
  CHECK(value(m, "t2").type.dtype == DType::f32);
  CHECK(same_bits(run_all(m, {tensor_of<float>({1, 2}, {1, 3})})[0],
                  tensor_of<float>({1, 2}, {7, -2.5})));
}

TEST_CASE("a model of a batch of one network saves, loads and goes out as ONNX") {
  TempDir dir;
  const Model m = must(linear().import());
  REQUIRE_OK(save_model(m, dir.file("m.hone")));
  REQUIRE_OK(export_onnx(m, dir.file("m.onnx")));
  const TensorData x = random_tensor({DType::f32, {4, 2}}, 1);
  const TensorData y = run_all(m, {x})[0];
  CHECK(same_bits(run_all(must(load_model(dir.file("m.hone"))), {x})[0], y));
  CHECK(same_bits(run_all(must(import_onnx(dir.file("m.onnx"))), {x})[0], y));
}

// y = x w if go else x + b, where w and b are in the branches.
LiteFile branching(int else_graph = 2) {
  LiteFile f;
  const int go = f.input("go", {1}, ElementType::boolean), x = f.input("x", {-1, 2});
  lite::IfOptionsT o;
  o.then_graph = 1, o.else_graph = else_graph;
  f.output(f.op(Builtin::IF, {go, x}, {-1, 2}, o));
  f.next_graph();
  const int a = f.input("a", {-1, 2});
  const int w = f.constant("w", tensor_of<float>({2, 2}, {0, 1, 2, 0}));
  f.output(f.op(Builtin::FULLY_CONNECTED, {a, w}, {-1, 2}, lite::FullyConnectedOptionsT()));
  f.next_graph();
  const int c = f.input("a", {-1, 2}), b = f.constant("b", tensor_of<float>({2}, {10, 20}));
  f.output(f.op(Builtin::ADD, {c, b}, {-1, 2}, lite::AddOptionsT()));
  return f;
}

TEST_CASE("both branches of an IF compute, and their weights are the model's") {
  const Model m = must(branching().import());
  REQUIRE_OK(verify(m.graph));
  CHECK(value(m, "w").trainable);
  CHECK(value(m, "b").trainable);
  const TensorData x = tensor_of<float>({1, 2}, {3, 4});
  CHECK(same_bits(run_all(m, {tensor_of<bool>({1}, {1}), x})[0], tensor_of<float>({1, 2}, {4, 6})));
  CHECK(
      same_bits(run_all(m, {tensor_of<bool>({1}, {0}), x})[0], tensor_of<float>({1, 2}, {13, 24})));
}

TEST_CASE("branches that are not there, or contain themselves, are refused") {
  CHECK_ERROR(branching(3).import(), Code::invalid_model, "there is no graph 3, the file has 3");
  CHECK_ERROR(branching(0).import(), Code::invalid_model, "a body has 2 inputs and 1 outputs");
  LiteFile f;
  const int go = f.input("go", {}, ElementType::boolean);
  f.output(f.op(Builtin::IF, {go, go}, {}, lite::IfOptionsT(), ElementType::boolean));
  CHECK_ERROR(f.import(), Code::invalid_model, "bodies nest deeper than 16");
}

// i = first; while i < 3: x = x w + x; i = i + 1.
LiteFile looping(int32_t first = 0) {
  LiteFile f;
  const int i = f.ints({first}), x = f.input("x", {1, 2});
  const int count = f.tensor("count", {1}, ElementType::int32), y = f.tensor("y", {1, 2});
  lite::WhileOptionsT o;
  o.condition_graph = 1, o.body_graph = 2;
  f.node(Builtin::WHILE, {i, x}, {count, y}).options.Set(o);
  f.output(y).output(count);
  f.next_graph();
  const int a = f.input("i", {1}, ElementType::int32);
  f.input("x", {1, 2});
  f.output(f.op(Builtin::LESS, {a, f.ints({3})}, {1}, ElementType::boolean));
  f.next_graph();
  const int c = f.input("i", {1}, ElementType::int32), d = f.input("x", {1, 2});
  const int w = f.constant("w", tensor_of<float>({2, 2}, {0, 1, 2, 0}));
  const int product =
      f.op(Builtin::FULLY_CONNECTED, {d, w}, {1, 2}, lite::FullyConnectedOptionsT());
  f.output(f.op(Builtin::ADD, {c, f.ints({1})}, {1}, lite::AddOptionsT(), ElementType::int32));
  f.output(f.op(Builtin::ADD, {product, d}, {1, 2}, lite::AddOptionsT()));
  return f;
}

TEST_CASE("a WHILE runs its body as long as its condition holds, and the body's weights train") {
  const Model m = must(looping().import());
  REQUIRE_OK(verify(m.graph));
  CHECK(value(m, "w").trainable);
  // (1, 2) -> (2 + 1, 2 + 2) -> (4 + 3, 6 + 4) -> (10 + 7, 14 + 10)
  const auto outs = run_all(m, {tensor_of<float>({1, 2}, {1, 2})});
  CHECK(same_bits(outs[0], tensor_of<float>({1, 2}, {17, 24})));
  CHECK(same_bits(outs[1], tensor_of<int32_t>({1}, {3})));
  TempDir dir;
  REQUIRE_OK(save_model(m, dir.file("m.hone")));
  const auto again =
      run_all(must(load_model(dir.file("m.hone"))), {tensor_of<float>({1, 2}, {1, 2})});
  CHECK(same_bits(again[0], outs[0]));
}

TEST_CASE("a WHILE whose condition is false at once gives what it got") {
  const auto outs = run_all(must(looping(5).import()), {tensor_of<float>({1, 2}, {1, 2})});
  CHECK(same_bits(outs[0], tensor_of<float>({1, 2}, {1, 2})));
  CHECK(same_bits(outs[1], tensor_of<int32_t>({1}, {5})));
}

TEST_CASE("the condition and the body of a WHILE that do not fit it are refused") {
  const auto spoil = [](auto change) {
    LiteFile f = looping();
    change(f);
    return f.import().status();
  };
  CHECK_ERROR(spoil([](LiteFile& f) { f.model().subgraphs[1]->outputs.push_back(0); }),
              Code::invalid_model, "a body has 2 inputs and 2 outputs, expected 2 and 1");
  CHECK_ERROR(spoil([](LiteFile& f) { f.model().subgraphs[2]->outputs.pop_back(); }),
              Code::invalid_model, "a body has 2 inputs and 1 outputs, expected 2 and 2");
  CHECK_ERROR(spoil([](LiteFile& f) { f.model().subgraphs[0]->operators[0]->outputs.pop_back(); }),
              Code::invalid_model, "as many outputs as inputs");
  CHECK_ERROR(spoil([](LiteFile& f) {
                f.model().subgraphs[0]->operators[0]->options.AsWhileOptions()->body_graph = 3;
              }),
              Code::invalid_model, "there is no graph 3");
}

// ---- refused

TEST_CASE("everything Hone lacks of a TensorFlow Lite model is listed in one error") {
  LiteFile f;
  const int x = f.input("x", {1, 2});
  const int a = f.op(Builtin::SVDF, {x}, {1, 2}), b = f.op(Builtin::NEG, {a}, {1, 2});
  const int c = f.op(Builtin::SVDF, {b}, {1, 2}), d = f.op(Builtin::CUSTOM, {c}, {1, 2});
  f.model().operator_codes.back()->custom_code = "Magic";
  f.output(f.op(static_cast<Builtin>(4711), {d}, {1, 2}));
  CHECK_ERROR(f.import(), Code::unsupported,
              "SVDF (operator 0 't1', operator 2 't3'), "
              "the custom operator 'Magic' (operator 3 't4'), operator 4711 (operator 4 't5')");
}

TEST_CASE("what a rule cannot do is said with the operator") {
  LiteFile f;
  const int x = f.input("x", {1, 2}), axes = f.input("axes", {1}, ElementType::int32);
  f.output(f.op(Builtin::SUM, {x, axes}, {1}, lite::ReducerOptionsT()));
  CHECK_ERROR(f.import(), Code::unsupported, "SUM with axes computed (operator 0 't2')");
  LiteFile g;
  lite::AddOptionsT sign;
  sign.activation = lite::Activation::sign_bit;
  const int y = g.input("x", {1, 2});
  g.output(g.op(Builtin::ADD, {y, y}, {1, 2}, sign));
  CHECK_ERROR(g.import(), Code::unsupported, "ADD with the fused activation 5 (operator 0 't1')");
}

// ---- wrong

TEST_CASE("a TensorFlow Lite file that contradicts itself is refused, and where is said") {
  const auto spoil = [](auto change) {
    LiteFile f = linear();
    change(f);
    return f.import().status();
  };
  CHECK_ERROR(spoil([](LiteFile& f) { f.model().version = 2; }), Code::unsupported, "version 2");
  CHECK_ERROR(spoil([](LiteFile& f) { f.model().subgraphs.clear(); }), Code::invalid_model,
              "no graph");
  CHECK_ERROR(spoil([](LiteFile& f) { f.graph().operators[0]->inputs[1] = 99; }),
              Code::invalid_model, "operator 0 (FULLY_CONNECTED): there is no tensor 99");
  CHECK_ERROR(spoil([](LiteFile& f) { f.graph().operators[0]->opcode_index = 7; }),
              Code::invalid_model, "kind 7");
  CHECK_ERROR(spoil([](LiteFile& f) { f.graph().operators[0]->inputs[0] = -1; }),
              Code::invalid_model, "input 0 is missing");
  CHECK_ERROR(spoil([](LiteFile& f) { f.graph().operators[0]->inputs[0] = 5; }),
              Code::invalid_model, "no earlier operator makes its input 't5'");
  CHECK_ERROR(spoil([](LiteFile& f) { f.graph().operators[1]->outputs[0] = 3; }),
              Code::invalid_model, "'t3' is there already");
  CHECK_ERROR(spoil([](LiteFile& f) { f.graph().operators[0]->outputs[0] = 1; }),
              Code::invalid_model, "'w' is there already");
  CHECK_ERROR(spoil([](LiteFile& f) { f.graph().operators[0]->options.Reset(); }),
              Code::invalid_model, "options are missing");
  CHECK_ERROR(spoil([](LiteFile& f) {
                f.graph().tensors[1]->shape = {3, 3};
              }),
              Code::invalid_model, "tensor 'w': f32[3, 3] takes 36 bytes, 24 are stored");
  CHECK_ERROR(spoil([](LiteFile& f) {
                f.graph().tensors[1]->shape = {3, -2};
              }),
              Code::invalid_model, "extent -2 is negative");
  CHECK_ERROR(spoil([](LiteFile& f) { f.graph().tensors[1]->shape.assign(9, 1); }),
              Code::unsupported, "9 dimensions");
  CHECK_ERROR(spoil([](LiteFile& f) { f.graph().tensors[0]->shape_signature = {-1}; }),
              Code::invalid_model, "its signature 1");
  CHECK_ERROR(spoil([](LiteFile& f) { f.graph().tensors[1]->buffer = 50; }), Code::invalid_model,
              "in buffer 50");
  CHECK_ERROR(spoil([](LiteFile& f) {
                f.graph().inputs = {0, 0};
              }),
              Code::invalid_model, "'x' occurs twice");
  CHECK_ERROR(spoil([](LiteFile& f) {
                f.graph().outputs = {5, 5};
              }),
              Code::invalid_model, "'t5' occurs twice");
  CHECK_ERROR(spoil([](LiteFile& f) { f.graph().outputs = {-1}; }), Code::invalid_model,
              "there is no tensor -1");
}

TEST_CASE("data that many tensors name is not copied for each of them") {
  LiteFile f;
  const int x = f.input("x", {1, 8, 8, 64});
  const int w = f.constant("w", random_tensor({DType::f32, {64, 3, 3, 64}}, 1));
  const uint32_t buffer = f.graph().tensors[static_cast<size_t>(w)]->buffer;
  for (int i = 0; i < 20; ++i) {
    const int twin = f.tensor("twin", {64, 3, 3, 64});
    f.graph().tensors[static_cast<size_t>(twin)]->buffer = buffer;
    lite::Conv2DOptionsT o;
    o.stride_h = o.stride_w = 1;
    f.output(f.op(Builtin::CONV_2D, {x, twin}, {1, 8, 8, 64}, o));
  }
  CHECK_ERROR(f.import(), Code::invalid_model, "again and again");
}

// A file with most of what the reader looks at: lists, options, data, two layouts.
std::string small_file() {
  LiteFile f;
  lite::Conv2DOptionsT conv;
  conv.stride_h = conv.stride_w = 1;
  const int x = f.input("x", {-1, 3, 3, 1});
  int v =
      f.op(Builtin::CONV_2D, {x, f.constant("w", random_tensor({DType::f32, {2, 2, 2, 1}}, 1)), -1},
           {-1, 3, 3, 2}, conv);
  v = f.op(Builtin::RESHAPE, {v, f.ints({-1, 18})}, {-1, 18});
  f.output(f.op(Builtin::SOFTMAX, {v}, {-1, 18}, lite::SoftmaxOptionsT()));
  return f.bytes();
}

// What can be imported must also be a sound graph.
void survive(const std::string& bytes) {
  const auto m = import_lite(bytes);
  if (m.ok()) CHECK_OK(verify(m->graph));
}

TEST_CASE("a TensorFlow Lite file cut short anywhere is refused or still sound") {
  const std::string bytes = small_file();
  REQUIRE_OK(import_lite(bytes));
  for_each_truncation(bytes, 1, survive);
  CHECK_ERROR(import_lite(bytes.substr(0, bytes.size() / 2)), Code::invalid_model, "FlatBuffer");
  CHECK_ERROR(import_lite(bytes.substr(0, 15)), Code::invalid_model, "too few");
}

TEST_CASE("no changed byte of a TensorFlow Lite file brings the importer down") {
  for_each_bad_byte(small_file(), 1, survive);
  for_each_bad_byte(branching().bytes(), 1, survive);
  for_each_bad_byte(looping().bytes(), 1, survive);
}

}  // namespace
}  // namespace hone
