// SPDX-License-Identifier: Apache-2.0
// hone train: goes on training a model on data.
#include <cmath>
#include <cstdio>
#include <fstream>
#include <memory>

#include "core/base/platform.hpp"
#include "core/base/sha256.hpp"
#include "core/cli/commands.hpp"
#include "core/cli/common.hpp"
#include "core/cli/profiling.hpp"
#include "core/cli/terminal.hpp"
#include "core/cli/training.hpp"
#include "hone/checkpoint.hpp"
#include "hone/npz.hpp"
#include "hone/onnx.hpp"
#include "hone/precision.hpp"
#include "toml++/toml.h"

namespace hone::cli {

namespace {

struct Args {
  std::string model, out, data, loss, optimizer = "adamw", trainable = "*", schedule = "constant";
  std::string val_data, log, gradients, run_dir, resume, config;
  double lr = 1e-3, momentum = 0, weight_decay = 0, clip_norm = 0, val_fraction = 0;
  bool nesterov = false;
  int64_t batch = 32, steps = 0, epochs = 0, warmup = 0, val_every = 0, checkpoint_every = 0;
  int64_t accumulate = 1, micro_batches = 1;
  std::string spill;
  bool frozen_eval = false;
  double plan_seconds = 0, recompute_share = TrainerOptions().recompute_share;
  std::string dtype;
  uint64_t seed = 0;
  DeviceArgs device;
  ProfileArgs profile;
  std::string text;  ///< All options as TOML, for the run folder.
};

Result<OptimizerOptions> optimizer_options(const Args& a) {
  OptimizerOptions o;
  o.kind = a.optimizer == "sgd"    ? OptimizerKind::sgd
           : a.optimizer == "adam" ? OptimizerKind::adam
                                   : OptimizerKind::adamw;
  if (o.kind != OptimizerKind::sgd && a.momentum != 0)
    return invalid("--momentum belongs to --optimizer sgd, not {}", a.optimizer);
  o.lr = a.lr;
  o.momentum = a.momentum;
  o.nesterov = a.nesterov;
  o.weight_decay = a.weight_decay;
  return o;
}

// Linear warm-up, then constant, a straight line to zero, or half a cosine to zero.
std::function<double(int64_t)> schedule(const Args& a, int64_t steps) {
  return [lr = a.lr, kind = a.schedule, warmup = a.warmup, steps](int64_t step) {
    if (step < warmup) return lr * static_cast<double>(step + 1) / static_cast<double>(warmup);
    const double t = static_cast<double>(step - warmup) /
                     static_cast<double>(std::max<int64_t>(1, steps - warmup));
    if (kind == "cosine")
      return lr * 0.5 * (1 + std::cos(3.14159265358979323846 * std::min(1.0, t)));
    if (kind == "linear") return lr * std::max(0.0, 1 - t);
    return lr;
  };
}

// With as many digits as its type holds.
std::string loss_text(double loss) {
  if (!std::isfinite(loss) || static_cast<double>(static_cast<float>(loss)) == loss)
    return json_number(loss);
  return number_text(loss, 17);
}

// One JSON object a line; flushed, so that a run that dies leaves what it did. What the file held
// stays until there is a first line: a run that is refused loses nobody's log.
class Log {
 public:
  Log() = default;
  Log(const Log&) = delete;
  Log& operator=(const Log&) = delete;
  ~Log() {
    if (!is_new_ || begun_) return;
    file_.close();
    std::remove(path_.c_str());
  }
  Status open(const std::string& path, bool append) {
    path_ = path;
    is_new_ = !std::ifstream(path);
    begun_ = append;
    file_.open(path, std::ios::app);
    if (!file_) return io_error("cannot write the log '{}'", path);
    return {};
  }
  void line(const std::string& json) {
    if (!file_.is_open()) return;
    if (!begun_) {
      file_.close();
      file_.open(path_, std::ios::trunc);
      begun_ = true;
    }
    file_ << json << std::endl;
  }

 private:
  std::string path_;
  std::ofstream file_;
  bool is_new_ = false, begun_ = false;
};

// Everything a run needs, made before the first step, so that mistakes show at once.
class Run {
 public:
  explicit Run(const Args& a) : a_(a), profile_(a.profile) {}

  Status go() {
    HONE_TRY(prepare());
    if (a_.plan_seconds > 0) HONE_TRY(search_plan());
    HONE_TRY(print_memory());
    if (!a_.gradients.empty()) HONE_TRY(dump_gradients());
    HONE_TRY(train());
    HONE_TRY(save_result());
    return {};
  }

 private:
  using Part = TrainingProfile::Part;

  Status prepare() {
    HONE_ASSIGN(model_, open_model(a_.model));
    if (!a_.dtype.empty()) HONE_TRY(set_precision(model_.graph, *dtype_from_string(a_.dtype)));
    HONE_ASSIGN(terms_, loss_terms(a_.loss));
    HONE_ASSIGN(data_, open_data(a_.data, model_.graph, terms_));
    if (!a_.val_data.empty()) {
      HONE_ASSIGN(val_, open_data(a_.val_data, model_.graph, terms_));
    } else if (a_.val_fraction > 0) {
      const int64_t n = data_->size(),
                    held = static_cast<int64_t>(a_.val_fraction * static_cast<double>(n));
      if (held < 1 || held >= n)
        return invalid("--val-fraction {} of {} samples leaves {} to train on and {} to validate",
                       a_.val_fraction, n, n - held, held);
      val_ = slice_dataset(data_, n - held, held);
      data_ = slice_dataset(data_, 0, n - held);
    }
    HONE_ASSIGN(DataLoader loader, DataLoader::create(data_, {.batch = a_.batch, .seed = a_.seed}));
    loader_ = std::make_unique<DataLoader>(std::move(loader));
    if (a_.accumulate > 1 && a_.micro_batches > 1)
      return invalid(
          "--accumulate adds batches up, --micro-batches cuts them: give one of the two");
    const int64_t updates = (loader_->batches_per_epoch() + a_.accumulate - 1) /
                            a_.accumulate;  // the last may be partial
    steps_ = a_.steps > 0 ? a_.steps : std::max<int64_t>(1, a_.epochs) * updates;
    updates_per_epoch_ = updates;
    TrainerOptions options;
    HONE_ASSIGN(options.loss, parse_loss(a_.loss));
    HONE_ASSIGN(options.optimizer, optimizer_options(a_));
    options.schedule = schedule(a_, steps_);
    options.clip_norm = a_.clip_norm;
    options.trainable = a_.trainable;
    options.seed = a_.seed;
    options.micro_batches = static_cast<int>(a_.micro_batches);
    options.spill_folder = a_.spill;
    options.recompute_share = a_.recompute_share;
    options.frozen_in_eval = a_.frozen_eval;
    if (a_.accumulate > 1 || a_.micro_batches > 1) {
      HONE_ASSIGN(options.count_targets, parse_target_count(a_.loss));
    }
    HONE_ASSIGN(options.session, a_.device.session());
    resident_before_ = platform::resident_bytes();
    HONE_ASSIGN(Trainer trainer, Trainer::create(model_, options));
    trainer_ = std::make_unique<Trainer>(std::move(trainer));
    base_hash_ = content_hash(model_);
    if (!a_.run_dir.empty()) HONE_TRY(make_folder(a_.run_dir));
    if (!a_.resume.empty()) HONE_TRY(resume());
    if (!a_.log.empty()) HONE_TRY(log_.open(a_.log, !a_.resume.empty()));
    if (!a_.run_dir.empty()) HONE_TRY(run_log_.open(a_.run_dir + "/log.jsonl", !a_.resume.empty()));
    return {};
  }

  Status resume() {
    HONE_ASSIGN(const Checkpoint c, load_checkpoint(a_.resume));
    if (c.base_hash != base_hash_)
      return invalid("{}: belongs to a training of another model (weights {}, this one's are {})",
                     a_.resume, c.base_hash, base_hash_);
    Trainer::State state;
    state.step = c.step;
    state.entries = c.tensors;
    HONE_TRY(trainer_->restore(state).with_context(a_.resume));
    HONE_TRY(loader_->seek(c.loader.epoch, c.loader.index).with_context(a_.resume));
    std::printf("Resumed from %s at step %lld\n", a_.resume.c_str(),
                static_cast<long long>(c.step));
    return {};
  }

  Status save_checkpoint_now() {
    HONE_ASSIGN(Trainer::State state, trainer_->save());
    Checkpoint c;
    c.step = state.step;
    c.loader = {loader_->epoch(), loader_->position(), a_.seed};
    c.base_hash = base_hash_;
    c.tensors = std::move(state.entries);
    return save_checkpoint(c, a_.run_dir + "/last.ckpt");
  }

  Status dump_gradients() {
    HONE_ASSIGN(const std::span<const NamedTensor> batch, peek());
    HONE_ASSIGN(std::vector<NamedTensor> grads, trainer_->gradients(batch));
    std::vector<std::pair<std::string, TensorData>> arrays;
    for (NamedTensor& g : grads) arrays.emplace_back(g.name, std::move(g.data));
    return write_npz(a_.gradients, arrays);
  }

  // The run folder becomes this run's with its first step.
  Status save_config() const {
    if (a_.run_dir.empty()) return {};
    std::ofstream config(a_.run_dir + "/config.toml");
    config << a_.text << "# model weights: sha256 " << base_hash_ << "\n";
    if (!config) return io_error("cannot write '{}/config.toml'", a_.run_dir);
    return {};
  }

  // One update: a batch, or as many as --accumulate says; a window ends with the epoch.
  Result<StepResult> one_step() {
    const auto next = [&] { return profile_.time(Part::data, [&] { return loader_->next(); }); };
    if (a_.accumulate == 1) {
      HONE_ASSIGN(const std::span<const NamedTensor> batch, next());
      return profile_.time(Part::steps, [&] { return trainer_->step(batch); });
    }
    for (int64_t i = 0; i < a_.accumulate; ++i) {
      HONE_ASSIGN(const std::span<const NamedTensor> batch, next());
      HONE_TRY(profile_.time(Part::steps, [&] { return trainer_->accumulate(batch).status(); }));
      if (loader_->position() == 0 || loader_->position() >= data_->size()) break;
    }
    return profile_.time(Part::steps, [&] { return trainer_->apply(); });
  }

  // The next batch, which stays the next.
  Result<std::span<const NamedTensor>> peek() {
    const int64_t epoch = loader_->epoch(), position = loader_->position();
    HONE_ASSIGN(const std::span<const NamedTensor> batch, loader_->next());
    HONE_TRY(loader_->seek(epoch, position));
    return batch;
  }

  // The trained model keeps the plan.
  Status search_plan() {
    HONE_ASSIGN(const std::span<const NamedTensor> batch, peek());
    HONE_ASSIGN(const PlanInfo before, trainer_->plan(batch));
    std::printf("Searching for a better plan for %s s\n", number_text(a_.plan_seconds, 3).c_str());
    std::fflush(stdout);
    HONE_ASSIGN(StoredPlan found, trainer_->search_plan(batch, a_.plan_seconds));
    HONE_ASSIGN(const PlanInfo after, trainer_->plan(batch));
    const auto text = [](const PlanInfo& plan) {
      return format("{} and {} % of extra time", bytes_text(plan.peak_bytes),
                    number_text(100 * plan.extra_time, 3));
    };
    std::printf("  %s; before, %s\n", text(after).c_str(), text(before).c_str());
    const uint64_t problem = found.problem;
    const int64_t room = found.room;
    std::erase_if(model_.plans,
                  [&](const StoredPlan& p) { return p.problem == problem && p.room == room; });
    model_.plans.push_back(std::move(found));
    return {};
  }

  // Says what training will take before it begins.
  Status print_memory() {
    if (a_.device.memory_limit.empty() || a_.accumulate > 1) return {};
    HONE_ASSIGN(const std::span<const NamedTensor> batch, peek());
    HONE_ASSIGN(const PlanInfo plan, trainer_->plan(batch));
    std::printf("Memory: %s planned of %s: weights and optimizer state %s, the rest %s; ",
                bytes_text(plan.peak_bytes).c_str(), bytes_text(plan.limit_bytes).c_str(),
                bytes_text(plan.state_bytes).c_str(),
                bytes_text(plan.peak_bytes - plan.state_bytes).c_str());
    if (plan.file_bytes > 0) std::printf("%s stay in files; ", bytes_text(plan.file_bytes).c_str());
    if (plan.repeated_steps == 0)
      std::printf("nothing needs to be computed twice\n");
    else
      std::printf("%lld of %lld operations are computed again, about %s %% more time\n",
                  static_cast<long long>(plan.repeated_steps), static_cast<long long>(plan.steps),
                  number_text(100 * plan.extra_time, 2).c_str());
    return {};
  }

  Status train() {
    std::printf("Training %zu of the model's tensors on %s samples, %lld steps of %lld\n",
                trainer_->trainable().size(), count_text(data_->size()).c_str(),
                static_cast<long long>(steps_), static_cast<long long>(a_.batch));
    Progress progress("train", steps_, "steps");
    double smooth = 0;
    const int64_t first_step = trainer_->steps();
    profile_.start(*trainer_);
    for (bool first = true; trainer_->steps() < steps_; first = false) {
      HONE_ASSIGN(const StepResult r, one_step());
      if (first) HONE_TRY(save_config());
      smooth = r.step == 0 || smooth == 0 ? r.loss : 0.95 * smooth + 0.05 * r.loss;
      std::string line = format("{\"step\": {}, \"loss\": ", r.step) + loss_text(r.loss) +
                         ", \"lr\": " + json_number(r.lr);
      if (a_.clip_norm > 0) line += ", \"grad_norm\": " + json_number(r.grad_norm);
      log_.line(line + "}");
      run_log_.line(line + "}");
      const int64_t done = trainer_->steps();
      progress.update(done, "loss " + number_text(smooth));
      const bool epoch_end = done % updates_per_epoch_ == 0;
      const bool validate =
          val_ && (done == steps_ || (a_.val_every > 0 ? done % a_.val_every == 0 : epoch_end));
      if (validate)
        HONE_TRY(profile_.time(Part::validation, [&] { return validate_now(done, progress); }));
      if (!a_.run_dir.empty() &&
          (done == steps_ ||
           (a_.checkpoint_every > 0 ? done % a_.checkpoint_every == 0 : epoch_end)))
        HONE_TRY(profile_.time(Part::checkpoints, [&] { return save_checkpoint_now(); }));
    }
    progress.finish();
    std::printf("Last loss %s\n", number_text(smooth).c_str());
    const int64_t peak = platform::peak_resident_bytes();
    if (!a_.device.memory_limit.empty() && resident_before_ > 0 && peak > 0)
      std::printf("Memory: the process grew by %s while it trained\n",
                  bytes_text(std::max<int64_t>(0, peak - resident_before_)).c_str());
    HONE_ASSIGN(const SessionOptions session, a_.device.session());
    return profile_.finish(*trainer_, session, trainer_->steps() - first_step);
  }

  Status validate_now(int64_t done, Progress& progress) {
    HONE_ASSIGN(const Score score, judge(*trainer_, val_, terms_, a_.batch));
    progress.finish();
    const bool better = !has_best_ || score.loss < best_;
    std::printf("step %lld: validation %s%s\n", static_cast<long long>(done), score.text().c_str(),
                better ? " (best so far)" : "");
    const std::string line =
        format("{\"step\": {}, \"val_loss\": ", done) + json_number(score.loss) +
        (score.accuracy >= 0 ? ", \"val_accuracy\": " + json_number(score.accuracy) : "") + "}";
    run_log_.line(line);
    if (!better) return {};
    has_best_ = true;
    best_ = score.loss;
    if (a_.run_dir.empty()) return {};
    HONE_ASSIGN(Model best, finished());
    best.metadata["metric.val_loss"] = number_text(score.loss, 9);
    if (score.accuracy >= 0) best.metadata["metric.val_accuracy"] = number_text(score.accuracy, 9);
    return save_model(best, a_.run_dir + "/best.hone");
  }

  Result<Model> finished() const {
    HONE_ASSIGN(Model m, trainer_->snapshot());
    m.plans = model_.plans;
    m.metadata["training.base_sha256"] = base_hash_;
    m.metadata["training.config"] = a_.text;
    m.metadata["training.steps"] = format("{}", trainer_->steps());
    m.metadata["training.seed"] = format("{}", a_.seed);
    return m;
  }

  Status save_result() const {
    HONE_ASSIGN(const Model m, finished());
    HONE_TRY(save_model(m, a_.out));
    std::printf("Saved %s\n", a_.out.c_str());
    return {};
  }

  const Args& a_;
  Model model_;
  std::vector<LossTerm> terms_;
  std::shared_ptr<const Dataset> data_, val_;
  std::unique_ptr<DataLoader> loader_;
  std::unique_ptr<Trainer> trainer_;
  std::string base_hash_;
  int64_t steps_ = 0, updates_per_epoch_ = 1, resident_before_ = 0;
  Log log_, run_log_;
  TrainingProfile profile_;
  bool has_best_ = false;
  double best_ = 0;
};

// Options from a TOML file: keys are the long options without dashes; the command line wins.
void apply_config(CLI::App& c, const std::string& path) {
  toml::table table;
  try {
    table = toml::parse_file(path);
  } catch (const toml::parse_error& e) {
    throw CLI::ValidationError("--config", path + ", line " +
                                               std::to_string(e.source().begin.line) + ": " +
                                               std::string(e.description()));
  }
  for (const auto& [key, value] : table) {
    std::string name(key.str());
    for (char& ch : name)
      if (ch == '_') ch = '-';
    CLI::Option* option = c.get_option_no_throw("--" + name);
    if (!option || name == "config")
      throw CLI::ValidationError("--config", path + ": there is no option '" + name + "'");
    if (option->count() > 0) continue;
    std::string text;
    if (const auto s = value.value<std::string>(); s && value.is_string())
      text = *s;
    else if (value.is_boolean())
      text = *value.value<bool>() ? "true" : "false";
    else if (value.is_integer())
      text = std::to_string(*value.value<int64_t>());
    else if (value.is_floating_point())
      text = number_text(*value.value<double>(), 17);
    else
      throw CLI::ValidationError("--config",
                                 path + ": '" + name + "' must be a text, a number or true/false");
    option->add_result(text);
    option->run_callback();
  }
}

std::string as_toml(const CLI::App& c) {
  std::string out;
  for (const CLI::Option* o : c.get_options()) {
    if (o->count() == 0 || o->get_lnames().empty() || o->get_name() == "--config") continue;
    out += o->get_lnames()[0] + " = " + json_text(o->results().back()) + "\n";
  }
  return out;
}

}  // namespace

void add_train(CLI::App& app, Action& action) {
  auto args = std::make_shared<Args>();
  Args& a = *args;
  CLI::App* c = app.add_subcommand("train", "Train a model on data");
  c->add_option("model", a.model, "The model: .hone, .onnx or .tflite")
      ->required()
      ->type_name("MODEL");
  c->add_option("-o,--output", a.out, "The trained model, a .hone file")
      ->required()
      ->type_name("FILE");
  c->add_option("--config", a.config, "A TOML file with any of these options")
      ->type_name("FILE.toml");
  c->add_option("--data", a.data,
                "Arrays named as the model's inputs (or in/NAME) and the loss's targets; the first "
                "axis counts samples")
      ->type_name("FILE.npz");
  c->add_option("--loss", a.loss,
                "For example 'cross_entropy(logits, target/label)'; also mse, l1, smooth_l1, "
                "huber, bce_with_logits; sums with weights")
      ->type_name("LOSS");
  c->add_option("--optimizer", a.optimizer, "Update rule")
      ->capture_default_str()
      ->check(CLI::IsMember({"sgd", "adam", "adamw"}));
  c->add_option("--lr", a.lr, "Learning rate")
      ->capture_default_str()
      ->check(CLI::NonNegativeNumber);
  c->add_option("--momentum", a.momentum, "Momentum of sgd")
      ->capture_default_str()
      ->check(CLI::Range(0.0, 1.0));
  c->add_option(
       "--dtype", a.dtype,
       "Turn the model into this type first, and keep it so; f64 is slow, and exact enough "
       "to check gradients by")
      ->check(CLI::IsMember({"f32", "f64"}));
  c->add_flag("--nesterov", a.nesterov, "Nesterov momentum");
  c->add_option("--weight-decay", a.weight_decay, "Weight decay (decoupled in adamw)")
      ->capture_default_str()
      ->check(CLI::NonNegativeNumber);
  c->add_option("--clip-norm", a.clip_norm, "Largest global norm of the gradients; 0: do not clip")
      ->capture_default_str()
      ->check(CLI::NonNegativeNumber);
  c->add_option("--schedule", a.schedule, "Learning rate over time")
      ->capture_default_str()
      ->check(CLI::IsMember({"constant", "linear", "cosine"}));
  c->add_option("--warmup", a.warmup, "Steps of linear warm-up")
      ->capture_default_str()
      ->check(CLI::NonNegativeNumber);
  c->add_option("--batch", a.batch, "Samples a step")
      ->capture_default_str()
      ->check(CLI::PositiveNumber);
  c->add_option("--accumulate", a.accumulate,
                "Batches whose gradients make one update, weighted by their numbers of targets")
      ->capture_default_str()
      ->check(CLI::Range(1, 1 << 20));
  c->add_flag("--frozen-eval", a.frozen_eval,
              "What lies before the first trained parameter runs as in inference: batch norms use "
              "their running statistics, dropout passes all");
  c->add_option("--recompute-share", a.recompute_share, kRecomputeShareHelp)
      ->capture_default_str()
      ->check(CLI::NonNegativeNumber);
  c->add_option("--spill", a.spill,
                "Folder in which optimizer state may lie where --memory-limit cannot be kept "
                "otherwise: same results, slower steps");
  c->add_option(
       "--micro-batches", a.micro_batches,
       "Parts into which each batch is cut, for less memory; same meaning, other rounding; "
       "batch norm sees one part at a time")
      ->capture_default_str()
      ->check(CLI::Range(1, 1 << 20));
  auto* steps = c->add_option("--steps", a.steps, "Steps in all")->check(CLI::PositiveNumber);
  c->add_option("--epochs", a.epochs, "Passes over the data, instead of --steps (default 1)")
      ->check(CLI::PositiveNumber)
      ->excludes(steps);
  c->add_option(
       "--plan-seconds", a.plan_seconds,
       "Search so long for a better plan of the step before the first one; the saved model "
       "keeps it")
      ->check(CLI::NonNegativeNumber);
  c->add_option("--seed", a.seed, "Of shuffling and dropout")->capture_default_str();
  c->add_option("--trainable", a.trainable, "Globs of the parameters to train, separated by commas")
      ->capture_default_str()
      ->type_name("PATTERN");
  c->add_option("--val-data", a.val_data, "Data to validate on")->type_name("FILE.npz");
  c->add_option("--val-fraction", a.val_fraction,
                "Or: hold back this part of the data, from its end")
      ->check(CLI::Range(0.0, 1.0));
  c->add_option("--val-every", a.val_every, "Steps between validations (default: an epoch)")
      ->check(CLI::PositiveNumber);
  c->add_option("--run-dir", a.run_dir,
                "Folder for config.toml, log.jsonl, last.ckpt and best.hone")
      ->type_name("DIR");
  c->add_option("--checkpoint-every", a.checkpoint_every,
                "Steps between checkpoints in the run folder (default: an epoch)")
      ->check(CLI::PositiveNumber);
  c->add_option("--resume", a.resume, "Go on from a checkpoint, bit for bit")
      ->type_name("FILE.ckpt");
  c->add_option("--log", a.log, "One JSON object a step")->type_name("FILE.jsonl");
  c->add_option("--dump-gradients", a.gradients, "The first step's gradients by parameter name")
      ->type_name("FILE.npz");
  a.profile.add_to(*c);
  a.device.add_to(*c);
  c->callback([args, c, &action] {
    if (!args->config.empty()) apply_config(*c, args->config);
    for (const char* needed : {"--data", "--loss"})
      if (c->get_option(needed)->count() == 0) throw CLI::RequiredError(needed);
    args->text = as_toml(*c);
    action = [args] { return Run(*args).go(); };
  });
}

}  // namespace hone::cli
