// SPDX-License-Identifier: Apache-2.0
// safetensors: eight bytes of header length, a JSON header, then the data without gaps.
// The format is described at github.com/huggingface/safetensors.
#include "hone/safetensors.hpp"

#include <algorithm>
#include <unordered_set>

#include "core/base/bytes.hpp"
#include "core/base/file.hpp"
#include "core/model/json.hpp"

namespace hone {

namespace {

struct DTypeName {
  std::string_view name;
  DType dtype;
};
constexpr DTypeName kDTypes[] = {
    {"F64", DType::f64},   {"F32", DType::f32}, {"F16", DType::f16},
    {"BF16", DType::bf16}, {"I8", DType::i8},   {"U8", DType::u8},
    {"I32", DType::i32},   {"I64", DType::i64}, {"BOOL", DType::bool_}};

std::string_view name_of(DType t) {
  for (const DTypeName& d : kDTypes)
    if (d.dtype == t) return d.name;
  return "";
}

// One entry of the header, not yet held against the data.
struct Entry {
  std::string name, dtype;
  Shape shape;
  int64_t begin = 0, end = 0;
};

class HeaderParser {
 public:
  explicit HeaderParser(std::string_view text) : json_(text) {}

  Status parse(std::vector<Entry>& entries, std::map<std::string, std::string>& metadata) {
    HONE_TRY(json_.expect('{'));
    if (json_.take('}')) return json_.expect_end();
    std::unordered_set<std::string> names;
    do {
      HONE_ASSIGN(std::string name, json_.string());
      if (!names.insert(name).second) return invalid_model("two tensors have the name '{}'", name);
      HONE_TRY(json_.expect(':'));
      if (name == "__metadata__") {
        HONE_TRY(parse_metadata(metadata));
        continue;
      }
      entries.push_back({std::move(name), {}, {}});
      HONE_TRY(parse_entry(entries.back()));
    } while (json_.take(','));
    HONE_TRY(json_.expect('}'));
    return json_.expect_end();
  }

 private:
  Status parse_metadata(std::map<std::string, std::string>& metadata) {
    HONE_TRY(json_.expect('{'));
    if (json_.take('}')) return {};
    do {
      HONE_ASSIGN(std::string key, json_.string());
      HONE_TRY(json_.expect(':'));
      HONE_ASSIGN(metadata[key], json_.string());
    } while (json_.take(','));
    return json_.expect('}');
  }

  Status parse_entry(Entry& e) {
    bool has_dtype = false, has_shape = false, has_offsets = false;
    const auto once = [&](bool& seen) {
      return std::exchange(seen, true) ? json_.error("a key given twice") : Status();
    };
    HONE_TRY(json_.expect('{'));
    do {
      HONE_ASSIGN(const std::string key, json_.string());
      HONE_TRY(json_.expect(':'));
      if (key == "dtype") {
        HONE_TRY(once(has_dtype));
        HONE_ASSIGN(e.dtype, json_.string());
      } else if (key == "shape") {
        HONE_TRY(once(has_shape));
        HONE_TRY(parse_shape(e));
      } else if (key == "data_offsets") {
        HONE_TRY(once(has_offsets));
        HONE_TRY(json_.expect('['));
        HONE_ASSIGN(e.begin, json_.count());
        HONE_TRY(json_.expect(','));
        HONE_ASSIGN(e.end, json_.count());
        HONE_TRY(json_.expect(']'));
      } else {
        return json_.error(format("tensor '{}' has the unknown key '{}'", e.name, key));
      }
    } while (json_.take(','));
    HONE_TRY(json_.expect('}'));
    if (has_dtype && has_shape && has_offsets) return {};
    return invalid_model("tensor '{}' lacks dtype, shape or data_offsets", e.name);
  }

  Status parse_shape(Entry& e) {
    HONE_TRY(json_.expect('['));
    if (json_.take(']')) return {};
    do {
      HONE_ASSIGN(const int64_t extent, json_.count());
      if (e.shape.rank() == kMaxRank)
        return invalid_model("tensor '{}' has more than {} dimensions", e.name, kMaxRank);
      e.shape.push_back(extent);
    } while (json_.take(','));
    return json_.expect(']');
  }

  JsonCursor json_;
};

Result<TensorData> tensor_of(const Entry& e, std::span<const std::byte> data,
                             const std::shared_ptr<const void>& owner) {
  const auto* known = std::find_if(std::begin(kDTypes), std::end(kDTypes),
                                   [&](const DTypeName& d) { return d.name == e.dtype; });
  if (known == std::end(kDTypes))
    return unsupported("tensor '{}' has element type '{}', which Hone does not know", e.name,
                       e.dtype);
  const TensorType type{known->dtype, e.shape};
  const Result<int64_t> want = checked_bytes(type.shape, type.dtype);
  if (!want.ok()) return invalid_model("tensor '{}': {}", e.name, want.status().message());
  if (e.end < e.begin || e.end - e.begin != *want)
    return invalid_model("tensor '{}' is {} and needs {} bytes, its offsets are {} to {}", e.name,
                         type, *want, e.begin, e.end);
  const auto bytes = data.subspan(static_cast<size_t>(e.begin), static_cast<size_t>(*want));
  if (type.dtype == DType::bool_ &&
      !std::all_of(bytes.begin(), bytes.end(), [](std::byte b) { return b <= std::byte{1}; }))
    return invalid_model("tensor '{}' is bool but has bytes other than 0 and 1", e.name);
  if (!bytes.empty() && reinterpret_cast<uintptr_t>(bytes.data()) % kAlignment == 0)
    return TensorData::borrow(type, bytes.data(), owner);
  return TensorData::copy_of(type, bytes);
}

Result<std::string> header_of(const TensorFile& file) {
  std::string header = "{";
  if (!file.metadata.empty()) {
    header += "\"__metadata__\":{";
    for (const auto& [key, value] : file.metadata)
      header +=
          format("{}{}:{}", header.back() == '{' ? "" : ",", json_quote(key), json_quote(value));
    header += "}";
  }
  std::unordered_set<std::string_view> names;
  int64_t at = 0;
  for (const NamedTensor& t : file.tensors) {
    if (t.name.empty() || t.name == "__metadata__")
      return invalid("a tensor has no usable name: '{}'", t.name);
    if (!names.insert(t.name).second) return invalid("two tensors have the name '{}'", t.name);
    if (!t.data.defined()) return invalid("tensor '{}' has no data", t.name);
    const int64_t end = at + t.data.bytes();
    // Shapes print as JSON lists.
    header += format("{}{}:{\"dtype\":\"{}\",\"shape\":{},\"data_offsets\":[{},{}]}",
                     header.size() == 1 ? "" : ",", json_quote(t.name), name_of(t.data.dtype()),
                     t.data.shape(), at, end);
    at = end;
  }
  header += "}";
  // Blanks at the end are allowed; with them the data begins aligned.
  header.resize((header.size() + 8 + kAlignment - 1) / kAlignment * kAlignment - 8, ' ');
  return header;
}

}  // namespace

Result<TensorFile> load_safetensors(std::span<const std::byte> bytes,
                                    const std::shared_ptr<const void>& owner) {
  if (bytes.size() < 8)
    return invalid_model("{} bytes are too few for a safetensors file", bytes.size());
  const uint64_t header_size = load_le<uint64_t>(bytes.data());
  if (header_size > bytes.size() - 8)
    return invalid_model("a header of {} bytes passes the end of the file, {}", header_size,
                         bytes.size());
  const auto header = bytes.subspan(8, header_size);
  const auto data = bytes.subspan(8 + header_size);
  TensorFile file;
  std::vector<Entry> entries;
  HeaderParser parser({reinterpret_cast<const char*>(header.data()), header.size()});
  HONE_TRY(parser.parse(entries, file.metadata));
  std::stable_sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
    return a.begin != b.begin ? a.begin < b.begin : a.end < b.end;
  });
  // The format allows neither gaps nor overlaps, so the ranges are sound when each begins where the
  // last one ended.
  int64_t at = 0;
  for (const Entry& e : entries) {
    if (e.begin != at || e.end < e.begin || static_cast<uint64_t>(e.end) > data.size())
      return invalid_model("tensor '{}' has offsets {} to {}, expected them from {} to at most {}",
                           e.name, e.begin, e.end, at, data.size());
    at = e.end;
    HONE_ASSIGN(TensorData t, tensor_of(e, data, owner));
    file.tensors.push_back({e.name, std::move(t)});
  }
  if (static_cast<uint64_t>(at) != data.size())
    return invalid_model("{} bytes of data follow the last tensor",
                         data.size() - static_cast<uint64_t>(at));
  return file;
}

Result<TensorFile> load_safetensors(const std::string& path) {
  HONE_ASSIGN(const MappedFile map, MappedFile::open(path));
  Result<TensorFile> file = load_safetensors(map.bytes(), map.owner());
  if (!file.ok()) return file.status().with_context(path);
  return file;
}

Status save_safetensors(const TensorFile& file, const std::string& path) {
  HONE_ASSIGN(const std::string header, header_of(file));
  std::byte length[8];
  store_le(length, static_cast<uint64_t>(header.size()));
  HONE_ASSIGN(AtomicFile out, AtomicFile::create(path));
  HONE_TRY(out.append(length));
  HONE_TRY(out.append(std::string_view(header)));
  for (const NamedTensor& t : file.tensors) HONE_TRY(out.append(t.data.as_bytes()));
  return out.commit();
}

}  // namespace hone
