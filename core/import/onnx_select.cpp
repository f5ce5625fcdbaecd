// SPDX-License-Identifier: Apache-2.0
// ONNX's operators whose output shapes depend on data.
#include "core/import/onnx_families.hpp"
#include "hone/select.hpp"

namespace hone::onnx {

namespace {

Value flat(ImportCtx& c, Value v) { return c.emit(op::reshape, {v}, ShapeAttrs{{-1}}); }

void import_nonzero(ImportCtx& c) {
  if (c.require(1)) c.set(0, c.emit(op::nonzero, {c.in(0)}), {DType::i64, 2});
}

// The elements along an axis (of everything, without one) where a condition holds.
void import_compress(ImportCtx& c) {
  if (!c.require(2)) return;
  const bool whole = !c.has_attr("axis");
  const Value where = flat(c, c.emit(op::nonzero, {c.in(1)}));
  const Value x = whole ? flat(c, c.in(0)) : c.in(0);
  const AxisAttrs axis{whole ? 0 : c.attr("axis", int64_t{0})};
  c.set(0, c.emit(op::gather, {x, where}, axis), {c.dtype(0), whole ? 1 : c.rank(0)});
}

void import_unique(ImportCtx& c) {
  if (!c.require(1)) return;
  const bool whole = !c.has_attr("axis");
  const UniqueAttrs attrs{whole, c.attr("axis", int64_t{0}), c.flag("sorted", true)};
  const Value x = c.in(0);
  const std::vector<Value> outs = c.b.emit_all(op::unique, std::span(&x, 1), attrs, 3);
  if (outs.size() < 3) return;
  const Value from = whole ? flat(c, x) : x;
  c.set(0, c.emit(op::gather, {from, outs[0]}, AxisAttrs{attrs.axis}),
        {c.dtype(0), whole ? 1 : c.rank(0)});
  for (int k = 1; k < 4; ++k) c.set(k, outs[static_cast<size_t>(k) - 1], {DType::i64, 1});
}

void import_non_max_suppression(ImportCtx& c) {
  if (!c.require(2)) return;
  const NonMaxSuppressionAttrs attrs{c.flag("center_point_box")};
  const std::vector<Value> in(c.inputs().begin(), c.inputs().end());
  const std::vector<Value> outs = c.b.emit_all(op::non_max_suppression, in, attrs);
  if (!outs.empty()) c.set(0, outs[0], {DType::i64, 2});
}

constexpr ImportRule kImports[] = {
    {"NonZero", 9, import_nonzero},
    {"Compress", 9, import_compress},
    {"Unique", 11, import_unique},
    {"NonMaxSuppression", 10, import_non_max_suppression},
};

// Unique's own first output are the values; nothing here reads it.
void export_unique(ExportCtx& c) {
  const UniqueAttrs& a = c.attrs<UniqueAttrs>();
  std::vector<OutAttr> attrs = {{"sorted", int64_t{a.sorted}}};
  if (!a.flat) attrs.push_back({"axis", a.axis});
  c.write_after("Unique", c.inputs(), attrs, 1);
}

void export_non_max_suppression(ExportCtx& c) {
  c.write("NonMaxSuppression", c.inputs(),
          {{"center_point_box", int64_t{c.attrs<NonMaxSuppressionAttrs>().center_point_box}}});
}

constexpr ExportRule kExports[] = {
    {&op::nonzero, "NonZero", nullptr, OutType::index},
    {&op::unique, "Unique", export_unique, OutType::index},
    {&op::non_max_suppression, "NonMaxSuppression", export_non_max_suppression, OutType::index},
};

}  // namespace

std::span<const ImportRule> select_imports() { return kImports; }
std::span<const ExportRule> select_exports() { return kExports; }

}  // namespace hone::onnx
