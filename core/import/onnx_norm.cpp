// SPDX-License-Identifier: Apache-2.0
// ONNX's normalisations.
#include <cmath>

#include "core/import/onnx_families.hpp"

namespace hone::onnx {

namespace {

// 1 - 0.9 as 0.1, not as 0.09999999999999998.
double one_minus(double v) { return std::round((1 - v) * 1e12) / 1e12; }

// ONNX's momentum is the share of the old value, Hone's that of the new one. Exported in training
// mode, the running variance takes the population variance as ONNX says; otherwise the unbiased
// one, as where the model came from.
void import_batch_norm(ImportCtx& c) {
  if (!c.require(5)) return;
  c.ignore("is_test");
  if (!c.flag("spatial", true)) return c.unsupported("with spatial=0");
  const bool training = c.flag("training_mode");
  for (int k = 1; k < c.outputs(); ++k)
    if (c.wants(k)) return c.unsupported("with the statistics as outputs");
  const BatchNormAttrs attrs{c.attr("epsilon", 1e-5), one_minus(c.attr("momentum", 0.9)),
                             !training};
  c.set(0, c.emit(op::batch_norm, {c.in(0), c.in(1), c.in(2), c.in(3), c.in(4)}, attrs));
}

void import_layer_norm(ImportCtx& c) {
  if (!c.require(2)) return;
  c.ignore("stash_type");
  if (c.wants(1) || c.wants(2)) return c.unsupported("with the statistics as outputs");
  const NormAttrs attrs{c.attr("epsilon", 1e-5), c.attr("axis", int64_t{-1})};
  c.set(0, c.emit(*c.rule.op, {c.in(0), c.in(1), c.in(2)}, attrs));
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
    {"BatchNormalization", 7, import_batch_norm},
    {"GroupNormalization", 18, import_group_norm_by_group},
    {"GroupNormalization", 21, import_group_norm},
    {"InstanceNormalization", 6, import_instance_norm},
    {"LayerNormalization", 17, import_layer_norm, &op::layer_norm},
    {"RMSNormalization", 23, import_layer_norm, &op::rms_norm},
};

}  // namespace

std::span<const ImportRule> norm_imports() { return kImports; }

}  // namespace hone::onnx
