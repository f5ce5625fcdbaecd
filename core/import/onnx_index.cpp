// SPDX-License-Identifier: Apache-2.0
// ONNX's operators that read and write at indices.
#include "core/import/onnx_families.hpp"
#include "hone/op_attrs_index.hpp"

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

int rank_of_rows(ImportCtx& c, int64_t batch_dims) {
  const ValueInfo& indices = c.b.graph().value(c.in(1).id());
  if (c.rank(0) < 0 || !indices.typed || indices.type.shape.rank() < 1) return -1;
  const Shape& s = indices.type.shape;
  const int64_t indexed = s[s.rank() - 1];
  if (indexed < 0) return -1;
  return static_cast<int>(s.rank() - 1 + c.rank(0) - batch_dims - indexed);
}

void import_gather_nd(ImportCtx& c) {
  if (!c.require(2)) return;
  const GatherNdAttrs attrs{c.attr("batch_dims", int64_t{0})};
  c.set(0, c.emit(op::gather_nd, {c.in(0), c.in(1)}, attrs),
        {c.dtype(0), rank_of_rows(c, attrs.batch_dims)});
}

void import_scatter_nd(ImportCtx& c) {
  if (!c.require(3)) return;
  const ScatterNdAttrs attrs{
      c.attr_enum("reduction", {"none", "add", "mul", "max", "min"}, ScatterMode::assign), 0};
  c.set(0, c.emit(op::scatter_nd, {c.in(0), c.in(1), c.in(2)}, attrs));
}

void emit_top_k(ImportCtx& c, std::optional<double> k, TopKAttrs attrs) {
  attrs.k = static_cast<int64_t>(k.value_or(1));
  const auto outs = k ? c.b.emit_all(op::top_k, c.inputs().first(1), attrs, 2)
                      : c.b.emit_all(op::top_k_dyn, c.inputs().first(2), attrs, 2);
  if (outs.size() < 2) return;
  c.set(0, outs[0]);
  c.set(1, outs[1], {DType::i64, c.rank(0)});
}

// k is an input from opset 10 on, an attribute before.
void import_top_k_attribute(ImportCtx& c) {
  if (!c.require(1)) return;
  if (!c.has_attr("k")) return c.fail("attribute 'k' is missing");
  emit_top_k(c, static_cast<double>(c.attr("k", int64_t{1})),
             {1, c.attr("axis", int64_t{-1}), true, true});
}

void import_top_k(ImportCtx& c) {
  if (!c.require(2)) return;
  emit_top_k(c, c.number(1),
             {1, c.attr("axis", int64_t{-1}), c.flag("largest", true), c.flag("sorted", true)});
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
    {"GatherND", 11, import_gather_nd},
    {"OneHot", 9, import_one_hot},
    {"Scatter", 9, import_scatter_elements},
    {"ScatterElements", 11, import_scatter_elements},
    {"ScatterND", 11, import_scatter_nd},
    {"TopK", 1, import_top_k_attribute},
    {"TopK", 10, import_top_k},
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

std::string_view reduction_name(ScatterMode m) { return enum_names(m)[static_cast<size_t>(m)]; }

void export_gather_nd(ExportCtx& c) {
  c.write("GatherND", c.inputs(), {{"batch_dims", c.attrs<GatherNdAttrs>().batch_dims}});
}

void export_scatter_nd(ExportCtx& c) {
  const ScatterNdAttrs& a = c.attrs<ScatterNdAttrs>();
  if (a.batch_dims != 0) return c.unsupported("with batch_dims");
  if (a.reduction == ScatterMode::max || a.reduction == ScatterMode::min) c.need(18);
  c.write("ScatterND", c.inputs(), {{"reduction", reduction_name(a.reduction)}});
}

// Added up in zeros whose first axis is the one that is indexed.
void export_index_sum(ExportCtx& c) {
  const IndexSumAttrs& a = c.attrs<IndexSumAttrs>();
  if (c.rank(0) < 0 || c.rank(1) < 0) return c.unsupported("of unknown rank");
  const int64_t indexed = c.rank(1), rank = c.rank(0) - indexed + 1;
  const int64_t axis = a.axis < 0 ? a.axis + rank : a.axis;
  std::vector<int64_t> to_front, back;
  for (int64_t i = 0; i < indexed; ++i) to_front.push_back(axis + i);
  for (int64_t i = 0; i < c.rank(0); ++i)
    if (i < axis || i >= axis + indexed) to_front.push_back(i);
  for (int64_t i = 0; i < rank; ++i) back.push_back(i < axis ? i + 1 : i == axis ? 0 : i);
  const std::string updates =
      axis == 0 ? c.in(0) : c.part("Transpose", {c.in(0)}, {{"perm", to_front}});
  const std::string others = c.part("Shape", {updates}, {{"start", indexed}});
  const std::string shape = c.part("Concat", {c.ints({a.size}), others}, {{"axis", int64_t{0}}});
  auto zero = TensorData::zeros({c.dtype(0), {1}});
  if (!zero.ok()) return c.unsupported(zero.status().message());
  const std::string zeros = c.part("ConstantOfShape", {shape}, {{"value", std::move(*zero)}});
  std::string indices = c.in(1);
  if (c.dtype(1) != DType::i64)
    indices = c.part("Cast", {indices}, {{"to", static_cast<int64_t>(elem_type_of(DType::i64))}});
  indices = c.part("Unsqueeze", {indices, c.ints({-1})});
  const std::vector<OutAttr> add = {{"reduction", std::string_view("add")}};
  if (axis == 0) return c.write("ScatterND", {zeros, indices, updates}, add);
  c.write("Transpose", {c.part("ScatterND", {zeros, indices, updates}, add)}, {{"perm", back}});
}

void export_top_k(ExportCtx& c) {
  const TopKAttrs& a = c.attrs<TopKAttrs>();
  const std::string k = c.rule.op == &op::top_k ? c.ints({a.k}) : c.in(1);
  c.write("TopK", {c.in(0), k},
          {{"axis", a.axis}, {"largest", int64_t{a.largest}}, {"sorted", int64_t{a.sorted}}});
}

constexpr ExportRule kExports[] = {
    {&op::gather, "Gather", export_axis},
    {&op::gather_elements, "GatherElements", export_axis},
    {&op::gather_nd, "GatherND", export_gather_nd},
    {&op::index_sum, "", export_index_sum},
    {&op::one_hot, "OneHot", export_axis, OutType::third},
    {&op::scatter_elements, "ScatterElements", export_scatter_elements},
    {&op::scatter_nd, "ScatterND", export_scatter_nd},
    {&op::top_k, "TopK", export_top_k, OutType::first_and_index},
    {&op::top_k_dyn, "TopK", export_top_k, OutType::first_and_index},
};

}  // namespace

std::span<const ImportRule> index_imports() { return kImports; }
std::span<const ExportRule> index_exports() { return kExports; }

}  // namespace hone::onnx
