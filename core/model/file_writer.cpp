// SPDX-License-Identifier: Apache-2.0
// The header stands first, so the checksums of all segments are computed before anything is
// written.
#include "core/model/file_writer.hpp"

#include "core/base/checksum.hpp"
#include "core/model/preamble.hpp"

namespace hone {

namespace {
constexpr uint64_t align_up(uint64_t n) { return (n + kAlignment - 1) / kAlignment * kAlignment; }
}  // namespace

// FlatBuffers count in 31 bits and stop the program beyond: half of that is far above any real
// header.
bool FileWriter::has_room(size_t bytes) {
  constexpr size_t kMost = size_t{1} << 30;
  if (bytes > kMost || header_.GetSize() > kMost - bytes) header_too_large_ = true;
  return !header_too_large_;
}

Text FileWriter::text(std::string_view s) {
  if (s.empty() || !has_room(s.size())) return 0;
  return header_.CreateString(s.data(), s.size());
}

uint32_t FileWriter::segment(const TensorData& data) {
  const auto [at, is_new] = segment_of_.try_emplace(
      {data.data(), static_cast<size_t>(data.bytes())}, static_cast<uint32_t>(data_.size()));
  if (is_new) data_.push_back(data);
  return at->second;
}

Offset<schema::Tensor> FileWriter::tensor(const TensorData& data) {
  return schema::CreateTensor(header_, to_schema(data.dtype()), dims(data.shape()), segment(data));
}

Status FileWriter::write(const FileBody& body, const std::map<std::string, std::string>& metadata,
                         AtomicFile& file) {
  std::vector<Offset<schema::Segment>> segments;
  uint64_t data_size = 0;
  for (const TensorData& t : data_) {
    data_size = align_up(data_size);
    const auto bytes = static_cast<uint64_t>(t.bytes());
    segments.push_back(schema::CreateSegment(header_, data_size, bytes, xxh64(t.as_bytes())));
    data_size += bytes;
  }
  std::vector<Offset<schema::KeyValue>> pairs;
  for (const auto& [key, value] : metadata) {
    const Text k = text(key), v = text(value);
    pairs.push_back(schema::CreateKeyValue(header_, k, v));
  }
  const Text producer = text("hone " HONE_VERSION);
  const auto all_pairs = tables(pairs);
  const auto all_segments = tables(segments);
  schema::FinishFileBuffer(
      header_, schema::CreateFile(header_, body.kind, 0, producer, all_pairs, all_segments,
                                  body.model, body.checkpoint, body.delta));
  if (header_too_large_) return invalid("the names, metadata and attributes take more than 1 GiB");

  const std::span<const std::byte> header =
      std::as_bytes(std::span(header_.GetBufferPointer(), header_.GetSize()));
  Preamble p;
  p.header_offset = sizeof p;
  p.header_size = header.size();
  p.header_checksum = xxh64(header);
  p.data_offset = align_up(p.header_offset + p.header_size);
  p.file_size = p.data_offset + data_size;
  p.checksum = xxh64(std::as_bytes(std::span(&p, 1)).first(offsetof(Preamble, checksum)));
  HONE_TRY(file.append(std::as_bytes(std::span(&p, 1))));
  HONE_TRY(file.append(header));
  HONE_TRY(file.align(kAlignment));
  for (const TensorData& t : data_) {
    HONE_TRY(file.align(kAlignment));
    HONE_TRY(file.append(t.as_bytes()));
  }
  HONE_ENSURE(file.offset() == p.file_size);
  return {};
}

schema::DType to_schema(DType t) { return static_cast<schema::DType>(t); }
schema::Role to_schema(StateRole role) { return static_cast<schema::Role>(role); }

}  // namespace hone
