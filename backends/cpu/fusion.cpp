// SPDX-License-Identifier: Apache-2.0
// Which nodes of a region become one step.
#include <algorithm>

#include "backends/cpu/region.hpp"

namespace hone::cpu {

namespace {

bool bounds(const Node& n) {
  return n.op == &op::relu ||
         (n.op == &op::clip && n.attrs.as<ClipAttrs>().low <= n.attrs.as<ClipAttrs>().high);
}

bool is_swish(const Node& n) { return n.op == &op::silu || n.op == &op::hard_swish; }

// The region's nodes by the values they read, where a value has one reader only.
class Readers {
 public:
  Readers(const Lowering& to, std::span<const NodeId> nodes) : to_(to) {
    only_.assign(to.graph().values.size(), kNone);
    for (NodeId id : nodes)
      for (ValueId v : to.graph().node(id).inputs)
        if (v != kNone) only_[static_cast<size_t>(v)] = id;
  }
  /// The node that alone reads `v`, or kNone.
  NodeId only(ValueId v) const {
    return to_.uses(v) == 1 ? only_[static_cast<size_t>(v)] : NodeId{kNone};
  }

 private:
  const Lowering& to_;
  std::vector<NodeId> only_;
};

// Follows a convolution's result through nodes that alone read it.
Group with_tail(const Graph& g, const Readers& readers, NodeId conv, int parts,
                const std::vector<bool>& taken) {
  Group group{{conv}, {}, conv};
  ValueId v = g.node(conv).outputs[0];
  const auto next = [&]() -> NodeId {
    const NodeId n = readers.only(v);
    return n == kNone || taken[static_cast<size_t>(n)] ? NodeId{kNone} : n;
  };
  const auto take = [&](NodeId n, NodeId& place) {
    place = n;
    group.nodes.push_back(n);
    v = g.node(n).outputs[0];
  };
  if (const NodeId n = (parts & kTailNorm) ? next() : kNone;
      n != kNone && g.node(n).op == &op::batch_norm && g.node(n).inputs[0] == v)
    take(n, group.tail.batch_norm);
  if (const NodeId n = (parts & kTailAdd) ? next() : kNone;
      n != kNone && g.node(n).op == &op::add) {
    const Node& add = g.node(n);
    if (add.inputs[0] != add.inputs[1] && g.type(add.inputs[0]) == g.type(add.inputs[1]))
      take(n, group.tail.add);
  }
  if (const NodeId n = next(); n != kNone && (((parts & kTailBound) && bounds(g.node(n))) ||
                                              ((parts & kTailSwish) && is_swish(g.node(n)))))
    take(n, group.tail.activation);
  return group;
}

size_t at(int32_t i) { return static_cast<size_t>(i); }

// Groups as they are found, from the last node to the first.
class Fusion {
 public:
  Fusion(const Lowering& to, std::span<const NodeId> nodes, std::span<const Choice> choices)
      : to_(to), g_(to.graph()), nodes_(nodes), choices_(choices), readers_(to, nodes) {
    taken_.assign(g_.nodes.size(), false);
    inside_.assign(g_.nodes.size(), false);
    position_.assign(g_.nodes.size(), 0);
    groups_.resize(g_.nodes.size());
    pointwise_reads_.assign(g_.values.size(), 0);
    for (size_t i = 0; i < nodes.size(); ++i) position_[at(nodes[i])] = i;
    for (NodeId n : nodes) inside_[at(n)] = true;
  }

  void run() {
    // A sum of two convolutions goes to the later one.
    for (size_t i = nodes_.size(); i-- > 0;)
      if (const Implementation* by = choices_[at(nodes_[i])].by; by && by->tail)
        place(with_tail(g_, readers_, nodes_[i], by->tail, taken_));
    pair_up();
    // An element-wise node joins the one that alone reads it; seen from the last on.
    for (size_t i = nodes_.size(); i-- > 0;) {
      const NodeId last = nodes_[i];
      if (taken_[at(last)]) continue;
      if (pointwise(last))
        place(pointwise_group(last));
      else
        place(with_operand(last));
    }
  }

  std::vector<Group> groups() {
    std::vector<Group> out;
    for (NodeId n : nodes_)
      if (Group& group = groups_[at(n)]; !group.nodes.empty()) out.push_back(std::move(group));
    return out;
  }
  std::vector<int> take_pointwise_reads() { return std::move(pointwise_reads_); }

 private:
  bool pointwise(NodeId n) const { return choices_[at(n)].pointwise; }

  void place(Group group) {
    for (NodeId n : group.nodes) taken_[at(n)] = true;
    for (NodeId n : group.nodes)
      if (pointwise(n) && group.tail.empty())
        for (ValueId v : g_.node(n).inputs)
          if (v != kNone) ++pointwise_reads_[at(v)];
    const size_t last = at(group.last());
    groups_[last] = std::move(group);
  }

  // Two nodes become one step where the first can wait until the second.
  void pair_up() {
    std::vector<NodeId> waiting;
    for (NodeId n : nodes_) {
      const Implementation* by = choices_[at(n)].by;
      if (!by || !by->beside || !by->beside(g_, g_.node(n), to_.threads())) continue;
      const auto other = std::find_if(waiting.begin(), waiting.end(), [&](NodeId w) {
        return alike(g_.node(w), g_.node(n)) && !read_before(w, n);
      });
      if (other == waiting.end()) {
        waiting.push_back(n);
        continue;
      }
      place({{*other, n}, {}, n});
      waiting.erase(other);
    }
  }

  bool alike(const Node& a, const Node& b) const {
    const auto same = [&](ValueId x, ValueId y) {
      return (x == kNone) == (y == kNone) && (x == kNone || g_.type(x) == g_.type(y));
    };
    return a.op == b.op &&
           std::equal(a.inputs.begin(), a.inputs.end(), b.inputs.begin(), b.inputs.end(), same);
  }

  // Whether `n` or a node before it reads what `w` makes, if only by way of views.
  bool read_before(NodeId w, NodeId n) const {
    const auto reads = [&](NodeId reader) {
      const std::vector<ValueId>& in = g_.node(reader).inputs;
      return std::any_of(in.begin(), in.end(), [&](ValueId v) {
        return v != kNone && g_.value(g_.viewed(v)).producer == w;
      });
    };
    const auto first = nodes_.begin() + static_cast<std::ptrdiff_t>(position_[at(w)]) + 1;
    const auto last = nodes_.begin() + static_cast<std::ptrdiff_t>(position_[at(n)]) + 1;
    return std::any_of(first, last, reads);
  }

  // The node that makes `v`, if only `reader` reads that and it may join `reader`; else kNone.
  NodeId joins(ValueId v, const Node& reader) const {
    if (v == kNone || g_.value(v).kind != ValueKind::node) return kNone;
    const NodeId from = g_.value(v).producer;
    const int reads = static_cast<int>(std::count(reader.inputs.begin(), reader.inputs.end(), v));
    if (!inside_[at(from)] || taken_[at(from)] || to_.uses(v) != reads) return kNone;
    const bool same_shape = g_.type(v).shape == g_.type(reader.outputs[0]).shape;
    return pointwise(from) && same_shape ? from : NodeId{kNone};
  }

  Group pointwise_group(NodeId last) const {
    constexpr size_t kMostNodes = 24, kMostOperands = 20;
    Group group{{last}, {}, last};
    size_t operands = g_.node(last).inputs.size();
    for (size_t k = 0; k < group.nodes.size(); ++k) {
      const Node& n = g_.node(group.nodes[k]);
      for (ValueId v : n.inputs) {
        const NodeId from = joins(v, n);
        if (from == kNone) continue;
        if (std::find(group.nodes.begin(), group.nodes.end(), from) != group.nodes.end()) continue;
        const size_t more = g_.node(from).inputs.size();
        if (group.nodes.size() == kMostNodes || operands + more > kMostOperands) continue;
        operands += more;
        group.nodes.push_back(from);
      }
    }
    std::sort(group.nodes.begin(), group.nodes.end(),
              [&](NodeId a, NodeId b) { return position_[at(a)] < position_[at(b)]; });
    return group;
  }

  // A node with the element-wise nodes that make the operand it can evaluate.
  Group with_operand(NodeId last) const {
    const Node& n = g_.node(last);
    const Implementation* by = choices_[at(last)].by;
    const int operand = by ? by->operand : -1;
    const NodeId from = operand < 0 ? NodeId{kNone} : joins(n.inputs[at(operand)], n);
    if (from == kNone) return {{last}, {}, last};
    Group group = pointwise_group(from);
    group.nodes.push_back(last);
    group.root = last;
    return group;
  }

  const Lowering& to_;
  const Graph& g_;
  std::span<const NodeId> nodes_;
  std::span<const Choice> choices_;
  Readers readers_;
  std::vector<bool> taken_, inside_;
  std::vector<size_t> position_;
  std::vector<Group> groups_;  // by last node
  std::vector<int> pointwise_reads_;
};

}  // namespace

std::vector<Group> Region::fuse(std::span<const Choice> choices) {
  Fusion fusion(to_, nodes_, choices);
  fusion.run();
  pointwise_reads_ = fusion.take_pointwise_reads();
  return fusion.groups();
}

}  // namespace hone::cpu
