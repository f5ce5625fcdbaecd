// SPDX-License-Identifier: Apache-2.0
// matmul on oneDNN.
#if HONE_HAVE_ONEDNN

#include "backends/cpu/onednn.hpp"
#include "backends/cpu/onednn_threadpool.hpp"

namespace hone::cpu {

namespace {

// Extents and strides of an operand: leading axes of one up to `rank`, the last two swapped when it
// is used transposed.
struct Strided {
  std::vector<int64_t> dims, strides;
  Strided(const Shape& s, int rank, bool transposed) {
    const Shape own = strides_of(s);
    for (int i = 0; i < rank; ++i) {
      const int k = i - (rank - s.rank());
      dims.push_back(k < 0 ? 1 : s[k]);
      strides.push_back(k < 0 ? s.numel() : own[k]);
    }
    if (transposed) {
      std::swap(dims[dims.size() - 1], dims[dims.size() - 2]);
      std::swap(strides[strides.size() - 1], strides[strides.size() - 2]);
    }
  }
  Result<Layout> layout() const { return Layout::strided(dims, strides); }
};

}  // namespace

bool onednn_accepts_matmul(const Graph& g, const Node& n) {
  return all_of_dtype(g, n, DType::f32) && g.type(n.outputs[0]).numel() > 0 &&
         g.type(n.inputs[0]).numel() > 0;
}

Status onednn_lower_matmul(Lowering& to, NodeId id) {
  const Graph& g = to.graph();
  const Node& n = g.node(id);
  const MatmulAttrs& attrs = n.attrs.as<MatmulAttrs>();
  const Shape out = g.type(n.outputs[0]).shape;
  Shape a = g.type(n.inputs[0]).shape, b = g.type(n.inputs[1]).shape;
  Shape c = out;
  // One matrix B for all of a batch of A rows: a single tall product, which packs B once.
  if (b.rank() == 2 && !attrs.trans_a && a.rank() > 2) {
    a = {a.product(0, a.rank() - 1), a[a.rank() - 1]};
    c = {out.product(0, out.rank() - 1), out[out.rank() - 1]};
  }
  HONE_ASSIGN(const dnnl_engine_t engine, onednn_engine());
  HONE_ASSIGN(const PrimitiveAttr attr, onednn_attributes());
  const Strided sa(a, c.rank(), attrs.trans_a), sb(b, c.rank(), attrs.trans_b);
  HONE_ASSIGN(Layout la, sa.layout());
  HONE_ASSIGN(const Layout stored_b, sb.layout());
  // What never changes is packed once, as the primitive likes it best.
  const bool pack = to.is_fixed(n.inputs[1]) && to.packs();
  HONE_ASSIGN(Layout lb, pack ? Layout::any(sb.dims) : stored_b.clone());
  HONE_ASSIGN(Layout lc, Layout::plain(c.dims()));
  dnnl_primitive_desc_t raw = nullptr;
  HONE_TRY(onednn_status(dnnl_matmul_primitive_desc_create(&raw, engine, la.get(), lb.get(),
                                                           nullptr, lc.get(), attr.get()),
                         "matmul"));
  const PrimitiveDesc pd(raw);
  if (pack) {
    HONE_ASSIGN(lb, Layout::of(pd.get(), dnnl_query_weights_md));
  }
  HONE_ASSIGN(const BufferId b_buffer, in_layout(to, n.inputs[1], stored_b, lb, id));
  std::vector<Operand> reads, writes;
  reads.push_back({DNNL_ARG_SRC, to.of(n.inputs[0]), std::move(la)});
  reads.push_back({DNNL_ARG_WEIGHTS, b_buffer, std::move(lb)});
  writes.push_back({DNNL_ARG_DST, to.of(n.outputs[0]), std::move(lc)});
  return add_primitive(to, pd.get(), std::move(reads), std::move(writes), id, "onednn.matmul");
}

}  // namespace hone::cpu

#endif  // HONE_HAVE_ONEDNN
