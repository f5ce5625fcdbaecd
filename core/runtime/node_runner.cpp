// SPDX-License-Identifier: Apache-2.0
// Running single nodes.
#include "core/runtime/node_runner.hpp"

namespace hone {

struct NodeRunner::Impl {
  const Backend* backend;
  ThreadPool* pool;
};

NodeRunner::NodeRunner(const Backend* backend, ThreadPool* pool) : impl_(new Impl{backend, pool}) {}
NodeRunner::~NodeRunner() = default;

Result<std::vector<TensorData>> NodeRunner::run(const OpDef& op, const Attrs& attrs, std::span<const TensorData> inputs,
                                                std::string_view name) {
  std::vector<const TensorType*> types;
  std::vector<const TensorData*> constants;
  for (const TensorData& t : inputs) {
    types.push_back(t.defined() ? &t.type() : nullptr);
    constants.push_back(nullptr);
  }
  const Attrs given = attrs.empty() ? Attrs::defaults(*op.attrs) : attrs;
  HONE_ASSIGN(const std::vector<TensorType> outs, infer(op, name, types, constants, given));
  return run_reference(op, given, inputs, outs, *impl_->pool);
}

}  // namespace hone
