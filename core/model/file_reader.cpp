// SPDX-License-Identifier: Apache-2.0
// Checks of the container, in the order that schema/README.md promises.
#include "core/model/file_reader.hpp"

#include <algorithm>
#include <cstring>
#include <set>

#include "core/base/checksum.hpp"
#include "core/base/file.hpp"
#include "core/base/platform.hpp"
#include "core/model/preamble.hpp"

namespace hone {

namespace {

static_assert(static_cast<int>(schema::DType::MAX) + 1 == kDTypeCount);
static_assert(static_cast<int>(schema::DType::boolean) == static_cast<int>(DType::bool_));
static_assert(static_cast<int>(schema::DType::bf16) == static_cast<int>(DType::bf16));
static_assert(static_cast<int>(schema::Role::rng) == static_cast<int>(StateRole::rng));

std::string_view to_string(schema::FileKind kind) {
  switch (kind) {
    case schema::FileKind::model:
      return "a model";
    case schema::FileKind::checkpoint:
      return "a checkpoint";
    case schema::FileKind::delta:
      return "a delta";
  }
  return "a file of unknown kind";
}

bool all_zero(std::span<const std::byte> bytes) {
  return std::all_of(bytes.begin(), bytes.end(), [](std::byte b) { return b == std::byte{0}; });
}

}  // namespace

Result<FileReader> FileReader::open(const std::string& path, const LoadOptions& options) {
  HONE_ASSIGN(const MappedFile file, MappedFile::open(path));
  return parse(file.bytes(), file.owner(), options);
}

Result<FileReader> FileReader::parse(std::span<const std::byte> bytes,
                                     std::shared_ptr<const void> owner,
                                     const LoadOptions& options) {
  FileReader r;
  r.bytes_ = bytes;
  r.owner_ = std::move(owner);
  r.options_ = options;
  if (reinterpret_cast<uintptr_t>(bytes.data()) % kAlignment != 0) {
    const TensorType type{DType::u8, {static_cast<int64_t>(bytes.size())}};
    HONE_ASSIGN(const TensorData copy, TensorData::copy_of(type, bytes));
    r.bytes_ = copy.as_bytes();
    r.owner_ = std::make_shared<const TensorData>(copy);
  }
  HONE_TRY(r.read_preamble());
  HONE_TRY(r.verify_header());
  HONE_TRY(r.check_segments());
  platform::release_pages(r.data_.data(), static_cast<int64_t>(r.data_.size()));
  return r;
}

Status FileReader::read_preamble() {
  const uint64_t size = bytes_.size();
  Preamble p;
  if (size < sizeof p) return invalid_model("{} bytes are too few for a Hone file", size);
  std::memcpy(&p, bytes_.data(), sizeof p);
  if (std::memcmp(p.magic, Preamble().magic, sizeof p.magic) != 0)
    return invalid_model("not a Hone file: it does not begin with 'HONE'");
  if (p.checksum != xxh64(bytes_.first(offsetof(Preamble, checksum))))
    return invalid_model("the preamble is damaged: its checksum does not match");
  if (p.version != kFormatVersion)
    return unsupported("the file has format version {}, this Hone reads version {}", p.version,
                       kFormatVersion);
  if (p.flags != 0)
    return unsupported("the file has flags {}, which this Hone does not know", p.flags);
  if (p.file_size != size)
    return invalid_model("the file has {} bytes, its preamble says {}", size, p.file_size);
  if (p.header_offset % kAlignment != 0 || p.header_offset < sizeof p || p.header_offset > size)
    return invalid_model("the header cannot be at offset {} of {} bytes", p.header_offset, size);
  if (p.header_size > size - p.header_offset)
    return invalid_model("a header of {} bytes at offset {} passes the end of the file, {}",
                         p.header_size, p.header_offset, size);
  constexpr uint64_t kLeast = 16, kMost = (uint64_t{1} << 31) - 1;  // FlatBuffers' own bounds
  if (p.header_size < kLeast || p.header_size >= kMost)
    return invalid_model("a header cannot have {} bytes", p.header_size);
  const uint64_t header_end = p.header_offset + p.header_size;
  if (p.data_offset % kAlignment != 0 || p.data_offset < header_end || p.data_offset > size)
    return invalid_model(
        "the data cannot begin at offset {}: the header ends at {}, the file at {}", p.data_offset,
        header_end, size);
  header_ = bytes_.subspan(p.header_offset, p.header_size);
  data_ = bytes_.subspan(p.data_offset);
  if (xxh64(header_) != p.header_checksum)
    return invalid_model("the header is damaged: its checksum does not match");
  if (!all_zero(bytes_.subspan(sizeof p, p.header_offset - sizeof p)) ||
      !all_zero(bytes_.subspan(header_end, p.data_offset - header_end)))
    return invalid_model("bytes beside the header are not zero");
  return {};
}

Status FileReader::verify_header() {
  flatbuffers::Verifier::Options limits;
  // The schema nests six tables; a table takes four bytes and four more where it is named.
  limits.max_depth = 16;
  limits.max_tables = static_cast<flatbuffers::uoffset_t>(header_.size() / 8);
  flatbuffers::Verifier verifier(reinterpret_cast<const uint8_t*>(header_.data()), header_.size(),
                                 limits);
  if (!schema::VerifyFileBuffer(verifier))
    return invalid_model("the header is not a well-formed FlatBuffer");
  file_ = schema::GetFile(header_.data());
  if (!file_->required() || file_->required()->size() == 0) return {};
  std::string names;
  for (const schema::Name* feature : *file_->required()) {
    HONE_ASSIGN(const std::string name, text(feature->text()));
    names += (names.empty() ? "'" : ", '") + name + "'";
  }
  return unsupported("the file ({}) needs features that this Hone lacks: {}", producer(), names);
}

Status FileReader::check_segments() {
  struct Range {
    uint64_t begin, end;
  };
  std::vector<Range> ranges;
  const uint64_t size = data_.size();
  const uint32_t count = file_->segments() ? file_->segments()->size() : 0;
  segment_is_sound_.assign(count, false);
  for (uint32_t i = 0; i < count; ++i) {
    const schema::Segment& s = *file_->segments()->Get(i);
    if (s.offset() % kAlignment != 0)
      return invalid_model("segment {} is at offset {}, not a multiple of {}", i, s.offset(),
                           kAlignment);
    if (s.offset() > size || s.size() > size - s.offset())
      return invalid_model("segment {} of {} bytes at offset {} passes the end of the data, {}", i,
                           s.size(), s.offset(), size);
    if (s.size() > 0) ranges.push_back({s.offset(), s.offset() + s.size()});
  }
  std::sort(ranges.begin(), ranges.end(),
            [](const Range& a, const Range& b) { return a.begin < b.begin; });
  uint64_t end = 0;
  for (const Range& r : ranges) {
    if (r.begin < end)
      return invalid_model("segments overlap: one begins at offset {}, another ends at {}", r.begin,
                           end);
    if (options_.verify_checksums && !all_zero(data_.subspan(end, r.begin - end)))
      return invalid_model("bytes between segments, at offset {} of the data, are not zero", end);
    end = r.end;
  }
  if (options_.verify_checksums && !all_zero(data_.subspan(end)))
    return invalid_model("bytes after the last segment are not zero");
  return {};
}

std::string FileReader::producer() const {
  constexpr size_t kMost = 64;
  const flatbuffers::String* s = file_->producer();
  return s ? format("written by {}",
                    std::string_view(s->c_str(), std::min<size_t>(s->size(), kMost)))
           : "of unknown origin";
}

Status FileReader::expect_kind(schema::FileKind kind) const {
  if (file_->kind() == kind) return {};
  return invalid_model("this is {}, not {}", to_string(file_->kind()), to_string(kind));
}

// The writer stores each string and list once, so an honest header never unpacks to more than its
// size.
Status FileReader::spend(uint64_t bytes) {
  unpacked_bytes_ += bytes;
  if (unpacked_bytes_ > header_.size())
    return invalid_model("the header of {} bytes names the same strings or lists again and again",
                         header_.size());
  return {};
}

Result<std::string> FileReader::text(const flatbuffers::String* s) {
  if (!s) return std::string();
  HONE_TRY(spend(s->size()));
  return std::string(s->c_str(), s->size());
}

Result<Shape> FileReader::shape(const flatbuffers::Vector<int64_t>* dims, size_t named_dims,
                                std::string_view who) {
  Shape shape;
  if (!dims) return shape;
  HONE_TRY(check_aligned(dims));
  if (dims->size() > kMaxRank)
    return invalid_model("{}: has {} dimensions, at most {} are supported", who, dims->size(),
                         kMaxRank);
  Shape known;  // without the named dimensions, whose extents come later
  for (int64_t d : *dims) {
    if (d < 0 && d < -static_cast<int64_t>(named_dims))
      return invalid_model("{}: extent {} names dimension {} of {}", who, d, -(d + 1), named_dims);
    shape.push_back(d);
    if (d >= 0) known.push_back(d);
  }
  const Status size = checked_bytes(known, DType::f64).status();
  if (!size.ok()) return invalid_model("{}: {}", who, size.message());
  return shape;
}

Result<TensorData> FileReader::tensor(const TensorType& type, int64_t segment,
                                      std::string_view who) {
  if (segment < 0 || segment >= static_cast<int64_t>(segment_is_sound_.size()))
    return invalid_model("{}: its data is in segment {}, the file has {} segments", who, segment,
                         segment_is_sound_.size());
  if (!type.shape.concrete())
    return invalid_model("{}: has data but no definite shape: {}", who, type);
  const Result<int64_t> want = checked_bytes(type.shape, type.dtype);
  if (!want.ok()) return invalid_model("{}: {}", who, want.status().message());
  const schema::Segment& s = *file_->segments()->Get(static_cast<uint32_t>(segment));
  if (s.size() != static_cast<uint64_t>(*want))
    return invalid_model("{}: is {} and needs {} bytes, its segment {} has {}", who, type, *want,
                         segment, s.size());
  const std::span<const std::byte> bytes = data_.subspan(s.offset(), s.size());
  const size_t index = static_cast<size_t>(segment);
  if (options_.verify_checksums && !segment_is_sound_[index]) {
    Xxh64 sum;
    platform::read_through(bytes, [&](std::span<const std::byte> block) { sum.update(block); });
    if (sum.finish() != s.checksum())
      return invalid_model("{}: its data is damaged: the checksum of segment {} does not match",
                           who, segment);
    segment_is_sound_[index] = true;
  }
  // A bool is 0 or 1: any other byte would be undefined behaviour in whoever reads it.
  bool in_range = true;
  if (type.dtype == DType::bool_)
    platform::read_through(bytes, [&](std::span<const std::byte> block) {
      for (const std::byte b : block) in_range &= b <= std::byte{1};
    });
  if (!in_range) return invalid_model("{}: is bool but has bytes other than 0 and 1", who);
  // An empty segment may stand at the very end; its address must still not be null.
  return TensorData::borrow(type, bytes.data() ? bytes.data() : bytes_.data(), owner_);
}

Result<TensorData> FileReader::tensor(const schema::Tensor* t, std::string_view who) {
  if (!t) return invalid_model("{}: the tensor is missing", who);
  TensorType type;
  HONE_ASSIGN(type.dtype, read_dtype(t->dtype(), who));
  HONE_ASSIGN(type.shape, shape(t->dims(), 0, who));
  return tensor(type, t->segment(), who);
}

Result<std::map<std::string, std::string>> FileReader::metadata() {
  std::map<std::string, std::string> out;
  if (!file_->metadata()) return out;
  for (const schema::KeyValue* entry : *file_->metadata()) {
    HONE_ASSIGN(std::string key, text(entry->key()));
    HONE_ASSIGN(std::string value, text(entry->value()));
    const auto [at, is_new] = out.try_emplace(std::move(key), std::move(value));
    if (!is_new) return invalid_model("the metadata key '{}' appears twice", at->first);
  }
  return out;
}

Result<DType> read_dtype(schema::DType t, std::string_view who) {
  if (!is_valid_dtype(static_cast<int>(t)))
    return invalid_model("{}: unknown element type {}", who, static_cast<int>(t));
  return static_cast<DType>(t);
}

Result<StateRole> read_role(schema::Role role, std::string_view who) {
  if (role > schema::Role::MAX)
    return invalid_model("{}: unknown role {}", who, static_cast<int>(role));
  return static_cast<StateRole>(role);
}

}  // namespace hone
