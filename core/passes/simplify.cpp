// SPDX-License-Identifier: Apache-2.0
// Simplification: the graph is emitted anew, node by node, and each node passes the rules before it
// is appended. What rules see of their inputs is simplified already, so one round does nearly all;
// rounds go on until one changes nothing.
#include "hone/simplify.hpp"

#include <algorithm>

#include "core/passes/simplify_rules.hpp"
#include "hone/control.hpp"
#include "hone/specialise.hpp"

namespace hone {

namespace {

// A rule may emit nodes, which pass the rules again.
constexpr int kMaxDepth = 16;
// Each round but the last removes or replaces something; the bound is against our own mistakes.
constexpr int kMaxRounds = 16;

void add_counts(SimplifyReport& to, std::string_view rule, int64_t times) {
  for (SimplifyReport::Count& c : to.rules)
    if (c.rule == rule) {
      c.times += times;
      return;
    }
  to.rules.push_back({rule, times});
}

// The bodies of a node.
class Bodies final : public SomeFields {
 public:
  std::vector<GraphPtr> found;
  using SomeFields::field;
  void field(std::string_view, GraphPtr& v) override {
    if (v) found.push_back(v);
  }
};

void count_nodes(const Graph& g, std::map<std::string_view, int64_t>& counts) {
  for (const Node& n : g.nodes) {
    ++counts[n.op->name];
    if (!n.op->has_bodies) continue;
    Bodies bodies;
    n.attrs.visit(bodies);
    for (const GraphPtr& body : bodies.found) count_nodes(*body, counts);
  }
}

}  // namespace

std::map<std::string_view, int64_t> nodes_by_operator(const Graph& g) {
  std::map<std::string_view, int64_t> counts;
  count_nodes(g, counts);
  return counts;
}

int64_t count_nodes(const Graph& g) {
  int64_t count = 0;
  for (const auto& [op, n] : nodes_by_operator(g)) count += n;
  return count;
}

Rewriter::Rewriter(Graph& g, const SimplifyOptions& options, SimplifyReport& report)
    : b(g, Composites::keep), options_(options), report_(report) {
  b.set_fold_limit(options.fold_limit_bytes);
}

void Rewriter::know_extents(Value v, const Extents& extents) {
  if (!v.valid() || b.graph().value(v.id()).typed) return;
  Facts& known = facts_[v.id()];
  if (!known.extents) known.extents = extents;
  if (known.extents->size() != extents.size()) return;
  for (size_t i = 0; i < extents.size(); ++i)
    if ((*known.extents)[i] == kAnyExtent) (*known.extents)[i] = extents[i];
}

int64_t Rewriter::uses(Value v) const {
  const auto known = uses_.find(v.id());
  return known == uses_.end() ? 0 : known->second;
}

void Rewriter::count(std::string_view rule, int64_t times) { add_counts(report_, rule, times); }

Facts Rewriter::facts(Value v) const {
  if (!v.valid()) return {};
  const ValueInfo& info = b.graph().value(v.id());
  if (info.typed) return facts_of(info.type);
  const auto known = facts_.find(v.id());
  return known == facts_.end() ? Facts() : known->second;
}

const Node* Rewriter::producer(Value v) const {
  if (!v.valid()) return nullptr;
  const ValueInfo& info = b.graph().value(v.id());
  if (info.kind != ValueKind::node || info.output_index != 0) return nullptr;
  return &b.graph().node(info.producer);
}

std::optional<double> Rewriter::number(Value v) const {
  const TensorData* t = constant(v);
  if (!t || t->numel() != 1) return std::nullopt;
  return is_float(t->dtype()) ? t->at(0) : static_cast<double>(t->int_at(0));
}

Value Rewriter::constant(const TensorData& data, std::string name) {
  if (data.bytes() > options_.fold_limit_bytes) return b.constant(data, std::move(name));
  std::string key = to_string(data.type());
  key.append(reinterpret_cast<const char*>(data.data()), static_cast<size_t>(data.bytes()));
  const auto [at, is_new] = constants_.try_emplace(std::move(key));
  if (is_new) {
    at->second = b.constant(data, std::move(name));
  } else {
    count("equal constants");
  }
  return at->second;
}

Value Rewriter::emit(const OpDef& op, std::initializer_list<Value> in, Attrs attrs) {
  const std::vector<Value> outs =
      emit_all(op, std::span<const Value>(in.begin(), in.size()), std::move(attrs), 1);
  return outs.empty() ? Value() : outs[0];
}

Value Rewriter::by_rule(const Pending& p) {
  if (depth_ >= kMaxDepth) return {};
  ++depth_;
  Value v;
  const auto look_in = [&](std::span<const SimplifyRule> rules) {
    for (const SimplifyRule& r : rules) {
      if (v.valid() || r.op != &p.op) continue;
      v = r.apply(*this, p);
      if (v.valid()) count(r.name);
    }
  };
  look_in(exact_rules());
  look_in(dynamic_rules());
  look_in(shape_rules());
  look_in(quantized_rules());
  if (options_.recognise) look_in(linear_rules()), look_in(recognition_rules());
  --depth_;
  return v;
}

std::vector<Value> Rewriter::emit_all(const OpDef& op, std::span<const Value> in, Attrs attrs,
                                      size_t outputs, size_t read) {
  if (!b.status().ok()) return {};
  if (attrs.empty()) attrs = Attrs::defaults(*op.attrs);
  if (read == 1) {
    const Value v = by_rule({op, attrs, in});
    if (v.valid()) return {v};
  }
  // What trains differently each time it stands in a graph must not become one.
  const bool mergeable = !op.training && !op.has_bodies;
  std::string key;
  if (mergeable) {
    key = format("{} {}", op.name, outputs);
    for (const Value& v : in) key += format(" {}", v.id());
    key += exact_bytes(attrs);
    const auto found = emitted_.find(key);
    if (found != emitted_.end()) {
      count("equal nodes");
      return found->second;
    }
  }
  if (op.has_bodies) attrs = with_simple_bodies({op, attrs, in});
  const size_t nodes = b.graph().nodes.size();
  const TensorData* weight = &op == &op::dequantize_linear ? constant(in[0]) : nullptr;
  if (weight && weight->numel() > 1) b.set_fold_limit(0);  // it is kept in as few bits as it has
  std::vector<Value> outs = b.emit_all(op, in, attrs, static_cast<int>(outputs));
  b.set_fold_limit(options_.fold_limit_bytes);
  if (outs.size() < outputs) {
    b.fail(invalid("{}: has {} outputs, its rule gives {}", op.name, outputs, outs.size()));
    return {};
  }
  if (b.graph().nodes.size() == nodes) count("constants computed");
  std::vector<Facts> known;
  std::vector<const Facts*> pointers;
  for (const Value& v : in) known.push_back(facts(v));
  for (size_t i = 0; i < in.size(); ++i) pointers.push_back(in[i].valid() ? &known[i] : nullptr);
  for (size_t k = 0; k < outs.size(); ++k)
    if (!b.graph().value(outs[k].id()).typed)
      know(outs[k], facts_of_output(op, attrs, k, pointers));
  if (const auto extents = extents_by_shape_input(*this, {op, attrs, in}))
    know_extents(outs[0], *extents);
  if (mergeable) emitted_.emplace(std::move(key), outs);
  return outs;
}

// ---- bodies of control operators

namespace {

Status rewrite(const Graph& old, std::span<const Facts> inputs, Rewriter& r);

Result<SimplifyReport> simplify_with(Graph& g, std::span<const Facts> inputs,
                                     const SimplifyOptions& options) {
  SimplifyReport report;
  report.nodes_before = count_nodes(g);
  for (int round = 0; round < kMaxRounds; ++round) {
    SimplifyReport found;
    Graph next;
    Rewriter r(next, options, found);
    const Status s = rewrite(g, inputs, r);
    if (s.code() == Code::internal || s.code() == Code::out_of_memory) return s;
    if (!s.ok()) break;
    const size_t nodes = next.nodes.size();
    HONE_TRY(remove_dead(next));
    if (nodes > next.nodes.size())
      add_counts(found, "unread nodes", static_cast<int64_t>(nodes - next.nodes.size()));
    if (!found.changed()) break;
    for (const SimplifyReport::Count& c : found.rules) add_counts(report, c.rule, c.times);
    g = std::move(next);
  }
  report.nodes_after = count_nodes(g);
  return report;
}

Status rewrite(const Graph& old, std::span<const Facts> inputs, Rewriter& r) {
  Graph& g = r.b.graph();
  g.name = old.name;
  g.dim_names = old.dim_names;
  std::vector<Value> map(old.values.size());
  const auto at = [&](ValueId v) -> Value& { return map[static_cast<size_t>(v)]; };
  for (size_t i = 0; i < old.inputs.size(); ++i) {
    const ValueInfo& v = old.value(old.inputs[i]);
    at(old.inputs[i]) = v.typed ? r.b.input(v.type, v.name) : r.b.untyped_input(v.name);
    if (!v.typed && i < inputs.size()) r.know(at(old.inputs[i]), inputs[i]);
  }
  for (size_t i = 0; i < old.values.size(); ++i) {
    const ValueInfo& v = old.values[i];
    if (v.kind == ValueKind::constant) map[i] = r.constant(v.data, v.name);
    if (v.kind != ValueKind::state) continue;
    map[i] = r.b.state(v.role, v.data, v.name);
    g.value(map[i].id()).trainable = v.trainable;
  }
  std::vector<int64_t> uses(old.values.size());
  const auto read = [&](ValueId v) {
    if (v != kNone) ++uses[static_cast<size_t>(v)];
  };
  for (const Node& n : old.nodes)
    for (ValueId v : n.inputs) read(v);
  for (const GraphOutput& o : old.outputs) read(o.value);
  for (const StateUpdate& u : old.updates) read(u.next);
  for (const Node& n : old.nodes) {
    std::vector<Value> in;
    for (ValueId v : n.inputs) in.push_back(v == kNone ? Value() : at(v));
    r.b.set_scope(n.name);
    r.b.set_region(n.region);
    size_t last = n.outputs.size();
    while (last > 1 && uses[static_cast<size_t>(n.outputs[last - 1])] == 0) --last;
    const std::vector<Value> outs = r.emit_all(*n.op, in, n.attrs, n.outputs.size(), last);
    HONE_TRY(r.b.status());
    for (size_t k = 0; k < std::min(outs.size(), n.outputs.size()); ++k) {
      at(n.outputs[k]) = outs[k];
      r.add_uses(outs[k], uses[static_cast<size_t>(n.outputs[k])]);
      ValueInfo& info = g.value(outs[k].id());
      if (info.kind == ValueKind::node && info.name.empty())
        info.name = old.value(n.outputs[k]).name;
    }
  }
  g.outputs = old.outputs;
  for (GraphOutput& o : g.outputs) o.value = at(o.value).id();
  for (const StateUpdate& u : old.updates) g.updates.push_back({at(u.state).id(), at(u.next).id()});
  return {};
}

Facts dtype_only(const Facts& f) { return {f.dtype, std::nullopt}; }

}  // namespace

GraphPtr Rewriter::simple_body(const GraphPtr& body, std::span<const Facts> inputs) {
  if (!body) return body;
  Graph g = *body;
  auto report = simplify_with(g, inputs, options_);
  if (!report.ok()) b.fail(report.status());
  if (!report.ok() || !report->changed()) return body;
  for (const SimplifyReport::Count& c : report->rules) count(c.rule, c.times);
  return std::make_shared<const Graph>(std::move(g));
}

// A captured value is in the body what it is outside; of what goes round a loop only the dtype
// stays.
Attrs Rewriter::with_simple_bodies(const Pending& p) {
  std::vector<Facts> in;
  for (const Value& v : p.in) in.push_back(facts(v));
  if (&p.op == &op::if_else) {
    IfAttrs a = p.as<IfAttrs>();
    const std::span<const Facts> captured = std::span(in).subspan(in.empty() ? 0 : 1);
    a.then_branch = simple_body(a.then_branch, captured);
    a.else_branch = simple_body(a.else_branch, captured);
    return a;
  }
  if (&p.op == &op::loop) {
    LoopAttrs a = p.as<LoopAttrs>();
    for (size_t i = 2; i < in.size() && static_cast<int64_t>(i) < 2 + a.carried; ++i)
      in[i] = dtype_only(in[i]);
    if (in.size() >= 2) in[0] = {DType::i64, Extents()}, in[1] = {DType::bool_, std::nullopt};
    a.body = simple_body(a.body, in);
    return a;
  }
  if (&p.op == &op::scan) {
    ScanAttrs a = p.as<ScanAttrs>();
    const size_t own = static_cast<size_t>(std::max<int64_t>(a.carried, 0)) + a.in_axes.size();
    for (size_t i = 0; i < in.size() && i < own; ++i) in[i] = dtype_only(in[i]);
    a.body = simple_body(a.body, in);
    return a;
  }
  return p.attrs;
}

Result<SimplifyReport> simplify(Graph& g, const SimplifyOptions& options) {
  return simplify_with(g, {}, options);
}

}  // namespace hone
