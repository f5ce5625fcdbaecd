// SPDX-License-Identifier: Apache-2.0
// Reading of a zip's table of contents. Each number in the file is a claim: it is held against the
// bytes there are before it is used.
#include <algorithm>
#include <cstring>
#include <unordered_set>

#include "core/base/bytes.hpp"
#include "core/data/inflate.hpp"
#include "core/data/zip.hpp"

namespace hone {

namespace {

constexpr uint32_t kLocal = 0x04034b50, kCentral = 0x02014b50, kEnd = 0x06054b50;
constexpr uint32_t kEnd64 = 0x06064b50, kLocator64 = 0x07064b50;
constexpr size_t kLocalBytes = 30, kCentralBytes = 46, kEndBytes = 22;
constexpr size_t kEnd64Bytes = 56, kLocatorBytes = 20;
constexpr uint16_t kZip64Extra = 1;
constexpr uint16_t kEncrypted = 1;  // bit of the flags

Status damaged(std::string_view what) {
  return invalid_model("the zip archive is damaged: {}", what);
}

// Part of `all`, or nothing when it does not reach that far.
std::span<const std::byte> part(std::span<const std::byte> all, uint64_t at, uint64_t size) {
  if (at > all.size() || size > all.size() - at) return {};
  return all.subspan(static_cast<size_t>(at), static_cast<size_t>(size));
}

template <class T>
T field(std::span<const std::byte> record, size_t at) {
  return load_le<T>(record.data() + at);
}

struct Directory {
  uint64_t count = 0;
  std::span<const std::byte> records;
};

// The end record stands at the end of the file, before a comment of its own length.
Result<size_t> find_end_record(std::span<const std::byte> archive) {
  constexpr size_t kMostComment = 0xffff;
  if (archive.size() < kEndBytes) return invalid_model("not a zip archive");
  const size_t last = archive.size() - kEndBytes;
  for (size_t back = 0; back <= std::min(last, kMostComment); ++back) {
    const std::span<const std::byte> record = archive.subspan(last - back);
    if (field<uint32_t>(record, 0) == kEnd && field<uint16_t>(record, 20) == back)
      return last - back;
  }
  return invalid_model("not a zip archive, or cut short");
}

Result<Directory> find_directory(std::span<const std::byte> archive) {
  HONE_ASSIGN(const size_t end_at, find_end_record(archive));
  const std::span<const std::byte> end = archive.subspan(end_at);
  uint64_t count = field<uint16_t>(end, 10);
  uint64_t size = field<uint32_t>(end, 12);
  uint64_t at = field<uint32_t>(end, 16);
  const std::span<const std::byte> locator =
      end_at >= kLocatorBytes ? archive.subspan(end_at - kLocatorBytes, kLocatorBytes)
                              : std::span<const std::byte>();
  if (!locator.empty() && field<uint32_t>(locator, 0) == kLocator64) {
    const std::span<const std::byte> end64 =
        part(archive, field<uint64_t>(locator, 8), kEnd64Bytes);
    if (end64.empty() || field<uint32_t>(end64, 0) != kEnd64)
      return damaged("its zip64 record is lost");
    count = field<uint64_t>(end64, 32);
    size = field<uint64_t>(end64, 40);
    at = field<uint64_t>(end64, 48);
  }
  const std::span<const std::byte> records = part(archive.first(end_at), at, size);
  if (records.size() != size || count > size / kCentralBytes)
    return damaged("its table of contents is not where it should be");
  return Directory{count, records};
}

struct Claims {
  uint64_t bytes, stored_bytes, local_at;
};

// Takes those of the three numbers that did not fit 32 bits from the zip64 field.
Status apply_zip64(std::span<const std::byte> extra, Claims& claims) {
  uint64_t* wide[3];
  size_t wanted = 0;
  for (uint64_t* v : {&claims.bytes, &claims.stored_bytes, &claims.local_at})
    if (*v == 0xffffffffu) wide[wanted++] = v;
  if (wanted == 0) return {};
  while (extra.size() >= 4) {
    const uint16_t id = field<uint16_t>(extra, 0), size = field<uint16_t>(extra, 2);
    if (size > extra.size() - 4) break;
    if (id == kZip64Extra) {
      if (size < 8 * wanted) break;
      for (size_t i = 0; i < wanted; ++i) *wide[i] = field<uint64_t>(extra, 4 + 8 * i);
      return {};
    }
    extra = extra.subspan(4 + size_t{size});
  }
  return damaged("an entry lacks its 64-bit sizes");
}

// Follows the entry's local header to its data.
Result<std::span<const std::byte>> locate(std::span<const std::byte> archive, const Claims& claims,
                                          const std::string& name) {
  const std::span<const std::byte> local = part(archive, claims.local_at, kLocalBytes);
  if (local.empty() || field<uint32_t>(local, 0) != kLocal)
    return damaged("an entry is not where the table of contents says");
  const uint64_t name_bytes = field<uint16_t>(local, 26), extra_bytes = field<uint16_t>(local, 28);
  const uint64_t name_at = claims.local_at + kLocalBytes;
  const std::span<const std::byte> local_name = part(archive, name_at, name_bytes);
  if (local_name.size() != name.size() ||
      (!name.empty() && std::memcmp(local_name.data(), name.data(), name.size()) != 0))
    return damaged("an entry has two names");
  const std::span<const std::byte> data =
      part(archive, name_at + name_bytes + extra_bytes, claims.stored_bytes);
  if (data.size() != claims.stored_bytes) return damaged("an entry reaches past the end");
  return data;
}

// Parses the record at the front of `records` and moves past it.
Result<ZipEntry> next_entry(std::span<const std::byte> archive,
                            std::span<const std::byte>& records) {
  const std::span<const std::byte> record = part(records, 0, kCentralBytes);
  if (record.empty() || field<uint32_t>(record, 0) != kCentral)
    return damaged("its table of contents is cut short");
  const uint16_t flags = field<uint16_t>(record, 8), method = field<uint16_t>(record, 10);
  const size_t name_bytes = field<uint16_t>(record, 28), extra_bytes = field<uint16_t>(record, 30);
  const size_t comment_bytes = field<uint16_t>(record, 32);
  const size_t whole = kCentralBytes + name_bytes + extra_bytes + comment_bytes;
  if (whole > records.size()) return damaged("its table of contents is cut short");

  ZipEntry entry;
  entry.name.assign(reinterpret_cast<const char*>(records.data()) + kCentralBytes, name_bytes);
  if (flags & kEncrypted) return unsupported("entry '{}' is encrypted", entry.name);
  if (method != static_cast<uint16_t>(ZipMethod::stored) &&
      method != static_cast<uint16_t>(ZipMethod::deflated))
    return unsupported("entry '{}' is compressed by method {}, not by deflate", entry.name, method);
  entry.method = static_cast<ZipMethod>(method);
  entry.crc = field<uint32_t>(record, 16);

  Claims claims{field<uint32_t>(record, 24), field<uint32_t>(record, 20),
                field<uint32_t>(record, 42)};
  HONE_TRY(apply_zip64(records.subspan(kCentralBytes + name_bytes, extra_bytes), claims));
  HONE_ASSIGN(entry.data, locate(archive, claims, entry.name));
  entry.bytes = claims.bytes;
  const bool possible = entry.method == ZipMethod::stored
                            ? entry.bytes == entry.data.size()
                            : entry.bytes <= most_inflated(entry.data.size());
  if (!possible)
    return invalid_model("the zip archive is damaged: entry '{}' claims {} bytes and has {}",
                         entry.name, entry.bytes, entry.data.size());
  records = records.subspan(whole);
  return entry;
}

}  // namespace

Result<std::vector<ZipEntry>> read_zip(std::span<const std::byte> archive) {
  HONE_ASSIGN(Directory directory, find_directory(archive));
  std::vector<ZipEntry> entries;
  std::unordered_set<std::string> names;
  for (uint64_t i = 0; i < directory.count; ++i) {
    HONE_ASSIGN(ZipEntry entry, next_entry(archive, directory.records));
    if (!names.insert(entry.name).second)
      return invalid_model("the zip archive has two entries '{}'", entry.name);
    entries.push_back(std::move(entry));
  }
  return entries;
}

}  // namespace hone
