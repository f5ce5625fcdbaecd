// SPDX-License-Identifier: Apache-2.0
// TensorFlow Lite models in.
#pragma once

#include "hone/onnx.hpp"

namespace hone {

/// Reads a TensorFlow Lite model of floating-point operators (float16 weights become float32).
/// Inputs and outputs keep the file's shapes, channels last; extents that its signature leaves free
/// become named dimensions, the first one "batch". Weights become parameters of the tensors' names,
/// in Hone's layout. `options` mean what they mean for ONNX. Errors: not_found, io_error,
/// invalid_model (damaged; what and where), unsupported (a quantized model; or one error that names
/// every operator, with its tensors, that cannot be imported).
Result<Model> import_tflite(const std::string& path, const OnnxImportOptions& options = {});
/// From memory. `owner` keeps the bytes alive; without one they are copied.
Result<Model> import_tflite(std::span<const std::byte> bytes, std::shared_ptr<const void> owner,
                            const OnnxImportOptions& options = {});

}  // namespace hone
