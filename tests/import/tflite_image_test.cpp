// SPDX-License-Identifier: Apache-2.0
// TensorFlow Lite's operators on images against direct sums over (N, H, W, C), and what their
// layout comes to in the graph.
#include <algorithm>
#include <cmath>
#include <functional>

#include "hone/ops.hpp"
#include "hone/trainer.hpp"
#include "tests/import/tflite_file.hpp"
#include "tests/support/check.hpp"
#include "tests/support/damage.hpp"
#include "tests/support/tensors.hpp"

namespace hone {
namespace {

using namespace test;
using lite::Activation;
using lite::Builtin;
using lite::Padding;

// How many nodes of a kind the graph has.
int count(const Model& m, const OpDef& op) {
  return static_cast<int>(std::count_if(m.graph.nodes.begin(), m.graph.nodes.end(),
                                        [&](const Node& n) { return n.op == &op; }));
}

struct Window {
  int64_t out, before;
};
// TensorFlow's rule for one axis: SAME gives ceil(in / stride) windows, the odd cell after.
Window window(Padding p, int64_t in, int64_t kernel, int64_t stride, int64_t dilation) {
  const int64_t reach = (kernel - 1) * dilation + 1;
  if (p == Padding::valid) return {(in - reach) / stride + 1, 0};
  const int64_t out = (in + stride - 1) / stride;
  return {out, std::max<int64_t>((out - 1) * stride + reach - in, 0) / 2};
}

double at(const TensorData& t, int64_t n, int64_t h, int64_t w, int64_t c) {
  const Shape& s = t.shape();
  return t.at(((n * s[1] + h) * s[2] + w) * s[3] + c);
}

struct Geometry {
  Padding padding;
  int64_t stride_h, stride_w, dilation_h, dilation_w;
};

// Calls f(n, y, x, tap_y, tap_x, h, w) for each output cell and each tap inside of the image.
void each_tap(
    const Shape& in, int64_t kh, int64_t kw, const Geometry& g,
    const std::function<void(int64_t, int64_t, int64_t, int64_t, int64_t, int64_t, int64_t)>& f) {
  const Window v = window(g.padding, in[1], kh, g.stride_h, g.dilation_h);
  const Window u = window(g.padding, in[2], kw, g.stride_w, g.dilation_w);
  for (int64_t n = 0; n < in[0]; ++n)
    for (int64_t y = 0; y < v.out; ++y)
      for (int64_t x = 0; x < u.out; ++x)
        for (int64_t i = 0; i < kh; ++i)
          for (int64_t j = 0; j < kw; ++j) {
            const int64_t h = y * g.stride_h - v.before + i * g.dilation_h;
            const int64_t w = x * g.stride_w - u.before + j * g.dilation_w;
            if (h >= 0 && h < in[1] && w >= 0 && w < in[2]) f(n, y, x, i, j, h, w);
          }
}

Shape out_shape(const Shape& in, int64_t kh, int64_t kw, const Geometry& g, int64_t channels) {
  return {in[0], window(g.padding, in[1], kh, g.stride_h, g.dilation_h).out,
          window(g.padding, in[2], kw, g.stride_w, g.dilation_w).out, channels};
}

const Geometry kGeometries[] = {{Padding::same, 1, 1, 1, 1},
                                {Padding::same, 2, 3, 1, 1},
                                {Padding::valid, 2, 1, 1, 1},
                                {Padding::valid, 1, 1, 2, 1},
                                {Padding::same, 1, 1, 1, 2}};

std::vector<int32_t> extents_of(const Shape& s) { return {s.begin(), s.end()}; }

TEST_CASE("CONV_2D, plain and in groups") {
  for (const int64_t groups : {1, 2})
    for (const Geometry& g : kGeometries) {
      const Shape in = {2, 7, 6, 4};
      const int64_t each = 4 / groups, m = 6;
      const TensorData x = random_tensor({DType::f32, in}, 1);
      const TensorData w = random_tensor({DType::f32, {m, 3, 2, each}}, 2);
      const TensorData b = random_tensor({DType::f32, {m}}, 3);
      const Shape out = out_shape(in, 3, 2, g, m);
      std::vector<double> want(static_cast<size_t>(out.numel()));
      for (size_t k = 0; k < want.size(); ++k) want[k] = b.at(static_cast<int64_t>(k) % m);
      each_tap(in, 3, 2, g,
               [&](int64_t n, int64_t y, int64_t u, int64_t i, int64_t j, int64_t h, int64_t v) {
                 for (int64_t o = 0; o < m; ++o)
                   for (int64_t c = 0; c < each; ++c)
                     want[static_cast<size_t>(((n * out[1] + y) * out[2] + u) * m + o)] +=
                         at(x, n, h, v, o / (m / groups) * each + c) * at(w, o, i, j, c);
               });
      for (double& v : want) v = std::max(v, 0.0);
      LiteFile f;
      lite::Conv2DOptionsT o;
      o.padding = g.padding, o.activation = Activation::relu;
      o.stride_h = static_cast<int>(g.stride_h), o.stride_w = static_cast<int>(g.stride_w);
      o.dilation_h = static_cast<int>(g.dilation_h), o.dilation_w = static_cast<int>(g.dilation_w);
      f.output(f.op(Builtin::CONV_2D,
                    {f.input("x", {2, 7, 6, 4}), f.constant("w", w), f.constant("b", b)},
                    extents_of(out), o));
      CHECK(all_close(run(f, {x}), tensor_from({DType::f32, out}, want), 1e-5, 1e-5));
    }
}

TEST_CASE("DEPTHWISE_CONV_2D: output channel c * multiplier + m is of input channel c") {
  for (const Geometry& g : kGeometries) {
    const Shape in = {1, 7, 6, 3};
    const TensorData x = random_tensor({DType::f32, in}, 1);
    const TensorData w = random_tensor({DType::f32, {1, 2, 3, 6}}, 2);
    const Shape out = out_shape(in, 2, 3, g, 6);
    std::vector<double> want(static_cast<size_t>(out.numel()));
    each_tap(in, 2, 3, g,
             [&](int64_t n, int64_t y, int64_t u, int64_t i, int64_t j, int64_t h, int64_t v) {
               for (int64_t o = 0; o < 6; ++o)
                 want[static_cast<size_t>(((n * out[1] + y) * out[2] + u) * 6 + o)] +=
                     at(x, n, h, v, o / 2) * at(w, 0, i, j, o);
             });
    for (double& v : want) v = std::clamp(v, -1.0, 1.0);
    LiteFile f;
    lite::DepthwiseConv2DOptionsT o;
    o.padding = g.padding, o.depth_multiplier = 2, o.activation = Activation::relu_n1_to_1;
    o.stride_h = static_cast<int>(g.stride_h), o.stride_w = static_cast<int>(g.stride_w);
    o.dilation_h = static_cast<int>(g.dilation_h), o.dilation_w = static_cast<int>(g.dilation_w);
    f.output(f.op(Builtin::DEPTHWISE_CONV_2D, {f.input("x", {1, 7, 6, 3}), f.constant("w", w), -1},
                  extents_of(out), o));
    CHECK(all_close(run(f, {x}), tensor_from({DType::f32, out}, want), 1e-5, 1e-5));
  }
}

TEST_CASE("AVERAGE_POOL_2D counts no padding, MAX_POOL_2D takes none") {
  for (const Builtin code : {Builtin::AVERAGE_POOL_2D, Builtin::MAX_POOL_2D})
    for (const Padding p : {Padding::same, Padding::valid}) {
      const Geometry g = {p, 2, 1, 1, 1};
      const Shape in = {2, 5, 4, 3}, out = out_shape(in, 3, 2, g, 3);
      const TensorData x = random_tensor({DType::f32, in}, 4, -2, -1);  // padding would win
      std::vector<double> want(static_cast<size_t>(out.numel()), -9), sum(want.size()), n = sum;
      each_tap(in, 3, 2, g,
               [&](int64_t b, int64_t y, int64_t u, int64_t, int64_t, int64_t h, int64_t v) {
                 for (int64_t c = 0; c < 3; ++c) {
                   const size_t k = static_cast<size_t>(((b * out[1] + y) * out[2] + u) * 3 + c);
                   want[k] = std::max(want[k], at(x, b, h, v, c));
                   sum[k] += at(x, b, h, v, c), n[k] += 1;
                 }
               });
      if (code == Builtin::AVERAGE_POOL_2D)
        for (size_t k = 0; k < want.size(); ++k) want[k] = sum[k] / n[k];
      LiteFile f;
      lite::Pool2DOptionsT o;
      o.padding = p, o.stride_h = 2, o.stride_w = 1, o.filter_h = 3, o.filter_w = 2;
      f.output(f.op(code, {f.input("x", {2, 5, 4, 3})}, extents_of(out), o));
      CHECK(all_close(run(f, {x}), tensor_from({DType::f32, out}, want), 1e-5, 1e-6));
    }
}

// The adjoint of a convolution whose input has the shape of this one's output.
TEST_CASE("TRANSPOSE_CONV scatters what CONV_2D gathers") {
  struct Case {
    Padding padding;
    int64_t h, w, stride_h, stride_w;  // of the output
  };
  for (const Case& k : {Case{Padding::same, 7, 6, 2, 3}, Case{Padding::same, 8, 6, 2, 3},
                        Case{Padding::valid, 9, 8, 2, 3}, Case{Padding::same, 4, 3, 1, 1}}) {
    const Geometry g = {k.padding, k.stride_h, k.stride_w, 1, 1};
    const Shape out = {1, k.h, k.w, 2}, in = out_shape(out, 3, 2, g, 4);
    const TensorData x = random_tensor({DType::f32, in}, 5);
    const TensorData w = random_tensor({DType::f32, {2, 3, 2, 4}}, 6);
    const TensorData b = random_tensor({DType::f32, {2}}, 7);
    std::vector<double> want(static_cast<size_t>(out.numel()));
    for (size_t i = 0; i < want.size(); ++i) want[i] = b.at(static_cast<int64_t>(i) % 2);
    each_tap(out, 3, 2, g,
             [&](int64_t, int64_t y, int64_t u, int64_t i, int64_t j, int64_t h, int64_t v) {
               for (int64_t o = 0; o < 2; ++o)
                 for (int64_t c = 0; c < 4; ++c)
                   want[static_cast<size_t>((h * out[2] + v) * 2 + o)] +=
                       at(x, 0, y, u, c) * at(w, o, i, j, c);
             });
    LiteFile f;
    lite::TransposeConvOptionsT o;
    o.padding = k.padding;
    o.stride_h = static_cast<int>(k.stride_h), o.stride_w = static_cast<int>(k.stride_w);
    const int shape = f.ints(extents_of(out));
    f.output(f.op(Builtin::TRANSPOSE_CONV,
                  {shape, f.constant("w", w), f.input("x", extents_of(in)), f.constant("b", b)},
                  extents_of(out), o));
    CHECK(all_close(run(f, {x}), tensor_from({DType::f32, out}, want), 1e-5, 1e-5));
  }
}

TEST_CASE("RESIZE_NEAREST_NEIGHBOR in its three ways") {
  struct Case {
    bool align, half;
    std::vector<double> want;
  };
  // Three cells to eight: cells 0.375 i, 0.286 i rounded, and 0.375 (i + 0.5) cut off.
  for (const Case& k :
       {Case{false, false, {0, 0, 0, 1, 1, 1, 2, 2}}, Case{true, false, {0, 0, 1, 1, 1, 1, 2, 2}},
        Case{false, true, {0, 0, 0, 1, 1, 2, 2, 2}}}) {
    LiteFile f;
    lite::ResizeNearestNeighborOptionsT o;
    o.align_corners = k.align, o.half_pixel_centers = k.half;
    f.output(f.op(Builtin::RESIZE_NEAREST_NEIGHBOR, {f.input("x", {1, 3, 1, 1}), f.ints({8, 1})},
                  {1, 8, 1, 1}, o));
    CHECK(same_bits(run(f, {tensor_of<float>({1, 3, 1, 1}, {0, 1, 2})}),
                    tensor_from({DType::f32, {1, 8, 1, 1}}, k.want)));
  }
}

TEST_CASE("RESIZE_BILINEAR in its three ways, with a free batch too") {
  struct Case {
    bool align, half;
    std::vector<double> want;
  };
  for (const Case& k :
       {Case{false, false, {0, 2, 4, 4}}, Case{true, false, {0, 4.0 / 3, 8.0 / 3, 4}},
        Case{false, true, {0, 1, 3, 4}}})
    for (const int32_t batch : {1, -1}) {
      LiteFile f;
      lite::ResizeBilinearOptionsT o;
      o.align_corners = k.align, o.half_pixel_centers = k.half;
      f.output(f.op(Builtin::RESIZE_BILINEAR, {f.input("x", {batch, 2, 1, 1}), f.ints({4, 1})},
                    {batch, 4, 1, 1}, o));
      CHECK(all_close(run(f, {tensor_of<float>({1, 2, 1, 1}, {0, 4})}),
                      tensor_from({DType::f32, {1, 4, 1, 1}}, k.want), 1e-6, 1e-6));
    }
}

TEST_CASE("blocks become channels and channels blocks") {
  // One channel, 2 x 4 cells, blocks of 2: each block's cells in reading order.
  const TensorData cells = tensor_of<float>({1, 2, 4, 1}, {0, 1, 2, 3, 4, 5, 6, 7});
  const TensorData deep = tensor_of<float>({1, 1, 2, 4}, {0, 1, 4, 5, 2, 3, 6, 7});
  LiteFile there, back;
  lite::SpaceToDepthOptionsT to;
  lite::DepthToSpaceOptionsT from;
  to.block_size = from.block_size = 2;
  there.output(
      there.op(Builtin::SPACE_TO_DEPTH, {there.input("x", {1, 2, 4, 1})}, {1, 1, 2, 4}, to));
  back.output(
      back.op(Builtin::DEPTH_TO_SPACE, {back.input("x", {1, 1, 2, 4})}, {1, 2, 4, 1}, from));
  CHECK(same_bits(run(there, {cells}), deep));
  CHECK(same_bits(run(back, {deep}), cells));
}

TEST_CASE("blocks become batches and batches blocks") {
  // Padded by one column before and one after: columns - 0 1 2 3 -, dealt out to three batches.
  const TensorData cells = tensor_of<float>({1, 1, 4, 1}, {1, 2, 3, 4});
  const TensorData dealt = tensor_of<float>({3, 1, 2, 1}, {0, 3, 1, 4, 2, 0});
  LiteFile there, back;
  const auto pairs = [](LiteFile& f) {
    return f.constant("pairs", tensor_of<int32_t>({2, 2}, {0, 0, 1, 1}));
  };
  there.output(there.op(Builtin::SPACE_TO_BATCH_ND,
                        {there.input("x", {1, 1, 4, 1}), there.ints({1, 3}), pairs(there)},
                        {3, 1, 2, 1}));
  back.output(back.op(Builtin::BATCH_TO_SPACE_ND,
                      {back.input("x", {3, 1, 2, 1}), back.ints({1, 3}), pairs(back)},
                      {1, 1, 4, 1}));
  CHECK(same_bits(run(there, {cells}), dealt));
  CHECK(same_bits(run(back, {dealt}), cells));
}

// Two convolutions with everything between them that goes along with their layout.
LiteFile network(int32_t batch) {
  LiteFile f;
  lite::Conv2DOptionsT conv;
  conv.stride_h = conv.stride_w = 1;
  const int x = f.input("x", {batch, 4, 4, 2});
  const auto weight = [&](std::string name, Shape s, uint64_t seed) {
    return f.constant(std::move(name), random_tensor({DType::f32, s}, seed, -0.7, 0.7));
  };
  int v = f.op(Builtin::CONV_2D, {x, weight("w1", {3, 3, 3, 2}, 1), weight("b1", {3}, 2)},
               {batch, 4, 4, 3}, conv);
  const int skip = v;
  v = f.op(Builtin::MUL, {v, weight("scale", {3}, 3)}, {batch, 4, 4, 3}, lite::MulOptionsT());
  v = f.op(Builtin::PRELU, {v, weight("slope", {1, 1, 3}, 4)}, {batch, 4, 4, 3});
  v = f.op(Builtin::ADD, {v, skip}, {batch, 4, 4, 3}, lite::AddOptionsT());
  lite::ConcatenationOptionsT join;
  join.axis = 3;
  v = f.op(Builtin::CONCATENATION, {v, skip}, {batch, 4, 4, 6}, join);
  const int pads = f.constant("pads", tensor_of<int32_t>({4, 2}, {0, 0, 1, 0, 0, 1, 0, 0}));
  v = f.op(Builtin::PAD, {v, pads}, {batch, 5, 5, 6});
  v = f.op(Builtin::CONV_2D, {v, weight("w2", {2, 3, 3, 6}, 5), weight("b2", {2}, 6)},
           {batch, 5, 5, 2}, conv);
  lite::ReducerOptionsT mean;
  v = f.op(Builtin::MEAN, {v, f.ints({1, 2})}, {batch, 2}, mean);
  f.output(v);
  return f;
}

TEST_CASE("between convolutions nothing is transposed, whether the batch is free or not") {
  const Model fixed = must(network(2).import()), free = must(network(-1).import());
  for (const Model* m : {&fixed, &free}) {
    REQUIRE_OK(verify(m->graph));
    CHECK_EQ(count(*m, op::transpose), 1);  // of the input
    CHECK_EQ(count(*m, op::conv), 2);
  }
  CHECK_EQ(to_string(free.graph, free.graph.type(free.graph.inputs[0]).shape), "[batch, 4, 4, 2]");
  const TensorData x = random_tensor({DType::f32, {2, 4, 4, 2}}, 9);
  CHECK(same_bits(run_all(fixed, {x})[0], run_all(free, {x})[0]));
}

// The same operators, each between two that force the file's layout (a RESHAPE to the shape there
// is), so that all are computed with channels last.
TEST_CASE("going along with the layout does not change the numbers") {
  LiteFile plain = network(2);
  const LiteFile kept = network(2);
  auto& nodes = plain.graph().operators;
  std::vector<std::unique_ptr<lite::OperatorT>> old = std::move(nodes);
  nodes.clear();
  std::vector<int32_t> now(plain.graph().tensors.size());
  for (size_t i = 0; i < now.size(); ++i) now[i] = static_cast<int32_t>(i);
  const size_t tensors = now.size();
  for (auto& n : old) {
    for (int32_t& in : n->inputs) in = now[static_cast<size_t>(in)];
    const int32_t made = n->outputs[0];
    nodes.push_back(std::move(n));
    if (static_cast<size_t>(made) >= tensors) continue;
    const std::vector<int32_t> shape = plain.graph().tensors[static_cast<size_t>(made)]->shape;
    now[static_cast<size_t>(made)] = plain.op(Builtin::RESHAPE, {made, plain.ints(shape)}, shape);
  }
  plain.graph().outputs[0] = now[static_cast<size_t>(plain.graph().outputs[0])];
  OnnxImportOptions as_is;
  as_is.simplify = OnnxImportOptions::Simplify::nothing;
  const Model slow = must(plain.import(as_is));
  CHECK_EQ(count(slow, op::transpose), 4);  // to and from each convolution
  const TensorData x = random_tensor({DType::f32, {2, 4, 4, 2}}, 9);
  CHECK(all_close(run(kept, {x}), run_all(slow, {x})[0], 1e-5, 1e-6));
}

// The first output against the target "y".
Result<Value> mse_to_y(Builder&, const NamedValues& outputs, const NamedValues& targets) {
  HONE_ASSIGN(const Value y, targets.find("y"));
  return loss::mse(outputs.items()[0].second, y);
}

TEST_CASE("an imported network trains: all its weights learn and the loss falls") {
  const Model m = must(network(-1).import());
  TrainerOptions options;
  options.optimizer.lr = 0.02;
  options.loss = mse_to_y;
  Trainer trainer = must(Trainer::create(m, options));
  CHECK_EQ(trainer.trainable().size(), 6);
  const std::vector<NamedTensor> batch = {{"x", random_tensor({DType::f32, {3, 4, 4, 2}}, 21)},
                                          {"y", random_tensor({DType::f32, {3, 2}}, 22)}};
  const auto gradients = must(trainer.gradients(batch));
  for (const NamedTensor& g : gradients) {
    double largest = 0;
    for (int64_t i = 0; i < g.data.numel(); ++i)
      largest = std::max(largest, std::fabs(g.data.at(i)));
    CHECK_MESSAGE(largest > 0, g.name);
  }
  const double first = must(trainer.step(batch)).loss;
  double last = first;
  for (int i = 0; i < 30; ++i) last = must(trainer.step(batch)).loss;
  CHECK_LT(last, 0.5 * first);
}

TEST_CASE("a row of zeros through L2_NORMALIZATION hands gradients on that are numbers") {
  LiteFile f;
  const int32_t w = f.constant("w", tensor_of<float>({2, 2}, {3, 4, 0, 0}));
  const int32_t product =
      f.op(Builtin::MUL, {f.input("x", {2, 2}), w}, {2, 2}, lite::MulOptionsT());
  f.output(f.op(Builtin::L2_NORMALIZATION, {product}, {2, 2}, lite::L2NormOptionsT()));
  TrainerOptions options;
  options.loss = mse_to_y;
  Trainer trainer = must(Trainer::create(must(f.import()), options));
  const TensorData ones = tensor_of<float>({2, 2}, {1, 1, 1, 1});
  const auto gradients = must(trainer.gradients(
      std::vector<NamedTensor>{{"x", ones}, {"y", tensor_of<float>({2, 2}, {0, 0, 0, 0})}}));
  CHECK_EQ(gradients.size(), 1);
  CHECK(all_close(gradients[0].data, tensor_of<float>({2, 2}, {0, 0, 0, 0}), 1e-6, 1e-6));
}

// Numbers that come through a changed byte reach the rules: strides, groups, axes, paddings.
TEST_CASE("no changed byte of a network on images brings the importer down") {
  const auto survive = [](const std::string& bytes) {
    const auto m = import_lite(bytes);
    if (m.ok()) CHECK_OK(verify(m->graph));
  };
  for (const int32_t batch : {2, -1}) for_each_bad_byte(network(batch).bytes(), 1, survive);
}

}  // namespace
}  // namespace hone
