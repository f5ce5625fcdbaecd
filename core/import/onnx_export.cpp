// SPDX-License-Identifier: Apache-2.0
// From Hone's graph to an ONNX model. The graph is written at opset 17; an operator that needs a
// later one says so, and it is written again at that.
#include <algorithm>

#include "core/base/file.hpp"
#include "core/import/onnx_families.hpp"
#include "core/import/onnx_weights.hpp"
#include "hone/control.hpp"

namespace hone {

namespace onnx {

namespace {

constexpr int kOldestOpset = 17, kNewestOpset = 25;
constexpr int64_t kInlineBytes = 1024;         // smaller tensors stay in the model file
constexpr uint64_t kExternalAlignment = 4096;  // so that runtimes can map a tensor by itself

// The IR version that came with an opset, and the one with metadata of nodes.
int64_t ir_version_of(int opset) {
  return opset >= 25   ? 13
         : opset >= 24 ? 12
         : opset >= 23 ? 11
         : opset >= 21 ? 10
         : opset >= 19 ? 9
                       : 8;
}
constexpr int64_t kNodeMetadata = 10;

const ExportRule* find_rule(const OpDef* op) {
  const ExportRule* found = nullptr;
  const auto look_in = [&](std::span<const ExportRule> rules) {
    for (const ExportRule& r : rules)
      if (r.op == op) found = &r;
  };
#define HONE_ONNX_FAMILY(name) look_in(name##_exports());
  HONE_ONNX_FAMILIES(HONE_ONNX_FAMILY)
#undef HONE_ONNX_FAMILY
  return found;
}

// The dtype that an operator's attributes name: cast's `to`, fill's `dtype`.
class FindDType final : public SomeFields {
 public:
  DType found = DType::f32;
  using SomeFields::field;
  void field(std::string_view, DType& v) override { found = v; }
};

// Tensors whose bytes go to a second file.
struct External {
  std::string location;
  std::vector<const TensorData*> tensors;
  uint64_t bytes = 0;
};

class Exporter {
 public:
  Exporter(const Model& model, External* external)
      : model_(model), graph_(model.graph), external_(external) {}
  // For a body.
  Exporter(const Model& model, const Graph& body, External* external)
      : model_(model), graph_(body), external_(external) {}

  Result<wire::Writer> run() {
    for (int opset = kOldestOpset;;) {
      HONE_ASSIGN(ExportState state, write_nodes(opset));
      if (!state.missing.empty()) return missing_error(state.missing);
      if (state.needed <= opset) return model_proto(state);
      if (state.needed > kNewestOpset)
        return internal("an operator asks for opset {}", state.needed);
      opset = state.needed;
    }
  }

 private:
  static Status missing_error(const std::vector<std::string>& missing) {
    std::string list;
    for (const std::string& m : missing) list += format("{}{}", list.empty() ? "" : ", ", m);
    return unsupported("the model has what ONNX cannot say: {}", list);
  }

  ExportState new_state(int opset) const {
    ExportState s{graph_, opset, opset, {}, {}, {}, {}, {}, {}, {}, {}, {}, false, {}};
    s.names.resize(graph_.values.size());
    s.dtypes.assign(graph_.values.size(), DType::f32);
    for (size_t i = 0; i < graph_.values.size(); ++i)
      if (graph_.values[i].typed) s.dtypes[i] = graph_.values[i].type.dtype;
    find_facts(s);
    return s;
  }

  void find_facts(ExportState& s) const {
    s.facts.resize(graph_.values.size());
    for (size_t i = 0; i < graph_.values.size(); ++i)
      if (graph_.values[i].typed) s.facts[i] = facts_of(graph_.values[i].type);
    for (const Node& n : graph_.nodes) {
      std::vector<const Facts*> in;
      for (ValueId v : n.inputs)
        in.push_back(v == kNone ? nullptr : &s.facts[static_cast<size_t>(v)]);
      for (size_t k = 0; k < n.outputs.size(); ++k)
        if (!graph_.value(n.outputs[k]).typed)
          s.facts[static_cast<size_t>(n.outputs[k])] = facts_of_output(*n.op, n.attrs, k, in);
    }
  }

  Result<ExportState> write_nodes(int opset) {
    ExportState s = new_state(opset);
    write_nodes(s);
    return s;
  }

  void write_nodes(ExportState& s) {
    name_values(s);
    find_read(s);
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      const Node& n = graph_.nodes[i];
      if (n.op->has_bodies) {
        write_control(s, n, n.name.empty() ? format("{}_{}", n.op->name, i) : n.name);
        continue;
      }
      const ExportRule* rule = find_rule(n.op);
      if (!rule) {
        s.missing.push_back(label(n));
        continue;
      }
      set_dtypes(s, n, rule->out);
      ExportCtx c(s, *rule, n, n.name.empty() ? format("{}_{}", n.op->name, i) : n.name);
      rule->write ? rule->write(c) : c.write(rule->op_type, c.inputs());
    }
    write_output_aliases(s);
  }

  // A body is a graph within the node. Names of values are unique over all graphs; those of
  // captured values are the names outside.
  wire::Writer body(ExportState& outer, const Node& n, const Graph& g, std::span<const DType> own,
                    size_t first_captured, std::vector<DType>& results) const {
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
    for (const GraphOutput& o : g.outputs)
      results.push_back(s.dtypes[static_cast<size_t>(o.value)]);
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

  static wire::Writer graph_attribute(std::string_view name, wire::Writer graph) {
    wire::Writer a;
    a.text(1, name);
    a.message(6, std::move(graph));
    a.integer(20, static_cast<int64_t>(AttributeType::graph));
    return a;
  }

  void write_control(ExportState& s, const Node& n, const std::string& name) const {
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

  void find_read(ExportState& s) const {
    s.read.assign(graph_.values.size(), false);
    for (const Node& n : graph_.nodes)
      for (ValueId v : n.inputs)
        if (v != kNone) s.read[static_cast<size_t>(v)] = true;
    for (const GraphOutput& o : graph_.outputs) s.read[static_cast<size_t>(o.value)] = true;
  }

  void set_dtypes(ExportState& s, const Node& n, OutType out) const {
    const auto input = [&](size_t i) {
      return i < n.inputs.size() && n.inputs[i] != kNone
                 ? s.dtypes[static_cast<size_t>(n.inputs[i])]
                 : DType::f32;
    };
    FindDType attribute;
    n.attrs.visit(attribute);
    const bool has_third = n.inputs.size() > 2 && n.inputs[2] != kNone;
    for (size_t k = 0; k < n.outputs.size(); ++k) {
      const ValueId v = n.outputs[k];
      if (graph_.value(v).typed) continue;
      DType& dtype = s.dtypes[static_cast<size_t>(v)];
      switch (out) {
        case OutType::first:
          dtype = input(0);
          break;
        case OutType::second:
          dtype = input(1);
          break;
        case OutType::third:
          dtype = input(2);
          break;
        case OutType::eighth:
          dtype = input(7);
          break;
        case OutType::boolean:
          dtype = DType::bool_;
          break;
        case OutType::index:
          dtype = DType::i64;
          break;
        case OutType::first_and_mask:
          dtype = k == 0 ? input(0) : DType::bool_;
          break;
        case OutType::first_and_index:
          dtype = k == 0 ? input(0) : DType::i64;
          break;
        case OutType::i32:
          dtype = DType::i32;
          break;
        case OutType::attribute:
          dtype = attribute.found;
          break;
        case OutType::third_or_attribute:
          dtype = has_third ? input(2) : attribute.found;
          break;
        case OutType::u8_and_scale:
          dtype = k == 1 ? DType::f32 : DType::u8;
          break;
      }
    }
  }

  // Inputs, weights and outputs keep their names whatever happens; the rest takes what is left.
  void name_values(ExportState& s) {
    aliases_.clear();
    for (size_t i = 0; i < graph_.values.size(); ++i)
      if (s.names[i].empty() && graph_.values[i].kind != ValueKind::node &&
          !graph_.values[i].name.empty())
        s.names[i] = s.unique(graph_.values[i].name);
    for (const GraphOutput& o : graph_.outputs) {
      std::string& name = s.names[static_cast<size_t>(o.value)];
      if (name == o.name) continue;
      const std::string free = s.unique(o.name);
      if (name.empty())
        name = free;
      else
        aliases_.push_back({&o, free});
    }
    for (size_t i = 0; i < graph_.values.size(); ++i) {
      const ValueInfo& v = graph_.values[i];
      if (!s.names[i].empty()) continue;
      std::string wish = v.name;
      if (wish.empty() && v.kind == ValueKind::node) {
        const Node& n = graph_.node(v.producer);
        wish = format("{}_output_{}",
                      n.name.empty() ? format("{}_{}", n.op->name, v.producer) : n.name,
                      v.output_index);
      }
      s.names[i] = s.unique(wish.empty() ? format("Constant_{}", i) : wish);
    }
  }

  // An output that is another output, an input or a weight needs a node that gives it a second
  // name.
  void write_output_aliases(ExportState& s) {
    for (const auto& [output, name] : aliases_) {
      wire::Writer w;
      w.text(1, s.names[static_cast<size_t>(output->value)]);
      w.text(2, name);
      w.text(4, "Identity");
      s.nodes.message(1, std::move(w));
    }
  }

  wire::Writer value_info(const std::string& name, DType dtype, const Shape* shape) const {
    wire::Writer tensor, type, info;
    tensor.integer(1, static_cast<int64_t>(elem_type_of(dtype)));
    if (shape) {
      wire::Writer dims;
      for (int64_t d : shape->dims()) {
        wire::Writer dim;
        d >= 0 ? dim.integer(1, d) : dim.text(2, graph_.dim_names[static_cast<size_t>(-d - 1)]);
        dims.message(1, std::move(dim));
      }
      tensor.message(2, std::move(dims));
    }
    type.message(1, std::move(tensor));
    info.text(1, name);
    info.message(2, std::move(type));
    return info;
  }

  wire::Writer weight(const std::string& name, const TensorData& t) {
    if (!external_ || t.bytes() < kInlineBytes) return tensor_proto(name, t);
    external_->bytes =
        (external_->bytes + kExternalAlignment - 1) / kExternalAlignment * kExternalAlignment;
    wire::Writer w = external_tensor_proto(name, t, external_->location, external_->bytes);
    external_->tensors.push_back(&t);
    external_->bytes += static_cast<uint64_t>(t.bytes());
    return w;
  }

  wire::Writer graph_proto(ExportState& s) {
    wire::Writer g;
    g.append(std::move(s.nodes));
    g.text(2, graph_.name.empty() ? "graph" : graph_.name);
    for (size_t i = 0; i < graph_.values.size(); ++i) {
      const ValueInfo& v = graph_.values[i];
      if (v.kind == ValueKind::constant || v.kind == ValueKind::state)
        g.message(5, weight(s.names[i], v.data));
    }
    g.append(std::move(s.initializers));
    for (size_t i = 0; i < graph_.inputs.size() && i < captured_from_; ++i) {
      const ValueId id = graph_.inputs[i];
      const ValueInfo& v = graph_.value(id);
      const Shape scalar = {};
      const Shape* shape = v.typed ? &v.type.shape : i < scalar_inputs_ ? &scalar : nullptr;
      g.message(11, value_info(s.names[static_cast<size_t>(id)], s.dtypes[static_cast<size_t>(id)],
                               shape));
    }
    for (const GraphOutput& o : graph_.outputs) {
      const ValueInfo& v = graph_.value(o.value);
      const Shape* shape = o.has_declared ? &o.declared : v.typed ? &v.type.shape : nullptr;
      g.message(12, value_info(output_name(s, o), s.dtypes[static_cast<size_t>(o.value)], shape));
    }
    return g;
  }

  std::string output_name(const ExportState& s, const GraphOutput& o) const {
    for (const auto& [output, name] : aliases_)
      if (output == &o) return name;
    return s.names[static_cast<size_t>(o.value)];
  }

  std::string meta(const char* key) const {
    const auto found = model_.metadata.find(key);
    return found == model_.metadata.end() ? "" : found->second;
  }

  // What the importer's rules could not find out: names of each kind of weight, one a line.
  void add_weight_kinds(wire::Writer& m, const ExportState& s) const {
    std::string parameters, frozen, buffers, constants;
    for (size_t i = 0; i < graph_.values.size(); ++i) {
      const ValueInfo& v = graph_.values[i];
      const bool parameter = v.kind == ValueKind::state && v.role == StateRole::parameter;
      std::string* list = parameter && v.trainable                                  ? &parameters
                          : parameter                                               ? &frozen
                          : v.kind == ValueKind::state                              ? &buffers
                          : v.kind == ValueKind::constant && is_float(v.type.dtype) ? &constants
                                                                                    : nullptr;
      if (list) *list += format("{}{}", list->empty() ? "" : "\n", s.names[i]);
    }
    for (const std::string& name : s.body_constants)
      constants += format("{}{}", constants.empty() ? "" : "\n", name);
    add_metadata(m, kParametersKey, parameters);
    add_metadata(m, kFrozenKey, frozen);
    add_metadata(m, kBuffersKey, buffers);
    add_metadata(m, kConstantsKey, constants);
  }

  static void add_metadata(wire::Writer& m, std::string_view key, std::string_view value) {
    if (value.empty()) return;
    wire::Writer w;
    w.text(1, key);
    w.text(2, value);
    m.message(14, std::move(w));
  }

  wire::Writer model_proto(ExportState& s) {
    wire::Writer m, opset;
    const int64_t ir_version = ir_version_of(s.opset);
    m.integer(1, s.has_regions ? std::max(ir_version, kNodeMetadata) : ir_version);
    opset.text(1, "");
    opset.integer(2, s.opset);
    m.message(8, std::move(opset));
    m.text(2, "hone");
    m.text(3, HONE_VERSION);
    if (const std::string domain = meta("domain"); !domain.empty()) m.text(4, domain);
    if (const std::string doc = meta("doc"); !doc.empty()) m.text(6, doc);
    for (const auto& [key, value] : model_.metadata) {
      const bool has_own_field =
          key == "domain" || key == "doc" || key == "ir_version" || key == "opset";
      if (!has_own_field)
        add_metadata(m, key.starts_with("onnx.") ? std::string_view(key).substr(5) : key, value);
    }
    add_weight_kinds(m, s);
    m.message(7, graph_proto(s));
    return m;
  }

  struct Alias {
    const GraphOutput* output;
    std::string name;
  };

  const Model& model_;
  const Graph& graph_;
  External* external_;
  std::vector<Alias> aliases_;
  size_t scalar_inputs_ = 0;                                   // a loop's iteration and condition
  size_t captured_from_ = std::numeric_limits<size_t>::max();  // inputs of a body that are not its
};

int64_t weight_bytes(const Graph& g) {
  int64_t bytes = 0;
  for (const ValueInfo& v : g.values)
    if (v.data.defined()) bytes += v.data.bytes();
  return bytes;
}

Status write_external(const External& external, const std::string& path) {
  HONE_ASSIGN(AtomicFile file, AtomicFile::create(path));
  for (const TensorData* t : external.tensors) {
    HONE_TRY(file.align(kExternalAlignment));
    HONE_TRY(file.append(t->as_bytes()));
  }
  return file.commit();
}

}  // namespace

}  // namespace onnx

Status export_onnx(const Model& model, const std::string& path, const OnnxExportOptions& options) {
  const bool outside = onnx::weight_bytes(model.graph) > options.external_data_bytes;
  onnx::External external{path.substr(path.find_last_of('/') + 1) + ".data", {}, 0};
  HONE_ASSIGN(const wire::Writer proto, onnx::Exporter(model, outside ? &external : nullptr).run());
  // The weights first: a model must not name a file that is not there yet.
  if (outside) HONE_TRY(onnx::write_external(external, path + ".data"));
  HONE_ASSIGN(AtomicFile file, AtomicFile::create(path));
  HONE_TRY(proto.each_piece([&](std::span<const std::byte> piece) { return file.append(piece); }));
  return file.commit();
}

}  // namespace hone
