// SPDX-License-Identifier: Apache-2.0
// Facts that hold for the table of operators as a whole.
#include <set>

#include "hone/op_table.hpp"
#include "tests/ops/op_case.hpp"
#include "tests/support/check.hpp"

namespace hone::test {

// Operators with bodies are unfolded; tests/runtime/control_test.cpp has their cases.
TEST_CASE("every operator has a shape rule, and a kernel, a decomposition or bodies") {
  for (const OpDef* op : all_ops()) {
    INFO(std::string(op->name));
    CHECK(bool(op->infer));
    CHECK((op->kernel || op->decompose || op->has_bodies));
    CHECK((op->kernel || !op->scratch));
    CHECK_GE(op->min_inputs, 0);
    CHECK_LE(op->min_inputs, op->max_inputs);
  }
}

TEST_CASE("every operator says what its gradient is") {
  // Operators whose gradient nobody has written. An entry needs a reason.
  const std::set<std::string_view> kWithout = {
      // Gradients themselves: second derivatives of sampling are not offered.
      "deform_columns_grad",
      "grid_sample_grid_grad",
      "roi_align_grad",
  };
  for (const OpDef* op : all_ops()) {
    INFO(std::string(op->name));
    CHECK_EQ(op->diff == Diff::missing, kWithout.count(op->name) > 0);
    CHECK_EQ(op->diff == Diff::rule, bool(op->grad));
    if (op->diff == Diff::by_decomposition) CHECK((op->decompose || op->has_bodies));
  }
}

TEST_CASE("every operator has at least one case") {
  for (const OpDef* op : all_ops())
    if (!op->has_bodies) CHECK_MESSAGE(has_case(*op), std::string(op->name));
}

TEST_CASE("names of operators are unique and found") {
  std::set<std::string_view> names;
  for (const OpDef* op : all_ops()) {
    CHECK_MESSAGE(names.insert(op->name).second, std::string(op->name));
    CHECK_EQ(find_op(op->name), op);
  }
  CHECK(find_op("no_such_operator") == nullptr);
}

}  // namespace hone::test
