// SPDX-License-Identifier: Apache-2.0
// IR to file.
#include <map>

#include "core/model/attr_io.hpp"
#include "core/model/graph_io.hpp"
#include "hone/op.hpp"

namespace hone {

namespace {

class GraphWriter {
 public:
  explicit GraphWriter(FileWriter& w) : w_(w) {}

  Offset<schema::Model> write(const Model& model) {
    add_graph(model.graph);
    const std::vector signatures = {main_signature(model.graph)};
    const auto plans = w_.tables(write_plans(w_, model.plans));
    const auto ops = w_.tables(ops_);
    const auto all_graphs = w_.tables(graphs_);
    return schema::CreateModel(w_.header(), ops, all_graphs, w_.tables(signatures), plans);
  }

 private:
  // A body comes after the graph that uses it.
  uint32_t add_graph(const Graph& g) {
    const size_t index = graphs_.size();
    graphs_.emplace_back();
    const Offset<schema::Graph> written = graph(g);
    graphs_[index] = written;
    return static_cast<uint32_t>(index);
  }

  Offset<schema::Graph> graph(const Graph& g) {
    std::vector<Offset<schema::Value>> values;
    for (const ValueInfo& v : g.values) values.push_back(value(v));
    std::vector<Offset<schema::Node>> nodes;
    for (const Node& n : g.nodes) nodes.push_back(node(n));
    std::vector<Offset<schema::Output>> outputs;
    for (const GraphOutput& o : g.outputs) {
      const Text name = w_.text(o.name);
      const auto dims = o.has_declared ? w_.dims(o.declared) : OffsetVector<int64_t>();
      outputs.push_back(schema::CreateOutput(w_.header(), o.value, name, o.has_declared, dims));
    }
    std::vector<Offset<schema::Update>> updates;
    for (const StateUpdate& u : g.updates)
      updates.push_back(schema::CreateUpdate(w_.header(), u.state, u.next));
    std::vector<Offset<schema::Name>> dim_names;
    for (const std::string& name : g.dim_names) dim_names.push_back(w_.name(name));

    const Text name = w_.text(g.name);
    const auto all_values = w_.tables(values);
    const auto all_nodes = w_.tables(nodes);
    const auto inputs = w_.list<int32_t>(g.inputs);
    const auto all_outputs = w_.tables(outputs);
    const auto all_updates = w_.tables(updates);
    return schema::CreateGraph(w_.header(), name, all_values, all_nodes, inputs, all_outputs,
                               all_updates, w_.tables(dim_names));
  }

  Offset<schema::Value> value(const ValueInfo& v) {
    const bool has_data = v.kind == ValueKind::constant || v.kind == ValueKind::state;
    const Text name = w_.text(v.name);
    const auto dims = v.typed ? w_.dims(v.type.shape) : OffsetVector<int64_t>();
    return schema::CreateValue(w_.header(), static_cast<schema::ValueKind>(v.kind), name, v.typed,
                               to_schema(v.typed ? v.type.dtype : DType::f32), dims,
                               to_schema(v.role), v.trainable,
                               has_data ? static_cast<int32_t>(w_.segment(v.data)) : -1);
  }

  Offset<schema::Node> node(const Node& n) {
    const uint32_t op = op_index(*n.op);
    const Text name = w_.text(n.name);
    const auto attrs =
        write_attrs(w_, n.attrs, [this](const Graph& body) { return add_graph(body); });
    const auto inputs = w_.list<int32_t>(n.inputs);
    return schema::CreateNode(w_.header(), op, name, attrs, inputs, w_.list<int32_t>(n.outputs),
                              n.region);
  }

  uint32_t op_index(const OpDef& op) {
    const auto [at, is_new] = index_of_.try_emplace(&op, static_cast<uint32_t>(ops_.size()));
    if (is_new) {
      const Text name = w_.text(op.name);
      ops_.push_back(schema::CreateOp(w_.header(), name, op.version));
    }
    return at->second;
  }

  Offset<schema::Signature> main_signature(const Graph& g) {
    std::vector<Offset<schema::Name>> inputs, outputs;
    for (ValueId v : g.inputs) inputs.push_back(w_.name(g.value(v).name));
    for (const GraphOutput& o : g.outputs) outputs.push_back(w_.name(o.name));
    const Text name = w_.text("main");
    const auto all_inputs = w_.tables(inputs);
    return schema::CreateSignature(w_.header(), name, 0, all_inputs, w_.tables(outputs));
  }

  FileWriter& w_;
  std::vector<Offset<schema::Graph>> graphs_;
  std::vector<Offset<schema::Op>> ops_;
  std::map<const OpDef*, uint32_t> index_of_;
};

static_assert(static_cast<int>(schema::ValueKind::state) == static_cast<int>(ValueKind::state));
static_assert(static_cast<int>(schema::ValueKind::input) == static_cast<int>(ValueKind::input));

}  // namespace

Offset<schema::Model> write_graph(FileWriter& w, const Model& model) {
  return GraphWriter(w).write(model);
}

}  // namespace hone
