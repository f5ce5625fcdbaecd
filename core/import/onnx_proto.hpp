// SPDX-License-Identifier: Apache-2.0
// The messages of an ONNX file, as views into its bytes. Names and field numbers are those of
// onnx.proto (https://github.com/onnx/onnx/blob/main/onnx/onnx.proto); what Hone has no use for is
// left out.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "core/base/file.hpp"
#include "hone/op_attrs_quantize.hpp"
#include "hone/status.hpp"
#include "hone/tensor_data.hpp"

namespace hone::onnx {

/// TensorProto.DataType.
enum class ElemType : int32_t {
  undefined = 0,
  float_ = 1,
  uint8 = 2,
  int8 = 3,
  uint16 = 4,
  int16 = 5,
  int32 = 6,
  int64 = 7,
  string = 8,
  bool_ = 9,
  float16 = 10,
  double_ = 11,
  uint32 = 12,
  uint64 = 13,
  complex64 = 14,
  complex128 = 15,
  bfloat16 = 16,
  uint4 = 21,
  int4 = 22,
  uint2 = 25,
  int2 = 26,
};

/// "float32", "uint16", ...; "type 99" for one that is unknown.
std::string to_string(ElemType t);
/// The dtype of an element type, or nothing when Hone has none.
std::optional<DType> dtype_of(ElemType t);
ElemType elem_type_of(DType t);
/// The narrow integers of an element type that has no dtype of its own; `none` for all others.
NarrowType narrow_of(ElemType t);
ElemType elem_type_of(NarrowType t);

struct KeyValue {
  std::string_view key, value;
};

/// Element data is not decoded here: `make_tensor` does it, when and if the tensor is used.
struct TensorProto {
  std::string_view name;
  std::vector<int64_t> dims;
  ElemType data_type = ElemType::undefined;
  std::span<const std::byte>
      body;  ///< The whole message: where the repeated fields of elements stand.
  std::span<const std::byte> raw_data;
  bool has_raw_data = false;
  bool external = false;
  bool from_node = false;  ///< A Constant node's value that was made an initializer.
  std::vector<KeyValue> external_data;
};

struct GraphProto;

/// AttributeProto.AttributeType.
enum class AttributeType : int32_t {
  undefined = 0,
  float_ = 1,
  int_ = 2,
  string = 3,
  tensor = 4,
  graph = 5,
  floats = 6,
  ints = 7,
  strings = 8,
  tensors = 9,
  graphs = 10,
  sparse_tensor = 11,
  sparse_tensors = 12,
  type_proto = 13,
  type_protos = 14,
};

struct AttributeProto {
  std::string_view name, ref_attr_name;
  AttributeType type = AttributeType::undefined;
  float f = 0;
  int64_t i = 0;
  std::string_view s;
  std::vector<TensorProto> tensors;  ///< `t` or `tensors`.
  std::vector<GraphProto> graphs;    ///< `g` or `graphs`.
  std::vector<float> floats;
  std::vector<int64_t> ints;
  std::vector<std::string_view> strings;
};

struct NodeProto {
  std::vector<std::string_view> inputs, outputs;
  std::string_view name, op_type, domain, overload;
  std::vector<AttributeProto> attributes;
  std::vector<KeyValue> metadata_props;
};

/// One extent: a number, a name, or neither.
struct Dimension {
  std::optional<int64_t> value;
  std::string_view param;
};

struct ValueInfoProto {
  enum class Kind : uint8_t { none, tensor, sequence, map, optional, sparse_tensor };
  std::string_view name;
  Kind kind = Kind::none;
  ElemType elem_type = ElemType::undefined;
  bool has_shape = false;
  std::vector<Dimension> dims;
};

struct GraphProto {
  std::string_view name, doc_string;
  std::vector<NodeProto> nodes;
  std::vector<TensorProto> initializers;
  size_t sparse_initializers = 0;
  std::vector<ValueInfoProto> inputs, outputs;
};

struct OperatorSetId {
  std::string_view domain;
  int64_t version = 0;
};

struct FunctionProto {
  std::string_view name, domain, overload;
  std::vector<std::string_view> inputs, outputs;
  std::vector<AttributeProto> defaults;  ///< Attributes with a default; others have none.
  std::vector<NodeProto> nodes;
  std::vector<OperatorSetId> opset_import;
};

struct ModelProto {
  int64_t ir_version = 0, model_version = 0;
  std::vector<OperatorSetId> opset_import;
  std::string_view producer_name, producer_version, domain, doc_string;
  bool has_graph = false;
  GraphProto graph;
  std::vector<KeyValue> metadata_props;
  std::vector<FunctionProto> functions;
};

/// Reads the messages of a model; they point into `bytes`. Errors: invalid_model (where in the file
/// and what).
Result<ModelProto> read_model(std::span<const std::byte> bytes);

/// Reads one serialised TensorProto. Errors: as above.
Result<TensorProto> read_tensor(std::span<const std::byte> bytes);

/// What becomes of elements that are no dtype of Hone's but fit one (NarrowType).
enum class NarrowElements : uint8_t {
  refuse,
  widen,  ///< The reader of the tensor knows their range.
};

/// Makes tensors of TensorProtos.
class TensorReader {
 public:
  /// `owner` keeps the bytes that TensorProtos point into alive; without one they are always
  /// copied. External data lies in `directory` (empty: the current one).
  explicit TensorReader(std::shared_ptr<const void> owner, std::string directory = {})
      : owner_(std::move(owner)), directory_(std::move(directory)) {}

  /// The elements of a tensor. Borrows from the file, or from a mapped external file, where they
  /// lie aligned to their size, and copies otherwise. Claims about sizes are checked against the
  /// bytes that are there before anything is allocated. Errors: invalid_model (names the tensor),
  /// unsupported (an element type Hone lacks), not_found, io_error (external data).
  Result<TensorData> read(const TensorProto& t, NarrowElements narrow = NarrowElements::refuse);

 private:
  Result<std::span<const std::byte>> external(const TensorProto& t, uint64_t wanted,
                                              std::shared_ptr<const void>& owner);

  std::shared_ptr<const void> owner_;
  std::string directory_;
  std::map<std::string, MappedFile, std::less<>> files_;
};

}  // namespace hone::onnx
