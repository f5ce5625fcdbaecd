// SPDX-License-Identifier: Apache-2.0
// Small models, and the tools to run them and to forge their files.
#pragma once

#include <functional>
#include <vector>

#include "hone/model.hpp"
#include "hone_generated.h"

namespace hone::test {

using Bytes = std::vector<std::byte>;

/// y = tanh(x w + b), x (batch, 4), w (4, 3); the buffer "seen" becomes seen + 1. One of each kind
/// of value: an input with a named dimension, a parameter, a frozen parameter, a buffer, a
/// constant. Two of them share their bytes.
Model sample_model();

/// The same without names, updates and metadata: the smallest file that still computes.
Model tiny_model();

/// The bytes of `save_model`; ends the test case on failure.
Bytes file_of(const Model& model);

/// Loads a copy of `bytes` that ends where they end, so that a sanitizer sees each read beyond.
Result<Model> load_copy(const Bytes& bytes, const LoadOptions& options = {});

/// Runs the reference kernels of `model` on `inputs`.
std::vector<TensorData> run(const Model& model, const std::vector<TensorData>& inputs);

/// The file again after `change` has been made to its header. All checksums are right: only the
/// checks of meaning can object.
Bytes forge(const Bytes& file, const std::function<void(schema::FileT&)>& change);

/// A file of that header and data, with right checksums.
Bytes assemble(const flatbuffers::FlatBufferBuilder& header, std::span<const std::byte> data = {});

}  // namespace hone::test
