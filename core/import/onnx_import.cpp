// SPDX-License-Identifier: Apache-2.0
// From an ONNX model to Hone's graph: inputs, weights, then node by node through the table of
// rules. Everything Hone lacks is gathered on the way, so that one error can list it all.
#include <algorithm>
#include <charconv>
#include <deque>
#include <unordered_set>

#include "core/base/file.hpp"
#include "core/base/platform.hpp"
#include "core/base/sha256.hpp"
#include "core/import/onnx_families.hpp"
#include "core/import/onnx_gradient.hpp"
#include "core/import/onnx_weights.hpp"
#include "hone/control.hpp"
#include "hone/simplify.hpp"
#include "hone/specialise.hpp"

namespace hone {

namespace onnx {

namespace {

// The newest operator set whose meanings the rules are known to follow.
constexpr int64_t kNewestOpset = 25;
// Functions may call functions: so deep, and so many nodes in all, that a small file cannot unfold
// into an endless graph.
constexpr int kMaxCallDepth = 32;
// Of Scan, since opset 9.
constexpr std::string_view kDirections = "scan_input_directions";
constexpr size_t kMaxNodes = size_t{1} << 22;

// Operators that move narrow integers about, and those that know their range. Any other would take
// them for the type that holds them, and not wrap around or saturate where they end.
constexpr std::string_view kMovesNarrow[] = {"Flatten", "Gather",  "Identity",  "Reshape",
                                             "Slice",   "Squeeze", "Transpose", "Unsqueeze"};
constexpr std::string_view kKnowsNarrow[] = {"Cast",           "CastLike", "DequantizeLinear",
                                             "QuantizeLinear", "Shape",    "Size"};

bool one_of(std::string_view name, std::span<const std::string_view> names) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

std::string_view name_of(NarrowType t) { return enum_names(t)[static_cast<size_t>(t)]; }

bool is_gradient(const NodeProto& n) {
  return n.domain == "ai.onnx.preview.training" && n.op_type == "Gradient";
}

bool has_attribute(const NodeProto& n, std::string_view name) {
  return std::any_of(n.attributes.begin(), n.attributes.end(),
                     [&](const AttributeProto& a) { return a.name == name; });
}

bool is_standard(std::string_view domain) { return domain.empty() || domain == "ai.onnx"; }

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

// Values by their names in the file. An invalid value stands for one that something missing would
// have computed.
using Scope = std::unordered_map<std::string_view, Value>;

using Names = std::unordered_set<std::string_view>;

// Where nodes stand: in the graph or in a function it calls.
struct Body {
  Scope& scope;
  const Names& read;  // what nodes or outputs read
  std::span<const OperatorSetId> opsets;
  std::string prefix;  // of node names
  int depth;
};

class Importer {
 public:
  Importer(const ModelProto& model, TensorReader& tensors, const OnnxImportOptions& options)
      : model_(model),
        tensors_(tensors),
        options_(options),
        b_(graph_, Composites::keep),
        state_{b_, tensors, options, {}, {}, {}} {
    b_.set_fold_limit(kFoldLimitBytes);
  }
  // For the body of a node that stands in `at` of `outer`.
  Importer(Importer& outer, Scope& at) : Importer(outer.model_, outer.tensors_, outer.options_) {
    outer_ = &outer;
    outer_scope_ = &at;
    imported_ = outer.imported_;
  }

  Result<Graph> run() {
    graph_.name = model_.graph.name;
    HONE_TRY(check_opsets());
    Scope scope;
    Names read;
    collect_read(model_.graph.nodes, read);
    for (const ValueInfoProto& o : model_.graph.outputs) read.insert(o.name);
    HONE_TRY(add_inputs(scope));
    HONE_TRY(add_initializers(scope, read));
    HONE_TRY(import_nodes(model_.graph.nodes, {scope, read, model_.opset_import, "", 0}));
    HONE_TRY(add_outputs(scope));
    if (!state_.missing.empty()) return missing_error();
    HONE_TRY(remove_dead(graph_));
    return std::move(graph_);
  }

 private:
  void missing(std::string what, std::string node) {
    state_.missing.push_back({std::move(what), std::move(node)});
  }

  Status check_opsets() {
    for (const OperatorSetId& o : model_.opset_import)
      if (is_standard(o.domain) && o.version > kNewestOpset)
        return unsupported("the model uses ONNX opset {}, newer than {}, the newest known here",
                           o.version, kNewestOpset);
    return {};
  }

  // "?" and the like are what some exporters call an extent they know nothing of: each is a
  // dimension of its own.
  int64_t extent(const Dimension& d, std::string_view value, size_t axis) {
    if (d.value && *d.value >= 0) return *d.value;
    const bool named = !d.param.empty() && d.param != "?" && d.param != "-1" && d.param != "None";
    if (named) return graph_.dim(d.param);
    std::string name = format("{}_{}", value, axis);
    while (std::find(graph_.dim_names.begin(), graph_.dim_names.end(), name) !=
           graph_.dim_names.end())
      name += "_";
    return graph_.dim(name);
  }

  Result<Shape> shape_of(const ValueInfoProto& v) {
    std::vector<int64_t> dims;
    for (size_t i = 0; i < v.dims.size(); ++i) dims.push_back(extent(v.dims[i], v.name, i));
    auto shape = Shape::make(dims);
    return shape.ok() ? std::move(shape) : shape.status().with_context(format("'{}'", v.name));
  }

  Status add_inputs(Scope& scope) {
    Names weights;
    for (const TensorProto& t : model_.graph.initializers) weights.insert(t.name);
    // Named dimensions first: a made-up name must not take one of the file's.
    for (const ValueInfoProto& v : model_.graph.inputs)
      for (const Dimension& d : v.dims)
        if (!d.value && !weights.contains(v.name) && !d.param.empty()) (void)extent(d, v.name, 0);
    for (const ValueInfoProto& v : model_.graph.inputs) {
      if (weights.contains(v.name)) continue;
      if (scope.contains(v.name)) return invalid_model("the input '{}' occurs twice", v.name);
      const NarrowType narrow = narrow_of(v.elem_type);
      const auto dtype = narrow == NarrowType::none ? dtype_of(v.elem_type) : held_in(narrow);
      Value& value = scope[v.name];
      if (v.kind != ValueInfoProto::Kind::tensor) {
        missing("an input that is no tensor", std::string(v.name));
      } else if (!dtype) {
        missing(format("an input of {}", v.elem_type), std::string(v.name));
      } else if (!v.has_shape) {
        missing("an input whose rank is not given", std::string(v.name));
      } else {
        HONE_ASSIGN(const Shape shape, shape_of(v));
        value = b_.input({*dtype, shape}, std::string(v.name));
        state_.set_narrow(value, narrow);
        names_.insert(std::string(v.name));
      }
    }
    return {};
  }

  static void collect_read(std::span<const NodeProto> nodes, Names& read) {
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

  Status add_initializers(Scope& scope, const Names& read) {
    if (model_.graph.sparse_initializers) missing("a sparse initializer", "");
    const auto kinds = classify_weights(model_, tensors_, options_);
    for (const TensorProto& t : model_.graph.initializers) {
      if (scope.contains(t.name)) return invalid_model("the initializer '{}' occurs twice", t.name);
      Value& value = scope[t.name];
      if (!read.contains(t.name)) continue;
      auto data = tensors_.read(t, NarrowElements::widen);
      if (data.status().code() == Code::unsupported) {
        missing(data.status().message(), "");
        continue;
      }
      if (!data.ok()) return data.status();
      value = add_weight(std::move(*data), std::string(t.name), kinds.at(t.name));
      state_.set_narrow(value, narrow_of(t.data_type));
      names_.insert(std::string(t.name));
    }
    return {};
  }

  Value add_weight(TensorData data, std::string name, Weight kind) {
    if (kind == Weight::constant) return b_.constant(std::move(data), std::move(name));
    const Value v = b_.state(kind == Weight::buffer ? StateRole::buffer : StateRole::parameter,
                             std::move(data), std::move(name));
    graph_.value(v.id()).trainable = kind == Weight::parameter;
    return v;
  }

  Status import_nodes(std::span<const NodeProto> nodes, const Body& body) {
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

  // The checkpointed region that a node is marked with, or the one that is all around it.
  static Result<int32_t> region_of(const NodeProto& n, std::string_view name, int32_t around) {
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

  Status import_node(const NodeProto& n, const std::string& name, const Body& body) {
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
  Result<bool> resolve_inputs(const NodeProto& n, const std::string& name, const Body& body,
                              std::vector<Value>& inputs) {
    bool complete = true;
    for (std::string_view in : n.inputs) {
      if (in.empty()) {
        inputs.emplace_back();
        continue;
      }
      if (!body.scope.contains(in) && !capture(in, body.scope))
        return invalid_model("node '{}' ({}): no earlier node makes its input '{}'", name,
                             n.op_type, in);
      inputs.push_back(body.scope[in]);
      complete &= inputs.back().valid();
    }
    return complete;
  }

  Status apply(const ImportRule& rule, const NodeProto& n, int64_t opset, std::vector<Value> inputs,
               const std::string& name, const Body& body) {
    b_.set_scope(name);
    std::vector<bool> wanted;
    for (std::string_view out : n.outputs)
      wanted.push_back(!out.empty() && body.read.contains(out));
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

  // dy/dx for each x that the attribute xs names, of what the graph has computed so far. The inputs
  // are the values of xs and zs; others than those would be another graph.
  Status import_gradient(const NodeProto& n, const std::string& name, const Body& body) {
    std::vector<std::string_view> names;
    std::string_view y;
    size_t count = 0;
    for (const AttributeProto& a : n.attributes) {
      if (a.name == "y") y = a.s;
      if (a.name == "xs") count = a.strings.size();
      if (a.name == "xs" || a.name == "zs")
        names.insert(a.name == "xs" ? names.begin() : names.end(), a.strings.begin(),
                     a.strings.end());
    }
    const auto target = body.scope.find(y);
    if (count == 0 || names.size() != n.inputs.size() || target == body.scope.end())
      return invalid_model("node '{}' (Gradient): has {} inputs for {} names, and y '{}'", name,
                           n.inputs.size(), names.size(), y);
    std::vector<Value> inputs;
    HONE_ASSIGN(const bool complete, resolve_inputs(n, name, body, inputs));
    if (!complete || !target->second.valid()) return {};
    for (size_t i = 0; i < inputs.size(); ++i) {
      const auto named = body.scope.find(names[i]);
      if (named != body.scope.end() && named->second.valid() && inputs[i].valid() &&
          named->second.id() == inputs[i].id())
        continue;
      missing("Gradient-1 at values that the graph has not computed with", name);
      return {};
    }
    b_.set_scope(name);
    const auto grads = gradients_within(b_, target->second, std::span(inputs).first(count));
    if (grads.status().code() == Code::unsupported) {
      missing(format("Gradient-1 {}", grads.status().message()), name);
      return {};
    }
    if (!grads.ok()) return invalid_model("node '{}': {}", name, grads.status().message());
    for (size_t k = 0; k < n.outputs.size() && k < count; ++k) {
      if (n.outputs[k].empty()) continue;
      body.scope[n.outputs[k]] = (*grads)[k];
      give_name((*grads)[k], format("{}{}", body.prefix, n.outputs[k]));
    }
    return builder_status();
  }

  // ---- bodies

  // Puts a value from outside into `scope` of this body: a constant as such, anything else as an
  // input. Whether there is one of that name.
  bool capture(std::string_view name, Scope& scope) {
    if (!outer_) return false;
    auto found = outer_scope_->find(name);
    if (found == outer_scope_->end()) {
      if (!outer_->capture(name, *outer_scope_)) return false;
      found = outer_scope_->find(name);
    }
    const Value from = found->second;
    Value& to = scope[name];
    if (!from.valid()) return true;
    const TensorData* data = outer_->b_.constant_data(from);
    if (data && data->bytes() <= kFoldLimitBytes) {
      to = b_.constant(*data);
    } else {
      to = take(from, std::string(name));
    }
    state_.set_narrow(to, outer_->state_.narrow_of(from));
    return true;
  }

  // The input of this body for a value from outside; one, however many names the value has.
  Value take(Value from, std::string name) {
    for (size_t i = 0; i < captured_.size(); ++i)
      if (captured_[i].id() == from.id())
        return {&b_, graph_.inputs[graph_.inputs.size() - captured_.size() + i]};
    captured_.push_back(from);
    return add_input(std::move(name), outer_->state_.known(from));
  }

  Value add_input(std::string name, Known what) {
    while (!names_.insert(name).second) name += "_";
    const Value v = b_.untyped_input(std::move(name));
    state_.set_known(v, what);
    return v;
  }

  // Weights of a body are the model's: they live in the outermost graph.
  Status add_body_weights(const GraphProto& g, Scope& scope, const std::string& prefix) {
    if (g.sparse_initializers) missing("a sparse initializer in a body", prefix);
    ModelProto alone = model_;
    alone.graph = g;
    const auto kinds = classify_weights(alone, tensors_, options_);
    for (const TensorProto& t : g.initializers) {
      if (scope.contains(t.name)) return invalid_model("the initializer '{}' occurs twice", t.name);
      auto data = tensors_.read(t, NarrowElements::widen);
      if (data.status().code() == Code::unsupported) {
        missing(data.status().message(), prefix);
        scope[t.name];
        continue;
      }
      if (!data.ok()) return data.status();
      if (kinds.at(t.name) == Weight::constant) {
        scope[t.name] = b_.constant(std::move(*data));
        state_.set_narrow(scope[t.name], narrow_of(t.data_type));
        continue;
      }
      scope[t.name] = lift(std::move(*data), prefix + std::string(t.name), std::string(t.name),
                           kinds.at(t.name));
    }
    return {};
  }

  // A weight of the outermost graph, as a value of this one.
  Value lift(TensorData data, std::string long_name, std::string name, Weight kind) {
    if (!outer_) {
      if (!names_.insert(name).second) {
        name = std::move(long_name);
        while (!names_.insert(name).second) name += "_";
      }
      return add_weight(std::move(data), std::move(name), kind);
    }
    const Value outside = outer_->lift(std::move(data), std::move(long_name), name, kind);
    return take(outside, std::move(name));
  }

  // Imports a body whose own inputs are of these kinds; what it captures follows them.
  Status import_body(GraphProto g, std::span<const Known> own, const Body& from,
                     const std::string& prefix) {
    hoist_constants(g);
    if (from.depth >= kMaxCallDepth)
      return invalid_model("node '{}': bodies nest deeper than {}", prefix, kMaxCallDepth);
    graph_.name = g.name;
    if (g.inputs.size() != own.size())
      return invalid_model("node '{}': its body '{}' has {} inputs, expected {}", prefix, g.name,
                           g.inputs.size(), own.size());
    Scope scope;
    Names read;
    for (size_t i = 0; i < own.size(); ++i) {
      const ValueInfoProto& v = g.inputs[i];
      Known what = own[i];
      if (v.has_shape) what.rank = static_cast<int>(v.dims.size());
      if (!scope.emplace(v.name, add_input(std::string(v.name), what)).second)
        return invalid_model("node '{}': its body has the input '{}' twice", prefix, v.name);
    }
    HONE_TRY(add_body_weights(g, scope, prefix));
    collect_read(g.nodes, read);
    for (const ValueInfoProto& o : g.outputs) read.insert(o.name);
    HONE_TRY(import_nodes(g.nodes, {scope, read, from.opsets, prefix, from.depth + 1}));
    for (size_t i = 0; i < g.outputs.size(); ++i) {
      const std::string_view name = g.outputs[i].name;
      if (!scope.contains(name) && !capture(name, scope))
        return invalid_model("node '{}': nothing makes the output '{}' of its body", prefix, name);
      const Value v = scope[name];
      if (v.valid() && state_.narrow_of(v) != NarrowType::none)
        missing(format("an output of a body of {}", name_of(state_.narrow_of(v))), prefix);
      results_.push_back(v.valid() ? state_.known(v) : Known());
      if (v.valid()) b_.output(v, format("out_{}", i));
    }
    HONE_TRY(builder_status());
    HONE_TRY(remove_dead(graph_));
    outer_->imported_ = imported_;
    for (Missing& m : state_.missing) outer_->state_.missing.push_back(std::move(m));
    return {};
  }

  // The body, taking all of `captured` (values of the outer graph) after its own inputs.
  GraphPtr finish_body(size_t own, std::span<const Value> captured) {
    std::vector<ValueId> inputs(graph_.inputs.begin(),
                                graph_.inputs.begin() + static_cast<std::ptrdiff_t>(own));
    for (const Value& v : captured) {
      size_t i = 0;
      while (i < captured_.size() && captured_[i].id() != v.id()) ++i;
      if (i < captured_.size()) {
        inputs.push_back(graph_.inputs[own + i]);
      } else {
        inputs.push_back(add_input("unused", {}).id());
      }
    }
    graph_.inputs = std::move(inputs);
    return std::make_shared<const Graph>(std::move(graph_));
  }

  static const GraphProto* body_of(const NodeProto& n, std::string_view attribute) {
    for (const AttributeProto& a : n.attributes)
      if (a.name == attribute && a.type == AttributeType::graph && a.graphs.size() == 1)
        return &a.graphs[0];
    return nullptr;
  }

  Status import_control(const NodeProto& n, int64_t opset, const std::string& name,
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

  Status import_if(const NodeProto& n, std::vector<Value> inputs, const std::string& name,
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

  Status import_loop(const NodeProto& n, std::vector<Value> inputs, const std::string& name,
                     const Body& body) {
    const GraphProto* g = body_of(n, "body");
    if (!g || inputs.size() < 2)
      return invalid_model("node '{}' (Loop): needs a body and at least two inputs", name);
    std::vector<Known> own = {{DType::i64, 0}, {DType::bool_, 0}};
    for (size_t i = 2; i < inputs.size(); ++i) {
      if (!inputs[i].valid())
        return invalid_model("node '{}' (Loop): input {} is missing", name, i);
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
  Status import_batched_scan(const NodeProto& n, std::vector<Value> inputs, const std::string& name,
                             const Body& body) {
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

  Status import_scan(const NodeProto& n, std::vector<Value> inputs, const std::string& name,
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
      if (!inputs[i].valid())
        return invalid_model("node '{}' (Scan): input {} is missing", name, i);
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

  Status emit_control(const OpDef& op, const NodeProto& n, std::span<const Value> inputs,
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

  // A file that no operator accepts is a bad file, whatever an operator says of its arguments.
  Status builder_status() const {
    const Status& s = b_.status();
    return s.code() == Code::invalid_argument ? invalid_model("{}", s.message()) : s;
  }

  void give_name(Value v, std::string name) {
    ValueInfo& info = graph_.value(v.id());
    if (info.name.empty() && info.kind != ValueKind::input && names_.insert(name).second)
      info.name = std::move(name);
  }

  static int64_t opset_of(std::span<const OperatorSetId> opsets, std::string_view domain) {
    for (const OperatorSetId& o : opsets)
      if (o.domain == domain || (is_standard(o.domain) && is_standard(domain))) return o.version;
    return 1;  // files of IR version 1 and 2 do not say
  }

  const FunctionProto* find_function(const NodeProto& n) const {
    for (const FunctionProto& f : model_.functions)
      if (f.name == n.op_type && f.domain == n.domain && f.overload == n.overload) return &f;
    return nullptr;
  }

  // A function of the file: its body is imported in place of the call.
  Status call(const FunctionProto& f, const NodeProto& n, std::span<const Value> inputs,
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

  // An attribute of the body may stand for one of the call, or for the function's default; without
  // either it is left out.
  static void resolve_attributes(NodeProto& inner, const NodeProto& call, const FunctionProto& f) {
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

  Status add_outputs(const Scope& scope) {
    for (const ValueInfoProto& v : model_.graph.outputs) {
      const auto found = scope.find(v.name);
      if (found == scope.end()) return invalid_model("nothing makes the output '{}'", v.name);
      if (graph_.find_output(v.name) >= 0)
        return invalid_model("the output '{}' occurs twice", v.name);
      if (!found->second.valid()) continue;
      b_.output(found->second, std::string(v.name));
      if (!v.has_shape) continue;
      HONE_ASSIGN(graph_.outputs.back().declared, shape_of(v));
      graph_.outputs.back().has_declared = true;
    }
    return {};
  }

  // "LSTM-17 ('lstm_1', 'lstm_2'), MaxPool-17 with the indices as second output ('pool')".
  Status missing_error() const {
    std::vector<std::string> kinds;
    for (const Missing& m : state_.missing)
      if (std::find(kinds.begin(), kinds.end(), m.what) == kinds.end()) kinds.push_back(m.what);
    std::string list;
    for (const std::string& kind : kinds) {
      std::string nodes;
      for (const Missing& m : state_.missing)
        if (m.what == kind && !m.node.empty())
          nodes += format("{}'{}'", nodes.empty() ? "" : ", ", m.node);
      list += format("{}{}{}", list.empty() ? "" : ", ", kind,
                     nodes.empty() ? "" : format(" ({})", nodes));
    }
    return unsupported("the model needs what cannot be imported: {}", list);
  }

  const ModelProto& model_;
  TensorReader& tensors_;
  const OnnxImportOptions& options_;
  Graph graph_;
  Builder b_;
  ImportState state_;
  std::unordered_set<std::string> names_;  // of inputs, constants, states and node values
  // Of a body: where it stands, what it takes from there, and what its outputs are.
  Importer* outer_ = nullptr;
  Scope* outer_scope_ = nullptr;
  std::vector<Value> captured_;
  std::vector<Known> results_;
  size_t imported_ = 0;
  std::deque<std::string> made_names_;  // of what is written in another way than the file does
};

std::map<std::string, std::string> metadata_of(const ModelProto& m) {
  std::map<std::string, std::string> out;
  const auto add = [&](const char* key, std::string value) {
    if (!value.empty()) out[key] = std::move(value);
  };
  add("producer",
      format("{}{}{}", m.producer_name, m.producer_version.empty() ? "" : " ", m.producer_version));
  add("domain", std::string(m.domain));
  add("doc", std::string(m.doc_string));
  if (m.ir_version) out["ir_version"] = format("{}", m.ir_version);
  if (m.model_version) out["model_version"] = format("{}", m.model_version);
  std::string opsets;
  for (const OperatorSetId& o : m.opset_import)
    opsets += is_standard(o.domain)
                  ? format("{}{}", opsets.empty() ? "" : ", ", o.version)
                  : format("{}{} {}", opsets.empty() ? "" : ", ", o.domain, o.version);
  add("opset", opsets);
  for (const KeyValue& kv : m.metadata_props)
    if (!kv.key.starts_with("hone.")) out[format("onnx.{}", kv.key)] = std::string(kv.value);
  return out;
}

}  // namespace

}  // namespace onnx

Result<Model> import_onnx(std::span<const std::byte> bytes, std::shared_ptr<const void> owner,
                          const std::string& directory, const OnnxImportOptions& options) {
  HONE_ASSIGN(onnx::ModelProto proto, onnx::read_model(bytes));
  if (!proto.has_graph) return invalid_model("no ONNX model: it holds no graph");
  onnx::hoist_constants(proto.graph);
  onnx::TensorReader tensors(std::move(owner), directory);
  Model model;
  HONE_ASSIGN(model.graph, onnx::Importer(proto, tensors, options).run());
  using Simplify = OnnxImportOptions::Simplify;
  if (options.simplify != Simplify::nothing)
    HONE_TRY(simplify(model.graph, {.recognise = options.simplify == Simplify::fully}).status());
  model.metadata = onnx::metadata_of(proto);
  model.metadata["source_sha256"] = to_hex(sha256(bytes));
  return model;
}

Result<Model> import_onnx(const std::string& path, const OnnxImportOptions& options) {
  HONE_ASSIGN(const MappedFile file, MappedFile::open(path));
  const size_t slash = path.find_last_of('/');
  const std::string directory =
      slash == std::string::npos ? "" : path.substr(0, std::max<size_t>(slash, 1));
  auto model = import_onnx(file.bytes(), file.owner(), directory, options);
  if (!model.ok()) return model.status().with_context(path);
  model->metadata["source"] = path.substr(slash + 1);  // npos + 1 is 0
  platform::release_pages(file.bytes().data(), static_cast<int64_t>(file.bytes().size()));
  return model;
}

}  // namespace hone
