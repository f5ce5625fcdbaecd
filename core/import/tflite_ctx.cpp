// SPDX-License-Identifier: Apache-2.0
// Access to one TensorFlow Lite operator, and the two layouts of its tensors.
#include "core/import/tflite_ctx.hpp"

#include <algorithm>

#include "core/import/evaluate.hpp"

namespace hone::tflite {

namespace {

// Axes of (N, C, H, W) by those of (N, H, W, C), and the other way.
const PermAttrs kToFirst{{0, 3, 1, 2}}, kToLast{{0, 2, 3, 1}};

std::vector<int64_t> inverse(std::span<const int64_t> perm) {
  std::vector<int64_t> out(perm.size());
  for (size_t i = 0; i < perm.size(); ++i)
    out[static_cast<size_t>(perm[i])] = static_cast<int64_t>(i);
  return out;
}

}  // namespace

// ---- ImportState

Result<TensorData> ImportState::data(int tensor) {
  const int from = source[static_cast<size_t>(tensor)];
  HONE_ASSIGN(TensorData t, file.data(from));
  if (t.dtype() != DType::f16) return t;
  HONE_TRY(file.spend(2 * static_cast<uint64_t>(t.bytes())));
  return hone::cast(t, DType::f32);
}

Result<TensorData> ImportState::stored(int tensor, std::span<const int64_t> perm) {
  HONE_ASSIGN(TensorData t, data(tensor));
  if (perm.empty()) return t;
  HONE_TRY(file.spend(static_cast<uint64_t>(t.bytes())));
  return evaluate(op::transpose, {&t, 1}, PermAttrs{{perm.begin(), perm.end()}});
}

Result<Value> ImportState::add_constant(int tensor, std::span<const int64_t> perm) {
  HONE_ASSIGN(TensorData t, stored(tensor, perm));
  if (const auto q = quantization(tensor)) {
    const auto moved_to = std::find(perm.begin(), perm.end(), q->axis);
    const int64_t axis = perm.empty() ? q->axis : moved_to - perm.begin();
    return add_quantized(tensor, std::move(t), *q, axis);
  }
  const Weight kind = weights[static_cast<size_t>(tensor)];
  if (kind == Weight::constant) return b.constant(std::move(t), unique_name(tensor));
  return add_weight(std::move(t), kind, file.name(tensor));
}

Value ImportState::add_weight(TensorData t, Weight kind, std::string_view name) {
  if (host) return host->add_weight(std::move(t), kind, name);
  if (outer) {
    captured.push_back(outer->add_weight(std::move(t), kind, name));
    return b.untyped_input(unique_name(name));
  }
  const Value v = b.state(StateRole::parameter, std::move(t), unique_name(name));
  b.graph().value(v.id()).trainable = kind == Weight::parameter;
  return v;
}

std::string ImportState::unique_name(int tensor) {
  const std::string_view name = file.name(tensor);
  return name.empty() ? unique_name(format("tensor_{}", tensor)) : unique_name(name);
}

std::string ImportState::unique_name(std::string_view stem) {
  if (host) return host->unique_name(stem);
  std::string name(stem);
  while (names_.contains(name)) name = format("{}_{}", stem, ++names_[std::string(stem)]);
  names_[name] = 0;
  return name;
}

// ---- inputs

ImportCtx::ImportCtx(ImportState& state, const ImportRule& used_rule, const schema::Operator& o)
    : b(state.b),
      rule(used_rule),
      state_(state),
      op_(o),
      inputs_(File::list(o.inputs())),
      outputs_(File::list(o.outputs())) {}

Value ImportCtx::take(Result<Value> v) {
  if (v.ok()) return *v;
  fail(v.status());
  return {};
}

Value ImportCtx::in(int i) {
  if (!has(i)) return {};
  Held& h = held(i);
  if (h.plain.valid()) return h.plain;
  const auto q = quantization(i);
  if (q && q->dtype == DType::i64) {
    unsupported("with a scale for the int64 of '{}'", state_.file.name(tensor(i)));
    return {};
  }
  if (h.channels_first.valid()) {
    h.plain = emit(op::transpose, {h.channels_first}, kToLast);
  } else if (h.moved.valid()) {
    h.plain = emit(op::transpose, {h.moved}, PermAttrs{inverse(h.perm)});
  } else if (state_.source[static_cast<size_t>(tensor(i))] >= 0) {
    h.plain = take(state_.add_constant(tensor(i), {}));
  }
  return h.plain;
}

Value ImportCtx::channels_first(int i) {
  if (!has(i)) return {};
  Held& h = held(i);
  if (!h.channels_first.valid()) h.channels_first = emit(op::transpose, {in(i)}, kToFirst);
  return h.channels_first;
}

bool ImportCtx::prefers_channels_first(int i) const {
  return has(i) && held(i).channels_first.valid() && !held(i).plain.valid();
}

Value ImportCtx::weight(int i, std::initializer_list<int64_t> perm) {
  const std::span<const int64_t> order(perm.begin(), perm.size());
  if (!has(i) || !require_rank(i, static_cast<int>(perm.size()))) return {};
  Held& h = held(i);
  if (h.moved.valid() && std::equal(h.perm.begin(), h.perm.end(), order.begin(), order.end()))
    return h.moved;
  const bool fresh = !h.plain.valid() && !h.channels_first.valid() && !h.moved.valid() &&
                     state_.source[static_cast<size_t>(tensor(i))] >= 0;
  if (!fresh) return emit(op::transpose, {in(i)}, PermAttrs{perm});
  h.moved = take(state_.add_constant(tensor(i), order));
  h.perm = perm;
  return h.moved;
}

// A tensor of fewer axes, which stands for the last ones of (N, H, W, C), as it broadcasts against
// (N, C, H, W).
Value ImportCtx::broadcast_channels_first(int i) {
  const std::vector<int64_t> e = extents(i);
  if (e.size() == 4) return channels_first(i);
  if (std::all_of(e.begin(), e.end(), [](int64_t n) { return n == 1; })) return in(i);
  if (e.size() == 1) return emit(op::unsqueeze, {in(i)}, AxesAttrs{{1, 2}});  // (C) -> (C, 1, 1)
  if (e.size() == 2)  // (W, C) -> (C, W) -> (C, 1, W)
    return emit(op::unsqueeze, {emit(op::transpose, {in(i)}, PermAttrs{{1, 0}})}, AxesAttrs{{1}});
  if (e[0] == 1 && e[1] == 1) return emit(op::reshape, {in(i)}, ShapeAttrs{{e[2], 1, 1}, true});
  return emit(op::transpose, {in(i)}, PermAttrs{{2, 0, 1}});
}

Operands ImportCtx::operands(int first) {
  Operands out;
  bool fits = true;
  for (int i = first; i < size(); ++i) {
    fits &= rank(i) <= 4 && (rank(i) != 3 || extents(i)[2] >= 0);
    out.channels_first |= prefers_channels_first(i);
  }
  out.channels_first &= fits;
  for (int i = first; i < size(); ++i)
    out.values.push_back(out.channels_first ? broadcast_channels_first(i) : in(i));
  return out;
}

DType ImportCtx::dtype(int i) const {
  if (!has(i)) return DType::f32;
  const Held& h = held(i);
  for (const Value& v : {h.plain, h.channels_first, h.moved})
    if (v.valid() && b.graph().value(v.id()).typed) return v.dtype();
  if (is_quantized(i)) return DType::f32;
  const auto t = state_.file.dtype(tensor(i));
  // Constants of float16 are handed out as float32.
  const bool widened = t == DType::f16 && state_.source[static_cast<size_t>(tensor(i))] >= 0;
  return widened ? DType::f32 : t.value_or(DType::f32);
}

std::vector<int64_t> ImportCtx::extents(int i) const {
  if (!has(i)) return {};
  const Held& h = held(i);
  const Value v = h.plain.valid() ? h.plain : h.channels_first;
  if (!v.valid() || !b.graph().value(v.id()).typed) return state_.file.extents(tensor(i));
  std::vector<int64_t> out;
  for (const int64_t extent : v.shape().dims()) out.push_back(std::max<int64_t>(extent, -1));
  if (!h.plain.valid() && out.size() == 4) out = {out[0], out[2], out[3], out[1]};
  return out;
}

std::optional<std::vector<int64_t>> ImportCtx::ints(int i) {
  const Value v = whole(i);
  const TensorData* t = v.valid() ? b.constant_data(v) : nullptr;
  if (!t || is_float(t->dtype())) return {};
  return to_ints(*t);
}

std::optional<double> ImportCtx::number(int i) {
  const Value v = in(i);
  const TensorData* t = v.valid() ? b.constant_data(v) : nullptr;
  if (!t || t->numel() != 1) return {};
  return is_float(t->dtype()) ? t->at(0) : static_cast<double>(t->int_at(0));
}

std::vector<int64_t> ImportCtx::fixed_ints(int i, std::string_view what) {
  if (auto v = ints(i)) return std::move(*v);
  unsupported("with {} computed", what);
  return {};
}

int64_t ImportCtx::fixed_int(int i, std::string_view what) {
  const std::vector<int64_t> v = fixed_ints(i, what);
  if (v.size() == 1) return v[0];
  if (missing().empty()) fail("{}: expected one number, got {}", what, v.size());
  return 0;
}

bool ImportCtx::require_rank(int i, int wanted) {
  if (rank(i) == wanted) return true;
  fail("input {} has {} dimensions, expected {}", i, rank(i), wanted);
  return false;
}

Value ImportCtx::indices(int i) { return cast(whole(i), whole_dtype(i), DType::i64); }

Value ImportCtx::cast(Value v, DType from, DType to) {
  return from == to ? v : emit(op::cast, {v}, CastAttrs{to});
}

// ---- outputs

DType ImportCtx::out_dtype(int k) const {
  if (state_.file.quantization(outputs_[static_cast<size_t>(k)])) return DType::f32;
  return state_.file.dtype(outputs_[static_cast<size_t>(k)]).value_or(DType::f32);
}

void ImportCtx::set(int k, Value v) {
  if (k >= outputs()) return;
  state_.held[static_cast<size_t>(outputs_[static_cast<size_t>(k)])].plain = as_stored(k, v);
}

void ImportCtx::set_channels_first(int k, Value v) {
  if (k >= outputs()) return;
  Held& h = state_.held[static_cast<size_t>(outputs_[static_cast<size_t>(k)])];
  h.channels_first = as_stored(k, v);
}

Value ImportCtx::activate(Value v, Activation a) {
  activated_ |= a != Activation::none;
  switch (a) {
    case Activation::none:
      return v;
    case Activation::relu:
      return emit(op::relu, {v});
    case Activation::relu6:
      return emit(op::clip, {v}, ClipAttrs{0, 6});
    case Activation::relu_n1_to_1:
      return emit(op::clip, {v}, ClipAttrs{-1, 1});
    case Activation::tanh:
      return emit(op::tanh, {v});
    default:
      break;
  }
  unsupported("with the fused activation {}", static_cast<int>(a));
  return v;
}

int64_t channels_first_axis(int64_t axis) {
  constexpr int64_t kAxes[] = {0, 2, 3, 1};
  const int64_t front = axis < 0 ? axis + 4 : axis;
  return front >= 0 && front < 4 ? kAxes[front] : axis;
}

}  // namespace hone::tflite
