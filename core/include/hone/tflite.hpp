// SPDX-License-Identifier: Apache-2.0
// TensorFlow Lite models in.
#pragma once

#include "hone/onnx.hpp"

namespace hone {

/// Reads a TensorFlow Lite model of floating-point operators (float16 weights become float32), or
/// one quantized to int8 or uint8: operators then compute with real numbers between
/// DequantizeLinear and QuantizeLinear, and weights stay in 8 bits, constant unless
/// `options.parameters` names them. Inputs and outputs keep the file's types and shapes, channels
/// last; extents that its signature leaves free
/// become named dimensions, the first one "batch". Weights become parameters of the tensors' names,
/// in Hone's layout. `options` mean what they mean for ONNX. Errors: not_found, io_error,
/// invalid_model (damaged; what and where), unsupported (one error that names every operator and
/// way of quantizing, with their tensors, that cannot be imported).
Result<Model> import_tflite(const std::string& path, const OnnxImportOptions& options = {});
/// From memory. `owner` keeps the bytes alive; without one they are copied.
Result<Model> import_tflite(std::span<const std::byte> bytes, std::shared_ptr<const void> owner,
                            const OnnxImportOptions& options = {});

}  // namespace hone
