// SPDX-License-Identifier: Apache-2.0
// Where backends plug into the operator tests.
#pragma once

#include "hone/graph.hpp"

namespace hone::test {

/// A backend under test: runs a graph and gives its outputs, or nothing when it claims no node of
/// it.
struct BackendUnderTest {
  const char* name;
  Result<std::vector<TensorData>> (*run)(const Graph& g, std::span<const TensorData> inputs);
};

std::span<const BackendUnderTest> backends_under_test();

}  // namespace hone::test
