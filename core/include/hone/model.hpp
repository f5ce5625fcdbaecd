// SPDX-License-Identifier: Apache-2.0
// A model: a graph with named dimensions, and what is known of where it came from.
#pragma once

#include <map>

#include "hone/graph.hpp"

namespace hone {

/// Graph and provenance. Weights are TensorData that may borrow from a mapped file, which they keep alive. Copying a model shares
/// them. A const Model may be used from several threads.
struct Model {
  Graph graph;
  /// Free text by key: "producer", "source", "source_sha256", "opset", "training_config", "seed", "git_commit", "metric.accuracy", ...
  std::map<std::string, std::string> metadata;
};

/// Opens a `.hone` file: mapped, verified, nothing copied. Errors: not_found, io_error, invalid_model (what is wrong and where),
/// unsupported (operators or versions this build lacks, all of them named).
Result<Model> load_model(const std::string& path);
/// The same for bytes in memory, which `owner` keeps alive.
Result<Model> load_model(std::span<const std::byte> bytes, std::shared_ptr<const void> owner);

/// Writes a `.hone` file: to a temporary beside it, flushed, then renamed, so that `path` is the old file or the whole new one.
Status save_model(const Model& model, const std::string& path);

/// The parameter or buffer of that name, or null.
const ValueInfo* find_state(const Model& model, std::string_view name);

}  // namespace hone
