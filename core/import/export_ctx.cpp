// SPDX-License-Identifier: Apache-2.0
// Writing of nodes and tensors. Field numbers are those of onnx.proto.
#include "core/import/export_ctx.hpp"

#include <bit>

namespace hone::onnx {

namespace {

wire::Writer tensor_head(std::string_view name, const TensorData& t) {
  wire::Writer w;
  w.packed(1, t.shape().dims());
  w.integer(2, static_cast<int64_t>(elem_type_of(t.dtype())));
  if (!name.empty()) w.text(8, name);
  return w;
}

std::string take(std::unordered_set<std::string>& taken, std::string wish) {
  if (wish.empty()) wish = "value";
  std::string name = wish;
  for (int i = 1; !taken.insert(name).second; ++i) name = format("{}_{}", wish, i);
  return name;
}

bool is_left_out(const OutAttr& a) {
  return std::visit(
      []<class T>(const T& v) {
        if constexpr (requires { typename T::value_type; } && !std::is_same_v<T, std::string_view>)
          return v.empty();
        else
          return false;
      },
      a.value);
}

}  // namespace

wire::Writer attribute_proto(const OutAttr& a) {
  const auto type = [](AttributeType t) { return static_cast<int64_t>(t); };
  wire::Writer w;
  w.text(1, a.name);
  if (const auto* i = std::get_if<int64_t>(&a.value)) {
    w.integer(3, *i);
    w.integer(20, type(AttributeType::int_));
  } else if (const auto* f = std::get_if<double>(&a.value)) {
    w.real(2, static_cast<float>(*f));
    w.integer(20, type(AttributeType::float_));
  } else if (const auto* s = std::get_if<std::string_view>(&a.value)) {
    w.text(4, *s);
    w.integer(20, type(AttributeType::string));
  } else if (const auto* v = std::get_if<std::vector<int64_t>>(&a.value)) {
    for (int64_t x : *v) w.integer(8, x);  // proto2 writes `ints` one by one
    w.integer(20, type(AttributeType::ints));
  } else if (const auto* t = std::get_if<TensorData>(&a.value)) {
    w.message(5, tensor_proto("", *t));
    w.integer(20, type(AttributeType::tensor));
  } else if (const auto* d = std::get_if<std::vector<double>>(&a.value)) {
    for (double x : *d) w.real(7, static_cast<float>(x));
    w.integer(20, type(AttributeType::floats));
  } else if (const auto* n = std::get_if<std::vector<std::string_view>>(&a.value)) {
    for (std::string_view x : *n) w.text(9, x);
    w.integer(20, type(AttributeType::strings));
  }
  return w;
}

wire::Writer tensor_proto(std::string_view name, const TensorData& t) {
  wire::Writer w = tensor_head(name, t);
  if constexpr (std::endian::native == std::endian::little) {
    w.borrowed(9, t.as_bytes());
  } else {
    std::string raw(reinterpret_cast<const char*>(t.data()), static_cast<size_t>(t.bytes()));
    const size_t width = size_of(t.dtype());
    for (size_t i = 0; i < raw.size(); i += width)
      for (size_t k = 0; k < width / 2; ++k) std::swap(raw[i + k], raw[i + width - 1 - k]);
    w.text(9, raw);
  }
  return w;
}

wire::Writer external_tensor_proto(std::string_view name, const TensorData& t,
                                   std::string_view location, uint64_t offset) {
  wire::Writer w = tensor_head(name, t);
  const auto entry = [&](std::string_view key, std::string_view value) {
    wire::Writer kv;
    kv.text(1, key);
    kv.text(2, value);
    w.message(13, std::move(kv));
  };
  entry("location", location);
  entry("offset", format("{}", offset));
  entry("length", format("{}", t.bytes()));
  w.integer(14, 1);  // EXTERNAL
  return w;
}

std::string ExportState::unique(std::string wish) { return take(taken, std::move(wish)); }
std::string ExportState::unique_node(std::string wish) { return take(node_names, std::move(wish)); }

void ExportState::add_node(wire::Writer proto, const Node& node) {
  if (node.region > 0) {
    has_regions = true;
    wire::Writer mark;
    mark.text(1, kRegionKey);
    mark.text(2, format("{}", node.region));
    proto.message(9, std::move(mark));
  }
  nodes.message(1, std::move(proto));
}

std::vector<std::string> ExportCtx::inputs() const {
  std::vector<std::string> names;
  for (int i = 0; i < size(); ++i) names.push_back(in(i));
  return names;
}

int ExportCtx::rank(int i) const {
  const ValueInfo& v = state_.graph.value(id(i));
  if (v.typed) return v.type.shape.rank();
  if (v.kind != ValueKind::node) return -1;
  // Some operators say it without knowing the extents.
  const Node& from = state_.graph.node(v.producer);
  size_t axes = 0;
  if (from.op == &op::transpose) axes = from.attrs.as<PermAttrs>().perm.size();
  if (from.op == &op::reshape) axes = from.attrs.as<ShapeAttrs>().shape.size();
  return axes > 0 ? static_cast<int>(axes) : -1;
}

int ExportCtx::outputs() const {
  size_t count = node.outputs.size();
  while (count > 1 && !state_.read[static_cast<size_t>(node.outputs[count - 1])]) --count;
  return static_cast<int>(count);
}

void ExportCtx::unsupported(std::string_view why) {
  state_.missing.push_back(format("{} {} ('{}')", node.op->name, why, name_));
}

void ExportCtx::write(std::string_view op_type, std::vector<std::string> in_names,
                      std::vector<OutAttr> attrs) {
  std::vector<std::string> outs;
  for (int k = 0; k < outputs(); ++k) outs.push_back(out(k));
  emit(op_type, in_names, outs, attrs);
}

void ExportCtx::write_after(std::string_view op_type, std::vector<std::string> in_names,
                            std::vector<OutAttr> attrs, int skipped) {
  std::vector<std::string> outs(static_cast<size_t>(skipped));
  for (std::string& name : outs) name = state_.unique(format("{}/unused", name_));
  for (int k = 0; k < outputs(); ++k) outs.push_back(out(k));
  emit(op_type, in_names, outs, attrs);
}

std::string ExportCtx::part(std::string_view op_type, std::vector<std::string> in_names,
                            std::vector<OutAttr> attrs) {
  const std::string out_name = state_.unique(format("{}/{}_{}", name_, op_type, parts_));
  emit(op_type, in_names, std::span(&out_name, 1), attrs);
  return out_name;
}

void ExportCtx::emit(std::string_view op_type, std::span<const std::string> in_names,
                     std::span<const std::string> outs, std::span<const OutAttr> attrs) {
  wire::Writer w;
  size_t count = in_names.size();
  while (count > 0 && in_names[count - 1].empty()) --count;
  for (const std::string& n : in_names.first(count)) w.text(1, n);
  for (const std::string& n : outs) w.text(2, n);
  const bool last = outs.data() != nullptr && outs[0] == out();
  w.text(3, state_.unique_node(last ? name_ : format("{}/{}_{}", name_, op_type, parts_++)));
  w.text(4, op_type);
  for (const OutAttr& a : attrs)
    if (!is_left_out(a)) w.message(5, attribute_proto(a));
  state_.add_node(std::move(w), node);
}

std::string ExportCtx::tensor(const TensorData& t) {
  const std::string constant = state_.unique(format("{}/Constant_output_{}", name_, parts_++));
  wire::Writer w = tensor_head(constant, t);
  w.text(9, {reinterpret_cast<const char*>(t.data()), static_cast<size_t>(t.bytes())});
  state_.initializers.message(5, std::move(w));
  return constant;
}

std::string ExportCtx::ints(std::span<const int64_t> v) {
  auto t = TensorData::vector_of(v);
  if (t.ok()) return tensor(*t);
  unsupported(t.status().message());
  return {};
}

std::string ExportCtx::number(double v, DType to) {
  auto wide = TensorData::scalar_of(v);
  auto t = wide.ok() ? cast(*wide, to) : std::move(wide);
  if (t.ok()) return tensor(*t);
  unsupported(t.status().message());
  return {};
}

void add_pads(std::vector<OutAttr>& attrs, AutoPad auto_pad, std::span<const int64_t> before,
              std::span<const int64_t> after) {
  constexpr std::string_view kNames[] = {"NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID"};
  if (auto_pad != AutoPad::none)
    return attrs.push_back({"auto_pad", kNames[static_cast<size_t>(auto_pad)]});
  std::vector<int64_t> pads(before.begin(), before.end());
  pads.insert(pads.end(), after.begin(), after.end());
  attrs.push_back({"pads", std::move(pads)});
}

}  // namespace hone::onnx
