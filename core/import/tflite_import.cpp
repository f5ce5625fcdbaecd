// SPDX-License-Identifier: Apache-2.0
// From a TensorFlow Lite model to Hone's graph, operator by operator. Everything Hone lacks is
// gathered on the way, so that one error can list it all.
#include <algorithm>

#include "core/base/file.hpp"
#include "core/base/sha256.hpp"
#include "core/import/tflite_ctx.hpp"
#include "hone/simplify.hpp"
#include "hone/specialise.hpp"

namespace hone {

namespace tflite {

namespace {

constexpr int64_t kFoldLimitBytes = 64 << 10;

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

// Something in the file that Hone lacks: "LSTM", and the tensors it would have made.
struct Missing {
  std::string what;
  std::string where;
};

class Importer {
 public:
  Importer(File& file, const OnnxImportOptions& options)
      : file_(file),
        options_(options),
        b_(graph_, Composites::keep),
        state_(file, b_),
        made_(static_cast<size_t>(file.tensors())) {
    b_.set_fold_limit(kFoldLimitBytes);
  }

  Result<Graph> run() {
    if (file_.graph().name()) graph_.name = file_.graph().name()->str();
    HONE_TRY(refuse_quantized());
    HONE_TRY(find_constants());
    state_.weights = classify_weights(state_, options_);
    HONE_TRY(add_inputs());
    for (int i = 0; i < file_.operators(); ++i) HONE_TRY(import_operator(file_.op(i), i));
    if (!missing_.empty()) return missing_error();
    HONE_TRY(add_outputs());
    HONE_TRY(builder_status());
    HONE_TRY(remove_dead(graph_));
    return std::move(graph_);
  }

 private:
  Held& held(int tensor) { return state_.held[static_cast<size_t>(tensor)]; }
  int& source(int tensor) { return state_.source[static_cast<size_t>(tensor)]; }

  Status refuse_quantized() const {
    for (int i = 0; i < file_.tensors(); ++i)
      if (file_.is_quantized(i))
        return unsupported(
            "a quantized TensorFlow Lite model: tensor '{}' holds {} that stand for real numbers; "
            "convert the model without quantization, or with float16 weights",
            file_.name(i), to_string(file_.tensor(i).type()));
    return {};
  }

  // What has data is constant, and so is float16 data that an operator only widens.
  Status find_constants() {
    for (int i = 0; i < file_.tensors(); ++i) {
      if (file_.has_data(i)) source(i) = i;
      if (file_.tensor(i).sparsity())
        return unsupported("tensor '{}' is stored sparsely", file_.name(i));
    }
    for (int i = 0; i < file_.operators(); ++i) {
      const schema::Operator& o = file_.op(i);
      const std::span<const int32_t> in = File::list(o.inputs()), out = File::list(o.outputs());
      if (file_.code(o) != Builtin::DEQUANTIZE || in.size() != 1 || out.size() != 1) continue;
      if (in[0] >= 0 && file_.has_data(in[0]) && file_.dtype(in[0]) == DType::f16 &&
          file_.dtype(out[0]) == DType::f32 && source(out[0]) < 0 &&
          file_.extents(in[0]) == file_.extents(out[0]))
        source(out[0]) = in[0];
    }
    return {};
  }

  Status add_inputs() {
    for (const int32_t t : File::list(file_.graph().inputs())) {
      const std::string name(file_.name(t));
      if (made_[static_cast<size_t>(t)]) return invalid_model("the input '{}' occurs twice", name);
      if (source(t) >= 0) return invalid_model("the input '{}' has data", name);
      made_[static_cast<size_t>(t)] = true;
      const auto dtype = file_.dtype(t);
      if (!dtype) {
        missing_.push_back({format("an input of {}", to_string(file_.tensor(t).type())), name});
        continue;
      }
      const std::string unique = state_.unique_name(t);
      std::vector<int64_t> extents = file_.extents(t);
      for (size_t axis = 0; axis < extents.size(); ++axis)
        if (extents[axis] < 0)
          extents[axis] = graph_.dim(axis == 0 ? "batch" : format("{}_{}", unique, axis));
      auto shape = Shape::make(extents);
      if (!shape.ok()) return shape.status().with_context(format("'{}'", name));
      held(t).plain = b_.input({*dtype, *shape}, unique);
    }
    return {};
  }

  // Tensors without elements need no data.
  bool is_empty(int t) const {
    const std::vector<int64_t> e = file_.extents(t);
    return std::find(e.begin(), e.end(), 0) != e.end();
  }

  // Whether all that the operator reads could be imported.
  Result<bool> inputs_complete(const schema::Operator& o, std::string_view who) {
    bool complete = true;
    for (const int32_t t : File::list(o.inputs())) {
      if (t < 0) continue;
      if (source(t) < 0 && !made_[static_cast<size_t>(t)]) {
        if (file_.tensor(t).is_variable()) {
          missing_.push_back({"a variable tensor", std::string(file_.name(t))});
        } else if (!is_empty(t)) {
          return invalid_model("{}: no earlier operator makes its input '{}'", who, file_.name(t));
        }
        source(t) = t;
      }
      const Held& h = held(t);
      if (source(t) < 0) complete &= h.plain.valid() || h.channels_first.valid();
    }
    return complete;
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
    HONE_ASSIGN(const bool complete, inputs_complete(o, who));
    for (const int32_t t : outs) made_[static_cast<size_t>(t)] = true;
    const ImportRule* rule = find_rule(file_.code(o));
    if (!rule) {
      missing_.push_back({file_.name_of(o), where});
      return {};
    }
    if (!complete) return {};  // what it needs is missing and reported already
    b_.set_scope(where.empty() ? format("operator_{}", position) : where);
    ImportCtx c(state_, *rule, o);
    rule->import(c);
    if (!c.status().ok()) return c.status().with_context(who);
    std::string lack = c.missing();
    if (lack.empty()) HONE_TRY(builder_status());
    for (const int32_t t : outs) {
      if (!lack.empty()) break;
      if (!held(t).plain.valid() && !held(t).channels_first.valid())
        lack = format("with the output '{}'", file_.name(t));
    }
    if (!lack.empty()) missing_.push_back({format("{} {}", file_.name_of(o), lack), where});
    for (const int32_t t : outs) lack.empty() ? give_name(t) : forget(t);
    return {};
  }

  void forget(int tensor) { held(tensor) = {}; }

  void give_name(int tensor) {
    const Held& h = held(tensor);
    ValueInfo& info = graph_.value((h.plain.valid() ? h.plain : h.channels_first).id());
    if (info.kind == ValueKind::node && info.name.empty()) info.name = state_.unique_name(tensor);
  }

  Status add_outputs() {
    b_.set_scope("outputs");
    for (const int32_t t : File::list(file_.graph().outputs())) {
      const std::string name =
          file_.name(t).empty() ? format("tensor_{}", t) : std::string(file_.name(t));
      if (graph_.find_output(name) >= 0) return invalid_model("the output '{}' occurs twice", name);
      Held& h = held(t);
      if (!h.plain.valid() && h.channels_first.valid())
        h.plain = b_.emit(op::transpose, {h.channels_first}, PermAttrs{{0, 2, 3, 1}});
      if (!h.plain.valid() && source(t) >= 0) {
        HONE_ASSIGN(h.plain, state_.add_constant(t, {}));
      }
      HONE_TRY(builder_status());
      if (!h.plain.valid()) return invalid_model("nothing makes the output '{}'", name);
      b_.output(h.plain, name);
    }
    return {};
  }

  // A file that no operator accepts is a bad file, whatever an operator says of its arguments.
  Status builder_status() const {
    const Status& s = b_.status();
    return s.code() == Code::invalid_argument ? invalid_model("{}", s.message()) : s;
  }

  // "LSTM ('lstm_1', 'lstm_2'), the custom operator 'Foo' ('x')".
  Status missing_error() const {
    std::vector<std::string> kinds;
    for (const Missing& m : missing_)
      if (std::find(kinds.begin(), kinds.end(), m.what) == kinds.end()) kinds.push_back(m.what);
    std::string list;
    for (const std::string& kind : kinds) {
      std::string places;
      for (const Missing& m : missing_)
        if (m.what == kind) places += format("{}'{}'", places.empty() ? "" : ", ", m.where);
      list += format("{}{} ({})", list.empty() ? "" : ", ", kind, places);
    }
    return unsupported("the model needs what cannot be imported: {}", list);
  }

  File& file_;
  const OnnxImportOptions& options_;
  Graph graph_;
  Builder b_;
  ImportState state_;
  std::vector<bool> made_;  // by tensor: an input, or an operator's output
  std::vector<Missing> missing_;
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
  return model;
}

}  // namespace hone
