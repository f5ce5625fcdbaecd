// SPDX-License-Identifier: Apache-2.0
// If, Loop and Scan: their bodies are graphs, and what is known of the outputs comes from those.
#include <algorithm>

#include "core/import/onnx_importer.hpp"
#include "hone/control.hpp"

namespace hone::onnx {

namespace {

// Of Scan, since opset 9.
constexpr std::string_view kDirections = "scan_input_directions";

bool has_attribute(const NodeProto& n, std::string_view name) {
  return std::any_of(n.attributes.begin(), n.attributes.end(),
                     [&](const AttributeProto& a) { return a.name == name; });
}

const GraphProto* body_of(const NodeProto& n, std::string_view attribute) {
  for (const AttributeProto& a : n.attributes)
    if (a.name == attribute && a.type == AttributeType::graph && a.graphs.size() == 1)
      return &a.graphs[0];
  return nullptr;
}

}  // namespace

Status Importer::import_control(const NodeProto& n, int64_t opset, const std::string& name,
                                const Body& body) {
  std::vector<Value> inputs;
  HONE_ASSIGN(const bool complete, resolve_inputs(n, name, body, inputs));
  if (!complete) return {};
  for (const Value& v : inputs)
    if (v.valid() && state_.narrow_of(v) != NarrowType::none) {
      missing(format("{}-{} of {}", n.op_type, opset, name_of(state_.narrow_of(v))), name);
      return {};
    }
  b_.set_scope(name);
  if (n.op_type == "If") return import_if(n, std::move(inputs), name, body);
  if (n.op_type == "Loop") return import_loop(n, std::move(inputs), name, body);
  if (opset < 9 && !has_attribute(n, kDirections))
    return import_batched_scan(n, std::move(inputs), name, body);
  return import_scan(n, std::move(inputs), name, body);
}

Status Importer::import_if(const NodeProto& n, std::vector<Value> inputs, const std::string& name,
                           const Body& body) {
  const GraphProto *yes = body_of(n, "then_branch"), *no = body_of(n, "else_branch");
  if (!yes || !no || inputs.size() != 1 || !inputs[0].valid())
    return invalid_model("node '{}' (If): needs a condition and two branches", name);
  Importer then_(*this, body.scope), else_(*this, body.scope);
  HONE_TRY(then_.import_body(*yes, {}, body, name + "/then/"));
  HONE_TRY(else_.import_body(*no, {}, body, name + "/else/"));
  if (!state_.missing.empty()) return {};
  b_.set_scope(name);
  std::vector<Value> captured = then_.captured_;
  for (const Value& v : else_.captured_)
    if (std::none_of(captured.begin(), captured.end(),
                     [&](const Value& c) { return c.id() == v.id(); }))
      captured.push_back(v);
  std::vector<Known> results = then_.results_;
  if (results.size() != else_.results_.size() || results.size() < n.outputs.size())
    return invalid_model("node '{}' (If): its branches have {} and {} outputs, it has {}", name,
                         results.size(), else_.results_.size(), n.outputs.size());
  for (size_t i = 0; i < results.size(); ++i)
    if (results[i].rank != else_.results_[i].rank) results[i].rank = -1;
  inputs.insert(inputs.end(), captured.begin(), captured.end());
  IfAttrs attrs{then_.finish_body(0, captured), else_.finish_body(0, captured)};
  return emit_control(op::if_else, n, inputs, std::move(attrs), results, body);
}

Status Importer::import_loop(const NodeProto& n, std::vector<Value> inputs, const std::string& name,
                             const Body& body) {
  const GraphProto* g = body_of(n, "body");
  if (!g || inputs.size() < 2)
    return invalid_model("node '{}' (Loop): needs a body and at least two inputs", name);
  std::vector<Known> own = {{DType::i64, 0}, {DType::bool_, 0}};
  for (size_t i = 2; i < inputs.size(); ++i) {
    if (!inputs[i].valid()) return invalid_model("node '{}' (Loop): input {} is missing", name, i);
    own.push_back(state_.known(inputs[i]));
  }
  const size_t carried = inputs.size() - 2;
  Importer inner(*this, body.scope);
  HONE_TRY(inner.import_body(*g, own, body, name + "/"));
  if (!state_.missing.empty()) return {};
  b_.set_scope(name);
  if (inner.results_.size() < 1 + carried)
    return invalid_model("node '{}' (Loop): its body has {} outputs, expected {} or more", name,
                         inner.results_.size(), 1 + carried);
  std::vector<Known> results(inner.results_.begin() + 1, inner.results_.end());
  for (size_t i = 0; i < results.size(); ++i) {
    if (i >= carried) results[i].rank += results[i].rank >= 0;
    if (i < carried && results[i].rank != own[2 + i].rank) results[i].rank = -1;
  }
  const std::vector<Value> captured = inner.captured_;
  inputs.insert(inputs.end(), captured.begin(), captured.end());
  LoopAttrs attrs{inner.finish_body(own.size(), captured), static_cast<int64_t>(carried)};
  return emit_control(op::loop, n, inputs, std::move(attrs), results, body);
}

// Scan of opset 8 has a batch axis before all others, and lengths as its first input. Without
// lengths it is a scan over the batch whose step is the newer Scan.
Status Importer::import_batched_scan(const NodeProto& n, std::vector<Value> inputs,
                                     const std::string& name, const Body& body) {
  if (inputs.empty() || inputs[0].valid()) {
    missing("Scan-8 with the lengths of its sequences", name);
    return {};
  }
  inputs.erase(inputs.begin());
  NodeProto step = n, whole = n;
  whole.inputs.erase(whole.inputs.begin());
  GraphProto sample;
  const auto made_name = [&](std::string_view what, size_t i) -> std::string_view {
    return made_names_.emplace_back(format("{}/sample/{}_{}", name, what, i));
  };
  step.inputs.clear();
  for (size_t i = 0; i < inputs.size(); ++i) {
    step.inputs.push_back(made_name("in", i));
    sample.inputs.push_back({.name = step.inputs.back()});
  }
  for (size_t i = 0; i < step.outputs.size(); ++i) {
    step.outputs[i] = made_name("out", i);
    sample.outputs.push_back({.name = step.outputs[i]});
  }
  for (AttributeProto& a : step.attributes)
    if (a.name == "directions") a.name = kDirections;
  if (!has_attribute(step, kDirections)) step.attributes.push_back({.name = kDirections});
  sample.nodes = {std::move(step)};
  AttributeProto over{.name = "body", .type = AttributeType::graph};
  over.graphs = {std::move(sample)};
  whole.attributes = {std::move(over),
                      {.name = "num_scan_inputs", .i = static_cast<int64_t>(inputs.size())}};
  return import_scan(whole, std::move(inputs), name, body);
}

Status Importer::import_scan(const NodeProto& n, std::vector<Value> inputs, const std::string& name,
                             const Body& body) {
  const GraphProto* g = body_of(n, "body");
  ScanAttrs attrs;
  int64_t sequences = 0;
  for (const AttributeProto& a : n.attributes) {
    if (a.name == "num_scan_inputs") sequences = a.i;
    if (a.name == "scan_input_axes") attrs.in_axes = a.ints;
    if (a.name == kDirections) attrs.in_reverse = a.ints;
    if (a.name == "scan_output_axes") attrs.out_axes = a.ints;
    if (a.name == "scan_output_directions") attrs.out_reverse = a.ints;
  }
  if (!g || sequences < 1 || sequences > static_cast<int64_t>(inputs.size()))
    return invalid_model("node '{}' (Scan): has {} inputs, {} of them sequences", name,
                         inputs.size(), sequences);
  attrs.in_axes.resize(static_cast<size_t>(sequences), 0);
  const size_t carried = inputs.size() - static_cast<size_t>(sequences);
  attrs.carried = static_cast<int64_t>(carried);
  std::vector<Known> own;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i].valid()) return invalid_model("node '{}' (Scan): input {} is missing", name, i);
    own.push_back(state_.known(inputs[i]));
    if (i >= carried && own.back().rank > 0) --own.back().rank;
  }
  Importer inner(*this, body.scope);
  HONE_TRY(inner.import_body(*g, own, body, name + "/"));
  if (!state_.missing.empty()) return {};
  b_.set_scope(name);
  std::vector<Known> results = inner.results_;
  if (results.size() < carried)
    return invalid_model("node '{}' (Scan): its body has {} outputs, expected {} or more", name,
                         results.size(), carried);
  for (size_t i = carried; i < results.size(); ++i) results[i].rank += results[i].rank >= 0;
  const std::vector<Value> captured = inner.captured_;
  inputs.insert(inputs.end(), captured.begin(), captured.end());
  attrs.body = inner.finish_body(own.size(), captured);
  return emit_control(op::scan, n, inputs, std::move(attrs), results, body);
}

Status Importer::emit_control(const OpDef& op, const NodeProto& n, std::span<const Value> inputs,
                              Attrs attrs, std::span<const Known> results, const Body& body) {
  const std::vector<Value> outs =
      b_.emit_all(op, inputs, std::move(attrs), static_cast<int>(results.size()));
  HONE_TRY(builder_status());
  for (size_t k = 0; k < outs.size(); ++k) {
    state_.set_known(outs[k], results[k]);
    if (k >= n.outputs.size() || n.outputs[k].empty()) continue;
    body.scope[n.outputs[k]] = outs[k];
    give_name(outs[k], format("{}{}", body.prefix, n.outputs[k]));
  }
  return {};
}

}  // namespace hone::onnx
