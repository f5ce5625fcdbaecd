// SPDX-License-Identifier: Apache-2.0
// Running single nodes at once: the engine beneath define-by-run code. A node goes through the same
// lowering as a planned program, so both give the same bits.
#pragma once

#include <memory>

#include "hone/backend.hpp"

namespace hone {

class NodeRunner {
 public:
  /// `backend` (null: reference kernels only) and `pool` must outlive the runner.
  NodeRunner(const Backend* backend, ThreadPool* pool);
  ~NodeRunner();

  /// Infers, allocates outputs and runs. Absent optional inputs are undefined TensorData. Prepared
  /// kernels are kept in a small cache by operator, attributes and types. Not for several threads
  /// at once. Errors: as inference, plus what the data can do wrong.
  Result<std::vector<TensorData>> run(const OpDef& op, const Attrs& attrs,
                                      std::span<const TensorData> inputs,
                                      std::string_view name = {});

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace hone
