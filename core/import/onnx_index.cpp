// SPDX-License-Identifier: Apache-2.0
// ONNX's operators that read and write at indices.
#include "core/import/onnx_families.hpp"

namespace hone::onnx {

namespace {

void import_gather(ImportCtx& c) {
  if (!c.require(2)) return;
  const int rank = c.rank(0) < 0 || c.rank(1) < 0 ? -1 : c.rank(0) + c.rank(1) - 1;
  c.set(0, c.emit(op::gather, {c.in(0), c.in(1)}, AxisAttrs{c.attr("axis", int64_t{0})}),
        {c.dtype(0), rank});
}

void import_gather_elements(ImportCtx& c) {
  if (c.require(2))
    c.set(0,
          c.emit(op::gather_elements, {c.in(0), c.in(1)}, AxisAttrs{c.attr("axis", int64_t{0})}));
}

void import_scatter_elements(ImportCtx& c) {
  if (!c.require(3)) return;
  const ScatterAttrs attrs{
      c.attr("axis", int64_t{0}),
      c.attr_enum("reduction", {"none", "add", "mul", "max", "min"}, ScatterMode::assign)};
  c.set(0, c.emit(op::scatter_elements, {c.in(0), c.in(1), c.in(2)}, attrs));
}

void import_one_hot(ImportCtx& c) {
  if (!c.require(3)) return;
  const int rank = c.rank(0) < 0 ? -1 : c.rank(0) + 1;
  c.set(0, c.emit(op::one_hot, {c.in(0), c.in(1), c.in(2)}, AxisAttrs{c.attr("axis", int64_t{-1})}),
        {c.dtype(2), rank});
}

constexpr ImportRule kImports[] = {
    {"Gather", 1, import_gather},
    {"GatherElements", 11, import_gather_elements},
    {"OneHot", 9, import_one_hot},
    {"Scatter", 9, import_scatter_elements},
    {"ScatterElements", 11, import_scatter_elements},
};

void export_axis(ExportCtx& c) {
  c.write(c.rule.op_type, c.inputs(), {{"axis", c.attrs<AxisAttrs>().axis}});
}

void export_scatter_elements(ExportCtx& c) {
  const ScatterAttrs& a = c.attrs<ScatterAttrs>();
  if (a.reduction == ScatterMode::max || a.reduction == ScatterMode::min) c.need(18);
  c.write(
      "ScatterElements", c.inputs(),
      {{"axis", a.axis}, {"reduction", enum_names(a.reduction)[static_cast<size_t>(a.reduction)]}});
}

constexpr ExportRule kExports[] = {
    {&op::gather, "Gather", export_axis},
    {&op::gather_elements, "GatherElements", export_axis},
    {&op::one_hot, "OneHot", export_axis, OutType::third},
    {&op::scatter_elements, "ScatterElements", export_scatter_elements},
};

}  // namespace

std::span<const ImportRule> index_imports() { return kImports; }
std::span<const ExportRule> index_exports() { return kExports; }

}  // namespace hone::onnx
