// SPDX-License-Identifier: Apache-2.0
// Whole numbers that stand for real ones. Every operator computes with real numbers: what it reads
// is dequantized, and what it gives is quantized as the file says and dequantized for who reads it
// next. Weights stay stored in eight bits.
#include <algorithm>

#include "core/import/tflite_ctx.hpp"
#include "hone/op_attrs_quantize.hpp"

namespace hone::tflite {

namespace {

// `t`, whose axis `axis` has the scales, as f32.
Result<TensorData> dequantized(const TensorData& t, const Quantization& q, int64_t axis) {
  HONE_ASSIGN(TensorData out, TensorData::allocate({DType::f32, t.shape()}));
  int64_t inner = 1;
  for (int64_t k = axis + 1; k < t.shape().rank(); ++k) inner *= t.shape()[static_cast<int>(k)];
  const auto count = static_cast<int64_t>(q.scale.size());
  float* to = out.as_mutable<float>();
  for (int64_t i = 0; i < t.numel(); ++i) {
    const auto s = static_cast<size_t>(q.per_axis() ? i / inner % count : 0);
    const int64_t zero = q.zero_point.empty() ? 0 : q.zero_point[s];
    to[i] = static_cast<float>(t.int_at(i) - zero) * q.scale[s];
  }
  return out;
}

}  // namespace

// ---- ImportState

std::optional<Quantization> ImportState::quantization(int tensor) const {
  const int from = source[static_cast<size_t>(tensor)];
  return file.quantization(from >= 0 ? from : tensor);
}

// Scale and zero point; the latter is left out where it is 0.
std::array<Value, 2> ImportState::scale_operands(const Quantization& q, DType dtype) {
  const auto constant = [&](Result<TensorData> t) {
    if (t.ok() && !q.per_axis()) t = t->reshaped({});
    if (t.ok()) return b.constant(std::move(*t));
    b.fail(t.status());
    return Value();
  };
  const Value scale = constant(TensorData::vector_of(q.scale));
  if (q.zero_point.empty()) return {scale, {}};
  auto zero = TensorData::vector_of(q.zero_point);
  return {scale, constant(zero.ok() ? hone::cast(*zero, dtype) : std::move(zero))};
}

Value ImportState::dequantize(Value v, const Quantization& q, DType dtype, int64_t axis) {
  const auto [scale, zero] = scale_operands(q, dtype);
  return hone::dequantize(b, v, scale, zero, {.axis = axis});
}

Value ImportState::quantize(Value real, const Quantization& q, DType dtype, int64_t axis) {
  const auto [scale, zero] = scale_operands(q, dtype);
  return b.emit(op::quantize_linear, {real, scale, zero}, QuantizeAttrs{.axis = axis, .to = dtype});
}

Result<Value> ImportState::add_quantized(int tensor, TensorData t, const Quantization& q,
                                         int64_t axis) {
  const Weight kind = weights[static_cast<size_t>(tensor)];
  if (kind == Weight::constant) {
    const DType dtype = t.dtype();
    return dequantize(b.constant(std::move(t), unique_name(tensor)), q, dtype, axis);
  }
  HONE_TRY(file.spend(sizeof(float) * static_cast<uint64_t>(t.numel())));
  HONE_ASSIGN(t, dequantized(t, q, axis));
  return add_weight(std::move(t), kind, file.name(tensor));
}

// ---- ImportCtx

std::optional<Quantization> ImportCtx::quantization(int i) const {
  return has(i) ? state_.quantization(tensor(i)) : std::nullopt;
}

Value ImportCtx::bias(int i, int x, int w) {
  if (!has(i) || state_.file.dtype(tensor(i)) != DType::i32) return in(i);
  const auto of_x = quantization(x), of_w = quantization(w);
  if (!of_x || !of_w || of_x->per_axis()) {
    unsupported("with a bias of int32 for operands that are not quantized so");
    return {};
  }
  std::vector<float> scale(of_w->scale.begin(), of_w->scale.end());
  for (float& s : scale) s *= of_x->scale[0];
  const Quantization q{scale, {}, 0};
  if (state_.source[static_cast<size_t>(tensor(i))] < 0)
    return state_.dequantize(in(i), q, DType::i32);
  auto data = state_.data(tensor(i));
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
  if (from < 0) return state_.quantize(in(i), *q, *state_.file.dtype(tensor(i)), q->axis);
  auto data = state_.data(tensor(i));
  if (!data.ok()) return take(data.status());
  h.stored = b.constant(std::move(*data), state_.unique_name(tensor(i)));
  return h.stored;
}

Value ImportCtx::real(int i, Value stored) {
  const auto q = quantization(i);
  return q ? state_.dequantize(stored, *q, stored_dtype(i)) : stored;
}

DType ImportCtx::stored_dtype(int i) const {
  const int from = state_.source[static_cast<size_t>(tensor(i))];
  return state_.file.dtype(from >= 0 ? from : tensor(i)).value_or(DType::i8);
}

std::optional<double> ImportCtx::stored_number(int i) {
  const auto q = quantization(i);
  if (state_.source[static_cast<size_t>(tensor(i))] < 0) return {};
  auto t = state_.data(tensor(i));
  if (t.ok() && t->numel() != 1) return {};
  if (t.ok()) t = dequantized(*t, *q, 0);
  if (t.ok()) return t->at(0);
  fail(t.status());
  return {};
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
  if (q->per_axis() || q->scale[0] == 0) {
    unsupported("with an output of {}", q->per_axis() ? "several scales" : "scale 0");
    return v;
  }
  if (rule.elements == Elements::picked && !activated_ && reads_only(*q)) return v;
  const DType dtype = *state_.file.dtype(t);
  return state_.dequantize(state_.quantize(v, *q, dtype), *q, dtype);
}

namespace {

// Of real numbers, or from one scale to another.
void import_quantize(ImportCtx& c) {
  if (!c.require(1) || c.outputs() < 1) return;
  if (!c.is_output_quantized(0)) return c.unsupported("to other than int8 and uint8");
  if (!is_float(c.dtype(0))) return c.unsupported("of whole numbers");
  const bool first = c.prefers_channels_first(0);
  c.set(0, first ? c.channels_first(0) : c.in(0), first);
}

constexpr ImportRule kImports[] = {{Builtin::QUANTIZE, import_quantize}};

}  // namespace

std::span<const ImportRule> quantize_imports() { return kImports; }

}  // namespace hone::tflite
