// SPDX-License-Identifier: Apache-2.0
// softmax and log_softmax of the CPU backend.
#include <cmath>
#include <limits>

#include "tests/backends/harness.hpp"

namespace hone::test {

TEST_CASE("softmax agrees with its reference kernel for rows of any length") {
  for (const NamedBackend& b : built_backends())
    for (const OpDef* op : {&op::softmax, &op::log_softmax})
      for (const Shape& s :
           {Shape{1}, Shape{3, 5}, Shape{4, 2, 16}, Shape{9, 77}, Shape{2, 1000}}) {
        INFO(std::string(b.name), std::string(op->name), to_string(s));
        Case c;
        const Value x = c.input(random_tensor({DType::f32, s}, 3, -20, 20), "x");
        c.check(c.builder().emit(*op, {x}, AxisAttrs{-1}), *b.backend);
      }
}

TEST_CASE("softmax of masked rows, infinities and NaN is that of the reference kernel") {
  const double inf = std::numeric_limits<double>::infinity(), nan = std::nan("");
  const TensorData x = tensor_from({DType::f32, {6, 3}}, {-inf, -inf, -inf, -inf, 1, 2,  //
                                                          inf, 1, 2, nan, 1, 2,          //
                                                          -inf, nan, -inf, 3e38, -3e38, 0});
  for (const NamedBackend& b : built_backends())
    for (const OpDef* op : {&op::softmax, &op::log_softmax}) {
      INFO(std::string(b.name), std::string(op->name));
      Case c;
      c.check(c.builder().emit(*op, {c.input(x, "x")}, AxisAttrs{1}), *b.backend);
    }
}

}  // namespace hone::test
