// SPDX-License-Identifier: Apache-2.0
// ONNX's own backend test suite, as unpacked by fetch.sh: finding and reading its tests.
#pragma once

#include <string>
#include <vector>

#include "hone/tensor_data.hpp"

namespace hone::test {

/// One test of the suite.
struct SuiteTest {
  std::string kind;    ///< "node", "simple", "pytorch-converted", "pytorch-operator", "light".
  std::string name;    ///< "test_abs"; "light_squeezenet".
  std::string folder;  ///< Where its model and its data are.
  std::string model;   ///< The model's path.
};

/// What the runner wants to know of a test before it imports the model.
struct TestFacts {
  bool core = false;      ///< In the core set: plain tensors of the usual types, nothing random.
  std::string beyond;     ///< Why it is not: "inputs of uint16", "sequences", ...
  size_t inputs = 0;      ///< Graph inputs that are no initializers.
  std::string operators;  ///< "Conv, Relu".
};

/// All tests below `root`, by kind and name.
std::vector<SuiteTest> find_tests(const std::string& root);

/// Errors: not_found, io_error, invalid_model.
Result<TestFacts> read_facts(const SuiteTest& test);

/// The inputs of a test, in the model's order, and what must come out.
struct TestData {
  std::vector<TensorData> inputs, outputs;
};
Result<TestData> read_data(const SuiteTest& test, size_t inputs);

/// "" when `got` is what ONNX's own runner accepts for `want`: equal shape and type, NaN for NaN,
/// the same infinity, and |got - want| <= atol + rtol * |want| everywhere.
std::string judge(const TensorData& got, const TensorData& want, double rtol, double atol);

}  // namespace hone::test
