// SPDX-License-Identifier: Apache-2.0
// ONNX's operators that matter in training: Dropout and the losses.
#include "core/import/onnx_families.hpp"

namespace hone::onnx {

namespace {

// The mask of inference: everything is kept.
void set_dropout_mask(ImportCtx& c) {
  if (!c.wants(1)) return;
  const Value shape = c.shape_of(c.in(0));
  c.set(1, c.emit(op::fill_dyn, {shape}, FillDynAttrs{DType::bool_, 1}), {DType::bool_, c.rank(0)});
}

// Active when a program is made for training, whatever training_mode says.
void emit_dropout(ImportCtx& c, double ratio) {
  c.set(0, c.emit(op::dropout, {c.in(0)}, DropoutAttrs{ratio, 0}));
  set_dropout_mask(c);
}

void import_dropout_attributes(ImportCtx& c) {
  c.ignore("is_test");  // before opset 7
  if (c.require(1)) emit_dropout(c, c.attr("ratio", 0.5));
}

void import_dropout(ImportCtx& c) {
  if (!c.require(1)) return;
  c.ignore("seed");
  const auto ratio = c.has(1) ? c.number(1) : 0.5;
  const bool masks_training = c.wants(1) && c.has(2) && c.number(2).value_or(1) != 0;
  if (!ratio || masks_training) {
    const auto outs = c.b.emit_all(op::dropout_dyn, c.inputs(), {}, 2);
    if (outs.size() < 2) return;
    c.set(0, outs[0]);
    return c.set(1, outs[1], {DType::bool_, c.rank(0)});
  }
  emit_dropout(c, as_written(static_cast<float>(*ratio)));
}

Reduction reduction(ImportCtx& c) {
  return c.attr_enum("reduction", {"mean", "sum", "none"}, Reduction::mean);
}

void import_softmax_cross_entropy(ImportCtx& c) {
  if (!c.require(2)) return;
  CrossEntropyAttrs attrs;
  attrs.ignore_index = c.attr("ignore_index", attrs.ignore_index);
  attrs.reduction = reduction(c);
  Value loss = c.emit(op::cross_entropy, {c.in(0), c.in(1), c.in(2)}, attrs);
  const bool half = c.dtype(0) == DType::f16 || c.dtype(0) == DType::bf16;
  if (half) loss = c.emit(op::cast, {loss}, CastAttrs{c.dtype(0)});  // Hone's is f32
  c.set(0, loss, {c.dtype(0), attrs.reduction == Reduction::none ? c.rank(1) : 0});
  if (c.wants(1)) c.set(1, c.emit(op::log_softmax, {c.in(0)}, AxisAttrs{1}));
}

// -x[n, t[n]] * w[t[n]], the mean divided by the summed weights. Rows to be ignored read class 0
// and count nothing, whatever stands there; when no row counts the mean is 0. Half floats are
// summed and counted in f32.
void import_negative_log_likelihood(ImportCtx& c) {
  if (!c.require(2)) return;
  const DType x = c.dtype(0), t = c.dtype(1), wide = x == DType::f64 ? x : DType::f32;
  const Reduction how = reduction(c);
  const auto widened = [&](Value v) {
    return x == wide ? v : c.emit(op::cast, {v}, CastAttrs{wide});
  };
  const Value zero = c.scalar(0, wide);
  Value target = c.in(1), weight, ignored;
  if (c.has_attr("ignore_index")) {
    ignored = c.emit(
        op::equal, {target, c.scalar(static_cast<double>(c.attr("ignore_index", int64_t{0})), t)});
    target = c.emit(op::where, {ignored, c.scalar(0, t), target});
  }
  const Value row = c.emit(op::unsqueeze, {target}, AxesAttrs{{1}});
  const Value picked = c.emit(
      op::squeeze, {c.emit(op::gather_elements, {c.in(0), row}, AxisAttrs{1})}, AxesAttrs{{1}});
  Value loss = c.emit(op::neg, {widened(picked)});
  if (c.has(2)) {
    weight = widened(c.emit(op::gather, {c.in(2), target}, AxisAttrs{0}));
    loss = c.emit(op::mul, {loss, weight});
  }
  if (ignored.valid()) {
    loss = c.emit(op::where, {ignored, zero, loss});
    weight = c.emit(op::where, {ignored, zero, weight.valid() ? weight : c.scalar(1, wide)});
  }
  const ReduceAttrs all{{}, false};
  if (how == Reduction::sum) {
    loss = c.emit(op::sum, {loss}, all);
  } else if (how == Reduction::mean && !weight.valid()) {
    loss = c.emit(op::mean, {loss}, all);
  } else if (how == Reduction::mean) {
    const Value sum = c.emit(op::sum, {weight}, all);
    const Value nothing = c.emit(op::equal, {sum, zero});
    const Value divisor = c.emit(op::where, {nothing, c.scalar(1, wide), sum});
    const Value mean = c.emit(op::div, {c.emit(op::sum, {loss}, all), divisor});
    loss = c.emit(op::where, {nothing, zero, mean});
  }
  if (x != wide) loss = c.emit(op::cast, {loss}, CastAttrs{x});
  c.set(0, loss, {x, how == Reduction::none ? c.rank(1) : 0});
}

constexpr ImportRule kImports[] = {
    {"Dropout", 1, import_dropout_attributes},
    {"Dropout", 12, import_dropout},
    {"NegativeLogLikelihoodLoss", 12, import_negative_log_likelihood},
    {"SoftmaxCrossEntropyLoss", 12, import_softmax_cross_entropy},
};

void export_dropout(ExportCtx& c) {
  c.write("Dropout", {c.in(0), c.number(c.attrs<DropoutAttrs>().p, DType::f32)});
}

void export_cross_entropy(ExportCtx& c) {
  const CrossEntropyAttrs& a = c.attrs<CrossEntropyAttrs>();
  if (a.label_smoothing != 0) return c.unsupported("with label smoothing");
  if (a.axis != 1) return c.unsupported("over an axis other than 1");
  c.write("SoftmaxCrossEntropyLoss", c.inputs(),
          {{"ignore_index", a.ignore_index},
           {"reduction", enum_names(a.reduction)[static_cast<size_t>(a.reduction)]}});
}

constexpr ExportRule kExports[] = {
    {&op::dropout_dyn, "Dropout", nullptr, OutType::first_and_mask},
    {&op::cross_entropy, "SoftmaxCrossEntropyLoss", export_cross_entropy},
    {&op::dropout, "Dropout", export_dropout},
};

}  // namespace

std::span<const ImportRule> training_imports() { return kImports; }
std::span<const ExportRule> training_exports() { return kExports; }

}  // namespace hone::onnx
