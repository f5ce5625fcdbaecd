// SPDX-License-Identifier: Apache-2.0
// The optimizers' updates: the same bits as the reference kernels.
#include "core/plan/program.hpp"
#include "tests/backends/harness.hpp"

namespace hone::test {

namespace {

TensorData some(int64_t n, uint64_t seed, double low = -1) {
  return random_tensor({DType::f32, {n}}, seed, low, 1);
}

// Every output of the node is the graph's in turn.
void check_bits(const OpDef& op, const Attrs& attrs, const std::vector<TensorData>& in,
                size_t outputs) {
  for (size_t k = 0; k < outputs; ++k) {
    Case c;
    std::vector<Value> values;
    for (size_t i = 0; i < in.size(); ++i)
      values.push_back(in[i].defined() ? c.input(in[i], ("x" + std::to_string(i)).c_str())
                                       : Value());
    const std::vector<Value> out = c.builder().emit_all(op, values, attrs);
    REQUIRE_OK(c.builder().status());
    c.check_bits(out[k], default_backend());
  }
}

}  // namespace

TEST_CASE("Adam's and AdamW's updates are the reference kernel's, bit for bit") {
  for (const int64_t n : {1, 15, 16, 33, 40000})
    for (const bool decoupled : {false, true})
      for (const double decay : {0.0, 0.01})
        for (const int64_t step : {1, 7}) {
          INFO(n, decoupled, decay, step);
          check_bits(op::adam_update, AdamAttrs{.weight_decay = decay, .decoupled = decoupled},
                     {some(n, 1), some(n, 2), some(n, 3, 0), some(n, 4),
                      tensor_from({DType::f32, {}}, {1e-3}),
                      tensor_from({DType::i64, {}}, {static_cast<double>(step)})},
                     3);
        }
}

TEST_CASE("SGD's updates are the reference kernel's, bit for bit") {
  const TensorData rate = tensor_from({DType::f32, {}}, {0.1});
  for (const int64_t n : {1, 17, 40000})
    for (const double decay : {0.0, 0.01}) {
      INFO(n, decay);
      check_bits(op::sgd_update, SgdAttrs{.weight_decay = decay},
                 {some(n, 1), TensorData(), some(n, 3), rate}, 1);
      for (const bool nesterov : {false, true})
        check_bits(op::sgd_update,
                   SgdAttrs{.momentum = 0.9, .weight_decay = decay, .nesterov = nesterov},
                   {some(n, 1), some(n, 2), some(n, 3), rate}, 2);
      for (const double step : {1.0, 2.0})
        check_bits(
            op::sgd_update, SgdAttrs{.momentum = 0.9, .dampening = 0.2},
            {some(n, 1), some(n, 2), some(n, 3), rate, tensor_from({DType::i64, {}}, {step})}, 2);
    }
}

TEST_CASE("a step that is no step is refused") {
  Case c;
  std::vector<Value> in;
  for (const char* name : {"p", "m", "v", "g"}) in.push_back(c.input({3}, name, 1));
  in.push_back(c.input(tensor_from({DType::f32, {}}, {1e-3}), "lr"));
  in.push_back(c.input(tensor_from({DType::i64, {}}, {0}), "step"));
  const std::vector<Value> out = c.builder().emit_all(op::adam_update, in, AdamAttrs{});
  c.builder().output(out[0], "y");
  CHECK_ERROR(c.failure(default_backend()), Code::invalid_argument, "steps count from 1");
}

}  // namespace hone::test
