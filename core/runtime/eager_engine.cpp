// SPDX-License-Identifier: Apache-2.0
// Running and recording of single operations.
#include "core/runtime/eager_engine.hpp"

#include <algorithm>

#include "core/runtime/running_builder.hpp"
#include "core/runtime/tracer.hpp"

namespace hone {

namespace detail {

namespace {
// Trivial, so that tensors may be freed after the thread's other variables are gone.
constinit thread_local int64_t live_tensors = 0, live_operations = 0;
}  // namespace

TensorImpl::TensorImpl() { ++live_tensors; }
TensorImpl::~TensorImpl() { --live_tensors; }
TapeNode::TapeNode() { ++live_operations; }

// A record may be a million operations long: it is freed in a loop, not by destructors that call
// each other.
TapeNode::~TapeNode() {
  --live_operations;
  std::vector<std::shared_ptr<Var>> todo = std::move(inputs);
  while (!todo.empty()) {
    const std::shared_ptr<Var> v = std::move(todo.back());
    todo.pop_back();
    if (!v || v.use_count() != 1 || !v->producer || v->producer.use_count() != 1) continue;
    std::vector<std::shared_ptr<Var>>& more = v->producer->inputs;
    std::move(more.begin(), more.end(), std::back_inserter(todo));
    more.clear();
  }
}

std::string label(const TapeNode& node) {
  return node.name.empty() ? format("{} #{}", node.op->name, node.number)
                           : format("{} #{} '{}'", node.op->name, node.number, node.name);
}

NodeRunner& EagerState::runs() {
  if (!runner) runner = std::make_unique<NodeRunner>(&default_backend(), &serial_pool());
  return *runner;
}

EagerState& eager() {
  static thread_local EagerState e;
  return e;
}

Tensor make_tensor(TensorData data) {
  auto impl = std::make_shared<TensorImpl>();
  impl->var = std::make_shared<Var>();
  impl->var->type = data.type();
  impl->storage = std::make_shared<Storage>();
  impl->storage->data = std::move(data);
  return Tensor(std::move(impl));
}

Tensor make_tensor(Result<TensorData> data) {
  return data.ok() ? make_tensor(std::move(*data)) : Tensor::error(data.status());
}

Status operand_status(std::string_view op, int index, const Tensor& t) {
  if (!t.defined()) return invalid("{}: operand {} is an undefined tensor", op, index);
  return t.ok() ? Status() : t.impl()->status;
}

namespace {

// One operation on its way: inputs checked, types known.
struct Call {
  const OpDef& op;
  const Attrs& attrs;
  std::span<const Tensor> inputs;
  std::vector<TensorType> types;
};

const TensorData* known_content(const Tensor& t) {
  constexpr int64_t kMostBytes = 1024;
  const bool integer = t.dtype() == DType::i64 || t.dtype() == DType::i32;
  return integer && t.type().bytes() <= kMostBytes ? &t.impl()->storage->data : nullptr;
}

Result<std::vector<TensorType>> infer_types(const OpDef& op, std::span<const Tensor> inputs,
                                            const Attrs& attrs, std::string_view scope) {
  std::vector<const TensorType*> types;
  std::vector<const TensorData*> contents;
  for (const Tensor& t : inputs) {
    types.push_back(t.defined() ? &t.type() : nullptr);
    contents.push_back(t.defined() ? known_content(t) : nullptr);
  }
  return infer(op, scope, std::move(types), std::move(contents), attrs);
}

Result<std::vector<TensorData>> compute(EagerState& e, const Call& call) {
  if (call.op.is_view) {
    HONE_ASSIGN(TensorData same,
                call.inputs[0].impl()->storage->data.reshaped(call.types[0].shape));
    return std::vector<TensorData>{std::move(same)};
  }
  std::vector<TensorData> inputs;
  for (const Tensor& t : call.inputs)
    inputs.push_back(t.defined() ? t.impl()->storage->data : TensorData());
  return e.runs().run(call.op, call.attrs, inputs, e.scope);
}

bool wants_record(const EagerState& e, const Call& call) {
  if (!e.record || call.op.diff == Diff::zero) return false;
  const auto wants = [](const Tensor& t) { return t.defined() && t.impl()->var->requires_grad; };
  const auto floats = [](const TensorType& t) { return is_float(t.dtype); };
  return std::any_of(call.inputs.begin(), call.inputs.end(), wants) &&
         std::any_of(call.types.begin(), call.types.end(), floats);
}

void record(EagerState& e, const Call& call, std::span<Tensor> outputs) {
  auto node = std::make_shared<TapeNode>();
  node->op = &call.op;
  node->attrs = call.attrs;
  node->output_types = call.types;
  node->name = e.scope;
  node->region = e.region;
  std::vector<const TensorType*> types;
  std::vector<bool> wants;
  for (const Tensor& t : call.inputs) {
    types.push_back(t.defined() ? &t.type() : nullptr);
    wants.push_back(t.requires_grad());
    node->inputs.push_back(t.defined() ? t.impl()->var : nullptr);
    // Tensors may come from a thread whose count is ahead of ours.
    if (t.defined() && t.impl()->var->producer)
      e.number = std::max(e.number, t.impl()->var->producer->number + 1);
  }
  node->number = e.number;
  const GradientNeeds& needs = e.gradient_needs.of(call.op, call.attrs, types, call.types, wants);
  const auto save = [](bool needed, const Tensor& t) {
    return needed ? Saved{t.impl()->storage, t.impl()->storage->version} : Saved{};
  };
  // In a region everything is computed again from what comes from outside.
  const auto outside = [&](const Tensor& t) {
    return t.defined() && !(t.impl()->var->producer && t.impl()->var->producer->region == e.region);
  };
  for (size_t i = 0; i < call.inputs.size(); ++i)
    node->saved_inputs.push_back(
        save(e.region != 0 ? outside(call.inputs[i]) : needs.inputs[i], call.inputs[i]));
  for (size_t i = 0; i < outputs.size(); ++i) {
    node->saved_outputs.push_back(save(e.region == 0 && needs.outputs[i], outputs[i]));
    Var& var = *outputs[i].impl()->var;
    var.requires_grad = is_float(var.type.dtype);
    var.producer = node;
    var.output_index = static_cast<int>(i);
  }
}

void notify(EagerState& e, const Call& call, std::span<const Tensor> outputs) {
  if (e.observers.empty()) return;
  const OpEvent event{call.op.name, e.scope, e.number, call.inputs, outputs};
  const std::vector<const std::function<void(const OpEvent&)>*> observers = e.observers;
  Restore<std::vector<const std::function<void(const OpEvent&)>*>> quiet(e.observers, {});
  Restore<Tracer*> untraced(e.tracer, nullptr);
  NoGrad no_grad;
  for (const auto* see : observers) (*see)(event);
}

Result<std::vector<Tensor>> run_kernel(EagerState& e, const Call& call) {
  HONE_ASSIGN(std::vector<TensorData> data, compute(e, call));
  ++e.number;
  std::vector<Tensor> outputs;
  for (TensorData& d : data) outputs.push_back(make_tensor(std::move(d)));
  if (wants_record(e, call)) record(e, call, outputs);
  notify(e, call, outputs);
  return outputs;
}

Result<std::vector<Tensor>> run_decomposed(EagerState& e, const Call& call) {
  constexpr int kMaxDepth = 16;
  if (e.depth >= kMaxDepth)
    return internal("{}: decompositions nest deeper than {}", call.op.name, kMaxDepth);
  Restore<int> deeper(e.depth, e.depth + 1);
  RunningBuilder b;
  std::vector<ValueId> ids;
  for (const Tensor& t : call.inputs) ids.push_back(b.add(t).id());
  DecomposeCtx c(
      b, ids, call.attrs, call.types.size(),
      e.scope.empty() ? std::string(call.op.name) : format("{} '{}'", call.op.name, e.scope));
  call.op.decompose(c);
  std::vector<Tensor> outputs;
  for (const Value& v : c.outs) {
    Tensor t = b.tensor(v);
    const auto same = [&](const Tensor& in) { return in.impl() == t.impl(); };
    // A result is never an operand under another handle: writing to it in place must not change the
    // operand.
    if (std::any_of(call.inputs.begin(), call.inputs.end(), same)) t = apply(op::identity, {t});
    if (!t.ok()) return t.status();
    outputs.push_back(std::move(t));
  }
  return outputs;
}

Result<std::vector<Tensor>> run(EagerState& e, const OpDef& op, std::span<const Tensor> inputs,
                                Attrs attrs) {
  size_t count = inputs.size();
  while (count > static_cast<size_t>(op.min_inputs) && !inputs[count - 1].defined()) --count;
  inputs = inputs.first(count);
  for (size_t i = 0; i < count; ++i)
    if (inputs[i].defined() || i < static_cast<size_t>(op.min_inputs))
      HONE_TRY(operand_status(op.name, static_cast<int>(i), inputs[i]));
  if (attrs.empty()) attrs = Attrs::defaults(*op.attrs);
  if (attrs.schema() != op.attrs)
    return internal("{}: was given the attributes of another operator", op.name);
  HONE_ASSIGN(std::vector<TensorType> types, infer_types(op, inputs, attrs, e.scope));
  if (!op.kernel && !op.is_view && !op.decompose)
    return unsupported("{} '{}': has no kernel", op.name, e.scope);
  const Call call{op, attrs, inputs, std::move(types)};
  HONE_ASSIGN(std::vector<Tensor> outputs,
              op.kernel || op.is_view ? run_kernel(e, call) : run_decomposed(e, call));
  if (e.tracer && e.depth == 0)
    HONE_TRY(e.tracer->record(op, attrs, inputs, outputs, e.scope, e.region));
  return outputs;
}

}  // namespace

Tensor& write_in_place(Tensor& t, Tensor result, std::string_view op, Place where) {
  EagerState& e = eager();
  if (Status s = operand_status(op, 0, t); !s.ok()) {
    if (!t.defined()) t = Tensor::error(std::move(s));
    return t;
  }
  TensorImpl& me = *t.impl();
  const bool leaf = !me.var->producer;
  if (!result.ok()) {
    me.status = result.status();
  } else if (leaf && me.var->requires_grad && e.record) {
    me.status =
        invalid("{}: a leaf that wants a gradient is written in place{}{}; open a NoGrad scope", op,
                me.var->name.empty() ? "" : ": ", me.var->name);
  } else if (result.type() != t.type()) {
    me.status =
        invalid("{}: the result is {}, the tensor written to {}", op, result.type(), t.type());
  }
  if (!me.status.ok()) return t;
  me.storage->data = result.impl()->storage->data;
  ++me.storage->version;
  me.storage->writer = format("{} #{}", op, e.number);
  if (where.line > 0) me.storage->writer += format(" at {}:{}", where.file, where.line);
  const std::shared_ptr<Var>& made = result.impl()->var;
  if (made->producer) {
    Saved& saved = made->producer->saved_outputs[static_cast<size_t>(made->output_index)];
    if (saved.storage) saved = {me.storage, me.storage->version};
  }
  if (made->producer || e.tracer || (e.record && !leaf)) {
    made->name = me.var->name;
    me.var = made;
  }
  return t;
}

}  // namespace detail

std::vector<Tensor> apply_all(const OpDef& op, std::span<const Tensor> inputs, Attrs attrs) {
  auto outputs = detail::run(detail::eager(), op, inputs, std::move(attrs));
  if (outputs.ok()) return std::move(*outputs);
  return {Tensor::error(outputs.status())};
}

Tensor apply(const OpDef& op, std::initializer_list<Tensor> inputs, Attrs attrs) {
  std::vector<Tensor> outs =
      apply_all(op, std::span<const Tensor>(inputs.begin(), inputs.size()), std::move(attrs));
  return std::move(outs[0]);
}

Tensor compose(std::span<const Tensor> inputs,
               const std::function<Value(std::span<const Value>)>& formula) {
  RunningBuilder b;
  std::vector<Value> values;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i].defined() && !inputs[i].ok()) return inputs[i];
    values.push_back(b.add(inputs[i]));
  }
  return b.tensor(formula(values));
}

NoGrad::NoGrad() : before_(detail::eager().record) { detail::eager().record = false; }
NoGrad::~NoGrad() { detail::eager().record = before_; }

bool is_tracing() { return detail::eager().tracer != nullptr; }

NameScope::NameScope(std::string_view name, Keep keep)
    : before_(detail::eager().scope.size()), region_before_(detail::eager().region) {
  detail::EagerState& e = detail::eager();
  if (!e.scope.empty() && !name.empty()) e.scope += '.';
  e.scope += name;
  if (keep == Keep::ends && e.region == 0) e.region = ++e.regions;
}
NameScope::~NameScope() {
  detail::eager().scope.resize(before_);
  detail::eager().region = region_before_;
}

Observer::Observer(std::function<void(const OpEvent&)> see) : see_(std::move(see)) {
  detail::eager().observers.push_back(&see_);
}
Observer::~Observer() { std::erase(detail::eager().observers, &see_); }

void set_eager_pool(ThreadPool* pool) {
  detail::EagerState& e = detail::eager();
  e.runner = std::make_unique<NodeRunner>(&default_backend(), pool ? pool : &serial_pool());
  e.own_pool.reset();
}

void set_eager_threads(int threads) {
  detail::EagerState& e = detail::eager();
  std::unique_ptr<ThreadPool> pool = threads == 1 ? nullptr : make_thread_pool(threads);
  e.runner = std::make_unique<NodeRunner>(&default_backend(), pool ? pool.get() : &serial_pool());
  e.own_pool = std::move(pool);
}

EagerCounts eager_counts() { return {detail::live_tensors, detail::live_operations}; }

Result<std::vector<Tensor>> interpret(const Graph& graph, std::span<const Tensor> inputs,
                                      std::span<const Tensor> states) {
  if (inputs.size() != graph.inputs.size())
    return invalid("interpret: the graph has {} inputs, got {}", graph.inputs.size(),
                   inputs.size());
  std::vector<Tensor> values(graph.values.size());
  for (size_t i = 0; i < inputs.size(); ++i)
    values[static_cast<size_t>(graph.inputs[i])] = inputs[i];
  size_t next_state = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    const ValueInfo& info = graph.values[i];
    if (info.kind == ValueKind::constant) values[i] = detail::make_tensor(info.data);
    if (info.kind != ValueKind::state) continue;
    if (next_state == states.size())
      return invalid("interpret: the graph has more states than the {} given", states.size());
    values[i] = states[next_state++];
  }
  detail::EagerState& e = detail::eager();
  const int64_t known_regions = e.regions;
  for (const Node& n : graph.nodes) {
    const bool marked = e.region == 0 && n.region > 0;
    const detail::Restore<int64_t> region(e.region, marked ? known_regions + n.region : e.region);
    e.regions = std::max(e.regions, e.region);
    std::vector<Tensor> in;
    for (ValueId v : n.inputs) in.push_back(v == kNone ? Tensor() : values[static_cast<size_t>(v)]);
    detail::Restore<std::string> scope(e.scope, n.name);
    std::vector<Tensor> out = apply_all(*n.op, in, n.attrs);
    if (!out[0].ok()) return out[0].status();
    HONE_ENSURE(out.size() >= n.outputs.size());
    for (size_t i = 0; i < n.outputs.size(); ++i)
      values[static_cast<size_t>(n.outputs[i])] = out[i];
  }
  std::vector<Tensor> results;
  for (const GraphOutput& o : graph.outputs)
    results.push_back(values[static_cast<size_t>(o.value)]);
  return results;
}

}  // namespace hone
