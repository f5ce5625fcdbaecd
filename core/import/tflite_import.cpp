// SPDX-License-Identifier: Apache-2.0
// From a TensorFlow Lite model to Hone's graph, operator by operator. Everything Hone lacks is
// gathered on the way, so that one error can list it all.
#include <algorithm>

#include "core/base/file.hpp"
#include "core/base/platform.hpp"
#include "core/base/sha256.hpp"
#include "core/import/tflite_ctx.hpp"
#include "hone/control.hpp"
#include "hone/simplify.hpp"
#include "hone/specialise.hpp"

namespace hone {

namespace tflite {

namespace {

// Bodies may have bodies: so deep, and with so many operators and tensors in all, that a small
// file cannot unfold into an endless graph.
constexpr int kMaxDepth = 16;
constexpr int64_t kMaxUnfolded = int64_t{1} << 23;

const ImportRule* find_rule(Builtin code) {
  const ImportRule* found = nullptr;
  const auto look_in = [&](std::span<const ImportRule> rules) {
    for (const ImportRule& r : rules)
      if (r.code == code) found = &r;
  };
#define HONE_TFLITE_FAMILY(name) look_in(name##_imports());
  HONE_TFLITE_FAMILIES(HONE_TFLITE_FAMILY)
#undef HONE_TFLITE_FAMILY
  return found;
}

struct Drawing {
  Graph graph;
  Builder builder{graph, Composites::keep};
};

// Something in the file that Hone lacks: "LSTM", and where: "operator 3 'lstm_1'".
struct Missing {
  std::string what;
  std::string where;
};

class Importer {
 public:
  Importer(File& file, const OnnxImportOptions& options)
      : Importer(file, options, std::make_unique<Drawing>(), nullptr) {
    b_.set_fold_limit(kFoldLimitBytes);
  }

  // For a body of an operator that stands in `outer`.
  Importer(Importer& outer, File& body) : Importer(body, outer.options_) {
    state_.outer = &outer.state_;
    depth_ = outer.depth_ + 1;
    unfolded_ = outer.unfolded_;
  }

  // For what a body makes of `inputs`, values of `host`, in the host's graph.
  Importer(Importer& host, File& body, std::vector<Value> inputs)
      : Importer(body, host.options_, nullptr, &host) {
    state_.host = &host.state_;
    given_ = std::move(inputs);
    depth_ = host.depth_ + 1;
    unfolded_ = host.unfolded_;
  }

  Result<Graph> run() {
    HONE_TRY(import_graph());
    if (!missing_.empty()) return missing_error();
    HONE_TRY(remove_dead(graph_));
    return std::move(graph_);
  }

 private:
  Importer(File& file, const OnnxImportOptions& options, std::unique_ptr<Drawing> own,
           Importer* host)
      : file_(file),
        options_(options),
        own_(std::move(own)),
        graph_(own_ ? own_->graph : host->graph_),
        b_(own_ ? own_->builder : host->b_),
        state_(file, b_),
        made_(static_cast<size_t>(file.tensors())) {}

  Status import_graph() {
    unfolded_ += int64_t{1} + file_.operators() + file_.tensors();
    if (unfolded_ > kMaxUnfolded)
      return invalid_model("with its bodies the model has more than {} operators and tensors",
                           kMaxUnfolded);
    if (own_ && file_.graph().name()) graph_.name = file_.graph().name()->str();
    find_constants();
    state_.weights = classify_weights(state_, options_);
    HONE_TRY(add_inputs());
    for (int i = 0; i < file_.operators(); ++i) {
      const Status status = import_operator(file_.op(i), i);
      // Behind what is missing stand tensors of which only the file says what they are.
      if (!status.ok() && !missing_.empty()) return {};
      HONE_TRY(status);
    }
    if (!missing_.empty()) return {};
    HONE_TRY(add_outputs());
    return builder_status();
  }

  bool is_body() const { return state_.outer || state_.host; }
  Held& held(int tensor) { return state_.held[static_cast<size_t>(tensor)]; }
  int& source(int tensor) { return state_.source[static_cast<size_t>(tensor)]; }

  // What has data is constant, and so is data that an operator only widens: float16, or whole
  // numbers with a scale.
  void find_constants() {
    for (int i = 0; i < file_.tensors(); ++i)
      if (file_.has_data(i)) source(i) = i;
    for (int i = 0; i < file_.operators(); ++i) {
      const schema::Operator& o = file_.op(i);
      const std::span<const int32_t> in = File::list(o.inputs()), out = File::list(o.outputs());
      if (file_.code(o) != Builtin::DEQUANTIZE || in.size() != 1 || out.size() != 1) continue;
      if (in[0] < 0 || !file_.has_data(in[0])) continue;
      const bool narrow = file_.dtype(in[0]) == DType::f16 || file_.quantization(in[0]);
      if (narrow && file_.dtype(out[0]) == DType::f32 && source(out[0]) < 0 &&
          file_.extents(in[0]) == file_.extents(out[0]))
        source(out[0]) = in[0];
    }
  }

  Status add_inputs() {
    size_t position = 0;
    for (const int32_t t : File::list(file_.graph().inputs())) {
      const std::string name(file_.name(t));
      if (made_[static_cast<size_t>(t)]) return invalid_model("the input '{}' occurs twice", name);
      if (source(t) >= 0) return invalid_model("the input '{}' has data", name);
      made_[static_cast<size_t>(t)] = true;
      if (const std::string lack = file_.lack(t); !lack.empty()) {
        missing_.push_back({format("an input {}", lack), format("'{}'", name)});
        continue;
      }
      if (state_.host) {
        held(t).plain = given_[position++];
        continue;
      }
      const std::string unique = state_.unique_name(t);
      if (state_.outer) {
        held(t).plain = b_.untyped_input(unique);
        continue;
      }
      HONE_ASSIGN(const Value v, add_input(t, *file_.dtype(t), unique));
      const auto q = file_.quantization(t);
      if (!q) held(t).plain = v;
      if (!q) continue;
      held(t).stored = v;
      if (q->dtype != DType::i64) held(t).plain = state_.dequantize(v, *q, q->axis);
    }
    return {};
  }

  // An input of the graph with the shape of a tensor of the file.
  Result<Value> add_input(int t, DType dtype, const std::string& name) {
    std::vector<int64_t> extents = file_.extents(t);
    for (size_t axis = 0; axis < extents.size(); ++axis)
      if (extents[axis] < 0)
        extents[axis] = graph_.dim(axis == 0 ? "batch" : format("{}_{}", name, axis));
    auto shape = Shape::make(extents);
    if (!shape.ok()) return shape.status().with_context(format("'{}'", file_.name(t)));
    return b_.input({dtype, *shape}, name);
  }

  // For real numbers that nothing makes, so that what reads them can be looked into; the graph is
  // of no use then. Of whole numbers rules want to know which they are.
  void stand_in(int t) {
    held(t) = {};
    const auto dtype = file_.dtype(t);
    if (!file_.quantization(t) && !(dtype && is_float(*dtype))) return;
    auto v = add_input(t, dtype && is_float(*dtype) ? *dtype : DType::f32, state_.unique_name(t));
    if (v.ok()) held(t).plain = *v;
  }

  // Tensors without elements need no data.
  bool is_empty(int t) const {
    const std::vector<int64_t> e = file_.extents(t);
    return std::find(e.begin(), e.end(), 0) != e.end();
  }

  // "operator 3 'conv_1'": the tensor of an operator.
  std::string place(int position, std::string_view name) const {
    const std::string graph =
        file_.graph_index() > 0 ? format(" of graph {}", file_.graph_index()) : std::string();
    return format("operator {}{} '{}'", position, graph, name);
  }

  Status check_inputs(const schema::Operator& o, std::string_view who) {
    for (const int32_t t : File::list(o.inputs())) {
      if (t < 0 || source(t) >= 0 || made_[static_cast<size_t>(t)]) continue;
      if (is_empty(t)) source(t) = t;
      if (source(t) < 0 && !file_.tensor(t).is_variable())
        return invalid_model("{}: no earlier operator makes its input '{}'", who, file_.name(t));
    }
    return {};
  }

  // Whether Hone can hold all tensors of an operator; lists those that it cannot.
  bool tensors_can_be_held(const schema::Operator& o, int position) {
    const size_t before = missing_.size();
    const auto look_at = [&](int32_t t) {
      if (t < 0) return;
      std::string lack = file_.lack(source(t) >= 0 ? source(t) : t);
      if (lack.empty() && file_.tensor(t).is_variable() && !made_[static_cast<size_t>(t)])
        lack = "that is a variable";
      if (lack.empty()) return;
      missing_.push_back(
          {format("{} on a tensor {}", file_.name_of(o), lack), place(position, file_.name(t))});
    };
    for (const int32_t t : File::list(o.inputs())) look_at(t);
    for (const int32_t t : File::list(o.outputs())) look_at(t);
    return missing_.size() == before;
  }

  // Whether there are values for all that the operator reads. What is not there is missing and
  // listed already.
  bool inputs_at_hand(const schema::Operator& o) {
    for (const int32_t t : File::list(o.inputs())) {
      if (t < 0 || source(t) >= 0) continue;
      const Held& h = held(t);
      if (!h.plain.valid() && !h.channels_first.valid() && !h.stored.valid()) return false;
    }
    return true;
  }

  Status import_operator(const schema::Operator& o, int position) {
    const std::span<const int32_t> outs = File::list(o.outputs());
    const std::string where = outs.empty() ? std::string() : std::string(file_.name(outs[0]));
    const std::string who = format("operator {} ({}, '{}')", position, file_.name_of(o), where);
    const bool widens = file_.code(o) == Builtin::DEQUANTIZE && outs.size() == 1 &&
                        source(outs[0]) >= 0 && source(outs[0]) != outs[0];
    if (widens) return {};  // see find_constants
    for (const int32_t t : outs)
      if (made_[static_cast<size_t>(t)] || source(t) >= 0)
        return invalid_model("{}: the tensor '{}' is there already", who, file_.name(t));
    HONE_TRY(check_inputs(o, who));
    const bool can_be_held = tensors_can_be_held(o, position);
    for (const int32_t t : outs) made_[static_cast<size_t>(t)] = true;
    b_.set_scope(where.empty() ? format("operator_{}", position) : where);
    const Builtin code = file_.code(o);
    const ImportRule* rule = find_rule(code);
    const bool has_bodies = code == Builtin::IF || code == Builtin::WHILE;
    if (!rule && !has_bodies) missing_.push_back({file_.name_of(o), place(position, where)});
    bool made = (rule || has_bodies) && can_be_held && inputs_at_hand(o);
    if (made && rule) {
      HONE_ASSIGN(made, import_by(*rule, o, who, position));
    } else if (made) {
      HONE_ASSIGN(made, code == Builtin::IF ? import_if(o, who) : import_while(o, who));
    }
    for (const int32_t t : outs) made ? give_name(t) : stand_in(t);
    return {};
  }

  // False when the operator is more than the rule can do, which is listed.
  Result<bool> import_by(const ImportRule& rule, const schema::Operator& o, std::string_view who,
                         int position) {
    const std::span<const int32_t> outs = File::list(o.outputs());
    ImportCtx c(state_, rule, o);
    rule.import(c);
    if (!c.status().ok()) return c.status().with_context(who);
    std::string lack = c.missing();
    if (lack.empty()) HONE_TRY(builder_status());
    for (const int32_t t : outs) {
      if (!lack.empty()) break;
      if (!held(t).plain.valid() && !held(t).channels_first.valid())
        lack = format("with the output '{}'", file_.name(t));
    }
    if (lack.empty()) return true;
    const std::string_view where = outs.empty() ? std::string_view() : file_.name(outs[0]);
    missing_.push_back({format("{} {}", file_.name_of(o), lack), place(position, where)});
    return false;
  }

  // ---- bodies

  // The value of a tensor in the file's layout; invalid when there is none.
  Result<Value> plain(int t) {
    Held& h = held(t);
    if (!h.plain.valid() && h.channels_first.valid())
      h.plain = b_.emit(op::transpose, {h.channels_first}, PermAttrs{{0, 2, 3, 1}});
    if (!h.plain.valid() && h.moved.valid()) return invalid_model("a kernel is used as a tensor");
    const auto q = state_.quantization(t);
    if (!h.plain.valid() && q && q->dtype == DType::i64)
      return unsupported("the int64 of '{}' have a scale", file_.name(t));
    if (!h.plain.valid() && source(t) >= 0) {
      HONE_ASSIGN(h.plain, state_.add_constant(t, {}));
    }
    return h.plain;
  }

  // The graph, taking `before` values that it does not use after its own inputs, then its weights,
  // then `after`.
  Result<GraphPtr> finish_body(size_t before, size_t after) {
    const size_t own = graph_.inputs.size() - state_.captured.size();
    const std::vector<ValueId> weights(graph_.inputs.begin() + static_cast<ptrdiff_t>(own),
                                       graph_.inputs.end());
    graph_.inputs.resize(own);
    for (size_t i = 0; i < before; ++i) (void)b_.untyped_input(state_.unique_name("unused"));
    graph_.inputs.insert(graph_.inputs.end(), weights.begin(), weights.end());
    for (size_t i = 0; i < after; ++i) (void)b_.untyped_input(state_.unique_name("unused"));
    HONE_TRY(remove_dead(graph_));
    return std::make_shared<const Graph>(std::move(graph_));
  }

  // Imports a body of the operator `who`, with `inputs` and `outputs` of these numbers.
  Status import_body(Importer& body, size_t inputs, size_t outputs, std::string_view who) {
    if (body.depth_ > kMaxDepth)
      return invalid_model("{}: bodies nest deeper than {}", who, kMaxDepth);
    const size_t has = File::list(body.file_.graph().inputs()).size();
    if (has != inputs || File::list(body.file_.graph().outputs()).size() != outputs)
      return invalid_model("{}: a body has {} inputs and {} outputs, expected {} and {}", who, has,
                           File::list(body.file_.graph().outputs()).size(), inputs, outputs);
    body.unfolded_ = unfolded_;
    const Status status = body.import_graph();
    if (!status.ok()) return status.with_context(who);
    unfolded_ = body.unfolded_;
    for (Missing& m : body.missing_) missing_.push_back(std::move(m));
    return {};
  }

  // What the operator reads, in the file's layout.
  Result<std::vector<Value>> plain_inputs(const schema::Operator& o) {
    std::vector<Value> values;
    for (const int32_t t : File::list(o.inputs())) {
      HONE_ASSIGN(values.emplace_back(), plain(t));
    }
    return values;
  }

  // Sets the operator's outputs to those of the node that its bodies have become.
  Result<bool> emit_control(const schema::Operator& o, const OpDef& op,
                            const std::vector<Value>& inputs, Attrs attrs) {
    const std::span<const int32_t> outs = File::list(o.outputs());
    const std::vector<Value> made =
        b_.emit_all(op, inputs, std::move(attrs), static_cast<int>(outs.size()));
    HONE_TRY(builder_status());
    HONE_ENSURE(made.size() == outs.size());
    for (size_t k = 0; k < outs.size(); ++k) held(outs[k]).plain = made[k];
    return true;
  }

  // Inputs: condition, what both branches take.
  Result<bool> import_if(const schema::Operator& o, const std::string& who) {
    const auto* branches = o.options_as<schema::IfOptions>();
    const std::span<const int32_t> in = File::list(o.inputs()), outs = File::list(o.outputs());
    if (!branches || in.empty() || std::find(in.begin(), in.end(), -1) != in.end())
      return invalid_model("{}: needs a condition, inputs and two branches", who);
    HONE_ASSIGN(File yes, file_.body(branches->then_graph()));
    HONE_ASSIGN(File no, file_.body(branches->else_graph()));
    Importer then_(*this, yes), else_(*this, no);
    HONE_TRY(import_body(then_, in.size() - 1, outs.size(), who));
    HONE_TRY(import_body(else_, in.size() - 1, outs.size(), who));
    if (!missing_.empty()) return false;
    HONE_ASSIGN(std::vector<Value> inputs, plain_inputs(o));
    const size_t first = then_.state_.captured.size(), second = else_.state_.captured.size();
    for (const Importer* branch : {&then_, &else_})
      inputs.insert(inputs.end(), branch->state_.captured.begin(), branch->state_.captured.end());
    HONE_ASSIGN(GraphPtr then_graph, then_.finish_body(0, second));
    HONE_ASSIGN(GraphPtr else_graph, else_.finish_body(first, 0));
    return emit_control(o, op::if_else, inputs, IfAttrs{then_graph, else_graph});
  }

  // The body's outputs are its next inputs. The condition, a graph of its own, is computed before
  // the loop, and in the body of what that gives.
  Result<bool> import_while(const schema::Operator& o, const std::string& who) {
    const auto* graphs = o.options_as<schema::WhileOptions>();
    const std::span<const int32_t> in = File::list(o.inputs());
    const size_t carried = in.size();
    if (!graphs || carried == 0 || std::find(in.begin(), in.end(), -1) != in.end() ||
        File::list(o.outputs()).size() != carried)
      return invalid_model("{}: needs a condition, a body, and as many outputs as inputs", who);
    HONE_ASSIGN(File test, file_.body(graphs->condition_graph()));
    HONE_ASSIGN(File step, file_.body(graphs->body_graph()));
    HONE_ASSIGN(std::vector<Value> inputs, plain_inputs(o));
    Importer first(*this, test, inputs), body(*this, step);
    HONE_TRY(import_body(first, carried, 1, who));
    HONE_TRY(import_body(body, carried, carried, who));
    if (!missing_.empty()) return false;
    std::vector<Value> next;
    for (const GraphOutput& v : body.graph_.outputs) next.emplace_back(&body.b_, v.value);
    Importer again(body, test, std::move(next));
    HONE_TRY(body.import_body(again, carried, 1, who));
    unfolded_ = body.unfolded_;
    HONE_ASSIGN(GraphPtr graph, body.finish_loop(again.results_[0]));
    inputs.insert(inputs.begin(), {Value(), first.results_[0]});
    inputs.insert(inputs.end(), body.state_.captured.begin(), body.state_.captured.end());
    return emit_control(o, op::loop, inputs, LoopAttrs{graph, static_cast<int64_t>(carried)});
  }

  // Puts `condition` before the outputs, the iteration and the last condition before the inputs.
  Result<GraphPtr> finish_loop(Value condition) {
    b_.output(condition, "condition");
    std::rotate(graph_.outputs.begin(), graph_.outputs.end() - 1, graph_.outputs.end());
    for (const char* name : {"iteration", "last_condition"})
      (void)b_.untyped_input(state_.unique_name(name));
    std::rotate(graph_.inputs.begin(), graph_.inputs.end() - 2, graph_.inputs.end());
    return finish_body(0, 0);
  }

  void give_name(int tensor) {
    const Held& h = held(tensor);
    ValueInfo& info = graph_.value((h.plain.valid() ? h.plain : h.channels_first).id());
    if (info.kind == ValueKind::node && info.name.empty()) info.name = state_.unique_name(tensor);
  }

  Status add_outputs() {
    b_.set_scope("outputs");
    for (const int32_t t : File::list(file_.graph().outputs())) {
      std::string name =
          file_.name(t).empty() ? format("tensor_{}", t) : std::string(file_.name(t));
      if (is_body()) name = format("out_{}", graph_.outputs.size());
      if (!state_.host && graph_.find_output(name) >= 0)
        return invalid_model("the output '{}' occurs twice", name);
      const std::string lack = file_.lack(t);
      if (!lack.empty()) return unsupported("the output '{}' is {}", name, lack);
      const bool is_stored = !is_body() && held(t).stored.valid();
      HONE_ASSIGN(Value v, is_stored ? held(t).stored : plain(t));
      HONE_TRY(builder_status());
      const auto q = file_.quantization(t);
      // Bodies hand real numbers on.
      if (v.valid() && q && !is_body() && !is_stored) v = state_.quantize(v, *q, q->axis);
      if (!v.valid()) return invalid_model("nothing makes the output '{}'", name);
      state_.host ? results_.push_back(v) : b_.output(v, name);
    }
    return {};
  }

  // A file that no operator accepts is a bad file, whatever an operator says of its arguments.
  Status builder_status() const {
    const Status& s = b_.status();
    return s.code() == Code::invalid_argument ? invalid_model("{}", s.message()) : s;
  }

  // "LSTM (operator 1 'lstm_1', operator 2 'lstm_2'), the custom operator 'Foo' (operator 7 'x')".
  Status missing_error() const {
    std::vector<std::string> kinds;
    for (const Missing& m : missing_)
      if (std::find(kinds.begin(), kinds.end(), m.what) == kinds.end()) kinds.push_back(m.what);
    std::string list;
    for (const std::string& kind : kinds) {
      std::string places;
      for (const Missing& m : missing_)
        if (m.what == kind) places += format("{}{}", places.empty() ? "" : ", ", m.where);
      list += format("{}{} ({})", list.empty() ? "" : ", ", kind, places);
    }
    return unsupported("the model needs what cannot be imported: {}", list);
  }

  File& file_;
  const OnnxImportOptions& options_;
  const std::unique_ptr<Drawing> own_;  // none where the graph is the host's
  Graph& graph_;
  Builder& b_;
  ImportState state_;
  std::vector<Value> given_, results_;  // in a host's graph: inputs and outputs
  std::vector<bool> made_;              // by tensor: an input, or an operator's output
  std::vector<Missing> missing_;
  int depth_ = 0;  // of bodies
  int64_t unfolded_ = 0;
};

}  // namespace

}  // namespace tflite

Result<Model> import_tflite(std::span<const std::byte> bytes, std::shared_ptr<const void> owner,
                            const OnnxImportOptions& options) {
  HONE_ASSIGN(tflite::File file, tflite::File::open(bytes, std::move(owner)));
  Model model;
  HONE_ASSIGN(model.graph, tflite::Importer(file, options).run());
  using Simplify = OnnxImportOptions::Simplify;
  if (options.simplify != Simplify::nothing)
    HONE_TRY(simplify(model.graph, {.recognise = options.simplify == Simplify::fully}).status());
  if (const auto* text = file.model().description())
    model.metadata["producer"] = format("TensorFlow Lite: {}", text->string_view());
  model.metadata["source_sha256"] = to_hex(sha256(bytes));
  return model;
}

Result<Model> import_tflite(const std::string& path, const OnnxImportOptions& options) {
  HONE_ASSIGN(const MappedFile file, MappedFile::open(path));
  auto model = import_tflite(file.bytes(), file.owner(), options);
  if (!model.ok()) return model.status().with_context(path);
  model->metadata["source"] = path.substr(path.find_last_of('/') + 1);  // npos + 1 is 0
  platform::release_pages(file.bytes().data(), static_cast<int64_t>(file.bytes().size()));
  return model;
}

}  // namespace hone
