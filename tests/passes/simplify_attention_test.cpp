// SPDX-License-Identifier: Apache-2.0
// Attention as exporters spell it. In f64, so that a wrong formula or gradient would show.
#include <cmath>
#include <limits>

#include "hone/attention_attrs.hpp"
#include "tests/passes/sketch.hpp"
#include "tests/support/check.hpp"

namespace hone {
namespace {

using namespace test;

const std::string kAttention = "scaled_dot_product_attention";

constexpr double kNever = -std::numeric_limits<double>::infinity();

Model check(std::string_view name, const Draw& draw, const std::string& expected,
            double tolerance = 1e-12) {
  INFO(std::string(name));
  const Model before = drawn(draw, DType::f64);
  const Model after = simplified(before, {.recognise = kFull});
  CHECK_EQ(operators(after.graph), expected);
  for (const std::vector<int64_t>& extents : {std::vector<int64_t>{2, 3}, {1, 1}}) {
    CHECK(all_close(outputs(after, extents)[0], outputs(before, extents)[0], tolerance, tolerance));
    const auto want = gradients(before, extents), got = gradients(after, extents);
    REQUIRE_EQ(got.size(), want.size());
    for (size_t i = 0; i < want.size(); ++i)
      CHECK(all_close(got[i], want[i], tolerance, tolerance));
  }
  return after;
}

const Node& attention_in(const Model& m) {
  for (const Node& n : m.graph.nodes)
    if (n.op == &op::scaled_dot_product_attention) return n;
  FAIL("no attention");
  return m.graph.nodes[0];
}

Value times(Value a, Value b) { return a.builder().emit(op::mul, {a, b}); }
Value plus(Value a, Value b) { return a.builder().emit(op::add, {a, b}); }
Value product(Value a, Value b, bool trans_b = false) {
  return a.builder().emit(op::matmul, {a, b}, MatmulAttrs{false, trans_b});
}
Value weights(Value scores) { return scores.builder().emit(op::softmax, {scores}, AxisAttrs{-1}); }
Value permuted(Value v, std::vector<int64_t> perm) {
  return v.builder().emit(op::transpose, {v}, PermAttrs{std::move(perm)});
}
// Two heads of two: (N, 2, T, 2).
Value heads(Value v) {
  return permuted(v.builder().emit(op::reshape, {v}, ShapeAttrs{{0, 0, 2, 2}, false}),
                  {0, 2, 1, 3});
}

TEST_CASE("attention is recognised with its scale on the scores, on q, or on both sides") {
  const double root = std::sqrt(std::sqrt(0.5));
  check(
      "scores / sqrt(d)",
      [](Sketch& s) {
        const Value scores =
            s.b.emit(op::div, {product(s.x, permuted(s.x, {0, 2, 1})), s.number(2)});
        return product(weights(scores), s.x);
      },
      "unsqueeze " + kAttention + " squeeze");
  check(
      "on q, with heads",
      [](Sketch& s) {
        const Value q = times(heads(s.x), s.number(0.7));
        return product(weights(product(q, permuted(heads(s.x), {0, 1, 3, 2}))), heads(s.x));
      },
      "reshape " + kAttention + " transpose");
  check(
      "on q and on k transposed",
      [&](Sketch& s) {
        const Value k = times(permuted(heads(s.x), {0, 1, 3, 2}), s.number(root));
        return product(weights(product(times(heads(s.x), s.number(root)), k)), heads(s.x));
      },
      "reshape " + kAttention + " transpose");
}

TEST_CASE("masks of attention are recognised: added once or twice, or chosen by a bool") {
  check(
      "added",
      [](Sketch& s) {
        return product(weights(plus(product(s.x, s.x, true), s.number(-2, {1, 1, 1}))), s.x);
      },
      "unsqueeze " + kAttention + " squeeze");
  check(
      "two, one of them learned",
      [](Sketch& s) {
        const Value scores =
            plus(plus(s.number(-1, {1, 1}), product(s.x, s.x, true)), s.parameter("bias", {1, 1}));
        return product(weights(scores), s.x);
      },
      "add unsqueeze " + kAttention + " squeeze");
  check(
      "where",
      [](Sketch& s) {
        const Value seen = s.b.constant(must(
            cast(must(TensorData::vector_of(std::span<const int64_t>(std::vector<int64_t>{1}))),
                 DType::bool_)));
        const Value scores = s.b.emit(op::where, {seen, product(s.x, s.x, true), s.number(kNever)});
        return product(weights(scores), s.x);
      },
      "unsqueeze " + kAttention + " squeeze");
}

TEST_CASE("attention stays spelled out where another reads its weights or the shapes may differ") {
  check(
      "weights are read",
      [](Sketch& s) {
        const Value w = weights(product(s.x, s.x, true));
        const Value y = product(w, s.x);
        return plus(y, s.mean(w));
      },
      "matmul softmax matmul mean add");
  check(
      "scores are read",
      [](Sketch& s) {
        const Value scores = product(s.x, s.x, true);
        const Value y = product(weights(scores), s.x);
        return plus(y, s.mean(scores));
      },
      "matmul softmax matmul mean add");
  check(
      "hidden keys have a finite score",
      [](Sketch& s) {
        const Value seen = s.b.emit(op::less, {s.number(0), s.number(1)});
        const Value scores = s.b.emit(op::where, {seen, product(s.x, s.x, true), s.number(-1e4)});
        return product(weights(scores), s.x);
      },
      "matmul where softmax matmul");
  check(
      "one matrix for all samples",
      [](Sketch& s) {
        const Value k = s.parameter("k", {1, 3, 4});
        return product(weights(product(s.x, k, true)), k);
      },
      "matmul softmax matmul");
  check(
      "another axis",
      [](Sketch& s) {
        const Value w = s.b.emit(op::softmax, {product(s.x, s.x, true)}, AxisAttrs{-2});
        return product(w, s.x);
      },
      "matmul softmax matmul");
}

// A table of one number for keys up to the query and one for those after it; `offset` keys after it
// count as seen.
TensorData triangle(const TensorType& type, double seen, double after, int64_t offset = 0) {
  const int64_t queries = type.shape[type.shape.rank() - 2],
                keys = type.shape[type.shape.rank() - 1];
  std::vector<double> table;
  for (int64_t i = 0; i < type.shape.numel(); ++i)
    table.push_back(i % keys > i / keys % queries + offset ? after : seen);
  return tensor_from(type, table);
}
TensorData triangle(const Shape& s, double seen, double after, int64_t offset = 0) {
  return triangle({DType::f64, s}, seen, after, offset);
}
TensorData choice(const Shape& s, bool seen, int64_t offset = 0) {
  return triangle({DType::bool_, s}, seen, !seen, offset);
}

// Three tokens, so that masks can fit.
Value tokens(Sketch& s) { return s.input("three", {s.x.type().shape[0], 3, 4}); }
Value scores(Value x) { return product(x, x, true); }
Value chosen(Value mask, Value a, Value b) { return a.builder().emit(op::where, {mask, a, b}); }

struct Masked {
  std::string_view name;
  std::function<Value(Sketch&, Value)> mask;  // what masks the scores
};
Draw attending(const Masked& m) {
  return [&m](Sketch& s) {
    const Value x = tokens(s);
    return product(weights(m.mask(s, scores(x))), x);
  };
}

TEST_CASE("a constant mask that is the triangle becomes causal attention") {
  const Masked spellings[] = {
      {"-inf added",
       [](Sketch& s, Value v) {
         return plus(v, s.b.constant(triangle({3, 3}, 0, kNever)));
       }},
      {"the lowest f32 added, for all heads",
       [](Sketch& s, Value v) {
         return plus(s.b.constant(triangle({1, 3, 3}, 0, -3.4e38)), v);
       }},
      {"-1e9 added",
       [](Sketch& s, Value v) {
         return plus(v, s.b.constant(triangle({3, 3}, 0, -1e9)));
       }},
      {"the lowest f16 added",
       [](Sketch& s, Value v) {
         return plus(v, s.b.constant(triangle({3, 3}, 0, -65504)));
       }},
      {"computed from constants",
       [](Sketch& s, Value v) {
         const Value later = s.b.emit(op::sub, {s.number(1), s.b.constant(triangle({3, 3}, 1, 0))});
         return plus(v, s.b.emit(op::unsqueeze, {times(later, s.number(-1e9))}, AxesAttrs{{0}}));
       }},
      {"where seen",
       [](Sketch& s, Value v) {
         return chosen(s.b.constant(choice({3, 3}, true)), v, s.number(kNever));
       }},
      {"where seen, else a large number",
       [](Sketch& s, Value v) {
         return chosen(s.b.constant(choice({1, 3, 3}, true)), v, s.number(-3.4e38, {1}));
       }},
      {"where hidden",
       [](Sketch& s, Value v) {
         return chosen(s.b.constant(choice({3, 3}, false)), s.number(-1e9), v);
       }},
  };
  for (const Masked& m : spellings) {
    const Model after = check(m.name, attending(m), "unsqueeze " + kAttention + " squeeze");
    CHECK_EQ(attention_in(after).inputs.size(), 3);
    CHECK(attention_in(after).attrs.as<DotProductAttentionAttrs>().causal);
  }
}

TEST_CASE("a causal mask may have fewer queries than keys, counted from the first") {
  const Model after = check(
      "two queries",
      [](Sketch& s) {
        const Value x = tokens(s), q = s.input("two", {x.type().shape[0], 2, 4});
        const Value mask = s.b.constant(triangle({2, 3}, 0, kNever));
        return product(weights(plus(product(q, x, true), mask)), x);
      },
      "unsqueeze unsqueeze " + kAttention + " squeeze");
  CHECK(attention_in(after).attrs.as<DotProductAttentionAttrs>().causal);
}

TEST_CASE("other masks lie on top of a causal one that is infinite") {
  const Masked spellings[] = {
      {"both added",
       [](Sketch& s, Value v) {
         return plus(plus(v, s.parameter("bias", {3, 3})),
                     s.b.constant(triangle({3, 3}, 0, kNever)));
       }},
      {"where above a bias",
       [](Sketch& s, Value v) {
         return chosen(s.b.constant(choice({3, 3}, true)), plus(v, s.parameter("bias", {3, 3})),
                       s.number(kNever));
       }},
      {"where below a bias",
       [](Sketch& s, Value v) {
         const Value causal = chosen(s.b.constant(choice({3, 3}, true)), v, s.number(kNever));
         return plus(causal, s.parameter("bias", {1, 3}));
       }},
      {"a choice and the triangle",
       [](Sketch& s, Value v) {
         const Value seen = s.b.constant(tensor_from({DType::bool_, {3}}, {1, 1, 0}));
         return plus(chosen(seen, v, s.number(kNever)), s.b.constant(triangle({3, 3}, 0, kNever)));
       }},
  };
  for (const Masked& m : spellings) {
    const Model after = check(m.name, attending(m), "unsqueeze " + kAttention + " squeeze");
    CHECK_EQ(attention_in(after).inputs.size(), 4);
    CHECK(attention_in(after).attrs.as<DotProductAttentionAttrs>().causal);
  }
}

TEST_CASE("a mask that is not quite the triangle stays a mask") {
  const auto with = [](TensorData t, int64_t at, double v) {
    std::vector<double> all;
    for (int64_t i = 0; i < t.numel(); ++i) all.push_back(i == at ? v : t.at(i));
    return tensor_from(t.type(), all);
  };
  const TensorData tables[] = {
      with(triangle({3, 3}, 0, kNever), 2, 0),       // one later key is seen
      with(triangle({3, 3}, 0, kNever), 3, kNever),  // one earlier key is hidden
      with(triangle({3, 3}, 0, kNever), 4, -0.5),    // one key counts less
      triangle({3, 3}, 0, -100),                     // a later key may still weigh something
      triangle({3, 3}, 0, kNever, 1),                // one later key is seen by each query
      triangle({3, 3}, 0, kNever, -1),               // the first query sees nothing
      triangle({3, 3}, kNever, 0),                   // only later keys are seen
      triangle({1, 3}, 0, kNever),                   // one row for all queries
      with(triangle({3, 1}, 0, kNever), 1, 0.5),     // one column for all keys
  };
  for (const TensorData& table : tables) {
    const Masked added{"added", [&](Sketch& s, Value v) { return plus(v, s.b.constant(table)); }};
    const Model after = check(added.name, attending(added), "unsqueeze " + kAttention + " squeeze");
    CHECK_EQ(attention_in(after).inputs.size(), 4);
    CHECK_FALSE(attention_in(after).attrs.as<DotProductAttentionAttrs>().causal);
  }
  for (const bool seen : {true, false}) {
    const Masked shifted{"chosen", [&](Sketch& s, Value v) {
                           const Value mask = s.b.constant(choice({3, 3}, seen, 1));
                           return seen ? chosen(mask, v, s.number(kNever))
                                       : chosen(mask, s.number(kNever), v);
                         }};
    const Model after =
        check(shifted.name, attending(shifted), "unsqueeze " + kAttention + " squeeze");
    CHECK_EQ(attention_in(after).inputs.size(), 4);
    CHECK_FALSE(attention_in(after).attrs.as<DotProductAttentionAttrs>().causal);
  }
}

TEST_CASE("a large number hides no key where another mask hides those that are seen") {
  // The first key is padding, so that the first query looks at all three alike. Numbers near 1e9
  // are 1e-7 apart.
  const Masked added{
      "added", [](Sketch& s, Value v) {
        const Value padding = s.b.constant(tensor_from({DType::f64, {1, 3}}, {-1e9, 0, 0}));
        return plus(plus(v, s.b.constant(triangle({3, 3}, 0, -1e9))), padding);
      }};
  const Model after =
      check(added.name, attending(added), "unsqueeze " + kAttention + " squeeze", 1e-6);
  CHECK_EQ(attention_in(after).inputs.size(), 4);
  CHECK_FALSE(attention_in(after).attrs.as<DotProductAttentionAttrs>().causal);
  const Masked between{
      "chosen", [](Sketch& s, Value v) {
        const Value causal = chosen(s.b.constant(choice({3, 3}, true)), v, s.number(-1e9));
        return plus(causal, s.parameter("bias", {1, 3}));
      }};
  check(between.name, attending(between), "matmul where add softmax matmul");
}

TEST_CASE("a triangle for so many tokens says nothing where their number is free") {
  check(
      "free",
      [](Sketch& s) {
        const Value mask = s.b.constant(triangle({1, 1}, 0, kNever));
        return product(weights(plus(scores(s.x), mask)), s.x);
      },
      "unsqueeze " + kAttention + " squeeze");
}

// ---- keys and values that heads share

// One head of keys for each two of queries: four heads of two for queries, two for keys.
Value by_heads(Value v, int64_t count) {
  return permuted(v.builder().emit(op::reshape, {v}, ShapeAttrs{{0, 0, count, 2}, false}),
                  {0, 2, 1, 3});
}
Value projected(Sketch& s, std::string name, int64_t heads) {
  return product(s.x, s.parameter(std::move(name), {4, heads * 2}));
}
using Repeat = std::function<Value(Sketch&, Value)>;
Draw sharing(const Repeat& repeat, int64_t kv_heads = 2) {
  return [&repeat, kv_heads](Sketch& s) {
    const Value q = by_heads(projected(s, "q", 4), 4);
    const Value k = repeat(s, by_heads(projected(s, "k", kv_heads), kv_heads));
    const Value v = repeat(s, by_heads(projected(s, "v", kv_heads), kv_heads));
    return product(weights(product(q, permuted(k, {0, 1, 3, 2}))), v);
  };
}
Value unsqueezed(Value v, int64_t axis) {
  return v.builder().emit(op::unsqueeze, {v}, AxesAttrs{{axis}});
}
Value reshaped(Value v, std::vector<int64_t> shape) {
  return v.builder().emit(op::reshape, {v}, ShapeAttrs{std::move(shape), false});
}
Value expanded(Value v, std::vector<int64_t> shape) {
  return v.builder().emit(op::expand, {v}, ShapeAttrs{std::move(shape)});
}
Value tiled(Value v, std::vector<int64_t> repeats) {
  return v.builder().emit(op::tile, {v}, RepeatsAttrs{std::move(repeats)});
}
int64_t count_of(const Model& m, std::string_view name) {
  const auto counts = nodes_by_operator(m.graph);
  const auto at = counts.find(name);
  return at == counts.end() ? 0 : at->second;
}

const std::string kHeadsOfThree = "matmul reshape matmul reshape matmul reshape ";

TEST_CASE("keys and values that are repeated for several heads are shared by them") {
  const std::string expected = kHeadsOfThree + kAttention + " transpose";
  const auto grouped = [](Value wide) { return reshaped(wide, {0, 4, -1, 2}); };
  check("expanded", sharing([&](Sketch&, Value v) {
          return grouped(expanded(unsqueezed(v, 2), {1, 2, 2, 1, 2}));
        }),
        expected);
  check("tiled", sharing([&](Sketch&, Value v) {
          return grouped(tiled(unsqueezed(v, 2), {1, 1, 2, 1, 1}));
        }),
        expected);
  check("expanded by a computed shape", sharing([&](Sketch& s, Value v) {
          const Value shape =
              s.joined({s.extent(s.x, 0), s.ints({2, 2}), s.extent(s.x, 1), s.ints({2})});
          return grouped(s.b.emit(op::expand_dyn, {unsqueezed(v, 2), shape}));
        }),
        expected);
  check("one head for all, expanded",
        sharing(
            [](Sketch&, Value v) {
              return expanded(v, {1, 4, 1, 1});
            },
            1),
        expected);
  check("one head for all, tiled",
        sharing(
            [](Sketch&, Value v) {
              return tiled(v, {1, 4, 1, 1});
            },
            1),
        expected);
}

TEST_CASE("heads may be repeated where tokens still come first") {
  check(
      "tokens first",
      [](Sketch& s) {
        const auto repeated = [&](std::string name) {
          const Value v = reshaped(projected(s, std::move(name), 2), {0, 0, 2, 2});
          const Value wide = expanded(unsqueezed(v, 3), {1, 1, 2, 2, 2});
          return permuted(reshaped(wide, {0, 0, 4, 2}), {0, 2, 1, 3});
        };
        const Value q = by_heads(projected(s, "q", 4), 4);
        const Value k = repeated("k"), v = repeated("v");
        return product(weights(product(q, k, true)), v);
      },
      kHeadsOfThree + kAttention + " transpose");
}

TEST_CASE("keys repeated in another order, or without their values, stay repeated") {
  struct Case {
    std::string_view name;
    Repeat repeat;
  };
  const Case cases[] = {
      {"heads one after another, all again",
       [](Sketch&, Value v) {
         return reshaped(expanded(unsqueezed(v, 1), {1, 2, 2, 1, 2}), {0, 4, -1, 2});
       }},
      {"tiled along the heads",
       [](Sketch&, Value v) {
         return tiled(v, {1, 2, 1, 1});
       }},
      {"other elements side by side",
       [](Sketch&, Value v) {
         return reshaped(expanded(unsqueezed(v, 4), {1, 2, 1, 2, 2}), {0, 4, -1, 2});
       }},
  };
  for (const Case& c : cases) {
    INFO(std::string(c.name));
    const Model before = drawn(sharing(c.repeat), DType::f64);
    const Model after = simplified(before, {.recognise = kFull});
    CHECK_EQ(count_of(after, "expand") + count_of(after, "tile"), 2);
    CHECK(all_close(outputs(after, {2, 3})[0], outputs(before, {2, 3})[0], 1e-12, 1e-12));
  }
  const Model keys_only = drawn(
      [](Sketch& s) {
        const Value q = by_heads(projected(s, "q", 4), 4), v = by_heads(projected(s, "v", 4), 4);
        const Value k = expanded(unsqueezed(by_heads(projected(s, "k", 2), 2), 2), {1, 2, 2, 1, 2});
        return product(weights(product(q, reshaped(k, {0, 4, -1, 2}), true)), v);
      },
      DType::f64);
  const Model after = simplified(keys_only, {.recognise = kFull});
  CHECK_EQ(count_of(after, "expand"), 1);
  CHECK(all_close(outputs(after, {2, 3})[0], outputs(keys_only, {2, 3})[0], 1e-12, 1e-12));
}

// ---- ONNX's Attention

struct Fused {
  std::string_view name;
  AttentionAttrs attrs;
  std::function<std::vector<Value>(Sketch&)> inputs;
};
Draw emitting(const Fused& f) {
  return [&f](Sketch& s) { return s.b.emit_all(op::attention, f.inputs(s), f.attrs, 4)[0]; };
}
std::vector<Value> rows(Sketch& s) {
  return {projected(s, "q", 4), projected(s, "k", 2), projected(s, "v", 2)};
}
AttentionAttrs rows_of(AttentionAttrs a) {
  a.heads = 4;
  a.kv_heads = 2;
  return a;
}

TEST_CASE("Attention of which only the result is read is the fused operator") {
  const std::string by_rows =
      "matmul matmul matmul reshape reshape reshape " + kAttention + " reshape";
  const auto masked = [](Value mask, std::vector<Value> in) {
    in.push_back(mask);
    return in;
  };
  const Fused cases[] = {
      {"by rows", rows_of({}), rows},
      {"causal, scaled", rows_of({.scale = 0.3, .causal = true}), rows},
      {"softmax in its own dtype",
       rows_of({.has_softmax_dtype = true, .softmax_dtype = DType::f64}), rows},
      {"a mask for all", rows_of({}),
       [&](Sketch& s) {
         return masked(s.parameter("mask", {1, 1}), rows(s));
       }},
      {"a mask for each head", rows_of({.causal = true}),
       [&](Sketch& s) {
         return masked(s.parameter("mask", {4, 1, 1}), rows(s));
       }},
  };
  for (const Fused& f : cases) check(f.name, emitting(f), by_rows);
  const Fused heads{"by heads", {}, [](Sketch& s) {
                      const Value h = by_heads(s.x, 2);
                      return std::vector<Value>{h, h, h};
                    }};
  check(heads.name, emitting(heads), "reshape transpose " + kAttention);
  for (const TensorData& mask : {triangle({3, 3}, 0, -1e9), choice({1, 1, 3, 3}, true)}) {
    const Fused triangular{"triangle", {.heads = 2, .kv_heads = 2}, [&](Sketch& s) {
                             const Value x = tokens(s);
                             return std::vector<Value>{x, x, x, s.b.constant(mask)};
                           }};
    const Model after =
        check(triangular.name, emitting(triangular), "reshape " + kAttention + " reshape");
    CHECK_EQ(attention_in(after).inputs.size(), 3);
    CHECK(attention_in(after).attrs.as<DotProductAttentionAttrs>().causal);
  }
}

TEST_CASE("Attention that does more stays what it is") {
  const auto with = [](std::vector<Value> in, std::initializer_list<Value> more) {
    in.insert(in.end(), more);
    return in;
  };
  const Fused cases[] = {
      {"capped scores", rows_of({.softcap = 2}), rows},
      {"a narrower softmax", rows_of({.has_softmax_dtype = true, .softmax_dtype = DType::f32}),
       rows},
      {"a mask that ends before the keys",
       {.heads = 2, .kv_heads = 2},
       [&](Sketch& s) {
         const Value x = tokens(s);
         return with({x, x, x}, {s.parameter("mask", {3, 2})});
       }},
      {"keys of the past", rows_of({}),
       [&](Sketch& s) {
         const Shape past = {s.x.type().shape[0], 2, 5, 2};
         return with(rows(s), {{}, s.input("past_k", past), s.input("past_v", past)});
       }},
  };
  for (const Fused& f : cases) {
    INFO(std::string(f.name));
    const Model after = simplified(drawn(emitting(f), DType::f64), {.recognise = kFull});
    CHECK_EQ(count_of(after, "attention"), 1);
    CHECK_EQ(count_of(after, kAttention), 0);
  }
  const Model keys_read = simplified(drawn(
                                         [](Sketch& s) {
                                           const auto outs =
                                               s.b.emit_all(op::attention, rows(s), rows_of({}), 4);
                                           s.b.output(outs[1], "keys");
                                           return outs[0];
                                         },
                                         DType::f64),
                                     {.recognise = kFull});
  CHECK_EQ(count_of(keys_read, "attention"), 1);
  const Fused plain{"exact", rows_of({}), rows};
  const Model exact = simplified(drawn(emitting(plain), DType::f64), {.recognise = kExact});
  CHECK_EQ(count_of(exact, "attention"), 1);
}

}  // namespace
}  // namespace hone
