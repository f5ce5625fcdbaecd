// SPDX-License-Identifier: Apache-2.0
// Convolution and its adjoints on oneDNN, on channels-last images. The primitive chooses the layout
// of the weights; what is stored otherwise is reordered by steps of its own.
#if HONE_HAVE_ONEDNN

#include "backends/cpu/normalisation.hpp"
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

// Images are channels-last, weights as the primitive likes them.
struct Asked {
  Layout x, w, y;
};
Result<Asked> ask(const Conv& c) {
  Asked a;
  HONE_ASSIGN(a.x, Layout::channels_last(c.x));
  HONE_ASSIGN(a.w, Layout::any(c.w));
  HONE_ASSIGN(a.y, Layout::channels_last(c.y));
  return a;
}

// What follows a convolution, as oneDNN's attribute and operands.
struct PostOps {
  PrimitiveAttr attr;
  std::vector<Operand> reads;
};

struct FreePostOps {
  void operator()(dnnl_post_ops* p) const { dnnl_post_ops_destroy(p); }
};

dnnl_status_t append_activation(dnnl_post_ops_t to, const Node& n) {
  const auto append = [&](dnnl_alg_kind_t kind, float alpha, float beta) {
    return dnnl_post_ops_append_eltwise(to, kind, alpha, beta);
  };
  if (n.op == &op::silu) return append(dnnl_eltwise_swish, 1, 0);
  if (n.op == &op::hard_swish) return append(dnnl_eltwise_hardswish, 1.0f / 6, 0.5f);
  if (n.op == &op::relu) return append(dnnl_eltwise_relu, 0, 0);
  const ClipAttrs& bounds = n.attrs.as<ClipAttrs>();
  return append(dnnl_eltwise_clip, static_cast<float>(bounds.low), static_cast<float>(bounds.high));
}

// The buffers are filled in by `add_coefficients`, once the primitive is known to exist.
// A normalisation that is folded into the weights is none of them.
Result<PostOps> post_ops(const Region& r, const Conv& c, const Tail& tail, bool folded) {
  PostOps out;
  HONE_ASSIGN(out.attr, onednn_attributes());
  if (tail.empty()) return out;
  dnnl_post_ops_t raw = nullptr;
  HONE_TRY(onednn_status(dnnl_post_ops_create(&raw), "post-operations"));
  const std::unique_ptr<dnnl_post_ops, FreePostOps> ops(raw);
  int count = 0;
  const auto binary = [&](dnnl_alg_kind_t kind, Layout layout) -> Status {
    HONE_TRY(onednn_status(dnnl_post_ops_append_binary(raw, kind, layout.get()), "post-operation"));
    out.reads.push_back(
        {DNNL_ARG_ATTR_MULTIPLE_POST_OP(count++) | DNNL_ARG_SRC_1, kNone, std::move(layout)});
    return {};
  };
  if (tail.batch_norm != kNone && !folded) {
    std::vector<int64_t> channels(c.y.size(), 1);
    channels[1] = c.y[1];
    for (const dnnl_alg_kind_t kind : {dnnl_binary_mul, dnnl_binary_add}) {
      HONE_ASSIGN(Layout layout, Layout::plain(channels));
      HONE_TRY(binary(kind, std::move(layout)));
    }
  }
  if (tail.add != kNone) {
    HONE_ASSIGN(Layout layout, Layout::channels_last(c.y));
    HONE_TRY(binary(dnnl_binary_add, std::move(layout)));
  }
  if (tail.activation != kNone)
    HONE_TRY(
        onednn_status(append_activation(raw, r.graph().node(tail.activation)), "post-operation"));
  HONE_TRY(onednn_status(dnnl_primitive_attr_set_post_ops(out.attr.get(), raw), "post-operations"));
  return out;
}

// Fills in the buffers of the tail's operands; adds the step that computes the coefficients.
void add_tail_operands(Region& r, const Group& group, bool folded, PostOps& post) {
  const Graph& g = r.graph();
  const Tail& tail = group.tail;
  size_t next = 0;
  if (tail.batch_norm != kNone && !folded) {
    const auto buffers = Normalisation::of(g, tail.batch_norm).add_step(r, tail.batch_norm);
    post.reads[next++].buffer = buffers.factor;
    post.reads[next++].buffer = buffers.shift;
  }
  if (tail.add != kNone) {
    const Node& n = g.node(tail.add);
    const NodeId before = tail.batch_norm != kNone ? tail.batch_norm : group.root;
    const bool first = n.inputs[0] == g.node(before).outputs[0];
    post.reads[next].buffer = r.image(n.inputs[first ? 1 : 0], tail.add);
  }
}

Result<PrimitiveDesc> forward_desc(const Conv& c, const Layout* bias, dnnl_prop_kind_t kind,
                                   const PrimitiveAttr& attr) {
  HONE_ASSIGN(const dnnl_engine_t engine, onednn_engine());
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

// Whether the primitive is one of oneDNN's loops for lack of anything better.
bool is_reference(const PrimitiveDesc& pd) {
  const char* name = nullptr;
  if (dnnl_primitive_desc_query(pd.get(), dnnl_query_impl_info_str, 0, &name) != dnnl_success)
    return false;
  return std::string_view(name).substr(0, 3) == "ref";
}

// The weights (input 1) in the primitive's layout.
Status read_weights(Region& r, NodeId id, const Conv& c, const PrimitiveDesc& pd,
                    std::vector<Operand>& reads) {
  HONE_ASSIGN(const Layout plain, Layout::plain(c.w));
  HONE_ASSIGN(Layout wanted, Layout::of(pd.get(), dnnl_query_weights_md));
  HONE_ASSIGN(const BufferId b, in_layout(r.to(), r.graph().node(id).inputs[1], plain, wanted, id));
  reads.push_back({DNNL_ARG_WEIGHTS, b, std::move(wanted)});
  return {};
}

// Weights scaled by a normalisation's factors, and the bias that the two make together.
Status read_folded(Region& r, NodeId id, const Conv& c, const Normalisation& norm,
                   const PrimitiveDesc& pd, Layout bias, std::vector<Operand>& reads) {
  Lowering& to = r.to();
  HONE_ASSIGN(const Layout plain, Layout::plain(c.w));
  HONE_ASSIGN(Layout wanted, Layout::of(pd.get(), dnnl_query_weights_md));
  const bool grouped = c.w.size() > c.x.size();  // then output channels are two axes
  const ScaledReorder reorder{&plain, &wanted, grouped ? 3 : 1, norm.channels};
  BufferId weights = kNone, shift = kNone;
  if (to.packs()) {
    shift = to.packed(norm.sources(), norm.bytes(), [norm](auto from, void* dest) -> Status {
      norm.coefficients(from, nullptr, static_cast<float*>(dest));
      return {};
    });
    std::vector<ValueId> sources = norm.sources();
    sources.push_back(r.graph().node(id).inputs[1]);
    HONE_ASSIGN(const PackScaled pack, pack_scaled(reorder));
    weights = to.packed(sources, wanted.bytes(), [norm, pack](auto from, void* dest) -> Status {
      std::vector<float> factor(static_cast<size_t>(norm.channels));
      norm.coefficients(from.first(from.size() - 1), factor.data(), nullptr);
      return pack(from.back(), factor.data(), dest);
    });
  } else {
    const auto buffers = norm.add_step(r, id);
    shift = buffers.shift;
    weights = to.temporary(wanted.bytes());
    HONE_TRY(add_scaled_reorder(to, r.plain(r.graph().node(id).inputs[1], id), buffers.factor,
                                weights, reorder, id));
  }
  reads.push_back({DNNL_ARG_WEIGHTS, weights, std::move(wanted)});
  reads.push_back({DNNL_ARG_BIAS, shift, std::move(bias)});
  return {};
}

Status read_image(Region& r, NodeId id, size_t input, std::span<const int64_t> dims, int arg,
                  std::vector<Operand>& reads) {
  HONE_ASSIGN(Layout layout, Layout::channels_last(dims));
  reads.push_back({arg, r.image(r.graph().node(id).inputs[input], id), std::move(layout)});
  return {};
}

Status add_image_primitive(Region& r, ValueId result, const PrimitiveDesc& pd,
                           std::vector<Operand> reads, std::span<const int64_t> dims, int arg,
                           NodeId id, std::string_view kind) {
  HONE_ASSIGN(Layout layout, Layout::channels_last(dims));
  std::vector<Operand> writes;
  writes.push_back({arg, r.result_image(result), std::move(layout)});
  return add_primitive(r.to(), pd.get(), std::move(reads), std::move(writes), id, kind);
}

}  // namespace

bool onednn_accepts_conv(const Graph& g, const Node& n) {
  if (!all_of_dtype(g, n, DType::f32)) return false;
  for (ValueId v : n.inputs)
    if (v != kNone && g.type(v).numel() == 0) return false;
  return g.type(n.outputs[0]).numel() > 0;
}

Status onednn_lower_conv(Region& r, const Group& group) {
  const Graph& g = r.graph();
  const NodeId id = group.root;
  const Node& n = g.node(id);
  HONE_ASSIGN(const Conv c, Conv::make(n.attrs.as<ConvAttrs>(), g.type(n.inputs[0]).shape,
                                       g.type(n.inputs[1]).shape, g.type(n.outputs[0]).shape));
  const bool norm = group.tail.batch_norm != kNone;
  const Normalisation folding =
      norm ? Normalisation::of(g, group.tail.batch_norm, id) : Normalisation();
  const bool folded = norm && r.to().is_fixed(n.inputs[1]) && folding.fixed(r.to());
  const bool has_bias = folded || (n.inputs.size() > 2 && n.inputs[2] != kNone);
  Layout bias;
  if (has_bias) {
    const int64_t channels[] = {c.y[1]};
    HONE_ASSIGN(bias, Layout::plain(channels));
  }
  HONE_ASSIGN(PostOps post, post_ops(r, c, group.tail, folded));
  HONE_ASSIGN(const PrimitiveDesc pd,
              forward_desc(c, has_bias ? &bias : nullptr, dnnl_forward_inference, post.attr));
  if (!group.tail.empty() && is_reference(pd)) return unsupported("no fused convolution");
  std::vector<Operand> reads;
  HONE_TRY(read_image(r, id, 0, c.x, DNNL_ARG_SRC, reads));
  if (folded) {
    HONE_TRY(read_folded(r, id, c, folding, pd, std::move(bias), reads));
  } else {
    HONE_TRY(read_weights(r, id, c, pd, reads));
    if (has_bias) reads.push_back({DNNL_ARG_BIAS, r.plain(n.inputs[2], id), std::move(bias)});
  }
  add_tail_operands(r, group, folded, post);
  std::move(post.reads.begin(), post.reads.end(), std::back_inserter(reads));
  return add_image_primitive(r, g.node(group.last()).outputs[0], pd, std::move(reads), c.y,
                             DNNL_ARG_DST, id, "onednn.conv");
}

Status onednn_lower_conv_input_grad(Region& r, const Group& group) {
  const Graph& g = r.graph();
  const NodeId id = group.root;
  const Node& n = g.node(id);
  HONE_ASSIGN(const Conv c, Conv::make(n.attrs.as<ConvGradAttrs>().conv, g.type(n.outputs[0]).shape,
                                       g.type(n.inputs[1]).shape, g.type(n.inputs[0]).shape));
  HONE_ASSIGN(const PrimitiveAttr attr, onednn_attributes());
  HONE_ASSIGN(const PrimitiveDesc hint, forward_desc(c, nullptr, dnnl_forward_training, attr));
  HONE_ASSIGN(const dnnl_engine_t engine, onednn_engine());
  HONE_ASSIGN(const Asked a, ask(c));
  dnnl_primitive_desc_t raw = nullptr;
  HONE_TRY(onednn_status(
      dnnl_convolution_backward_data_primitive_desc_create(
          &raw, engine, dnnl_convolution_direct, a.x.get(), a.w.get(), a.y.get(), c.strides.data(),
          c.dilations.data(), c.pads_begin.data(), c.pads_end.data(), hint.get(), attr.get()),
      "convolution's input gradient"));
  const PrimitiveDesc pd(raw);
  std::vector<Operand> reads;
  HONE_TRY(read_image(r, id, 0, c.y, DNNL_ARG_DIFF_DST, reads));
  HONE_TRY(read_weights(r, id, c, pd, reads));
  return add_image_primitive(r, n.outputs[0], pd, std::move(reads), c.x, DNNL_ARG_DIFF_SRC, id,
                             "onednn.conv_input_grad");
}

Status onednn_lower_conv_weight_grad(Region& r, const Group& group) {
  const Graph& g = r.graph();
  const NodeId id = group.root;
  const Node& n = g.node(id);
  HONE_ASSIGN(const Conv c, Conv::make(n.attrs.as<ConvGradAttrs>().conv, g.type(n.inputs[0]).shape,
                                       g.type(n.outputs[0]).shape, g.type(n.inputs[1]).shape));
  HONE_ASSIGN(const PrimitiveAttr attr, onednn_attributes());
  HONE_ASSIGN(const PrimitiveDesc hint, forward_desc(c, nullptr, dnnl_forward_training, attr));
  HONE_ASSIGN(const dnnl_engine_t engine, onednn_engine());
  HONE_ASSIGN(const Asked a, ask(c));
  dnnl_primitive_desc_t raw = nullptr;
  HONE_TRY(onednn_status(dnnl_convolution_backward_weights_primitive_desc_create(
                             &raw, engine, dnnl_convolution_direct, a.x.get(), a.w.get(), nullptr,
                             a.y.get(), c.strides.data(), c.dilations.data(), c.pads_begin.data(),
                             c.pads_end.data(), hint.get(), attr.get()),
                         "convolution's weight gradient"));
  const PrimitiveDesc pd(raw);
  std::vector<Operand> reads, writes;
  HONE_TRY(read_image(r, id, 0, c.x, DNNL_ARG_SRC, reads));
  HONE_TRY(read_image(r, id, 1, c.y, DNNL_ARG_DIFF_DST, reads));
  // The result goes to the optimizer in row-major order.
  const ValueId result = n.outputs[0];
  HONE_ASSIGN(const Layout plain, Layout::plain(c.w));
  HONE_ASSIGN(Layout own, Layout::of(pd.get(), dnnl_query_diff_weights_md));
  const bool direct = own.same(plain);
  const BufferId to = direct ? r.result_plain(result) : r.to().temporary(own.bytes());
  HONE_ASSIGN(Layout written, own.clone());
  writes.push_back({DNNL_ARG_DIFF_WEIGHTS, to, std::move(written)});
  HONE_TRY(add_primitive(r.to(), pd.get(), std::move(reads), std::move(writes), id,
                         "onednn.conv_weight_grad"));
  return direct ? Status() : add_reorder(r.to(), to, own, r.result_plain(result), plain, id);
}

}  // namespace hone::cpu

#endif  // HONE_HAVE_ONEDNN
