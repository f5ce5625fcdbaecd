// SPDX-License-Identifier: Apache-2.0
// Access to one ONNX node.
#include "core/import/import_ctx.hpp"

#include <algorithm>
#include <cmath>

namespace hone::onnx {

ImportCtx::ImportCtx(ImportState& state, const ImportRule& used_rule, const NodeProto& node,
                     int64_t version, std::vector<Value> inputs, std::vector<bool> wanted)
    : b(state.b),
      rule(used_rule),
      options(state.options),
      opset(version),
      state_(state),
      node_(node),
      inputs_(std::move(inputs)),
      wanted_(std::move(wanted)),
      outs_(node.outputs.size()),
      read_(node.attributes.size()) {}

Known ImportState::known(Value v) const {
  const ValueInfo& info = b.graph().value(v.id());
  if (info.typed) return {info.type.dtype, info.type.shape.rank()};
  const size_t id = static_cast<size_t>(v.id());
  return id < said.size() ? said[id] : Known();
}

void ImportState::set_known(Value v, Known what) {
  const size_t id = static_cast<size_t>(v.id());
  if (said.size() <= id) said.resize(id + 1);
  said[id] = what;
}

NarrowType ImportState::narrow_of(Value v) const {
  const size_t id = static_cast<size_t>(v.id());
  return id < narrow.size() ? narrow[id] : NarrowType::none;
}

void ImportState::set_narrow(Value v, NarrowType what) {
  const size_t id = static_cast<size_t>(v.id());
  if (what == NarrowType::none && narrow.size() <= id) return;
  if (narrow.size() <= id) narrow.resize(id + 1);
  narrow[id] = what;
}

Known ImportCtx::known(int i) const { return has(i) ? state_.known(in(i)) : Known(); }

Known ImportCtx::broadcast() const {
  Known k = known(0);
  for (int i = 1; i < size() && k.rank >= 0; ++i)
    k.rank = rank(i) < 0 ? -1 : std::max(k.rank, rank(i));
  return k;
}

std::optional<std::vector<int64_t>> ImportCtx::ints(int i) const {
  const TensorData* t = constant(i);
  if (!t || is_float(t->dtype())) return {};
  return to_ints(*t);
}

std::optional<double> ImportCtx::number(int i) const {
  const TensorData* t = constant(i);
  if (!t || t->numel() != 1) return {};
  return is_float(t->dtype()) ? t->at(0) : static_cast<double>(t->int_at(0));
}

bool ImportCtx::has_attr(std::string_view name) const {
  for (const AttributeProto& a : node_.attributes)
    if (a.name == name) return true;
  return false;
}

const AttributeProto* ImportCtx::attribute(std::string_view name, AttributeType type) {
  for (size_t i = 0; i < node_.attributes.size(); ++i) {
    const AttributeProto& a = node_.attributes[i];
    if (a.name != name) continue;
    read_[i] = true;
    if (a.type == type) return &a;
    fail("attribute '{}' is of type {}, expected {}", name, static_cast<int>(a.type),
         static_cast<int>(type));
    return nullptr;
  }
  return nullptr;
}

void ImportCtx::ignore(std::string_view name) {
  for (size_t i = 0; i < node_.attributes.size(); ++i)
    if (node_.attributes[i].name == name) read_[i] = true;
}

std::string_view ImportCtx::unread_attribute() const {
  for (size_t i = 0; i < node_.attributes.size(); ++i)
    if (!read_[i]) return node_.attributes[i].name;
  return {};
}

int64_t ImportCtx::attr(std::string_view name, int64_t fallback) {
  const AttributeProto* a = attribute(name, AttributeType::int_);
  return a ? a->i : fallback;
}
double ImportCtx::attr(std::string_view name, double fallback) {
  const AttributeProto* a = attribute(name, AttributeType::float_);
  return a ? as_written(a->f) : fallback;
}
std::string_view ImportCtx::attr(std::string_view name, std::string_view fallback) {
  const AttributeProto* a = attribute(name, AttributeType::string);
  return a ? a->s : fallback;
}
std::vector<int64_t> ImportCtx::attr_ints(std::string_view name) {
  const AttributeProto* a = attribute(name, AttributeType::ints);
  return a ? a->ints : std::vector<int64_t>();
}
std::vector<double> ImportCtx::attr_numbers(std::string_view name) {
  std::vector<double> out;
  if (const AttributeProto* a = attribute(name, AttributeType::floats))
    for (float f : a->floats) out.push_back(as_written(f));
  return out;
}

int ImportCtx::attr_choice(std::string_view name, std::initializer_list<std::string_view> names,
                           int fallback) {
  const AttributeProto* a = attribute(name, AttributeType::string);
  if (!a) return fallback;
  int index = 0;
  for (std::string_view n : names) {
    if (n == a->s) return index;
    ++index;
  }
  unsupported("with {}='{}'", name, a->s);
  return fallback;
}

void ImportCtx::set(int k, Value v, Known known) {
  if (k >= outputs()) return;
  outs_[static_cast<size_t>(k)] = v;
  if (v.valid()) state_.set_known(v, known);
}

Value ImportCtx::shape_of(Value v, const ShapeOfAttrs& attrs) {
  const ValueInfo& info = b.graph().value(v.id());
  if (!info.typed || !info.type.shape.concrete()) return emit(op::shape_of, {v}, attrs);
  const int64_t rank = info.type.shape.rank();
  const auto from_front = [&](int64_t i) {
    return std::clamp<int64_t>(i < 0 ? i + rank : i, 0, rank);
  };
  const int64_t first = from_front(attrs.start), last = std::max(first, from_front(attrs.end));
  return b.ints(info.type.shape.dims().subspan(static_cast<size_t>(first),
                                               static_cast<size_t>(last - first)));
}

Value ImportCtx::reshape(Value v, Value shape, bool allow_zero) {
  if (const TensorData* extents = b.constant_data(shape))
    return emit(op::reshape, {v}, ShapeAttrs{to_ints(*extents), allow_zero});
  return emit(op::reshape_dyn, {v, shape}, AllowZeroAttrs{allow_zero});
}

void import_same(ImportCtx& c) { c.set(0, c.b.emit(*c.rule.op, c.inputs()), c.broadcast()); }

void import_comparison(ImportCtx& c) {
  c.set(0, c.b.emit(*c.rule.op, c.inputs()), {DType::bool_, c.broadcast().rank});
}

void read_pads(ImportCtx& c, std::vector<int64_t>& before, std::vector<int64_t>& after) {
  const std::vector<int64_t> pads = c.attr_ints("pads");
  if (pads.size() % 2 != 0) return c.fail("'pads' has {} entries, an odd number", pads.size());
  const auto half = static_cast<ptrdiff_t>(pads.size() / 2);
  before.assign(pads.begin(), pads.begin() + half);
  after.assign(pads.begin() + half, pads.end());
}

PoolAttrs read_pool(ImportCtx& c) {
  PoolAttrs a;
  a.kernel = c.attr_ints("kernel_shape");
  a.strides = c.attr_ints("strides");
  a.dilations = c.attr_ints("dilations");
  a.auto_pad =
      c.attr_enum("auto_pad", {"NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID"}, AutoPad::none);
  a.ceil_mode = c.flag("ceil_mode");
  read_pads(c, a.pads_begin, a.pads_end);
  if (a.kernel.empty()) c.fail("attribute 'kernel_shape' is missing");
  return a;
}

// Tries one digit more each time. 10^k is exact in double up to k = 22, so that the quotient of an
// integer and it is the double nearest to the decimal number.
double as_written(float f) {
  const double v = static_cast<double>(f);
  if (f == 0 || !std::isfinite(f)) return v;
  const int magnitude = static_cast<int>(std::floor(std::log10(std::fabs(v))));
  for (int digits = 1; digits <= 9; ++digits) {
    const int k = digits - 1 - magnitude;
    if (k < -22 || k > 22) break;
    double scale = 1;
    for (int i = 0; i < std::abs(k); ++i) scale *= 10;
    const double decimal = k >= 0 ? std::round(v * scale) / scale : std::round(v / scale) * scale;
    if (static_cast<float>(decimal) == f) return decimal;
  }
  return v;
}

int64_t front_axis(int64_t axis, int rank) { return axis < 0 && rank >= 0 ? axis + rank : axis; }

}  // namespace hone::onnx
