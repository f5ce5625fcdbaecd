// SPDX-License-Identifier: Apache-2.0
// Hand-made TensorFlow Lite files for tests.
#pragma once

#include <initializer_list>
#include <string>
#include <vector>

#include "core/import/tflite_ctx.hpp"
#include "hone/tflite.hpp"

namespace hone::test {

namespace lite = tflite::schema;

/// Builds a model, graph by graph. Tensors are named by their indices. An extent of -1 is free.
class LiteFile {
 public:
  LiteFile();

  int tensor(std::string name, std::vector<int32_t> extents,
             lite::ElementType type = lite::ElementType::float32);
  int input(std::string name, std::vector<int32_t> extents,
            lite::ElementType type = lite::ElementType::float32);
  int constant(std::string name, const TensorData& data);
  /// Says that the numbers of a tensor are stored as real / scale + zero point; returns it.
  int quantize(int tensor, std::vector<float> scale, std::vector<int64_t> zero_point,
               int32_t axis = 0);
  int ints(std::vector<int32_t> values);  ///< A constant vector of int32.
  /// An operator with one output, which is made for it: its tensor.
  template <class Options>
  int op(lite::Builtin code, std::vector<int32_t> inputs, std::vector<int32_t> extents,
         Options options, lite::ElementType type = lite::ElementType::float32) {
    const int out = tensor(format("t{}", graph().tensors.size()), std::move(extents), type);
    node(code, std::move(inputs), {out}).options.Set(std::move(options));
    return out;
  }
  int op(lite::Builtin code, std::vector<int32_t> inputs, std::vector<int32_t> extents,
         lite::ElementType type = lite::ElementType::float32);
  lite::OperatorT& node(lite::Builtin code, std::vector<int32_t> inputs,
                        std::vector<int32_t> outputs);
  LiteFile& output(int tensor);

  lite::ModelT& model() { return model_; }
  lite::SubGraphT& graph() { return *model_.subgraphs.back(); }
  /// What is added from now on is in another graph: its index.
  int next_graph();
  std::string bytes() const;
  /// The imported model, which keeps a copy of the bytes alive.
  Result<Model> import(const OnnxImportOptions& options = {}) const;

 private:
  lite::ModelT model_;
};

Result<Model> import_lite(std::string_view bytes, const OnnxImportOptions& options = {});

/// The outputs of a model with the reference kernels.
std::vector<TensorData> run_all(const Model& m, std::vector<TensorData> inputs);
/// The only output of the imported file.
TensorData run(const LiteFile& f, std::vector<TensorData> inputs);

}  // namespace hone::test
