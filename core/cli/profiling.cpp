// SPDX-License-Identifier: Apache-2.0
#include "core/cli/profiling.hpp"

#include <algorithm>
#include <cstdio>

#include "core/base/file.hpp"
#include "core/cli/terminal.hpp"

namespace hone::cli {

namespace {

// Enough for a few steps of a large model: 5 MB of memory, 50 MB of trace.
constexpr int64_t kTrainingEvents = 200'000;

constexpr const char* kParts[] = {"data", "training steps", "validation", "checkpoints"};

}  // namespace

void ProfileArgs::add_to(CLI::App& command) {
  command.add_flag("--profile", table,
                   "Show where the time goes, by operator and step, against the machine's peaks");
  command
      .add_option("--trace", trace,
                  "Write the first few runs, step by step, as a trace for chrome://tracing or "
                  "ui.perfetto.dev")
      ->type_name("FILE.json");
}

ProfileOptions ProfileArgs::options(int64_t steps, int64_t runs) const {
  return {.max_events = trace.empty() ? 0 : steps * runs};
}

Status ProfileArgs::write_trace(const Profile& profile, const std::vector<TraceSpan>& spans) const {
  return write_file(trace, trace_json(profile, spans));
}

Result<MachineSpeed> measure_machine(const SessionOptions& options) {
  const std::unique_ptr<ThreadPool> pool = make_thread_pool(options.threads);
  return measure_machine(*pool);
}

void TrainingProfile::start(Trainer& trainer) {
  if (!args_.wanted()) return;
  trainer.start_profile(args_.options(kTrainingEvents, 1));
  start_ns_ = platform::now_ns();
}

void TrainingProfile::add(Part part, int64_t start) {
  const int64_t duration = platform::now_ns() - start;
  total_ns_[static_cast<size_t>(part)] += duration;
  if (!args_.trace.empty() && static_cast<int64_t>(spans_.size()) < kTrainingEvents)
    spans_.push_back({kParts[static_cast<size_t>(part)], start, duration});
}

void TrainingProfile::print_shares() const {
  const double all = static_cast<double>(platform::now_ns() - start_ns_);
  double rest = all;
  Table table({"part", "time", "share"});
  const auto add = [&](const char* name, double ns) {
    table.add({name, duration_text(ns * 1e-9), number_text(100 * ns / all, 3) + " %"});
  };
  for (size_t i = 0; i < total_ns_.size(); ++i) {
    const double ns = static_cast<double>(total_ns_[i]);
    if (ns > 0) add(kParts[i], ns);
    rest -= ns;
  }
  add("everything else", std::max(0.0, rest));
  std::printf("\nWhere the time went\n%s", table.text().c_str());
}

Status TrainingProfile::finish(const Trainer& trainer, const SessionOptions& session,
                               int64_t steps) {
  if (!args_.wanted()) return {};
  ProfileView view{trainer.profile(), {}, steps, true};
  if (args_.table) {
    print_shares();
    HONE_ASSIGN(view.machine, measure_machine(session));
    std::printf("\nProfile of %lld steps, with evaluations in between\n%s",
                static_cast<long long>(steps), profile_text(view).c_str());
  }
  if (args_.trace.empty()) return {};
  // What happened around steps that are no longer in the trace does not belong there either.
  const int64_t end = view.profile.events.empty()
                          ? 0
                          : view.profile.origin_ns + view.profile.events.back().start_ns;
  while (!spans_.empty() && spans_.back().start_ns > end) spans_.pop_back();
  HONE_TRY(args_.write_trace(view.profile, spans_));
  std::printf("Wrote %s\n", args_.trace.c_str());
  return {};
}

}  // namespace hone::cli
