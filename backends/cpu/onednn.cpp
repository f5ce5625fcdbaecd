// SPDX-License-Identifier: Apache-2.0
// oneDNN's objects, and the one kernel that runs any primitive.
#if HONE_HAVE_ONEDNN

#include "backends/cpu/onednn.hpp"

#include "backends/cpu/onednn_threadpool.hpp"
#include "oneapi/dnnl/dnnl_threadpool.h"

namespace hone::cpu {

Status onednn_status(dnnl_status_t s, std::string_view what) {
  if (s == dnnl_success) return {};
  if (s == dnnl_out_of_memory) return out_of_memory("oneDNN: {}: out of memory", what);
  if (s == dnnl_unimplemented) return unsupported("oneDNN: {}: not implemented", what);
  return internal("oneDNN: {}: status {}", what, static_cast<int>(s));
}

Result<dnnl_engine_t> onednn_engine() {
  struct Made {
    dnnl_engine_t engine = nullptr;
    dnnl_status_t status;
    Made() : status(dnnl_engine_create(&engine, dnnl_cpu, 0)) {}
  };
  static const Made made;
  HONE_TRY(onednn_status(made.status, "engine"));
  return made.engine;
}

Result<PrimitiveAttr> onednn_attributes() {
  dnnl_primitive_attr_t attr = nullptr;
  HONE_TRY(onednn_status(dnnl_primitive_attr_create(&attr), "attributes"));
  PrimitiveAttr out(attr);
  HONE_TRY(onednn_status(dnnl_primitive_attr_set_scratchpad_mode(attr, dnnl_scratchpad_mode_user),
                         "scratch mode"));
  return out;
}

Result<Layout> Layout::strided(std::span<const int64_t> dims, std::span<const int64_t> strides) {
  dnnl_memory_desc_t md = nullptr;
  HONE_TRY(
      onednn_status(dnnl_memory_desc_create_with_strides(&md, static_cast<int>(dims.size()),
                                                         dims.data(), dnnl_f32, strides.data()),
                    "layout"));
  Layout out;
  out.md_.reset(md);
  return out;
}

Result<Layout> Layout::plain(std::span<const int64_t> dims) {
  const Shape strides = strides_of(Shape(dims));
  return strided(dims, strides.dims());
}

Result<Layout> Layout::channels_last(std::span<const int64_t> dims) {
  std::vector<int64_t> strides(dims.size());
  int64_t stride = dims[1];
  for (size_t i = dims.size(); i-- > 2;) {
    strides[i] = stride;
    stride *= dims[i];
  }
  strides[0] = stride;
  strides[1] = 1;
  return strided(dims, strides);
}

Result<Layout> Layout::any(std::span<const int64_t> dims) {
  dnnl_memory_desc_t md = nullptr;
  HONE_TRY(
      onednn_status(dnnl_memory_desc_create_with_tag(&md, static_cast<int>(dims.size()),
                                                     dims.data(), dnnl_f32, dnnl_format_tag_any),
                    "layout"));
  Layout out;
  out.md_.reset(md);
  return out;
}

namespace {
Result<dnnl_memory_desc_t> cloned(const_dnnl_memory_desc_t md) {
  if (!md) return internal("oneDNN: a primitive does not say its layout");
  dnnl_memory_desc_t copy = nullptr;
  HONE_TRY(onednn_status(dnnl_memory_desc_clone(&copy, md), "layout"));
  return copy;
}
}  // namespace

Result<Layout> Layout::of(const_dnnl_primitive_desc_t pd, dnnl_query_t what) {
  HONE_ASSIGN(const dnnl_memory_desc_t md, cloned(dnnl_primitive_desc_query_md(pd, what, 0)));
  Layout out;
  out.md_.reset(md);
  return out;
}

Result<Layout> Layout::clone() const {
  HONE_ASSIGN(const dnnl_memory_desc_t md, cloned(md_.get()));
  Layout out;
  out.md_.reset(md);
  return out;
}

namespace {

struct FreeMemory {
  void operator()(dnnl_memory* p) const { dnnl_memory_destroy(p); }
};
struct FreePrimitive {
  void operator()(dnnl_primitive* p) const { dnnl_primitive_destroy(p); }
};
struct FreeStream {
  void operator()(dnnl_stream* p) const { dnnl_stream_destroy(p); }
};

class OnednnKernel final : public Kernel {
 public:
  static Result<std::unique_ptr<OnednnKernel>> create(const_dnnl_primitive_desc_t pd,
                                                      std::span<const Operand> reads,
                                                      std::span<const Operand> writes,
                                                      int parts = 1) {
    auto k = std::make_unique<OnednnKernel>();
    k->parts_ = parts;
    HONE_ASSIGN(k->engine_, onednn_engine());
    dnnl_primitive_t primitive = nullptr;
    HONE_TRY(onednn_status(dnnl_primitive_create(&primitive, pd), "primitive"));
    k->primitive_.reset(primitive);
    for (const std::span<const Operand> list : {reads, writes})
      for (const Operand& o : list) HONE_TRY(k->add(o.arg, o.layout.get()));
    if (const const_dnnl_memory_desc_t scratch =
            dnnl_primitive_desc_query_md(pd, dnnl_query_scratchpad_md, 0)) {
      k->scratch_bytes_ = static_cast<int64_t>(dnnl_memory_desc_get_size(scratch));
      if (k->scratch_bytes_ > 0) HONE_TRY(k->add(DNNL_ARG_SCRATCHPAD, scratch));
    }
    return k;
  }
  int64_t scratch_bytes() const { return scratch_bytes_; }

  Status run(const StepArgs& args) override {
    if (&args.pool != pool_) HONE_TRY(use(args.pool));
    for (size_t i = 0; i < memories_.size(); ++i) {
      void* data = i < args.operands.size() ? args.operands[i] : args.scratch;
      HONE_TRY(onednn_status(dnnl_memory_set_data_handle(memories_[i].get(), data), "operand"));
    }
    return onednn_status(dnnl_primitive_execute(primitive_.get(), stream_.get(),
                                                static_cast<int>(args_.size()), args_.data()),
                         "run");
  }

 private:
  Status add(int arg, const_dnnl_memory_desc_t md) {
    dnnl_memory_t memory = nullptr;
    HONE_TRY(onednn_status(dnnl_memory_create(&memory, md, engine_, DNNL_MEMORY_NONE), "operand"));
    memories_.emplace_back(memory);
    args_.push_back({arg, memory});
    return {};
  }
  Status use(ThreadPool& pool) {
    pool_ = &pool;
    adapter_ = std::make_unique<OnednnThreadPool>(pool, parts_);
    dnnl_stream_t stream = nullptr;
    HONE_TRY(onednn_status(dnnl_threadpool_interop_stream_create(&stream, engine_, adapter_.get()),
                           "stream"));
    stream_.reset(stream);
    return {};
  }

  int parts_ = 1;  // threads that the primitive was made for
  dnnl_engine_t engine_ = nullptr;
  std::unique_ptr<dnnl_primitive, FreePrimitive> primitive_;
  std::vector<std::unique_ptr<dnnl_memory, FreeMemory>> memories_;
  std::vector<dnnl_exec_arg_t> args_;
  int64_t scratch_bytes_ = 0;
  ThreadPool* pool_ = nullptr;
  std::unique_ptr<OnednnThreadPool> adapter_;  // before the stream that uses it
  std::unique_ptr<dnnl_stream, FreeStream> stream_;
};

// With `scale_mask`, the source is scaled along these axes.
Result<PrimitiveDesc> reorder_desc(const Layout& from, const Layout& dest, int scale_mask = 0) {
  HONE_ASSIGN(const dnnl_engine_t engine, onednn_engine());
  HONE_ASSIGN(const PrimitiveAttr attr, onednn_attributes());
  if (scale_mask)
    HONE_TRY(onednn_status(
        dnnl_primitive_attr_set_scales_mask(attr.get(), DNNL_ARG_SRC, scale_mask), "scales"));
  dnnl_primitive_desc_t pd = nullptr;
  HONE_TRY(onednn_status(
      dnnl_reorder_primitive_desc_create(&pd, from.get(), engine, dest.get(), engine, attr.get()),
      "reorder"));
  return PrimitiveDesc(pd);
}

constexpr std::string_view kReorder = "onednn.reorder";

double flops_of(const Graph& g, NodeId id) {
  const Node& n = g.node(id);
  if (!n.op->flops) return 0;
  std::vector<const TensorType*> in, out;
  for (ValueId v : n.inputs) in.push_back(v == kNone ? nullptr : &g.type(v));
  for (ValueId v : n.outputs) out.push_back(&g.type(v));
  return n.op->flops({in, out, n.attrs});
}

}  // namespace

Status add_primitive(Lowering& to, const_dnnl_primitive_desc_t pd, std::vector<Operand> reads,
                     std::vector<Operand> writes, NodeId node, std::string_view kind) {
  HONE_ASSIGN(auto kernel, OnednnKernel::create(pd, reads, writes, to.parts()));
  Step s;
  s.scratch_bytes = kernel->scratch_bytes();
  s.kernel = std::move(kernel);
  for (const Operand& o : reads) s.reads.push_back(o.buffer);
  for (const Operand& o : writes) s.writes.push_back(o.buffer);
  s.node = node;
  s.kind = kind;
  if (kind != kReorder) s.flops = flops_of(to.graph(), node);
  to.add(std::move(s));
  return {};
}

Status add_reorder(Lowering& to, BufferId from, const Layout& from_layout, BufferId dest,
                   const Layout& dest_layout, NodeId node) {
  HONE_ASSIGN(const PrimitiveDesc pd, reorder_desc(from_layout, dest_layout));
  std::vector<Operand> reads(1), writes(1);
  reads[0].arg = DNNL_ARG_FROM;
  reads[0].buffer = from;
  HONE_ASSIGN(reads[0].layout, from_layout.clone());
  writes[0].arg = DNNL_ARG_TO;
  writes[0].buffer = dest;
  HONE_ASSIGN(writes[0].layout, dest_layout.clone());
  return add_primitive(to, pd.get(), std::move(reads), std::move(writes), node, kReorder);
}

namespace {

Status scaled_operands(const ScaledReorder& r, std::vector<Operand>& reads,
                       std::vector<Operand>& writes) {
  const int64_t channels[] = {r.channels};
  HONE_ASSIGN(Layout from, r.from->clone());
  HONE_ASSIGN(Layout scales, Layout::plain(channels));
  HONE_ASSIGN(Layout dest, r.dest->clone());
  reads.push_back({DNNL_ARG_FROM, kNone, std::move(from)});
  reads.push_back({DNNL_ARG_ATTR_SCALES | DNNL_ARG_SRC, kNone, std::move(scales)});
  writes.push_back({DNNL_ARG_TO, kNone, std::move(dest)});
  return {};
}

}  // namespace

Status add_scaled_reorder(Lowering& to, BufferId from, BufferId scales, BufferId dest,
                          const ScaledReorder& r, NodeId node) {
  HONE_ASSIGN(const PrimitiveDesc pd, reorder_desc(*r.from, *r.dest, r.mask));
  std::vector<Operand> reads, writes;
  HONE_TRY(scaled_operands(r, reads, writes));
  reads[0].buffer = from;
  reads[1].buffer = scales;
  writes[0].buffer = dest;
  return add_primitive(to, pd.get(), std::move(reads), std::move(writes), node, kReorder);
}

Result<PackScaled> pack_scaled(const ScaledReorder& r) {
  HONE_ASSIGN(const PrimitiveDesc pd, reorder_desc(*r.from, *r.dest, r.mask));
  std::vector<Operand> reads, writes;
  HONE_TRY(scaled_operands(r, reads, writes));
  // shared: a PackFn must be copyable
  HONE_ASSIGN(std::shared_ptr<OnednnKernel> kernel, OnednnKernel::create(pd.get(), reads, writes));
  return PackScaled([kernel](const void* from, const float* scales, void* dest) -> Status {
    HONE_ASSIGN(TensorData scratch, TensorData::allocate({DType::u8, {kernel->scratch_bytes()}}));
    void* const operands[] = {const_cast<void*>(from), const_cast<float*>(scales), dest};
    return kernel->run({operands, static_cast<std::byte*>(scratch.mutable_data()), serial_pool()});
  });
}

Result<BufferId> in_layout(Lowering& to, ValueId v, const Layout& stored, const Layout& wanted,
                           NodeId node) {
  if (stored.same(wanted)) return to.of(v);
  if (to.is_fixed(v) && to.packs()) {
    HONE_ASSIGN(const PrimitiveDesc pd, reorder_desc(stored, wanted));
    std::vector<Operand> reads(1), writes(1);
    reads[0].arg = DNNL_ARG_FROM;
    HONE_ASSIGN(reads[0].layout, stored.clone());
    writes[0].arg = DNNL_ARG_TO;
    HONE_ASSIGN(writes[0].layout, wanted.clone());
    HONE_ASSIGN(std::shared_ptr<OnednnKernel> kernel,
                OnednnKernel::create(pd.get(), reads, writes));
    // shared: a PackFn must be copyable
    const int64_t scratch_bytes = kernel->scratch_bytes();
    return to.packed(
        {&v, 1}, wanted.bytes(), [kernel, scratch_bytes](auto from, void* dest) -> Status {
          HONE_ASSIGN(TensorData scratch, TensorData::allocate({DType::u8, {scratch_bytes}}));
          void* const operands[] = {const_cast<void*>(from[0]), dest};
          return kernel->run(
              {operands, static_cast<std::byte*>(scratch.mutable_data()), serial_pool()});
        });
  }
  const BufferId copy = to.temporary(wanted.bytes());
  HONE_TRY(add_reorder(to, to.of(v), stored, copy, wanted, node));
  return copy;
}

}  // namespace hone::cpu

#endif  // HONE_HAVE_ONEDNN
