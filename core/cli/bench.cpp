// SPDX-License-Identifier: Apache-2.0
// hone bench: how long a model takes, where, and how much memory, on made-up data; or what the
// machine can do at most; or how tightly the arena planner packs a table of buffers.
#include <algorithm>
#include <cstdio>
#include <memory>

#include "core/base/platform.hpp"
#include "core/cli/commands.hpp"
#include "core/cli/common.hpp"
#include "core/cli/machine.hpp"
#include "core/cli/packing.hpp"
#include "core/cli/profiling.hpp"
#include "core/cli/stand_in.hpp"
#include "core/cli/terminal.hpp"
#include "hone/onnx.hpp"
#include "hone/trainer.hpp"

namespace hone::cli {

namespace {

struct Args {
  std::string model;
  bool train = false, json = false, plan_only = false, machine = false;
  double seconds = 2, recompute_share = TrainerOptions().recompute_share;
  DimArgs dims;
  DeviceArgs device;
  ProfileArgs profile;
  PackingArgs packing;
};

struct Timing {
  double load_s = 0;   ///< Opening the model.
  double plan_s = 0;   ///< Making the session or trainer, and the plan.
  double first_s = 0;  ///< That and the first run.
  std::vector<double> runs_s;
  int64_t peak_bytes = 0;  ///< Of the process so far.
  double at(double quantile) const {
    if (runs_s.empty()) return 0;
    return runs_s[std::min(runs_s.size() - 1,
                           static_cast<size_t>(quantile * static_cast<double>(runs_s.size())))];
  }
};

double seconds_since(int64_t start) {
  return static_cast<double>(platform::now_ns() - start) * 1e-9;
}

// Runs for the given time, at least five times, after planning that took `plan_s`.
Result<Timing> measure(double seconds, const std::function<Status()>& once, double plan_s = 0) {
  Timing t;
  const auto timed = [&]() -> Result<double> {
    const int64_t start = platform::now_ns();
    HONE_TRY(once());
    return seconds_since(start);
  };
  t.plan_s = plan_s;
  HONE_ASSIGN(t.first_s, timed());
  t.first_s += plan_s;
  HONE_TRY(once());
  double total = 0;
  while (total < seconds || t.runs_s.size() < 5) {
    HONE_ASSIGN(const double s, timed());
    t.runs_s.push_back(s);
    total += s;
  }
  std::sort(t.runs_s.begin(), t.runs_s.end());
  t.peak_bytes = platform::peak_resident_bytes();
  return t;
}

void report(const Args& a, const Timing& t, const PlanInfo& plan, const SessionOptions& options,
            const std::string& profile) {
  const int64_t peak = t.peak_bytes;
  if (a.json) {
    std::printf(
        "{\"model\": %s, \"mode\": \"%s\", \"batch\": %lld, \"threads\": %d, \"median_ms\": %s, "
        "\"p10_ms\": %s, \"p90_ms\": %s, "
        "\"load_ms\": %s, \"plan_ms\": %s, \"first_ms\": %s, \"runs\": %zu, \"plan_peak_bytes\": "
        "%lld, "
        "\"arena_bytes\": %lld, "
        "\"lower_bound_bytes\": %lld, "
        "\"packed_bytes\": %lld, \"state_bytes\": %lld, \"peak_resident_bytes\": %lld, "
        "\"limit_bytes\": %lld, \"repeated_steps\": %lld, \"extra_time\": %s, \"flops\": %s, "
        "\"gflop_per_s\": %s%s}\n",
        json_text(a.model).c_str(), a.train ? "train" : "infer",
        static_cast<long long>(a.dims.batch), options.threads, json_number(t.at(0.5) * 1e3).c_str(),
        json_number(t.at(0.1) * 1e3).c_str(), json_number(t.at(0.9) * 1e3).c_str(),
        json_number(t.load_s * 1e3).c_str(), json_number(t.plan_s * 1e3).c_str(),
        json_number(t.first_s * 1e3).c_str(), t.runs_s.size(),
        static_cast<long long>(plan.peak_bytes), static_cast<long long>(plan.arena_bytes),
        static_cast<long long>(plan.lower_bound_bytes), static_cast<long long>(plan.packed_bytes),
        static_cast<long long>(plan.state_bytes), static_cast<long long>(peak),
        static_cast<long long>(plan.limit_bytes), static_cast<long long>(plan.repeated_steps),
        json_number(plan.extra_time).c_str(), json_number(plan.flops).c_str(),
        json_number(t.runs_s.empty() ? 0 : plan.flops / t.at(0.5) * 1e-9).c_str(),
        profile.empty() ? "" : (", \"profile\": " + profile).c_str());
    return;
  }
  Table table({"", ""});
  if (t.runs_s.empty()) {
    table.add({"planning", duration_text(t.plan_s)});
  } else {
    table.add({"median", duration_text(t.at(0.5)) + format(" over {} runs", t.runs_s.size())});
    table.add({"10 % to 90 %", duration_text(t.at(0.1)) + " to " + duration_text(t.at(0.9))});
    table.add({"opening the model", duration_text(t.load_s)});
    table.add({"first run, with planning", duration_text(t.first_s)});
    table.add({"rate", number_text(static_cast<double>(a.dims.batch) / t.at(0.5), 3) +
                           " samples/s, " + number_text(plan.flops / t.at(0.5) * 1e-9, 3) +
                           " Gflop/s"});
  }
  table.add({"plan: activations", bytes_text(plan.arena_bytes) + " (lower bound " +
                                      bytes_text(plan.lower_bound_bytes) + ")"});
  table.add(
      {"plan: weights", bytes_text(plan.state_bytes) + (a.train ? " with optimizer state" : "")});
  table.add({"plan: packed copies", bytes_text(plan.packed_bytes)});
  if (plan.file_bytes > 0)
    table.add({"plan: in files", bytes_text(plan.file_bytes) + ", at most " +
                                     bytes_text(plan.window_bytes) + " of it in memory at a time"});
  if (plan.limit_bytes > 0)
    table.add({"plan: of the memory limit",
               bytes_text(plan.peak_bytes) + " of " + bytes_text(plan.limit_bytes)});
  if (plan.limit_bytes > 0 || plan.repeated_steps > 0)
    table.add(
        {"plan: computed twice", format("{} of {} steps, about ", plan.repeated_steps, plan.steps) +
                                     number_text(100 * plan.extra_time, 2) + " % more time"});
  table.add({"peak of the process", bytes_text(peak)});
  std::printf("%s: %s, batch %lld, %d threads\n%s", a.model.c_str(),
              a.train ? "training step (AdamW)" : "inference", static_cast<long long>(a.dims.batch),
              options.threads, table.text().c_str());
  if (!profile.empty()) std::printf("\n%s", profile.c_str());
}

// Runs again under a profile, so that the times above are without one.
template <class Runner>
Result<std::string> profiled(const Args& a, Runner& runner, const PlanInfo& plan,
                             const SessionOptions& options, const std::function<Status()>& once) {
  constexpr int64_t kTracedRuns = 4;
  if (!a.profile.wanted()) return std::string();
  runner.start_profile(a.profile.options(plan.steps, kTracedRuns));
  HONE_ASSIGN(const Timing t, measure(a.seconds, once));
  ProfileView view{runner.profile(), {}, 2 + static_cast<int64_t>(t.runs_s.size()), a.train};
  runner.stop_profile();
  if (!a.profile.trace.empty()) HONE_TRY(a.profile.write_trace(view.profile, {}));
  if (!a.profile.table) return std::string();
  HONE_ASSIGN(view.machine, measure_machine(options));
  if (a.json) return profile_json(view);
  return format("Profile of {} runs, median ", view.runs) + duration_text(t.at(0.5)) + "\n" +
         profile_text(view);
}

Status bench(const Args& a) {
  const int64_t begin = platform::now_ns();
  HONE_ASSIGN(const Model m, open_model(a.model));
  const double load_s = seconds_since(begin);
  HONE_ASSIGN(const SessionOptions options, a.device.session());
  HONE_ASSIGN(const std::vector<Shape> shapes, a.dims.shapes(m.graph));
  HONE_ASSIGN(const std::vector<NamedTensor> inputs, made_up_inputs(m.graph, shapes));
  std::vector<TensorData> ordered;
  for (const NamedTensor& t : inputs) ordered.push_back(t.data);
  std::string profile;
  const int64_t start = platform::now_ns();
  if (a.train) {
    TrainerOptions training = stand_in_training(options);
    training.recompute_share = a.recompute_share;
    HONE_ASSIGN(Trainer trainer, Trainer::create(m, std::move(training)));
    HONE_ASSIGN(PlanInfo plan, trainer.plan(inputs));
    Timing t;
    t.plan_s = t.first_s = seconds_since(start);
    t.peak_bytes = platform::peak_resident_bytes();
    const auto once = [&] { return trainer.step(inputs).status(); };
    if (!a.plan_only) {
      HONE_ASSIGN(t, measure(a.seconds, once, t.plan_s));
      HONE_ASSIGN(plan, trainer.plan(inputs));
      HONE_ASSIGN(profile, profiled(a, trainer, plan, options, once));
    }
    t.load_s = load_s;
    report(a, t, plan, options, profile);
    return {};
  }
  HONE_ASSIGN(Session session, Session::create(m, options));
  HONE_ASSIGN(std::vector<TensorType> types, session.output_types(shapes));
  std::vector<TensorData> outputs;
  for (const TensorType& type : types) {
    HONE_ASSIGN(TensorData t, TensorData::allocate(type));
    outputs.push_back(std::move(t));
  }
  const auto once = [&] { return session.run(ordered, outputs); };
  HONE_ASSIGN(Timing t, measure(a.seconds, once, seconds_since(start)));
  t.load_s = load_s;
  HONE_ASSIGN(const PlanInfo plan, session.plan(shapes));
  HONE_ASSIGN(profile, profiled(a, session, plan, options, once));
  report(a, t, plan, options, profile);
  return {};
}

}  // namespace

void add_bench(CLI::App& app, Action& action) {
  auto args = std::make_shared<Args>();
  CLI::App* c = app.add_subcommand("bench", "Measure time and memory of a model on made-up data");
  CLI::Option* model =
      c->add_option("model", args->model, "The model: .hone, .onnx or .tflite")->type_name("MODEL");
  c->add_flag("--train", args->train, "Measure training steps (AdamW) rather than inference")
      ->needs(model);
  CLI::Option* plan_only =
      c->add_flag("--plan-only", args->plan_only,
                  "With --train: only plan, and tell the memory; no step is run");
  CLI::Option* machine =
      c->add_flag("--machine", args->machine,
                  "Instead of a model: measure what this machine can do at most, with one thread "
                  "and with --threads")
          ->excludes(model);
  c->add_option("--recompute-share", args->recompute_share, kRecomputeShareHelp)
      ->capture_default_str()
      ->check(CLI::NonNegativeNumber);
  c->add_flag("--json", args->json, "Print one JSON object");
  CLI::Option* seconds = c->add_option("--seconds", args->seconds,
                                       "How long to measure; with --packing, to search (10)")
                             ->capture_default_str()
                             ->check(CLI::PositiveNumber);
  PackingArgs& p = args->packing;
  CLI::Option* packing =
      c->add_option("--packing", p.file,
                    "Instead of a model: pack the buffers of a table with the columns id, lower, "
                    "upper (exclusive) and size into one arena")
          ->type_name("FILE.csv")
          ->excludes(model)
          ->excludes(machine);
  c->add_option("-o,--output", p.out, "With --packing: write the table with the offsets")
      ->type_name("FILE.csv")
      ->needs(packing);
  c->add_option("--capacity", p.capacity, "With --packing: stop once the arena is that small")
      ->type_name("BYTES")
      ->check(CLI::PositiveNumber)
      ->needs(packing);
  c->add_option("--alignment", p.alignment, "With --packing: offsets are multiples of it")
      ->type_name("BYTES")
      ->capture_default_str()
      ->check(CLI::PositiveNumber)
      ->needs(packing);
  args->profile.add_to(*c);
  for (const char* name : {"--profile", "--trace"})
    c->get_option(name)->needs(model)->excludes(plan_only);
  args->dims.add_to(*c);
  args->device.add_to(*c);
  c->callback([args, model, packing, seconds, &action] {
    if (model->count() == 0 && packing->count() == 0 && !args->machine)
      throw CLI::RequiredError("MODEL, --machine or --packing FILE.csv");
    if (args->machine) {
      action = [args] { return bench_machine(args->device.threads, args->json); };
      return;
    }
    if (packing->count() == 0) {
      action = [args] { return bench(*args); };
      return;
    }
    args->packing.json = args->json;
    if (seconds->count() > 0) args->packing.seconds = args->seconds;
    action = [args] { return bench_packing(args->packing); };
  });
}

}  // namespace hone::cli
