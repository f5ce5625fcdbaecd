// SPDX-License-Identifier: Apache-2.0
// Which values a gradient reads: what the nodes that `differentiate` appends have among their
// inputs.
#include "core/runtime/gradient_needs.hpp"

#include <algorithm>

#include "hone/autodiff.hpp"
#include "hone/ops.hpp"

namespace hone::detail {

namespace {

void append_type(std::string& key, const TensorType& t) {
  key += static_cast<char>('a' + static_cast<int>(t.dtype));
  key += static_cast<char>(t.shape.rank());
  key.append(reinterpret_cast<const char*>(t.shape.begin()),
             sizeof(int64_t) * static_cast<size_t>(t.shape.rank()));
}

// One operation as a graph, and a scalar that depends on all its outputs.
struct Probe {
  Graph g;
  Builder b{g};
  std::vector<Value> inputs, outputs;

  Probe(const OpDef& op, const Attrs& attrs, std::span<const TensorType* const> in,
        std::span<const TensorType> out) {
    Node node{&op, attrs, {}, {}, {}};
    for (const TensorType* t : in) {
      inputs.push_back(t ? b.input(*t, {}) : Value());
      node.inputs.push_back(inputs.back().id());
    }
    for (size_t i = 0; i < out.size(); ++i) {
      ValueInfo info;
      info.type = out[i];
      info.typed = true;
      info.producer = 0;
      info.output_index = static_cast<int32_t>(i);
      node.outputs.push_back(g.add_value(std::move(info)));
      outputs.emplace_back(&b, node.outputs.back());
    }
    g.nodes.push_back(std::move(node));
  }

  Value target() {
    Value total;
    for (const Value& v : outputs) {
      if (!is_float(v.dtype())) continue;
      // Outputs may differ in dtype; the probe computes nothing, so any common one will do.
      const Value part =
          ops::cast(ops::sum(v * b.input(v.type(), {}), ReduceAttrs{{}, false}), DType::f64);
      total = total.valid() ? total + part : part;
    }
    return total;
  }
};

Result<GradientNeeds> probe(const OpDef& op, const Attrs& attrs,
                            std::span<const TensorType* const> in, std::span<const TensorType> out,
                            const std::vector<bool>& wants) {
  Probe p(op, attrs, in, out);
  std::vector<Value> wrt;
  for (size_t i = 0; i < in.size(); ++i)
    if (wants[i]) wrt.push_back(p.inputs[i]);
  const Value target = p.target();
  const size_t first = p.g.nodes.size();
  HONE_ASSIGN(const std::vector<Value> grads, differentiate(p.b, target, wrt));
  std::vector<bool> read(p.g.values.size(), false);
  for (const Value& v : grads) read[static_cast<size_t>(v.id())] = true;
  for (size_t n = p.g.nodes.size(); n-- > first;) {
    const Node& node = p.g.nodes[n];
    const bool live = std::any_of(node.outputs.begin(), node.outputs.end(),
                                  [&](ValueId v) { return read[static_cast<size_t>(v)]; });
    for (ValueId v : node.inputs)
      if (live && v != kNone) read[static_cast<size_t>(v)] = true;
  }
  GradientNeeds needs;
  for (const Value& v : p.inputs)
    needs.inputs.push_back(v.valid() && read[static_cast<size_t>(v.id())]);
  for (const Value& v : p.outputs) needs.outputs.push_back(read[static_cast<size_t>(v.id())]);
  return needs;
}

}  // namespace

const GradientNeeds& GradientNeedsCache::of(const OpDef& op, const Attrs& attrs,
                                            std::span<const TensorType* const> inputs,
                                            std::span<const TensorType> outputs,
                                            const std::vector<bool>& wants) {
  constexpr size_t kMostKept = 1024;
  std::string key(op.name);
  key += '\n';
  for (size_t i = 0; i < inputs.size(); ++i) {
    key += wants[i] ? '+' : '-';
    if (inputs[i]) append_type(key, *inputs[i]);
  }
  key += exact_bytes(attrs);
  if (const auto it = known_.find(key); it != known_.end()) return it->second;
  if (known_.size() >= kMostKept) known_.clear();
  auto needs = probe(op, attrs, inputs, outputs, wants);
  // An operator without a gradient: backward will say so, naming the path to it.
  if (!needs.ok())
    needs = GradientNeeds{std::vector<bool>(inputs.size(), true),
                          std::vector<bool>(outputs.size(), true)};
  return known_.emplace(std::move(key), std::move(*needs)).first->second;
}

}  // namespace hone::detail
