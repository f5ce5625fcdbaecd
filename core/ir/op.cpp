// SPDX-License-Identifier: Apache-2.0
// Inference and reference execution of single nodes.
#include "hone/op.hpp"

namespace hone {

namespace {
std::string who(const OpDef& op, std::string_view node_name) {
  return node_name.empty() ? std::string(op.name) : format("{} '{}'", op.name, node_name);
}
}  // namespace

const TensorData* DecomposeCtx::constant(int i) const {
  return has(i) ? b.constant_data(in(i)) : nullptr;
}

Status check_built(const OpDef& op, std::string_view node_name) {
  if (op.infer) return {};
  return unsupported("{}: this build leaves it out (add it to the file of HONE_OPERATORS)",
                     who(op, node_name));
}

Status check_arity(const OpDef& op, std::string_view node_name,
                   std::span<const TensorType* const> in) {
  const int count = static_cast<int>(in.size());
  if (count < op.min_inputs || count > op.max_inputs)
    return invalid("{}: takes {}{} inputs, got {}", who(op, node_name), op.min_inputs,
                   op.max_inputs == op.min_inputs ? ""
                   : op.max_inputs == kAnyNumber  ? " or more"
                                                  : format(" to {}", op.max_inputs),
                   count);
  for (int i = 0; i < op.min_inputs; ++i)
    if (!in[static_cast<size_t>(i)])
      return invalid("{}: input {} is missing", who(op, node_name), i);
  return {};
}

Result<std::vector<TensorType>> infer(const OpDef& op, std::string_view node_name,
                                      std::vector<const TensorType*> in,
                                      std::vector<const TensorData*> constants, const Attrs& attrs,
                                      uint64_t* missed) {
  HONE_TRY(check_built(op, node_name));
  HONE_TRY(check_arity(op, node_name, in));
  InferCtx c(who(op, node_name), std::move(in), std::move(constants), attrs);
  const Status inferred = op.infer(c);
  if (missed) *missed = c.missed();
  HONE_TRY(inferred);
  for (const TensorType& t : c.outs) {
    auto bytes = checked_bytes(t.shape, t.dtype);
    if (!bytes.ok()) return bytes.status().with_context(c.who());
  }
  return std::move(c.outs);
}

Result<std::vector<TensorData>> run_reference(const OpDef& op, const Attrs& attrs,
                                              std::span<const TensorData> inputs,
                                              std::span<const TensorType> out_types,
                                              ThreadPool& pool) {
  if (!op.kernel) return internal("{}: has no reference kernel", op.name);
  std::vector<ConstTensorView> in;
  std::vector<const TensorType*> in_types;
  for (const TensorData& t : inputs) {
    in.push_back(t.view());
    in_types.push_back(t.defined() ? &t.type() : nullptr);
  }
  std::vector<TensorData> outputs;
  std::vector<TensorView> out;
  std::vector<const TensorType*> out_type_ptrs;
  for (const TensorType& type : out_types) {
    HONE_ASSIGN(TensorData t, TensorData::allocate(type));
    outputs.push_back(std::move(t));
    out.push_back(outputs.back().mutable_view());
    out_type_ptrs.push_back(&type);
  }
  TensorData scratch;
  if (op.scratch) {
    const int64_t bytes = op.scratch({in_types, out_type_ptrs, attrs});
    HONE_ASSIGN(scratch, TensorData::allocate({DType::u8, {bytes}}));
  }
  HONE_TRY(op.kernel({in, out, attrs, static_cast<std::byte*>(scratch.mutable_data()), pool})
               .with_context(op.name));
  return outputs;
}

}  // namespace hone
