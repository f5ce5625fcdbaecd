// SPDX-License-Identifier: Apache-2.0
// TensorFlow Lite's arithmetic, comparisons and activations.
#include "core/import/import_ctx.hpp"
#include "core/import/tflite_ctx.hpp"

namespace hone::tflite {

namespace {

// ---- of one operand

// Sets output 0 to what `f` makes of input 0, in the layout at hand.
template <class F>
void map_input(ImportCtx& c, F f) {
  if (!c.require(1)) return;
  const bool first = c.prefers_channels_first(0);
  c.set(0, f(first ? c.channels_first(0) : c.in(0)), first);
}

void import_unary(ImportCtx& c) {
  map_input(c, [&](Value x) { return c.emit(*c.rule.op, {x}); });
}

template <int kLow, int kHigh>
void import_clip(ImportCtx& c) {
  map_input(c, [&](Value x) { return c.emit(op::clip, {x}, ClipAttrs{kLow, kHigh}); });
}

void import_elu(ImportCtx& c) {
  map_input(c, [&](Value x) { return c.emit(op::elu, {x}, AlphaAttrs{1}); });
}

void import_leaky_relu(ImportCtx& c) {
  if (const auto* o = c.options<schema::LeakyReluOptions>())
    map_input(c, [&](Value x) {
      return c.emit(op::leaky_relu, {x}, AlphaAttrs{onnx::as_written(o->alpha())});
    });
}

void import_gelu(ImportCtx& c) {
  if (const auto* o = c.options<schema::GeluOptions>())
    map_input(c, [&](Value x) {
      return c.emit(op::gelu, {x}, GeluAttrs{o->approximate() ? GeluForm::tanh : GeluForm::erf});
    });
}

void import_square(ImportCtx& c) {
  map_input(c, [&](Value x) { return c.emit(op::mul, {x, x}); });
}

void import_zeros_like(ImportCtx& c) {
  map_input(c, [&](Value x) { return c.emit(op::mul, {x, c.scalar_like(0, 0)}); });
}

void import_cast(ImportCtx& c) {
  if (!c.require(1) || c.outputs() < 1) return;
  // Here the numbers are meant as they are stored.
  if (c.is_output_quantized(0)) return c.set_stored(0, c.whole(0));
  const DType from = c.whole_dtype(0), to = c.out_dtype(0);
  if (c.is_quantized(0)) return c.set(0, c.cast(c.stored(0), from, to));
  map_input(c,
            [&](Value x) { return from == to ? c.emit(op::identity, {x}) : c.cast(x, from, to); });
}

void import_dequantize(ImportCtx& c) {
  if (!c.require(1)) return;
  if (!is_float(c.dtype(0))) return c.unsupported("of whole numbers without a scale");
  if (!c.is_quantized(0)) return import_cast(c);
  map_input(c, [&](Value x) { return c.emit(op::identity, {x}); });
}

// ---- of two operands

// Sets output 0 to what `f` makes of inputs 0 and 1.
template <class F>
void zip_inputs(ImportCtx& c, F f) {
  if (!c.require(2)) return;
  const Operands in = c.operands();
  c.set(0, f(in.values[0], in.values[1]), in.channels_first);
}

void import_binary(ImportCtx& c) {
  zip_inputs(c, [&](Value x, Value y) { return c.emit(*c.rule.op, {x, y}); });
}

template <class Options>
void import_arithmetic(ImportCtx& c) {
  if (const auto* o = c.options<Options>())
    zip_inputs(c, [&](Value x, Value y) {
      return c.activate(c.emit(*c.rule.op, {x, y}), o->activation());
    });
}

// Of whole numbers Hone's quotient is cut off towards zero; its remainder has the divisor's sign.
void import_floor_div(ImportCtx& c) {
  zip_inputs(c, [&](Value x, Value y) {
    if (is_float(c.dtype(0))) return c.emit(op::floor, {c.emit(op::div, {x, y})});
    return c.emit(op::div, {c.emit(op::sub, {x, c.emit(op::mod, {x, y})}), y});
  });
}

// The sign is the divisor's. Hone's is too for integers; for floats it is the dividend's.
void import_floor_mod(ImportCtx& c) {
  zip_inputs(c, [&](Value x, Value y) {
    if (!is_float(c.dtype(0))) return c.emit(op::mod, {x, y});
    const Value whole = c.emit(op::floor, {c.emit(op::div, {x, y})});
    return c.emit(op::sub, {x, c.emit(op::mul, {whole, y})});
  });
}

void import_squared_difference(ImportCtx& c) {
  zip_inputs(c, [&](Value x, Value y) {
    const Value d = c.emit(op::sub, {x, y});
    return c.emit(op::mul, {d, d});
  });
}

void import_not_equal(ImportCtx& c) {
  zip_inputs(c, [&](Value x, Value y) {
    return c.emit(op::logical_not, {c.emit(op::equal, {x, y})});
  });
}

// ---- of more

void import_add_n(ImportCtx& c) {
  if (!c.require(1) || !c.require(c.size())) return;
  const Operands in = c.operands();
  Value sum = in.values[0];
  for (size_t i = 1; i < in.values.size(); ++i) sum = c.emit(op::add, {sum, in.values[i]});
  c.set(0, in.values.size() == 1 ? c.emit(op::identity, {sum}) : sum, in.channels_first);
}

void import_select(ImportCtx& c) {
  if (!c.require(3)) return;
  const Operands in = c.operands();
  c.set(0, c.emit(op::where, {in.values[0], in.values[1], in.values[2]}), in.channels_first);
}

// A condition of one axis chooses among the rows of operands that have more.
void import_select_rows(ImportCtx& c) {
  if (!c.require(3)) return;
  if (c.rank(0) != 1 || c.rank(1) <= 1) return import_select(c);
  AxesAttrs others;
  for (int axis = 1; axis < c.rank(1); ++axis) others.axes.push_back(axis);
  c.set(0, c.emit(op::where, {c.emit(op::unsqueeze, {c.in(0)}, others), c.in(1), c.in(2)}));
}

constexpr ImportRule kImports[] = {
    {Builtin::ABS, import_unary, &op::abs},
    {Builtin::ADD, import_arithmetic<schema::AddOptions>, &op::add},
    {Builtin::ADD_N, import_add_n},
    {Builtin::CAST, import_cast},
    {Builtin::CEIL, import_unary, &op::ceil},
    {Builtin::COS, import_unary, &op::cos},
    {Builtin::DEQUANTIZE, import_dequantize},
    {Builtin::DIV, import_arithmetic<schema::DivOptions>, &op::div},
    {Builtin::ELU, import_elu},
    {Builtin::EQUAL, import_binary, &op::equal},
    {Builtin::EXP, import_unary, &op::exp},
    {Builtin::FLOOR, import_unary, &op::floor},
    {Builtin::FLOOR_DIV, import_floor_div},
    {Builtin::FLOOR_MOD, import_floor_mod},
    {Builtin::GELU, import_gelu},
    {Builtin::GREATER, import_binary, &op::greater},
    {Builtin::GREATER_EQUAL, import_binary, &op::greater_equal},
    {Builtin::HARD_SWISH, import_unary, &op::hard_swish},
    {Builtin::LEAKY_RELU, import_leaky_relu},
    {Builtin::LESS, import_binary, &op::less},
    {Builtin::LESS_EQUAL, import_binary, &op::less_equal},
    {Builtin::LOG, import_unary, &op::log},
    {Builtin::LOGICAL_AND, import_binary, &op::logical_and},
    {Builtin::LOGICAL_NOT, import_unary, &op::logical_not},
    {Builtin::LOGICAL_OR, import_binary, &op::logical_or},
    {Builtin::LOGISTIC, import_unary, &op::sigmoid},
    {Builtin::MAXIMUM, import_binary, &op::maximum, Elements::picked},
    {Builtin::MINIMUM, import_binary, &op::minimum, Elements::picked},
    {Builtin::MUL, import_arithmetic<schema::MulOptions>, &op::mul},
    {Builtin::NEG, import_unary, &op::neg},
    {Builtin::NOT_EQUAL, import_not_equal},
    {Builtin::POW, import_binary, &op::pow},
    {Builtin::PRELU, import_binary, &op::prelu},
    {Builtin::RELU, import_unary, &op::relu, Elements::picked},
    {Builtin::RELU6, import_clip<0, 6>},
    {Builtin::RELU_0_TO_1, import_clip<0, 1>},
    {Builtin::RELU_N1_TO_1, import_clip<-1, 1>},
    {Builtin::ROUND, import_unary, &op::round},
    {Builtin::RSQRT, import_unary, &op::rsqrt},
    {Builtin::SELECT, import_select_rows, nullptr, Elements::picked},
    {Builtin::SELECT_V2, import_select, nullptr, Elements::picked},
    {Builtin::SIGN, import_unary, &op::sign},
    {Builtin::SIN, import_unary, &op::sin},
    {Builtin::SQRT, import_unary, &op::sqrt},
    {Builtin::SQUARE, import_square},
    {Builtin::SQUARED_DIFFERENCE, import_squared_difference},
    {Builtin::SUB, import_arithmetic<schema::SubOptions>, &op::sub},
    {Builtin::TANH, import_unary, &op::tanh},
    {Builtin::ZEROS_LIKE, import_zeros_like},
};

}  // namespace

std::span<const ImportRule> elementwise_imports() { return kImports; }

}  // namespace hone::tflite
