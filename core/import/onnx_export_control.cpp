// SPDX-License-Identifier: Apache-2.0
// If, Loop and Scan: their bodies are graphs within the node.
#include <algorithm>

#include "core/import/onnx_exporter.hpp"
#include "hone/control.hpp"

namespace hone::onnx {

namespace {

wire::Writer graph_attribute(std::string_view name, wire::Writer graph) {
  wire::Writer a;
  a.text(1, name);
  a.message(6, std::move(graph));
  a.integer(20, static_cast<int64_t>(AttributeType::graph));
  return a;
}

}  // namespace

// A body is a graph within the node. Names of values are unique over all graphs; those of
// captured values are the names outside.
wire::Writer Exporter::body(ExportState& outer, const Node& n, const Graph& g,
                            std::span<const DType> own, size_t first_captured,
                            std::vector<DType>& results) const {
  Exporter e(model_, g, external_);
  ExportState s = e.new_state(outer.opset);
  s.needed = outer.needed;
  s.taken = std::move(outer.taken);
  s.node_names = std::move(outer.node_names);
  for (size_t i = 0; i < g.inputs.size(); ++i) {
    const size_t id = static_cast<size_t>(g.inputs[i]);
    if (i < own.size()) {
      s.dtypes[id] = own[i];
      continue;
    }
    const size_t k = first_captured + i - own.size();
    if (k >= n.inputs.size() || n.inputs[k] == kNone) continue;
    s.names[id] = outer.names[static_cast<size_t>(n.inputs[k])];
    s.dtypes[id] = outer.dtypes[static_cast<size_t>(n.inputs[k])];
  }
  e.captured_from_ = own.size();
  e.scalar_inputs_ = n.op == &op::loop ? 2 : 0;
  e.write_nodes(s);
  for (const GraphOutput& o : g.outputs) results.push_back(s.dtypes[static_cast<size_t>(o.value)]);
  wire::Writer proto = e.graph_proto(s);
  outer.needed = std::max(outer.needed, s.needed);
  outer.taken = std::move(s.taken);
  outer.node_names = std::move(s.node_names);
  for (size_t i = 0; i < g.values.size(); ++i)
    if (g.values[i].kind == ValueKind::constant && is_float(g.values[i].type.dtype))
      outer.body_constants.push_back(s.names[i]);
  outer.body_constants.insert(outer.body_constants.end(), s.body_constants.begin(),
                              s.body_constants.end());
  outer.missing.insert(outer.missing.end(), s.missing.begin(), s.missing.end());
  outer.has_regions |= s.has_regions;
  return proto;
}

void Exporter::write_control(ExportState& s, const Node& n, const std::string& name) const {
  const auto dtype = [&](size_t i) { return s.dtypes[static_cast<size_t>(n.inputs[i])]; };
  std::vector<wire::Writer> attrs;
  std::vector<DType> own, results;
  size_t inputs = 1, skip = 0;  // the node's own inputs; outputs of the body that are not its
  const auto ints = [&](std::string_view key, const std::vector<int64_t>& v) {
    if (!v.empty()) attrs.push_back(attribute_proto({key, v}));
  };
  if (n.op == &op::if_else) {
    const IfAttrs& a = n.attrs.as<IfAttrs>();
    std::vector<DType> same;
    attrs.push_back(graph_attribute("then_branch", body(s, n, *a.then_branch, {}, 1, results)));
    attrs.push_back(graph_attribute("else_branch", body(s, n, *a.else_branch, {}, 1, same)));
  } else if (n.op == &op::loop) {
    const LoopAttrs& a = n.attrs.as<LoopAttrs>();
    own = {DType::i64, DType::bool_};
    inputs = 2 + static_cast<size_t>(a.carried);
    for (size_t i = 2; i < inputs; ++i) own.push_back(dtype(i));
    attrs.push_back(graph_attribute("body", body(s, n, *a.body, own, inputs, results)));
    skip = 1;
  } else {
    const ScanAttrs& a = n.attrs.as<ScanAttrs>();
    inputs = static_cast<size_t>(a.carried) + a.in_axes.size();
    for (size_t i = 0; i < inputs; ++i) own.push_back(dtype(i));
    attrs.push_back(graph_attribute("body", body(s, n, *a.body, own, inputs, results)));
    attrs.push_back(attribute_proto({"num_scan_inputs", static_cast<int64_t>(a.in_axes.size())}));
    ints("scan_input_axes", a.in_axes);
    ints("scan_input_directions", a.in_reverse);
    ints("scan_output_axes", a.out_axes);
    ints("scan_output_directions", a.out_reverse);
  }
  wire::Writer w;
  for (size_t i = 0; i < inputs && i < n.inputs.size(); ++i)
    w.text(1, n.inputs[i] == kNone ? "" : s.names[static_cast<size_t>(n.inputs[i])]);
  for (size_t k = 0; k < n.outputs.size(); ++k) {
    const size_t id = static_cast<size_t>(n.outputs[k]);
    w.text(2, s.names[id]);
    if (!graph_.value(n.outputs[k]).typed && skip + k < results.size())
      s.dtypes[id] = results[skip + k];
  }
  w.text(3, s.unique_node(name));
  w.text(4, n.op == &op::if_else ? "If" : n.op == &op::loop ? "Loop" : "Scan");
  for (wire::Writer& a : attrs) w.message(5, std::move(a));
  s.add_node(std::move(w), n);
}

}  // namespace hone::onnx
