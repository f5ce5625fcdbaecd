// SPDX-License-Identifier: Apache-2.0
// File to IR. Whatever an index or an enumeration says is checked here; what the graph means, by
// check_graph.
#include <algorithm>

#include "core/model/attr_io.hpp"
#include "core/model/graph_io.hpp"
#include "hone/op_table.hpp"

namespace hone {

namespace {

template <class T>
uint32_t size_of_vector(const T* v) {
  return v ? v->size() : 0;
}

// What the graphs of one model share.
class ModelReader {
 public:
  ModelReader(FileReader& r, const schema::Model& model)
      : r_(r), model_(model), taken_(size_of_vector(model.graphs()), false) {}

  Result<Graph> read();
  /// The body of that index, for a node of graph `of`. Bodies come after the graphs that use them,
  /// and each is used once: so a file cannot unfold into more than it holds.
  Result<GraphPtr> body(uint32_t index, uint32_t of, int depth);

 private:
  Result<const schema::Signature*> find_main() {
    const schema::Signature* main = nullptr;
    for (uint32_t i = 0; i < size_of_vector(model_.signatures()); ++i) {
      const schema::Signature* s = model_.signatures()->Get(i);
      if (!s->name() || s->name()->string_view() != "main") continue;
      if (main) return invalid_model("the model has two signatures 'main'");
      main = s;
    }
    if (!main) return invalid_model("the model has no signature 'main'");
    if (main->graph() >= size_of_vector(model_.graphs()))
      return invalid_model("signature 'main' is graph {}, the model has {}", main->graph(),
                           size_of_vector(model_.graphs()));
    return main;
  }

  // Fills ops_. All that this build lacks is told at once.
  Status read_ops() {
    std::string missing;
    for (uint32_t i = 0; i < size_of_vector(model_.ops()); ++i) {
      const schema::Op& op = *model_.ops()->Get(i);
      HONE_ASSIGN(const std::string name, r_.text(op.name()));
      ops_.push_back(find_op(name));
      if (ops_[i] && ops_[i]->version == op.version()) continue;
      missing += missing.empty() ? "" : "; ";
      missing += format("'{}' version {}{}{}", name, op.version(),
                        ops_[i] ? format(" (this Hone has version {})", ops_[i]->version) : "",
                        users_of(i));
    }
    if (missing.empty()) return {};
    return unsupported("the model (the file was {}) needs operators that this Hone lacks: {}{}",
                       r_.producer(), missing, advice_on_missing_ops());
  }

  // " in 3 nodes, the first 'stem.0'".
  std::string users_of(uint32_t op) const {
    int64_t count = 0;
    std::string_view first;
    for (uint32_t k = 0; k < size_of_vector(model_.graphs()); ++k) {
      const auto* nodes = model_.graphs()->Get(k)->nodes();
      for (uint32_t i = 0; i < size_of_vector(nodes); ++i) {
        const schema::Node& n = *nodes->Get(i);
        if (n.op() != op) continue;
        if (count++ == 0 && n.name()) first = n.name()->string_view();
      }
    }
    if (count == 0) return "";
    constexpr size_t kMost = 128;
    return format(" in {} node{}, the first '{}'", count, count == 1 ? "" : "s",
                  first.substr(0, kMost));
  }

  // "main" repeats the names of the graph's inputs and outputs, in their order.
  Status check_signature(const schema::Signature& main, const Graph& g) {
    const auto differs = [](const flatbuffers::Vector<Offset<schema::Name>>* names, size_t count,
                            auto name_of) {
      if (size_of_vector(names) != count) return true;
      for (uint32_t i = 0; i < count; ++i) {
        const flatbuffers::String* s = names->Get(i)->text();
        if ((s ? s->string_view() : std::string_view()) != name_of(i)) return true;
      }
      return false;
    };
    const auto input = [&](uint32_t i) -> std::string_view { return g.value(g.inputs[i]).name; };
    const auto output = [&](uint32_t i) -> std::string_view { return g.outputs[i].name; };
    if (differs(main.inputs(), g.inputs.size(), input) ||
        differs(main.outputs(), g.outputs.size(), output))
      return invalid_model("signature 'main' and the graph have different inputs or outputs");
    return {};
  }

 public:
  FileReader& r_;
  const schema::Model& model_;
  std::vector<const OpDef*> ops_;

 private:
  std::vector<bool> taken_;
};

class GraphReader {
 public:
  GraphReader(ModelReader& model, uint32_t index, int depth)
      : model_(model),
        r_(model.r_),
        index_(index),
        depth_(depth),
        from_(model.model_.graphs()->Get(index)) {}

  Result<Graph> read() {
    HONE_ASSIGN(g_.name, r_.text(from_->name()));
    HONE_TRY(read_dim_names());
    HONE_TRY(read_values());
    HONE_TRY(read_nodes());
    HONE_TRY(read_interface());
    return std::move(g_);
  }

 private:
  Status read_dim_names() {
    for (uint32_t i = 0; i < size_of_vector(from_->dim_names()); ++i) {
      HONE_ASSIGN(std::string name, r_.text(from_->dim_names()->Get(i)->text()));
      g_.dim_names.push_back(std::move(name));
    }
    return {};
  }

  Status read_values() {
    for (uint32_t i = 0; i < size_of_vector(from_->values()); ++i)
      HONE_TRY(read_value(*from_->values()->Get(i), i));
    return {};
  }

  Status read_value(const schema::Value& from, uint32_t index) {
    ValueInfo v;
    HONE_ASSIGN(v.name, r_.text(from.name()));
    const std::string who = format("value {} '{}'", index, v.name);
    if (from.kind() > schema::ValueKind::MAX)
      return invalid_model("{}: unknown kind {}", who, static_cast<int>(from.kind()));
    v.kind = static_cast<ValueKind>(from.kind());
    HONE_ASSIGN(v.role, read_role(from.role(), who));
    v.trainable = from.trainable();
    v.typed = from.typed();
    HONE_ASSIGN(v.type.dtype, read_dtype(from.dtype(), who));
    HONE_ASSIGN(v.type.shape, r_.shape(from.dims(), g_.dim_names.size(), who));
    if (v.kind == ValueKind::constant || v.kind == ValueKind::state) {
      HONE_ASSIGN(v.data, r_.tensor(v.type, from.segment(), who));
    } else if (from.segment() != -1) {
      return invalid_model("{}: has data although it is neither constant nor state", who);
    }
    g_.values.push_back(std::move(v));
    return {};
  }

  Status read_nodes() {
    g_.nodes.reserve(size_of_vector(from_->nodes()));
    for (uint32_t i = 0; i < size_of_vector(from_->nodes()); ++i)
      HONE_TRY(read_node(*from_->nodes()->Get(i), static_cast<NodeId>(i)));
    return {};
  }

  Status read_node(const schema::Node& from, NodeId id) {
    Node n;
    HONE_ASSIGN(n.name, r_.text(from.name()));
    const std::vector<const OpDef*>& ops = model_.ops_;
    if (from.op() >= ops.size())
      return invalid_model("node {} '{}': is operator {}, the file lists {}", id, n.name, from.op(),
                           ops.size());
    n.op = ops[from.op()];
    const std::string who = label(n);
    HONE_ASSIGN(n.attrs, read_attrs(r_, *n.op->attrs, from.attrs(), who, [this](uint32_t body) {
                  return model_.body(body, index_, depth_ + 1);
                }));
    HONE_ASSIGN(n.inputs, r_.list(from.inputs()));
    HONE_ASSIGN(n.outputs, r_.list(from.outputs()));
    n.region = std::max(0, from.region());
    for (ValueId v : n.inputs)
      if (v != kNone) HONE_TRY(check_id(v, who));
    for (size_t i = 0; i < n.outputs.size(); ++i) {
      HONE_TRY(check_id(n.outputs[i], who));
      ValueInfo& v = g_.value(n.outputs[i]);
      if (v.kind != ValueKind::node || v.producer != kNone)
        return invalid_model("{}: its output {}, value {}, is already given otherwise", who, i,
                             n.outputs[i]);
      v.producer = id;
      v.output_index = static_cast<int32_t>(i);
    }
    g_.nodes.push_back(std::move(n));
    return {};
  }

  Status read_interface() {
    HONE_ASSIGN(g_.inputs, r_.list(from_->inputs()));
    for (ValueId v : g_.inputs) HONE_TRY(check_id(v, "the inputs"));
    for (uint32_t i = 0; i < size_of_vector(from_->outputs()); ++i) {
      const schema::Output& from = *from_->outputs()->Get(i);
      GraphOutput o;
      HONE_ASSIGN(o.name, r_.text(from.name()));
      const std::string who = format("output '{}'", o.name);
      o.value = from.value();
      HONE_TRY(check_id(o.value, who));
      o.has_declared = from.declared();
      HONE_ASSIGN(o.declared, r_.shape(from.dims(), g_.dim_names.size(), who));
      g_.outputs.push_back(std::move(o));
    }
    for (uint32_t i = 0; i < size_of_vector(from_->updates()); ++i) {
      const schema::Update& from = *from_->updates()->Get(i);
      HONE_TRY(check_id(from.state(), "a state update"));
      HONE_TRY(check_id(from.next(), "a state update"));
      g_.updates.push_back({from.state(), from.next()});
    }
    return {};
  }

  Status check_id(ValueId v, std::string_view who) const {
    if (v >= 0 && static_cast<size_t>(v) < g_.values.size()) return {};
    return invalid_model("{}: value {} does not exist, the graph has {}", who, v, g_.values.size());
  }

  ModelReader& model_;
  FileReader& r_;
  uint32_t index_;
  int depth_;
  const schema::Graph* from_;
  Graph g_;
};

Result<Graph> ModelReader::read() {
  HONE_ASSIGN(const schema::Signature* main, find_main());
  HONE_TRY(read_ops());
  taken_[main->graph()] = true;
  HONE_ASSIGN(Graph g, GraphReader(*this, main->graph(), 0).read());
  HONE_TRY(check_signature(*main, g));
  return g;
}

Result<GraphPtr> ModelReader::body(uint32_t index, uint32_t of, int depth) {
  constexpr int kMostDepth = 32;
  if (index >= taken_.size() || index <= of || taken_[index])
    return invalid_model("graph {} uses graph {} as a body, which it cannot", of, index);
  if (depth > kMostDepth) return invalid_model("bodies nest deeper than {}", kMostDepth);
  taken_[index] = true;
  HONE_ASSIGN(Graph g, GraphReader(*this, index, depth).read());
  return std::make_shared<const Graph>(std::move(g));
}

}  // namespace

Result<Graph> read_graph(FileReader& r, const schema::Model* m) {
  if (!m) return invalid_model("the file says it is a model but has none");
  HONE_ASSIGN(Graph g, ModelReader(r, *m).read());
  const Status s = check_graph(g);
  if (s.ok()) return g;
  return s.code() == Code::invalid_argument ? Status(Code::invalid_model, s.message()) : s;
}

}  // namespace hone
