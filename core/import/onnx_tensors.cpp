// SPDX-License-Identifier: Apache-2.0
// Element types, and tensors from the ways an ONNX file may store them: raw bytes, repeated fields,
// external files.
#include <bit>
#include <cstring>

#include "core/import/onnx_proto.hpp"
#include "core/import/wire.hpp"

namespace hone::onnx {

namespace {

struct ElemName {
  ElemType elem;
  std::string_view name;
  std::optional<DType> dtype;
};

constexpr ElemName kElemTypes[] = {
    {ElemType::float_, "float32", DType::f32},
    {ElemType::uint8, "uint8", DType::u8},
    {ElemType::int8, "int8", DType::i8},
    {ElemType::uint16, "uint16", {}},
    {ElemType::int16, "int16", {}},
    {ElemType::int32, "int32", DType::i32},
    {ElemType::int64, "int64", DType::i64},
    {ElemType::string, "string", {}},
    {ElemType::bool_, "bool", DType::bool_},
    {ElemType::float16, "float16", DType::f16},
    {ElemType::double_, "float64", DType::f64},
    {ElemType::uint32, "uint32", {}},
    {ElemType::uint64, "uint64", {}},
    {ElemType::complex64, "complex64", {}},
    {ElemType::complex128, "complex128", {}},
    {ElemType::bfloat16, "bfloat16", DType::bf16},
};

// The repeated field of TensorProto that holds elements of a dtype.
uint32_t element_field(DType t) {
  switch (t) {
    case DType::f32:
      return 4;  // float_data
    case DType::i64:
      return 7;  // int64_data
    case DType::f64:
      return 10;  // double_data
    default:
      return 5;  // int32_data: one element each, in its low bits
  }
}

// Calls f(bits) for each element stored in the repeated field of `type`.
template <class F>
Status each_element(const TensorProto& t, DType type, F f) {
  wire::Reader r(t.body);
  while (r.next()) {
    if (r.field().number != element_field(type)) continue;
    switch (type) {
      case DType::f32:
        HONE_TRY(wire::each_fixed32(r.field(), f));
        break;
      case DType::f64:
        HONE_TRY(wire::each_fixed64(r.field(), f));
        break;
      default:
        HONE_TRY(wire::each_varint(r.field(), f));
        break;
    }
  }
  return r.status();
}

Result<TensorData> from_fields(const TensorProto& t, const TensorType& type) {
  int64_t count = 0;
  HONE_TRY(each_element(t, type.dtype, [&](uint64_t) { ++count; }));
  if (count != type.numel())
    return invalid_model("{} has {} elements, {} are stored", type, type.numel(), count);
  HONE_ASSIGN(TensorData data, TensorData::allocate(type));
  const size_t width = size_of(type.dtype);
  const size_t skip = std::endian::native == std::endian::big ? sizeof(uint64_t) - width : 0;
  auto* out = static_cast<std::byte*>(data.mutable_data());
  HONE_TRY(each_element(t, type.dtype, [&](uint64_t bits) {
    if (type.dtype == DType::bool_) bits = bits != 0;
    std::memcpy(out, reinterpret_cast<const std::byte*>(&bits) + skip, width);
    out += width;
  }));
  return data;
}

// A bool that is neither 0 nor 1 must not be read as one.
bool usable_in_place(std::span<const std::byte> raw, DType type) {
  if constexpr (std::endian::native == std::endian::big) return size_of(type) == 1;
  if (reinterpret_cast<uintptr_t>(raw.data()) % size_of(type) != 0) return false;
  if (type != DType::bool_) return true;
  for (std::byte b : raw)
    if (b > std::byte{1}) return false;
  return true;
}

// `raw` has exactly the bytes of `type`, little-endian.
Result<TensorData> from_raw(std::span<const std::byte> raw, const TensorType& type,
                            const std::shared_ptr<const void>& owner) {
  if (owner && !raw.empty() && usable_in_place(raw, type.dtype))
    return TensorData::borrow(type, raw.data(), owner);
  HONE_ASSIGN(TensorData data, TensorData::allocate(type));
  auto* out = static_cast<std::byte*>(data.mutable_data());
  const size_t width = size_of(type.dtype);
  if (type.dtype == DType::bool_) {
    for (std::byte b : raw) *out++ = b == std::byte{0} ? std::byte{0} : std::byte{1};
  } else if constexpr (std::endian::native == std::endian::big) {
    for (size_t i = 0; i < raw.size(); ++i) out[i] = raw[i / width * width + width - 1 - i % width];
  } else if (!raw.empty()) {
    std::memcpy(out, raw.data(), raw.size());
  }
  return data;
}

Result<TensorType> type_of(const TensorProto& t) {
  const std::optional<DType> dtype = dtype_of(t.data_type);
  if (!dtype) return unsupported("elements of {} are not supported", t.data_type);
  for (int64_t d : t.dims)
    if (d < 0) return invalid_model("an extent is negative ({})", d);
  if (t.dims.size() > kMaxRank)
    return unsupported("{} dimensions are more than {}", t.dims.size(), kMaxRank);
  const Shape shape(t.dims);
  const auto bytes = checked_bytes(shape, *dtype);
  if (!bytes.ok()) return invalid_model("{}", bytes.status().message());
  return TensorType{*dtype, shape};
}

Result<uint64_t> parse_decimal(std::string_view key, std::string_view text) {
  uint64_t v = 0;
  for (char c : text) {
    if (c < '0' || c > '9' || v > (UINT64_MAX >> 4) / 10)
      return invalid_model("external data: {} is '{}', no number", key, text);
    v = v * 10 + static_cast<uint64_t>(c - '0');
  }
  if (text.empty()) return invalid_model("external data: {} is empty", key);
  return v;
}

// A relative path that stays below the model's folder: a model must not read files it was not
// shipped with.
Status check_location(std::string_view location) {
  bool inside = !location.empty() && location[0] != '/' && location[0] != '\\' &&
                location.find(':') == location.npos && location.find('\0') == location.npos;
  for (size_t at = 0; at <= location.size();) {
    const size_t end = std::min(location.find_first_of("/\\", at), location.size());
    if (location.substr(at, end - at) == "..") inside = false;
    at = end + 1;
  }
  return inside ? Status()
                : invalid_model(
                      "external data: the location '{}' is not a path below the model's folder",
                      location);
}

}  // namespace

std::string to_string(ElemType t) {
  for (const ElemName& e : kElemTypes)
    if (e.elem == t) return std::string(e.name);
  return format("type {}", static_cast<int>(t));
}

std::optional<DType> dtype_of(ElemType t) {
  for (const ElemName& e : kElemTypes)
    if (e.elem == t) return e.dtype;
  return {};
}

ElemType elem_type_of(DType t) {
  for (const ElemName& e : kElemTypes)
    if (e.dtype == t) return e.elem;
  return ElemType::undefined;
}

Result<TensorData> TensorReader::read(const TensorProto& t) {
  const std::string who = format("tensor '{}'", t.name);
  auto type = type_of(t);
  if (!type.ok()) return type.status().with_context(who);
  auto data = [&]() -> Result<TensorData> {
    if (t.external) return external(t, *type);
    if (!t.has_raw_data) return from_fields(t, *type);
    if (t.raw_data.size() != static_cast<size_t>(type->bytes()))
      return invalid_model("{} takes {} bytes, {} are stored", *type, type->bytes(),
                           t.raw_data.size());
    return from_raw(t.raw_data, *type, owner_);
  }();
  if (!data.ok()) return data.status().with_context(who);
  return data;
}

Result<TensorData> TensorReader::external(const TensorProto& t, const TensorType& type) {
  std::string_view location;
  uint64_t offset = 0;
  std::optional<uint64_t> length;
  for (const KeyValue& kv : t.external_data) {
    if (kv.key == "location") location = kv.value;
    if (kv.key == "offset") {
      HONE_ASSIGN(offset, parse_decimal(kv.key, kv.value));
    }
    if (kv.key == "length") {
      HONE_ASSIGN(length, parse_decimal(kv.key, kv.value));
    }
  }
  HONE_TRY(check_location(location));
  auto file = files_.find(location);
  if (file == files_.end()) {
    const std::string path =
        directory_.empty() ? std::string(location) : format("{}/{}", directory_, location);
    HONE_ASSIGN(MappedFile mapped, MappedFile::open(path));
    file = files_.emplace(std::string(location), std::move(mapped)).first;
  }
  const std::span<const std::byte> all = file->second.bytes();
  const uint64_t wanted = static_cast<uint64_t>(type.bytes());
  if (length && *length != wanted)
    return invalid_model("external data: {} takes {} bytes, the length given is {}", type, wanted,
                         *length);
  if (offset > all.size() || all.size() - offset < wanted)
    return invalid_model("external data: {} bytes at {} go beyond the {} bytes of '{}'", wanted,
                         offset, all.size(), location);
  return from_raw(all.subspan(static_cast<size_t>(offset), static_cast<size_t>(wanted)), type,
                  file->second.owner());
}

}  // namespace hone::onnx
