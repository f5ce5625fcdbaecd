// SPDX-License-Identifier: Apache-2.0
// How the CPU backend is put together: a list of implementations, best first; the first that
// accepts a node lowers it.
#pragma once

#include "hone/backend.hpp"

namespace hone::cpu {

/// Where implementations come from.
enum class Family : uint8_t { onednn, xnnpack, gemm, vector };

class Region;
struct Group;

struct Implementation {
  Family family;
  const OpDef* op;
  /// Whether it can run this node; types, attributes and the processor are known.
  bool (*accepts)(const Graph& g, const Node& node);
  /// Lowers a node whose operands are all in row-major order; null where `lower_group` does it.
  Status (*lower)(Lowering& to, NodeId node);
  /// Lowers a node with what is fused to it, choosing the order of its images. An unsupported
  /// status before it has added a step: the nodes are then lowered one by one.
  Status (*lower_group)(Region& region, const Group& group) = nullptr;
  /// What may be fused behind it: bits of TailPart.
  int tail = 0;
  /// The operand whose element-wise nodes it can evaluate as it goes, or -1.
  int operand = -1;
  /// Whether it may run beside another node like this one, on so many threads.
  bool (*beside)(const Graph& g, const Node& node, int threads) = nullptr;
};

/// What most implementations want of a node's tensors.
inline bool all_of_dtype(const Graph& g, const Node& n, DType t) {
  for (ValueId v : n.inputs)
    if (v != kNone && g.type(v).dtype != t) return false;
  for (ValueId v : n.outputs)
    if (g.type(v).dtype != t) return false;
  return true;
}

/// A step for a node whose operands are its inputs and outputs in plain layout.
inline Step plain_step(Lowering& to, NodeId id, std::unique_ptr<Kernel> kernel,
                       std::string_view kind) {
  const Node& n = to.graph().node(id);
  Step s;
  s.kernel = std::move(kernel);
  s.node = id;
  s.kind = kind;
  std::vector<const TensorType*> in, out;
  for (ValueId v : n.inputs) {
    s.reads.push_back(to.of(v));
    in.push_back(v == kNone ? nullptr : &to.graph().type(v));
  }
  for (ValueId v : n.outputs) {
    s.writes.push_back(to.of(v));
    out.push_back(&to.graph().type(v));
  }
  if (n.op->flops) s.flops = n.op->flops({in, out, n.attrs});
  return s;
}

}  // namespace hone::cpu
