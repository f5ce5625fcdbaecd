// SPDX-License-Identifier: Apache-2.0
// Attention of the CPU backend, over blocks of queries and keys.
#include <limits>

#include "hone/attention_attrs.hpp"
#include "tests/backends/harness.hpp"

namespace hone::test {

namespace {

struct Sizes {
  int64_t batch, heads, kv_heads, queries, keys, size, value_size;
};

// q, k, v in the attributes' order, and a mask where one is given.
std::vector<Value> operands(Case& c, const Sizes& s, const DotProductAttentionAttrs& a,
                            const TensorData& mask = {}) {
  const auto shape = [&](int64_t heads, int64_t tokens, int64_t size) {
    return a.tokens_first ? Shape{s.batch, tokens, heads, size}
                          : Shape{s.batch, heads, tokens, size};
  };
  std::vector<Value> in = {c.input(shape(s.heads, s.queries, s.size), "q", 1),
                           c.input(shape(s.kv_heads, s.keys, s.size), "k", 2),
                           c.input(shape(s.kv_heads, s.keys, s.value_size), "v", 3)};
  if (mask.defined()) in.push_back(c.input(mask, "mask"));
  return in;
}

void check_attention(const Sizes& s, const DotProductAttentionAttrs& a = {},
                     const TensorData& mask = {}) {
  INFO(s.queries, " ", s.keys, " ", s.size, " ", s.value_size);
  Case c;
  c.check(c.builder().emit(op::scaled_dot_product_attention, operands(c, s, a, mask), a),
          default_backend());
}

TensorData random_mask(const Shape& s) { return random_tensor({DType::f32, s}, 4); }

}  // namespace

TEST_CASE("attention agrees with its reference kernel, in blocks of any size") {
  check_attention({1, 1, 1, 1, 1, 1, 1});
  check_attention({2, 3, 3, 5, 7, 3, 5});
  check_attention({1, 2, 2, 50, 33, 16, 64});
  check_attention({1, 2, 2, 97, 65, 64, 128}, {.scale = 0.5});
  check_attention({2, 2, 2, 17, 600, 8, 20});  // more keys than one block
  check_attention({1, 1, 1, 3, 1100, 8, 65});
  check_attention({2, 4, 2, 49, 40, 8, 16}, {.tokens_first = true});
  check_attention({1, 6, 1, 9, 12, 5, 4});
}

TEST_CASE("a causal query of attention's kernel sees no later key") {
  check_attention({1, 2, 2, 130, 130, 8, 16}, {.causal = true});
  check_attention({1, 1, 1, 700, 700, 4, 8}, {.causal = true, .tokens_first = true});
  check_attention({1, 1, 1, 60, 20, 4, 8}, {.causal = true});
}

TEST_CASE("masks of attention's kernel, of numbers and bools, broadcast") {
  const Sizes s{2, 2, 2, 20, 30, 8, 16};
  check_attention(s, {}, random_mask({20, 30}));
  check_attention(s, {}, random_mask({2, 1, 1, 30}));
  check_attention(s, {.tokens_first = true}, random_mask({2, 2, 20, 30}));
  check_attention(s, {}, random_mask({20, 1}));
  check_attention(s, {.causal = true}, random_mask({1}));
  check_attention(s, {},
                  must(cast(random_tensor({DType::i64, {2, 1, 20, 30}}, 5, 0, 2), DType::bool_)));
}

TEST_CASE("hidden keys, and queries that see none, are those of the reference kernel") {
  const float never = -std::numeric_limits<float>::infinity();
  TensorData mask = must(TensorData::zeros({DType::f32, {60, 1030}}));
  for (int64_t i = 0; i < 60; ++i)  // none, the first block, the last block, all but one
    for (int64_t j = 0; j < 1030; ++j)
      if (i % 4 == 0 || (i % 4 == 1 && j < 512) || (i % 4 == 2 && j >= 512) ||
          (i % 4 == 3 && j != 1029))
        mask.as_mutable<float>()[i * 1030 + j] = never;
  check_attention({1, 1, 1, 60, 1030, 4, 16}, {}, mask);
}

}  // namespace hone::test
