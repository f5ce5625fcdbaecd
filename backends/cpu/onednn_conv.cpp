// SPDX-License-Identifier: Apache-2.0
// Convolution and its adjoints on oneDNN. The primitive chooses the layouts; what is stored
// otherwise is reordered by steps of its own.
#if HONE_HAVE_ONEDNN

#include "backends/cpu/onednn.hpp"
#include "hone/window.hpp"

namespace hone::cpu {

namespace {

// A convolution x * w -> y as oneDNN counts: groups are an axis of the weights, dilation starts at
// zero.
struct Conv {
  std::vector<int64_t> x, w, y, strides, dilations, pads_begin, pads_end;

  static Result<Conv> make(const ConvAttrs& attrs, const Shape& x, const Shape& w, const Shape& y) {
    HONE_ASSIGN(const Window window, conv_window(attrs, spatial_of(x), spatial_of(w)));
    Conv c;
    c.x.assign(x.begin(), x.end());
    c.y.assign(y.begin(), y.end());
    if (attrs.groups > 1) {
      c.w = {attrs.groups, w[0] / attrs.groups};
      c.w.insert(c.w.end(), w.begin() + 1, w.end());
    } else {
      c.w.assign(w.begin(), w.end());
    }
    for (int k = 0; k < window.rank; ++k) {
      const WindowAxis& a = window.spatial(k);
      c.strides.push_back(a.stride);
      c.dilations.push_back(a.dilation - 1);
      c.pads_begin.push_back(a.pad_begin);
      // What the last window really reaches, so that oneDNN's own formula gives the same output
      // extent.
      c.pads_end.push_back((a.out - 1) * a.stride + a.span() - a.in - a.pad_begin);
    }
    return c;
  }
};

// A tensor of the graph in the layout that the primitive wants.
struct Stored {
  Layout plain, wanted;
  bool same() const { return plain.same(wanted); }
};
Result<Stored> stored(std::span<const int64_t> dims, const_dnnl_primitive_desc_t pd,
                      dnnl_query_t what) {
  Stored s;
  HONE_ASSIGN(s.plain, Layout::plain(dims));
  HONE_ASSIGN(s.wanted, Layout::of(pd, what));
  return s;
}

// Adds the primitive with reads in its layouts, its result reordered back if need be.
Status add(Lowering& to, NodeId id, const_dnnl_primitive_desc_t pd, std::vector<Operand> reads,
           int out_arg, Stored out, std::string_view kind) {
  const ValueId v = to.graph().node(id).outputs[0];
  const BufferId direct = out.same() ? to.of(v) : to.temporary(out.wanted.bytes());
  std::vector<Operand> writes;
  HONE_ASSIGN(Layout layout, out.wanted.clone());
  writes.push_back({out_arg, direct, std::move(layout)});
  HONE_TRY(add_primitive(to, pd, std::move(reads), std::move(writes), id, kind));
  return out.same() ? Status() : add_reorder(to, direct, out.wanted, to.of(v), out.plain, id);
}

Status read(Lowering& to, NodeId id, size_t input, int arg, Stored s, std::vector<Operand>& reads) {
  HONE_ASSIGN(const BufferId b,
              in_layout(to, to.graph().node(id).inputs[input], s.plain, s.wanted, id));
  reads.push_back({arg, b, std::move(s.wanted)});
  return {};
}

struct Asked {
  Layout x, w, y;
};
Result<Asked> ask(const Conv& c) {
  Asked a;
  HONE_ASSIGN(a.x, Layout::any(c.x));
  HONE_ASSIGN(a.w, Layout::any(c.w));
  HONE_ASSIGN(a.y, Layout::any(c.y));
  return a;
}

Result<PrimitiveDesc> forward_desc(const Conv& c, const Layout* bias, dnnl_prop_kind_t kind) {
  HONE_ASSIGN(const dnnl_engine_t engine, onednn_engine());
  HONE_ASSIGN(const PrimitiveAttr attr, onednn_attributes());
  HONE_ASSIGN(const Asked a, ask(c));
  dnnl_primitive_desc_t pd = nullptr;
  HONE_TRY(
      onednn_status(dnnl_convolution_forward_primitive_desc_create(
                        &pd, engine, kind, dnnl_convolution_direct, a.x.get(), a.w.get(),
                        bias ? bias->get() : nullptr, a.y.get(), c.strides.data(),
                        c.dilations.data(), c.pads_begin.data(), c.pads_end.data(), attr.get()),
                    "convolution"));
  return PrimitiveDesc(pd);
}

}  // namespace

bool onednn_accepts_conv(const Graph& g, const Node& n) {
  if (!all_of_dtype(g, n, DType::f32)) return false;
  for (ValueId v : n.inputs)
    if (v != kNone && g.type(v).numel() == 0) return false;
  return g.type(n.outputs[0]).numel() > 0;
}

Status onednn_lower_conv(Lowering& to, NodeId id) {
  const Graph& g = to.graph();
  const Node& n = g.node(id);
  HONE_ASSIGN(const Conv c, Conv::make(n.attrs.as<ConvAttrs>(), g.type(n.inputs[0]).shape,
                                       g.type(n.inputs[1]).shape, g.type(n.outputs[0]).shape));
  const bool has_bias = n.inputs.size() > 2 && n.inputs[2] != kNone;
  Layout bias;
  if (has_bias) {
    const int64_t channels[] = {c.y[1]};
    HONE_ASSIGN(bias, Layout::plain(channels));
  }
  HONE_ASSIGN(const PrimitiveDesc pd,
              forward_desc(c, has_bias ? &bias : nullptr, dnnl_forward_inference));
  HONE_ASSIGN(Stored x, stored(c.x, pd.get(), dnnl_query_src_md));
  HONE_ASSIGN(Stored w, stored(c.w, pd.get(), dnnl_query_weights_md));
  HONE_ASSIGN(Stored y, stored(c.y, pd.get(), dnnl_query_dst_md));
  std::vector<Operand> reads;
  HONE_TRY(read(to, id, 0, DNNL_ARG_SRC, std::move(x), reads));
  HONE_TRY(read(to, id, 1, DNNL_ARG_WEIGHTS, std::move(w), reads));
  if (has_bias) reads.push_back({DNNL_ARG_BIAS, to.of(n.inputs[2]), std::move(bias)});
  return add(to, id, pd.get(), std::move(reads), DNNL_ARG_DST, std::move(y), "onednn.conv");
}

Status onednn_lower_conv_input_grad(Lowering& to, NodeId id) {
  const Graph& g = to.graph();
  const Node& n = g.node(id);
  HONE_ASSIGN(const Conv c, Conv::make(n.attrs.as<ConvGradAttrs>().conv, g.type(n.outputs[0]).shape,
                                       g.type(n.inputs[1]).shape, g.type(n.inputs[0]).shape));
  HONE_ASSIGN(const PrimitiveDesc hint, forward_desc(c, nullptr, dnnl_forward_training));
  HONE_ASSIGN(const dnnl_engine_t engine, onednn_engine());
  HONE_ASSIGN(const PrimitiveAttr attr, onednn_attributes());
  HONE_ASSIGN(const Asked a, ask(c));
  dnnl_primitive_desc_t raw = nullptr;
  HONE_TRY(onednn_status(
      dnnl_convolution_backward_data_primitive_desc_create(
          &raw, engine, dnnl_convolution_direct, a.x.get(), a.w.get(), a.y.get(), c.strides.data(),
          c.dilations.data(), c.pads_begin.data(), c.pads_end.data(), hint.get(), attr.get()),
      "convolution's input gradient"));
  const PrimitiveDesc pd(raw);
  HONE_ASSIGN(Stored gy, stored(c.y, pd.get(), dnnl_query_diff_dst_md));
  HONE_ASSIGN(Stored w, stored(c.w, pd.get(), dnnl_query_weights_md));
  HONE_ASSIGN(Stored gx, stored(c.x, pd.get(), dnnl_query_diff_src_md));
  std::vector<Operand> reads;
  HONE_TRY(read(to, id, 0, DNNL_ARG_DIFF_DST, std::move(gy), reads));
  HONE_TRY(read(to, id, 1, DNNL_ARG_WEIGHTS, std::move(w), reads));
  return add(to, id, pd.get(), std::move(reads), DNNL_ARG_DIFF_SRC, std::move(gx),
             "onednn.conv_input_grad");
}

Status onednn_lower_conv_weight_grad(Lowering& to, NodeId id) {
  const Graph& g = to.graph();
  const Node& n = g.node(id);
  HONE_ASSIGN(const Conv c, Conv::make(n.attrs.as<ConvGradAttrs>().conv, g.type(n.inputs[0]).shape,
                                       g.type(n.outputs[0]).shape, g.type(n.inputs[1]).shape));
  HONE_ASSIGN(const PrimitiveDesc hint, forward_desc(c, nullptr, dnnl_forward_training));
  HONE_ASSIGN(const dnnl_engine_t engine, onednn_engine());
  HONE_ASSIGN(const PrimitiveAttr attr, onednn_attributes());
  HONE_ASSIGN(const Asked a, ask(c));
  dnnl_primitive_desc_t raw = nullptr;
  HONE_TRY(onednn_status(dnnl_convolution_backward_weights_primitive_desc_create(
                             &raw, engine, dnnl_convolution_direct, a.x.get(), a.w.get(), nullptr,
                             a.y.get(), c.strides.data(), c.dilations.data(), c.pads_begin.data(),
                             c.pads_end.data(), hint.get(), attr.get()),
                         "convolution's weight gradient"));
  const PrimitiveDesc pd(raw);
  HONE_ASSIGN(Stored x, stored(c.x, pd.get(), dnnl_query_src_md));
  HONE_ASSIGN(Stored gy, stored(c.y, pd.get(), dnnl_query_diff_dst_md));
  HONE_ASSIGN(Stored gw, stored(c.w, pd.get(), dnnl_query_diff_weights_md));
  std::vector<Operand> reads;
  HONE_TRY(read(to, id, 0, DNNL_ARG_SRC, std::move(x), reads));
  HONE_TRY(read(to, id, 1, DNNL_ARG_DIFF_DST, std::move(gy), reads));
  return add(to, id, pd.get(), std::move(reads), DNNL_ARG_DIFF_WEIGHTS, std::move(gw),
             "onednn.conv_weight_grad");
}

}  // namespace hone::cpu

#endif  // HONE_HAVE_ONEDNN
