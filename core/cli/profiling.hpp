// SPDX-License-Identifier: Apache-2.0
// --profile and --trace: of models that are benchmarked, and of whole trainings.
#pragma once

#include <array>

#include "CLI/CLI.hpp"
#include "core/base/platform.hpp"
#include "core/cli/profile_view.hpp"
#include "hone/trainer.hpp"

namespace hone::cli {

struct ProfileArgs {
  bool table = false;
  std::string trace;
  void add_to(CLI::App& command);
  bool wanted() const { return table || !trace.empty(); }
  /// With room for the events of `runs` runs of `steps` steps, when a trace is wanted.
  ProfileOptions options(int64_t steps, int64_t runs) const;
  Status write_trace(const Profile& profile, const std::vector<TraceSpan>& spans) const;
};

/// The machine's peaks with the threads of these options. Errors: as measure_machine.
Result<MachineSpeed> measure_machine(const SessionOptions& options);

/// Where the time of a training goes: in the steps, one by one, and around them.
class TrainingProfile {
 public:
  enum class Part : uint8_t { data, steps, validation, checkpoints };

  explicit TrainingProfile(const ProfileArgs& args) : args_(args) {}
  void start(Trainer& trainer);
  /// The result of `work`, whose time counts for `part`.
  template <class F>
  auto time(Part part, F&& work) {
    const int64_t start = platform::now_ns();
    auto result = work();
    add(part, start);
    return result;
  }
  /// Prints the tables and writes the trace, whichever is wanted. `steps`: how many were taken.
  Status finish(const Trainer& trainer, const SessionOptions& session, int64_t steps);

 private:
  void add(Part part, int64_t start);
  void print_shares() const;

  const ProfileArgs& args_;
  int64_t start_ns_ = 0;
  std::array<int64_t, 4> total_ns_{};  // by Part
  std::vector<TraceSpan> spans_;
};

}  // namespace hone::cli
