// SPDX-License-Identifier: Apache-2.0
// Running single nodes: each is a graph of one node, prepared as any program and kept for the next
// call of its kind.
#include "core/runtime/node_runner.hpp"

#include <unordered_map>

#include "core/plan/program.hpp"

namespace hone {

namespace {

constexpr size_t kKept = 512;  // prepared nodes; beyond that the cache starts anew

struct Prepared {
  Program program;
  std::vector<void*> operands;
  std::vector<TensorType> out_types;
};

}  // namespace

struct NodeRunner::Impl {
  const Backend* backend;
  ThreadPool* pool;
  std::unordered_map<std::string, std::unique_ptr<Prepared>> cache;
  TensorData arena;

  static std::string key(const OpDef& op, const Attrs& attrs, std::span<const TensorData> inputs) {
    std::string k(op.name);
    k += '\n';
    for (const TensorData& t : inputs) {
      k += t.defined() ? static_cast<char>('a' + static_cast<int>(t.dtype())) : '-';
      if (!t.defined()) continue;
      k += static_cast<char>(t.shape().rank());
      k.append(reinterpret_cast<const char*>(t.shape().begin()),
               sizeof(int64_t) * static_cast<size_t>(t.shape().rank()));
    }
    return k + exact_bytes(attrs);
  }

  Result<std::unique_ptr<Prepared>> prepare_node(const OpDef& op, const Attrs& attrs,
                                                 std::span<const TensorData> inputs,
                                                 std::string_view name) {
    Graph g;
    Builder b(g);
    b.set_scope(std::string(name));
    std::vector<Value> values;
    for (const TensorData& t : inputs)
      values.push_back(t.defined() ? b.input(t.type(), "") : Value());
    const std::vector<Value> outs = b.emit_all(op, values, attrs);
    if (!b.status().ok()) return b.status();
    auto made = std::make_unique<Prepared>();
    for (const Value& v : outs) {
      b.output(v, "");
      made->out_types.push_back(v.type());
    }
    HONE_ASSIGN(made->program,
                prepare(std::move(g), {.backend = backend, .threads = pool->size()}));
    return made;
  }

  Status execute(Prepared& p, std::span<const TensorData> inputs, std::span<TensorData> outputs) {
    if (!arena.defined() || arena.bytes() < p.program.arena.bytes) {
      HONE_ASSIGN(arena, TensorData::allocate({DType::u8, {p.program.arena.bytes}}));
    }
    std::byte* base = static_cast<std::byte*>(arena.mutable_data());
    std::vector<const void*> given;  // by graph input: the defined ones, in order
    for (const TensorData& t : inputs)
      if (t.defined()) given.push_back(t.data());
    for (size_t i = 0; i < p.program.steps.size(); ++i) {
      const Step& s = p.program.steps[i];
      p.operands.clear();
      const auto place = [&](BufferId id) -> void* {
        if (id == kNone) return nullptr;
        const Buffer& buf = p.program.buffers[static_cast<size_t>(id)];
        if (buf.kind == BufferKind::input)
          return const_cast<void*>(given[static_cast<size_t>(buf.index)]);
        if (buf.kind == BufferKind::output)
          return outputs[static_cast<size_t>(buf.index)].mutable_data();
        if (buf.kind == BufferKind::constant)
          return const_cast<void*>(p.program.graph.value(buf.value).data.data());
        return base + buf.offset;
      };
      for (BufferId id : s.reads) p.operands.push_back(place(id));
      for (BufferId id : s.writes) p.operands.push_back(place(id));
      std::byte* scratch =
          p.program.scratch_offsets[i] < 0 ? nullptr : base + p.program.scratch_offsets[i];
      HONE_TRY(s.kernel->run({p.operands, scratch, *pool}));
    }
    return {};
  }
};

NodeRunner::NodeRunner(const Backend* backend, ThreadPool* pool)
    : impl_(new Impl{backend, pool, {}, {}}) {}
NodeRunner::~NodeRunner() = default;

Result<std::vector<TensorData>> NodeRunner::run(const OpDef& op, const Attrs& attrs,
                                                std::span<const TensorData> inputs,
                                                std::string_view name) {
  const Attrs given = attrs.empty() ? Attrs::defaults(*op.attrs) : attrs;
  std::string k = Impl::key(op, given, inputs);
  auto it = impl_->cache.find(k);
  if (it == impl_->cache.end()) {
    HONE_ASSIGN(std::unique_ptr<Prepared> made, impl_->prepare_node(op, given, inputs, name));
    if (impl_->cache.size() >= kKept) impl_->cache.clear();
    it = impl_->cache.emplace(std::move(k), std::move(made)).first;
  }
  Prepared& p = *it->second;
  std::vector<TensorData> outputs;
  for (const TensorType& type : p.out_types) {
    HONE_ASSIGN(TensorData t, TensorData::allocate(type));
    outputs.push_back(std::move(t));
  }
  HONE_TRY(impl_->execute(p, inputs, outputs));
  return outputs;
}

}  // namespace hone
