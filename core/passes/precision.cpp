// SPDX-License-Identifier: Apache-2.0
#include "hone/precision.hpp"

namespace hone {

namespace {

Status convert(TensorData& t, DType to) {
  if (!t.defined() || !is_float(t.dtype()) || t.dtype() == to) return {};
  HONE_ASSIGN(t, cast(t, to));
  return {};
}

Status convert(Graph& g, DType to);

class Fields final : public SomeFields {
 public:
  explicit Fields(DType to) : to_(to) {}
  Status status;

  using SomeFields::field;
  void field(std::string_view, DType& v) override {
    if (is_float(v)) v = to_;
  }
  void field(std::string_view, TensorData& v) override {
    if (status.ok()) status = convert(v, to_);
  }
  void field(std::string_view, GraphPtr& v) override {
    if (!v || !status.ok()) return;
    Graph body = *v;
    status = convert(body, to_);
    v = std::make_shared<const Graph>(std::move(body));
  }

 private:
  DType to_;
};

Status convert(Graph& g, DType to) {
  for (ValueInfo& v : g.values) {
    if (v.typed && is_float(v.type.dtype)) v.type.dtype = to;
    HONE_TRY(convert(v.data, to).with_context(v.name));
  }
  for (Node& n : g.nodes) {
    Fields fields(to);
    n.attrs = n.attrs.edited(fields);
    HONE_TRY(fields.status);
  }
  return {};
}

}  // namespace

Status set_precision(Graph& g, DType dtype) {
  if (!is_float(dtype))
    return invalid("a model computes in f64, f32, f16 or bf16, not in {}", dtype);
  Graph converted = g;
  HONE_TRY(convert(converted, dtype));
  if (const Status sound = verify(converted); !sound.ok())
    return invalid("the model cannot compute in {}: {}", dtype, sound.message());
  g = std::move(converted);
  return {};
}

}  // namespace hone
