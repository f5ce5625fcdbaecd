// SPDX-License-Identifier: Apache-2.0
// Which of a file's initializers are learned. ONNX does not say: to it weights, masks and numbers
// are all the same.
#pragma once

#include <string>
#include <unordered_map>

#include "core/import/onnx_proto.hpp"
#include "hone/onnx.hpp"

namespace hone::onnx {

enum class Weight : uint8_t {
  constant,   ///< Fixed: may be folded.
  parameter,  ///< Learned.
  frozen,     ///< A parameter that is not trained unless someone asks for it.
  buffer,     ///< Running statistics.
};

/// Tells for each initializer of a graph what it is. In this order, the first that applies:
///
///  1. The import options or, in a file that Hone wrote, the file itself say so.
///  2. Integers and booleans are constants.
///  3. The running mean and variance of BatchNormalization are buffers.
///  4. What is only a setting (Resize's scales, Clip's bounds, Pad's value, Dropout's ratio, ...)
///  is constant.
///  5. What was a Constant node when it was exported ("/layer/Constant_3_output_0") is constant.
///  6. Where a learned weight stands (weight or bias of Conv, Gemm, MatMul, ...; table of Gather;
///  scale or bias of a
///     normalisation; what is added to the result of MatMul or Conv) it is a parameter, also
///     through Transpose, Reshape, Cast, ...
///  7. Results of nodes that an optimizer folded ("/Sub_output_0") and single numbers are
///  constants.
///  8. A mask is constant: two axes or more, nothing but 0 and 1, or 0 and one value of -1000 or
///  less.
///  9. What is subtracted from the inputs, or divides them, before anything learned touches them
///  (mean and deviation of the
///     data) is frozen.
/// 10. What was hoisted from a Constant node is constant.
/// 11. Everything else that floats is a parameter.
std::unordered_map<std::string_view, Weight> classify_weights(const ModelProto& model,
                                                              TensorReader& tensors,
                                                              const OnnxImportOptions& options);

/// Makes initializers of the floating-point values of Constant nodes in a graph that has no
/// floating-point initializer of more than one number: Paddle and some others write all weights so.
/// Of these only what stands where a learned weight stands, or is a running statistic, is taken for
/// a weight.
void hoist_constants(GraphProto& g);

/// Keys of metadata_props in which an exported model keeps what the rules could not find out again:
/// names, one a line.
inline constexpr std::string_view kConstantsKey = "hone.constants", kFrozenKey = "hone.frozen",
                                  kBuffersKey = "hone.buffers", kParametersKey = "hone.parameters";

}  // namespace hone::onnx
