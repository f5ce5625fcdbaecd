// SPDX-License-Identifier: Apache-2.0
// Quantized TensorFlow Lite models in other integers than those of 8 bits, what a scale means where
// whole numbers are read, and what is refused.
#include <algorithm>
#include <cmath>

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
using lite::Builtin;
using lite::ElementType;

// A constant of elements that DType has not: `bytes` are what is stored.
int constant_of(LiteFile& f, std::string name, ElementType type, std::vector<int32_t> extents,
                std::vector<double> bytes) {
  const TensorType stored{DType::u8, {static_cast<int64_t>(bytes.size())}};
  const int t = f.constant(std::move(name), tensor_from(stored, bytes));
  f.graph().tensors[static_cast<size_t>(t)]->type = type;
  f.graph().tensors[static_cast<size_t>(t)]->shape = std::move(extents);
  return t;
}

int dense(LiteFile& f, std::vector<int32_t> inputs, std::vector<int32_t> extents,
          ElementType type = ElementType::float32) {
  return f.op(Builtin::FULLY_CONNECTED, std::move(inputs), std::move(extents),
              lite::FullyConnectedOptionsT(), type);
}

int sum(LiteFile& f, std::vector<int32_t> inputs, std::vector<int32_t> extents,
        ElementType type = ElementType::float32) {
  return f.op(Builtin::ADD, std::move(inputs), std::move(extents), lite::AddOptionsT(), type);
}

// ---- int16 and int4

TEST_CASE("int16 activations over int8 weights give the integers of TensorFlow Lite") {
  const TensorData x = random_tensor({DType::i32, {3, 16}}, 1, -32767, 32768);
  const TensorData w = random_tensor({DType::i8, {4, 16}}, 2, -127, 128);
  // The last is more than int32 holds.
  const std::vector<int64_t> b = {1000000, -7, 2000000000, -20000000000};
  const std::vector<float> ws = {0.01f, 0.02f, 0.005f, 0.03f};
  LiteFile f;
  const int in = f.quantize(f.input("x", {-1, 16}, ElementType::int16), {0.001f}, {0});
  const int bias = f.constant("b", must(TensorData::vector_of(std::span<const int64_t>(b))));
  f.output(f.quantize(
      dense(f, {in, f.quantize(f.constant("w", w), ws, {0}), bias}, {-1, 4}, ElementType::int16),
      {0.02f}, {0}));
  const TensorData y = run(f, {x});
  REQUIRE_EQ(y.dtype(), DType::i32);
  for (int64_t r = 0; r < 3; ++r)
    for (int64_t c = 0; c < 4; ++c) {
      int64_t sum = b[static_cast<size_t>(c)];
      for (int64_t k = 0; k < 16; ++k) sum += x.int_at(r * 16 + k) * w.int_at(c * 16 + k);
      const double scale = 0.001 * static_cast<double>(ws[static_cast<size_t>(c)]) / 0.02;
      const int64_t want =
          std::clamp<int64_t>(std::llround(static_cast<double>(sum) * scale), -32768, 32767);
      CHECK_LE(std::abs(y.int_at(r * 4 + c) - want), 1);
    }
}

TEST_CASE("a bias of int64 beyond int32 keeps all digits that a float has") {
  LiteFile f;
  const int x = f.quantize(f.input("x", {1, 1}, ElementType::int16), {0.5f}, {0});
  const int w = f.quantize(f.constant("w", tensor_of<int8_t>({2, 1}, {1, 2})), {0.25f}, {0});
  const int b = f.constant("b", tensor_of<int64_t>({2}, {80000000001, -24}));
  f.output(dense(f, {x, w, b}, {1, 2}));
  const TensorData y = run(f, {tensor_of<int32_t>({1, 1}, {8})});
  CHECK(all_close(y, tensor_of<float>({1, 2}, {10000000000 + 1, -3 + 2}), 1e-7, 64 * 0.125));
}

TEST_CASE("int16 constants are read; sums and QUANTIZE saturate where int16 ends") {
  LiteFile f;
  const int x = f.quantize(f.input("x", {2}, ElementType::int16), {0.5f}, {0});
  const int c = f.quantize(constant_of(f, "c", ElementType::int16, {2}, {1, 1, 254, 255}), {0.25f},
                           {0});  // 257, -2
  f.output(f.quantize(sum(f, {x, c}, {2}, ElementType::int16), {0.5f}, {0}));
  f.output(f.quantize(f.op(Builtin::QUANTIZE, {x}, {2}, ElementType::int8), {1}, {0}));
  const int y = f.input("y", {2});
  f.output(f.quantize(f.op(Builtin::QUANTIZE, {y}, {2}, ElementType::int16), {0.5f}, {0}));
  const auto outs = run_all(must(f.import()), {tensor_of<int32_t>({2}, {32767, -20}),
                                               tensor_of<float>({2}, {1, -20000})});
  CHECK(same_bits(outs[0], tensor_of<int32_t>({2}, {32767, -21})));
  CHECK(same_bits(outs[1], tensor_of<int8_t>({2}, {127, -10})));
  CHECK(same_bits(outs[2], tensor_of<int32_t>({2}, {2, -32768})));
}

// A dense layer over int4 weights {1, -8, 7; -1, 0, 3} of a scale for each row.
LiteFile nibbles() {
  LiteFile f;
  const int x = f.input("x", {1, 3});
  const int w = f.quantize(constant_of(f, "w", ElementType::int4, {2, 3}, {0x81, 0xf7, 0x30}),
                           {0.5f, 2}, {0, 0});
  f.output(dense(f, {x, w}, {1, 2}));
  return f;
}

TEST_CASE("of int4 weights a byte has two, the first in its low half") {
  const TensorData x = tensor_of<float>({1, 3}, {1, 10, 100});
  const TensorData y = tensor_of<float>({1, 2}, {0.5 * (1 - 80 + 700), 2 * (-1 + 300)});
  const Model m = must(nibbles().import());
  CHECK(value(m, "w").type.dtype == DType::i8);
  TempDir dir;
  REQUIRE_OK(save_model(m, dir.file("m.hone")));
  REQUIRE_OK(export_onnx(m, dir.file("m.onnx")));
  CHECK(same_bits(run_all(m, {x})[0], y));
  CHECK(same_bits(run_all(must(load_model(dir.file("m.hone"))), {x})[0], y));
  CHECK(same_bits(run_all(must(import_onnx(dir.file("m.onnx"))), {x})[0], y));

  LiteFile odd;
  const int a = odd.input("a", {3});
  const int c = odd.quantize(constant_of(odd, "c", ElementType::int4, {3}, {0x21, 0xfd}), {1}, {0});
  odd.output(sum(odd, {a, c}, {3}));
  CHECK(same_bits(run(odd, {tensor_of<float>({3}, {0, 0, 0})}), tensor_of<float>({3}, {1, 2, -3})));
}

TEST_CASE("a named weight of int4 becomes floats and is learned") {
  OnnxImportOptions options;
  options.parameters = "w";
  const Model m = must(nibbles().import(options));
  CHECK(value(m, "w").trainable);
  CHECK(same_bits(value(m, "w").data, tensor_of<float>({2, 3}, {0.5, -4, 3.5, -2, 0, 6})));
}

TEST_CASE("int4 and int16 of another length or with other zero points than they have are refused") {
  LiteFile f = nibbles();
  f.graph().tensors[1]->shape = {2, 4};
  CHECK_ERROR(f.import(), Code::invalid_model, "takes 4 bytes, 3 are stored");
  f = nibbles();
  f.graph().tensors[1]->quantization->zero_point = {0, 8};
  CHECK_ERROR(f.import(), Code::invalid_model, "tensor 'w': its zero point 8 is no int4");
}

TEST_CASE("no changed byte of a file with int4 brings the importer down") {
  for_each_bad_byte(nibbles().bytes(), 1, [](const std::string& bytes) {
    const auto m = import_lite(bytes);
    if (m.ok()) CHECK_OK(verify(m->graph));
  });
}

// ---- what scales mean

TEST_CASE("one zero point may do for all scales") {
  for (const bool learned : {false, true}) {
    LiteFile f;
    const int x = f.input("x", {1, 2});
    const int w =
        f.quantize(f.constant("w", tensor_of<uint8_t>({2, 2}, {4, 5, 6, 7})), {0.5f, 2}, {3});
    f.output(dense(f, {x, w}, {1, 2}));
    OnnxImportOptions options;
    if (learned) options.parameters = "w";
    CHECK(same_bits(run_all(must(f.import(options)), {tensor_of<float>({1, 2}, {1, 10})})[0],
                    tensor_of<float>({1, 2}, {0.5 * 21, 2 * 43})));
  }
}

TEST_CASE("int32 with a scale stands for real numbers where it is no bias") {
  LiteFile f;
  const int x = f.quantize(f.input("x", {2}, ElementType::int32), {0.5f}, {0});
  const int c = f.quantize(f.constant("c", tensor_of<int32_t>({2}, {1, 100000})), {0.25f}, {0});
  f.output(f.quantize(sum(f, {x, c}, {2}, ElementType::int8), {0.25f}, {-1}));
  f.output(f.op(Builtin::NEG, {x}, {2}));
  f.output(f.quantize(f.op(Builtin::QUANTIZE, {x}, {2}, ElementType::int8), {2}, {1}));
  f.output(x);
  const auto outs = run_all(must(f.import()), {tensor_of<int32_t>({2}, {3, -8})});
  CHECK(same_bits(outs[0], tensor_of<int8_t>({2}, {6, 127})));
  CHECK(same_bits(outs[1], tensor_of<float>({2}, {-1.5, 4})));
  CHECK(same_bits(outs[2], tensor_of<int8_t>({2}, {2, -1})));
  CHECK(same_bits(outs[3], tensor_of<int32_t>({2}, {3, -8})));
}

TEST_CASE("shapes, axes and indices are what they are, whatever scale the file gives them") {
  LiteFile f;
  const auto scaled = [&](int t) { return f.quantize(t, {0.5f}, {0}); };
  const int x = f.input("x", {2, 3}), i = scaled(f.input("i", {2}, ElementType::int32));
  const int j = f.quantize(f.input("j", {1, 1}, ElementType::int64), {0.5f}, {0});
  f.output(f.op(Builtin::RESHAPE, {x, scaled(f.ints({3, 2}))}, {3, 2}));
  f.output(f.op(Builtin::SUM, {x, scaled(f.ints({1}))}, {2}, lite::ReducerOptionsT()));
  lite::GatherOptionsT o;
  o.axis = 1;
  f.output(f.op(Builtin::GATHER, {x, i}, {2, 2}, o));
  f.output(f.op(Builtin::GATHER_ND, {x, j}, {1, 3}));
  const auto outs =
      run_all(must(f.import()), {tensor_of<float>({2, 3}, {1, 2, 3, 4, 5, 6}),
                                 tensor_of<int32_t>({2}, {2, 0}), tensor_of<int64_t>({1, 1}, {1})});
  CHECK(same_bits(outs[0], tensor_of<float>({3, 2}, {1, 2, 3, 4, 5, 6})));
  CHECK(same_bits(outs[1], tensor_of<float>({2}, {6, 15})));
  CHECK(same_bits(outs[2], tensor_of<float>({2, 2}, {3, 1, 6, 4})));
  CHECK(same_bits(outs[3], tensor_of<float>({1, 3}, {4, 5, 6})));
}

TEST_CASE("CAST to stored numbers gives them as they are") {
  LiteFile f;
  const int x = f.input("x", {2}, ElementType::int32);
  const int y = f.quantize(f.op(Builtin::CAST, {x}, {2}, ElementType::int8), {0.5f}, {1});
  f.output(y).output(f.op(Builtin::DEQUANTIZE, {y}, {2}));
  const auto outs = run_all(must(f.import()), {tensor_of<int32_t>({2}, {7, -3})});
  CHECK(same_bits(outs[0], tensor_of<int8_t>({2}, {7, -3})));
  CHECK(same_bits(outs[1], tensor_of<float>({2}, {3, -2})));
}

TEST_CASE("what moves into another type of the same scale saturates where that ends") {
  LiteFile f;
  const int x = f.quantize(f.input("x", {2}, ElementType::int8), {1}, {0});
  const int y =
      f.quantize(f.op(Builtin::RESHAPE, {x, f.ints({2})}, {2}, ElementType::uint8), {1}, {0});
  f.output(f.op(Builtin::DEQUANTIZE, {y}, {2}));
  CHECK(same_bits(run(f, {tensor_of<int8_t>({2}, {5, -5})}), tensor_of<float>({2}, {5, 0})));
}

TEST_CASE("a branch hands on what a constant stands for, also where its stored numbers are read") {
  LiteFile f;
  const int go = f.input("go", {}, ElementType::boolean);
  lite::IfOptionsT o;
  o.then_graph = 1, o.else_graph = 2;
  const int a = f.quantize(f.tensor("a", {2}, ElementType::int8), {0.5f}, {1});
  const int b = f.tensor("b", {2});
  f.node(Builtin::IF, {go}, {a, b}).options.Set(o);
  f.output(a).output(b);
  for (int graph = 1; graph <= 2; ++graph) {
    f.next_graph();
    const int c = f.quantize(f.constant("c", tensor_of<int8_t>({2}, {7, -3})), {0.5f}, {1});
    const int stored = f.op(Builtin::CAST, {c}, {2});
    f.output(c).output(stored);
  }
  const auto outs = run_all(must(f.import()), {tensor_of<bool>({}, {1})});
  CHECK(same_bits(outs[0], tensor_of<int8_t>({2}, {7, -3})));
  CHECK(same_bits(outs[1], tensor_of<float>({2}, {7, -3})));
}

// ---- refused

TEST_CASE("sums that stand for real numbers are read, not made, and only in 32 bits") {
  LiteFile f;
  const int x = f.quantize(f.input("x", {2}, ElementType::int8), {1}, {0});
  const int s = f.quantize(f.input("s", {2}, ElementType::int64), {1}, {0});
  f.output(f.quantize(sum(f, {x, x}, {2}, ElementType::int32), {1}, {0}));
  f.output(sum(f, {x, s}, {2}));
  CHECK_ERROR(f.import(), Code::unsupported,
              "ADD with an output of int32 that has a scale (operator 0 't2'), "
              "ADD with a scale for the int64 of 's' (operator 1 't3')");
}

TEST_CASE("all that cannot be held or done is named in one error, with operators and tensors") {
  LiteFile f;
  const int x = f.input("x", {2}, ElementType::int16);
  const int s = f.constant("s", tensor_of<float>({2}, {1, 2}));
  f.graph().tensors[static_cast<size_t>(s)]->sparsity = std::make_unique<lite::EmptyT>();
  const int own = f.quantize(f.input("own", {2, 2}, ElementType::int8), {1}, {0});
  f.graph().tensors[static_cast<size_t>(own)]->quantization->details_kind = 1;
  const int a = sum(f, {own, s}, {2, 2});
  const int b = f.op(Builtin::CAST, {a}, {2, 2}, ElementType::uint16);
  lite::GatherOptionsT o;
  o.batch_dims = 1;
  f.output(f.op(Builtin::GATHER, {a, f.ints({0, 1})}, {2, 2}, o));
  f.output(f.op(Builtin::SVDF, {a}, {2, 2}));
  f.output(f.op(Builtin::NEG, {b}, {2, 2}, ElementType::uint16));
  const int state = f.tensor("state", {2});
  f.graph().tensors[static_cast<size_t>(state)]->is_variable = true;
  f.output(f.op(Builtin::NEG, {state}, {2}));
  f.node(Builtin::CALL_ONCE, {}, {});
  f.output(x);
  CHECK_ERROR(f.import(), Code::unsupported,
              "cannot be imported: an input of int16 ('x'), an input quantized by a method of its "
              "own ('own'), ADD on a tensor quantized by a method of its own (operator 0 'own'), "
              "ADD on a tensor stored sparsely (operator 0 's'), "
              "CAST on a tensor of uint16 (operator 1 't4'), "
              "GATHER with batch_dims 1 (operator 2 't6'), SVDF (operator 3 't7'), "
              "NEG on a tensor of uint16 (operator 4 't4', operator 4 't8'), "
              "NEG on a tensor that is a variable (operator 5 'state'), "
              "CALL_ONCE (operator 6 '')");
}

TEST_CASE("float16 that is stored sparsely is refused where it is used, not where it is widened") {
  LiteFile f;
  const int half = f.constant("half", must(cast(tensor_of<float>({2}, {1, 2}), DType::f16)));
  f.graph().tensors[static_cast<size_t>(half)]->sparsity = std::make_unique<lite::EmptyT>();
  const int wide = f.op(Builtin::DEQUANTIZE, {half}, {2});
  f.output(sum(f, {f.input("x", {2}), wide}, {2}));
  CHECK_ERROR(f.import(), Code::unsupported, "ADD on a tensor stored sparsely (operator 1 't1')");
}

TEST_CASE("what a branch lacks is said with the number of its graph") {
  LiteFile f;
  const int go = f.input("go", {}, ElementType::boolean), x = f.input("x", {2});
  lite::IfOptionsT o;
  o.then_graph = 1, o.else_graph = 2;
  f.output(f.op(Builtin::NEG, {f.op(Builtin::IF, {go, x}, {2}, o)}, {2}));
  for (const Builtin code : {Builtin::SVDF, Builtin::NEG}) {
    f.next_graph();
    f.output(f.op(code, {f.input("a", {2})}, {2}));
  }
  CHECK_ERROR(f.import(), Code::unsupported, "SVDF (operator 0 of graph 1 't1')");
}

}  // namespace
}  // namespace hone
