// SPDX-License-Identifier: Apache-2.0
// .npz: a zip of .npy files.
#include "hone/npz.hpp"

#include <algorithm>
#include <cstring>

#include "core/base/checksum.hpp"
#include "core/base/file.hpp"
#include "core/data/inflate.hpp"
#include "core/data/npy.hpp"
#include "core/data/zip.hpp"

namespace hone {

namespace {

constexpr std::string_view kSuffix = ".npy";

// The contents of an entry, whatever its method: the header first, then the elements where the
// caller wants them.
class EntryReader {
 public:
  static Result<EntryReader> open(const ZipEntry& entry) {
    EntryReader r(entry);
    if (entry.method == ZipMethod::deflated) {
      HONE_ASSIGN(r.inflater_, Inflater::open(entry.data, Inflater::Form::raw));
    }
    return r;
  }

  // Reads the array's header; what is left is the elements.
  Result<NpyHeader> header() {
    std::vector<std::byte> bytes(std::min<uint64_t>(kNpyPreamble, entry_->bytes));
    HONE_TRY(read(bytes));
    HONE_ASSIGN(const uint64_t data_at, npy_data_at(bytes));
    if (data_at > entry_->bytes) return invalid_model("the array ends within its header");
    const size_t have = bytes.size();
    bytes.resize(std::max<size_t>(have, data_at));
    HONE_TRY(read(std::span(bytes).subspan(have)));
    return parse_npy_header(bytes);
  }
  uint64_t left() const { return entry_->bytes - at_; }

  Status read(std::span<std::byte> out) {
    if (out.size() > left()) return invalid_model("the array ends too soon");
    if (inflater_) {
      HONE_TRY(inflater_->read(out));
    } else if (!out.empty()) {
      std::memcpy(out.data(), entry_->data.data() + at_, out.size());
    }
    crc_ = crc32(out, crc_);
    at_ += out.size();
    return {};
  }
  // The rest where it lies, without copying; stored entries only.
  std::span<const std::byte> rest_in_place() {
    const std::span<const std::byte> rest = entry_->data.subspan(at_);
    crc_ = crc32(rest, crc_);
    at_ = entry_->bytes;
    return rest;
  }
  bool in_place() const { return !inflater_; }

  // All has been read, and it is what was written.
  Status finish() {
    if (inflater_) HONE_TRY(inflater_->finish());
    return crc_ == entry_->crc ? Status()
                               : invalid_model("its checksum is wrong: the file is damaged");
  }

 private:
  explicit EntryReader(const ZipEntry& entry) : entry_(&entry) {}

  const ZipEntry* entry_;
  std::optional<Inflater> inflater_;
  uint64_t at_ = 0;
  uint32_t crc_ = 0;
};

Result<TensorData> read_entry(const ZipEntry& entry, const std::shared_ptr<const void>& owner) {
  HONE_ASSIGN(EntryReader reader, EntryReader::open(entry));
  HONE_ASSIGN(const NpyHeader header, reader.header());
  HONE_ASSIGN(const TensorType type, npy_type(header, reader.left()));
  if (reader.in_place()) {
    const std::span<const std::byte> data = reader.rest_in_place();
    HONE_TRY(reader.finish());
    return npy_tensor(type, header.order, data, owner);
  }
  HONE_ASSIGN(TensorData raw, TensorData::allocate(type));
  HONE_TRY(
      reader.read({static_cast<std::byte*>(raw.mutable_data()), static_cast<size_t>(raw.bytes())}));
  HONE_TRY(reader.finish());
  return npy_tensor(header.order, std::move(raw));
}

Result<std::vector<std::string>> read_string_entry(const ZipEntry& entry) {
  HONE_ASSIGN(EntryReader reader, EntryReader::open(entry));
  HONE_ASSIGN(const NpyHeader header, reader.header());
  if (reader.left() > (uint64_t{1} << 32))
    return unsupported("it has {} bytes: too many for a list of strings", reader.left());
  HONE_ASSIGN(TensorData raw,
              TensorData::allocate({DType::u8, {static_cast<int64_t>(reader.left())}}));
  HONE_TRY(
      reader.read({static_cast<std::byte*>(raw.mutable_data()), static_cast<size_t>(raw.bytes())}));
  HONE_TRY(reader.finish());
  return npy_strings(header, raw.as_bytes());
}

}  // namespace

struct NpzReader::Archive {
  std::string path;
  MappedFile file;
  std::vector<ZipEntry> entries;

  Result<const ZipEntry*> find(const std::string& name) const {
    std::string have;
    for (const ZipEntry& e : entries) {
      const std::string_view array =
          std::string_view(e.name).substr(0, e.name.size() - kSuffix.size());
      if (array == name) return &e;
      if (have.size() > 200) continue;
      have += format("{}{}", have.empty() ? "" : ", ", array);
      if (have.size() > 200) have += ", ...";
    }
    return not_found("{}: there is no array '{}' (it has: {})", path, name,
                     have.empty() ? "none" : have);
  }
};

Result<NpzReader> NpzReader::open(const std::string& path) {
  HONE_ASSIGN(MappedFile file, MappedFile::open(path));
  Result<std::vector<ZipEntry>> entries = read_zip(file.bytes());
  if (!entries.ok()) return entries.status().with_context(path);
  NpzReader reader;
  Archive archive{path, std::move(file), {}};
  for (ZipEntry& e : *entries) {
    if (!e.name.ends_with(kSuffix)) continue;  // NumPy, too, takes other files for something else
    reader.names_.push_back(e.name.substr(0, e.name.size() - kSuffix.size()));
    archive.entries.push_back(std::move(e));
  }
  reader.archive_ = std::make_shared<const Archive>(std::move(archive));
  return reader;
}

bool NpzReader::contains(const std::string& name) const {
  return std::find(names_.begin(), names_.end(), name) != names_.end();
}

Result<TensorData> NpzReader::read(const std::string& name) const {
  HONE_ASSIGN(const ZipEntry* entry, archive_->find(name));
  Result<TensorData> t = read_entry(*entry, archive_->file.owner());
  if (!t.ok()) return t.status().with_context(format("{}: array '{}'", archive_->path, name));
  return t;
}

Result<std::vector<std::string>> NpzReader::read_strings(const std::string& name) const {
  HONE_ASSIGN(const ZipEntry* entry, archive_->find(name));
  Result<std::vector<std::string>> s = read_string_entry(*entry);
  if (!s.ok()) return s.status().with_context(format("{}: array '{}'", archive_->path, name));
  return s;
}

Status write_npz(const std::string& path,
                 std::span<const std::pair<std::string, TensorData>> arrays) {
  HONE_ASSIGN(AtomicFile file, AtomicFile::create(path));
  ZipWriter zip(&file);
  for (const auto& [name, t] : arrays) {
    if (!t.defined()) return invalid("cannot write '{}': array '{}' is undefined", path, name);
    TensorData data = t;
    if (t.dtype() == DType::bf16) {
      HONE_ASSIGN(data, cast(t, DType::f32));
    }
    const std::string header = make_npy_header(data.type());
    const std::span<const std::byte> pieces[] = {std::as_bytes(std::span(header)), data.as_bytes()};
    const Status added = zip.add(name + std::string(kSuffix), pieces, kAlignment);
    if (!added.ok()) return added.with_context(path);
  }
  HONE_TRY(zip.finish());
  return file.commit();
}

}  // namespace hone
