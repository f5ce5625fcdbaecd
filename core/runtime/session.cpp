// SPDX-License-Identifier: Apache-2.0
// Inference sessions.
#include "hone/session.hpp"

#include <algorithm>
#include <charconv>

#include "core/runtime/engine.hpp"

namespace hone {

Result<std::vector<DimLimit>> parse_dim_limits(std::string_view text) {
  std::vector<DimLimit> out;
  while (!text.empty()) {
    const std::string_view part = text.substr(0, text.find(','));
    text.remove_prefix(std::min(text.size(), part.size() + 1));
    const size_t equals = part.find('=');
    const std::string_view number = part.substr(std::min(part.size(), equals + 1));
    int64_t max = 0;
    const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), max);
    const bool whole = error == std::errc() && end == number.data() + number.size();
    if (equals == std::string_view::npos || equals == 0 || !whole)
      return invalid("the limit '{}': expected NAME=N, as in batch=16", part);
    out.push_back({std::string(part.substr(0, equals)), max});
  }
  return out;
}

Session::Session(std::unique_ptr<Engine> engine) : engine_(std::move(engine)) {}
Session::Session(Session&&) noexcept = default;
Session& Session::operator=(Session&&) noexcept = default;
Session::~Session() = default;

Result<Session> Session::create(const Model& model, const SessionOptions& options) {
  if (options.threads < 1 && !options.pool)
    return invalid("a session needs at least one thread, got {}", options.threads);
  HONE_TRY(check_limits(model.graph, options.max_dims));
  SessionOptions rest = options;
  rest.memory_limit = 0;
  Session session(std::make_unique<Engine>(model, rest));
  HONE_TRY(session.set_memory_limit(options.memory_limit));
  return session;
}

const Model& Session::model() const { return engine_->model(); }

namespace {

// Types of the inputs without allocating for the usual few.
class Types {
 public:
  explicit Types(std::span<const TensorData> inputs) {
    if (inputs.size() > kFew) many_.resize(inputs.size());
    TensorType* out = many_.empty() ? few_ : many_.data();
    for (size_t i = 0; i < inputs.size(); ++i) out[i] = inputs[i].type();
    types_ = {out, inputs.size()};
  }
  std::span<const TensorType> get() const { return types_; }

 private:
  static constexpr size_t kFew = 16;
  TensorType few_[kFew];
  std::vector<TensorType> many_;
  std::span<const TensorType> types_;
};

Status open_outputs() {
  return unsupported(
      "shapes in this model depend on its data: they are known only when it has been run");
}

Status check_defined(const Graph& g, std::span<const TensorData> inputs) {
  if (inputs.size() != g.inputs.size())
    return invalid("the model has {} inputs, got {}", g.inputs.size(), inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i)
    if (!inputs[i].defined()) return invalid("input '{}' is missing", g.value(g.inputs[i]).name);
  return {};
}

Status copy_outputs(const Graph& g, std::span<const TensorData> results,
                    std::span<TensorData> outputs) {
  if (outputs.size() != results.size())
    return invalid("the model has {} outputs, got room for {}", results.size(), outputs.size());
  for (size_t i = 0; i < results.size(); ++i)
    if (outputs[i].type() != results[i].type() || !outputs[i].mutable_data())
      return invalid("output '{}' is {}, got room for {}", g.outputs[i].name, results[i].type(),
                     outputs[i].type());
  for (size_t i = 0; i < results.size(); ++i)
    std::copy_n(static_cast<const char*>(results[i].data()), results[i].bytes(),
                static_cast<char*>(outputs[i].mutable_data()));
  return {};
}

}  // namespace

Status Session::run(std::span<const TensorData> inputs, std::span<TensorData> outputs) {
  HONE_TRY(check_defined(engine_->model().graph, inputs));
  const Types types(inputs);
  HONE_ASSIGN(Compiled* const c, engine_->infer_program(types.get()));
  if (c->depends_on_data) {
    HONE_ASSIGN(const std::vector<TensorData> results, engine_->run_staged(inputs));
    return copy_outputs(engine_->model().graph, results, outputs);
  }
  const Graph& g = c->program.graph;
  if (outputs.size() != g.outputs.size())
    return invalid("the model has {} outputs, got room for {}", g.outputs.size(), outputs.size());
  for (size_t i = 0; i < inputs.size(); ++i) c->input_pointers[i] = inputs[i].data();
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (outputs[i].type() != g.type(g.outputs[i].value) || !outputs[i].mutable_data())
      return invalid("output '{}' is {}, got room for {}", g.outputs[i].name,
                     g.type(g.outputs[i].value), outputs[i].type());
    c->output_pointers[i] = outputs[i].mutable_data();
  }
  return engine_->run(*c);
}

Result<std::vector<TensorData>> Session::run(std::span<const TensorData> inputs) {
  HONE_TRY(check_defined(engine_->model().graph, inputs));
  const Types types(inputs);
  HONE_ASSIGN(Compiled* const c, engine_->infer_program(types.get()));
  if (c->depends_on_data) return engine_->run_staged(inputs);
  std::vector<TensorData> outputs;
  for (const GraphOutput& o : c->program.graph.outputs) {
    HONE_ASSIGN(TensorData t, TensorData::allocate(c->program.graph.type(o.value)));
    outputs.push_back(std::move(t));
  }
  HONE_TRY(run(inputs, outputs));
  return outputs;
}

Result<std::vector<TensorData>> Session::run(std::span<const NamedTensor> inputs) {
  const Graph& g = engine_->model().graph;
  std::vector<TensorData> ordered(g.inputs.size());
  for (const NamedTensor& t : inputs) {
    size_t i = 0;
    while (i < g.inputs.size() && g.value(g.inputs[i]).name != t.name) ++i;
    if (i == g.inputs.size()) {
      std::string names;
      for (ValueId v : g.inputs)
        names += format("{}'{}'", names.empty() ? "" : ", ", g.value(v).name);
      return invalid("the model has no input '{}'; its inputs are {}", t.name, names);
    }
    ordered[i] = t.data;
  }
  return run(ordered);
}

Result<std::vector<TensorType>> Session::output_types(std::span<const Shape> input_shapes) {
  const Graph& g = engine_->model().graph;
  std::vector<TensorType> types;
  for (size_t i = 0; i < input_shapes.size() && i < g.inputs.size(); ++i)
    types.push_back({g.type(g.inputs[i]).dtype, input_shapes[i]});
  HONE_ASSIGN(Compiled* const c, engine_->infer_program(types));
  if (c->depends_on_data) return open_outputs();
  std::vector<TensorType> out;
  for (const GraphOutput& o : c->program.graph.outputs)
    out.push_back(c->program.graph.type(o.value));
  return out;
}

Status Session::set_memory_limit(int64_t bytes) {
  if (bytes < 0) return invalid("a memory limit must not be below 0, got {}", bytes);
  const std::vector<std::string> names = engine_->pageable(engine_->model().graph, {});
  const int64_t least = engine_->lasting_bytes({names.begin(), names.end()});
  if (bytes > 0 && least > bytes)
    return Status(Code::out_of_memory,
                  format("a memory limit of {} cannot be kept: the weights alone take {}",
                         bytes_text(bytes), bytes_text(least)));
  HONE_TRY(engine_->set_paged({}));
  engine_->set_memory_limit(bytes);
  for (auto* cache : engine_->caches) cache->clear();
  return {};
}

Result<Compiled*> Session::planned(std::span<const Shape> input_shapes) {
  const Graph& g = engine_->model().graph;
  std::vector<TensorType> types;
  for (size_t i = 0; i < input_shapes.size() && i < g.inputs.size(); ++i)
    types.push_back({g.type(g.inputs[i]).dtype, input_shapes[i]});
  HONE_ASSIGN(Compiled* const c, engine_->infer_program(types));
  if (c->depends_on_data) return open_outputs();
  return c;
}

void Session::start_profile(const ProfileOptions& options) { engine_->start_profile(options); }
void Session::stop_profile() { engine_->stop_profile(); }
Profile Session::profile() const { return engine_->profile(); }

Result<PlanInfo> Session::plan(std::span<const Shape> input_shapes) {
  HONE_ASSIGN(const Compiled* const c, planned(input_shapes));
  return engine_->info(*c);
}

Result<StoredPlan> Session::search_plan(std::span<const Shape> input_shapes, double seconds) {
  HONE_ASSIGN(Compiled* const c, planned(input_shapes));
  std::string name = "inference";
  for (size_t i = 0; i < input_shapes.size(); ++i)
    name +=
        format(" {} {}", c->program.graph.value(c->program.graph.inputs[i]).name, input_shapes[i]);
  return engine_->search_plan(*c, seconds, std::move(name));
}

Result<PlanDetail> Session::plan_detail(std::span<const Shape> input_shapes) {
  HONE_ASSIGN(const Compiled* const c, planned(input_shapes));
  return hone::plan_detail(c->program);
}

}  // namespace hone
