// SPDX-License-Identifier: Apache-2.0
// Writing of zips with stored entries. Dates are those of the format's epoch: the same arrays make
// the same file.
#include <algorithm>

#include "core/base/bytes.hpp"
#include "core/base/checksum.hpp"
#include "core/data/zip.hpp"

namespace hone {

namespace {

constexpr uint32_t kMost32 = 0xffffffffu;
constexpr uint16_t kDate = (1 << 5) | 1;  // the first of January 1980
constexpr uint16_t kUtf8Name = 1 << 11;   // bit of the flags
constexpr uint16_t kZip64Extra = 0x0001;
constexpr uint16_t kAlignExtra = 0xd935;  // alignment and zeros, as Android's zipalign marks it
constexpr uint16_t kVersion = 20, kVersion64 = 45;

// A record in the making.
class Record {
 public:
  Record& u16(uint64_t v) { return put(static_cast<uint16_t>(v)); }
  Record& u32(uint64_t v) { return put(static_cast<uint32_t>(v)); }
  Record& u64(uint64_t v) { return put(v); }
  /// A number of 32 bits, or the mark that it stands in the zip64 field.
  Record& narrow(uint64_t v) { return u32(std::min<uint64_t>(v, kMost32)); }
  Record& text(std::string_view s) {
    bytes_ += s;
    return *this;
  }
  Record& zeros(size_t n) {
    bytes_.append(n, '\0');
    return *this;
  }
  const std::string& bytes() const { return bytes_; }

 private:
  template <class T>
  Record& put(T v) {
    char raw[sizeof v];
    store_le(raw, v);
    bytes_.append(raw, sizeof v);
    return *this;
  }
  std::string bytes_;
};

bool is_wide(uint64_t v) { return v >= kMost32; }

}  // namespace

Status ZipWriter::add(const std::string& name, std::span<const std::span<const std::byte>> pieces,
                      size_t alignment) {
  if (name.empty() || name.size() > 0xffff)
    return invalid("an entry's name has {} bytes: 1 to 65535 are possible", name.size());
  const auto same = [&](const Written& w) { return w.name == name; };
  if (std::any_of(written_.begin(), written_.end(), same))
    return invalid("there are two entries '{}'", name);

  Written entry{name, 0, 0, file_->offset()};
  for (std::span<const std::byte> piece : pieces) {
    entry.crc = crc32(piece, entry.crc);
    entry.bytes += piece.size();
  }
  const bool wide = is_wide(entry.bytes);
  const size_t wide_bytes = wide ? 20 : 0;
  // The padding's own header, then zeros up to where the contents are aligned.
  const uint64_t content_at = entry.at + 30 + name.size() + wide_bytes + 6;
  const size_t padding = static_cast<size_t>((alignment - content_at % alignment) % alignment);
  Record r;
  r.u32(0x04034b50).u16(wide ? kVersion64 : kVersion).u16(kUtf8Name).u16(0).u16(0).u16(kDate);
  r.u32(entry.crc).narrow(wide ? kMost32 : entry.bytes).narrow(wide ? kMost32 : entry.bytes);
  r.u16(name.size()).u16(wide_bytes + 6 + padding).text(name);
  if (wide) r.u16(kZip64Extra).u16(16).u64(entry.bytes).u64(entry.bytes);
  r.u16(kAlignExtra).u16(2 + padding).u16(alignment).zeros(padding);
  HONE_TRY(file_->append(r.bytes()));
  for (std::span<const std::byte> piece : pieces) HONE_TRY(file_->append(piece));
  written_.push_back(std::move(entry));
  return {};
}

Status ZipWriter::finish() {
  const uint64_t directory_at = file_->offset();
  for (const Written& e : written_) {
    Record extra;
    if (is_wide(e.bytes)) extra.u64(e.bytes).u64(e.bytes);
    if (is_wide(e.at)) extra.u64(e.at);
    const size_t numbers = extra.bytes().size();
    Record r;
    r.u32(0x02014b50).u16(kVersion64).u16(numbers ? kVersion64 : kVersion).u16(kUtf8Name).u16(0);
    r.u16(0).u16(kDate).u32(e.crc).narrow(e.bytes).narrow(e.bytes).u16(e.name.size());
    r.u16(numbers ? 4 + numbers : 0).u16(0).u16(0).u16(0).u32(0).narrow(e.at).text(e.name);
    if (numbers) r.u16(kZip64Extra).u16(numbers).text(extra.bytes());
    HONE_TRY(file_->append(r.bytes()));
  }
  const uint64_t end_at = file_->offset();
  const uint64_t count = written_.size(), size = end_at - directory_at;
  Record r;
  if (count >= 0xffff || is_wide(size) || is_wide(directory_at)) {
    r.u32(0x06064b50).u64(44).u16(kVersion64).u16(kVersion64).u32(0).u32(0);
    r.u64(count).u64(count).u64(size).u64(directory_at);
    r.u32(0x07064b50).u32(0).u64(end_at).u32(1);
  }
  const uint64_t short_count = std::min<uint64_t>(count, 0xffff);
  r.u32(0x06054b50).u16(0).u16(0).u16(short_count).u16(short_count);
  r.narrow(size).narrow(directory_at).u16(0);
  return file_->append(r.bytes());
}

}  // namespace hone
