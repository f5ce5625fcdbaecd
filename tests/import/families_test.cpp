// SPDX-License-Identifier: Apache-2.0
// Operators of the recurrent, vision, attention and signal families on their way to ONNX and back.
#include <cmath>

#include "hone/attention_attrs.hpp"
#include "hone/op_attrs_index.hpp"
#include "hone/recurrent.hpp"
#include "hone/session.hpp"
#include "hone/signal_attrs.hpp"
#include "hone/simplify.hpp"
#include "hone/vision_attrs.hpp"
#include "tests/import/onnx_file.hpp"
#include "tests/support/check.hpp"
#include "tests/support/temp_dir.hpp"
#include "tests/support/tensors.hpp"

namespace hone {
namespace {

using namespace test;

// A model of one node with inputs of these types, exported and read again, has the same operator
// with the same attributes. An input that a constant stands for is given as one.
void check_round_trip(const OpDef& op, const Attrs& attrs, std::vector<TensorType> inputs,
                      std::vector<TensorData> constants = {}) {
  INFO(std::string(op.name));
  Model m;
  Builder b(m.graph, Composites::keep);
  std::vector<Value> in;
  for (size_t i = 0; i < inputs.size(); ++i)
    in.push_back(inputs[i].shape.rank() == 0 && inputs[i].dtype == DType::bool_
                     ? Value()
                     : b.input(inputs[i], format("x{}", i)));
  for (TensorData& c : constants) in.push_back(b.constant(std::move(c), format("c{}", in.size())));
  const std::vector<Value> outs = b.emit_all(op, in, attrs);
  REQUIRE_OK(b.status());
  for (size_t k = 0; k < outs.size(); ++k) b.output(outs[k], format("y{}", k));
  TempDir dir;
  REQUIRE_OK(export_onnx(m, dir.file("m.onnx")));
  const Model again = must(import_onnx(dir.file("m.onnx")));
  REQUIRE_EQ(again.graph.nodes.size(), 1);
  CHECK_EQ(std::string(again.graph.nodes[0].op->name), std::string(op.name));
  CHECK_EQ(to_string(again.graph.nodes[0].attrs), to_string(m.graph.nodes[0].attrs));
  CHECK_EQ(again.graph.outputs.size(), outs.size());
}

TensorType f32(const Shape& s) { return {DType::f32, s}; }
TensorType i64(const Shape& s) { return {DType::i64, s}; }
// An optional input that is left out.
const TensorType kNoInput{DType::bool_, {}};

TEST_CASE("recurrent operators keep their attributes on the way to ONNX and back") {
  RecurrentAttrs a{.direction = Direction::bidirectional,
                   .activations = "hard_sigmoid,tanh,elu,sigmoid,softsign,leaky_relu",
                   .alpha = {0.25, 0, 0.5, 0, 0, 0.125},
                   .beta = {0.75, 0, 0, 0, 0, 0},
                   .clip = 3,
                   .input_forget = true,
                   .batch_first = true};
  check_round_trip(op::lstm, a,
                   {f32({3, 5, 2}),
                    f32({2, 16, 2}),
                    f32({2, 16, 4}),
                    f32({2, 32}),
                    {DType::i32, {3}},
                    f32({3, 2, 4}),
                    f32({3, 2, 4}),
                    f32({2, 12})});
  check_round_trip(op::gru,
                   RecurrentAttrs{.direction = Direction::reverse, .linear_before_reset = true},
                   {f32({5, 3, 2}), f32({1, 12, 2}), f32({1, 12, 4})});
  check_round_trip(op::rnn, RecurrentAttrs{.activations = "affine", .alpha = {0.5}, .beta = {2}},
                   {f32({5, 3, 2}), f32({1, 4, 2}), f32({1, 4, 4})});
}

TEST_CASE("attention and its cache keep their attributes on the way to ONNX and back") {
  const AttentionAttrs a{.heads = 4,
                         .kv_heads = 2,
                         .scale = 0.5,
                         .softcap = 20,
                         .causal = true,
                         .scores = ScoreOutput::softmax,
                         .has_softmax_dtype = true};
  check_round_trip(op::attention, a,
                   {f32({2, 3, 8}), f32({2, 3, 4}), f32({2, 3, 4}), kNoInput, f32({2, 2, 5, 2}),
                    f32({2, 2, 5, 2})});
  check_round_trip(op::attention, {},
                   {f32({2, 4, 3, 8}), f32({2, 4, 3, 8}), f32({2, 4, 3, 8}), kNoInput, kNoInput,
                    kNoInput, i64({2})});
  check_round_trip(op::rotary_embedding, RotaryAttrs{2, 4, true},
                   {f32({1, 3, 16}), f32({9, 2}), f32({9, 2}), i64({1, 3})});
  check_round_trip(op::tensor_scatter, TensorScatterAttrs{1, true},
                   {f32({2, 5, 3}), f32({2, 2, 3}), i64({2})});
}

// Exported, read again as it stands there and run, the operator gives the same.
void check_spelled(const OpDef& op, const Attrs& attrs, const std::vector<TensorData>& inputs,
                   std::string_view spelled_by) {
  INFO(std::string(op.name), " ", to_string(attrs));
  Model m;
  Builder b(m.graph, Composites::keep);
  std::vector<Value> in;
  for (const TensorData& t : inputs) in.push_back(b.input(t.type(), format("x{}", in.size())));
  b.output(b.emit(op, in, attrs), "y");
  REQUIRE_OK(b.status());
  TempDir dir;
  REQUIRE_OK(export_onnx(m, dir.file("m.onnx")));
  const Model again =
      must(import_onnx(dir.file("m.onnx"), {.simplify = OnnxImportOptions::Simplify::nothing}));
  CHECK_EQ(nodes_by_operator(again.graph).count(spelled_by), 1);
  Session first = must(Session::create(m)), second = must(Session::create(again));
  CHECK(all_close(must(first.run(inputs))[0], must(second.run(inputs))[0], 1e-5, 1e-6));
}

void check_spelled_attention(const DotProductAttentionAttrs& attrs,
                             const std::vector<TensorData>& inputs, std::string_view spelled_by) {
  check_spelled(op::scaled_dot_product_attention, attrs, inputs, spelled_by);
}

TEST_CASE("scaled dot-product attention is written with products and a softmax, or as Attention") {
  const auto random = [](const Shape& s) { return random_tensor(f32(s), 7); };
  const TensorData q = random({2, 4, 3, 5}), k = random({2, 4, 6, 5}), v = random({2, 4, 6, 3});
  check_spelled_attention({}, {q, k, v}, "softmax");
  check_spelled_attention({.scale = 0.25}, {q, k, v, random({3, 6})}, "softmax");
  check_spelled_attention({.causal = true}, {q, k, v}, "softmax");
  const TensorData mask = must(cast(random({6}), DType::bool_));
  check_spelled_attention({}, {q, k, v, mask}, "where");
  const TensorData tokens = random({2, 6, 4, 5});
  check_spelled_attention({.causal = true, .tokens_first = true}, {tokens, tokens, tokens},
                          "softmax");
  const TensorData shared = random({2, 2, 6, 5});
  check_spelled_attention({.scale = 0.5, .causal = true}, {q, shared, shared}, "expand");
  const TensorData queries = random({2, 3, 4, 5}), keys = random({2, 6, 2, 5});
  check_spelled_attention({.tokens_first = true}, {queries, keys, keys}, "expand");
}

TEST_CASE("an Attention node becomes the fused operator and is written as it is or spelled out") {
  OnnxFile file(23);
  file.input("q", {"N", "L", 8}).input("k", {"N", "S", 4}).input("v", {"N", "S", 4});
  file.node("Attention", {"q", "k", "v"}, {"y"},
            {{"q_num_heads", int64_t{4}}, {"kv_num_heads", int64_t{2}}, {"is_causal", int64_t{1}}});
  const Model whole =
      must(file.output("y").import({.simplify = OnnxImportOptions::Simplify::nothing}));
  const Model fused = must(file.import());
  CHECK_EQ(nodes_by_operator(fused.graph).count("scaled_dot_product_attention"), 1);
  TempDir dir;
  REQUIRE_OK(export_onnx(fused, dir.file("m.onnx")));
  const Model again = must(import_onnx(dir.file("m.onnx")));
  CHECK_EQ(nodes_by_operator(again.graph).count("scaled_dot_product_attention"), 1);
  const std::vector<TensorData> in = {random_tensor(f32({2, 3, 8}), 1),
                                      random_tensor(f32({2, 5, 4}), 2),
                                      random_tensor(f32({2, 5, 4}), 3)};
  const std::vector<TensorData> expected = must(must(Session::create(whole)).run(in));
  for (const Model* m : {&fused, &again})
    CHECK(all_close(must(must(Session::create(*m)).run(in))[0], expected[0], 1e-5, 1e-6));
}

TEST_CASE("signal operators keep their attributes on the way to ONNX and back") {
  const auto number = [](int64_t v) { return must(TensorData::scalar_of(v)); };
  check_round_trip(op::stft, StftAttrs{false}, {f32({1, 9, 1})},
                   {number(2), must(TensorData::zeros(f32({4})))});
  // The axis becomes an input, which is how opset 20 has it.
  Model m;
  Builder b(m.graph, Composites::keep);
  const Value x = b.input(f32({2, 6, 1}), "x");
  b.output(b.emit(op::dft, {x}, DftAttrs{.axis = 1, .onesided = true}), "y");
  TempDir dir;
  REQUIRE_OK(export_onnx(m, dir.file("m.onnx")));
  const Model again = must(import_onnx(dir.file("m.onnx")));
  REQUIRE_EQ(again.graph.nodes.size(), 1);
  CHECK_EQ(again.graph.type(again.graph.outputs[0].value).shape, Shape{2, 4, 2});
}

TEST_CASE("a Fourier transform of complex rows is written as DFT, on the way back as a multiple") {
  const auto random = [](const Shape& s) { return random_tensor(f32(s), 7); };
  check_spelled(op::fft, {}, {random({2, 8, 2})}, "dft");
  check_spelled(op::fft, FftAttrs{.axis = 0}, {random({6, 3, 2})}, "dft");
  check_spelled(op::fft, FftAttrs{.inverse = true}, {random({3, 7, 2})}, "mul");
  check_spelled(op::fft, FftAttrs{.axis = 0, .inverse = true}, {random({5, 2, 2})}, "mul");
}

TEST_CASE("what a slice took is put back with Pad, and with Gather where it took every other") {
  const auto random = [](const Shape& s) { return random_tensor(f32(s), 7); };
  const auto check = [&](std::vector<int64_t> shape, SliceAttrs slice, const Shape& part,
                         std::string_view spelled_by) {
    check_spelled(op::unslice, UnsliceAttrs{std::move(shape), std::move(slice)}, {random(part)},
                  spelled_by);
  };
  check({4, 3}, {{1}, {3}, {0}, {}}, {2, 3}, "pad");
  check({4, 3}, {{-3, 0}, {100, -1}, {-2, -1}, {1, 1}}, {3, 2}, "pad");
  check({5}, {{-1}, {-100}, {0}, {-2}}, {3}, "gather");
  check({2, 7, 5}, {{1, 4, 0}, {6, -100, 1}, {1, 2, 0}, {2, -3, 1}}, {1, 3, 2}, "gather");
  check({4}, {{3}, {3}, {0}, {}}, {0}, "pad");
}

TEST_CASE("sums over indices are written as ScatterND into zeros") {
  const auto indices = [](DType t, const Shape& s) { return random_tensor({t, s}, 8, 0, 3); };
  const auto check = [&](IndexSumAttrs attrs, const Shape& x, const TensorData& i) {
    check_spelled(op::index_sum, attrs, {random_tensor(f32(x), 7), i}, "scatter_nd");
  };
  check({0, 5}, {4, 3}, indices(DType::i64, {4}));
  check({1, 3}, {2, 4, 2, 3}, indices(DType::i64, {4, 2}));
  check({-1, 4}, {3, 6}, indices(DType::i32, {6}));
  check({0, 3}, {2}, indices(DType::i64, {}));
}

TEST_CASE("columns of blocks are written as Gather, zeros beyond the image with them") {
  const Col2ImAttrs blocks{.image = {4, 5},
                           .block = {2, 3},
                           .strides = {2, 1},
                           .dilations = {1, 2},
                           .pads_begin = {1, 0},
                           .pads_end = {0, 1}};
  check_spelled(op::im2col, blocks, {random_tensor(f32({2, 3, 4, 5}), 7)}, "gather");
  check_spelled(op::im2col, Col2ImAttrs{.image = {6}, .block = {2}},
                {random_tensor(f32({1, 2, 6}), 7)}, "gather");
}

TEST_CASE("an inverse matrix is written with determinants, up to a size") {
  // The diagonal is so large that none of them is near to a singular one.
  const auto matrix = [](const Shape& s) {
    TensorData t = random_tensor(f32(s), 7);
    const int64_t n = s[s.rank() - 1];
    for (int64_t row = 0; row < t.numel() / n; ++row) t.as_mutable<float>()[row * n + row % n] += 4;
    return t;
  };
  check_spelled(op::matrix_inverse, {}, {tensor_of<float>({3, 1, 1}, {1, 2, 4})}, "reciprocal");
  check_spelled(op::matrix_inverse, {}, {tensor_of<float>({2, 2}, {0, 2, 4, 0})}, "det");
  check_spelled(op::matrix_inverse, {}, {matrix({5, 5})}, "det");
  check_spelled(op::matrix_inverse, {}, {matrix({2, 3, 4, 4})}, "det");
  Model m;
  Builder b(m.graph, Composites::keep);
  b.output(b.emit(op::matrix_inverse, {b.input(f32({33, 33}), "x")}), "y");
  TempDir dir;
  CHECK_ERROR(export_onnx(m, dir.file("m.onnx")), Code::unsupported,
              "matrix_inverse of other than 1 to 32 rows");
}

TEST_CASE("tables of a known size are constants when they come back from ONNX") {
  Model m;
  Builder b(m.graph, Composites::keep);
  const auto number = [&](auto v) { return b.constant(must(TensorData::scalar_of(v))); };
  b.output(b.emit(op::signal_window, {number(int64_t{3})},
                  SignalWindowAttrs{WindowKind::hamming, false, DType::f64}),
           "window");
  b.output(b.emit(op::mel_weight_matrix,
                  {number(int64_t{4}), number(int64_t{16}), number(int64_t{8000}), number(0.0f),
                   number(3000.0f)},
                  OutDTypeAttrs{DType::f64}),
           "mel");
  REQUIRE_OK(b.status());
  TempDir dir;
  REQUIRE_OK(export_onnx(m, dir.file("m.onnx")));
  const Model again = must(import_onnx(dir.file("m.onnx")));
  CHECK_EQ(again.graph.nodes.size(), 0);
  const TensorData& window = again.graph.value(again.graph.outputs[0].value).data;
  REQUIRE_EQ(to_string(window.type()), "f64[3]");
  CHECK(std::fabs(window.at(0) - 4.0 / 46) < 1e-12);
  CHECK(std::fabs(window.at(1) - 1) < 1e-12);
  CHECK_EQ(to_string(again.graph.type(again.graph.outputs[1].value)), "f64[9, 4]");
}

TEST_CASE("vision operators keep their attributes on the way to ONNX and back") {
  const PoolAttrs pool{.kernel = {2, 3},
                       .strides = {2, 1},
                       .dilations = {1, 2},
                       .pads_begin = {1, 0},
                       .pads_end = {0, 1},
                       .ceil_mode = true};
  check_round_trip(op::lp_pool, LpPoolAttrs{3, pool}, {f32({1, 2, 6, 7})});
  check_round_trip(op::max_pool_indices, MaxPoolIndicesAttrs{pool, true}, {f32({1, 2, 6, 7})});
  check_round_trip(op::global_lp_pool, NormOrderAttrs{1}, {f32({1, 2, 6})});
  check_round_trip(op::lrn, LrnAttrs{3, 0.5, 0.25, 2}, {f32({1, 4, 6})});
  check_round_trip(op::lp_norm, LpNormAttrs{1, 1}, {f32({3, 4})});
  check_round_trip(op::mean_variance_norm, AxesAttrs{{1, 2}}, {f32({3, 4, 2})});
  check_round_trip(op::max_unpool, MaxUnpoolAttrs{{2}, {2}, {0}, {1}},
                   {f32({1, 1, 3}), i64({1, 1, 3})});
  check_round_trip(op::col2im, Col2ImAttrs{.image = {4, 4}, .block = {2, 2}, .strides = {2, 2}},
                   {f32({1, 4, 4})});
  check_round_trip(op::einsum, EinsumAttrs{"bij,bjk->bik"}, {f32({2, 3, 4}), f32({2, 4, 5})});
  check_round_trip(op::det, {}, {f32({2, 3, 3})});
  check_round_trip(op::grid_sample,
                   GridSampleAttrs{SampleMode::cubic, SamplePadding::reflection, true},
                   {f32({1, 2, 4, 4}), f32({1, 3, 3, 2})});
  check_round_trip(op::affine_grid, AffineGridAttrs{true}, {f32({1, 2, 3})},
                   {tensor_of<int64_t>({4}, {1, 1, 2, 2})});
  check_round_trip(op::roi_align, RoiAlignAttrs{RoiMode::max, 2, 3, 2, 0.5, false},
                   {f32({1, 2, 4, 4}), f32({3, 4}), i64({3})});
  DeformConvAttrs deform;
  deform.conv = {.strides = {2, 1},
                 .dilations = {1, 1},
                 .pads_begin = {1, 0},
                 .pads_end = {1, 0},
                 .groups = 2};
  deform.offset_groups = 2;
  check_round_trip(
      op::deform_conv, deform,
      {f32({1, 4, 5, 5}), f32({2, 2, 3, 3}), f32({1, 36, 3, 3}), f32({2}), f32({1, 18, 3, 3})});
}

TEST_CASE("an unknown direction is unsupported, by name") {
  OnnxFile f(14);
  f.input("x", {3, 1, 2}).input("w", {1, 2, 2}).input("r", {1, 2, 2}).output("y");
  f.node("RNN", {"x", "w", "r"}, {"y"}, {{"direction", std::string("sideways")}});
  CHECK_ERROR(f.import(), Code::unsupported, "with direction='sideways'");
}

}  // namespace
}  // namespace hone
