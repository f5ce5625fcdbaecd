// SPDX-License-Identifier: Apache-2.0
#include "core/import/evaluate.hpp"

#include <limits>

#include "hone/builder.hpp"

namespace hone {

Result<TensorData> evaluate(const OpDef& op, std::span<const TensorData> inputs, Attrs attrs) {
  Graph graph;
  Builder b(graph);
  b.set_fold_limit(std::numeric_limits<int64_t>::max());
  std::vector<Value> in;
  for (const TensorData& t : inputs) in.push_back(t.defined() ? b.constant(t) : Value());
  const Value out = b.emit(op, in, std::move(attrs));
  HONE_TRY(b.status());
  const TensorData* data = b.constant_data(out);
  if (!data) return internal("{}: did not fold", op.name);
  return *data;
}

}  // namespace hone
