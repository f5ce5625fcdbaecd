// SPDX-License-Identifier: Apache-2.0
// core/import/ONNX.md is written from the tables of rules.
#include <cstdlib>
#include <fstream>
#include <map>
#include <set>
#include <sstream>

#include "core/import/onnx_families.hpp"
#include "tests/support/check.hpp"
#include "tests/support/source_path.hpp"

namespace hone {
namespace {

using namespace test;

std::string table() {
  std::map<std::string, std::set<int>> since;
  std::set<std::string> written = {"If", "Loop", "Scan"};
#define HONE_ONNX_FAMILY(name)                                                              \
  for (const onnx::ImportRule& r : onnx::name##_imports())                                  \
    since[r.domain.empty() ? std::string(r.op_type) : format("{}.{}", r.domain, r.op_type)] \
        .insert(r.since);                                                                   \
  for (const onnx::ExportRule& r : onnx::name##_exports()) written.insert(std::string(r.op_type));
  HONE_ONNX_FAMILIES(HONE_ONNX_FAMILY)
#undef HONE_ONNX_FAMILY
  since["If"] = since["Loop"] = {1};
  since["Scan"] = {8, 9};
  since["ai.onnx.preview.training.Gradient"] = {1};
  std::string rows;
  for (const auto& [name, versions] : since) {
    std::string text;
    for (int v : versions) text += format("{}{}", text.empty() ? "" : ", ", v);
    rows += format("| {} | {} | {} |\n", name, text, written.contains(name) ? "yes" : "");
  }
  return format(
             "# ONNX operators that are imported\n\n"
             "Written by the tests from the tables of rules (`HONE_UPDATE_DOCS=1 "
             "hone_test_import`); "
             "not by hand.\n\n"
             "{} operators. *from opset*: each number begins another meaning; the last holds up to "
             "the newest opset. *export*: Hone writes this operator too; the others are "
             "written as what they were imported as.\n\n"
             "| operator | from opset | export |\n| --- | --- | --- |\n",
             since.size()) +
         rows;
}

TEST_CASE("the table of ONNX's operators says what is there") {
  check_written("core/import/ONNX.md", table(), "hone_test_import");
}

}  // namespace
}  // namespace hone
