// SPDX-License-Identifier: Apache-2.0
// How the commands ask for simplification, and tell what it did.
#pragma once

#include <optional>
#include <string>

#include "CLI/CLI.hpp"
#include "hone/onnx.hpp"
#include "hone/simplify.hpp"

namespace hone::cli {

/// --simplify none|exact|full.
struct SimplifyArgs {
  std::string level = "full";
  void add_to(CLI::App& command);
  OnnxImportOptions importing() const;
};

/// Opens a model as its file has it, and simplifies it as far as asked. No report: not at all.
struct Simplified {
  Model model;
  std::optional<SimplifyReport> report;
};
Result<Simplified> open_simplified(const std::string& path, const SimplifyArgs& args);

/// Nodes before and after, and how often each rule applied.
std::string text_of(const SimplifyReport& report);

/// Two graphs side by side: nodes of each operator, parameters, constants.
std::string text_of_difference(const Graph& before, const Graph& after);

}  // namespace hone::cli
