// SPDX-License-Identifier: Apache-2.0
// ONNX's Attention, RotaryEmbedding and TensorScatter.
#include <algorithm>
#include <cmath>
#include <limits>

#include "core/import/onnx_families.hpp"
#include "hone/attention_attrs.hpp"

namespace hone::onnx {

namespace {

void import_attention(ImportCtx& c) {
  if (!c.require(3)) return;
  AttentionAttrs a;
  a.heads = c.attr("q_num_heads", int64_t{0});
  a.kv_heads = c.attr("kv_num_heads", int64_t{0});
  a.scale = c.attr("scale", 0.0);
  a.softcap = c.attr("softcap", 0.0);
  a.causal = c.flag("is_causal");
  const int64_t mode = c.attr("qk_matmul_output_mode", int64_t{0});
  if (mode < 0 || mode > 3) return c.fail("qk_matmul_output_mode is {}", mode);
  a.scores = static_cast<ScoreOutput>(mode);
  if (const int64_t t = c.attr("softmax_precision", int64_t{0})) {
    const auto dtype = dtype_of(static_cast<ElemType>(t));
    if (!dtype || !is_float(*dtype)) return c.unsupported("with softmax_precision={}", t);
    a.has_softmax_dtype = true;
    a.softmax_dtype = *dtype;
  }
  const std::vector<Value> outs = c.b.emit_all(op::attention, c.inputs(), a, 4);
  if (outs.size() < 4) return;
  c.set(0, outs[0]);
  for (int k = 1; k < 4; ++k) c.set(k, outs[static_cast<size_t>(k)], {c.dtype(0), 4});
}

void import_rotary(ImportCtx& c) {
  if (!c.require(3)) return;
  const RotaryAttrs a{c.attr("num_heads", int64_t{0}), c.attr("rotary_embedding_dim", int64_t{0}),
                      c.flag("interleaved")};
  c.set(0, c.b.emit(op::rotary_embedding, c.inputs(), a));
}

enum class WriteMode : uint8_t { linear, circular };

void import_tensor_scatter(ImportCtx& c) {
  if (!c.require(2)) return;
  const bool circular =
      c.attr_enum("mode", {"linear", "circular"}, WriteMode::linear) == WriteMode::circular;
  const TensorScatterAttrs a{c.attr("axis", int64_t{-2}), circular};
  c.set(0, c.b.emit(op::tensor_scatter, c.inputs(), a));
}

constexpr ImportRule kImports[] = {
    {"Attention", 23, import_attention},
    {"RotaryEmbedding", 23, import_rotary},
    {"TensorScatter", 24, import_tensor_scatter},
};

void export_attention(ExportCtx& c) {
  const AttentionAttrs& a = c.attrs<AttentionAttrs>();
  c.need(c.has(6) ? 24 : 23);
  std::vector<OutAttr> attrs = {{"is_causal", int64_t{a.causal}},
                                {"qk_matmul_output_mode", static_cast<int64_t>(a.scores)}};
  if (a.heads) attrs.push_back({"q_num_heads", a.heads});
  if (a.kv_heads) attrs.push_back({"kv_num_heads", a.kv_heads});
  if (a.scale != 0) attrs.push_back({"scale", a.scale});
  if (a.softcap != 0) attrs.push_back({"softcap", a.softcap});
  if (a.has_softmax_dtype)
    attrs.push_back({"softmax_precision", static_cast<int64_t>(elem_type_of(a.softmax_dtype))});
  c.write("Attention", c.inputs(), std::move(attrs));
}

void export_rotary(ExportCtx& c) {
  const RotaryAttrs& a = c.attrs<RotaryAttrs>();
  c.need(23);
  c.write("RotaryEmbedding", c.inputs(),
          {{"num_heads", a.heads},
           {"rotary_embedding_dim", a.dim},
           {"interleaved", int64_t{a.interleaved}}});
}

void export_tensor_scatter(ExportCtx& c) {
  const TensorScatterAttrs& a = c.attrs<TensorScatterAttrs>();
  c.need(24);
  c.write("TensorScatter", c.inputs(),
          {{"axis", a.axis}, {"mode", std::string_view(a.circular ? "circular" : "linear")}});
}

// Extent `axis` of input i, or -1 when it is not known.
int64_t extent(const ExportCtx& c, int i, int axis) {
  const Facts& v = c.facts(i);
  return v.rank() == 4 ? std::max<int64_t>((*v.extents)[static_cast<size_t>(axis)], -1) : -1;
}

// -infinity where a key comes after the query.
std::string causal_bias(ExportCtx& c, int64_t queries, int64_t keys) {
  std::vector<double> bias;
  for (int64_t i = 0; i < queries; ++i)
    for (int64_t j = 0; j < keys; ++j)
      bias.push_back(j > i ? -std::numeric_limits<double>::infinity() : 0.0);
  auto t = TensorData::vector_of(std::span<const double>(bias));
  if (t.ok()) t = t->reshaped({queries, keys});
  if (t.ok()) t = cast(*t, c.dtype(0));
  if (t.ok()) return c.tensor(*t);
  c.unsupported(t.status().message());
  return {};
}

OutAttr permutation(std::initializer_list<int64_t> perm) {
  return {"perm", std::vector<int64_t>(perm)};
}

// Operand i as (B, H, L, D).
std::string by_heads(ExportCtx& c, int i) {
  if (!c.attrs<DotProductAttentionAttrs>().tokens_first) return c.in(i);
  return c.part("Transpose", {c.in(i)}, {permutation({0, 2, 1, 3})});
}

// Keys or values, each head `times` times.
std::string repeated_heads(ExportCtx& c, int i, int64_t heads, int64_t times) {
  if (times == 1) return by_heads(c, i);
  const std::string apart = c.part("Unsqueeze", {by_heads(c, i), c.ints({2})});
  const std::string wide = c.part("Expand", {apart, c.ints({1, 1, times, 1, 1})});
  return c.part("Reshape", {wide, c.ints({0, heads, -1, extent(c, i, 3)})});
}

// With products and a softmax, where it can be said with them; Attention is younger.
bool spell_attention(ExportCtx& c) {
  const DotProductAttentionAttrs& a = c.attrs<DotProductAttentionAttrs>();
  const int heads = a.tokens_first ? 2 : 1, tokens = a.tokens_first ? 1 : 2;
  // Heads that are not known come from products that were recognised, and are as many in both.
  const int64_t shared = extent(c, 1, heads), own = extent(c, 0, heads);
  const int64_t times = shared > 0 && own > 0 ? own / shared : 1;
  const int64_t queries = extent(c, 0, tokens), keys = extent(c, 1, tokens), size = extent(c, 0, 3);
  if ((a.causal && (queries < 0 || keys < 0)) || (a.scale == 0 && size < 0)) return false;
  if (times > 1 && (extent(c, 1, 3) < 1 || extent(c, 2, 3) < 1)) return false;
  std::string k;
  if (a.tokens_first && times == 1)
    k = c.part("Transpose", {c.in(1)}, {permutation({0, 2, 3, 1})});
  else
    k = c.part("Transpose", {repeated_heads(c, 1, own, times)}, {permutation({0, 1, 3, 2})});
  const double scale = a.scale != 0 ? a.scale : 1 / std::sqrt(static_cast<double>(size));
  const std::string q = c.part("Mul", {by_heads(c, 0), c.number(scale, c.dtype(0))});
  std::string s = c.part("MatMul", {q, k});
  if (c.has(3) && c.dtype(3) == DType::bool_)
    s = c.part("Where",
               {c.in(3), s, c.number(-std::numeric_limits<double>::infinity(), c.dtype(0))});
  else if (c.has(3))
    s = c.part("Add", {s, c.in(3)});
  if (a.causal) s = c.part("Add", {s, causal_bias(c, queries, keys)});
  const std::string p = c.part("Softmax", {s}, {{"axis", int64_t{-1}}});
  const std::string v = repeated_heads(c, 2, own, times);
  if (!a.tokens_first)
    c.write("MatMul", {p, v});
  else
    c.write("Transpose", {c.part("MatMul", {p, v})}, {permutation({0, 2, 1, 3})});
  return true;
}

void export_dot_product_attention(ExportCtx& c) {
  const DotProductAttentionAttrs& a = c.attrs<DotProductAttentionAttrs>();
  const bool narrow_mask = c.has(3) && c.rank(3) < 2;
  if ((c.opset < 23 || a.tokens_first || narrow_mask) && spell_attention(c)) return;
  if (narrow_mask) return c.unsupported("of values whose extents are not known");
  c.need(23);
  std::vector<OutAttr> attrs = {{"is_causal", int64_t{a.causal}}};
  if (a.scale != 0) attrs.push_back({"scale", a.scale});
  std::vector<std::string> in = {by_heads(c, 0), by_heads(c, 1), by_heads(c, 2)};
  if (c.has(3)) in.push_back(c.in(3));
  if (!a.tokens_first) return c.write("Attention", std::move(in), std::move(attrs));
  c.write("Transpose", {c.part("Attention", std::move(in), std::move(attrs))},
          {permutation({0, 2, 1, 3})});
}

constexpr ExportRule kExports[] = {
    {&op::scaled_dot_product_attention, "", export_dot_product_attention},
    {&op::attention, "Attention", export_attention},
    {&op::rotary_embedding, "RotaryEmbedding", export_rotary},
    {&op::tensor_scatter, "TensorScatter", export_tensor_scatter},
};

}  // namespace

std::span<const ImportRule> attention_imports() { return kImports; }
std::span<const ExportRule> attention_exports() { return kExports; }

}  // namespace hone::onnx
