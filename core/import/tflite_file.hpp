// SPDX-License-Identifier: Apache-2.0
// A TensorFlow Lite file, opened and checked. Input here is hostile.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "hone/op_attrs_quantize.hpp"
#include "hone/tensor_data.hpp"
#include "tflite_generated.h"

namespace hone::tflite {

/// How the whole numbers of a tensor stand for real ones: real = (stored - zero_point) * scale. The
/// lists are the file's.
struct Quantization {
  std::span<const float> scale;         ///< One, or one for each index of `axis`.
  std::span<const int64_t> zero_point;  ///< As many, one for all, or none where all are 0.
  int64_t axis = 0;
  DType dtype = DType::i8;  ///< Of the stored numbers, which have the range of `narrow`.
  NarrowType narrow = NarrowType::none;
  bool per_axis() const { return scale.size() > 1; }
  /// Sums: int32 and int64. The scales and zero points of those have not been checked.
  bool is_wide() const { return narrow == NarrowType::none && size_of(dtype) > 1; }
  bool operator==(const Quantization& o) const;
};

/// One graph of the file: the first, or the body of a branch. After `open` all indices, ranks and
/// extents have been found sound; the data of a constant is checked when it is read.
class File {
 public:
  /// Bytes that are not aligned to kAlignment are copied. Errors: invalid_model, unsupported.
  static Result<File> open(std::span<const std::byte> bytes, std::shared_ptr<const void> owner);

  const schema::Model& model() const { return *model_; }
  int graph_index() const { return graph_; }
  const schema::SubGraph& graph() const { return *model_->subgraphs()->Get(index(graph_)); }
  /// Another graph of the same file. Errors: invalid_model when there is none.
  Result<File> body(int graph) const;

  // ---- operators
  int operators() const { return graph().operators() ? count(graph().operators()) : 0; }
  const schema::Operator& op(int i) const { return *graph().operators()->Get(index(i)); }
  /// Indices of tensors; an input may be -1, which stands for none.
  static std::span<const int32_t> list(const flatbuffers::Vector<int32_t>* v);
  schema::Builtin code(const schema::Operator& o) const;
  /// "CONV_2D", "the custom operator 'Foo'", "operator 999".
  std::string name_of(const schema::Operator& o) const;

  // ---- tensors
  int tensors() const { return graph().tensors() ? count(graph().tensors()) : 0; }
  const schema::Tensor& tensor(int i) const { return *graph().tensors()->Get(index(i)); }
  /// May be empty; need not be unique.
  std::string_view name(int i) const;
  /// -1 where an extent is free.
  std::vector<int64_t> extents(int i) const;
  /// Nothing for element types that Hone lacks. Where int4 and int16 stand for real numbers, what
  /// holds them.
  std::optional<DType> dtype(int i) const;
  /// Of a tensor of whole numbers that stand for real ones.
  std::optional<Quantization> quantization(int i) const;
  /// "of string", "stored sparsely": why a tensor cannot be read; empty when it can.
  std::string lack(int i) const;
  bool has_data(int i) const;
  /// A view of the file, or a copy where it is not aligned. Errors: invalid_model, out_of_memory.
  Result<TensorData> data(int i);
  /// Counts bytes that are copied out of the file: several tensors may name the same data, but only
  /// a hostile file has that copied again and again. Errors: invalid_model.
  Status spend(uint64_t bytes);

 private:
  static flatbuffers::uoffset_t index(int i) { return static_cast<flatbuffers::uoffset_t>(i); }
  template <class T>
  static int count(const flatbuffers::Vector<T>* v) {
    return static_cast<int>(v->size());
  }
  Status verify();
  Status check_graph();
  Status check_tensor(int i);
  Status check_quantization(int i);
  Status check_operator(int i);
  Status check_indices(std::span<const int32_t> tensors, int least, std::string_view who);

  std::span<const std::byte> bytes_;
  std::shared_ptr<const void> owner_;
  const schema::Model* model_ = nullptr;
  int graph_ = 0;
  std::shared_ptr<uint64_t> copied_bytes_;  // counted for all graphs together
};

/// "float32", "int8", ...
std::string to_string(schema::ElementType t);

}  // namespace hone::tflite
