// SPDX-License-Identifier: Apache-2.0
// Protobuf's wire format: tags, varints, lengths.
#include "core/import/wire.hpp"

namespace hone::wire {

namespace detail {

bool take_varint(std::span<const std::byte>& bytes, uint64_t& v) {
  v = 0;
  for (size_t i = 0; i < bytes.size() && i < 10; ++i) {
    const uint64_t b = std::to_integer<uint64_t>(bytes[i]);
    if (i == 9 && b > 1) return false;  // bits beyond the 64th
    v |= (b & 0x7f) << (7 * i);
    if (b < 0x80) {
      bytes = bytes.subspan(i + 1);
      return true;
    }
  }
  return false;
}

uint64_t little_endian(const std::byte* p, size_t count) {
  uint64_t v = 0;
  for (size_t i = 0; i < count; ++i) v |= std::to_integer<uint64_t>(p[i]) << (8 * i);
  return v;
}

Status wrong_type(const Field& field) {
  return invalid_model("field {} has wire type {}, which its kind never has", field.number,
                       static_cast<int>(field.type));
}

Status ragged(const Field& field, size_t element_bytes) {
  return invalid_model("field {}: {} bytes are no whole number of {}-byte elements", field.number,
                       field.bytes.size(), element_bytes);
}

}  // namespace detail

bool Reader::damaged(std::string_view what) {
  status_ = invalid_model("damaged at byte {} of {}: {}", at_, message_.size(), what);
  return false;
}

bool Reader::varint(uint64_t& v) {
  std::span<const std::byte> rest = message_.subspan(at_);
  if (!detail::take_varint(rest, v)) return damaged("a number is cut off or longer than 64 bits");
  at_ = message_.size() - rest.size();
  return true;
}

bool Reader::next() {
  if (!status_.ok() || at_ == message_.size()) return false;
  uint64_t tag = 0;
  if (!varint(tag)) return false;
  if (tag > UINT32_MAX || tag >> 3 == 0) return damaged("not a field tag");
  field_ = {};
  field_.number = static_cast<uint32_t>(tag >> 3);
  field_.type = static_cast<WireType>(tag & 7);
  const size_t left = message_.size() - at_;
  switch (field_.type) {
    case WireType::varint:
      return varint(field_.bits);
    case WireType::fixed64:
    case WireType::fixed32: {
      const size_t width = field_.type == WireType::fixed64 ? 8 : 4;
      if (left < width) return damaged("a fixed-size number is cut off");
      field_.bits = detail::little_endian(&message_[at_], width);
      at_ += width;
      return true;
    }
    case WireType::bytes: {
      uint64_t length = 0;
      if (!varint(length)) return false;
      if (length > message_.size() - at_)
        return damaged(format("field {} claims {} bytes, {} are left; the file may be cut short",
                              field_.number, length, message_.size() - at_));
      field_.bytes = message_.subspan(at_, static_cast<size_t>(length));
      at_ += static_cast<size_t>(length);
      return true;
    }
  }
  return damaged(format("unknown wire type {}", tag & 7));
}

std::string& Writer::tail() {
  if (pieces_.empty() || !pieces_.back().borrowed.empty()) pieces_.emplace_back();
  return pieces_.back().owned;
}

void Writer::varint(uint64_t v) {
  std::string& out = tail();
  const size_t before = out.size();
  for (; v >= 0x80; v >>= 7) out += static_cast<char>((v & 0x7f) | 0x80);
  out += static_cast<char>(v);
  size_ += out.size() - before;
}

void Writer::integer(uint32_t field, int64_t v) {
  tag(field, WireType::varint);
  varint(static_cast<uint64_t>(v));
}

void Writer::real(uint32_t field, float v) {
  tag(field, WireType::fixed32);
  const uint32_t bits = std::bit_cast<uint32_t>(v);
  for (int i = 0; i < 4; ++i) tail() += static_cast<char>(bits >> (8 * i));
  size_ += 4;
}

void Writer::text(uint32_t field, std::string_view v) {
  tag(field, WireType::bytes);
  varint(v.size());
  tail() += v;
  size_ += v.size();
}

void Writer::borrowed(uint32_t field, std::span<const std::byte> bytes) {
  constexpr size_t kShort = 256;  // not worth a piece of its own
  if (bytes.size() <= kShort)
    return text(field, {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  tag(field, WireType::bytes);
  varint(bytes.size());
  tail();
  pieces_.back().borrowed = bytes;
  size_ += bytes.size();
}

void Writer::message(uint32_t field, Writer&& nested) {
  tag(field, WireType::bytes);
  varint(nested.size_);
  append(std::move(nested));
}

void Writer::append(Writer&& fields) {
  size_ += fields.size_;
  for (Piece& p : fields.pieces_) {
    tail() += p.owned;
    if (!p.borrowed.empty()) pieces_.back().borrowed = p.borrowed;
  }
  fields = {};
}

void Writer::packed(uint32_t field, std::span<const int64_t> v) {
  Writer values;
  for (int64_t x : v) values.varint(static_cast<uint64_t>(x));
  message(field, std::move(values));
}

void Writer::packed(uint32_t field, std::span<const float> v) {
  tag(field, WireType::bytes);
  varint(v.size() * 4);
  for (float x : v)
    for (int i = 0; i < 4; ++i) tail() += static_cast<char>(std::bit_cast<uint32_t>(x) >> (8 * i));
  size_ += v.size() * 4;
}

std::string Writer::to_string() const {
  std::string out;
  (void)each_piece([&](std::span<const std::byte> p) {  // appending to a string does not fail
    out.append(reinterpret_cast<const char*>(p.data()), p.size());
    return Status();
  });
  return out;
}

}  // namespace hone::wire
