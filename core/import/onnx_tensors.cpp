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
    {ElemType::uint4, "uint4", {}},
    {ElemType::int4, "int4", {}},
    {ElemType::uint2, "uint2", {}},
    {ElemType::int2, "int2", {}},
};

struct NarrowElem {
  ElemType elem;
  NarrowType type;
};

constexpr NarrowElem kNarrowElems[] = {
    {ElemType::int2, NarrowType::int2},   {ElemType::uint2, NarrowType::uint2},
    {ElemType::int4, NarrowType::int4},   {ElemType::uint4, NarrowType::uint4},
    {ElemType::int16, NarrowType::int16}, {ElemType::uint16, NarrowType::uint16},
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

// The bytes of narrow elements, from the repeated field: one byte in each entry, or one element of
// sixteen bits.
Result<std::vector<std::byte>> narrow_field(const TensorProto& t, int bits) {
  std::vector<std::byte> out;
  HONE_TRY(each_element(t, DType::i32, [&](uint64_t v) {
    out.push_back(static_cast<std::byte>(v & 0xff));
    if (bits == 16) out.push_back(static_cast<std::byte>((v >> 8) & 0xff));
  }));
  return out;
}

// Elements packed from the low bits of each byte up, or in two bytes, the lower one first.
Result<TensorData> unpack(std::span<const std::byte> packed, NarrowType narrow,
                          const TensorType& type) {
  const int width = bits_of(narrow);
  HONE_ASSIGN(TensorData data, TensorData::allocate(type));
  const int64_t each = 8 / std::min(width, 8);
  const int shift = 32 - width;
  for (int64_t i = 0; i < type.numel(); ++i) {
    uint32_t bits = 0;
    if (width == 16) {
      const size_t at = static_cast<size_t>(2 * i);
      bits = std::to_integer<uint32_t>(packed[at]) | std::to_integer<uint32_t>(packed[at + 1]) << 8;
    } else {
      bits = std::to_integer<uint32_t>(packed[static_cast<size_t>(i / each)]) >>
             (static_cast<int>(i % each) * width);
    }
    bits <<= shift;  // the upper bits go, and the sign comes back from the top
    const int32_t v = is_signed(narrow) ? static_cast<int32_t>(bits) >> shift
                                        : static_cast<int32_t>(bits >> shift);
    if (type.dtype == DType::i32) data.as_mutable<int32_t>()[i] = v;
    if (type.dtype == DType::i8) data.as_mutable<int8_t>()[i] = static_cast<int8_t>(v);
    if (type.dtype == DType::u8) data.as_mutable<uint8_t>()[i] = static_cast<uint8_t>(v);
  }
  return data;
}

Result<TensorType> type_of(const TensorProto& t, NarrowType narrow) {
  const std::optional<DType> dtype =
      narrow != NarrowType::none ? held_in(narrow) : dtype_of(t.data_type);
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

NarrowType narrow_of(ElemType t) {
  for (const NarrowElem& n : kNarrowElems)
    if (n.elem == t) return n.type;
  return NarrowType::none;
}

ElemType elem_type_of(NarrowType t) {
  for (const NarrowElem& n : kNarrowElems)
    if (n.type == t) return n.elem;
  return ElemType::undefined;
}

Result<TensorData> TensorReader::read(const TensorProto& t, NarrowElements how) {
  const std::string who = format("tensor '{}'", t.name);
  const NarrowType narrow =
      how == NarrowElements::widen ? narrow_of(t.data_type) : NarrowType::none;
  const bool is_narrow = narrow != NarrowType::none;
  auto type = type_of(t, narrow);
  if (!type.ok()) return type.status().with_context(who);
  auto data = [&]() -> Result<TensorData> {
    if (!t.external && !t.has_raw_data && !is_narrow) return from_fields(t, *type);
    const uint64_t bits = static_cast<uint64_t>(bits_of(narrow));
    const uint64_t wanted = is_narrow ? (static_cast<uint64_t>(type->numel()) * bits + 7) / 8
                                      : static_cast<uint64_t>(type->bytes());
    std::span<const std::byte> raw = t.raw_data;
    std::shared_ptr<const void> owner = owner_;
    std::vector<std::byte> gathered;
    if (t.external) {
      HONE_ASSIGN(raw, external(t, wanted, owner));
    } else if (!t.has_raw_data) {
      HONE_ASSIGN(gathered, narrow_field(t, bits_of(narrow)));
      raw = gathered;
    }
    if (raw.size() != wanted)
      return invalid_model("{} takes {} bytes, {} are stored", *type, wanted, raw.size());
    return is_narrow ? unpack(raw, narrow, *type) : from_raw(raw, *type, owner);
  }();
  if (!data.ok()) return data.status().with_context(who);
  return data;
}

Result<std::span<const std::byte>> TensorReader::external(const TensorProto& t, uint64_t wanted,
                                                          std::shared_ptr<const void>& owner) {
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
  if (length && *length != wanted)
    return invalid_model("external data: the tensor takes {} bytes, the length given is {}", wanted,
                         *length);
  if (offset > all.size() || all.size() - offset < wanted)
    return invalid_model("external data: {} bytes at {} go beyond the {} bytes of '{}'", wanted,
                         offset, all.size(), location);
  owner = file->second.owner();
  return all.subspan(static_cast<size_t>(offset), static_cast<size_t>(wanted));
}

}  // namespace hone::onnx
