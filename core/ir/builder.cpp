// SPDX-License-Identifier: Apache-2.0
// Emission: check, infer, then fold, decompose or append.
#include "hone/builder.hpp"

#include "hone/op.hpp"
#include "hone/thread_pool.hpp"

namespace hone {

const TensorType& Value::type() const {
  static const TensorType kInvalid;
  return valid() ? builder_->graph().type(id_) : kInvalid;
}

Value Builder::emit(const OpDef& op, std::initializer_list<Value> inputs, Attrs attrs) {
  return emit(op, std::span<const Value>(inputs.begin(), inputs.size()), std::move(attrs));
}

Value Builder::emit(const OpDef& op, std::span<const Value> inputs, Attrs attrs) {
  std::vector<Value> outs = emit_all(op, inputs, std::move(attrs));
  return outs.empty() ? Value() : outs[0];
}

std::vector<Value> Builder::emit_all(const OpDef& op, std::span<const Value> inputs, Attrs attrs,
                                     int untyped_outputs) {
  fail(check_built(op, scope_));
  if (!status_.ok()) return {};
  if (collected_) collected_->insert(&op);
  if (attrs.empty()) attrs = Attrs::defaults(*op.attrs);
  if (attrs.schema() != op.attrs) {
    fail(internal("{}: was given the attributes of another operator", op.name));
    return {};
  }
  // Trailing inputs that are left out are dropped, so that arity means what was given.
  size_t count = inputs.size();
  while (count > static_cast<size_t>(op.min_inputs) && !inputs[count - 1].valid()) --count;
  std::vector<ValueId> ids;
  std::vector<const TensorType*> types;
  std::vector<const TensorData*> constants;
  bool typed = true;
  for (const Value& v : inputs.first(count)) {
    ids.push_back(v.id());
    const bool given = v.valid();
    assert(!given || &v.builder() == this);
    if (given && !graph_.value(v.id()).typed) typed = false;
    types.push_back(given ? &graph_.type(v.id()) : nullptr);
    constants.push_back(given ? constant_data(v) : nullptr);
  }
  for (const TensorType* t : types)
    if (t && !t->shape.concrete()) typed = false;
  if (!typed) {
    if (composites_ == Composites::keep) {
      fail(check_arity(op, scope_, types));
      return status_.ok() ? append(op, std::move(ids), std::move(attrs), {}, untyped_outputs)
                          : std::vector<Value>();
    }
    fail(internal("{} '{}': an input has no type yet", op.name, scope_));
    return {};
  }
  auto out_types = infer(op, scope_, std::move(types), std::move(constants), attrs);
  if (!out_types.ok()) {
    // A shape that depends on data: in a model graph it stays open until the graph is specialised.
    if (composites_ == Composites::keep && out_types.status().code() == Code::unsupported)
      return append(op, std::move(ids), std::move(attrs), {}, untyped_outputs);
    fail(out_types.status());
    return {};
  }
  if (may_fold(ids, *out_types)) {
    if (op.kernel) return fold(op, ids, attrs, *out_types);
    if (op.decompose) return expand(op, ids, attrs, out_types->size());
  }
  if (composites_ == Composites::keep)
    return append(op, std::move(ids), std::move(attrs), *out_types, 0);
  if (!op.kernel || writes_out(op, ids, attrs)) {
    if (op.decompose) return expand(op, ids, attrs, out_types->size());
    fail(unsupported("{} '{}': has no kernel", op.name, scope_));
    return {};
  }
  return append(op, std::move(ids), std::move(attrs), *out_types, 0);
}

bool Builder::writes_out(const OpDef& op, std::span<const ValueId> inputs,
                         const Attrs& attrs) const {
  if (!writes_out_ || !op.decompose) return false;
  std::vector<const TensorType*> types;
  for (ValueId id : inputs) types.push_back(id == kNone ? nullptr : &graph_.type(id));
  return writes_out_(op, types, attrs);
}

bool Builder::may_fold(std::span<const ValueId> inputs, std::span<const TensorType> types) const {
  int64_t bytes = 0;
  for (const TensorType& t : types) bytes += t.bytes();
  if (fold_limit_ <= 0 || bytes > fold_limit_) return false;
  for (ValueId id : inputs)
    if (id != kNone && graph_.value(id).kind != ValueKind::constant) return false;
  return true;
}

std::vector<Value> Builder::fold(const OpDef& op, std::span<const ValueId> inputs,
                                 const Attrs& attrs, std::span<const TensorType> types) {
  std::vector<TensorData> data;
  for (ValueId id : inputs) data.push_back(id == kNone ? TensorData() : graph_.value(id).data);
  auto outs = run_reference(op, attrs, data, types, serial_pool());
  if (!outs.ok()) {
    fail(outs.status());
    return {};
  }
  std::vector<Value> values;
  for (TensorData& t : *outs) values.push_back(constant(std::move(t)));
  return values;
}

std::vector<Value> Builder::expand(const OpDef& op, std::span<const ValueId> inputs,
                                   const Attrs& attrs, size_t outputs) {
  constexpr int kMaxDepth = 16;
  if (depth_ >= kMaxDepth) {
    fail(internal("{}: decompositions nest deeper than {}", op.name, kMaxDepth));
    return {};
  }
  ++depth_;
  DecomposeCtx c(*this, inputs, attrs, outputs,
                 scope_.empty() ? std::string(op.name) : format("{} '{}'", op.name, scope_));
  op.decompose(c);
  --depth_;
  if (!status_.ok()) return {};
  for (const Value& v : c.outs)
    if (!v.valid()) {
      fail(internal("{}: its decomposition left an output unset", op.name));
      return {};
    }
  return std::move(c.outs);
}

std::vector<Value> Builder::append(const OpDef& op, std::vector<ValueId> inputs, Attrs attrs,
                                   std::span<const TensorType> types, int untyped_outputs) {
  const NodeId id = static_cast<NodeId>(graph_.nodes.size());
  const size_t count = types.empty() ? static_cast<size_t>(untyped_outputs) : types.size();
  Node node{&op, std::move(attrs), std::move(inputs), {}, scope_, region_};
  std::vector<Value> outs;
  for (size_t i = 0; i < count; ++i) {
    ValueInfo info;
    info.typed = !types.empty();
    if (info.typed) info.type = types[i];
    info.producer = id;
    info.output_index = static_cast<int32_t>(i);
    node.outputs.push_back(graph_.add_value(std::move(info)));
    outs.emplace_back(this, node.outputs.back());
  }
  graph_.nodes.push_back(std::move(node));
  Status s = appended(id);
  if (s.ok()) return outs;
  fail(std::move(s));
  return {};
}

Value Builder::input(const TensorType& type, std::string name) {
  ValueInfo info;
  info.type = type;
  info.typed = true;
  info.kind = ValueKind::input;
  info.name = std::move(name);
  const ValueId id = graph_.add_value(std::move(info));
  graph_.inputs.push_back(id);
  return {this, id};
}

Value Builder::untyped_input(std::string name) {
  ValueInfo info;
  info.kind = ValueKind::input;
  info.name = std::move(name);
  const ValueId id = graph_.add_value(std::move(info));
  graph_.inputs.push_back(id);
  return {this, id};
}

Value Builder::constant(TensorData data, std::string name) {
  ValueInfo info;
  info.type = data.type();
  info.typed = true;
  info.kind = ValueKind::constant;
  info.name = std::move(name);
  info.data = std::move(data);
  return {this, graph_.add_value(std::move(info))};
}

Value Builder::state(StateRole role, TensorData data, std::string name) {
  ValueInfo info;
  info.type = data.type();
  info.typed = true;
  info.kind = ValueKind::state;
  info.role = role;
  info.trainable = role == StateRole::parameter;
  info.name = std::move(name);
  info.data = std::move(data);
  return {this, graph_.add_value(std::move(info))};
}

Value Builder::scalar(double v, DType dtype) {
  auto wide = TensorData::scalar_of(v);
  auto data = wide.ok() ? cast(*wide, dtype) : std::move(wide);
  if (data.ok()) return constant(std::move(*data));
  fail(data.status());
  return {};
}

Value Builder::ints(std::span<const int64_t> v) {
  auto data = TensorData::vector_of(v);
  if (data.ok()) return constant(std::move(*data));
  fail(data.status());
  return {};
}

void Builder::output(Value v, std::string name) {
  GraphOutput out;
  out.value = v.id();
  out.name = std::move(name);
  graph_.outputs.push_back(std::move(out));
}

const TensorData* Builder::constant_data(Value v) const {
  if (!v.valid()) return nullptr;
  const ValueInfo& info = graph_.value(v.id());
  if (info.kind == ValueKind::constant) return &info.data;
  const auto known = known_.find(v.id());
  return known == known_.end() ? nullptr : &known->second;
}

}  // namespace hone
