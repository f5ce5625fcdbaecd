// SPDX-License-Identifier: Apache-2.0
// Attributes of every operator go through the file; their defaults are part of the format.
#include "hone/op_attrs.hpp"
#include "hone/op_table.hpp"
#include "tests/model/samples.hpp"
#include "tests/support/check.hpp"
#include "tests/support/tensors.hpp"

using namespace hone;
using namespace hone::test;

namespace {

GraphPtr small_body() {
  auto g = std::make_shared<Graph>();
  Builder b(*g, Composites::keep);
  const Value x = b.untyped_input("x");
  b.output(b.emit(*find_op("neg"), {x}), "y");
  REQUIRE_OK(b.status());
  return g;
}

// Gives every field a value that no default has.
class Changer final : public AttrVisitor {
 public:
  void field(std::string_view, bool& v) override { v = !v; }
  void field(std::string_view, int64_t& v) override { v = v / 2 + 12345; }
  void field(std::string_view, double& v) override { v = 0.1234567890123456; }
  void field(std::string_view, std::string& v) override { v += "changed"; }
  void field(std::string_view, std::vector<int64_t>& v) override { v = {-1, int64_t{1} << 40, 3}; }
  void field(std::string_view, std::vector<double>& v) override { v = {0.1, -1e300}; }
  void field(std::string_view, DType& v) override { v = DType::bf16; }
  void field(std::string_view, TensorData& v) override { v = tensor_of<float>({2}, {1, 2}); }
  void field(std::string_view, GraphPtr& v) override { v = small_body(); }
  void enum_field(std::string_view, int& v, std::span<const std::string_view> names) override {
    v = (v + 1) % static_cast<int>(names.size());
  }
};

Attrs changed_attrs(const OpDef& op) {
  const std::shared_ptr<void> data = op.attrs->make();
  Changer changer;
  op.attrs->visit(data.get(), changer);
  return Attrs(op.attrs, data);
}

// One node of `op` on inputs whose types are not known, so that no shape rule looks at the
// attributes.
Model one_node(const OpDef& op, const Attrs& attrs) {
  Model m;
  Builder b(m.graph, Composites::keep);
  const Value x = b.input({DType::f32, {m.graph.dim("n")}}, "x");
  const Value untyped = b.emit_all(*find_op("neg"), std::span(&x, 1))[0];
  const std::vector<Value> inputs(static_cast<size_t>(std::max(op.min_inputs, 1)), untyped);
  b.output(b.emit_all(op, inputs, attrs)[0], "y");
  REQUIRE_OK(b.status());
  return m;
}

}  // namespace

TEST_CASE("every attribute of every operator comes back from the file, changed or not") {
  for (const OpDef* op : all_ops()) {
    if (op->max_inputs == 0) continue;
    CAPTURE(op->name);
    const bool control = op == find_op("if_else") || op == find_op("loop") || op == find_op("scan");
    for (const Attrs& attrs : {changed_attrs(*op), Attrs::defaults(*op->attrs)}) {
      if (control && same(attrs, Attrs::defaults(*op->attrs))) continue;  // a body is missing
      const Model back = must(load_copy(file_of(one_node(*op, attrs))));
      CHECK_EQ(to_string(back.graph.nodes.back().attrs), to_string(attrs));
      CHECK(same(back.graph.nodes.back().attrs, attrs));
    }
  }
}

TEST_CASE("attributes equal to their defaults take no room in the file") {
  const OpDef& op = *find_op("conv");
  const Bytes file = file_of(one_node(op, Attrs::defaults(*op.attrs)));
  size_t attrs = 0;
  forge(file, [&](schema::FileT& f) { attrs = f.model->graphs[0]->nodes.back()->attrs.size(); });
  CHECK_EQ(attrs, 0u);
}

TEST_CASE("operators and versions that this build lacks are all named in one message") {
  const Bytes file = forge(file_of(sample_model()), [](schema::FileT& f) {
    f.model->ops[0]->name = "warp";
    f.model->ops[1]->version = 7;
  });
  const Status s = load_copy(file).status();
  CHECK_ERROR(s, Code::unsupported, "'warp' version 1 in 1 node, the first 'fc'");
  CHECK_ERROR(s, Code::unsupported, "'add' version 7 (this Hone has version 1) in 2 nodes");
}

TEST_CASE("an attribute that is missing has its default") {
  const Bytes file = forge(file_of(tiny_model()),
                           [](schema::FileT& f) { f.model->graphs[0]->nodes[0]->attrs.clear(); });
  const Model m = must(load_copy(file));
  CHECK_EQ(m.graph.nodes[0].attrs.as<MatmulAttrs>().trans_b, false);
}

TEST_CASE("an attribute that the operator lacks is refused, not dropped") {
  const auto with = [](const std::string& name, auto value) {
    return forge(file_of(tiny_model()), [&](schema::FileT& f) {
      auto attr = std::make_unique<schema::AttrT>();
      attr->name = name;
      attr->value.Set(std::move(value));
      f.model->graphs[0]->nodes[0]->attrs.push_back(std::move(attr));
    });
  };
  CHECK_ERROR(load_copy(with("sparsity", schema::FloatAttrT())), Code::invalid_model,
              "knows no attribute 'sparsity'");
  CHECK_ERROR(load_copy(with("trans_b", schema::BoolAttrT())), Code::invalid_model,
              "attribute 'trans_b' is given twice");
  CHECK_ERROR(load_copy(with("trans_a", schema::IntAttrT())), Code::invalid_model,
              "attribute 'trans_a' is of another kind");
  CHECK_ERROR(load_copy(with("", schema::BoolAttrT())), Code::invalid_model, "without a name");
}
