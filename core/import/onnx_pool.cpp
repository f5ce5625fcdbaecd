// SPDX-License-Identifier: Apache-2.0
// ONNX's pooling.
#include "core/import/onnx_families.hpp"
#include "hone/vision_attrs.hpp"

namespace hone::onnx {

namespace {

void import_max_pool(ImportCtx& c) {
  if (!c.require(1)) return;
  const bool column_major = c.flag("storage_order");  // of the indices
  if (c.wants(1)) {
    const std::vector<Value> outs =
        c.b.emit_all(op::max_pool_indices, c.inputs().first(1),
                     MaxPoolIndicesAttrs{read_pool(c), column_major}, 2);
    if (outs.size() < 2) return;
    c.set(0, outs[0]);
    return c.set(1, outs[1], {DType::i64, c.rank(0)});
  }
  c.set(0, c.emit(op::max_pool, {c.in(0)}, read_pool(c)));
}

void import_average_pool(ImportCtx& c) {
  if (!c.require(1)) return;
  PoolAttrs attrs = read_pool(c);
  attrs.count_include_pad = c.flag("count_include_pad");
  attrs.legacy_divisor = c.options.legacy_average_pool_divisor && c.opset < 19 && attrs.ceil_mode &&
                         attrs.count_include_pad;
  c.set(0, c.emit(op::avg_pool, {c.in(0)}, attrs));
}

constexpr ImportRule kImports[] = {
    {"AveragePool", 1, import_average_pool},
    {"GlobalAveragePool", 1, import_same, &op::global_avg_pool},
    {"GlobalMaxPool", 1, import_same, &op::global_max_pool},
    {"MaxPool", 1, import_max_pool},
};

std::vector<OutAttr> window_attrs(const PoolAttrs& a) {
  std::vector<OutAttr> attrs = {{"kernel_shape", a.kernel},
                                {"strides", a.strides},
                                {"dilations", a.dilations},
                                {"ceil_mode", int64_t{a.ceil_mode}}};
  add_pads(attrs, a.auto_pad, a.pads_begin, a.pads_end);
  return attrs;
}

void export_max_pool(ExportCtx& c) {
  c.write("MaxPool", c.inputs(), window_attrs(c.attrs<PoolAttrs>()));
}

// Since opset 19 there are dilations, and padding beyond the edge does not count.
void export_average_pool(ExportCtx& c) {
  const PoolAttrs& a = c.attrs<PoolAttrs>();
  const bool divisor_matters = a.ceil_mode && a.count_include_pad;
  if (!a.dilations.empty() || (divisor_matters && !a.legacy_divisor)) c.need(19);
  if (divisor_matters && a.legacy_divisor && c.opset >= 19)
    c.unsupported("with legacy_divisor beside operators of opset 19");
  std::vector<OutAttr> attrs = window_attrs(a);
  attrs.push_back({"count_include_pad", int64_t{a.count_include_pad}});
  c.write("AveragePool", c.inputs(), std::move(attrs));
}

constexpr ExportRule kExports[] = {
    {&op::avg_pool, "AveragePool", export_average_pool},
    {&op::global_avg_pool, "GlobalAveragePool"},
    {&op::global_max_pool, "GlobalMaxPool"},
    {&op::max_pool, "MaxPool", export_max_pool},
};

}  // namespace

std::span<const ImportRule> pool_imports() { return kImports; }
std::span<const ExportRule> pool_exports() { return kExports; }

}  // namespace hone::onnx
