// SPDX-License-Identifier: Apache-2.0
// From Hone's graph to an ONNX model. The graph is written at opset 17; an operator that needs a
// later one says so, and it is written again at that.
#include "core/base/file.hpp"
#include "core/import/onnx_exporter.hpp"
#include "core/import/onnx_families.hpp"

namespace hone {

namespace onnx {

namespace {

constexpr int kOldestOpset = 17, kNewestOpset = 25;

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

Status missing_error(const std::vector<std::string>& missing) {
  std::string list;
  for (const std::string& m : missing) list += format("{}{}", list.empty() ? "" : ", ", m);
  return unsupported("the model has what ONNX cannot say: {}", list);
}

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

Result<wire::Writer> Exporter::run() {
  for (int opset = kOldestOpset;;) {
    HONE_ASSIGN(ExportState state, write_nodes(opset));
    if (!state.missing.empty()) return missing_error(state.missing);
    if (state.needed <= opset) return model_proto(state);
    if (state.needed > kNewestOpset) return internal("an operator asks for opset {}", state.needed);
    opset = state.needed;
  }
}

ExportState Exporter::new_state(int opset) const {
  ExportState s{graph_, opset, opset, {}, {}, {}, {}, {}, {}, {}, {}, {}, false, {}};
  s.names.resize(graph_.values.size());
  s.dtypes.assign(graph_.values.size(), DType::f32);
  for (size_t i = 0; i < graph_.values.size(); ++i)
    if (graph_.values[i].typed) s.dtypes[i] = graph_.values[i].type.dtype;
  find_facts(s);
  return s;
}

void Exporter::find_facts(ExportState& s) const {
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

Result<ExportState> Exporter::write_nodes(int opset) {
  ExportState s = new_state(opset);
  write_nodes(s);
  return s;
}

void Exporter::write_nodes(ExportState& s) {
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

void Exporter::find_read(ExportState& s) const {
  s.read.assign(graph_.values.size(), false);
  for (const Node& n : graph_.nodes)
    for (ValueId v : n.inputs)
      if (v != kNone) s.read[static_cast<size_t>(v)] = true;
  for (const GraphOutput& o : graph_.outputs) s.read[static_cast<size_t>(o.value)] = true;
}

void Exporter::set_dtypes(ExportState& s, const Node& n, OutType out) const {
  const auto input = [&](size_t i) {
    return i < n.inputs.size() && n.inputs[i] != kNone ? s.dtypes[static_cast<size_t>(n.inputs[i])]
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
void Exporter::name_values(ExportState& s) {
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
      wish =
          format("{}_output_{}", n.name.empty() ? format("{}_{}", n.op->name, v.producer) : n.name,
                 v.output_index);
    }
    s.names[i] = s.unique(wish.empty() ? format("Constant_{}", i) : wish);
  }
}

// An output that is another output, an input or a weight needs a node that gives it a second
// name.
void Exporter::write_output_aliases(ExportState& s) {
  for (const auto& [output, name] : aliases_) {
    wire::Writer w;
    w.text(1, s.names[static_cast<size_t>(output->value)]);
    w.text(2, name);
    w.text(4, "Identity");
    s.nodes.message(1, std::move(w));
  }
}

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
