// SPDX-License-Identifier: Apache-2.0
// Writing of Hone files: gathers the header and the segments, then writes both from front to back.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/file.hpp"
#include "hone/graph.hpp"
#include "hone_generated.h"

namespace hone {

template <class T>
using Offset = flatbuffers::Offset<T>;
template <class T>
using OffsetVector = Offset<flatbuffers::Vector<T>>;
using Text = Offset<flatbuffers::String>;

/// What the file is: one of the offsets is set.
struct FileBody {
  schema::FileKind kind = schema::FileKind::model;
  Offset<schema::Model> model;
  Offset<schema::Checkpoint> checkpoint;
  Offset<schema::Delta> delta;
};

class FileWriter {
 public:
  flatbuffers::FlatBufferBuilder& header() { return header_; }

  /// No offset (a missing field) for empty text.
  Text text(std::string_view s);
  template <class T>
  OffsetVector<T> list(std::span<const T> v) {
    if (v.empty() || !has_room(v.size() * sizeof(T))) return 0;
    return header_.CreateVector(v.data(), v.size());
  }
  template <class T>
  OffsetVector<Offset<T>> tables(const std::vector<Offset<T>>& v) {
    return v.empty() ? OffsetVector<Offset<T>>() : header_.CreateVector(v);
  }
  Offset<schema::Name> name(std::string_view s) { return schema::CreateName(header_, text(s)); }
  OffsetVector<int64_t> dims(const Shape& shape) { return list<int64_t>(shape.dims()); }

  /// Index of the segment for these bytes; tensors that share bytes share it.
  uint32_t segment(const TensorData& data);
  Offset<schema::Tensor> tensor(const TensorData& data);

  /// Finishes the header and writes everything; nothing can be added afterwards.
  Status write(const FileBody& body, const std::map<std::string, std::string>& metadata,
               AtomicFile& file);

 private:
  bool has_room(size_t bytes);

  flatbuffers::FlatBufferBuilder header_;
  std::vector<TensorData> data_;  // of each segment; copies, so that the bytes stay
  std::map<std::pair<const void*, size_t>, uint32_t> segment_of_;
  bool header_too_large_ = false;
};

schema::DType to_schema(DType t);
schema::Role to_schema(StateRole role);

}  // namespace hone
