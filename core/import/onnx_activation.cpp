// SPDX-License-Identifier: Apache-2.0
// ONNX's activations and softmax.
#include "core/import/onnx_families.hpp"

namespace hone::onnx {

namespace {

void import_leaky_relu(ImportCtx& c) {
  if (c.require(1)) c.set(0, c.emit(op::leaky_relu, {c.in(0)}, AlphaAttrs{c.attr("alpha", 0.01)}));
}

void import_elu(ImportCtx& c) {
  if (c.require(1)) c.set(0, c.emit(op::elu, {c.in(0)}, AlphaAttrs{c.attr("alpha", 1.0)}));
}

// selu(x) = gamma * elu(x; alpha); celu(x) = alpha * elu(x / alpha; 1).
void import_selu(ImportCtx& c) {
  if (!c.require(1)) return;
  const double alpha = c.attr("alpha", 1.67326319217681884765625),
               gamma = c.attr("gamma", 1.05070102214813232421875);
  c.set(0, c.emit(op::mul,
                  {c.emit(op::elu, {c.in(0)}, AlphaAttrs{alpha}), c.scalar(gamma, c.dtype(0))}));
}

void import_celu(ImportCtx& c) {
  if (!c.require(1)) return;
  const Value alpha = c.scalar(c.attr("alpha", 1.0), c.dtype(0));
  c.set(0, c.emit(op::mul,
                  {c.emit(op::elu, {c.emit(op::div, {c.in(0), alpha})}, AlphaAttrs{1.0}), alpha}));
}

void import_hard_sigmoid(ImportCtx& c) {
  if (!c.require(1)) return;
  const AlphaBetaAttrs attrs{c.attr("alpha", 0.2), c.attr("beta", 0.5)};
  c.set(0, c.emit(op::hard_sigmoid, {c.in(0)}, attrs));
}

void import_gelu(ImportCtx& c) {
  if (!c.require(1)) return;
  c.set(0, c.emit(op::gelu, {c.in(0)},
                  GeluAttrs{c.attr_enum("approximate", {"none", "tanh"}, GeluForm::erf)}));
}

void import_softsign(ImportCtx& c) {
  if (!c.require(1)) return;
  const Value one = c.scalar(1, c.dtype(0));
  c.set(0, c.emit(op::div, {c.in(0), c.emit(op::add, {one, c.emit(op::abs, {c.in(0)})})}));
}

void import_mish(ImportCtx& c) {
  if (!c.require(1)) return;
  c.set(0, c.emit(op::mul, {c.in(0), c.emit(op::tanh, {c.emit(op::softplus, {c.in(0)})})}));
}

void import_thresholded_relu(ImportCtx& c) {
  if (!c.require(1)) return;
  const Value above = c.emit(op::greater, {c.in(0), c.scalar(c.attr("alpha", 1.0), c.dtype(0))});
  c.set(0, c.emit(op::where, {above, c.in(0), c.scalar(0, c.dtype(0))}));
}

void import_softmax(ImportCtx& c) {
  if (c.require(1)) c.set(0, c.emit(*c.rule.op, {c.in(0)}, AxisAttrs{c.attr("axis", int64_t{-1})}));
}

// Before opset 13 the axes from `axis` on were one: the input is seen as a matrix and put back into
// shape afterwards, unless that axis is the last one anyway.
void import_softmax_of_matrix(ImportCtx& c) {
  if (!c.require(1)) return;
  const int64_t axis = c.attr("axis", int64_t{1});
  if (axis == -1 || axis == c.rank(0) - 1)
    return c.set(0, c.emit(*c.rule.op, {c.in(0)}, AxisAttrs{-1}));
  const Value matrix = c.emit(op::flatten, {c.in(0)}, AxisAttrs{axis});
  const Value v = c.emit(*c.rule.op, {matrix}, AxisAttrs{-1});
  c.set(0, c.reshape(v, c.shape_of(c.in(0)), true));
}

constexpr ImportRule kImports[] = {
    {"Celu", 12, import_celu},
    {"Elu", 6, import_elu},
    {"Gelu", 20, import_gelu},
    {"HardSigmoid", 6, import_hard_sigmoid},
    {"HardSwish", 14, import_same, &op::hard_swish},
    {"LeakyRelu", 6, import_leaky_relu},
    {"LogSoftmax", 1, import_softmax_of_matrix, &op::log_softmax},
    {"LogSoftmax", 13, import_softmax, &op::log_softmax},
    {"Mish", 18, import_mish},
    {"PRelu", 7, import_same, &op::prelu},
    {"Relu", 6, import_same, &op::relu},
    {"Selu", 6, import_selu},
    {"Sigmoid", 6, import_same, &op::sigmoid},
    {"Softmax", 1, import_softmax_of_matrix, &op::softmax},
    {"Softmax", 13, import_softmax, &op::softmax},
    {"Softplus", 1, import_same, &op::softplus},
    {"Softsign", 1, import_softsign},
    {"ThresholdedRelu", 10, import_thresholded_relu},
};

void export_alpha(ExportCtx& c) {
  c.write(c.rule.op_type, {c.in(0)}, {{"alpha", c.attrs<AlphaAttrs>().alpha}});
}

void export_hard_sigmoid(ExportCtx& c) {
  const AlphaBetaAttrs& a = c.attrs<AlphaBetaAttrs>();
  c.write("HardSigmoid", {c.in(0)}, {{"alpha", a.alpha}, {"beta", a.beta}});
}

void export_gelu(ExportCtx& c) {
  c.need(20);
  const bool tanh = c.attrs<GeluAttrs>().approximate == GeluForm::tanh;
  c.write("Gelu", {c.in(0)}, {{"approximate", std::string_view(tanh ? "tanh" : "none")}});
}

void export_silu(ExportCtx& c) { c.write("Mul", {c.in(0), c.part("Sigmoid", {c.in(0)})}); }

void export_axis(ExportCtx& c) {
  c.write(c.rule.op_type, c.inputs(), {{"axis", c.attrs<AxisAttrs>().axis}});
}

constexpr ExportRule kExports[] = {
    {&op::elu, "Elu", export_alpha},
    {&op::gelu, "Gelu", export_gelu},
    {&op::hard_sigmoid, "HardSigmoid", export_hard_sigmoid},
    {&op::hard_swish, "HardSwish"},
    {&op::leaky_relu, "LeakyRelu", export_alpha},
    {&op::log_softmax, "LogSoftmax", export_axis},
    {&op::prelu, "PRelu"},
    {&op::relu, "Relu"},
    {&op::sigmoid, "Sigmoid"},
    {&op::silu, "", export_silu},
    {&op::softmax, "Softmax", export_axis},
    {&op::softplus, "Softplus"},
};

}  // namespace

std::span<const ImportRule> activation_imports() { return kImports; }
std::span<const ExportRule> activation_exports() { return kExports; }

}  // namespace hone::onnx
