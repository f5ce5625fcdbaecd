// SPDX-License-Identifier: Apache-2.0
// Data and judging for training commands.
#include "core/cli/training.hpp"

#include <algorithm>

#include "core/cli/terminal.hpp"
#include "hone/npz.hpp"

namespace hone::cli {

Result<std::shared_ptr<const Dataset>> open_data(const std::string& path, const Graph& g,
                                                 const std::vector<LossTerm>& loss) {
  HONE_ASSIGN(const NpzReader reader, NpzReader::open(path));
  const auto doubles = [](const ValueInfo& v) {
    return v.kind == ValueKind::state && v.data.defined() && v.data.dtype() == DType::f64;
  };
  const bool widen = std::any_of(g.values.begin(), g.values.end(), doubles);
  std::vector<NamedTensor> columns;
  const auto take = [&](const std::string& stored, const std::string& name) -> Status {
    for (const NamedTensor& c : columns)
      if (c.name == name) return {};
    HONE_ASSIGN(TensorData t, reader.read(stored));
    if (widen && is_float(t.dtype())) {
      HONE_ASSIGN(t, cast(t, DType::f64));
    }
    columns.push_back({name, std::move(t)});
    return {};
  };
  const auto missing = [&](const char* what, const std::string& name) {
    std::string names;
    for (const std::string& n : reader.names())
      names += format("{}'{}'", names.empty() ? "" : ", ", n);
    return invalid("{}: there is no array for the {} '{}'; there are {}", path, what, name,
                   names.empty() ? "none" : names);
  };
  for (ValueId v : g.inputs) {
    const std::string& name = g.value(v).name;
    if (reader.contains("in/" + name))
      HONE_TRY(take("in/" + name, name));
    else if (reader.contains(name))
      HONE_TRY(take(name, name));
    else
      return missing("model's input", name);
  }
  for (const LossTerm& t : loss)
    for (const std::string& name : {t.target, t.class_weights}) {
      if (name.empty()) continue;
      if (!reader.contains(name)) return missing("loss's target", name);
      HONE_TRY(take(name, name));
    }
  auto data = make_tensor_dataset(std::move(columns));
  if (!data.ok()) return data.status().with_context(path);
  return data;
}

std::string Score::text() const {
  std::string out = "loss " + number_text(loss);
  if (accuracy >= 0) out += ", accuracy " + number_text(100 * accuracy) + " %";
  return out;
}

namespace {

// How many labels the logits' largest entries along the class axis agree with; labels below 0
// (ignored) do not count.
Status count_correct(const TensorData& logits, const TensorData& labels, int64_t& correct,
                     int64_t& counted) {
  int axis = -1;
  for (int a = logits.shape().rank() > 1 ? 1 : 0; a < logits.shape().rank(); ++a) {
    Shape rest = logits.shape();
    rest.erase(a);
    if (rest == labels.shape()) axis = axis < 0 ? a : axis;
  }
  if (axis < 0)
    return invalid("labels of shape {} do not fit logits of shape {}", labels.shape(),
                   logits.shape());
  const int64_t classes = logits.shape()[axis];
  const int64_t outer = logits.shape().product(0, axis),
                inner = logits.shape().product(axis + 1, logits.shape().rank());
  for (int64_t o = 0; o < outer; ++o)
    for (int64_t i = 0; i < inner; ++i) {
      const int64_t label = labels.int_at(o * inner + i);
      if (label < 0) continue;
      int64_t best = 0;
      for (int64_t c = 1; c < classes; ++c)
        if (logits.at((o * classes + c) * inner + i) > logits.at((o * classes + best) * inner + i))
          best = c;
      correct += best == label;
      ++counted;
    }
  return {};
}

}  // namespace

Result<Score> judge(Trainer& trainer, std::shared_ptr<const Dataset> data,
                    const std::vector<LossTerm>& loss, int64_t batch) {
  HONE_ASSIGN(DataLoader loader,
              DataLoader::create(data, {.batch = batch, .order = Order::as_stored}));
  const auto classes = std::find_if(
      loss.begin(), loss.end(), [](const LossTerm& t) { return t.function == "cross_entropy"; });
  const int output =
      classes == loss.end() ? -1 : trainer.model().graph.find_output(classes->output);
  Score score;
  int64_t correct = 0, counted = 0;
  for (int64_t b = 0; b < loader.batches_per_epoch(); ++b) {
    HONE_ASSIGN(const std::span<const NamedTensor> items, loader.next());
    const int64_t n = items[0].data.shape()[0];
    HONE_ASSIGN(const double value, trainer.evaluate(items));
    score.loss += value * static_cast<double>(n);
    score.samples += n;
    if (output < 0) continue;
    HONE_ASSIGN(const std::vector<TensorData> outputs, trainer.predict(items));
    const auto labels = std::find_if(items.begin(), items.end(), [&](const NamedTensor& t) {
      return t.name == classes->target;
    });
    HONE_TRY(count_correct(outputs[static_cast<size_t>(output)], labels->data, correct, counted));
  }
  score.loss /= static_cast<double>(score.samples);
  if (counted > 0) score.accuracy = static_cast<double>(correct) / static_cast<double>(counted);
  return score;
}

}  // namespace hone::cli
