// SPDX-License-Identifier: Apache-2.0
// oneDNN primitives as steps. Through its C interface: the C++ one throws.
#pragma once

#if HONE_HAVE_ONEDNN

#include <initializer_list>

#include "backends/cpu/region.hpp"
#include "oneapi/dnnl/dnnl.h"

namespace hone::cpu {

/// A memory descriptor that we own: type, extents and layout of a tensor.
class Layout {
 public:
  Layout() = default;
  /// Row-major, or with explicit strides in elements.
  static Result<Layout> plain(std::span<const int64_t> dims);
  static Result<Layout> strided(std::span<const int64_t> dims, std::span<const int64_t> strides);
  /// Axes (N, C, spatial..) stored as (N, spatial.., C).
  static Result<Layout> channels_last(std::span<const int64_t> dims);
  /// To be chosen by the primitive.
  static Result<Layout> any(std::span<const int64_t> dims);
  /// A copy of what a primitive descriptor says.
  static Result<Layout> of(const_dnnl_primitive_desc_t pd, dnnl_query_t what);

  Result<Layout> clone() const;

  const_dnnl_memory_desc_t get() const { return md_.get(); }
  bool same(const Layout& o) const { return dnnl_memory_desc_equal(md_.get(), o.md_.get()) != 0; }
  int64_t bytes() const {
    return md_ ? static_cast<int64_t>(dnnl_memory_desc_get_size(md_.get())) : 0;
  }

 private:
  struct Free {
    void operator()(dnnl_memory_desc* p) const { dnnl_memory_desc_destroy(p); }
  };
  std::unique_ptr<dnnl_memory_desc, Free> md_;
};

struct FreePrimitiveDesc {
  void operator()(dnnl_primitive_desc* p) const { dnnl_primitive_desc_destroy(p); }
};
using PrimitiveDesc = std::unique_ptr<dnnl_primitive_desc, FreePrimitiveDesc>;

struct FreeAttr {
  void operator()(dnnl_primitive_attr* p) const { dnnl_primitive_attr_destroy(p); }
};
using PrimitiveAttr = std::unique_ptr<dnnl_primitive_attr, FreeAttr>;

/// The CPU engine: made once, never changed.
Result<dnnl_engine_t> onednn_engine();
/// Attributes that all our primitives have: scratch comes from us.
Result<PrimitiveAttr> onednn_attributes();
/// ok, or what oneDNN said, in words.
Status onednn_status(dnnl_status_t s, std::string_view what);

/// An operand of a primitive: its role (DNNL_ARG_...), its buffer and its layout.
struct Operand {
  int arg = 0;
  BufferId buffer = kNone;
  Layout layout;
};

/// Adds the primitive as a step. `reads` and `writes` are its operands.
Status add_primitive(Lowering& to, const_dnnl_primitive_desc_t pd, std::vector<Operand> reads,
                     std::vector<Operand> writes, NodeId node, std::string_view kind);
/// Adds a step that copies from one layout to another.
Status add_reorder(Lowering& to, BufferId from, const Layout& from_layout, BufferId dest,
                   const Layout& dest_layout, NodeId node);

/// A copy into another layout, scaled along the axes in `mask` (bit i: axis i), `channels` extents
/// in all.
struct ScaledReorder {
  const Layout *from, *dest;
  int mask;
  int64_t channels;
};
Status add_scaled_reorder(Lowering& to, BufferId from, BufferId scales, BufferId dest,
                          const ScaledReorder& reorder, NodeId node);
/// The same at once, on the calling thread.
using PackScaled = std::function<Status(const void* from, const float* scales, void* dest)>;
Result<PackScaled> pack_scaled(const ScaledReorder& reorder);

/// The buffer of `v` in `wanted` layout, given that it is stored as `stored`: its own, a packed
/// copy when its content is fixed, or a temporary filled by a reorder step.
Result<BufferId> in_layout(Lowering& to, ValueId v, const Layout& stored, const Layout& wanted,
                           NodeId node);

bool onednn_accepts_conv(const Graph& g, const Node& node);
Status onednn_lower_conv(Region& region, const Group& group);
Status onednn_lower_conv_input_grad(Region& region, const Group& group);
Status onednn_lower_conv_weight_grad(Region& region, const Group& group);
bool onednn_accepts_matmul(const Graph& g, const Node& node);
Status onednn_lower_matmul(Lowering& to, NodeId node);

}  // namespace hone::cpu

#endif  // HONE_HAVE_ONEDNN
