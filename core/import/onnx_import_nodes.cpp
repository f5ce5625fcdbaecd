// SPDX-License-Identifier: Apache-2.0
// The nodes of a graph, one after the other: through the table of rules, or into the function that
// the file has for them.
#include <algorithm>
#include <charconv>

#include "core/import/onnx_families.hpp"
#include "core/import/onnx_importer.hpp"

namespace hone::onnx {

namespace {

constexpr size_t kMaxNodes = size_t{1} << 22;  // functions unfolded

// Operators that move narrow integers about, and those that know their range. Any other would take
// them for the type that holds them, and not wrap around or saturate where they end.
constexpr std::string_view kMovesNarrow[] = {"Flatten", "Gather",  "Identity",  "Reshape",
                                             "Slice",   "Squeeze", "Transpose", "Unsqueeze"};
constexpr std::string_view kKnowsNarrow[] = {"Cast",           "CastLike", "DequantizeLinear",
                                             "QuantizeLinear", "Shape",    "Size"};

bool one_of(std::string_view name, std::span<const std::string_view> names) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

const ImportRule* find_rule(std::string_view domain, std::string_view op_type, int64_t opset) {
  const ImportRule* best = nullptr;
  const auto look_in = [&](std::span<const ImportRule> rules) {
    for (const ImportRule& r : rules)
      if (r.op_type == op_type && r.domain == domain && r.since <= opset &&
          (!best || r.since > best->since))
        best = &r;
  };
#define HONE_ONNX_FAMILY(name) look_in(name##_imports());
  HONE_ONNX_FAMILIES(HONE_ONNX_FAMILY)
#undef HONE_ONNX_FAMILY
  return best;
}

// The checkpointed region that a node is marked with, or the one that is all around it.
Result<int32_t> region_of(const NodeProto& n, std::string_view name, int32_t around) {
  for (const KeyValue& kv : n.metadata_props) {
    if (kv.key != kRegionKey) continue;
    int32_t region = 0;
    const char* const end = kv.value.data() + kv.value.size();
    const auto [stop, problem] = std::from_chars(kv.value.data(), end, region);
    if (problem != std::errc() || stop != end || region < 1)
      return invalid_model("node '{}' ({}): its '{}' is '{}', expected a number above 0", name,
                           n.op_type, kRegionKey, kv.value);
    return region;
  }
  return around;
}

int64_t opset_of(std::span<const OperatorSetId> opsets, std::string_view domain) {
  for (const OperatorSetId& o : opsets)
    if (o.domain == domain || (is_standard(o.domain) && is_standard(domain))) return o.version;
  return 1;  // files of IR version 1 and 2 do not say
}

// An attribute of the body may stand for one of the call, or for the function's default; without
// either it is left out.
void resolve_attributes(NodeProto& inner, const NodeProto& call, const FunctionProto& f) {
  std::vector<AttributeProto> resolved;
  for (AttributeProto& a : inner.attributes) {
    const AttributeProto* from = &a;
    if (!a.ref_attr_name.empty()) {
      from = nullptr;
      for (const AttributeProto& d : f.defaults)
        if (d.name == a.ref_attr_name) from = &d;
      for (const AttributeProto& given : call.attributes)
        if (given.name == a.ref_attr_name) from = &given;
    }
    if (!from) continue;
    resolved.push_back(*from);
    resolved.back().name = a.name;
  }
  inner.attributes = std::move(resolved);
}

}  // namespace

std::string_view name_of(NarrowType t) { return enum_names(t)[static_cast<size_t>(t)]; }

bool is_gradient(const NodeProto& n) {
  return n.domain == "ai.onnx.preview.training" && n.op_type == "Gradient";
}

void collect_read(std::span<const NodeProto> nodes, Names& read) {
  for (const NodeProto& n : nodes) {
    read.insert(n.inputs.begin(), n.inputs.end());
    for (const AttributeProto& a : n.attributes) {
      for (const GraphProto& g : a.graphs) {
        collect_read(g.nodes, read);
        for (const ValueInfoProto& o : g.outputs) read.insert(o.name);
      }
      if (is_gradient(n) && a.name == "y") read.insert(a.s);
      if (is_gradient(n)) read.insert(a.strings.begin(), a.strings.end());
    }
  }
}

Status Importer::import_nodes(std::span<const NodeProto> nodes, const Body& body) {
  for (size_t i = 0; i < nodes.size(); ++i) {
    if (++imported_ > kMaxNodes)
      return invalid_model("the model has more than {} nodes", kMaxNodes);
    const NodeProto& n = nodes[i];
    const std::string name = n.name.empty() ? format("{}{}_{}", body.prefix, n.op_type, i)
                                            : format("{}{}", body.prefix, n.name);
    const int32_t around = b_.region();
    HONE_ASSIGN(const int32_t region, region_of(n, name, around));
    b_.set_region(region);
    HONE_TRY(import_node(n, name, body));
    b_.set_region(around);
  }
  return {};
}

Status Importer::import_node(const NodeProto& n, const std::string& name, const Body& body) {
  for (std::string_view out : n.outputs)
    if (!out.empty() && !body.scope.emplace(out, Value()).second)
      return invalid_model("node '{}' ({}): the value '{}' is made twice", name, n.op_type, out);
  const int64_t opset = opset_of(body.opsets, n.domain);
  const bool control =
      is_standard(n.domain) && (n.op_type == "If" || n.op_type == "Loop" || n.op_type == "Scan");
  if (control) return import_control(n, opset, name, body);
  if (is_gradient(n)) return import_gradient(n, name, body);
  const ImportRule* rule = find_rule(is_standard(n.domain) ? "" : n.domain, n.op_type, opset);
  const FunctionProto* function = rule ? nullptr : find_function(n);
  if (!rule && !function) {
    missing(is_standard(n.domain) ? format("{}-{}", n.op_type, opset)
                                  : format("{}.{}-{}", n.domain, n.op_type, opset),
            name);
    return {};
  }
  std::vector<Value> inputs;
  HONE_ASSIGN(const bool complete, resolve_inputs(n, name, body, inputs));
  if (!complete) return {};  // what it needs is missing and reported already
  if (function) return call(*function, n, inputs, name, body);
  return apply(*rule, n, opset, std::move(inputs), name, body);
}

// The values that a node reads; whether all of them could be imported.
Result<bool> Importer::resolve_inputs(const NodeProto& n, const std::string& name, const Body& body,
                                      std::vector<Value>& inputs) {
  bool complete = true;
  for (std::string_view in : n.inputs) {
    if (in.empty()) {
      inputs.emplace_back();
      continue;
    }
    if (!body.scope.contains(in) && !capture(in, body.scope))
      return invalid_model("node '{}' ({}): no earlier node makes its input '{}'", name, n.op_type,
                           in);
    inputs.push_back(body.scope[in]);
    complete &= inputs.back().valid();
  }
  return complete;
}

Status Importer::apply(const ImportRule& rule, const NodeProto& n, int64_t opset,
                       std::vector<Value> inputs, const std::string& name, const Body& body) {
  b_.set_scope(name);
  std::vector<bool> wanted;
  for (std::string_view out : n.outputs) wanted.push_back(!out.empty() && body.read.contains(out));
  NarrowType narrow = NarrowType::none;
  for (const Value& v : inputs)
    if (v.valid() && narrow == NarrowType::none) narrow = state_.narrow_of(v);
  const bool moves = rule.domain.empty() && one_of(rule.op_type, kMovesNarrow);
  const bool knows = rule.domain.empty() && one_of(rule.op_type, kKnowsNarrow);
  if (narrow != NarrowType::none && !moves && !knows) {
    missing(format("{}-{} of {}", n.op_type, opset, name_of(narrow)), name);
    return {};
  }
  ImportCtx c(state_, rule, n, opset, std::move(inputs), std::move(wanted));
  if (opset < 6) c.ignore("consumed_inputs");  // a hint about memory
  rule.import(c);
  if (!c.status().ok())
    return invalid_model("node '{}' ({}): {}", name, n.op_type, c.status().message());
  std::string lack = c.missing();
  if (lack.empty() && !c.unread_attribute().empty())
    lack = format("with the attribute '{}'", c.unread_attribute());
  if (lack.empty()) HONE_TRY(builder_status());
  for (int k = 0; k < c.outputs() && lack.empty(); ++k)
    if (c.wants(k) && !c.out(k).valid()) lack = format("with output {}", k);
  if (!lack.empty()) {
    missing(format("{}-{} {}", n.op_type, opset, lack), name);
    return {};
  }
  for (int k = 0; k < c.outputs(); ++k) {
    if (!c.wants(k)) continue;
    const std::string_view out = n.outputs[static_cast<size_t>(k)];
    body.scope[out] = c.out(k);
    if (moves) c.set_narrow(k, narrow);
    give_name(c.out(k), format("{}{}", body.prefix, out));
  }
  return {};
}

const FunctionProto* Importer::find_function(const NodeProto& n) const {
  for (const FunctionProto& f : model_.functions)
    if (f.name == n.op_type && f.domain == n.domain && f.overload == n.overload) return &f;
  return nullptr;
}

// A function of the file: its body is imported in place of the call.
Status Importer::call(const FunctionProto& f, const NodeProto& n, std::span<const Value> inputs,
                      const std::string& name, const Body& from) {
  if (from.depth >= kMaxCallDepth)
    return invalid_model("node '{}': functions call each other deeper than {}", name,
                         kMaxCallDepth);
  Scope scope;
  for (size_t i = 0; i < f.inputs.size(); ++i)
    scope[f.inputs[i]] = i < inputs.size() ? inputs[i] : Value();
  std::vector<NodeProto> nodes = f.nodes;
  for (NodeProto& inner : nodes) resolve_attributes(inner, n, f);
  Names read(f.outputs.begin(), f.outputs.end());
  collect_read(nodes, read);
  HONE_TRY(import_nodes(nodes, {scope, read, f.opset_import, name + "/", from.depth + 1}));
  for (size_t i = 0; i < f.outputs.size() && i < n.outputs.size(); ++i) {
    const auto out = scope.find(f.outputs[i]);
    if (out == scope.end())
      return invalid_model("function '{}': nothing makes its output '{}'", f.name, f.outputs[i]);
    if (!n.outputs[i].empty()) from.scope[n.outputs[i]] = out->second;
  }
  return {};
}

// A file that no operator accepts is a bad file, whatever an operator says of its arguments.
Status Importer::builder_status() const {
  const Status& s = b_.status();
  return s.code() == Code::invalid_argument ? invalid_model("{}", s.message()) : s;
}

void Importer::give_name(Value v, std::string name) {
  ValueInfo& info = graph_.value(v.id());
  if (info.name.empty() && info.kind != ValueKind::input && names_.insert(name).second)
    info.name = std::move(name);
}

}  // namespace hone::onnx
