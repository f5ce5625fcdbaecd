// SPDX-License-Identifier: Apache-2.0
// hone inspect: what is in a model.
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <map>
#include <memory>

#include "core/base/file.hpp"
#include "core/cli/commands.hpp"
#include "core/cli/common.hpp"
#include "core/cli/operators.hpp"
#include "core/cli/planning.hpp"
#include "core/cli/simplifying.hpp"
#include "core/cli/terminal.hpp"
#include "hone/onnx.hpp"
#include "hone/op.hpp"

namespace hone::cli {

namespace {

struct Args {
  std::string model, other, operators;
  bool plan = false, graph = false, parameters = false, diff = false;
  PlanArgs planning;
  SimplifyArgs simplify;
};

void print_signature(const Graph& g) {
  Table t({"", "name", "dtype", "shape"});
  for (ValueId v : g.inputs)
    t.add({"input", g.value(v).name, std::string(to_string(g.type(v).dtype)),
           to_string(g, g.type(v).shape)});
  for (const GraphOutput& o : g.outputs) {
    const ValueInfo& v = g.value(o.value);
    const std::string shape = o.has_declared ? to_string(g, o.declared)
                              : v.typed      ? to_string(g, v.type.shape)
                                             : "?";
    t.add({"output", o.name, v.typed ? std::string(to_string(v.type.dtype)) : "", shape});
  }
  std::printf("Signature\n%s\n", t.text().c_str());
}

void print_parameters(const Graph& g, bool all) {
  struct Sum {
    int64_t tensors = 0, numbers = 0, bytes = 0;
    void add(const ValueInfo& v) { ++tensors, numbers += v.type.numel(), bytes += v.type.bytes(); }
  };
  Sum trainable, frozen, buffers, constants;
  Table rows({"name", "dtype", "shape", "numbers"});
  for (const ValueInfo& v : g.values) {
    if (v.kind == ValueKind::constant) constants.add(v);
    if (v.kind != ValueKind::state) continue;
    if (v.role == StateRole::buffer)
      buffers.add(v);
    else
      (v.trainable ? trainable : frozen).add(v);
    rows.add({v.name, std::string(to_string(v.type.dtype)), to_string(v.type.shape),
              count_text(v.type.numel())});
  }
  Table t({"weights", "tensors", "numbers", "size"});
  const auto line = [&](const char* what, const Sum& s) {
    if (s.tensors) t.add({what, count_text(s.tensors), count_text(s.numbers), bytes_text(s.bytes)});
  };
  line("trainable", trainable);
  line("frozen", frozen);
  line("buffers", buffers);
  line("constants", constants);
  std::printf("%s\n", t.text().c_str());
  if (all) std::printf("%s\n", rows.text().c_str());
}

void print_operators(const Graph& g) {
  const std::map<std::string_view, int64_t> counts = nodes_by_operator(g);
  std::vector<std::pair<std::string_view, int64_t>> sorted(counts.begin(), counts.end());
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
  Table t({"operator", "nodes"});
  for (const auto& [name, n] : sorted) t.add({std::string(name), count_text(n)});
  t.add({"all", count_text(count_nodes(g))});
  std::printf("%s\n", t.text().c_str());
}

// Two models as their files have them, or one before and after simplification.
Status print_difference(const Args& a) {
  HONE_ASSIGN(const Simplified before, open_simplified(a.model, {"none"}));
  HONE_ASSIGN(const Simplified after, a.other.empty() ? open_simplified(a.model, a.simplify)
                                                      : open_simplified(a.other, {"none"}));
  const std::string name = a.other.empty() ? "simplified" : a.other;
  std::printf("%s -> %s\n\n%s", a.model.c_str(), name.c_str(),
              text_of_difference(before.model.graph, after.model.graph).c_str());
  if (after.report) std::printf("\n%s", text_of(*after.report).c_str());
  return {};
}

Status write_operators(const Args& a, const Model& m) {
  HONE_ASSIGN(const std::vector<Shape> shapes, a.planning.dims.shapes(m.graph));
  HONE_ASSIGN(const std::string text,
              operators_text(m, shapes, a.planning.train,
                             std::filesystem::path(a.model).filename().string()));
  HONE_TRY(write_file(a.operators, text));
  std::printf("wrote %s\n", a.operators.c_str());
  return {};
}

Status inspect(const Args& a) {
  if (!a.other.empty() && !a.diff) return invalid("two models are for --diff");
  if (a.diff) return print_difference(a);
  if (a.plan) HONE_TRY(check(a.planning));
  HONE_ASSIGN(const Model m, open_model(a.model, a.simplify.importing()));
  if (!a.operators.empty()) return write_operators(a, m);
  std::printf("%s%s%s\n\n", a.model.c_str(), m.graph.name.empty() ? "" : ": ",
              m.graph.name.c_str());
  print_signature(m.graph);
  print_parameters(m.graph, a.parameters);
  print_operators(m.graph);
  if (!m.metadata.empty()) {
    Table t({"metadata", ""});
    for (const auto& [key, value] : m.metadata) t.add({key, value.substr(0, 100)});
    std::printf("%s\n", t.text().c_str());
  }
  if (a.graph) std::printf("%s\n", print(m.graph).c_str());
  return a.plan ? show_plan(a.planning, a.model, m) : Status();
}

}  // namespace

void add_inspect(CLI::App& app, Action& action) {
  auto args = std::make_shared<Args>();
  CLI::App* c = app.add_subcommand(
      "inspect", "Show signature, weights, operators, metadata and plan of a model");
  c->add_option("model", args->model, "The model: .hone, .onnx or .tflite")
      ->required()
      ->type_name("MODEL");
  c->add_option("other", args->other, "A second model, for --diff")->type_name("MODEL");
  c->add_flag("--diff", args->diff,
              "Count operators before and after: of two models, or of one and what it becomes when "
              "simplified");
  args->simplify.add_to(*c);
  c->add_flag("--parameters", args->parameters, "List every parameter and buffer");
  c->add_flag("--graph", args->graph, "List every node");
  c->add_option("--operators", args->operators,
                "Write the operators that running the model takes, with --train those of training "
                "it, for a build with HONE_OPERATORS")
      ->type_name("FILE");
  CLI::Option* plan =
      c->add_flag("--plan", args->plan, "Plan an inference or a training step and show its memory");
  args->planning.add_to(*c, plan);
  c->callback([args, &action] {
    if (args->planning.train && !args->plan && args->operators.empty())
      throw CLI::RequiresError("--train", "--plan or --operators");
    action = [args] { return inspect(*args); };
  });
}

}  // namespace hone::cli
