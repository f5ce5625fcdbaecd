// SPDX-License-Identifier: Apache-2.0
// From bytes to the messages of onnx_proto.hpp. Reading goes into existing messages, so that a
// field that occurs twice merges as protobuf's rules say. Memory is a small multiple of the bytes
// that are there (what has no name is refused at once, so that a file of empty messages cannot be
// blown up into nodes); nesting is bounded by kMaxDepth.
#include "core/import/onnx_proto.hpp"
#include "core/import/wire.hpp"

namespace hone::onnx {

namespace {

using wire::Field;
using wire::WireType;

// Protobuf's own default.
constexpr int kMaxDepth = 100;

Status expect(const Field& f, WireType type, std::string_view message) {
  if (f.type == type) return {};
  return invalid_model("{}: field {} has wire type {}, expected {}", message, f.number,
                       static_cast<int>(f.type), static_cast<int>(type));
}

Status read(const Field& f, std::string_view message, std::string_view& out) {
  HONE_TRY(expect(f, WireType::bytes, message));
  out = f.text();
  return {};
}

Status read(const Field& f, std::string_view message, int64_t& out) {
  HONE_TRY(expect(f, WireType::varint, message));
  out = f.integer();
  return {};
}

template <class E>
requires std::is_enum_v<E> Status read(const Field& f, std::string_view message, E& out) {
  HONE_TRY(expect(f, WireType::varint, message));
  out = static_cast<E>(static_cast<int32_t>(f.bits));
  return {};
}

Status read(const Field& f, std::string_view message, std::vector<std::string_view>& out) {
  std::string_view s;
  HONE_TRY(read(f, message, s));
  out.push_back(s);
  return {};
}

Status read(const Field& f, std::string_view message, std::vector<int64_t>& out) {
  return wire::each_varint(f, [&](uint64_t v) { out.push_back(static_cast<int64_t>(v)); })
      .with_context(message);
}

Status read(const Field& f, std::string_view message, std::vector<float>& out) {
  return wire::each_fixed32(f, [&](uint32_t v) { out.push_back(std::bit_cast<float>(v)); })
      .with_context(message);
}

// Reads a nested message: f(number, field) for each of its fields.
template <class F>
Status each_field(std::span<const std::byte> bytes, std::string_view message, F f) {
  wire::Reader r(bytes);
  while (r.next()) HONE_TRY(f(r.field()));
  return r.status().with_context(message);
}
template <class F>
Status nested(const Field& field, std::string_view outer, std::string_view message, F f) {
  HONE_TRY(expect(field, WireType::bytes, outer));
  return each_field(field.bytes, message, f);
}

Status read(const Field& f, std::string_view message, std::vector<KeyValue>& out) {
  KeyValue kv;
  const Status fields = nested(f, message, "StringStringEntryProto", [&](const Field& g) -> Status {
    switch (g.number) {
      case 1:
        return read(g, "key", kv.key);
      case 2:
        return read(g, "value", kv.value);
      default:
        return {};
    }
  });
  HONE_TRY(fields);
  out.push_back(kv);
  return {};
}

Status read(const Field& f, std::string_view message, std::vector<OperatorSetId>& out) {
  OperatorSetId id;
  const Status fields = nested(f, message, "OperatorSetIdProto", [&](const Field& g) -> Status {
    switch (g.number) {
      case 1:
        return read(g, "domain", id.domain);
      case 2:
        return read(g, "version", id.version);
      default:
        return {};
    }
  });
  HONE_TRY(fields);
  out.push_back(id);
  return {};
}

Status read_tensor_into(std::span<const std::byte> bytes, TensorProto& t) {
  t.body = bytes;
  return each_field(bytes, "TensorProto", [&](const Field& f) -> Status {
    int64_t location = 0;
    switch (f.number) {
      case 1:
        return read(f, "TensorProto.dims", t.dims);
      case 2:
        return read(f, "TensorProto.data_type", t.data_type);
      case 8:
        return read(f, "TensorProto.name", t.name);
      case 9:
        HONE_TRY(expect(f, WireType::bytes, "TensorProto.raw_data"));
        t.raw_data = f.bytes;
        t.has_raw_data = true;
        return {};
      case 13:
        return read(f, "TensorProto.external_data", t.external_data);
      case 14:
        HONE_TRY(read(f, "TensorProto.data_location", location));
        t.external = location == 1;
        return {};
      default:
        return {};
    }
  });
}

Status read(const Field& f, std::string_view message, std::vector<TensorProto>& out) {
  HONE_TRY(expect(f, WireType::bytes, message));
  return read_tensor_into(f.bytes, out.emplace_back());
}

Status read_dimension(const Field& field, std::vector<Dimension>& out) {
  Dimension d;
  const Status fields = nested(field, "TensorShapeProto", "TensorShapeProto.Dimension",
                               [&](const Field& f) -> Status {
                                 int64_t v = 0;
                                 switch (f.number) {
                                   case 1:
                                     HONE_TRY(read(f, "dim_value", v));
                                     d = {v, {}};
                                     return {};
                                   case 2:
                                     d.value.reset();
                                     return read(f, "dim_param", d.param);
                                   default:
                                     return {};
                                 }
                               });
  HONE_TRY(fields);
  out.push_back(d);
  return {};
}

Status read_tensor_type(const Field& field, ValueInfoProto& v) {
  return nested(field, "TypeProto", "TypeProto.Tensor", [&](const Field& f) -> Status {
    switch (f.number) {
      case 1:
        return read(f, "elem_type", v.elem_type);
      case 2:
        v.has_shape = true;
        return nested(f, "TypeProto.Tensor", "TensorShapeProto", [&](const Field& g) -> Status {
          return g.number == 1 ? read_dimension(g, v.dims) : Status();
        });
      default:
        return {};
    }
  });
}

Status read(const Field& field, std::string_view message, std::vector<ValueInfoProto>& out) {
  using Kind = ValueInfoProto::Kind;
  ValueInfoProto v;
  const Status fields = nested(field, message, "ValueInfoProto", [&](const Field& f) -> Status {
    if (f.number == 1) return read(f, "ValueInfoProto.name", v.name);
    if (f.number != 2) return {};
    return nested(f, "ValueInfoProto", "TypeProto", [&](const Field& g) -> Status {
      switch (g.number) {
        case 1:
          v.kind = Kind::tensor;
          return read_tensor_type(g, v);
        case 4:
          v.kind = Kind::sequence;
          return {};
        case 5:
          v.kind = Kind::map;
          return {};
        case 8:
          v.kind = Kind::sparse_tensor;
          return {};
        case 9:
          v.kind = Kind::optional;
          return {};
        default:
          return {};
      }
    });
  });
  HONE_TRY(fields);
  if (v.name.empty()) return invalid_model("{}: entry {} has no name", message, out.size());
  out.push_back(std::move(v));
  return {};
}

Status read_graph(std::span<const std::byte> bytes, int depth, GraphProto& g);

Status read_subgraph(const Field& f, int depth, std::vector<GraphProto>& out) {
  HONE_TRY(expect(f, WireType::bytes, "AttributeProto.graphs"));
  return read_graph(f.bytes, depth, out.emplace_back());
}

Status read_attribute(const Field& field, int depth, std::vector<AttributeProto>& out) {
  AttributeProto a;
  bool typed = false;
  const Status fields = nested(field, "NodeProto", "AttributeProto", [&](const Field& f) -> Status {
    // Files older than IR version 2 leave the type out: the field that is there tells it.
    const auto is = [&](AttributeType t) {
      if (!typed) a.type = t;
    };
    switch (f.number) {
      case 1:
        return read(f, "AttributeProto.name", a.name);
      case 21:
        return read(f, "AttributeProto.ref_attr_name", a.ref_attr_name);
      case 20:
        typed = true;
        return read(f, "AttributeProto.type", a.type);
      case 2:
        is(AttributeType::float_);
        HONE_TRY(expect(f, WireType::fixed32, "AttributeProto.f"));
        a.f = std::bit_cast<float>(static_cast<uint32_t>(f.bits));
        return {};
      case 3:
        is(AttributeType::int_);
        return read(f, "AttributeProto.i", a.i);
      case 4:
        is(AttributeType::string);
        return read(f, "AttributeProto.s", a.s);
      case 5:
        is(AttributeType::tensor);
        return read(f, "AttributeProto.t", a.tensors);
      case 6:
        is(AttributeType::graph);
        return read_subgraph(f, depth + 1, a.graphs);
      case 7:
        is(AttributeType::floats);
        return read(f, "AttributeProto.floats", a.floats);
      case 8:
        is(AttributeType::ints);
        return read(f, "AttributeProto.ints", a.ints);
      case 9:
        is(AttributeType::strings);
        return read(f, "AttributeProto.strings", a.strings);
      case 10:
        is(AttributeType::tensors);
        return read(f, "AttributeProto.tensors", a.tensors);
      case 11:
        is(AttributeType::graphs);
        return read_subgraph(f, depth + 1, a.graphs);
      default:
        return {};
    }
  });
  HONE_TRY(fields);
  if (a.name.empty()) return invalid_model("AttributeProto: attribute {} has no name", out.size());
  out.push_back(std::move(a));
  return {};
}

Status read_node(const Field& field, int depth, std::vector<NodeProto>& out) {
  NodeProto n;
  const Status fields = nested(field, "GraphProto", "NodeProto", [&](const Field& f) -> Status {
    switch (f.number) {
      case 1:
        return read(f, "NodeProto.input", n.inputs);
      case 2:
        return read(f, "NodeProto.output", n.outputs);
      case 3:
        return read(f, "NodeProto.name", n.name);
      case 4:
        return read(f, "NodeProto.op_type", n.op_type);
      case 5:
        return read_attribute(f, depth, n.attributes);
      case 7:
        return read(f, "NodeProto.domain", n.domain);
      case 8:
        return read(f, "NodeProto.overload", n.overload);
      case 9:
        return read(f, "NodeProto.metadata_props", n.metadata_props);
      default:
        return {};
    }
  });
  HONE_TRY(fields);
  if (n.op_type.empty())
    return invalid_model("NodeProto: node {} '{}' has no op_type", out.size(), n.name);
  out.push_back(std::move(n));
  return {};
}

Status read_graph(std::span<const std::byte> bytes, int depth, GraphProto& g) {
  if (depth > kMaxDepth) return invalid_model("GraphProto: graphs nest deeper than {}", kMaxDepth);
  return each_field(bytes, "GraphProto", [&](const Field& f) -> Status {
    switch (f.number) {
      case 1:
        return read_node(f, depth, g.nodes);
      case 2:
        return read(f, "GraphProto.name", g.name);
      case 5:
        HONE_TRY(read(f, "GraphProto.initializer", g.initializers));
        if (!g.initializers.back().name.empty()) return {};
        return invalid_model("GraphProto: initializer {} has no name", g.initializers.size() - 1);
      case 10:
        return read(f, "GraphProto.doc_string", g.doc_string);
      case 11:
        return read(f, "GraphProto.input", g.inputs);
      case 12:
        return read(f, "GraphProto.output", g.outputs);
      case 15:
        ++g.sparse_initializers;
        return {};
      default:
        return {};
    }
  });
}

Status read_function(const Field& field, std::vector<FunctionProto>& out) {
  FunctionProto& fn = out.emplace_back();
  return nested(field, "ModelProto", "FunctionProto", [&](const Field& f) -> Status {
    switch (f.number) {
      case 1:
        return read(f, "FunctionProto.name", fn.name);
      case 4:
        return read(f, "FunctionProto.input", fn.inputs);
      case 5:
        return read(f, "FunctionProto.output", fn.outputs);
      case 7:
        return read_node(f, 0, fn.nodes);
      case 9:
        return read(f, "FunctionProto.opset_import", fn.opset_import);
      case 10:
        return read(f, "FunctionProto.domain", fn.domain);
      case 11:
        return read_attribute(f, 0, fn.defaults);
      case 13:
        return read(f, "FunctionProto.overload", fn.overload);
      default:
        return {};
    }
  });
}

}  // namespace

Result<ModelProto> read_model(std::span<const std::byte> bytes) {
  ModelProto m;
  const Status fields = each_field(bytes, "ModelProto", [&](const Field& f) -> Status {
    switch (f.number) {
      case 1:
        return read(f, "ModelProto.ir_version", m.ir_version);
      case 2:
        return read(f, "ModelProto.producer_name", m.producer_name);
      case 3:
        return read(f, "ModelProto.producer_version", m.producer_version);
      case 4:
        return read(f, "ModelProto.domain", m.domain);
      case 5:
        return read(f, "ModelProto.model_version", m.model_version);
      case 6:
        return read(f, "ModelProto.doc_string", m.doc_string);
      case 7:
        HONE_TRY(expect(f, WireType::bytes, "ModelProto.graph"));
        m.has_graph = true;
        return read_graph(f.bytes, 0, m.graph);
      case 8:
        return read(f, "ModelProto.opset_import", m.opset_import);
      case 14:
        return read(f, "ModelProto.metadata_props", m.metadata_props);
      case 25:
        return read_function(f, m.functions);
      default:
        return {};
    }
  });
  HONE_TRY(fields);
  return m;
}

Result<TensorProto> read_tensor(std::span<const std::byte> bytes) {
  TensorProto t;
  HONE_TRY(read_tensor_into(bytes, t));
  return t;
}

}  // namespace hone::onnx
