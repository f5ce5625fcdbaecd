// SPDX-License-Identifier: Apache-2.0
// Cases for losses and optimizer steps.
#include "tests/ops/op_case.hpp"

using namespace hone;
using hone::test::Grad;
using hone::test::In;

namespace {
In labels(const Shape& s, std::vector<double> v) { return In::typed(DType::i64, s, std::move(v)); }
In f32(const Shape& s, std::vector<double> v) { return In::typed(DType::f32, s, std::move(v)); }
In f64(const Shape& s, std::vector<double> v) { return In::typed(DType::f64, s, std::move(v)); }
In step(double k) { return In::typed(DType::i64, {}, {k}); }
CrossEntropyAttrs smooth(Reduction r) {
  return {.ignore_index = 1, .label_smoothing = 0.3, .reduction = r};
}
}  // namespace

OP_CASE(cross_entropy, {.in = {{4, 3}, labels({4}, {0, 2, -100, 1})}})
OP_CASE(cross_entropy,
        {.attrs = smooth(Reduction::mean), .in = {{2, 3, 2}, labels({2, 2}, {0, 1, 2, 2})}})
OP_CASE(cross_entropy,
        {.attrs = smooth(Reduction::sum), .in = {{2, 3, 2}, labels({2, 2}, {0, 1, 2, 2})}})
OP_CASE(cross_entropy, {.attrs = smooth(Reduction::none),
                        .in = {{2, 3, 2}, labels({2, 2}, {0, 1, 2, 2})},
                        .expect_shape = Shape{2, 2}})
OP_CASE(cross_entropy,
        {.attrs = CrossEntropyAttrs{.axis = -1}, .in = {{2, 2, 3}, labels({2, 2}, {0, 1, 2, 2})}})
// Class weights, by which there is a gradient too.
OP_CASE(cross_entropy, {.in = {{4, 3}, labels({4}, {0, 2, -100, 2}), In::within({3}, 0.5, 2)}})
OP_CASE(cross_entropy, {.attrs = smooth(Reduction::mean),
                        .in = {{2, 3, 2}, labels({2, 2}, {0, 1, 2, 2}), In::within({3}, 0.5, 2)}})
OP_CASE(cross_entropy, {.attrs = smooth(Reduction::sum),
                        .in = {{2, 3, 2}, labels({2, 2}, {0, 1, 2, 2}), In::within({3}, 0.5, 2)}})
OP_CASE(cross_entropy, {.attrs = smooth(Reduction::none),
                        .in = {{2, 3, 2}, labels({2, 2}, {0, 1, 2, 2}), In::within({3}, 0.5, 2)}})
OP_CASE(cross_entropy, {.in = {{3}, labels({}, {2}), In::within({3}, 0.5, 2)}})
OP_CASE(cross_entropy,
        {.in = {{2, 3}, labels({2}, {-100, -100}), In::within({3}, 0.5, 2)}, .expect = {{0}}})
OP_CASE(cross_entropy,
        {.in = {In::of({2, 2}, {2, 0, 5, -5}), labels({2}, {-100, -100})}, .expect = {{0}}})
OP_CASE(cross_entropy, {.in = {{0, 3}, labels({0}, {})}, .expect = {{0}}})
OP_REJECTS(cross_entropy, {.in = {{3, 10}, labels({3}, {1, 2, 10})}},
           "the label 10 at position 2 is outside [0, 10)")
OP_REJECTS(cross_entropy, {.in = {{3, 10}, {3, 10}}},
           "expects class indices (i32 or i64) of shape [3]")

OP_CASE(cross_entropy_grad,
        {.in = {f64({2, 3}, {1, -1, 0.5, 2, 0, 1}), labels({2}, {0, 2}), In::none(), f64({}, {2})}})
OP_CASE(cross_entropy_grad, {.attrs = smooth(Reduction::none),
                             .in = {f64({2, 3}, {1, -1, 0.5, 2, 0, 1}), labels({2}, {1, 2}),
                                    f64({3}, {1, 2, 0.5}), f64({2}, {2, 3})}})
OP_CASE(cross_entropy_grad, {.attrs = smooth(Reduction::mean),
                             .in = {{2, 3}, labels({2}, {0, 2}), In::none(), f32({}, {2})},
                             .dtype = DType::f16})
OP_CASE(cross_entropy_grad, {.in = {{2, 3}, labels({2}, {0, 2}), {3}, {}}, .dtype = DType::f32})
OP_REJECTS(cross_entropy_grad, {.in = {{2, 3}, labels({2}, {0, 2}), In::none(), {2}}},
           "the loss's gradient is f64[2], expected f64[]")

OP_CASE(sgd_update, {.attrs = SgdAttrs{.weight_decay = 0.5},
                     .in = {{5}, In::none(), {5}, In::within({}, 0.1, 0.2)}})
OP_CASE(sgd_update,
        {.attrs = SgdAttrs{0.9, 0, 0.1, true}, .in = {{5}, {5}, {5}, {}}, .dtype = DType::f32})
OP_CASE(sgd_update, {.attrs = SgdAttrs{0.9, 0.3, 0.1, false},
                     .in = {{5}, {5}, {5}, {}, step(3)},
                     .dtype = DType::f32})
OP_CASE(sgd_update, {.attrs = SgdAttrs{.momentum = 0.9},
                     .in = {{2, 2}, f32({2, 2}, {1, 2, 3, 4}), {2, 2}, f32({}, {0.1})},
                     .dtype = DType::bf16})
OP_CASE(sgd_update,
        {.attrs = SgdAttrs{.momentum = 0.9},
         .in = {f64({2}, {1, 2}), f64({2}, {0.5, -1}), f64({2}, {2, 1}), f64({}, {0.1})}})
OP_REJECTS(sgd_update, {.attrs = SgdAttrs{.momentum = 0.9}, .in = {{5}, In::none(), {5}, {}}},
           "there is no velocity")
OP_REJECTS(sgd_update, {.in = {{5}, In::none(), {4}, {}}},
           "the gradient is f64[4], the parameter f64[5]")

OP_CASE(adam_update, {.attrs = AdamAttrs{.weight_decay = 0.1},
                      .in = {{5}, {5}, In::within({5}, 0.1, 1), {5}, {}, step(1)},
                      .dtype = DType::f32})
OP_CASE(adam_update, {.attrs = AdamAttrs{.weight_decay = 0.1, .decoupled = true},
                      .in = {{2, 2},
                             f32({2, 2}, {0, 1, 2, 3}),
                             f32({2, 2}, {1, 2, 3, 4}),
                             {2, 2},
                             f32({}, {0.1}),
                             step(7)},
                      .dtype = DType::f16})
OP_CASE(adam_update, {.attrs = AdamAttrs{.weight_decay = 0.1},
                      .in = {f64({2}, {1, 2}), f64({2}, {0.5, -1}), f64({2}, {2, 1}),
                             f64({2}, {1, -1}), f64({}, {0.1}), step(2)}})
OP_REJECTS(adam_update, {.in = {{5}, {5}, {5}, {5}, {}, step(0)}, .range = {0, 1}},
           "the step is 0; steps count from 1")
