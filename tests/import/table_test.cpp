// SPDX-License-Identifier: Apache-2.0
// core/import/ONNX.md is written from the tables of rules.
#include <cstdlib>
#include <fstream>
#include <map>
#include <set>
#include <sstream>

#include "core/import/onnx_families.hpp"
#include "hone/special_ops.hpp"
#include "tests/support/check.hpp"
#include "tests/support/source_path.hpp"

namespace hone {
namespace {

using namespace test;

struct NoExport {
  std::string_view reason;
  std::vector<const OpDef*> ops;
};

// Operators that ONNX is not told, and why.
const std::vector<NoExport>& no_exports() {
  static const std::vector<NoExport> all = {
      {"A gradient, of which ONNX has none of its own: models go out as they are before they are "
       "differentiated, and one whose Gradient nodes were imported does not go out again.",
       {&op::avg_pool_grad, &op::batch_norm_grad, &op::conv_input_grad, &op::conv_weight_grad,
        &op::cross_entropy_grad, &op::deform_columns_grad, &op::grid_sample_grid_grad,
        &op::grid_sample_input_grad, &op::gru_cells_grad, &op::layer_norm_grad,
        &op::lstm_cells_grad, &op::max_pool_grad, &op::resize_grad, &op::rnn_cells_grad,
        &op::roi_align_grad, &op::scaled_dot_product_attention_grad}},
      {"Stands only in the gradient of `max_pool_grad`.", {&op::max_pool_pick}},
      {"What `deform_conv` is computed with, which goes out as DeformConv.", {&op::deform_columns}},
      {"The steps inside of `gru`, `lstm` and `rnn`, which go out as GRU, LSTM and RNN.",
       {&op::gru_cells, &op::lstm_cells, &op::rnn_cells}},
      {"A trainer's step. ONNX has no such operator but in a preview domain.",
       {&op::adam_update, &op::sgd_update}},
      {"Its numbers follow from a seed and a counter that the graph hands in, ONNX's from a state "
       "that is hidden. What a model says is `dropout`, which goes out as Dropout.",
       {&op::random_dropout}},
      {"Its numbers follow from a seed and a counter that the graph hands in; RandomNormal and "
       "RandomUniform take none, and would give others.",
       {&op::random_normal, &op::random_uniform}},
  };
  return all;
}

// The operators that have a rule of export.
std::set<const OpDef*> exported() {
  std::set<const OpDef*> ops;
#define HONE_ONNX_FAMILY(name) \
  for (const onnx::ExportRule& r : onnx::name##_exports()) ops.insert(r.op);
  HONE_ONNX_FAMILIES(HONE_ONNX_FAMILY)
#undef HONE_ONNX_FAMILY
  return ops;
}

std::string no_export_table() {
  std::string rows;
  for (const NoExport& n : no_exports()) {
    std::set<std::string_view> names;
    for (const OpDef* op : n.ops) names.insert(op->name);
    std::string list;
    for (const std::string_view name : names)
      list += format("{}`{}`", list.empty() ? "" : ", ", name);
    rows += format("| {} | {} |\n", list, n.reason);
  }
  return "\n## Operators without an export\n\n"
         "Every other operator of Hone's is written, alone or as several of ONNX's. A model that "
         "has one of these is refused by name.\n\n"
         "| operators | why |\n| --- | --- |\n" +
         rows;
}

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
         rows + no_export_table();
}

TEST_CASE("every operator is either written as ONNX or has a reason not to be") {
  const std::set<const OpDef*> written = exported();
  std::map<const OpDef*, int> reasons;
  for (const NoExport& n : no_exports())
    for (const OpDef* op : n.ops) ++reasons[op];
  for (const OpDef* op : all_ops()) {
    INFO(std::string(op->name));
    // If, Loop and Scan are written without a rule.
    const int ways = static_cast<int>(written.contains(op)) + static_cast<int>(op->has_bodies);
    CHECK_EQ(ways + reasons[op], 1);
  }
}

TEST_CASE("the table of ONNX's operators says what is there") {
  check_written("core/import/ONNX.md", table(), "hone_test_import");
}

}  // namespace
}  // namespace hone
