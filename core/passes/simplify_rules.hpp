// SPDX-License-Identifier: Apache-2.0
// What a simplification rule sees: the node that is about to be emitted, and the graph made so far.
#pragma once

#include <unordered_map>

#include "core/passes/facts.hpp"
#include "hone/op_attrs.hpp"
#include "hone/simplify.hpp"

namespace hone {

/// A node before it is emitted: inputs are values of the new graph.
struct Pending {
  const OpDef& op;
  const Attrs& attrs;
  std::span<const Value> in;

  Value input(size_t i) const { return i < in.size() ? in[i] : Value(); }
  template <class A>
  const A& as() const {
    return attrs.as<A>();
  }
};

/// Emits nodes of the new graph, simplified on the way.
class Rewriter {
 public:
  Rewriter(Graph& g, const SimplifyOptions& options, SimplifyReport& report);

  /// Emits output 0 of a node, unless a rule or an equal node gives it already.
  Value emit(const OpDef& op, std::initializer_list<Value> in, Attrs attrs = {});
  /// The same for all outputs of a node that has `outputs` of them.
  std::vector<Value> emit_all(const OpDef& op, std::span<const Value> in, Attrs attrs,
                              size_t outputs) {
    return emit_all(op, in, std::move(attrs), outputs, outputs);
  }
  /// Of them the first `read` are read: when that is one, a rule may give it alone.
  std::vector<Value> emit_all(const OpDef& op, std::span<const Value> in, Attrs attrs,
                              size_t outputs, size_t read);
  /// A constant, or the one that is there already.
  Value constant(const TensorData& data, std::string name);

  Builder b;

  // ---- looking at what there is
  Facts facts(Value v) const;
  void know(Value v, Facts facts) { facts_[v.id()] = std::move(facts); }
  /// The node whose output 0 this is, or null. Emitting moves nodes.
  const Node* producer(Value v) const;
  /// The node if it is of that kind.
  const Node* producer(Value v, const OpDef& op) const {
    const Node* n = producer(v);
    return n && n->op == &op ? n : nullptr;
  }
  Value input(const Node& n, size_t i) {
    return i < n.inputs.size() && n.inputs[i] != kNone ? Value(&b, n.inputs[i]) : Value();
  }
  const TensorData* constant(Value v) const { return b.constant_data(v); }
  /// The only element of a constant.
  std::optional<double> number(Value v) const;
  /// Adds what is known of the extents of a value, whose rank is theirs.
  void know_extents(Value v, const Extents& extents);
  void count(std::string_view rule, int64_t times = 1);
  /// How often the graph before reads what has become this value; 0 for what rules made since.
  int64_t uses(Value v) const;
  void add_uses(Value v, int64_t times) { uses_[v.id()] += times; }

 private:
  Value by_rule(const Pending& p);
  Attrs with_simple_bodies(const Pending& p);
  GraphPtr simple_body(const GraphPtr& body, std::span<const Facts> inputs);

  const SimplifyOptions& options_;
  SimplifyReport& report_;
  std::unordered_map<ValueId, Facts> facts_;
  std::unordered_map<ValueId, int64_t> uses_;
  std::unordered_map<std::string, std::vector<Value>> emitted_;
  std::unordered_map<std::string, Value> constants_;
  int depth_ = 0;
};

/// One way to say a node more simply: the value of the only output that is read, or an invalid one
/// when the rule does not apply.
struct SimplifyRule {
  const OpDef* op;
  std::string_view name;
  Value (*apply)(Rewriter&, const Pending&);
};

/// Extents of what takes a computed shape: what its elements are known to be. The elements may
/// be extents of other values.
std::optional<Extents> extents_by_shape_input(Rewriter& r, const Pending& p);

/// Rules that keep every bit.
std::span<const SimplifyRule> exact_rules();
/// Rules about shapes, which keep every bit too.
std::span<const SimplifyRule> shape_rules();
/// Rules that turn constant inputs into attributes; exact.
std::span<const SimplifyRule> dynamic_rules();
/// Rules about numbers that are stored in few bits; exact.
std::span<const SimplifyRule> quantized_rules();
/// Rules that recognise spelled-out operators.
std::span<const SimplifyRule> recognition_rules();
std::span<const SimplifyRule> linear_rules();

}  // namespace hone
