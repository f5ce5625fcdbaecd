// SPDX-License-Identifier: Apache-2.0
// ONNX's Attention, RotaryEmbedding and TensorScatter.
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

constexpr ExportRule kExports[] = {
    {&op::attention, "Attention", export_attention},
    {&op::rotary_embedding, "RotaryEmbedding", export_rotary},
    {&op::tensor_scatter, "TensorScatter", export_tensor_scatter},
};

}  // namespace

std::span<const ImportRule> attention_imports() { return kImports; }
std::span<const ExportRule> attention_exports() { return kExports; }

}  // namespace hone::onnx
