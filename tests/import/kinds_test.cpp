// SPDX-License-Identifier: Apache-2.0
// Kinds of faults that importers are known for, over all operators that could have them. The ids
// are those of CASES.md.
#include <cmath>

#include "hone/session.hpp"
#include "tests/import/onnx_file.hpp"
#include "tests/support/check.hpp"
#include "tests/support/tensors.hpp"

namespace hone {
namespace {

using namespace test;

std::vector<TensorData> outputs_of(const OnnxFile& f, std::vector<TensorData> inputs) {
  SessionOptions options;
  options.kernels = Kernels::reference;
  Session session = must(Session::create(must(f.import()), options));
  return must(session.run(inputs));
}
TensorData run(const OnnxFile& f, std::vector<TensorData> inputs = {}) {
  return outputs_of(f, std::move(inputs))[0];
}

// ---- C06

// Two models of the input x, one whose node leaves an input out and one that spells its default.
template <class Write>
void check_left_out(int64_t opset, const TensorData& x, Write write) {
  const auto result = [&](bool spelled) {
    OnnxFile f(opset);
    switch (x.shape().rank()) {
      case 2:
        f.input("x", {"A", "B"}, x.dtype());
        break;
      case 3:
        f.input("x", {"A", "B", "C"}, x.dtype());
        break;
      default:
        f.input("x", {"A", "B", "C", "D"}, x.dtype());
        break;
    }
    f.output("y");
    write(f, spelled);
    return run(f, {x});
  };
  CHECK(same_bits(result(false), result(true)));
}

TensorData some(const Shape& shape, uint64_t seed = 1) {
  return random_tensor({DType::f32, shape}, seed, -2, 2);
}
TensorData whole(std::initializer_list<double> v) {
  return tensor_of<int64_t>({static_cast<int64_t>(v.size())}, v);
}
TensorData number(double v) { return tensor_of<float>({}, {v}); }

TEST_CASE("C06: a bound of Clip that is left out bounds nothing, constant or computed") {
  for (const bool computed : {false, true}) {
    const auto bounds = [&](OnnxFile& f) {
      f.initializer("a", number(-0.5)).initializer("b", number(0.5));
      f.initializer("-inf", number(-INFINITY)).initializer("inf", number(INFINITY));
      const char* op = computed ? "ReduceMax" : "Identity";  // of x, or what it is
      f.node(op, {computed ? "x" : "a"}, {"low"}).node(op, {computed ? "x" : "b"}, {"high"});
    };
    check_left_out(18, some({3, 4}), [&](OnnxFile& f, bool spelled) {
      bounds(f);
      f.node("Clip", {"x", "low", spelled ? "inf" : ""}, {"y"});
    });
    check_left_out(18, some({3, 4}), [&](OnnxFile& f, bool spelled) {
      bounds(f);
      f.node("Clip", {"x", spelled ? "-inf" : "", "high"}, {"y"});
    });
  }
  check_left_out(18, some({3, 4}), [](OnnxFile& f, bool spelled) {
    spelled ? f.node("Identity", {"x"}, {"y"}) : f.node("Clip", {"x", "", ""}, {"y"});
  });
  check_left_out(18, random_tensor({DType::i32, {3, 4}}, 1, -9, 9), [](OnnxFile& f, bool spelled) {
    f.initializer("low", tensor_of<int32_t>({}, {-2147483648.0}));
    f.initializer("high", tensor_of<int32_t>({}, {3}));
    f.node("Clip", {"x", spelled ? "low" : "", "high"}, {"y"});
  });
}

TEST_CASE("C06: inputs left out of operators that move elements") {
  check_left_out(18, some({3, 4}), [](OnnxFile& f, bool spelled) {
    f.initializer("pads", whole({1, 2})).initializer("zero", number(0));
    f.initializer("axes", whole({1}));
    f.node("Pad", {"x", "pads", spelled ? "zero" : "", "axes"}, {"y"});
  });
  check_left_out(18, some({3, 4}), [](OnnxFile& f, bool spelled) {
    f.initializer("pads", whole({0, 1, 2, 0})).initializer("zero", number(0));
    f.initializer("axes", whole({0, 1}));
    f.node("Pad", {"x", "pads", "zero", spelled ? "axes" : ""}, {"y"});
  });
  check_left_out(13, some({3, 4}), [](OnnxFile& f, bool spelled) {
    f.initializer("from", whole({2, 0})).initializer("to", whole({-4, 4}));
    f.initializer("axes", whole({0, 1})).initializer("steps", whole({-1, 2}));
    f.node("Slice", {"x", "from", "to", spelled ? "axes" : "", "steps"}, {"y"});
  });
  check_left_out(13, some({3, 4}), [](OnnxFile& f, bool spelled) {
    f.initializer("from", whole({1})).initializer("to", whole({3}));
    f.initializer("axes", whole({1})).initializer("steps", whole({1}));
    f.node("Slice", {"x", "from", "to", "axes", spelled ? "steps" : ""}, {"y"});
  });
  check_left_out(18, some({1, 1, 2, 3}), [](OnnxFile& f, bool sizes) {
    f.initializer("scales", tensor_of<float>({4}, {1, 1, 2, 2}));
    f.initializer("sizes", whole({1, 1, 4, 6}));
    if (sizes)
      f.node("Resize", {"x", "", "", "sizes"}, {"y"});
    else
      f.node("Resize", {"x", "", "scales", ""}, {"y"});
  });
  check_left_out(13, some({1, 4}), [](OnnxFile& f, bool spelled) {
    f.initializer("axes", whole({0}));
    f.node("Squeeze", {"x", spelled ? "axes" : ""}, {"y"});
  });
  check_left_out(14, some({3, 4}), [](OnnxFile& f, bool spelled) {
    f.initializer("k", tensor_of<int64_t>({}, {0}));
    f.node("Trilu", {"x", spelled ? "k" : ""}, {"y"});
  });
  check_left_out(18, some({4, 3}), [](OnnxFile& f, bool spelled) {
    f.initializer("parts", whole({2, 2}));
    if (spelled)
      f.node("Split", {"x", "parts"}, {"y", "z"});
    else
      f.node("Split", {"x", ""}, {"y", "z"}, {{"num_outputs", int64_t{2}}});
  });
  check_left_out(13, some({3, 4}), [](OnnxFile& f, bool spelled) {
    f.initializer("ratio", number(0.5)).initializer("no", tensor_of<bool>({}, {0}));
    f.node("Dropout", {"x", spelled ? "ratio" : "", spelled ? "no" : ""}, {"y"});
  });
}

TEST_CASE("C06: biases, zero points and states left out are zero") {
  check_left_out(17, some({1, 2, 4, 4}), [](OnnxFile& f, bool spelled) {
    f.initializer("w", some({3, 2, 2, 2}, 2)).initializer("b", tensor_of<float>({3}, {0, 0, 0}));
    f.node("Conv", {"x", "w", spelled ? "b" : ""}, {"y"});
  });
  check_left_out(17, some({1, 2, 3, 3}), [](OnnxFile& f, bool spelled) {
    f.initializer("w", some({2, 3, 2, 2}, 2)).initializer("b", tensor_of<float>({3}, {0, 0, 0}));
    f.node("ConvTranspose", {"x", "w", spelled ? "b" : ""}, {"y"});
  });
  check_left_out(19, some({1, 1, 3, 3}), [](OnnxFile& f, bool spelled) {
    f.initializer("w", some({1, 1, 2, 2}, 2)).initializer("shift", some({1, 8, 2, 2}, 3));
    f.initializer("b", tensor_of<float>({1}, {0})).initializer("mask", some({1, 4, 2, 2}, 4));
    f.node("DeformConv", {"x", "w", "shift", spelled ? "b" : "", "mask"}, {"y"},
           {{"kernel_shape", std::vector<int64_t>{2, 2}}});
  });
  check_left_out(13, some({3, 4}), [](OnnxFile& f, bool spelled) {
    f.initializer("b", some({4, 2}, 2)).initializer("c", number(0));
    f.node("Gemm", {"x", "b", spelled ? "c" : ""}, {"y"});
  });
  check_left_out(17, some({3, 4}), [](OnnxFile& f, bool spelled) {
    f.initializer("s", some({4}, 2)).initializer("b", tensor_of<float>({4}, {0, 0, 0, 0}));
    f.node("LayerNormalization", {"x", "s", spelled ? "b" : ""}, {"y"});
  });
  check_left_out(19, some({3, 4}), [](OnnxFile& f, bool spelled) {
    f.initializer("s", number(0.1)).initializer("zero", tensor_of<uint8_t>({}, {0}));
    f.node("QuantizeLinear", {"x", "s", spelled ? "zero" : ""}, {"q"});
    f.node("DequantizeLinear", {"q", "s", spelled ? "zero" : ""}, {"y"});
  });
  check_left_out(13, random_tensor({DType::u8, {2, 3}}, 1, 0, 255), [](OnnxFile& f, bool spelled) {
    f.initializer("b", random_tensor({DType::u8, {3, 2}}, 2, 0, 255));
    f.initializer("zero", tensor_of<uint8_t>({}, {0}));
    f.initializer("five", tensor_of<uint8_t>({}, {5}));
    f.node("MatMulInteger", {"x", "b", spelled ? "zero" : "", "five"}, {"y"});
  });
  check_left_out(13, random_tensor({DType::u8, {1, 1, 3, 3}}, 1, 0, 255),
                 [](OnnxFile& f, bool spelled) {
                   f.initializer("w", random_tensor({DType::u8, {1, 1, 2, 2}}, 2, 0, 255));
                   f.initializer("zero", tensor_of<uint8_t>({}, {0}));
                   f.initializer("five", tensor_of<uint8_t>({}, {5}));
                   f.node("ConvInteger", {"x", "w", spelled ? "zero" : "", "five"}, {"y"});
                 });
  struct Cell {
    const char* op;
    int64_t gates;
  };
  for (const auto& [op, gates] : {Cell{"RNN", 1}, Cell{"GRU", 3}, Cell{"LSTM", 4}})
    for (const bool has_bias : {true, false}) {
      INFO(op, " bias=", has_bias);
      check_left_out(14, some({3, 2, 2}), [&](OnnxFile& f, bool spelled) {
        f.initializer("w", some({1, gates * 2, 2}, 2)).initializer("r", some({1, gates * 2, 2}, 3));
        f.initializer("b", has_bias ? some({1, gates * 4}, 4)
                                    : must(TensorData::zeros({DType::f32, {1, gates * 4}})));
        f.initializer(
            "h", has_bias ? must(TensorData::zeros({DType::f32, {1, 2, 2}})) : some({1, 2, 2}, 5));
        const char *bias = has_bias || spelled ? "b" : "", *h = !has_bias || spelled ? "h" : "";
        f.node(op, {"x", "w", "r", bias, "", h}, {"y"}, {{"hidden_size", int64_t{2}}});
      });
    }
}

TEST_CASE("C06: inputs left out of signals, attention and boxes") {
  check_left_out(20, some({1, 8, 1}), [](OnnxFile& f, bool spelled) {
    f.initializer("n", tensor_of<int64_t>({}, {8}))
        .initializer("axis", tensor_of<int64_t>({}, {1}));
    f.node("DFT", {"x", spelled ? "n" : "", "axis"}, {"y"});
  });
  check_left_out(20, some({1, 8, 1}), [](OnnxFile& f, bool spelled) {
    f.initializer("n", tensor_of<int64_t>({}, {8}));
    f.initializer("axis", tensor_of<int64_t>({}, {-2}));
    f.node("DFT", {"x", "n", spelled ? "axis" : ""}, {"y"});
  });
  check_left_out(17, some({1, 8, 1}), [](OnnxFile& f, bool spelled) {
    f.initializer("step", tensor_of<int64_t>({}, {2}))
        .initializer("n", tensor_of<int64_t>({}, {4}));
    f.initializer("ones", tensor_of<float>({4}, {1, 1, 1, 1}));
    f.node("STFT", {"x", "step", spelled ? "ones" : "", "n"}, {"y"});
  });
  check_left_out(17, some({1, 8, 1}), [](OnnxFile& f, bool spelled) {
    f.initializer("step", tensor_of<int64_t>({}, {2}))
        .initializer("n", tensor_of<int64_t>({}, {4}));
    f.initializer("window", tensor_of<float>({4}, {1, 2, 2, 1}));
    f.node("STFT", {"x", "step", "window", spelled ? "n" : ""}, {"y"});
  });
  check_left_out(23, some({1, 2, 3, 4}), [](OnnxFile& f, bool spelled) {
    f.initializer("past", some({1, 2, 2, 4}, 2));
    f.initializer("mask", must(TensorData::zeros({DType::f32, {3, 5}})));
    f.node("Attention", {"x", "x", "x", spelled ? "mask" : "", "past", "past"}, {"y", "k", "v"});
  });
  check_left_out(11, some({1, 3, 4}), [](OnnxFile& f, bool spelled) {
    f.node("Constant", {}, {"scores"}, {{"value", tensor_of<float>({1, 1, 3}, {0.9, 0.8, 0.7})}});
    f.initializer("most", whole({3})).initializer("low", tensor_of<float>({1}, {-INFINITY}));
    f.initializer("overlap", tensor_of<float>({1}, {0}));
    f.node("NonMaxSuppression",
           {"x", "scores", "most", spelled ? "overlap" : "", spelled ? "low" : ""}, {"y"});
  });
}

TEST_CASE("a shape that depends on a weight is refused, by the weight's name") {
  OnnxFile f(11);
  f.input("x", {"N", 3, 4}).output("y").initializer("most", whole({3}));
  f.initializer("scores", tensor_of<float>({1, 1, 3}, {0.9, 0.8, 0.7}));  // floats are learned
  f.node("NonMaxSuppression", {"x", "scores", "most"}, {"y"});
  Session session = must(Session::create(must(f.import())));
  const std::vector<TensorData> in = {some({1, 3, 4})};
  CHECK_ERROR(session.run(in), Code::unsupported, "the elements of the weight 'scores'");
}

// ---- C07

struct Reduction {
  const char* op;
  std::vector<double> kept, rows, all;  // of [[1, -2], [3, -4]]: no axis, axis 1, both
};
const double kL2 = std::sqrt(5.0), kE = std::log(std::exp(1.0) + std::exp(-2.0)),
             kF = std::log(std::exp(3.0) + std::exp(-4.0));
const Reduction kReductions[] = {
    {"ReduceSum", {1, -2, 3, -4}, {-1, -1}, {-2}},
    {"ReduceMean", {1, -2, 3, -4}, {-0.5, -0.5}, {-0.5}},
    {"ReduceMax", {1, -2, 3, -4}, {1, 3}, {3}},
    {"ReduceMin", {1, -2, 3, -4}, {-2, -4}, {-4}},
    {"ReduceProd", {1, -2, 3, -4}, {-2, -12}, {24}},
    {"ReduceL1", {1, 2, 3, 4}, {3, 7}, {10}},
    {"ReduceL2", {1, 2, 3, 4}, {kL2, 5}, {std::sqrt(30.0)}},
    {"ReduceSumSquare", {1, 4, 9, 16}, {5, 25}, {30}},
    {"ReduceLogSum", {0, NAN, std::log(3.0), NAN}, {NAN, NAN}, {NAN}},
    {"ReduceLogSumExp", {1, -2, 3, -4}, {kE, kF}, {std::log(std::exp(kE) + std::exp(kF))}},
};

enum class Given : uint8_t { nowhere, empty_name, constant, computed };

// Computed axes come of the shape, which is not known while importing: [2, 2] - 1, and the first or
// none of it.
TensorData reduced(const Reduction& r, Given how, std::vector<double> axes, bool noop, bool keep) {
  OnnxFile f(18);
  f.input("x", {"M", "N"}).output("y");
  if (how == Given::computed) {
    f.initializer("one", tensor_of<int64_t>({1}, {1}))
        .initializer("first", tensor_of<int64_t>({1}, {0}))
        .initializer("count", tensor_of<int64_t>({1}, {static_cast<double>(axes.size())}));
    f.node("Shape", {"x"}, {"s"}).node("Sub", {"s", "one"}, {"t"});
    f.node("Slice", {"t", "first", "count"}, {"axes"});
  }
  if (how == Given::constant)
    f.initializer("axes", tensor_from({DType::i64, {static_cast<int64_t>(axes.size())}}, axes));
  const std::initializer_list<OnnxAttr> attrs = {{"noop_with_empty_axes", int64_t{noop}},
                                                 {"keepdims", int64_t{keep}}};
  if (how == Given::nowhere)
    f.node(r.op, {"x"}, {"y"}, attrs);
  else
    f.node(r.op, {"x", how == Given::empty_name ? "" : "axes"}, {"y"}, attrs);
  return run(f, {tensor_of<float>({2, 2}, {1, -2, 3, -4})});
}

TEST_CASE("C07: every reduction, with axes left out, empty, named and computed") {
  for (const Reduction& r : kReductions)
    for (const bool keep : {true, false}) {
      INFO(r.op, " keepdims=", keep);
      const TensorData kept = tensor_from({DType::f32, {2, 2}}, r.kept);
      const TensorData rows = tensor_from({DType::f32, keep ? Shape{2, 1} : Shape{2}}, r.rows);
      const TensorData all = tensor_from({DType::f32, keep ? Shape{1, 1} : Shape{}}, r.all);
      for (const Given how :
           {Given::nowhere, Given::empty_name, Given::constant, Given::computed}) {
        CAPTURE(static_cast<int>(how));
        CHECK(all_close(reduced(r, how, {}, true, keep), kept, 1e-6, 0));
        CHECK(all_close(reduced(r, how, {}, false, keep), all, 1e-6, 0));
      }
      for (const bool noop : {true, false}) {
        CHECK(all_close(reduced(r, Given::constant, {1}, noop, keep), rows, 1e-6, 0));
        CHECK(all_close(reduced(r, Given::constant, {-1}, noop, keep), rows, 1e-6, 0));
        CHECK(all_close(reduced(r, Given::computed, {1}, noop, keep), rows, 1e-6, 0));
      }
    }
}

TEST_CASE("C07: every reduction of every opset with axes as an attribute, and without any") {
  for (const Reduction& r : kReductions)
    for (const int64_t opset : {1, 11, 13, 17}) {
      if (opset >= 13 && r.op == std::string_view("ReduceSum")) continue;  // an input since then
      INFO(r.op, "-", opset);
      for (const bool axis : {true, false}) {
        OnnxFile f(opset);
        f.input("x", {2, 2}).output("y");
        if (axis)
          f.node(r.op, {"x"}, {"y"}, {{"axes", std::vector<int64_t>{1}}, {"keepdims", int64_t{0}}});
        else
          f.node(r.op, {"x"}, {"y"}, {{"keepdims", int64_t{0}}});
        CHECK(all_close(
            run(f, {tensor_of<float>({2, 2}, {1, -2, 3, -4})}),
            axis ? tensor_from({DType::f32, {2}}, r.rows) : tensor_from({DType::f32, {}}, r.all),
            1e-6, 0));
      }
    }
}

// ---- C17

TEST_CASE("C17: reductions whose squares, exponentials and sums do not fit a half float") {
  const auto reduce = [](const char* op, const TensorData& x) {
    OnnxFile f(18);
    f.input("x", {"N"}, x.dtype()).output("y", {}, x.dtype());
    f.node(op, {"x"}, {"y"}, {{"keepdims", int64_t{0}}});
    return run(f, {x});
  };
  const auto equal = [](int64_t n, double v) {
    return tensor_from({DType::f16, {n}}, std::vector<double>(static_cast<size_t>(n), v));
  };
  CHECK_EQ(reduce("ReduceL2", equal(4, 300)).at(0), 600);
  CHECK_EQ(reduce("ReduceMean", equal(70000, 3)).at(0), 3);
  CHECK_EQ(reduce("ReduceLogSumExp", equal(70000, 0)).at(0), doctest::Approx(11.156).epsilon(1e-3));
  CHECK_EQ(reduce("ReduceLogSum", equal(70000, 2)).at(0), doctest::Approx(11.849).epsilon(1e-3));
  // 1e-4 squared is less than half of the smallest number that f16 has.
  CHECK_EQ(reduce("ReduceSumSquare", equal(70000, 1e-4)).at(0),
           doctest::Approx(7e-4).epsilon(4e-3));
}

// ---- C28

struct Nll {
  std::vector<double> x, labels, weights;
  const char* reduction;
  DType dtype = DType::f32;
};

OnnxFile nll_file(const char* op, const Nll& c) {
  OnnxFile f(17);
  const int64_t n = static_cast<int64_t>(c.labels.size());
  f.input("x", {n, 2}, c.dtype).output("loss").output("dx");
  f.initializer("t", tensor_from({DType::i64, {n}}, c.labels));
  if (!c.weights.empty()) f.initializer("w", tensor_from({c.dtype, {2}}, c.weights));
  f.node(op, {"x", "t", c.weights.empty() ? "" : "w"}, {"loss"},
         {{"ignore_index", int64_t{-100}}, {"reduction", std::string(c.reduction)}});
  f.node("Gradient", {"x"}, {"dx"},
         {{"xs", std::vector<std::string>{"x"}}, {"y", std::string("loss")}}, "",
         "ai.onnx.preview.training");
  return f;
}

void check_loss(const char* op, const Nll& c, std::vector<double> loss, std::vector<double> slope) {
  INFO(op, " ", c.reduction);
  const int64_t n = static_cast<int64_t>(c.labels.size());
  const bool each = c.reduction == std::string_view("none");
  const auto got = outputs_of(nll_file(op, c), {tensor_from({c.dtype, {n, 2}}, c.x)});
  const double tolerance = c.dtype == DType::f16 ? 2e-3 : 1e-5;
  CHECK(all_close(got[0], tensor_from({c.dtype, each ? Shape{n} : Shape{}}, loss), tolerance, 0));
  CHECK(all_close(got[1], tensor_from({c.dtype, {n, 2}}, slope), tolerance, 1e-7));
}

TEST_CASE("C28: rows that are ignored count nothing in ONNX's losses, whatever stands there") {
  constexpr double kLow = -INFINITY, kIgnored = -100;
  const char *nll = "NegativeLogLikelihoodLoss", *softmax = "SoftmaxCrossEntropyLoss";
  const double p = 1 / (1 + std::exp(-2.0));  // softmax([2, 0])[0]
  for (const DType t : {DType::f32, DType::f16}) {
    const std::vector<double> some = {0, kIgnored}, none = {kIgnored, kIgnored},
                              row2 = {kLow, kLow};
    const std::vector<double> x = {-1, -2, kLow, kLow}, z = {2, 0, kLow, kLow};
    check_loss(nll, {x, some, {}, "mean", t}, {1}, {-1, 0, 0, 0});
    check_loss(nll, {x, some, {3, 5}, "mean", t}, {1}, {-1, 0, 0, 0});
    check_loss(nll, {x, some, {3, 5}, "sum", t}, {3}, {-3, 0, 0, 0});
    check_loss(nll, {x, some, {}, "none", t}, {1, 0}, {-1, 0, 0, 0});
    for (const char* reduction : {"mean", "sum"}) {
      check_loss(nll, {x, none, {}, reduction, t}, {0}, {0, 0, 0, 0});
      check_loss(nll, {x, none, {3, 5}, reduction, t}, {0}, {0, 0, 0, 0});
      check_loss(softmax, {z, none, {}, reduction, t}, {0}, {0, 0, 0, 0});
      check_loss(softmax, {z, none, {3, 5}, reduction, t}, {0}, {0, 0, 0, 0});
    }
    check_loss(softmax, {z, some, {}, "mean", t}, {-std::log(p)}, {p - 1, 1 - p, 0, 0});
    check_loss(softmax, {z, some, {3, 5}, "mean", t}, {-std::log(p)}, {p - 1, 1 - p, 0, 0});
    check_loss(softmax, {z, some, {3, 5}, "sum", t}, {-3 * std::log(p)},
               {3 * (p - 1), 3 * (1 - p), 0, 0});
    check_loss(softmax, {z, some, {}, "none", t}, {-std::log(p), 0}, {p - 1, 1 - p, 0, 0});
  }
}

TEST_CASE("C28: a mean over more rows than f16 can count") {
  const int64_t n = 70000;
  OnnxFile f(17);
  f.input("x", {n, 2}, DType::f16).output("loss");
  f.initializer("t", must(TensorData::zeros({DType::i64, {n}})));
  f.node("NegativeLogLikelihoodLoss", {"x", "t"}, {"loss"}, {{"ignore_index", int64_t{-100}}});
  const std::vector<double> x(2 * static_cast<size_t>(n), -3);
  CHECK_EQ(run(f, {tensor_from({DType::f16, {n, 2}}, x)}).at(0), 3);
}

}  // namespace
}  // namespace hone
