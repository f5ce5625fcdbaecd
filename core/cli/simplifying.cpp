// SPDX-License-Identifier: Apache-2.0
#include "core/cli/simplifying.hpp"

#include <algorithm>

#include "core/cli/terminal.hpp"

namespace hone::cli {

void SimplifyArgs::add_to(CLI::App& command) {
  command
      .add_option("--simplify", level,
                  "none: nodes as the file has them; exact: outputs keep every bit; full "
                  "(default): spelled-out operators are recognised too")
      ->check(CLI::IsMember({"none", "exact", "full"}))
      ->type_name("LEVEL");
}

OnnxImportOptions SimplifyArgs::importing() const {
  using Simplify = OnnxImportOptions::Simplify;
  OnnxImportOptions options;
  options.simplify = level == "none"    ? Simplify::nothing
                     : level == "exact" ? Simplify::exactly
                                        : Simplify::fully;
  return options;
}

Result<Simplified> open_simplified(const std::string& path, const SimplifyArgs& args) {
  Simplified out;
  HONE_ASSIGN(out.model, open_model(path, SimplifyArgs{"none"}.importing()));
  if (args.level == "none") return out;
  HONE_ASSIGN(out.report, simplify(out.model.graph, {.recognise = args.level == "full"}));
  return out;
}

std::string text_of(const SimplifyReport& report) {
  std::string out = format("  simplified: {} nodes -> {}\n", count_text(report.nodes_before),
                           count_text(report.nodes_after));
  if (!report.changed()) return out;
  Table rules({"rule", "applied"});
  for (const SimplifyReport::Count& c : report.rules)
    rules.add({std::string(c.rule), count_text(c.times)});
  return out + rules.text("    ");
}

namespace {

struct Weights {
  int64_t tensors = 0, bytes = 0;
};
Weights weights_of(const Graph& g, ValueKind kind) {
  Weights w;
  for (const ValueInfo& v : g.values)
    if (v.kind == kind) ++w.tensors, w.bytes += v.type.bytes();
  return w;
}

std::string change_text(int64_t before, int64_t after) {
  if (before == after) return "";
  return (after > before ? "+" : "-") + count_text(std::abs(after - before));
}

}  // namespace

std::string text_of_difference(const Graph& before, const Graph& after) {
  const auto counts_before = nodes_by_operator(before), counts_after = nodes_by_operator(after);
  struct Row {
    std::string_view op;
    int64_t before = 0, after = 0;
  };
  std::map<std::string_view, Row> by_name;
  for (const auto& [op, n] : counts_before) by_name[op].before = n;
  for (const auto& [op, n] : counts_after) by_name[op].after = n;
  std::vector<Row> rows;
  for (const auto& [op, r] : by_name) rows.push_back({op, r.before, r.after});
  std::stable_sort(rows.begin(), rows.end(), [](const Row& a, const Row& b) {
    return std::max(a.before, a.after) > std::max(b.before, b.after);
  });
  Table t({"operator", "before", "after", "change"});
  const auto add = [&](std::string what, int64_t a, int64_t b) {
    t.add({std::move(what), count_text(a), count_text(b), change_text(a, b)});
  };
  for (const Row& r : rows) add(std::string(r.op), r.before, r.after);
  add("all", count_nodes(before), count_nodes(after));
  Table w({"", "before", "after"});
  const auto tell = [&](const char* what, ValueKind kind) {
    const Weights a = weights_of(before, kind), b = weights_of(after, kind);
    w.add({what, format("{} ({})", count_text(a.tensors), bytes_text(a.bytes)),
           format("{} ({})", count_text(b.tensors), bytes_text(b.bytes))});
  };
  tell("parameters and buffers", ValueKind::state);
  tell("constants", ValueKind::constant);
  return t.text() + "\n" + w.text();
}

}  // namespace hone::cli
