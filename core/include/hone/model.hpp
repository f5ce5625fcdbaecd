// SPDX-License-Identifier: Apache-2.0
// A model: a graph with named dimensions, and what is known of where it came from.
#pragma once

#include <map>

#include "hone/graph.hpp"
#include "hone/stored_plan.hpp"

namespace hone {

/// Graph and provenance. Weights are TensorData that may borrow from a mapped file, which they keep
/// alive. Copying a model shares them. A const Model may be used from several threads.
struct Model {
  Graph graph;
  /// Free text by key: "producer", "source", "source_sha256", "opset", "training_config", "seed",
  /// "git_commit", "metric.accuracy", ...
  std::map<std::string, std::string> metadata;
  /// Kept in `.hone` files; other formats have no place for them.
  std::vector<StoredPlan> plans;
};

struct LoadOptions {
  /// Compare the weights with their checksums, which reads the whole file once. Without it only the
  /// header is read and weights come in as they are used: for files that something else already
  /// vouches for, such as a signed app package.
  bool verify_checksums = true;
};

/// Opens a `.hone` file: mapped, verified, nothing copied. The file may be replaced while the model
/// lives, but not cut short. Errors: not_found, io_error, invalid_model (what is wrong and where),
/// unsupported (operators or versions this build lacks, all of them named).
Result<Model> load_model(const std::string& path, const LoadOptions& options = {});
/// The same for bytes in memory, which `owner` keeps alive. They are used in place when aligned to
/// kAlignment, else copied once.
Result<Model> load_model(std::span<const std::byte> bytes, std::shared_ptr<const void> owner,
                         const LoadOptions& options = {});

/// Writes a `.hone` file: to a temporary beside it, flushed, then renamed, so that `path` is the
/// old file or the whole new one. The same model gives the same bytes. Errors: invalid_argument (a
/// graph that could not be loaded again), io_error.
Status save_model(const Model& model, const std::string& path);
/// The same file in memory.
Result<std::vector<std::byte>> save_model(const Model& model);

/// The parameter or other state of that name, or null.
const ValueInfo* find_state(const Model& model, std::string_view name);

/// SHA-256, in hexadecimal, over the names, roles, types and bytes of all parameters and buffers,
/// in order of their names: equal for equal weights however they are stored. What a delta or a
/// checkpoint names its base by.
std::string content_hash(const Model& model);

}  // namespace hone
