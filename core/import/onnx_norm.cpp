// SPDX-License-Identifier: Apache-2.0
// ONNX's normalisations.
#include <cmath>

#include "core/import/onnx_families.hpp"

namespace hone::onnx {

namespace {

// 1 - 0.9 as 0.1, not as 0.09999999999999998.
double one_minus(double v) { return std::round((1 - v) * 1e12) / 1e12; }

// Training spelled out: normalised with the batch's statistics, and the running ones moved on as
// outputs. The population variance goes into them, as ONNX says.
void import_batch_statistics(ImportCtx& c) {
  const double momentum = c.attr("momentum", 0.9);
  const std::vector<Value> outs = c.b.emit_all(op::batch_norm_train, c.inputs().first(3),
                                               NormAttrs{.eps = c.attr("epsilon", 1e-5)}, 3);
  if (outs.size() < 3) return;
  c.set(0, outs[0]);
  const DType statistic = c.dtype(0) == DType::f64 ? DType::f64 : DType::f32;
  for (int k = 1; k <= 2; ++k) {
    const DType t = c.dtype(2 + k);
    Value batch = outs[static_cast<size_t>(k)];
    if (t != statistic) batch = c.emit(op::cast, {batch}, CastAttrs{t});
    const Value old_part = c.emit(op::mul, {c.in(2 + k), c.scalar(momentum, t)});
    const Value new_part = c.emit(op::mul, {batch, c.scalar(one_minus(momentum), t)});
    c.set(k, c.emit(op::add, {old_part, new_part}), {t, 1});
  }
}

// ONNX's momentum is the share of the old value, Hone's that of the new one. Exported in training
// mode, the running variance takes the population variance as ONNX says; otherwise the unbiased
// one, as where the model came from.
void import_batch_norm(ImportCtx& c) {
  if (!c.require(5)) return;
  c.ignore("is_test");
  if (!c.flag("spatial", true)) return c.unsupported("with spatial=0");
  const bool training = c.flag("training_mode");
  if (training && (c.wants(1) || c.wants(2))) return import_batch_statistics(c);
  for (int k = 1; k < c.outputs(); ++k)
    if (c.wants(k)) return c.unsupported("with the statistics as outputs");
  const BatchNormAttrs attrs{c.attr("epsilon", 1e-5), one_minus(c.attr("momentum", 0.9)),
                             !training};
  c.set(0, c.emit(op::batch_norm, {c.in(0), c.in(1), c.in(2), c.in(3), c.in(4)}, attrs));
}

// The statistics are computed in single precision at least, whatever stash_type asks for.
void import_layer_norm(ImportCtx& c) {
  if (!c.require(2)) return;
  c.ignore("stash_type");
  const NormAttrs attrs{c.attr("epsilon", 1e-5), c.attr("axis", int64_t{-1})};
  const std::vector<Value> outs = c.b.emit_all(op::layer_norm, c.inputs(), attrs, 3);
  if (outs.size() < 3) return;
  const DType statistic = c.dtype(0) == DType::f64 ? DType::f64 : DType::f32;
  c.set(0, outs[0]);
  c.set(1, outs[1], {statistic, c.rank(0)});
  c.set(2, outs[2], {statistic, c.rank(0)});
}

void import_rms_norm(ImportCtx& c) {
  if (!c.require(2)) return;
  c.ignore("stash_type");
  const NormAttrs attrs{c.attr("epsilon", 1e-5), c.attr("axis", int64_t{-1})};
  c.set(0, c.emit(op::rms_norm, {c.in(0), c.in(1)}, attrs));
}

void import_instance_norm(ImportCtx& c) {
  if (!c.require(3)) return;
  NormAttrs attrs;
  attrs.eps = c.attr("epsilon", 1e-5);
  c.set(0, c.emit(op::instance_norm, {c.in(0), c.in(1), c.in(2)}, attrs));
}

void import_group_norm(ImportCtx& c) {
  if (!c.require(3)) return;
  c.ignore("stash_type");
  const GroupNormAttrs attrs{c.attr("num_groups", int64_t{1}), c.attr("epsilon", 1e-5)};
  c.set(0, c.emit(op::group_norm, {c.in(0), c.in(1), c.in(2)}, attrs));
}

// Opset 18 had one scale and bias for each group: they are applied to (N, groups, rest).
void import_group_norm_by_group(ImportCtx& c) {
  if (!c.require(3)) return;
  const GroupNormAttrs attrs{c.attr("num_groups", int64_t{1}), c.attr("epsilon", 1e-5)};
  const auto column = [&](int i) { return c.emit(op::unsqueeze, {c.in(i)}, AxesAttrs{{1}}); };
  const Value y = c.emit(op::group_norm, {c.in(0)}, attrs);
  const Value grouped = c.emit(op::reshape, {y}, ShapeAttrs{{0, attrs.groups, -1}, false});
  const Value scaled = c.emit(op::add, {c.emit(op::mul, {grouped, column(1)}), column(2)});
  c.set(0, c.reshape(scaled, c.shape_of(c.in(0)), true));
}

constexpr ImportRule kImports[] = {
    {"BatchNormalization", 1, import_batch_norm},
    {"GroupNormalization", 18, import_group_norm_by_group},
    {"GroupNormalization", 21, import_group_norm},
    {"InstanceNormalization", 1, import_instance_norm},
    {"LayerNormalization", 17, import_layer_norm},
    {"RMSNormalization", 23, import_rms_norm},
};

void export_batch_norm(ExportCtx& c) {
  const BatchNormAttrs& a = c.attrs<BatchNormAttrs>();
  c.write("BatchNormalization", c.inputs(),
          {{"epsilon", a.eps}, {"momentum", one_minus(a.momentum)}});
}

// BatchNormalization in training, with none of the old statistics kept: what it takes for them
// (here the bias, which has their shape) counts nothing.
void export_batch_norm_train(ExportCtx& c) {
  const bool half = c.dtype(0) == DType::f16 || c.dtype(0) == DType::bf16;
  if (half) return c.unsupported("in half precision");
  c.write(
      "BatchNormalization", {c.in(0), c.in(1), c.in(2), c.in(2), c.in(2)},
      {{"epsilon", c.attrs<NormAttrs>().eps}, {"momentum", 0.0}, {"training_mode", int64_t{1}}});
}

// x / sqrt(mean(x^2) + eps), over the last axes.
std::string root_mean_square(ExportCtx& c, const std::string& x, const std::vector<int64_t>& axes,
                             double eps) {
  const std::string square = c.part("Mul", {x, x});
  const OutAttr keep = {"keepdims", int64_t{1}};
  const std::string mean = c.opset >= 18 ? c.part("ReduceMean", {square, c.ints(axes)}, {keep})
                                         : c.part("ReduceMean", {square}, {keep, {"axes", axes}});
  return c.part("Sqrt", {c.part("Add", {mean, c.number(eps, c.dtype(0))})});
}

// Axes [axis, rank), counted from the back; empty when that needs a rank that is not known.
std::vector<int64_t> axes_from(int64_t axis, int rank) {
  std::vector<int64_t> axes;
  if (axis >= 0 && rank < 0) return axes;
  for (int64_t i = axis < 0 ? axis : axis - rank; i < 0; ++i) axes.push_back(i);
  return axes;
}

// ONNX wants a scale; without one the operator is spelled out.
void export_layer_norm(ExportCtx& c) {
  const NormAttrs& a = c.attrs<NormAttrs>();
  if (c.has(1))
    return c.write("LayerNormalization", c.inputs(), {{"axis", a.axis}, {"epsilon", a.eps}});
  if (c.outputs() > 1) return c.unsupported("without a scale but with the statistics");
  const std::vector<int64_t> axes = axes_from(a.axis, c.rank(0));
  if (axes.empty()) return c.unsupported("without a scale, of a value whose rank is not known,");
  const OutAttr keep = {"keepdims", int64_t{1}};
  const std::string mean = c.opset >= 18 ? c.part("ReduceMean", {c.in(0), c.ints(axes)}, {keep})
                                         : c.part("ReduceMean", {c.in(0)}, {keep, {"axes", axes}});
  const std::string centred = c.part("Sub", {c.in(0), mean});
  const std::string deviation = root_mean_square(c, centred, axes, a.eps);
  if (!c.has(2)) return c.write("Div", {centred, deviation});
  c.write("Add", {c.part("Div", {centred, deviation}), c.in(2)});
}

void export_rms_norm(ExportCtx& c) {
  const NormAttrs& a = c.attrs<NormAttrs>();
  const std::vector<int64_t> axes = axes_from(a.axis, c.rank(0));
  if (axes.empty()) return c.unsupported("of a value whose rank is not known");
  const std::string deviation = root_mean_square(c, c.in(0), axes, a.eps);
  if (!c.has(1)) return c.write("Div", {c.in(0), deviation});
  c.write("Mul", {c.part("Div", {c.in(0), deviation}), c.in(1)});
}

// A vector of one value, as long as there are channels or groups.
std::string repeated(ExportCtx& c, double value, int64_t count) {
  std::vector<double> v(static_cast<size_t>(count), value);
  auto wide = TensorData::vector_of(std::span<const double>(v));
  auto t = wide.ok() ? cast(*wide, c.dtype(0)) : std::move(wide);
  if (t.ok()) return c.tensor(*t);
  c.unsupported(t.status().message());
  return {};
}

void export_instance_norm(ExportCtx& c) {
  if (!c.has(1) || !c.has(2)) return c.unsupported("without scale and bias");
  c.write("InstanceNormalization", c.inputs(), {{"epsilon", c.attrs<NormAttrs>().eps}});
}

// With scale and bias it is there since opset 21. Without: an instance norm of (N, groups, rest).
void export_group_norm(ExportCtx& c) {
  const GroupNormAttrs& a = c.attrs<GroupNormAttrs>();
  if (c.has(1) && c.has(2)) {
    c.need(21);
    return c.write("GroupNormalization", c.inputs(),
                   {{"num_groups", a.groups}, {"epsilon", a.eps}});
  }
  if (c.has(1) || c.has(2)) return c.unsupported("with only one of scale and bias");
  const std::string grouped = c.part("Reshape", {c.in(0), c.ints({0, a.groups, -1})});
  const std::string y =
      c.part("InstanceNormalization", {grouped, repeated(c, 1, a.groups), repeated(c, 0, a.groups)},
             {{"epsilon", a.eps}});
  c.write("Reshape", {y, c.part("Shape", {c.in(0)})}, {{"allowzero", int64_t{1}}});
}

constexpr ExportRule kExports[] = {
    {&op::batch_norm, "BatchNormalization", export_batch_norm},
    {&op::batch_norm_train, "BatchNormalization", export_batch_norm_train},
    {&op::group_norm, "GroupNormalization", export_group_norm},
    {&op::instance_norm, "InstanceNormalization", export_instance_norm},
    {&op::layer_norm, "LayerNormalization", export_layer_norm},
    {&op::rms_norm, "", export_rms_norm},
};

}  // namespace

std::span<const ImportRule> norm_imports() { return kImports; }
std::span<const ExportRule> norm_exports() { return kExports; }

}  // namespace hone::onnx
