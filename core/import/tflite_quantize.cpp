// SPDX-License-Identifier: Apache-2.0
// Whole numbers that stand for real ones. Every operator computes with real numbers: what it reads
// is dequantized, and what it gives is quantized as the file says and dequantized for who reads it
// next. Weights stay stored in eight bits.
#include <algorithm>
#include <array>
#include <cmath>

#include "core/import/evaluate.hpp"
#include "core/import/tflite_ctx.hpp"
#include "hone/op_attrs_quantize.hpp"

namespace hone::tflite {

namespace {

// Scale and zero point; the latter is left out where it is 0.
Result<std::array<TensorData, 2>> scale_data(const Quantization& q) {
  const Shape shape = q.per_axis() ? Shape{static_cast<int64_t>(q.scale.size())} : Shape{};
  std::array<TensorData, 2> out;
  HONE_ASSIGN(const TensorData scale, TensorData::vector_of(q.scale));
  HONE_ASSIGN(out[0], scale.reshaped(shape));
  if (q.zero_point.empty()) return out;
  std::vector<int64_t> zeros(q.zero_point.begin(), q.zero_point.end());
  zeros.resize(q.scale.size(), zeros[0]);
  HONE_ASSIGN(const TensorData wide, TensorData::vector_of(std::span<const int64_t>(zeros)));
  HONE_ASSIGN(const TensorData zero, hone::cast(wide, q.dtype));
  HONE_ASSIGN(out[1], zero.reshaped(shape));
  return out;
}

std::array<Value, 2> scale_operands(Builder& b, const Quantization& q) {
  auto data = scale_data(q);
  if (!data.ok()) return b.fail(data.status()), std::array<Value, 2>();
  return {b.constant((*data)[0]), (*data)[1].defined() ? b.constant((*data)[1]) : Value()};
}

// `t`, whose axis `axis` has the scales, as f32.
Result<TensorData> dequantized(const TensorData& t, const Quantization& q, int64_t axis) {
  HONE_ASSIGN(const auto operands, scale_data(q));
  const TensorData inputs[] = {t, operands[0], operands[1]};
  return evaluate(op::dequantize_linear, inputs, QuantizeAttrs{.axis = axis, .narrow = q.narrow});
}

// Numbers of 64 bits in 32. Where they do not fit, in units that are greater by a power of two,
// which is still finer than what a float keeps of the greatest of them.
Result<TensorData> in_32_bits(const TensorData& t, std::span<float> scale) {
  int shift = 0;
  for (int64_t i = 0; i < t.numel(); ++i)
    while (static_cast<int32_t>(t.int_at(i) >> shift) != t.int_at(i) >> shift) ++shift;
  HONE_ASSIGN(TensorData out, TensorData::allocate({DType::i32, t.shape()}));
  for (int64_t i = 0; i < t.numel(); ++i)
    out.as_mutable<int32_t>()[i] = static_cast<int32_t>(t.int_at(i) >> shift);
  for (float& s : scale) s = std::ldexp(s, shift);
  return out;
}

}  // namespace

// ---- ImportState

std::optional<Quantization> ImportState::quantization(int tensor) const {
  const int from = source[static_cast<size_t>(tensor)];
  return file.quantization(from >= 0 ? from : tensor);
}

Value ImportState::dequantize(Value stored, const Quantization& q, int64_t axis) {
  const auto [scale, zero] = scale_operands(b, q);
  return hone::dequantize(b, stored, scale, zero, {.axis = axis, .narrow = q.narrow});
}

Value ImportState::quantize(Value real, const Quantization& q, int64_t axis) {
  const auto [scale, zero] = scale_operands(b, q);
  return b.emit(op::quantize_linear, {real, scale, zero},
                QuantizeAttrs{.axis = axis, .to = q.dtype, .narrow = q.narrow});
}

Result<Value> ImportState::add_quantized(int tensor, TensorData t, const Quantization& q,
                                         int64_t axis) {
  const Weight kind = weights[static_cast<size_t>(tensor)];
  if (kind == Weight::constant)
    return dequantize(b.constant(std::move(t), unique_name(tensor)), q, axis);
  HONE_TRY(file.spend(sizeof(float) * static_cast<uint64_t>(t.numel())));
  HONE_ASSIGN(t, dequantized(t, q, axis));
  return add_weight(std::move(t), kind, file.name(tensor));
}

// ---- ImportCtx

std::optional<Quantization> ImportCtx::quantization(int i) const {
  return has(i) ? state_.quantization(tensor(i)) : std::nullopt;
}

Value ImportCtx::bias(int i, int x, int w) {
  const DType dtype = whole_dtype(i);
  if (!has(i) || (dtype != DType::i32 && dtype != DType::i64)) return in(i);
  const auto of_x = quantization(x), of_w = quantization(w);
  if (!of_x || !of_w || of_x->per_axis()) {
    unsupported("with a bias of {} for operands that are not quantized so",
                to_string(state_.file.tensor(tensor(i)).type()));
    return {};
  }
  std::vector<float> scale(of_w->scale.begin(), of_w->scale.end());
  for (float& s : scale) s *= of_x->scale[0];
  const Quantization q{.scale = scale, .dtype = DType::i32};
  if (state_.source[static_cast<size_t>(tensor(i))] < 0) {
    if (dtype == DType::i64) unsupported("with a bias of int64 that is computed");
    return state_.dequantize(whole(i), q);
  }
  auto data = state_.data(tensor(i));
  if (data.ok() && dtype == DType::i64) data = in_32_bits(*data, scale);
  if (!data.ok()) return take(data.status());
  return take(state_.add_quantized(tensor(i), std::move(*data), q, 0));
}

bool ImportCtx::is_stored_table(int i) const {
  const auto q = quantization(i);
  const size_t t = has(i) ? static_cast<size_t>(tensor(i)) : 0;
  return q && !q->per_axis() && state_.source[t] >= 0 && state_.weights[t] == Weight::constant;
}

Value ImportCtx::stored(int i) {
  const auto q = quantization(i);
  if (!q) return {};
  Held& h = held(i);
  const int from = state_.source[static_cast<size_t>(tensor(i))];
  if (h.stored.valid()) return h.stored;
  if (from < 0) return state_.quantize(in(i), *q, q->axis);
  auto data = state_.data(tensor(i));
  if (!data.ok()) return take(data.status());
  h.stored = b.constant(std::move(*data), state_.unique_name(tensor(i)));
  return h.stored;
}

Value ImportCtx::real(int i, Value stored) {
  const auto q = quantization(i);
  return q ? state_.dequantize(stored, *q) : stored;
}

// Whether all that is read is stored with the scale `q`; indices and conditions do not matter.
bool ImportCtx::reads_only(const Quantization& q) const {
  bool any = false;
  for (int i = 0; i < size(); ++i) {
    const auto of_input = quantization(i);
    if (of_input ? !(*of_input == q) : is_float(dtype(i)) && has(i)) return false;
    any |= of_input.has_value();
  }
  return any;
}

// What becomes of output k by being stored.
Value ImportCtx::as_stored(int k, Value v) {
  const int t = outputs_[static_cast<size_t>(k)];
  const auto q = state_.file.quantization(t);
  if (!q || !v.valid()) return v;
  if (q->is_wide()) {
    unsupported("with an output of {} that has a scale", to_string(state_.file.tensor(t).type()));
    return v;
  }
  if (q->per_axis() || q->scale[0] == 0) {
    unsupported("with an output of {}", q->per_axis() ? "several scales" : "scale 0");
    return v;
  }
  if (rule.elements == Elements::picked && !activated_ && reads_only(*q)) return v;
  return state_.dequantize(state_.quantize(v, *q), *q);
}

void ImportCtx::set_stored(int k, Value whole) {
  const auto q = state_.file.quantization(outputs_[static_cast<size_t>(k)]);
  set(k, q ? state_.dequantize(emit(op::cast, {whole}, CastAttrs{q->dtype}), *q) : whole);
}

namespace {

// Of real numbers, or from one scale to another.
void import_quantize(ImportCtx& c) {
  if (!c.require(1) || c.outputs() < 1) return;
  if (!c.is_output_quantized(0)) return c.unsupported("to whole numbers without a scale");
  if (!is_float(c.dtype(0))) return c.unsupported("of whole numbers");
  const bool first = c.prefers_channels_first(0);
  c.set(0, first ? c.channels_first(0) : c.in(0), first);
}

constexpr ImportRule kImports[] = {{Builtin::QUANTIZE, import_quantize}};

}  // namespace

std::span<const ImportRule> quantize_imports() { return kImports; }

}  // namespace hone::tflite
