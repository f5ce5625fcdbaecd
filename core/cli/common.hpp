// SPDX-License-Identifier: Apache-2.0
// What several commands need: tensors from files, shapes for named dimensions, numbers of threads.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "hone/session.hpp"

namespace hone::cli {

/// --recompute-share, of commands that plan training steps.
inline constexpr const char* kRecomputeShareHelp =
    "Training without --memory-limit: the share of a step's time that may go into computing things "
    "again to keep less; same results";

/// --threads and --device.
struct DeviceArgs {
  int threads = 0;  ///< 0: one a processor.
  std::string device = "cpu";
  bool deterministic = false;
  std::string memory_limit;
  std::string max_dims;
  void add_to(CLI::App& command);
  Result<SessionOptions> session() const;
};

/// "64MiB", "1.5 GB", "65536" as bytes. Errors: invalid_argument.
Result<int64_t> parse_bytes(std::string_view text);

/// --input NAME=FILE.npy ... and --inputs FILE.npz.
struct TensorArgs {
  std::vector<std::string> inputs;
  std::string npz;
  void add_to(CLI::App& command);
  /// Inputs of the model; an archive's arrays may carry the prefix "in/", arrays that are no input
  /// are an error unless prefixed otherwise.
  Result<std::vector<NamedTensor>> load(const Graph& g) const;
};

/// --batch N and --dim NAME=N: what named dimensions stand for.
struct DimArgs {
  int64_t batch = 1;
  std::vector<std::string> dims;
  void add_to(CLI::App& command);
  /// Shapes of the model's inputs. Named first axes are the batch unless --dim says otherwise;
  /// other names default to 1.
  Result<std::vector<Shape>> shapes(const Graph& g) const;
};

/// Made-up data for a shape: small seeded values for floats, 0 and 1 for integers.
Result<TensorData> made_up(const TensorType& type, uint64_t seed);

/// `name` as a file name: what it cannot hold becomes '_'.
std::string file_name(std::string_view name);

/// Creates a folder and its parents. Errors: io_error.
Status make_folder(const std::string& path);

}  // namespace hone::cli
