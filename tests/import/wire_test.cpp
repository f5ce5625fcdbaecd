// SPDX-License-Identifier: Apache-2.0
#include "core/import/wire.hpp"

#include <limits>

#include "tests/support/check.hpp"

namespace hone::wire {
namespace {

std::span<const std::byte> bytes_of(std::string_view s) { return std::as_bytes(std::span(s)); }

// Bytes given as numbers: raw({0x08, 0x96, 0x01}).
std::string raw(std::initializer_list<int> v) {
  std::string s;
  for (int b : v) s += static_cast<char>(b);
  return s;
}

Status walk(std::string_view message) {
  Reader r(bytes_of(message));
  while (r.next()) {
  }
  return r.status();
}

TEST_CASE("the documentation's example, 150 in field 1, reads as such") {
  const std::string message = raw({0x08, 0x96, 0x01});
  Reader r(bytes_of(message));
  REQUIRE(r.next());
  CHECK_EQ(r.field().number, 1);
  CHECK_EQ(r.field().integer(), 150);
  CHECK_FALSE(r.next());
  CHECK_OK(r.status());
}

TEST_CASE("what the writer writes the reader reads") {
  Writer nested;
  nested.integer(1, -5);
  Writer w;
  w.integer(3, std::numeric_limits<int64_t>::min());
  w.real(2, -1.5f);
  w.text(7, "name");
  w.message(9, std::move(nested));
  w.integer(100000, 1);
  const std::string message = w.to_string();
  CHECK_EQ(message.size(), w.size());

  Reader r(bytes_of(message));
  REQUIRE(r.next());
  CHECK_EQ(r.field().integer(), std::numeric_limits<int64_t>::min());
  REQUIRE(r.next());
  CHECK(r.field().type == WireType::fixed32);
  CHECK_EQ(std::bit_cast<float>(static_cast<uint32_t>(r.field().bits)), -1.5f);
  REQUIRE(r.next());
  CHECK_EQ(r.field().text(), "name");
  REQUIRE(r.next());
  Reader inner(r.field().bytes);
  REQUIRE(inner.next());
  CHECK_EQ(inner.field().integer(), -5);
  REQUIRE(r.next());
  CHECK_EQ(r.field().number, 100000);
  CHECK_FALSE(r.next());
  CHECK_OK(r.status());
}

TEST_CASE("long byte strings are borrowed, not copied, also through nesting") {
  const std::string large(1000, 'x');
  Writer inner, w;
  inner.integer(1, 1);
  inner.borrowed(2, bytes_of(large));
  inner.integer(3, 3);
  w.message(4, std::move(inner));
  bool seen = false;
  REQUIRE_OK(w.each_piece([&](std::span<const std::byte> p) {
    seen |= p.data() == bytes_of(large).data();
    return Status();
  }));
  CHECK(seen);
  const std::string message = w.to_string();
  CHECK_EQ(message.size(), w.size());
  Reader r(bytes_of(message));
  REQUIRE(r.next());
  Reader in(r.field().bytes);
  REQUIRE(in.next());
  REQUIRE(in.next());
  CHECK_EQ(in.field().text(), large);
  REQUIRE(in.next());
  CHECK_EQ(in.field().integer(), 3);
}

TEST_CASE("repeated numbers read alike packed and alone") {
  const int64_t values[] = {0, 300, -1};
  const float reals[] = {0.5f, -2.0f};
  Writer w;
  w.packed(1, values);
  for (int64_t v : values) w.integer(1, v);
  w.packed(2, reals);
  for (float v : reals) w.real(2, v);
  std::vector<int64_t> ints;
  std::vector<float> floats;
  const std::string message = w.to_string();
  Reader r(bytes_of(message));
  while (r.next()) {
    if (r.field().number == 1)
      REQUIRE_OK(
          each_varint(r.field(), [&](uint64_t v) { ints.push_back(static_cast<int64_t>(v)); }));
    if (r.field().number == 2)
      REQUIRE_OK(
          each_fixed32(r.field(), [&](uint32_t v) { floats.push_back(std::bit_cast<float>(v)); }));
  }
  REQUIRE_OK(r.status());
  CHECK(ints == std::vector<int64_t>{0, 300, -1, 0, 300, -1});
  CHECK(floats == std::vector<float>{0.5f, -2.0f, 0.5f, -2.0f});
}

TEST_CASE("eight-byte elements keep their order of bytes") {
  const std::string message = raw({0x0a, 8, 1, 2, 3, 4, 5, 6, 7, 8});
  Reader r(bytes_of(message));
  REQUIRE(r.next());
  uint64_t got = 0;
  REQUIRE_OK(each_fixed64(r.field(), [&](uint64_t v) { got = v; }));
  CHECK_EQ(got, 0x0807060504030201u);
}

TEST_CASE("damage is told with its place") {
  CHECK_ERROR(walk(raw({0x08})), Code::invalid_model, "damaged at byte 1 of 1");
  CHECK_ERROR(walk(raw({0x08, 0x80})), Code::invalid_model, "cut off");
  CHECK_ERROR(walk(raw({0x08, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x02})),
              Code::invalid_model, "longer than 64 bits");
  CHECK_ERROR(walk(raw({0x0a, 5, 'a', 'b'})), Code::invalid_model, "claims 5 bytes, 2 are left");
  CHECK_ERROR(walk(raw({0x0a, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01})),
              Code::invalid_model, "claims 18446744073709551615 bytes");
  CHECK_ERROR(walk(raw({0x0d, 1, 2, 3})), Code::invalid_model, "fixed-size number is cut off");
  CHECK_ERROR(walk(raw({0x09, 1, 2, 3, 4, 5, 6, 7})), Code::invalid_model,
              "fixed-size number is cut off");
  CHECK_ERROR(walk(raw({0x0b})), Code::invalid_model, "unknown wire type 3");
  CHECK_ERROR(walk(raw({0x0f})), Code::invalid_model, "unknown wire type 7");
  CHECK_ERROR(walk(raw({0x00})), Code::invalid_model, "not a field tag");
}

TEST_CASE("a packed array that breaks off within an element is refused") {
  const auto first = [](const std::string& message) {
    Reader r(bytes_of(message));
    CHECK(r.next());
    return r.field();
  };
  const std::string cut = raw({0x0a, 1, 0x80}), ragged = raw({0x0a, 5, 1, 2, 3, 4, 5});
  CHECK_ERROR(each_varint(first(cut), [](uint64_t) {}), Code::invalid_model, "cut off");
  CHECK_ERROR(each_fixed32(first(ragged), [](uint32_t) {}), Code::invalid_model, "5 bytes");
  CHECK_ERROR(each_fixed64(first(ragged), [](uint64_t) {}), Code::invalid_model, "5 bytes");
  const std::string varint = raw({0x08, 1});
  CHECK_ERROR(each_fixed32(first(varint), [](uint32_t) {}), Code::invalid_model, "wire type 0");
}

TEST_CASE("the reader stops at the first damage and stays there") {
  const std::string message = raw({0x08, 0x01, 0x0b, 0x08, 0x01});
  Reader r(bytes_of(message));
  CHECK(r.next());
  CHECK_FALSE(r.next());
  CHECK_FALSE(r.next());
  CHECK_FALSE(r.status().ok());
}

}  // namespace
}  // namespace hone::wire
