// SPDX-License-Identifier: Apache-2.0
// Matrix products: every implementation against the reference kernels.
#include "tests/backends/harness.hpp"

namespace hone::test {

namespace {

struct Product {
  Shape a, b;
  MatmulAttrs attrs;
};

const std::vector<Product>& products() {
  static const std::vector<Product> table = {
      {{1, 1}, {1, 1}, {}},
      {{3, 2}, {2, 3}, {}},
      {{1, 300}, {300, 70}, {}},
      {{33, 16}, {16, 64}, {}},
      {{4, 3}, {24, 3}, {false, true}},
      {{65, 70}, {33, 70}, {false, true}},
      {{70, 9}, {70, 17}, {true, false}},
      {{24, 5}, {24, 24}, {true, true}},
      {{2, 3, 7, 5}, {5, 9}, {}},
      {{2, 3, 7, 5}, {3, 5, 9}, {}},
      {{4, 5, 7}, {4, 9, 5}, {true, true}},
      {{1, 4, 16, 8}, {2, 1, 8, 24}, {}},
      {{0, 7}, {7, 3}, {}},
      {{3, 0}, {0, 5}, {}},
  };
  return table;
}

}  // namespace

TEST_CASE("each implementation of the matrix product agrees with the reference") {
  for (const NamedBackend& b : built_backends())
    for (const Product& p : products())
      for (const Weights weights : {Weights::fixed, Weights::given}) {
        INFO(b.name, ": a ", p.a.numel(), " of rank ", p.a.rank(), ", b ", p.b.numel(),
             p.attrs.trans_a ? ", a transposed" : "", p.attrs.trans_b ? ", b transposed" : "",
             weights == Weights::fixed ? ", fixed" : ", given");
        Case t;
        const Value x = t.input(p.a, "a", 1), w = t.weights(p.b, weights);
        t.check(ops::matmul(x, w, p.attrs), *b.backend);
      }
}

}  // namespace hone::test
