// SPDX-License-Identifier: Apache-2.0
// IDX: 0, 0, a type, a rank, big-endian extents, big-endian elements (yann.lecun.com/exdb/mnist).
#include "hone/idx.hpp"

#include <cstring>
#include <optional>
#include <vector>

#include "core/base/bytes.hpp"
#include "core/base/file.hpp"
#include "core/data/inflate.hpp"

namespace hone {

namespace {

struct IdxHeader {
  DType dtype = DType::u8;  // of the tensor
  size_t stored_width = 1;  // bytes of an element in the file
  Shape shape;
};

Result<IdxHeader> parse_magic(std::span<const std::byte> magic, int* rank) {
  if (magic[0] != std::byte{0} || magic[1] != std::byte{0}) return invalid_model("not an IDX file");
  *rank = static_cast<int>(magic[3]);
  if (*rank > kMaxRank)
    return unsupported("it has {} dimensions, at most {} are supported", *rank, kMaxRank);
  switch (static_cast<int>(magic[2])) {
    case 0x08:
      return IdxHeader{DType::u8, 1, {}};
    case 0x09:
      return IdxHeader{DType::i8, 1, {}};
    case 0x0b:
      return IdxHeader{DType::i32, 2, {}};
    case 0x0c:
      return IdxHeader{DType::i32, 4, {}};
    case 0x0d:
      return IdxHeader{DType::f32, 4, {}};
    case 0x0e:
      return IdxHeader{DType::f64, 8, {}};
    default:
      return invalid_model("not an IDX file: element type {}", static_cast<int>(magic[2]));
  }
}

// Where the bytes come from: the file itself, or what it decompresses to.
class Source {
 public:
  static Result<Source> open(std::span<const std::byte> bytes) {
    Source s;
    s.bytes_ = bytes;
    s.most_ = bytes.size();
    const bool gzip =
        bytes.size() >= 2 && bytes[0] == std::byte{0x1f} && bytes[1] == std::byte{0x8b};
    if (gzip) {
      HONE_ASSIGN(s.inflater_, Inflater::open(bytes, Inflater::Form::gzip));
      s.most_ = most_inflated(bytes.size());
    }
    return s;
  }

  Status read(std::span<std::byte> out) {
    if (out.size() > most_ - at_) return invalid_model("the IDX file is cut short");
    if (inflater_) {
      HONE_TRY(inflater_->read(out));
    } else if (!out.empty()) {
      std::memcpy(out.data(), bytes_.data() + at_, out.size());
    }
    at_ += out.size();
    return {};
  }
  /// Refuses a size that there cannot be, before room is made for it.
  Status expect(uint64_t size) const {
    const bool fits = inflater_ ? size <= most_ - at_ : size == most_ - at_;
    if (fits) return {};
    return invalid_model("the IDX file claims {} bytes of data and has {}{}", size,
                         inflater_ ? "no more than " : "", most_ - at_);
  }
  Status finish() { return inflater_ ? inflater_->finish() : Status(); }

 private:
  std::span<const std::byte> bytes_;
  std::optional<Inflater> inflater_;
  uint64_t at_ = 0, most_ = 0;
};

// Turns `n` big-endian elements into the host's, in place.
template <class T>
void to_host(std::byte* data, int64_t n) {
  for (int64_t i = 0; i < n; ++i, data += sizeof(T)) {
    const T v = load_be<T>(data);
    std::memcpy(data, &v, sizeof v);
  }
}

Result<TensorData> read_elements(Source& source, const IdxHeader& header) {
  const TensorType type{header.dtype, header.shape};
  const Result<int64_t> bytes = checked_bytes(type.shape, type.dtype);
  if (!bytes.ok()) return invalid_model("{}", bytes.status().message());
  const size_t stored = static_cast<size_t>(type.numel()) * header.stored_width;
  HONE_TRY(source.expect(stored));

  HONE_ASSIGN(TensorData t, TensorData::allocate(type));
  // 16-bit elements are read into the far half, and overtaken by their wider selves as these are
  // made from the front.
  std::byte* const data = static_cast<std::byte*>(t.mutable_data());
  std::byte* const from = data + static_cast<size_t>(*bytes) - stored;
  HONE_TRY(source.read({from, stored}));
  HONE_TRY(source.finish());
  const int64_t n = type.numel();
  if (header.stored_width == 2)
    for (int64_t i = 0; i < n; ++i) {
      const int32_t v = static_cast<int16_t>(load_be<uint16_t>(from + 2 * i));
      std::memcpy(data + 4 * i, &v, sizeof v);
    }
  if (header.stored_width == 4) to_host<uint32_t>(data, n);
  if (header.stored_width == 8) to_host<uint64_t>(data, n);
  return t;
}

Result<TensorData> read_idx_bytes(const MappedFile& file) {
  HONE_ASSIGN(Source source, Source::open(file.bytes()));
  std::byte magic[4];
  HONE_TRY(source.read(magic));
  int rank = 0;
  HONE_ASSIGN(IdxHeader header, parse_magic(magic, &rank));
  for (int i = 0; i < rank; ++i) {
    std::byte extent[4];
    HONE_TRY(source.read(extent));
    header.shape.push_back(load_be<uint32_t>(extent));
  }
  return read_elements(source, header);
}

}  // namespace

Result<TensorData> read_idx(const std::string& path) {
  HONE_ASSIGN(const MappedFile file, MappedFile::open(path));
  Result<TensorData> t = read_idx_bytes(file);
  if (!t.ok()) return t.status().with_context(path);
  return t;
}

}  // namespace hone
