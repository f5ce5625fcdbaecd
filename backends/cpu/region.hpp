// SPDX-License-Identifier: Apache-2.0
// Lowering a region: which nodes become one step, and in which order each tensor stands in memory.
//
// Images, tensors of axes (N, C, spatial..), are kept channels-last, (N, spatial.., C), between the
// steps that like them so: convolutions, pooling, batch normalisation, and element-wise steps in
// between. A tensor is brought into the other order when a step asks for it, once.
#pragma once

#include <map>

#include "backends/cpu/implementation.hpp"

namespace hone::cpu {

/// Images have room for so many bytes past their end, which XNNPACK may read.
inline constexpr int64_t kImageSlack = 16;

/// (N, C, spatial..) to (N, spatial.., C).
Shape channels_last_shape(const Shape& x);

/// What follows a convolution and can be done while its result is in registers; kNone where absent.
/// In order: a normalisation with fixed statistics, a sum with another tensor, relu or clip or
/// (where kTailSwish allows) silu or hard_swish.
enum TailPart : int { kTailNorm = 1, kTailAdd = 2, kTailBound = 4, kTailSwish = 8 };
struct Tail {
  NodeId batch_norm = kNone, add = kNone, activation = kNone;
  bool empty() const { return batch_norm == kNone && add == kNone && activation == kNone; }
};

/// A node with what is fused to it, or two that run beside each other; lowered where the last of
/// them stands.
struct Group {
  std::vector<NodeId> nodes;  ///< In order.
  Tail tail;                  ///< Of a convolution, the root.
  NodeId root = kNone;        ///< Whose implementation lowers the group.
  NodeId last() const { return nodes.back(); }
};

/// How a node is to be carried out.
struct Choice {
  const Implementation* by = nullptr;  ///< Null: as part of an expression, or by its reference.
  bool pointwise = false;              ///< As part of an expression.
};

/// An image that is not written but computed wherever it is read: ((x - whole) - rest) factor +
/// bias by channel, a batch normalisation of image x. The buffers hold a float a channel.
struct Deferred {
  NodeId node = kNone;
  ValueId x = kNone;
  BufferId whole = kNone, rest = kNone, factor = kNone, bias = kNone;
};
class Region;
/// Adds a step that writes the deferred image `v`.
using WriteImage = void (*)(Region& region, ValueId v, const Deferred& how);

class Region {
 public:
  /// `nodes`: all that this region lowers, in order.
  Region(Lowering& to, std::span<const NodeId> nodes);

  Lowering& to() { return to_; }
  const Graph& graph() const { return to_.graph(); }

  /// Groups of nodes, by the order of their last nodes. `choices`: by node of the graph.
  std::vector<Group> fuse(std::span<const Choice> choices);

  /// Leaves `v` unwritten, to be computed by the element-wise steps that read it; it is written
  /// should another step ask for it.
  void defer(ValueId v, const Deferred& how, WriteImage write);
  /// How to compute `v` if it has not been written, else null.
  const Deferred* deferred(ValueId v) const;
  /// Whether only element-wise steps of this region read `v`.
  bool only_pointwise_reads(ValueId v) const;

  /// Whether `v` stands channels-last, and only so; or will, once it is written.
  bool only_image(ValueId v) const;
  bool has_image(ValueId v) const;
  /// The buffer of `v` in row-major order, or channels-last; a transposing step for `reader` makes
  /// it if need be.
  BufferId plain(ValueId v, NodeId reader);
  BufferId image(ValueId v, NodeId reader);
  /// The same for a tensor that stands for `v` with leading axes of one.
  BufferId image(ValueId v, const TensorType& as, NodeId reader);
  /// An image with kImageSlack behind it.
  BufferId image_with_slack(ValueId v, NodeId reader);
  /// The buffer that a step writes `v` to, in one order or the other.
  BufferId result_plain(ValueId v) { return to_.of(v); }
  BufferId result_image(ValueId v);

  /// Brings what nodes outside read into row-major order: to be called after the last node.
  void finish();

 private:
  struct Form {
    BufferId image = kNone;
    bool plain = true;  ///< Whether to_.of(v) is filled.
  };
  Form& form(ValueId v) { return forms_[static_cast<size_t>(v)]; }
  const Form& form(ValueId v) const { return forms_[static_cast<size_t>(v)]; }
  void write_deferred(ValueId v);

  Lowering& to_;
  std::vector<NodeId> nodes_;
  std::vector<Form> forms_;
  std::vector<int> pointwise_reads_;  // by value
  struct Unwritten {
    Deferred how;
    WriteImage write;
  };
  std::map<ValueId, Unwritten> unwritten_;
};

/// Adds a step that brings a tensor into channels-last order, or back.
void add_transpose(Lowering& to, BufferId from, BufferId dest, const TensorType& type,
                   bool to_channels_last, NodeId node);
/// The same at once, for weights (M, C, kernel..).
void order_channels_last(const Shape& shape, const float* from, float* to);
/// Whether both orders are the same bytes.
bool same_either_way(const Shape& shape);

}  // namespace hone::cpu
