// SPDX-License-Identifier: Apache-2.0
// Opening of Hone files: all that is common to models, checkpoints and deltas. Input here is
// hostile.
#pragma once

#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "hone/model.hpp"
#include "hone_generated.h"

namespace hone {

/// An opened file whose preamble, header and segment ranges have been found sound. What the header
/// says has not: it is read through the functions below, which check it and keep count, so that no
/// more is unpacked than is there.
class FileReader {
 public:
  static Result<FileReader> open(const std::string& path, const LoadOptions& options);
  /// Bytes that are not aligned to kAlignment are copied.
  static Result<FileReader> parse(std::span<const std::byte> bytes,
                                  std::shared_ptr<const void> owner, const LoadOptions& options);

  const schema::File& file() const { return *file_; }
  /// The version of Hone that wrote the file, for messages.
  std::string producer() const;
  /// Errors: invalid_model when the file is of another kind.
  Status expect_kind(schema::FileKind kind) const;

  /// "" for a missing string. Errors: invalid_model when the header unpacks to more than its size.
  Result<std::string> text(const flatbuffers::String* s);
  /// Empty for a missing vector. Errors: as `text`.
  template <class T>
  Result<std::vector<T>> list(const flatbuffers::Vector<T>* v) {
    HONE_TRY(check_aligned(v));
    HONE_TRY(spend(v ? v->size() * sizeof(T) : 0));
    return v ? std::vector<T>(v->begin(), v->end()) : std::vector<T>();
  }
  /// A shape whose negative extents are -1 to -named_dims.
  Result<Shape> shape(const flatbuffers::Vector<int64_t>* dims, size_t named_dims,
                      std::string_view who);
  /// A view of a segment. `type` is concrete. Errors: invalid_model (no such segment, another size,
  /// damaged data).
  Result<TensorData> tensor(const TensorType& type, int64_t segment, std::string_view who);
  Result<TensorData> tensor(const schema::Tensor* t, std::string_view who);
  Result<std::map<std::string, std::string>> metadata();

 private:
  FileReader() = default;
  Status read_preamble();
  Status verify_header();
  Status check_segments();
  Status spend(uint64_t bytes);
  /// FlatBuffers' verifier checks the alignment of a vector's length, not that of wider elements.
  template <class T>
  static Status check_aligned(const flatbuffers::Vector<T>* v) {
    if (!v || v->size() == 0 || reinterpret_cast<uintptr_t>(v->Data()) % alignof(T) == 0) return {};
    return invalid_model("the header is not a well-formed FlatBuffer: a list is not aligned");
  }

  std::span<const std::byte> bytes_;
  std::shared_ptr<const void> owner_;
  LoadOptions options_;
  std::span<const std::byte> header_, data_;
  const schema::File* file_ = nullptr;
  std::vector<bool> segment_is_sound_;
  uint64_t unpacked_bytes_ = 0;
};

Result<DType> read_dtype(schema::DType t, std::string_view who);
Result<StateRole> read_role(schema::Role role, std::string_view who);

}  // namespace hone
