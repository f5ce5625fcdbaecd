// SPDX-License-Identifier: Apache-2.0
// Hand-made ONNX files for tests.
#pragma once

#include <initializer_list>
#include <string>
#include <variant>
#include <vector>

#include "core/import/onnx_proto.hpp"
#include "core/import/wire.hpp"
#include "hone/onnx.hpp"

namespace hone::test {

/// An attribute of a node: {"axis", int64_t{1}}, {"pads", std::vector<int64_t>{1, 1}}, {"mode",
/// std::string("linear")}.
struct OnnxAttr {
  std::string name;
  std::variant<int64_t, float, std::string, std::vector<int64_t>, std::vector<float>, TensorData,
               std::vector<std::string>>
      value;
};

/// An extent: a number, a name, or "" for neither.
struct OnnxDim {
  OnnxDim(int64_t v) : value(v) {}      // NOLINT: so that {"N", 3} can be written
  OnnxDim(const char* p) : param(p) {}  // NOLINT
  int64_t value = -1;
  std::string param;
};

/// A TensorProto that stores its elements in raw_data.
wire::Writer onnx_tensor(std::string_view name, const TensorData& t);

/// Builds a ModelProto. Inputs, outputs and nodes are added in order.
class OnnxFile {
 public:
  explicit OnnxFile(int64_t opset = 17) : opset_(opset) {}

  OnnxFile& input(std::string_view name, std::initializer_list<OnnxDim> dims,
                  DType dtype = DType::f32);
  OnnxFile& output(std::string_view name, std::initializer_list<OnnxDim> dims,
                   DType dtype = DType::f32);
  /// An output without a declared shape.
  OnnxFile& output(std::string_view name);
  OnnxFile& initializer(std::string_view name, const TensorData& t);
  OnnxFile& initializer(wire::Writer tensor);
  OnnxFile& node(std::string_view op_type, std::initializer_list<std::string_view> inputs,
                 std::initializer_list<std::string_view> outputs,
                 std::initializer_list<OnnxAttr> attrs = {}, std::string_view name = {},
                 std::string_view domain = {});
  OnnxFile& metadata(std::string_view key, std::string_view value);
  /// A field of ModelProto as it is.
  OnnxFile& field(uint32_t number, wire::Writer message);

  std::string bytes() const;
  /// The model imported from `bytes`, which are kept alive by it.
  Result<Model> import(const OnnxImportOptions& options = {}) const;

 private:
  struct Entry {
    uint32_t field;
    std::string bytes;
  };
  int64_t opset_;
  std::vector<Entry> graph_, model_;
};

/// A NodeProto.
wire::Writer onnx_node(std::string_view op_type, std::initializer_list<std::string_view> inputs,
                       std::initializer_list<std::string_view> outputs,
                       std::initializer_list<OnnxAttr> attrs = {}, std::string_view name = {},
                       std::string_view domain = {});

/// Imports `bytes`, keeping a copy alive. `directory` is where external data lies.
Result<Model> import_bytes(std::string_view bytes, const OnnxImportOptions& options = {},
                           const std::string& directory = {});

}  // namespace hone::test
