// SPDX-License-Identifier: Apache-2.0
// Personalises a network on this device, from the first file to the last, and says what happens.
#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "core/cli/terminal.hpp"
#include "hone/checkpoint.hpp"
#include "hone/data.hpp"
#include "hone/idx.hpp"
#include "hone/loss_text.hpp"
#include "hone/onnx.hpp"
#include "hone/schedule.hpp"

using namespace hone;

namespace {

constexpr int kClasses = 10, kSide = 28;
constexpr std::array<const char*, kClasses> kNames = {"T-shirt", "Trouser",   "Pullover", "Dress",
                                                      "Coat",    "Sandal",    "Shirt",    "Sneaker",
                                                      "Bag",     "Ankle boot"};
constexpr int kSneaker = 7, kBag = 8;  // the two classes that the pretrained model has never seen
constexpr double kGoal = 0.91;
constexpr int kExitNoData = 77, kExitUsage = 2;

constexpr const char* kHelp =
    R"(Personalises a small network on this device and says what happens.

usage: hone_personalise [--data DIR] [--model FILE] [--out DIR] [--epochs N] [--threads N] [--quick]

  --data DIR     folder with the four IDX files of Fashion-MNIST, gzipped or not
                 (default: /usr/share/datasets/fashion-mnist, Debian's dataset-fashion-mnist)
  --model FILE   the pretrained ONNX model (default: examples/personalise/fashion8.onnx)
  --out DIR      where the results go (default: personalise-out)
  --epochs N     passes over the training images (default: 2)
  --threads N    threads to use (default: 2)
  --quick        a short look: one pass over 6,000 images, 2,000 test images, 80 % is enough

Exit status: 0 when the accuracy was reached, 1 when it was not or something failed, 2 for a wrong
option, 77 when the data is not there.
)";

struct Options {
  std::string data = "/usr/share/datasets/fashion-mnist";
  std::string model = "examples/personalise/fashion8.onnx";
  std::string out = "personalise-out";
  int epochs = 2, threads = 2;
  bool quick = false, help = false;
};

Result<int> whole_number(const std::string& option, const std::string& text, int most) {
  char* end = nullptr;
  const long n = std::strtol(text.c_str(), &end, 10);
  if (text.empty() || *end != 0 || n < 1 || n > most)
    return invalid("{} takes a whole number from 1 to {}, not '{}'", option, most, text);
  return static_cast<int>(n);
}

Result<Options> parse(int argc, char** argv) {
  Options o;
  std::optional<int> epochs;
  for (int i = 1; i < argc; ++i) {
    const std::string option = argv[i];
    if (option == "--help" || option == "-h") {
      o.help = true;
      return o;
    }
    if (option == "--quick") {
      o.quick = true;
      continue;
    }
    const std::array<const char*, 5> known = {"--data", "--model", "--out", "--epochs",
                                              "--threads"};
    if (std::find(known.begin(), known.end(), option) == known.end())
      return invalid("unknown option '{}' (see --help)", option);
    if (++i == argc) return invalid("{} needs a value (see --help)", option);
    const std::string value = argv[i];
    if (option == "--data") o.data = value;
    if (option == "--model") o.model = value;
    if (option == "--out") o.out = value;
    if (option == "--epochs") {
      HONE_ASSIGN(epochs, whole_number(option, value, 1000));
    }
    if (option == "--threads") {
      HONE_ASSIGN(o.threads, whole_number(option, value, 256));
    }
  }
  o.epochs = epochs.value_or(o.quick ? 1 : 2);
  return o;
}

// ---- Data ------------------------------------------------------------------------------------

// Images as they lie in the file, one byte a pixel; what the network wants is made one by one.
class Pictures : public Dataset {
 public:
  Pictures(TensorData images, TensorData labels)
      : images_(std::move(images)), labels_(std::move(labels)) {}
  int64_t size() const override { return images_.shape()[0]; }
  const std::vector<Column>& columns() const override { return columns_; }
  Status read(int64_t index, std::span<const TensorView> into) const override {
    const uint8_t* from = pixels(index);
    float* to = into[0].as<float>();
    for (int i = 0; i < kSide * kSide; ++i) to[i] = static_cast<float>(from[i]) / 255.0F;
    *into[1].as<int64_t>() = label(index);
    return {};
  }
  const uint8_t* pixels(int64_t index) const {
    return images_.as<uint8_t>() + index * kSide * kSide;
  }
  int label(int64_t index) const { return labels_.as<uint8_t>()[index]; }

 private:
  TensorData images_, labels_;  // u8 (N, 28, 28) and u8 (N)
  std::vector<Column> columns_ = {{"input", {DType::f32, {1, kSide, kSide}}},
                                  {"label", {DType::i64, {}}}};
};

using PicturesPtr = std::shared_ptr<const Pictures>;

Result<TensorData> read_part(const std::string& folder, const std::string& name) {
  const std::string plain = folder + "/" + name;
  std::error_code problem;
  if (std::filesystem::exists(plain + ".gz", problem)) return read_idx(plain + ".gz");
  if (std::filesystem::exists(plain, problem)) return read_idx(plain);
  return not_found(
      "there is no {}.gz in {}. On Debian: apt-get install dataset-fashion-mnist; elsewhere: "
      "--data DIR",
      name, folder);
}

Result<PicturesPtr> read_pictures(const std::string& folder, const std::string& part) {
  HONE_ASSIGN(TensorData images, read_part(folder, part + "-images-idx3-ubyte"));
  HONE_ASSIGN(TensorData labels, read_part(folder, part + "-labels-idx1-ubyte"));
  const int64_t n = labels.numel();
  if (images.type() != TensorType{DType::u8, {n, kSide, kSide}} ||
      labels.type() != TensorType{DType::u8, {n}} || n == 0)
    return invalid("{} in {}: expected N images of 28 x 28 bytes and N labels", part, folder);
  for (int64_t i = 0; i < n; ++i)
    if (labels.as<uint8_t>()[i] >= kClasses)
      return invalid("{} in {}: label {} of image {} is none of 0 to 9", part, folder,
                     labels.int_at(i), i);
  return std::make_shared<const Pictures>(std::move(images), std::move(labels));
}

// ---- Judging ---------------------------------------------------------------------------------

int largest(const float* scores) {
  return static_cast<int>(std::max_element(scores, scores + kClasses) - scores);
}

struct Judgement {
  std::array<int64_t, kClasses> right{}, seen{};
  std::vector<float> logits;  // (N, 10)

  double accuracy(int64_t first = 0, int64_t last = kClasses - 1) const {
    int64_t r = 0, n = 0;
    for (size_t k = static_cast<size_t>(first); k <= static_cast<size_t>(last); ++k)
      r += right[k], n += seen[k];
    return n > 0 ? static_cast<double>(r) / static_cast<double>(n) : 0;
  }
  double accuracy_of_new() const { return accuracy(kSneaker, kBag); }
};

Result<Judgement> judge(const Model& model, const PicturesPtr& pictures, int64_t count,
                        const SessionOptions& options) {
  HONE_ASSIGN(Session session, Session::create(model, options));
  HONE_ASSIGN(DataLoader loader, DataLoader::create(slice_dataset(pictures, 0, count),
                                                    {.batch = 500, .order = Order::as_stored}));
  Judgement j;
  j.logits.reserve(static_cast<size_t>(count * kClasses));
  int64_t at = 0;
  for (int64_t b = 0; b < loader.batches_per_epoch(); ++b) {
    HONE_ASSIGN(std::span<const NamedTensor> batch, loader.next());
    HONE_ASSIGN(std::vector<TensorData> out, session.run(batch.first(1)));
    const int64_t n = batch[1].data.numel();
    if (out[0].type() != TensorType{DType::f32, {n, kClasses}})
      return invalid("the model answers with something else than ten numbers for each image");
    const float* scores = out[0].as<float>();
    j.logits.insert(j.logits.end(), scores, scores + n * kClasses);
    for (int64_t i = 0; i < n; ++i) {
      const auto truth = static_cast<size_t>(pictures->label(at++));
      ++j.seen[truth];
      if (static_cast<size_t>(largest(scores + i * kClasses)) == truth) ++j.right[truth];
    }
  }
  return j;
}

std::string percent(double part) {
  char text[32];
  std::snprintf(text, sizeof text, "%.2f %%", 100 * part);
  return text;
}

// One column of accuracies for each judgement.
void print_classes(const std::vector<std::string>& header,
                   const std::vector<const Judgement*>& judgements) {
  cli::Table table(header);
  for (int k = 0; k < kClasses; ++k) {
    std::vector<std::string> row = {kNames[static_cast<size_t>(k)]};
    for (const Judgement* j : judgements) row.push_back(percent(j->accuracy(k, k)));
    table.add(std::move(row));
  }
  std::vector<std::string> all = {"all ten"};
  for (const Judgement* j : judgements) all.push_back(percent(j->accuracy()));
  table.add(std::move(all));
  std::printf("\n%s\n", table.text().c_str());
}

// ---- Small things ----------------------------------------------------------------------------

void heading(int number, const char* what) {
  std::printf("\n%d. %s\n\n", number, what);
  std::fflush(stdout);
}

int64_t size_of_file(const std::string& path) {
  std::error_code problem;
  const auto size = std::filesystem::file_size(path, problem);
  return problem ? 0 : static_cast<int64_t>(size);
}

int64_t count_parameters(const Model& m) {
  int64_t n = 0;
  for (ValueId v : m.graph.states(StateRole::parameter)) n += m.graph.type(v).numel();
  return n;
}

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// Two images side by side; two rows of pixels make one line of characters.
void draw(const Pictures& pictures, std::span<const int64_t> pair) {
  constexpr std::array<const char*, 5> kShades = {" ", "░", "▒", "▓", "█"};
  for (int y = 0; y < kSide; y += 2) {
    std::string line = "  ";
    for (int64_t index : pair) {
      const uint8_t* p = pictures.pixels(index) + y * kSide;
      for (int x = 0; x < kSide; ++x)
        line += kShades[static_cast<size_t>((p[x] + p[x + kSide]) * 5 / 511)];
      line += "    ";
    }
    std::printf("%s\n", line.c_str());
  }
}

// ---- The steps -------------------------------------------------------------------------------

struct Work {
  Options options;
  SessionOptions session;
  PicturesPtr train, test;
  int64_t train_count = 0, test_count = 0;
  std::string file(const char* name) const { return options.out + "/" + name; }
};

Result<Model> convert(const Work& w) {
  heading(1, "Convert");
  HONE_ASSIGN(const Model imported, import_onnx(w.options.model));
  HONE_TRY(save_model(imported, w.file("base.hone")));
  HONE_ASSIGN(Model base, load_model(w.file("base.hone")));
  std::printf(
      "A small network for pictures of clothes was trained elsewhere, with PyTorch, and came as "
      "ONNX:\n"
      "  %s, %s\n"
      "Hone read it and wrote it in its own format, which is mapped into memory when it is used:\n"
      "  %s, %s, %s parameters (numbers that were learned)\n",
      w.options.model.c_str(), bytes_text(size_of_file(w.options.model)).c_str(),
      w.file("base.hone").c_str(), bytes_text(size_of_file(w.file("base.hone"))).c_str(),
      cli::count_text(count_parameters(base)).c_str());
  return base;
}

Result<Judgement> look_at(const Work& w, const Model& base) {
  heading(2, "What it can do so far");
  HONE_ASSIGN(Judgement j, judge(base, w.test, w.test_count, w.session));
  std::printf(
      "It learned eight kinds of clothes and has never seen a sneaker or a bag. Of %s test images, "
      "which\n"
      "are never used for training, it names this part correctly:\n",
      cli::count_text(w.test_count).c_str());
  print_classes({"class", "right"}, {&j});
  return j;
}

struct Tuned {
  Model model;
  Judgement judgement;
};

// Every weight, all ten classes.
Result<Tuned> fine_tune(const Work& w, const Model& base, const Judgement& before) {
  heading(3, "Fine-tune");
  constexpr int64_t kBatch = 64;
  HONE_ASSIGN(DataLoader loader,
              DataLoader::create(slice_dataset(w.train, 0, w.train_count),
                                 {.batch = kBatch, .last = LastBatch::drop, .seed = 1}));
  const int64_t per_epoch = loader.batches_per_epoch(), total = per_epoch * w.options.epochs;
  TrainerOptions options;
  HONE_ASSIGN(options.loss, parse_loss("cross_entropy(logits, label)"));
  options.optimizer = {.kind = OptimizerKind::adamw, .lr = 2e-3, .weight_decay = 0.01};
  options.schedule = schedule::warm_up_cosine(options.optimizer.lr, total / 10, total);
  options.seed = 1;
  options.session = w.session;
  HONE_ASSIGN(Trainer trainer, Trainer::create(base, options));
  std::printf(
      "Now it sees %s images of all ten classes, %lld at a time, %d %s over. After each group "
      "every\n"
      "weight moves a little so that the answers get better (AdamW, %d threads).\n\n",
      cli::count_text(w.train_count).c_str(), static_cast<long long>(kBatch), w.options.epochs,
      w.options.epochs == 1 ? "time" : "times", w.options.threads);
  std::fflush(stdout);

  Tuned tuned;
  double seconds = 0;
  for (int epoch = 1; epoch <= w.options.epochs; ++epoch) {
    const auto start = std::chrono::steady_clock::now();
    cli::Progress progress(format("  epoch {} of {}", epoch, w.options.epochs), per_epoch, "steps");
    double loss = 0;
    for (int64_t i = 1; i <= per_epoch; ++i) {
      HONE_ASSIGN(std::span<const NamedTensor> batch, loader.next());
      HONE_ASSIGN(const StepResult step, trainer.step(batch));
      loss = i == 1 ? step.loss : 0.98 * loss + 0.02 * step.loss;
      progress.update(i, "loss " + cli::number_text(loss, 3));
    }
    progress.finish();
    seconds += seconds_since(start);
    HONE_ASSIGN(tuned.model, trainer.snapshot());
    HONE_ASSIGN(tuned.judgement, judge(tuned.model, w.test, w.test_count, w.session));
    std::printf("  epoch %d: %s of the test images right, %.1f s of training so far\n", epoch,
                percent(tuned.judgement.accuracy()).c_str(), seconds);
    std::fflush(stdout);
  }
  print_classes({"class", "before", "after"}, {&before, &tuned.judgement});
  return tuned;
}

Status use(const Work& w, const Tuned& tuned) {
  heading(4, "Save and use");
  const std::string path = w.file("tuned.hone");
  HONE_TRY(save_model(tuned.model, path));
  HONE_ASSIGN(const Model saved, load_model(path));
  HONE_ASSIGN(const Judgement j, judge(saved, w.test, w.test_count, w.session));
  if (j.logits != tuned.judgement.logits)
    return internal("the saved model answers otherwise than the one that was saved");
  std::printf(
      "The result is in %s (%s). Read back from there it gives the same answers to the bit.\n"
      "These are the first test images of four classes, and what the saved model says they are:\n",
      path.c_str(), bytes_text(size_of_file(path)).c_str());
  std::vector<int64_t> chosen;
  for (int k : {kSneaker, kBag, 0, 9})
    for (int64_t i = 0; i < w.test_count; ++i)
      if (w.test->label(i) == k) {
        chosen.push_back(i);
        break;
      }
  for (size_t first = 0; first < chosen.size(); first += 2) {
    const auto pair =
        std::span<const int64_t>(chosen).subspan(first, std::min<size_t>(2, chosen.size() - first));
    std::printf("\n");
    draw(*w.test, pair);
    std::string answers = "  ", truths = "  ";
    for (int64_t i : pair) {
      const auto answer = static_cast<size_t>(largest(j.logits.data() + i * kClasses));
      char text[64];
      std::snprintf(text, sizeof text, "answer: %-24s", kNames[answer]);
      answers += text;
      std::snprintf(text, sizeof text, "truth:  %-24s",
                    kNames[static_cast<size_t>(w.test->label(i))]);
      truths += text;
    }
    std::printf("%s\n%s\n", answers.c_str(), truths.c_str());
  }
  return {};
}

Status give_back(const Work& w, const Tuned& tuned) {
  heading(5, "Export");
  const std::string path = w.file("tuned.onnx");
  HONE_TRY(export_onnx(tuned.model, path));
  HONE_ASSIGN(const Model again, import_onnx(path));
  HONE_ASSIGN(const Judgement j, judge(again, w.test, w.test_count, w.session));
  int64_t other = 0;
  for (size_t i = 0; i < j.logits.size(); i += kClasses)
    if (largest(&j.logits[i]) != largest(&tuned.judgement.logits[i])) ++other;
  std::printf(
      "%s (%s) is the same model as ONNX, for every program that reads it.\n"
      "Read back, it answers %s of %s test images otherwise.\n",
      path.c_str(), bytes_text(size_of_file(path)).c_str(), cli::count_text(other).c_str(),
      cli::count_text(w.test_count).c_str());
  if (other > 0)
    return internal("the exported model answers otherwise than the one that was exported");
  return {};
}

// The network in two: all but the last layer, and the last layer.
struct Halves {
  Model body, head;
  std::string features;  // the head's input
};

Result<Halves> split_last_layer(const Model& model, int64_t features) {
  const Graph& g = model.graph;
  const ValueId weight = g.find("fc.weight");
  const auto uses = [&](const Node& n) {
    return std::find(n.inputs.begin(), n.inputs.end(), weight) != n.inputs.end();
  };
  const auto last = std::find_if(g.nodes.begin(), g.nodes.end(), uses);
  if (weight == kNone || last == g.nodes.end() || last->inputs.size() < 2)
    return invalid("{}: the model has no last layer 'fc'", model.graph.name);
  Halves h{.body = model, .head = {}, .features = "features"};
  h.body.graph.outputs = {{.value = last->inputs[0], .name = h.features}};

  Graph& head = h.head.graph;
  Builder b(head, Composites::keep);
  std::vector<Value> in = {b.input({DType::f32, {head.dim("N"), features}}, h.features)};
  for (size_t i = 1; i < last->inputs.size(); ++i) {
    const ValueInfo& state = g.value(last->inputs[i]);
    in.push_back(b.state(StateRole::parameter, state.data, state.name));
  }
  b.output(b.emit(*last->op, in, last->attrs), "logits");
  HONE_TRY(b.status());
  return h;
}

// The last layer alone, from 20 images of each class.
Status personal(const Work& w, const Model& base, const Judgement& before) {
  heading(6, "A personal step");
  constexpr int64_t kEach = 20, kFeatures = 576, kCount = kEach * kClasses, kSteps = 150,
                    kBatch = 40;
  HONE_ASSIGN(Halves halves, split_last_layer(base, kFeatures));

  // 20 of each class, drawn at random from the training images.
  std::vector<int64_t> order(static_cast<size_t>(w.train->size())), chosen;
  for (size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int64_t>(i);
  std::mt19937 random(1);
  std::shuffle(order.begin(), order.end(), random);
  std::array<int64_t, kClasses> taken{};
  for (int64_t i : order)
    if (taken[static_cast<size_t>(w.train->label(i))]++ < kEach) chosen.push_back(i);
  if (static_cast<int64_t>(chosen.size()) != kCount)
    return invalid("the training images lack {} of each class", kEach);

  const auto start = std::chrono::steady_clock::now();
  HONE_ASSIGN(TensorData images, TensorData::allocate({DType::f32, {kCount, 1, kSide, kSide}}));
  HONE_ASSIGN(TensorData labels, TensorData::allocate({DType::i64, {kCount}}));
  for (int64_t i = 0; i < kCount; ++i) {
    const std::array<TensorView, 2> into = {
        TensorView{{DType::f32, {1, kSide, kSide}}, images.as_mutable<float>() + i * kSide * kSide},
        TensorView{{DType::i64, {}}, labels.as_mutable<int64_t>() + i}};
    HONE_TRY(w.train->read(chosen[static_cast<size_t>(i)], into));
  }
  HONE_ASSIGN(Session body, Session::create(halves.body, w.session));
  HONE_ASSIGN(std::vector<TensorData> features, body.run(std::span<const TensorData>(&images, 1)));

  HONE_ASSIGN(std::shared_ptr<const Dataset> samples,
              make_tensor_dataset({{halves.features, features[0]}, {"label", labels}}));
  HONE_ASSIGN(DataLoader loader, DataLoader::create(samples, {.batch = kBatch, .seed = 1}));
  TrainerOptions options;
  HONE_ASSIGN(options.loss, parse_loss("cross_entropy(logits, label)"));
  options.optimizer = {.kind = OptimizerKind::sgd, .lr = 3e-3, .momentum = 0.9};
  options.schedule = schedule::warm_up_cosine(options.optimizer.lr, kSteps / 10, kSteps);
  options.session = w.session;
  HONE_ASSIGN(Trainer trainer, Trainer::create(halves.head, options));
  for (int64_t i = 0; i < kSteps; ++i) {
    HONE_ASSIGN(std::span<const NamedTensor> batch, loader.next());
    HONE_TRY(trainer.step(batch).status());
  }
  HONE_ASSIGN(const Model head, trainer.snapshot());
  const double seconds = seconds_since(start);

  Model mine = base;
  for (ValueId v : head.graph.states(StateRole::parameter)) {
    const ValueInfo& learned = head.graph.value(v);
    mine.graph.value(mine.graph.find(learned.name)).data = learned.data;
  }
  const std::string path = w.file("personal.delta");
  HONE_TRY(save_delta(base, mine, path));
  HONE_ASSIGN(const Judgement after, judge(mine, w.test, w.test_count, w.session));
  HONE_ASSIGN(Model fresh, load_model(w.file("base.hone")));
  HONE_TRY(apply_delta(fresh, path));
  HONE_ASSIGN(const Judgement applied, judge(fresh, w.test, w.test_count, w.session));
  if (applied.logits != after.logits)
    return internal("the base with the delta answers otherwise than the model that was adapted");

  std::printf(
      "Back to the model as it came. This time there are only 20 sneakers and 20 bags to learn "
      "from, as\n"
      "if one person had photographed them, and 20 images of each class it knows, so that it does "
      "not\n"
      "forget those. Only the last layer learns; the rest runs once for each image. That took %.2f "
      "s.\n",
      seconds);
  print_classes({"class", "before", "after"}, {&before, &after});
  std::printf(
      "Sneakers and bags: %s before, %s after. What is new fits in %.1f KB (%s); the model\n"
      "itself is %.1f KB. Put over a fresh copy of the base, it gives the same answers to the "
      "bit.\n",
      percent(before.accuracy_of_new()).c_str(), percent(after.accuracy_of_new()).c_str(),
      static_cast<double>(size_of_file(path)) / 1000, path.c_str(),
      static_cast<double>(size_of_file(w.file("base.hone"))) / 1000);
  if (after.accuracy() <= before.accuracy())
    return internal("the personal step made the model no better");
  return {};
}

Status run(Work& w) {
  std::error_code problem;
  std::filesystem::create_directories(w.options.out, problem);
  if (problem) return io_error("cannot make the folder {}: {}", w.options.out, problem.message());
  HONE_ASSIGN(const Model base, convert(w));
  HONE_ASSIGN(const Judgement before, look_at(w, base));
  HONE_ASSIGN(const Tuned tuned, fine_tune(w, base, before));
  HONE_TRY(use(w, tuned));
  HONE_TRY(give_back(w, tuned));
  HONE_TRY(personal(w, base, before));

  const double goal = w.options.quick ? 0.8 : kGoal, reached = tuned.judgement.accuracy();
  if (reached < goal)
    return internal("the fine-tuned model names {} of the test images correctly; {} was the goal",
                    percent(reached), percent(goal));
  std::printf(
      "\nDone: %s of the test images right after fine-tuning (the goal was %s). Results: %s\n",
      percent(reached).c_str(), percent(goal).c_str(), w.options.out.c_str());
  return {};
}

int complain(const Status& status, int exit_code) {
  std::fflush(stdout);
  std::fprintf(stderr, "hone_personalise: %s\n", status.message().c_str());
  return exit_code;
}

}  // namespace

int main(int argc, char** argv) {
  const Result<Options> options = parse(argc, argv);
  if (!options.ok()) return complain(options.status(), kExitUsage);
  if (options->help) return std::fputs(kHelp, stdout), 0;

  Work w{.options = *options, .session = {}, .train = nullptr, .test = nullptr};
  w.session.threads = w.options.threads;
  for (auto [part, into] : {std::pair{"train", &w.train}, std::pair{"t10k", &w.test}}) {
    Result<PicturesPtr> pictures = read_pictures(w.options.data, part);
    if (!pictures.ok())
      return complain(pictures.status(),
                      pictures.status().code() == Code::not_found ? kExitNoData : 1);
    *into = *pictures;
  }
  w.train_count = std::min<int64_t>(w.train->size(), w.options.quick ? 6000 : 60000);
  w.test_count = std::min<int64_t>(w.test->size(), w.options.quick ? 2000 : 10000);
  const Status status = run(w);
  return status.ok() ? 0 : complain(status, 1);
}
