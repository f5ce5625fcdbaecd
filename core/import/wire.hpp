// SPDX-License-Identifier: Apache-2.0
// Protobuf's wire format, read in place and written as a rope. Format:
// https://protobuf.dev/programming-guides/encoding/
//
// Why not libprotobuf: it throws, wants run-time type information, brings over a megabyte and
// symbols that clash with an application's own copy, and cannot hold a message of 2 GiB.
#pragma once

#include <bit>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "hone/status.hpp"

namespace hone::wire {

/// How a field is stored. The numbers are the format's; groups (3, 4) are refused, nothing writes
/// them any more.
enum class WireType : uint8_t { varint = 0, fixed64 = 1, bytes = 2, fixed32 = 5 };

/// One field of a message.
struct Field {
  uint32_t number = 0;
  WireType type = WireType::varint;
  uint64_t bits = 0;                 ///< Of varint, fixed64 and fixed32.
  std::span<const std::byte> bytes;  ///< Of bytes: strings, nested messages, packed arrays.

  std::string_view text() const {
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }
  int64_t integer() const { return static_cast<int64_t>(bits); }
};

/// Walks the fields of one message. Nothing is copied; fields point into the message.
///
///   wire::Reader r(bytes);
///   while (r.next()) switch (r.field().number) { ... }
///   HONE_TRY(r.status());
class Reader {
 public:
  explicit Reader(std::span<const std::byte> message) : message_(message) {}

  /// Moves to the next field. False at the end and at damage; `status` tells which.
  bool next();
  const Field& field() const { return field_; }
  /// ok, or invalid_model with the position in the message and what is wrong there.
  const Status& status() const { return status_; }

 private:
  bool varint(uint64_t& v);
  bool damaged(std::string_view what);

  std::span<const std::byte> message_;
  size_t at_ = 0;
  Field field_;
  Status status_;
};

/// Calls f(bits) for each element of a repeated varint field, which may be packed or stand alone.
/// Errors: invalid_model.
template <class F>
Status each_varint(const Field& field, F f);

/// The same for elements of four and eight bytes.
template <class F>
Status each_fixed32(const Field& field, F f);
template <class F>
Status each_fixed64(const Field& field, F f);

/// Builds one message. Long byte strings are borrowed, not copied, so a message may be larger than
/// memory likes.
class Writer {
 public:
  void integer(uint32_t field, int64_t v);
  void real(uint32_t field, float v);
  void text(uint32_t field, std::string_view v);
  /// `bytes` must stay until the message has been written out.
  void borrowed(uint32_t field, std::span<const std::byte> bytes);
  void message(uint32_t field, Writer&& nested);
  /// The fields of another message of the same kind.
  void append(Writer&& fields);
  void packed(uint32_t field, std::span<const int64_t> v);
  void packed(uint32_t field, std::span<const float> v);

  uint64_t size() const { return size_; }
  /// Calls f(span of bytes) -> Status for the message from front to back.
  template <class F>
  Status each_piece(F f) const {
    for (const Piece& p : pieces_) {
      if (!p.owned.empty()) HONE_TRY(f(std::as_bytes(std::span(p.owned))));
      if (!p.borrowed.empty()) HONE_TRY(f(p.borrowed));
    }
    return {};
  }
  std::string to_string() const;

 private:
  struct Piece {  // `owned`, then `borrowed`
    std::string owned;
    std::span<const std::byte> borrowed;
  };

  std::string& tail();
  void varint(uint64_t v);
  void tag(uint32_t field, WireType type) {
    varint(uint64_t{field} << 3 | static_cast<uint64_t>(type));
  }

  std::vector<Piece> pieces_;
  uint64_t size_ = 0;
};

// ---- definitions of the templates

namespace detail {
/// Reads a varint at the front of `bytes` and drops it from them; false when it is cut off or
/// longer than 64 bits.
bool take_varint(std::span<const std::byte>& bytes, uint64_t& v);
uint64_t little_endian(const std::byte* p, size_t count);
Status wrong_type(const Field& field);
Status ragged(const Field& field, size_t element_bytes);

template <size_t kBytes, class F>
Status each_fixed(const Field& field, WireType single, F f) {
  if (field.type == single) {
    f(field.bits);
    return {};
  }
  if (field.type != WireType::bytes) return wrong_type(field);
  if (field.bytes.size() % kBytes != 0) return ragged(field, kBytes);
  for (size_t i = 0; i < field.bytes.size(); i += kBytes) f(little_endian(&field.bytes[i], kBytes));
  return {};
}
}  // namespace detail

template <class F>
Status each_varint(const Field& field, F f) {
  if (field.type == WireType::varint) {
    f(field.bits);
    return {};
  }
  if (field.type != WireType::bytes) return detail::wrong_type(field);
  std::span<const std::byte> rest = field.bytes;
  uint64_t v = 0;
  while (!rest.empty()) {
    if (!detail::take_varint(rest, v))
      return invalid_model("field {}: a packed integer is cut off or too long", field.number);
    f(v);
  }
  return {};
}

template <class F>
Status each_fixed32(const Field& field, F f) {
  return detail::each_fixed<4>(field, WireType::fixed32,
                               [&](uint64_t v) { f(static_cast<uint32_t>(v)); });
}
template <class F>
Status each_fixed64(const Field& field, F f) {
  return detail::each_fixed<8>(field, WireType::fixed64, f);
}

}  // namespace hone::wire
