// SPDX-License-Identifier: Apache-2.0
// TensorFlow Lite's operators other than those on images, each against numbers worked out by hand.
#include <cmath>

#include "tests/import/tflite_file.hpp"
#include "tests/support/check.hpp"
#include "tests/support/tensors.hpp"

namespace hone {
namespace {

using namespace test;
using lite::Builtin;
using lite::ElementType;

constexpr ElementType kInt = ElementType::int32, kBool = ElementType::boolean;

std::vector<int32_t> extents_of(const TensorData& t) {
  return {t.shape().begin(), t.shape().end()};
}

ElementType element_of(const TensorData& t) {
  return t.dtype() == DType::f32 ? ElementType::float32 : t.dtype() == DType::i32 ? kInt : kBool;
}

// What one operator makes of `inputs`, which are inputs of the model.
template <class Options>
TensorData apply(Builtin code, const std::vector<TensorData>& inputs, Options options,
                 const TensorData& like) {
  LiteFile f;
  std::vector<int32_t> in;
  for (const TensorData& t : inputs)
    in.push_back(f.input(format("x{}", in.size()), extents_of(t), element_of(t)));
  f.output(f.op(code, in, extents_of(like), options, element_of(like)));
  return run(f, inputs);
}
// The same, where all inputs after the first are constants of the file.
template <class Options>
TensorData apply_fixed(Builtin code, const TensorData& x, const std::vector<TensorData>& fixed,
                       Options options, const TensorData& like) {
  LiteFile f;
  std::vector<int32_t> in = {f.input("x", extents_of(x), element_of(x))};
  for (const TensorData& t : fixed) in.push_back(f.constant(format("c{}", in.size()), t));
  f.output(f.op(code, in, extents_of(like), options, element_of(like)));
  return run(f, {x});
}

TensorData floats(std::initializer_list<double> v) {
  return tensor_of<float>({static_cast<int64_t>(v.size())}, v);
}
TensorData ints(std::initializer_list<double> v) {
  return tensor_of<int32_t>({static_cast<int64_t>(v.size())}, v);
}
TensorData bools(std::initializer_list<double> v) {
  return tensor_of<bool>({static_cast<int64_t>(v.size())}, v);
}
const lite::Conv2DOptionsT kNoOptions;  // of an operator that reads none

TEST_CASE("TensorFlow Lite's functions of one number") {
  struct Case {
    Builtin code;
    std::vector<double> x;
    double (*f)(double);
  };
  const std::vector<double> any = {-2.5, -0.5, 0, 0.5, 1.5, 7}, positive = {0.25, 1, 3};
  const Case cases[] = {
      {Builtin::ABS, any, [](double x) { return std::fabs(x); }},
      {Builtin::CEIL, any, [](double x) { return std::ceil(x); }},
      {Builtin::COS, any, [](double x) { return std::cos(x); }},
      {Builtin::ELU, any, [](double x) { return x > 0 ? x : std::expm1(x); }},
      {Builtin::EXP, any, [](double x) { return std::exp(x); }},
      {Builtin::FLOOR, any, [](double x) { return std::floor(x); }},
      {Builtin::HARD_SWISH, any,
       [](double x) { return x * std::min(std::max(x + 3, 0.0), 6.0) / 6; }},
      {Builtin::LOG, positive, [](double x) { return std::log(x); }},
      {Builtin::LOGISTIC, any, [](double x) { return 1 / (1 + std::exp(-x)); }},
      {Builtin::NEG, any, [](double x) { return -x; }},
      {Builtin::RELU, any, [](double x) { return std::max(x, 0.0); }},
      {Builtin::RELU6, any, [](double x) { return std::min(std::max(x, 0.0), 6.0); }},
      {Builtin::RELU_0_TO_1, any, [](double x) { return std::min(std::max(x, 0.0), 1.0); }},
      {Builtin::RELU_N1_TO_1, any, [](double x) { return std::min(std::max(x, -1.0), 1.0); }},
      {Builtin::ROUND, any, [](double x) { return std::nearbyint(x); }},  // halves to even
      {Builtin::RSQRT, positive, [](double x) { return 1 / std::sqrt(x); }},
      {Builtin::SIGN, any, [](double x) { return x > 0   ? 1.0
                                                 : x < 0 ? -1.0
                                                         : 0.0; }},
      {Builtin::SIN, any, [](double x) { return std::sin(x); }},
      {Builtin::SQRT, positive, [](double x) { return std::sqrt(x); }},
      {Builtin::SQUARE, any, [](double x) { return x * x; }},
      {Builtin::TANH, any, [](double x) { return std::tanh(x); }},
      {Builtin::ZEROS_LIKE, any, [](double) { return 0.0; }},
  };
  for (const Case& c : cases) {
    INFO(lite::EnumNameBuiltin(c.code));
    const TensorType type{DType::f32, {static_cast<int64_t>(c.x.size())}};
    std::vector<double> want;
    for (const double x : c.x) want.push_back(c.f(x));
    CHECK(all_close(apply(c.code, {tensor_from(type, c.x)}, kNoOptions, tensor_from(type, want)),
                    tensor_from(type, want), 1e-5, 1e-6));
  }
}

TEST_CASE("TensorFlow Lite's functions of one number that have settings") {
  const TensorData x = floats({-2, 0, 3});
  lite::LeakyReluOptionsT leaky;
  leaky.alpha = 0.1f;
  CHECK(all_close(apply(Builtin::LEAKY_RELU, {x}, leaky, x), floats({-0.2, 0, 3}), 1e-6, 0));
  lite::GeluOptionsT gelu;
  CHECK(all_close(apply(Builtin::GELU, {x}, gelu, x), floats({-0.0455003, 0, 2.9959502}), 1e-5, 0));
  gelu.approximate = true;
  CHECK(all_close(apply(Builtin::GELU, {x}, gelu, x), floats({-0.0454023, 0, 2.9963627}), 1e-5, 0));
  CHECK(all_close(apply_fixed(Builtin::PRELU, x, {floats({0.5, 1, 2})}, kNoOptions, x),
                  floats({-1, 0, 3}), 0, 0));
  CHECK(same_bits(apply(Builtin::CAST, {floats({-1.5, 2.9})}, kNoOptions, ints({0, 0})),
                  ints({-1, 2})));
}

TEST_CASE("TensorFlow Lite's arithmetic") {
  const TensorData a = floats({-7, 7, 8}), b = floats({2, -2, 4});
  const auto both = [&](Builtin code, auto options) { return apply(code, {a, b}, options, a); };
  CHECK(same_bits(both(Builtin::ADD, lite::AddOptionsT()), floats({-5, 5, 12})));
  CHECK(same_bits(both(Builtin::SUB, lite::SubOptionsT()), floats({-9, 9, 4})));
  CHECK(same_bits(both(Builtin::MUL, lite::MulOptionsT()), floats({-14, -14, 32})));
  CHECK(same_bits(both(Builtin::DIV, lite::DivOptionsT()), floats({-3.5, -3.5, 2})));
  CHECK(same_bits(both(Builtin::FLOOR_DIV, kNoOptions), floats({-4, -4, 2})));
  CHECK(same_bits(both(Builtin::FLOOR_MOD, kNoOptions), floats({1, -1, 0})));
  CHECK(same_bits(both(Builtin::MAXIMUM, kNoOptions), floats({2, 7, 8})));
  CHECK(same_bits(both(Builtin::MINIMUM, kNoOptions), floats({-7, -2, 4})));
  CHECK(same_bits(both(Builtin::SQUARED_DIFFERENCE, kNoOptions), floats({81, 81, 16})));
  CHECK(all_close(both(Builtin::POW, kNoOptions), floats({49, 1.0 / 49, 4096}), 1e-5, 0));
  CHECK(same_bits(apply(Builtin::ADD_N, {a, b, a}, kNoOptions, a), floats({-12, 12, 20})));
  const TensorData i = ints({-7, 7, 8}), j = ints({2, -2, 4});
  CHECK(same_bits(apply(Builtin::FLOOR_DIV, {i, j}, kNoOptions, i), ints({-4, -4, 2})));
  CHECK(same_bits(apply(Builtin::FLOOR_MOD, {i, j}, kNoOptions, i), ints({1, -1, 0})));
  lite::AddOptionsT six;
  six.activation = lite::Activation::relu6;
  CHECK(same_bits(both(Builtin::ADD, six), floats({0, 5, 6})));
  lite::MulOptionsT tanh;
  tanh.activation = lite::Activation::tanh;
  CHECK(all_close(both(Builtin::MUL, tanh), floats({-1, -1, 1}), 1e-6, 0));
}

TEST_CASE("TensorFlow Lite's comparisons and choices") {
  const TensorData a = floats({1, 2, 3}), b = floats({3, 2, 1}), yes = bools({1, 0, 1});
  const auto both = [&](Builtin code) { return apply(code, {a, b}, kNoOptions, yes); };
  CHECK(same_bits(both(Builtin::EQUAL), bools({0, 1, 0})));
  CHECK(same_bits(both(Builtin::NOT_EQUAL), bools({1, 0, 1})));
  CHECK(same_bits(both(Builtin::LESS), bools({1, 0, 0})));
  CHECK(same_bits(both(Builtin::LESS_EQUAL), bools({1, 1, 0})));
  CHECK(same_bits(both(Builtin::GREATER), bools({0, 0, 1})));
  CHECK(same_bits(both(Builtin::GREATER_EQUAL), bools({0, 1, 1})));
  const TensorData no = bools({1, 1, 0});
  CHECK(same_bits(apply(Builtin::LOGICAL_AND, {yes, no}, kNoOptions, yes), bools({1, 0, 0})));
  CHECK(same_bits(apply(Builtin::LOGICAL_OR, {yes, no}, kNoOptions, yes), bools({1, 1, 1})));
  CHECK(same_bits(apply(Builtin::LOGICAL_NOT, {yes}, kNoOptions, yes), bools({0, 1, 0})));
  CHECK(same_bits(apply(Builtin::SELECT_V2, {yes, a, b}, kNoOptions, a), floats({1, 2, 3})));
  const TensorData x = tensor_of<float>({2, 2}, {1, 2, 3, 4}),
                   y = tensor_of<float>({2, 2}, {5, 6, 7, 8});
  CHECK(same_bits(apply(Builtin::SELECT, {bools({0, 1}), x, y}, kNoOptions, x),
                  tensor_of<float>({2, 2}, {5, 6, 3, 4})));
}

TEST_CASE("FULLY_CONNECTED joins the axes before the last, unless they are kept") {
  const TensorData w = tensor_of<float>({1, 2}, {1, 10}), b = floats({0.5});
  const TensorData x = tensor_of<float>({2, 1, 2}, {1, 2, 3, 4});
  lite::FullyConnectedOptionsT o;
  const TensorData flat = tensor_of<float>({2, 1}, {21.5, 43.5});
  CHECK(same_bits(apply_fixed(Builtin::FULLY_CONNECTED, x, {w, b}, o, flat), flat));
  o.keep_num_dims = true;
  const TensorData kept = tensor_of<float>({2, 1, 1}, {21.5, 43.5});
  CHECK(same_bits(apply_fixed(Builtin::FULLY_CONNECTED, x, {w, b}, o, kept), kept));
}

TEST_CASE("BATCH_MATMUL with and without its sides turned") {
  const TensorData a = tensor_of<float>({1, 2, 2}, {1, 2, 3, 4}),
                   b = tensor_of<float>({1, 2, 2}, {1, 0, 1, 1});
  lite::BatchMatMulOptionsT o;
  CHECK(same_bits(apply(Builtin::BATCH_MATMUL, {a, b}, o, a),
                  tensor_of<float>({1, 2, 2}, {3, 2, 7, 4})));
  o.adj_x = o.adj_y = true;
  CHECK(same_bits(apply(Builtin::BATCH_MATMUL, {a, b}, o, a),
                  tensor_of<float>({1, 2, 2}, {1, 4, 2, 6})));
}

TEST_CASE("TensorFlow Lite's reductions") {
  const TensorData x = tensor_of<float>({2, 3}, {1, 2, 3, 4, 5, -6});
  const auto reduced = [&](Builtin code, bool keep) {
    lite::ReducerOptionsT o;
    o.keep_dims = keep;
    const TensorData like = keep ? tensor_of<float>({2, 1}, {0, 0}) : floats({0, 0});
    return apply_fixed(code, x, {ints({-1})}, o, like);
  };
  CHECK(same_bits(reduced(Builtin::SUM, false), floats({6, 3})));
  CHECK(same_bits(reduced(Builtin::MEAN, true), tensor_of<float>({2, 1}, {2, 1})));
  CHECK(same_bits(reduced(Builtin::REDUCE_MAX, false), floats({3, 5})));
  CHECK(same_bits(reduced(Builtin::REDUCE_MIN, false), floats({1, -6})));
  CHECK(same_bits(reduced(Builtin::REDUCE_PROD, false), floats({6, -120})));
  const TensorData flags = tensor_of<bool>({2, 2}, {1, 0, 1, 1});
  lite::ReducerOptionsT o;
  CHECK(same_bits(apply_fixed(Builtin::REDUCE_ALL, flags, {ints({1})}, o, bools({0, 0})),
                  bools({0, 1})));
  CHECK(same_bits(apply_fixed(Builtin::REDUCE_ANY, flags, {ints({0})}, o, bools({0, 0})),
                  bools({1, 1})));
  const TensorData axis = tensor_of<int32_t>({}, {1});
  CHECK(
      same_bits(apply_fixed(Builtin::ARG_MAX, x, {axis}, kNoOptions, ints({0, 0})), ints({2, 1})));
  CHECK(
      same_bits(apply_fixed(Builtin::ARG_MIN, x, {axis}, kNoOptions, ints({0, 0})), ints({0, 2})));
  lite::CumsumOptionsT sums;
  CHECK(same_bits(apply_fixed(Builtin::CUMSUM, x, {axis}, sums, x),
                  tensor_of<float>({2, 3}, {1, 3, 6, 4, 9, 3})));
  sums.exclusive = sums.reverse = true;
  CHECK(same_bits(apply_fixed(Builtin::CUMSUM, x, {axis}, sums, x),
                  tensor_of<float>({2, 3}, {5, 3, 0, -1, -6, 0})));
}

TEST_CASE("what normalises along the last axis") {
  const TensorData x = tensor_of<float>({1, 2}, {0, std::log(3.0)});
  lite::SoftmaxOptionsT o;
  o.beta = 1;
  CHECK(all_close(apply(Builtin::SOFTMAX, {x}, o, x), tensor_of<float>({1, 2}, {0.25, 0.75}), 1e-6,
                  0));
  o.beta = 2;
  CHECK(
      all_close(apply(Builtin::SOFTMAX, {x}, o, x), tensor_of<float>({1, 2}, {0.1, 0.9}), 1e-6, 0));
  CHECK(all_close(apply(Builtin::LOG_SOFTMAX, {x}, kNoOptions, x),
                  tensor_of<float>({1, 2}, {std::log(0.25), std::log(0.75)}), 1e-6, 0));
  const TensorData v = tensor_of<float>({2, 2}, {3, 4, 0, 0});
  CHECK(all_close(apply(Builtin::L2_NORMALIZATION, {v}, lite::L2NormOptionsT(), v),
                  tensor_of<float>({2, 2}, {0.6, 0.8, 0, 0}), 1e-6, 0));
}

TEST_CASE("LOCAL_RESPONSE_NORMALIZATION sums squares over neighbouring channels") {
  const TensorData x = tensor_of<float>({1, 1, 1, 3}, {1, 2, 3});
  lite::LocalResponseNormalizationOptionsT o;
  o.radius = 1, o.bias = 1, o.alpha = 0.5f, o.beta = 1;
  CHECK(all_close(apply(Builtin::LOCAL_RESPONSE_NORMALIZATION, {x}, o, x),
                  tensor_of<float>({1, 1, 1, 3}, {1 / 3.5, 2 / 8.0, 3 / 7.5}), 1e-5, 0));
}

// ---- movement

TEST_CASE("TensorFlow Lite's joining and splitting") {
  const TensorData a = tensor_of<float>({1, 2}, {1, 2}), b = tensor_of<float>({1, 2}, {3, 4});
  lite::ConcatenationOptionsT join;
  join.axis = -1;
  const TensorData row = tensor_of<float>({1, 4}, {1, 2, 3, 4});
  CHECK(same_bits(apply(Builtin::CONCATENATION, {a, b}, join, row), row));
  lite::PackOptionsT pack;
  pack.axis = 1, pack.values_count = 2;
  const TensorData packed = tensor_of<float>({1, 2, 2}, {1, 2, 3, 4});
  CHECK(same_bits(apply(Builtin::PACK, {a, b}, pack, packed), packed));

  LiteFile f;
  const int x = f.input("x", {1, 4});
  const auto parts = [&](Builtin code, std::vector<int32_t> in,
                         std::vector<std::vector<int32_t>> to) {
    std::vector<int32_t> outs;
    for (auto& extents : to)
      outs.push_back(f.tensor(format("part{}", f.graph().tensors.size()), extents));
    for (const int32_t t : outs) f.output(t);
    return &f.node(code, std::move(in), outs);
  };
  lite::SplitOptionsT two;
  two.num_splits = 2;
  parts(Builtin::SPLIT, {f.ints({1}), x}, {{1, 2}, {1, 2}})->options.Set(two);
  parts(Builtin::SPLIT_V, {x, f.ints({1, -1}), f.ints({-1})}, {{1, 1}, {1, 3}});
  lite::UnpackOptionsT unpack;
  unpack.num = 4, unpack.axis = 1;
  parts(Builtin::UNPACK, {x}, {{1}, {1}, {1}, {1}})->options.Set(unpack);
  const std::vector<TensorData> outs = run_all(must(f.import()), {row});
  REQUIRE_EQ(outs.size(), 8);
  CHECK(same_bits(outs[0], a));
  CHECK(same_bits(outs[1], b));
  CHECK(same_bits(outs[2], tensor_of<float>({1, 1}, {1})));
  CHECK(same_bits(outs[3], tensor_of<float>({1, 3}, {2, 3, 4})));
  for (int64_t i = 0; i < 4; ++i)
    CHECK(same_bits(outs[static_cast<size_t>(4 + i)], floats({row.at(i)})));
}

TEST_CASE("SLICE, with bounds that are fixed and bounds that are computed") {
  const TensorData x = tensor_of<float>({2, 3}, {1, 2, 3, 4, 5, 6});
  const TensorData want = tensor_of<float>({1, 2}, {5, 6}), sizes = ints({1, -1});
  CHECK(same_bits(apply_fixed(Builtin::SLICE, x, {ints({1, 1}), sizes}, kNoOptions, want), want));
  // From (rank of y - 1, rank of y - 1), which is known when y's extents are.
  LiteFile f;
  const int in = f.input("x", {-1, 3});
  const int rank = f.op(Builtin::SHAPE, {f.op(Builtin::SHAPE, {in}, {2}, kInt)}, {1}, kInt);
  const int one = f.op(Builtin::SUB, {rank, f.ints({1})}, {1}, lite::SubOptionsT(), kInt);
  lite::ConcatenationOptionsT join;
  const int begin = f.op(Builtin::CONCATENATION, {one, one}, {2}, join, kInt);
  f.output(f.op(Builtin::SLICE, {in, begin, f.constant("sizes", sizes)}, {-1, 2}));
  CHECK(same_bits(run(f, {x}), want));
}

TEST_CASE("STRIDED_SLICE with its masks") {
  std::vector<double> count(24);
  for (size_t i = 0; i < 24; ++i) count[i] = static_cast<double>(i);
  const TensorData x = tensor_from({DType::f32, {2, 3, 4}}, count);
  const auto sliced = [&](TensorData begin, TensorData end, TensorData step, int masks[5],
                          const TensorData& like) {
    lite::StridedSliceOptionsT o;
    o.begin_mask = masks[0], o.end_mask = masks[1], o.ellipsis_mask = masks[2];
    o.new_axis_mask = masks[3], o.shrink_axis_mask = masks[4];
    return apply_fixed(Builtin::STRIDED_SLICE, x, {begin, end, step}, o, like);
  };
  {  // x[1, ..., 3:0:-2]
    int masks[] = {0, 0, 2, 0, 1};
    const TensorData want = tensor_of<float>({3, 2}, {15, 13, 19, 17, 23, 21});
    CHECK(same_bits(sliced(ints({1, 0, 3}), ints({2, 0, 0}), ints({1, 1, -2}), masks, want), want));
  }
  {  // x[:, newaxis, -1, ::-1]
    int masks[] = {1 | 8, 1 | 8, 0, 2, 4};
    const TensorData want = tensor_of<float>({2, 1, 4}, {11, 10, 9, 8, 23, 22, 21, 20});
    CHECK(same_bits(
        sliced(ints({0, 0, -1, 0}), ints({0, 0, 0, 0}), ints({1, 1, 1, -1}), masks, want), want));
  }
  {  // x[1:, 0:-1:2]
    int masks[] = {0, 1, 0, 0, 0};
    const TensorData want = tensor_of<float>({1, 1, 4}, {12, 13, 14, 15});
    CHECK(same_bits(sliced(ints({1, 0}), ints({0, -1}), ints({1, 2}), masks, want), want));
  }
}

TEST_CASE("STRIDED_SLICE refuses bounds beyond what an extent can be") {
  const auto wide = [](double v) { return tensor_of<int64_t>({1}, {v}); };
  LiteFile f;
  const int x = f.input("x", {4});
  f.output(f.op(Builtin::STRIDED_SLICE,
                {x, f.constant("begin", wide(0x1p62)), f.constant("end", wide(0x1p62)),
                 f.constant("stride", wide(1))},
                {4}, lite::StridedSliceOptionsT()));
  CHECK_ERROR(f.import(), Code::invalid_model, "entry 0 is from 4611686018427387904");
}

TEST_CASE("TensorFlow Lite's padding") {
  const TensorData x = floats({1, 2, 3}), pairs = tensor_of<int32_t>({1, 2}, {2, 1});
  const TensorData like = floats({0, 0, 0, 0, 0, 0});
  CHECK(same_bits(apply_fixed(Builtin::PAD, x, {pairs}, kNoOptions, like),
                  floats({0, 0, 1, 2, 3, 0})));
  CHECK(same_bits(
      apply_fixed(Builtin::PADV2, x, {pairs, tensor_of<float>({}, {9})}, kNoOptions, like),
      floats({9, 9, 1, 2, 3, 9})));
  lite::MirrorPadOptionsT o;
  CHECK(
      same_bits(apply_fixed(Builtin::MIRROR_PAD, x, {pairs}, o, like), floats({3, 2, 1, 2, 3, 2})));
  o.mode = lite::MirrorMode::symmetric;
  CHECK(
      same_bits(apply_fixed(Builtin::MIRROR_PAD, x, {pairs}, o, like), floats({2, 1, 1, 2, 3, 3})));
}

TEST_CASE("TensorFlow Lite's picking of elements") {
  const TensorData x = tensor_of<float>({2, 3}, {1, 2, 3, 4, 5, 6});
  lite::GatherOptionsT o;
  o.axis = 1;
  const TensorData two = tensor_of<float>({2, 2}, {3, 1, 6, 4});
  CHECK(same_bits(apply_fixed(Builtin::GATHER, x, {ints({2, 0})}, o, two), two));
  CHECK(same_bits(apply_fixed(Builtin::GATHER_ND, x, {tensor_of<int32_t>({2, 2}, {1, 2, 0, 1})},
                              kNoOptions, floats({0, 0})),
                  floats({6, 2})));
  CHECK(same_bits(apply_fixed(Builtin::EMBEDDING_LOOKUP, ints({1, 1, 0}), {x}, kNoOptions,
                              tensor_of<float>({3, 3}, {4, 5, 6, 4, 5, 6, 1, 2, 3})),
                  tensor_of<float>({3, 3}, {4, 5, 6, 4, 5, 6, 1, 2, 3})));
  lite::OneHotOptionsT axis;
  axis.axis = -1;
  const TensorData hot = tensor_of<float>({2, 3}, {-1, 5, -1, -1, -1, 5});
  CHECK(same_bits(apply_fixed(Builtin::ONE_HOT, ints({1, 2}),
                              {tensor_of<int32_t>({}, {3}), tensor_of<float>({}, {5}),
                               tensor_of<float>({}, {-1})},
                              axis, hot),
                  hot));
  CHECK(same_bits(apply_fixed(Builtin::REVERSE_V2, x, {ints({1})}, kNoOptions, x),
                  tensor_of<float>({2, 3}, {3, 2, 1, 6, 5, 4})));
  lite::ReverseSequenceOptionsT turn;
  turn.seq_dim = 1, turn.batch_dim = 0;
  CHECK(same_bits(apply(Builtin::REVERSE_SEQUENCE, {x, ints({2, 3})}, turn, x),
                  tensor_of<float>({2, 3}, {2, 1, 3, 6, 5, 4})));
  LiteFile f;
  const int in = f.input("x", {4});
  const int values = f.tensor("values", {2}), places = f.tensor("places", {2}, kInt);
  f.node(Builtin::TOPK_V2, {in, f.constant("k", tensor_of<int32_t>({}, {2}))}, {values, places});
  f.output(values).output(places);
  const auto top = run_all(must(f.import()), {floats({1, 7, 3, 5})});
  CHECK(same_bits(top[0], floats({7, 5})));
  CHECK(same_bits(top[1], ints({1, 3})));
}

// ---- shapes

TEST_CASE("TensorFlow Lite's operators on shapes") {
  const TensorData x = tensor_of<float>({1, 2, 2}, {1, 2, 3, 4}), flat = floats({1, 2, 3, 4});
  CHECK(same_bits(apply_fixed(Builtin::RESHAPE, x, {ints({-1})}, kNoOptions, flat), flat));
  lite::ReshapeOptionsT old;
  old.new_shape = {4};
  CHECK(same_bits(apply(Builtin::RESHAPE, {x}, old, flat), flat));
  lite::SqueezeOptionsT first;
  first.squeeze_dims = {0};
  const TensorData square = tensor_of<float>({2, 2}, {1, 2, 3, 4});
  CHECK(same_bits(apply(Builtin::SQUEEZE, {x}, first, square), square));
  CHECK(same_bits(apply_fixed(Builtin::EXPAND_DIMS, square, {ints({0})}, kNoOptions, x), x));
  CHECK(same_bits(apply_fixed(Builtin::TRANSPOSE, square, {ints({1, 0})}, kNoOptions, square),
                  tensor_of<float>({2, 2}, {1, 3, 2, 4})));
  CHECK(same_bits(apply(Builtin::SHAPE, {x}, kNoOptions, ints({0, 0, 0})), ints({1, 2, 2})));
  CHECK(same_bits(apply(Builtin::RANK, {x}, kNoOptions, tensor_of<int32_t>({}, {0})),
                  tensor_of<int32_t>({}, {3})));
  const TensorData rows = tensor_of<float>({2, 2}, {1, 2, 1, 2});
  CHECK(same_bits(
      apply_fixed(Builtin::BROADCAST_TO, floats({1, 2}), {ints({2, 2})}, kNoOptions, rows), rows));
  CHECK(same_bits(apply_fixed(Builtin::TILE, floats({1, 2}), {ints({2})}, kNoOptions, flat),
                  floats({1, 2, 1, 2})));
  LiteFile f;
  const auto number = [&](double v) { return f.constant("n", tensor_of<int32_t>({}, {v})); };
  f.output(f.op(Builtin::RANGE, {number(1), number(7), number(2)}, {3}, kInt));
  f.output(f.op(Builtin::FILL, {f.ints({2}), number(8)}, {2}, kInt));
  const auto outs = run_all(must(f.import()), {});
  CHECK(same_bits(outs[0], ints({1, 3, 5})));
  CHECK(same_bits(outs[1], ints({8, 8})));
}

// What converters write for a flatten with a free batch: the batch is cut from the shape.
TEST_CASE("a shape that is computed from a free batch") {
  LiteFile f;
  const int x = f.input("x", {-1, 2, 2});
  const int shape = f.op(Builtin::SHAPE, {x}, {3}, kInt);
  lite::StridedSliceOptionsT o;
  o.shrink_axis_mask = 1;
  const int batch =
      f.op(Builtin::STRIDED_SLICE, {shape, f.ints({0}), f.ints({1}), f.ints({1})}, {}, o, kInt);
  lite::PackOptionsT pack;
  pack.values_count = 2;
  const int to = f.op(Builtin::PACK, {batch, f.constant("four", tensor_of<int32_t>({}, {4}))}, {2},
                      pack, kInt);
  f.output(f.op(Builtin::RESHAPE, {x, to}, {-1, 4}));
  const TensorData in = random_tensor({DType::f32, {3, 2, 2}}, 1);
  CHECK(same_bits(run(f, {in}), must(in.reshaped({3, 4}))));
}

}  // namespace
}  // namespace hone
