// SPDX-License-Identifier: Apache-2.0
// core/ops/OPERATORS.md is written from the definitions and from what the cases have run. This file
// is the last of its folder, so that all cases have run by then.
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "tests/ops/op_case.hpp"
#include "tests/support/check.hpp"
#include "tests/support/source_path.hpp"

namespace hone::test {

namespace {

std::string types_text(const OpDef& op) {
  if (op.has_bodies) return "any";
  constexpr int kTypes = static_cast<int>(DType::bool_) + 1;
  std::string out;
  for (int t = 0; t < kTypes; ++t)
    if (types_run(op) >> t & 1)
      out += format("{}{}", out.empty() ? "" : " ", to_string(static_cast<DType>(t)));
  return out;
}

std::string gradient_text(const OpDef& op) {
  switch (op.diff) {
    case Diff::rule:
      return "rule";
    case Diff::zero:
      return "zero";
    case Diff::by_decomposition:
      return op.has_bodies ? "through the bodies" : "decomposition";
    case Diff::missing:
      break;
  }
  return "missing";
}

std::string inputs_text(const OpDef& op) {
  if (op.min_inputs == op.max_inputs) return format("{}", op.min_inputs);
  if (op.max_inputs == kAnyNumber) return format("{} or more", op.min_inputs);
  return format("{} to {}", op.min_inputs, op.max_inputs);
}

std::string table() {
  int kernels = 0, missing = 0;
  std::string rows;
  for (const OpDef* op : all_ops()) {
    kernels += op->kernel != nullptr;
    missing += op->diff == Diff::missing;
    const std::string how = op->kernel ? "kernel" : op->has_bodies ? "unfolded" : "decomposed";
    rows += format("| {} | {} | {} | {} | {} | {} |\n", op->name, op->version, inputs_text(*op),
                   how, gradient_text(*op), types_text(*op));
  }
  return format(
             "# Operators\n\n"
             "Written by the tests from the definitions and from the cases they ran "
             "(`HONE_UPDATE_DOCS=1 hone_test_ops`); not by hand.\n\n"
             "{} operators, {} with a reference kernel, {} without a gradient. *types*: of the "
             "first "
             "input, as tested.\n\n"
             "| operator | version | inputs | reference | gradient | types |\n"
             "| --- | --: | --- | --- | --- | --- |\n",
             all_ops().size(), kernels, missing) +
         rows;
}

}  // namespace

TEST_CASE("the table of operators says what is there") {
  for (const OpDef* op : all_ops())
    if (!op->has_bodies && types_run(*op) == 0) return;  // a selection of the cases is run
  check_written("core/ops/OPERATORS.md", table(), "hone_test_ops");
}

}  // namespace hone::test
