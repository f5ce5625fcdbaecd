// SPDX-License-Identifier: Apache-2.0
// ONNX in and out.
#pragma once

#include "hone/model.hpp"

namespace hone {

struct OnnxImportOptions {
  /// ONNX does not say which of a file's tensors are learned; the importer has rules for it
  /// (core/import/README.md). Names that match these comma-separated globs are parameters, or
  /// constants, whatever the rules say.
  std::string parameters, constants;
  /// AveragePool with ceil_mode and count_include_pad at opset 18 and earlier: divide by the whole
  /// kernel as older runtimes did.
  bool legacy_average_pool_divisor = false;
  /// Whether the graph is simplified (hone/simplify.hpp), and how far.
  enum class Simplify : uint8_t {
    nothing,  ///< Nodes stay as the file has them.
    exactly,  ///< Outputs keep every bit.
    fully,    ///< Spelled-out operators are recognised too: they train and run as one, and
              ///< results may differ in the last bits.
  };
  Simplify simplify = Simplify::fully;
};

/// Reads an ONNX model, opsets up to 25; external data is mapped from beside the file. Dynamic axes
/// keep their names; floating-point initializers become parameters of their names
/// (BatchNormalization's running statistics become buffers), shape-like integer ones constants.
/// Operators are upgraded to their newest meaning, and the graph is simplified. Errors: not_found,
/// io_error, invalid_model (damaged; what and where), unsupported (one error naming every operator,
/// with node names, that cannot be imported).
Result<Model> import_onnx(const std::string& path, const OnnxImportOptions& options = {});
/// From memory; `directory` is where external data lies. `owner` keeps the bytes alive.
Result<Model> import_onnx(std::span<const std::byte> bytes, std::shared_ptr<const void> owner,
                          const std::string& directory = "", const OnnxImportOptions& options = {});

struct OnnxExportOptions {
  /// Weights of more bytes than this in all go to a second file, "<path>.data": protobuf ends at 2
  /// GiB.
  int64_t external_data_bytes = int64_t{3} << 29;
};

/// Writes an ONNX model of the lowest opset from 17 to 25 that has every operator used. Parameters,
/// buffers and constants become initializers of their names; which is which stands in
/// metadata_props ("hone.parameters", ...), for the way back. Errors: unsupported (one error naming
/// every node that ONNX cannot say), not_found, io_error.
Status export_onnx(const Model& model, const std::string& path,
                   const OnnxExportOptions& options = {});

/// Loads `.hone`, `.onnx` or `.tflite`, told apart by content. Other kinds of model files are
/// recognised and refused with advice. `options` are for what is imported.
Result<Model> open_model(const std::string& path, const OnnxImportOptions& options = {});

}  // namespace hone
