// SPDX-License-Identifier: Apache-2.0
// The comparisons of eager_compare.hpp. Allowed are the distances of tests/lab/check.py.
#include "tests/lab/eager_compare.hpp"

#include <cmath>
#include <cstring>

#include "core/base/file.hpp"
#include "hone/loss_text.hpp"
#include "hone/onnx.hpp"
#include "hone/optim.hpp"
#include "hone/trainer.hpp"
#include "hone/weights.hpp"

namespace hone::lab {

namespace {

constexpr double kOutputTolerance = 1e-4;  // of the largest element
constexpr double kGradientTolerance = 1e-4, kGradientSlack = 4;
constexpr double kLossTolerance = 1e-5, kLossSlack = 4;
constexpr double kDoubleLossTolerance = 1e-9;  // both runs in f64, without room for drift

constexpr std::string_view kColumns[] = {"output",     "imported", "traced",   "gradients",
                                         "g:imported", "g:traced", "bn stats", "sgd",
                                         "adamw",      "sgd f64",  "adamw f64"};

// Largest difference relative to the largest element of `want`, as a share of the tolerance.
Status add_distance(Finding& f, const std::string& name, const TensorData& got,
                    const TensorData& want) {
  if (got.type() != want.type())
    return invalid("{} is {}, expected {}", name, got.type(), want.type());
  double largest = 1e-30, difference = 0;
  for (int64_t i = 0; i < want.numel(); ++i) {
    largest = std::max(largest, std::fabs(want.at(i)));
    const double d = std::fabs(got.at(i) - want.at(i));
    if (!(d <= difference)) difference = d;  // NaN stays
  }
  const double share = difference / largest / kOutputTolerance;
  if (!(share <= f.share)) f.share = share, f.where = name;
  f.same_bits =
      f.same_bits && std::memcmp(got.data(), want.data(), static_cast<size_t>(want.bytes())) == 0;
  return {};
}

double norm(const TensorData& t) {
  double sum = 0;
  for (int64_t i = 0; i < t.numel(); ++i) sum += t.at(i) * t.at(i);
  return std::sqrt(sum);
}

class Comparison {
 public:
  Comparison(const EagerModel& model, const std::string& folder, const CompareOptions& options)
      : model_(model), folder_(folder), options_(options), rng_(1) {}

  Result<std::vector<Finding>> run() {
    HONE_ASSIGN(imported_, import_onnx(folder_ + "/model.onnx"));
    start_ = weights(imported_);
    net_ = model_.make(rng_);
    HONE_TRY(load());
    HONE_ASSIGN(inputs_, NpzReader::open(folder_ + "/input.npz"));
    HONE_ASSIGN(outputs_, NpzReader::open(folder_ + "/output.npz"));
    HONE_ASSIGN(train_, NpzReader::open(folder_ + "/train.npz"));
    HONE_TRY(compare_outputs());
    HONE_TRY(read_batch());
    HONE_TRY(compare_gradients());
    HONE_TRY(compare_losses("sgd", DType::f32));
    HONE_TRY(compare_losses("adamw", DType::f32));
    if (options_.f64) {
      HONE_TRY(compare_losses("sgd", DType::f64));
      HONE_TRY(compare_losses("adamw", DType::f64));
    }
    return std::move(findings_);
  }

 private:
  // The weights of the ONNX file.
  Status load() {
    HONE_TRY(net_->load_state_dict(start_).with_context("loading the ONNX file's weights"));
    if (options_.spoil) {
      NoGrad no_grad;
      net_->parameters()[0].mul_(1.01);
    }
    return {};
  }

  Finding& finding(std::string_view what) {
    findings_.push_back({what, 0, true, ""});
    return findings_.back();
  }

  Result<std::vector<Tensor>> inputs_from(const NpzReader& file, const std::string& prefix) const {
    std::vector<Tensor> out;
    for (ValueId v : imported_.graph.inputs) {
      HONE_ASSIGN(TensorData data, file.read(prefix + imported_.graph.value(v).name));
      out.emplace_back(std::move(data));
    }
    return out;
  }

  // ---- outputs in inference mode

  Status compare_outputs() {
    net_->eval();
    HONE_ASSIGN(const std::vector<Tensor> x, inputs_from(inputs_, ""));
    std::vector<Tensor> y;
    {
      NoGrad no_grad;
      y = model_.run(*net_, x);
    }
    for (const Tensor& t : y) HONE_TRY(t.status());
    Finding& reference = finding("output");
    for (size_t i = 0; i < y.size(); ++i) {
      const std::string& name = imported_.graph.outputs[i].name;
      HONE_ASSIGN(const TensorData want, outputs_.read(name));
      HONE_TRY(add_distance(reference, name, y[i].data(), want));
    }
    HONE_TRY(compare_session(finding("imported"), imported_, x, y));
    HONE_TRY(trace_to_file(x));
    return compare_session(finding("traced"), traced_, x, y);
  }

  Status compare_session(Finding& f, const Model& model, std::span<const Tensor> x,
                         std::span<const Tensor> y) const {
    HONE_ASSIGN(Session session, Session::create(model, {.threads = options_.threads}));
    std::vector<TensorData> in;
    for (const Tensor& t : x) in.push_back(t.data());
    HONE_ASSIGN(const std::vector<TensorData> out, session.run(in));
    if (out.size() != y.size()) return invalid("{} outputs, expected {}", out.size(), y.size());
    for (size_t i = 0; i < out.size(); ++i)
      HONE_TRY(add_distance(f, model.graph.outputs[i].name, y[i].data(), out[i]));
    return {};
  }

  // One run is recorded with a free batch, written, and opened again.
  Status trace_to_file(std::span<const Tensor> x) {
    std::vector<TraceInput> inputs;
    std::vector<std::string> names;
    for (size_t i = 0; i < x.size(); ++i)
      inputs.push_back({imported_.graph.value(imported_.graph.inputs[i]).name, x[i], {"N"}});
    for (const GraphOutput& o : imported_.graph.outputs) names.push_back(o.name);
    const auto forward = [&](std::span<const Tensor> in) { return model_.run(*net_, in); };
    HONE_ASSIGN(const Model traced, nn::trace(*net_, forward, inputs, names));
    const std::string path = format("{}/{}.hone", options_.work, model_.name);
    HONE_TRY(save_model(traced, path));
    HONE_ASSIGN(traced_, load_model(path));
    return {};
  }

  // ---- the first step's gradients

  Status read_batch() {
    HONE_ASSIGN(x_, inputs_from(train_, "in/"));
    for (size_t i = 0; i < x_.size(); ++i)
      batch_.push_back({imported_.graph.value(imported_.graph.inputs[i]).name, x_[i].data()});
    for (const std::string& name : train_.names()) {
      if (!name.starts_with("target/")) continue;
      HONE_ASSIGN(TensorData data, train_.read(name));
      batch_.push_back({name, std::move(data)});
    }
    return {};
  }

  Tensor loss() {
    const auto target = [&](const std::string& name) {
      for (const NamedTensor& t : batch_)
        if (t.name == "target/" + name) {
          const Tensor value(t.data);  // the model's outputs may be f64
          return is_float(value.dtype()) ? value.to(net_->parameters()[0].dtype()) : value;
        }
      return Tensor::error(not_found("train.npz has no target '{}'", name));
    };
    const std::vector<Tensor> y = model_.run(*net_, x_);
    for (const Tensor& t : y)
      if (!t.ok()) return t;
    return model_.loss(y, target);
  }

  Status compare_gradients() {
    HONE_TRY(load());
    net_->train();
    HONE_TRY(loss().backward());
    HONE_ASSIGN(const std::vector<std::string> names, train_.read_strings("params"));
    HONE_ASSIGN(const TensorData own_error, train_.read("gradrel"));
    std::vector<NamedTensor> reference, eager;
    for (const std::string& name : names) {
      HONE_ASSIGN(TensorData want, train_.read("grad/" + name));
      reference.push_back({name, std::move(want)});
    }
    for (const nn::NamedMember& m : net_->named_parameters()) {
      if (!m.tensor.grad().defined()) return invalid("{} got no gradient", m.name);
      eager.push_back({m.name, m.tensor.grad().data()});
    }
    HONE_TRY(add_gradients(finding("gradients"), eager, reference, reference, own_error));
    HONE_ASSIGN(const std::string text, loss_text());
    const auto planned = [&](std::string_view what, const Model& model) -> Status {
      TrainerOptions options;
      HONE_ASSIGN(options.loss, parse_loss(text));
      options.session.threads = options_.threads;
      HONE_ASSIGN(Trainer trainer, Trainer::create(model, options));
      HONE_ASSIGN(const std::vector<NamedTensor> other, trainer.gradients(batch_));
      return add_gradients(finding(what), eager, other, reference, own_error);
    };
    HONE_TRY(planned("g:imported", imported_));
    HONE_TRY(planned("g:traced", traced_));
    Finding& statistics = finding("bn stats");
    for (const nn::NamedMember& m : net_->named_buffers()) {
      const std::string name = "bn1/" + m.name;
      if (!train_.contains(name)) continue;
      HONE_ASSIGN(const TensorData want, train_.read(name));
      HONE_TRY(add_distance(statistics, m.name, m.tensor.data(), want));
    }
    return {};
  }

  // The norm of the difference by that of `want`, as a share of what PyTorch's own error allows.
  // Gradients that are zero but for rounding are measured against the whole gradient's norm.
  static Status add_gradients(Finding& f, std::span<const NamedTensor> got,
                              std::span<const NamedTensor> want,
                              std::span<const NamedTensor> reference, const TensorData& own_error) {
    double whole = 0;
    for (const NamedTensor& t : reference) whole = std::hypot(whole, norm(t.data));
    for (size_t i = 0; i < reference.size(); ++i) {
      const auto find = [&](std::span<const NamedTensor> list) -> const TensorData* {
        for (const NamedTensor& t : list)
          if (t.name == reference[i].name) return &t.data;
        return nullptr;
      };
      const TensorData *a = find(got), *b = find(want);
      if (!a || !b) return not_found("there is no gradient of {}", reference[i].name);
      if (a->type() != b->type())
        return invalid("the gradient of {} is {}, expected {}", reference[i].name, a->type(),
                       b->type());
      double squares = 0;
      for (int64_t k = 0; k < a->numel(); ++k) squares += std::pow(a->at(k) - b->at(k), 2);
      const double error = std::sqrt(squares) / std::max(norm(*b), 1e-6 * whole);
      const double allowed =
          std::max(kGradientTolerance, kGradientSlack * own_error.at(static_cast<int64_t>(i)));
      const double share = error / allowed;
      if (!(share <= f.share)) {
        f.share = share;
        f.where = format("{}: {}, allowed {}", reference[i].name, error, allowed);
      }
      f.same_bits = f.same_bits && squares == 0;
    }
    return {};
  }

  Result<std::string> loss_text() const {
    HONE_ASSIGN(const std::string meta, read_file(folder_ + "/meta.json"));
    constexpr std::string_view kKey = "\"loss\": \"";
    const size_t at = meta.find(kKey);
    if (at == std::string::npos) return not_found("meta.json has no loss");
    const size_t begin = at + kKey.size();
    return meta.substr(begin, meta.find('"', begin) - begin);
  }

  // ---- ten losses

  Status compare_losses(std::string_view kind, DType dtype) {
    net_->to(dtype);
    HONE_TRY(load());
    net_->train();
    for (Tensor& t : x_)
      if (is_float(t.dtype())) t = t.to(dtype);
    HONE_ASSIGN(const TensorData single, train_.read(format("{}/loss", kind)));
    HONE_ASSIGN(const TensorData want, train_.read(format("{}/loss64", kind)));
    const bool sgd = kind == "sgd", wide = dtype == DType::f64;
    Optimizer optimizer = sgd ? optim::momentum(net_->parameters(), 0.01, 0.9)
                              : optim::adamw(net_->parameters(), 1e-3, 0.01);
    Finding& f = finding(wide ? (sgd ? "sgd f64" : "adamw f64") : (sgd ? "sgd" : "adamw"));
    double drift = 0;  // of PyTorch's own fp32 run, up to this step
    for (int64_t step = 0; step < want.numel(); ++step) {
      optimizer.zero_grad();
      const Tensor l = loss();
      HONE_TRY(l.backward());
      HONE_TRY(optimizer.step());
      drift = std::max(drift, std::fabs(single.at(step) - want.at(step)));
      const double distance = std::fabs(l.item<double>() - want.at(step));
      const double share =
          distance / (wide ? kDoubleLossTolerance : kLossSlack * drift + kLossTolerance);
      f.same_bits = f.same_bits && distance == 0;
      if (!(share <= f.share)) {
        f.share = share;
        f.where =
            format("step {}: {}, the reference {}", step + 1, l.item<double>(), want.at(step));
      }
    }
    return {};
  }

  const EagerModel& model_;
  std::string folder_;
  CompareOptions options_;
  Generator rng_;
  Model imported_, traced_;
  std::vector<NamedTensor> start_;  // the ONNX file's weights
  std::unique_ptr<nn::Module> net_;
  NpzReader inputs_, outputs_, train_;
  std::vector<Tensor> x_;
  std::vector<NamedTensor> batch_;
  std::vector<Finding> findings_;
};

}  // namespace

std::span<const std::string_view> columns(bool f64) {
  return std::span(kColumns).first(f64 ? std::size(kColumns) : std::size(kColumns) - 2);
}

Result<std::vector<Finding>> compare(const EagerModel& model, const std::string& folder,
                                     const CompareOptions& options) {
  return Comparison(model, folder, options).run();
}

}  // namespace hone::lab
