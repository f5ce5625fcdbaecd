// SPDX-License-Identifier: Apache-2.0
// Reverse-mode differentiation: one walk over the nodes from the target back, asking each operator
// for its rule. Broadcasting, accumulation and dtypes are handled here, once for all rules.
#include "hone/autodiff.hpp"

#include <algorithm>
#include <cstdlib>

#include "hone/ops.hpp"

namespace hone {

GradCtx::GradCtx(Builder& builder, const Node& node, std::vector<Value> out_grads,
                 std::vector<bool> needs)
    : b(builder),
      in_grads(node.inputs.size()),
      inputs_(node.inputs),
      outputs_(node.outputs),
      attrs_(node.attrs),
      out_grads_(std::move(out_grads)),
      needs_(std::move(needs)) {}

Value GradCtx::out_grad(int i) {
  Value& g = out_grads_[static_cast<size_t>(i)];
  if (!g.valid()) g = ops::zeros_like(out(i));
  return g;
}

namespace {

class Engine {
 public:
  // Only nodes from `first` on are looked at: what comes before counts as given.
  Engine(Builder& b, std::span<const Value> wrt, NodeId first)
      : b_(b), g_(b.graph()), wrt_(wrt), first_(first) {}

  Result<std::vector<Value>> run(Value target, Value seed) {
    HONE_TRY(check(target, seed));
    end_ = static_cast<NodeId>(g_.nodes.size());
    mark_dependent();
    mark_needed(target);
    HONE_TRY(check_gradients(target));
    return sweep(target, seed);
  }

 private:
  Status check(Value target, Value seed) const {
    if (!target.valid())
      return b_.status().ok() ? invalid("differentiate: the target is not a value") : b_.status();
    if (!is_float(target.dtype()))
      return invalid("differentiate: the target is {}, not floating point", target.type());
    if (!seed.valid() && target.shape().numel() != 1)
      return invalid("differentiate: the target is {}, not a scalar; give a seed of that type",
                     target.type());
    if (seed.valid() && seed.type() != target.type())
      return invalid("differentiate: the seed is {}, the target {}", seed.type(), target.type());
    for (const Value& v : wrt_) {
      if (!v.valid()) return invalid("differentiate: a value to differentiate by does not exist");
      if (!is_float(v.dtype()))
        return invalid("differentiate: cannot differentiate by '{}' of {}", g_.value(v.id()).name,
                       v.type());
    }
    return {};
  }

  bool flag(const std::vector<bool>& f, ValueId v) const {
    return v != kNone && f[static_cast<size_t>(v)];
  }

  // Values that some wrt influences through differentiable (floating-point) values.
  void mark_dependent() {
    dependent_.assign(g_.values.size(), false);
    for (const Value& v : wrt_) dependent_[static_cast<size_t>(v.id())] = true;
    for (NodeId n = first_; n < end_; ++n) {
      const Node& node = g_.node(n);
      if (node.op->diff == Diff::zero) continue;
      const bool any = std::any_of(node.inputs.begin(), node.inputs.end(),
                                   [&](ValueId v) { return flag(dependent_, v); });
      if (!any) continue;
      for (ValueId v : node.outputs)
        if (is_float(g_.type(v).dtype)) dependent_[static_cast<size_t>(v)] = true;
    }
  }

  // Values that influence the target, among the dependent ones; remembers through which node, for
  // messages.
  void mark_needed(Value target) {
    needed_.assign(g_.values.size(), false);
    user_.assign(g_.values.size(), kNone);
    if (dependent_[static_cast<size_t>(target.id())])
      needed_[static_cast<size_t>(target.id())] = true;
    for (NodeId n = end_ - 1; n >= first_; --n) {
      const Node& node = g_.node(n);
      const bool any = std::any_of(node.outputs.begin(), node.outputs.end(),
                                   [&](ValueId v) { return flag(needed_, v); });
      if (!any || node.op->diff == Diff::zero) continue;
      for (ValueId v : node.inputs)
        if (flag(dependent_, v) && !needed_[static_cast<size_t>(v)]) {
          needed_[static_cast<size_t>(v)] = true;
          user_[static_cast<size_t>(v)] = n;
        }
    }
  }

  bool on_path(const Node& node) const {
    return node.op->diff != Diff::zero &&
           std::any_of(node.outputs.begin(), node.outputs.end(),
                       [&](ValueId v) { return flag(needed_, v); }) &&
           std::any_of(node.inputs.begin(), node.inputs.end(),
                       [&](ValueId v) { return flag(needed_, v); });
  }

  // All operators without a gradient in one error.
  Status check_gradients(Value target) const {
    std::string missing;
    for (NodeId n = first_; n < end_; ++n) {
      const Node& node = g_.node(n);
      if (node.op->diff != Diff::missing || !on_path(node)) continue;
      missing += format("{}{} (path from the target: {})", missing.empty() ? "" : "; ", label(node),
                        path(n, target));
    }
    if (missing.empty()) return {};
    return unsupported("no gradient is known for {}", missing);
  }

  std::string path(NodeId n, Value target) const {
    constexpr int kLongest = 8;
    std::vector<std::string> steps;
    for (int i = 0; n != kNone && i < kLongest; ++i) {
      steps.push_back(label(g_.node(n)));
      NodeId next = kNone;
      for (ValueId v : g_.node(n).outputs)
        if (v != target.id() && flag(needed_, v)) next = user_[static_cast<size_t>(v)];
      n = next;
    }
    std::string out = n == kNone ? "" : "... -> ";
    for (size_t i = steps.size(); i-- > 0;) out += steps[i] + (i ? " -> " : "");
    return out;
  }

  Result<std::vector<Value>> sweep(Value target, Value seed) {
    grads_.assign(g_.values.size(), kNone);
    const std::string scope = b_.scope();
    const int32_t region = b_.region();
    if (flag(needed_, target.id()))
      grads_[static_cast<size_t>(target.id())] =
          seed.valid() ? seed.id() : ops::ones_like(target).id();
    for (NodeId n = end_ - 1; n >= first_ && b_.status().ok(); --n) {
      if (!on_path(g_.node(n))) continue;
      const std::string& name = g_.node(n).name;
      b_.set_scope(name.empty() ? std::string() : name + "/grad");
      b_.set_region(-std::abs(g_.node(n).region));
      HONE_TRY(back_through(n));
    }
    b_.set_scope(scope);
    b_.set_region(region);
    std::vector<Value> out;
    for (const Value& v : wrt_) {
      const ValueId id = grads_[static_cast<size_t>(v.id())];
      out.push_back(id != kNone ? Value(&b_, id) : ops::zeros_like(v));
    }
    if (!b_.status().ok()) return b_.status();
    return out;
  }

  Status back_through(NodeId n) {
    const Node node = g_.node(n);  // a copy: emitting nodes moves the original
    std::vector<Value> out_grads;
    bool any = false;
    for (ValueId v : node.outputs) {
      const ValueId id = flag(needed_, v) ? grads_[static_cast<size_t>(v)] : kNone;
      out_grads.emplace_back(&b_, id);
      any |= id != kNone;
    }
    if (!any) return {};
    std::vector<bool> needs;
    for (ValueId v : node.inputs) needs.push_back(flag(needed_, v));
    std::vector<Value> in_grads;
    if (node.op->diff == Diff::rule) {
      if (!node.op->grad)
        return unsupported("{}: this build leaves gradients out (HONE_OPERATORS)", label(node));
      GradCtx c(b_, node, std::move(out_grads), needs);
      node.op->grad(c);
      in_grads = std::move(c.in_grads);
    } else {
      HONE_ASSIGN(in_grads, through_decomposition(node, out_grads, needs));
    }
    if (!b_.status().ok()) return b_.status();
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      if (!needs[i] || !in_grads[i].valid()) continue;
      HONE_TRY(accumulate(node, node.inputs[i], in_grads[i]));
    }
    return {};
  }

  // Writes the node out with other operators and differentiates those. What the decomposition
  // computes again and nothing else uses goes with dead-code elimination.
  Result<std::vector<Value>> through_decomposition(const Node& node,
                                                   std::span<const Value> out_grads,
                                                   const std::vector<bool>& needs) {
    const NodeId first = static_cast<NodeId>(g_.nodes.size());
    DecomposeCtx c(b_, node.inputs, node.attrs, node.outputs.size(), label(node));
    node.op->decompose(c);
    if (!b_.status().ok()) return b_.status();
    std::vector<Value> wrt, result(node.inputs.size());
    std::vector<size_t> index;
    for (size_t i = 0; i < node.inputs.size(); ++i)
      if (needs[i]) {
        wrt.emplace_back(&b_, node.inputs[i]);
        index.push_back(i);
      }
    for (size_t k = 0; k < out_grads.size(); ++k) {
      if (!out_grads[k].valid()) continue;
      HONE_ASSIGN(const std::vector<Value> grads,
                  Engine(b_, wrt, first).run(c.outs[k], out_grads[k]));
      for (size_t i = 0; i < grads.size(); ++i) {
        Value& r = result[index[i]];
        r = r.valid() ? r + grads[i] : grads[i];
      }
    }
    return result;
  }

  Status accumulate(const Node& node, ValueId input, Value grad) {
    const TensorType want = g_.type(input);
    if (node.op->broadcasts) grad = ops::sum_to(grad, want.shape);
    grad = ops::cast(grad, want.dtype);
    if (!b_.status().ok()) return b_.status();
    if (grad.type() != want)
      return internal("{}: its gradient rule gave {} for an input of {}", label(node), grad.type(),
                      want);
    ValueId& slot = grads_[static_cast<size_t>(input)];
    slot = slot == kNone ? grad.id() : (Value(&b_, slot) + grad).id();
    return {};
  }

  Builder& b_;
  Graph& g_;
  std::span<const Value> wrt_;
  NodeId first_ = 0, end_ = 0;
  std::vector<bool> dependent_, needed_;
  std::vector<NodeId> user_;
  std::vector<ValueId> grads_;
};

}  // namespace

Result<std::vector<Value>> differentiate(Builder& b, Value target, std::span<const Value> wrt,
                                         Value seed) {
  return Engine(b, wrt, 0).run(target, seed);
}

}  // namespace hone
