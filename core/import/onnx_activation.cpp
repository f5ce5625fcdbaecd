// SPDX-License-Identifier: Apache-2.0
// ONNX's activations and softmax.
#include <numbers>

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

// Before opset 7 a vector of slopes had one for each channel, axis 1.
void import_prelu_by_channel(ImportCtx& c) {
  if (!c.require(2)) return;
  if (c.rank(0) < 0 || c.rank(1) < 0) return c.unsupported("with an unknown rank");
  const ValueInfo& slope = c.b.graph().value(c.in(1).id());
  const bool one = slope.typed && slope.type.shape.concrete() && slope.type.numel() == 1;
  std::vector<int64_t> behind;
  for (int64_t i = 1; i < c.rank(0) - 1 && c.rank(1) == 1 && !one; ++i) behind.push_back(i);
  const Value s = behind.empty() ? c.in(1) : c.emit(op::unsqueeze, {c.in(1)}, AxesAttrs{behind});
  c.set(0, c.emit(op::prelu, {c.in(0), s}));
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

// x - bias above lambd, x + bias below -lambd, 0 between.
void import_shrink(ImportCtx& c) {
  if (!c.require(1)) return;
  const DType t = c.dtype(0);
  const double lambd = c.attr("lambd", 0.5), bias = c.attr("bias", 0.0);
  const Value x = c.in(0), shift = c.scalar(bias, t);
  const Value below = c.emit(op::less, {x, c.scalar(-lambd, t)});
  const Value above = c.emit(op::greater, {x, c.scalar(lambd, t)});
  const Value inner = c.emit(op::where, {above, c.emit(op::sub, {x, shift}), c.scalar(0, t)});
  c.set(0, c.emit(op::where, {below, c.emit(op::add, {x, shift}), inner}));
}

// x * sigmoid(alpha * x)
void import_swish(ImportCtx& c) {
  if (!c.require(1)) return;
  const double alpha = c.attr("alpha", 1.0);
  if (alpha == 1) return c.set(0, c.emit(op::silu, {c.in(0)}));
  const Value scaled = c.emit(op::mul, {c.in(0), c.scalar(alpha, c.dtype(0))});
  c.set(0, c.emit(op::mul, {c.in(0), c.emit(op::sigmoid, {scaled})}));
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
    {"Elu", 1, import_elu},
    {"Gelu", 20, import_gelu},
    {"HardSigmoid", 1, import_hard_sigmoid},
    {"HardSwish", 14, import_same, &op::hard_swish},
    {"Hardmax", 1, import_softmax_of_matrix, &op::hardmax},
    {"Hardmax", 13, import_softmax, &op::hardmax},
    {"LeakyRelu", 1, import_leaky_relu},
    {"LogSoftmax", 1, import_softmax_of_matrix, &op::log_softmax},
    {"LogSoftmax", 13, import_softmax, &op::log_softmax},
    {"Mish", 18, import_mish},
    {"PRelu", 1, import_prelu_by_channel},
    {"PRelu", 7, import_same, &op::prelu},
    {"Relu", 1, import_same, &op::relu},
    {"Selu", 1, import_selu},
    {"Shrink", 9, import_shrink},
    {"Sigmoid", 1, import_same, &op::sigmoid},
    {"Softmax", 1, import_softmax_of_matrix, &op::softmax},
    {"Softmax", 13, import_softmax, &op::softmax},
    {"Softplus", 1, import_same, &op::softplus},
    {"Softsign", 1, import_softsign},
    {"Swish", 24, import_swish},
    {"ThresholdedRelu", 10, import_thresholded_relu},
};

void export_alpha(ExportCtx& c) {
  c.write(c.rule.op_type, {c.in(0)}, {{"alpha", c.attrs<AlphaAttrs>().alpha}});
}

void export_hard_sigmoid(ExportCtx& c) {
  const AlphaBetaAttrs& a = c.attrs<AlphaBetaAttrs>();
  c.write("HardSigmoid", {c.in(0)}, {{"alpha", a.alpha}, {"beta", a.beta}});
}

// x (1 + f) / 2, with f = erf(x / sqrt(2)), or tanh(sqrt(2 / pi) (x + 0.044715 x^3)).
void spell_gelu(ExportCtx& c, bool tanh) {
  const DType t = c.dtype(0);
  const std::string x = c.in(0);
  std::string f;
  if (tanh) {
    const std::string cube = c.part("Mul", {c.part("Mul", {x, x}), x});
    const std::string sum = c.part("Add", {x, c.part("Mul", {cube, c.number(0.044715, t)})});
    const double scale = std::numbers::sqrt2 * std::numbers::inv_sqrtpi;
    f = c.part("Tanh", {c.part("Mul", {sum, c.number(scale, t)})});
  } else {
    f = c.part("Erf", {c.part("Div", {x, c.number(std::numbers::sqrt2, t)})});
  }
  const std::string gate = c.part("Add", {f, c.number(1, t)});
  c.write("Mul", {c.part("Mul", {x, gate}), c.number(0.5, t)});
}

// One node from opset 20 on. GELU alone is no reason to ask for it.
void export_gelu(ExportCtx& c) {
  const bool tanh = c.attrs<GeluAttrs>().approximate == GeluForm::tanh;
  if (c.opset < 20) return spell_gelu(c, tanh);
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
    {&op::hardmax, "Hardmax", export_axis},
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
