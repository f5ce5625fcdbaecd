// SPDX-License-Identifier: Apache-2.0
// Quantized TensorFlow Lite models: against integer arithmetic as TensorFlow Lite does it, against
// float models with the same weights, and what is kept in eight bits.
#include <algorithm>
#include <cmath>

#include "hone/ops.hpp"
#include "hone/trainer.hpp"
#include "tests/import/tflite_file.hpp"
#include "tests/import/values.hpp"
#include "tests/support/check.hpp"
#include "tests/support/damage.hpp"
#include "tests/support/graph_text.hpp"
#include "tests/support/temp_dir.hpp"
#include "tests/support/tensors.hpp"

namespace hone {
namespace {

using namespace test;
using lite::Activation;
using lite::Builtin;
using lite::ElementType;
using lite::Padding;

TensorData whole(DType t, const Shape& shape, uint64_t seed) {
  return random_tensor({t, shape}, seed, t == DType::u8 ? 0 : -127, t == DType::u8 ? 256 : 128);
}

// (stored - zero) * scale, where axis `axis` has the scales.
TensorData real(const TensorData& t, const std::vector<float>& scale, int64_t zero, int axis = 0) {
  std::vector<double> out;
  int64_t inner = 1;
  for (int k = axis + 1; k < t.shape().rank(); ++k) inner *= t.shape()[k];
  for (int64_t i = 0; i < t.numel(); ++i) {
    const auto s = static_cast<size_t>(i / inner) % scale.size();
    out.push_back(static_cast<double>(static_cast<float>(t.int_at(i) - zero) * scale[s]));
  }
  return tensor_from({DType::f32, t.shape()}, out);
}

// What an integer kernel makes of a sum of products.
int64_t stored(int64_t sum, double scale, int64_t zero, int64_t low, int64_t high) {
  return std::clamp<int64_t>(std::llround(static_cast<double>(sum) * scale) + zero, low, high);
}

// Both are whole numbers and nowhere more than one apart; ties and sums of floats may differ.
void check_within_a_step(const TensorData& got, const std::vector<int64_t>& want) {
  REQUIRE_EQ(got.numel(), static_cast<int64_t>(want.size()));
  int64_t different = 0;
  for (int64_t i = 0; i < got.numel(); ++i) {
    const int64_t off = std::abs(got.int_at(i) - want[static_cast<size_t>(i)]);
    REQUIRE_LE(off, 1);
    different += off;
  }
  CHECK_LE(different, got.numel() / 50);
}

TEST_CASE(
    "an int8 convolution with a scale for each channel gives the integers of TensorFlow Lite") {
  const TensorData x = whole(DType::i8, {1, 5, 5, 3}, 1), w = whole(DType::i8, {4, 3, 3, 3}, 2);
  const TensorData b = random_tensor({DType::i32, {4}}, 3, -3000, 3000);
  const std::vector<float> ws = {0.01f, 0.02f, 0.005f, 0.03f};
  LiteFile f;
  lite::Conv2DOptionsT o;
  o.padding = Padding::valid, o.stride_h = o.stride_w = 1, o.activation = Activation::relu;
  const int in = f.quantize(f.input("x", {1, 5, 5, 3}, ElementType::int8), {0.1f}, {-5});
  // The scale that the file gives a bias does not count.
  f.output(f.quantize(f.op(Builtin::CONV_2D,
                           {in, f.quantize(f.constant("w", w), ws, {0, 0, 0, 0}, 0),
                            f.quantize(f.constant("b", b), {7, 7, 7, 7}, {0, 0, 0, 0})},
                           {1, 3, 3, 4}, o, ElementType::int8),
                      {0.5f}, {-20}));
  std::vector<int64_t> want;
  for (int64_t y = 0; y < 3; ++y)
    for (int64_t u = 0; u < 3; ++u)
      for (int64_t c = 0; c < 4; ++c) {
        int64_t sum = b.int_at(c);
        for (int64_t i = 0; i < 3; ++i)
          for (int64_t j = 0; j < 3; ++j)
            for (int64_t k = 0; k < 3; ++k)
              sum += (x.int_at(((y + i) * 5 + u + j) * 3 + k) + 5) *
                     w.int_at(((c * 3 + i) * 3 + j) * 3 + k);
        const double scale = 0.1 * static_cast<double>(ws[static_cast<size_t>(c)]) / 0.5;
        want.push_back(stored(sum, scale, -20, -20, 127));  // relu: from the zero point on
      }
  check_within_a_step(run(f, {x}), want);
}

TEST_CASE("uint8 matrices with zero points of their own give the integers of TensorFlow Lite") {
  const TensorData x = whole(DType::u8, {4, 16}, 1), w = whole(DType::u8, {8, 16}, 2);
  const TensorData b = random_tensor({DType::i32, {8}}, 3, -9000, 9000);
  LiteFile f;
  lite::FullyConnectedOptionsT o;
  o.activation = Activation::relu6;
  f.output(f.quantize(f.op(Builtin::FULLY_CONNECTED,
                           {f.quantize(f.input("x", {-1, 16}, ElementType::uint8), {0.02f}, {128}),
                            f.quantize(f.constant("w", w), {0.01f}, {101}), f.constant("b", b)},
                           {-1, 8}, o, ElementType::uint8),
                      {0.04f}, {10}));
  std::vector<int64_t> want;
  for (int64_t r = 0; r < 4; ++r)
    for (int64_t c = 0; c < 8; ++c) {
      int64_t sum = b.int_at(c);
      for (int64_t k = 0; k < 16; ++k)
        sum += (x.int_at(r * 16 + k) - 128) * (w.int_at(c * 16 + k) - 101);
      want.push_back(stored(sum, 0.02 * 0.01 / 0.04, 10, 10, 10 + 150));  // 0 to 6, in 0.04
    }
  check_within_a_step(run(f, {x}), want);
}

TEST_CASE("weights in eight bits under float activations: each channel has its own scale") {
  struct Case {
    Builtin code;
    Shape weight;
    int axis;
    std::vector<int32_t> x, y;
  };
  const std::vector<Case> cases = {
      {Builtin::CONV_2D, {2, 3, 2, 4}, 0, {1, 5, 5, 4}, {1, 5, 5, 2}},
      {Builtin::DEPTHWISE_CONV_2D, {1, 3, 2, 8}, 3, {1, 5, 5, 4}, {1, 5, 5, 8}},
      {Builtin::TRANSPOSE_CONV, {2, 3, 2, 4}, 0, {1, 5, 5, 4}, {1, 5, 5, 2}},
      {Builtin::FULLY_CONNECTED, {3, 4}, 0, {5, 4}, {5, 3}},
  };
  for (const Case& k : cases) {
    INFO(lite::EnumNameBuiltin(k.code));
    const TensorData w = whole(DType::i8, k.weight, 4);
    std::vector<float> scale;
    for (int64_t i = 0; i < k.weight[k.axis]; ++i)
      scale.push_back(0.01f * static_cast<float>(i + 1));
    const auto build = [&](bool in_bits) {
      LiteFile f;
      const int x = f.input("x", k.x);
      const int weight = in_bits ? f.quantize(f.constant("w", w), scale,
                                              std::vector<int64_t>(scale.size()), k.axis)
                                 : f.constant("w", real(w, scale, 0, k.axis));
      if (k.code == Builtin::CONV_2D) {
        lite::Conv2DOptionsT o;
        o.stride_h = o.stride_w = 1;
        f.output(f.op(k.code, {x, weight}, k.y, o));
      } else if (k.code == Builtin::DEPTHWISE_CONV_2D) {
        lite::DepthwiseConv2DOptionsT o;
        o.stride_h = o.stride_w = 1;
        f.output(f.op(k.code, {x, weight}, k.y, o));
      } else if (k.code == Builtin::TRANSPOSE_CONV) {
        lite::TransposeConvOptionsT o;
        o.stride_h = o.stride_w = 1;
        f.output(f.op(k.code, {f.ints({1, 5, 5, 2}), weight, x}, k.y, o));
      } else {
        f.output(f.op(k.code, {x, weight}, k.y, lite::FullyConnectedOptionsT()));
      }
      return f;
    };
    Shape in;
    for (const int32_t extent : k.x) in.push_back(extent);
    const TensorData x = random_tensor({DType::f32, in}, 5);
    CHECK(all_close(run(build(true), {x}), run(build(false), {x}), 1e-6, 1e-6));
    const Model m = must(build(true).import());
    CHECK(value(m, "w").kind == ValueKind::constant);
    CHECK(value(m, "w").type.dtype == DType::i8);
    CHECK_EQ(operators(m.graph).find("dequantize_linear"), operators(m.graph).rfind("deq"));
  }
}

// A dense layer over int8 weights that an operator dequantizes.
LiteFile dynamic_range() {
  LiteFile f;
  const int w = f.quantize(f.constant("w", tensor_of<int8_t>({2, 2}, {1, 2, -3, 4})), {0.5f, 0.25f},
                           {0, 0}, 0);
  f.output(f.op(Builtin::FULLY_CONNECTED,
                {f.input("x", {-1, 2}), f.op(Builtin::DEQUANTIZE, {w}, {2, 2}),
                 f.constant("b", tensor_of<float>({2}, {1, 2}))},
                {-1, 2}, lite::FullyConnectedOptionsT()));
  return f;
}

TEST_CASE("weights stay stored in eight bits, in Hone's own file and in ONNX too") {
  const Model m = must(dynamic_range().import());
  const TensorData x = tensor_of<float>({1, 2}, {1, 10});
  const TensorData y = tensor_of<float>({1, 2}, {1 + 0.5 + 10, 2 - 0.75 + 10});
  CHECK_EQ(operators(m.graph), "dequantize_linear gemm");
  CHECK(same_bits(run_all(m, {x})[0], y));
  TempDir dir;
  REQUIRE_OK(save_model(m, dir.file("m.hone")));
  REQUIRE_OK(export_onnx(m, dir.file("m.onnx")));
  for (const Model& again :
       {must(load_model(dir.file("m.hone"))), must(import_onnx(dir.file("m.onnx")))}) {
    CHECK_EQ(operators(again.graph), "dequantize_linear gemm");
    CHECK(same_bits(run_all(again, {x})[0], y));
  }
}

TEST_CASE("over weights in eight bits biases are learned; weights that are named become floats") {
  const auto trainable = [](const Model& m) {
    std::string names;
    for (const ValueInfo& v : m.graph.values)
      if (v.kind == ValueKind::state && v.trainable) names += v.name + " ";
    return names;
  };
  CHECK_EQ(trainable(must(dynamic_range().import())), "b ");
  OnnxImportOptions options;
  options.parameters = "t*";
  const Model m = must(dynamic_range().import(options));
  CHECK_EQ(trainable(m), "b t2 ");
  CHECK(same_bits(value(m, "t2").data, tensor_of<float>({2, 2}, {0.5, 1, -0.75, 1})));

  // A bias in int32 is in the product of two scales.
  LiteFile f;
  const int x = f.quantize(f.input("x", {1, 2}, ElementType::int8), {0.5f}, {1});
  const int w = f.quantize(f.constant("w", tensor_of<int8_t>({1, 2}, {1, 2})), {0.25f}, {0});
  const int b = f.constant("b", tensor_of<int32_t>({1}, {80}));
  f.output(f.op(Builtin::FULLY_CONNECTED, {x, w, b}, {1, 1}, lite::FullyConnectedOptionsT()));
  options.parameters = "b";
  const Model n = must(f.import(options));
  CHECK(same_bits(value(n, "b").data, tensor_of<float>({1}, {10})));
  for (const Model& each : {n, must(f.import())})
    CHECK(same_bits(run_all(each, {tensor_of<int8_t>({1, 2}, {3, 5})})[0],
                    tensor_of<float>({1, 1}, {1 * 0.25 + 2 * 0.5 + 10})));
}

TEST_CASE("QUANTIZE rounds to even and saturates, requantizes, and DEQUANTIZE undoes it") {
  LiteFile f;
  const int x = f.input("x", {8});
  const int a = f.quantize(f.op(Builtin::QUANTIZE, {x}, {8}, ElementType::int8), {0.5f}, {-1});
  const int b = f.quantize(f.op(Builtin::QUANTIZE, {a}, {8}, ElementType::uint8), {0.5f}, {127});
  f.output(a).output(b).output(f.op(Builtin::DEQUANTIZE, {b}, {8}));
  const auto outs = run_all(must(f.import()),
                            {tensor_of<float>({8}, {0, 0.25, 0.75, -0.25, 1, -100, 100, 63.9})});
  CHECK(same_bits(outs[0], tensor_of<int8_t>({8}, {-1, -1, 1, -1, 1, -128, 127, 127})));
  CHECK(same_bits(outs[1], tensor_of<uint8_t>({8}, {127, 127, 129, 127, 129, 0, 255, 255})));
  CHECK(same_bits(outs[2], tensor_of<float>({8}, {0, 0, 1, 0, 1, -63.5, 64, 64})));
}

TEST_CASE("operators that only move numbers move what is stored") {
  LiteFile f;
  const int x = f.quantize(f.input("x", {1, 2, 3}, ElementType::int8), {0.1f}, {3});
  const auto like_x = [&](int t) { return f.quantize(t, {0.1f}, {3}); };
  const int t =
      like_x(f.op(Builtin::TRANSPOSE, {x, f.ints({0, 2, 1})}, {1, 3, 2}, ElementType::int8));
  f.output(like_x(f.op(Builtin::RESHAPE, {t, f.ints({6})}, {6}, ElementType::int8)));
  const Model m = must(f.import());
  CHECK_EQ(operators(m.graph), "transpose reshape");
  CHECK(same_bits(run_all(m, {tensor_of<int8_t>({1, 2, 3}, {1, 2, 3, 4, 5, -128})})[0],
                  tensor_of<int8_t>({6}, {1, 4, 2, 5, 3, -128})));
  OnnxImportOptions as_it_is;
  as_it_is.simplify = OnnxImportOptions::Simplify::nothing;
  CHECK(same_bits(
      run_all(must(f.import(as_it_is)), {tensor_of<int8_t>({1, 2, 3}, {1, 2, 3, 4, 5, -128})})[0],
      tensor_of<int8_t>({6}, {1, 4, 2, 5, 3, -128})));
}

TEST_CASE("what is joined from two scales is stored with the output's") {
  LiteFile f;
  const int a = f.quantize(f.input("a", {2}, ElementType::int8), {1}, {0});
  const int b = f.quantize(f.input("b", {2}, ElementType::int8), {0.25f}, {10});
  f.output(f.quantize(
      f.op(Builtin::CONCATENATION, {a, b}, {4}, lite::ConcatenationOptionsT(), ElementType::int8),
      {0.5f}, {0}));
  const TensorData y = run(f, {tensor_of<int8_t>({2}, {3, 100}), tensor_of<int8_t>({2}, {14, 8})});
  CHECK(same_bits(y, tensor_of<int8_t>({4}, {6, 127, 2, -1})));
}

TEST_CASE("padding is with 0, which is stored as the zero point, or with a number that is stored") {
  LiteFile f;
  const int x = f.quantize(f.input("x", {1, 2}, ElementType::int8), {0.5f}, {7});
  const int pads = f.constant("pads", tensor_of<int32_t>({2, 2}, {0, 0, 1, 1}));
  const int v = f.quantize(f.constant("v", tensor_of<int8_t>({1}, {-9})), {0.5f}, {7});
  for (const std::vector<int32_t>& in : {std::vector<int32_t>{x, pads}, {x, pads, v}}) {
    const Builtin code = in.size() == 2 ? Builtin::PAD : Builtin::PADV2;
    f.output(f.quantize(f.op(code, in, {1, 4}, ElementType::int8), {0.5f}, {7}));
  }
  const auto outs = run_all(must(f.import()), {tensor_of<int8_t>({1, 2}, {1, 2})});
  CHECK(same_bits(outs[0], tensor_of<int8_t>({1, 4}, {7, 1, 2, 7})));
  CHECK(same_bits(outs[1], tensor_of<int8_t>({1, 4}, {-9, 1, 2, -9})));
}

TEST_CASE(
    "of a quantized table only the rows that are read become real; CAST takes what is stored") {
  LiteFile f;
  const int i = f.input("i", {2}, ElementType::int32);
  const int table =
      f.quantize(f.constant("w", tensor_of<int8_t>({3, 2}, {0, 1, 2, 3, 4, 5})), {0.5f}, {1});
  f.output(f.op(Builtin::EMBEDDING_LOOKUP, {i, table}, {2, 2}));
  f.output(f.op(Builtin::CAST, {table}, {3, 2}));
  const Model m = must(f.import());
  CHECK_EQ(operators(m.graph).find("gather dequantize_linear"), 0);
  const auto outs = run_all(m, {tensor_of<int32_t>({2}, {2, 0})});
  CHECK(same_bits(outs[0], tensor_of<float>({2, 2}, {1.5, 2, -0.5, 0})));
  CHECK(same_bits(outs[1], tensor_of<float>({3, 2}, {0, 1, 2, 3, 4, 5})));
}

TEST_CASE("branches of a quantized IF hand on real numbers") {
  LiteFile f;
  const int go = f.input("go", {}, ElementType::boolean);
  const int x = f.quantize(f.input("x", {2}, ElementType::int8), {0.5f}, {1});
  lite::IfOptionsT o;
  o.then_graph = 1, o.else_graph = 2;
  f.output(f.quantize(f.op(Builtin::IF, {go, x}, {2}, o, ElementType::int8), {0.5f}, {1}));
  for (const Builtin code : {Builtin::NEG, Builtin::ABS}) {
    f.next_graph();
    const int a = f.quantize(f.input("a", {2}, ElementType::int8), {0.5f}, {1});
    f.output(f.quantize(f.op(code, {a}, {2}, ElementType::int8), {0.5f}, {1}));
  }
  const Model m = must(f.import());
  const TensorData in = tensor_of<int8_t>({2}, {-3, 5});
  CHECK(same_bits(run_all(m, {tensor_of<bool>({}, {1}), in})[0], tensor_of<int8_t>({2}, {5, -3})));
  CHECK(same_bits(run_all(m, {tensor_of<bool>({}, {0}), in})[0], tensor_of<int8_t>({2}, {5, 5})));
}

// ---- refused

TEST_CASE("where scales or biases cannot be what an operator needs, that is said") {
  LiteFile f;
  const int x = f.input("x", {2, 2});
  f.output(f.quantize(f.op(Builtin::NEG, {x}, {2, 2}, ElementType::int8), {1, 2}, {0, 0}, 1));
  f.output(f.quantize(f.op(Builtin::ABS, {x}, {2, 2}, ElementType::int8), {0}, {0}));
  f.output(f.op(Builtin::FULLY_CONNECTED,
                {x, f.constant("w", tensor_of<float>({2, 2}, {1, 2, 3, 4})),
                 f.constant("b", tensor_of<int32_t>({2}, {1, 2}))},
                {2, 2}, lite::FullyConnectedOptionsT()));
  f.output(f.op(Builtin::QUANTIZE, {x}, {2, 2}, ElementType::int8));
  CHECK_ERROR(f.import(), Code::unsupported,
              "NEG with an output of several scales (operator 0 't1'), "
              "ABS with an output of scale 0 (operator 1 't2'), FULLY_CONNECTED with a bias of "
              "int32 for operands that are not quantized so (operator 2 't5'), "
              "QUANTIZE to whole numbers without a scale (operator 3 't6')");
}

TEST_CASE("scales and zero points that contradict the tensor are refused") {
  const auto spoil = [](auto change) {
    LiteFile f = dynamic_range();
    change(*f.graph().tensors[0]->quantization);
    return f.import().status();
  };
  using Q = lite::QuantizationT;
  const std::vector<float> infinite = {1, std::numeric_limits<float>::infinity()};
  CHECK_ERROR(spoil([](Q& q) { q.scale[1] = -1; }), Code::invalid_model,
              "tensor 'w': its scale is -1");
  CHECK_ERROR(spoil([&](Q& q) { q.scale = infinite; }), Code::invalid_model, "its scale is inf");
  CHECK_ERROR(spoil([](Q& q) {
                q.zero_point = {3, 3, 3};
              }),
              Code::invalid_model, "2 scales and 3 zero points");
  CHECK_ERROR(spoil([](Q& q) {
                q.zero_point = {0, 128};
              }),
              Code::invalid_model, "zero point 128 is no int8");
  CHECK_ERROR(spoil([](Q& q) { q.quantized_dimension = 2; }), Code::invalid_model,
              "2 scales for axis 2 of 2 dimensions");
  CHECK_ERROR(spoil([](Q& q) { q.scale.resize(3), q.zero_point.clear(); }), Code::invalid_model,
              "3 scales for axis 0");
}

TEST_CASE("no changed byte of a quantized file brings the importer down") {
  for_each_bad_byte(dynamic_range().bytes(), 1, [](const std::string& bytes) {
    const auto m = import_lite(bytes);
    if (m.ok()) CHECK_OK(verify(m->graph));
  });
}

}  // namespace
}  // namespace hone
