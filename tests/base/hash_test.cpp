// SPDX-License-Identifier: Apache-2.0
// Both hashes against published values, and against themselves cut into pieces.
#include "core/base/hash.hpp"

#include <string_view>
#include <vector>

#include "tests/support/check.hpp"

using namespace hone;

namespace {

std::span<const std::byte> bytes_of(std::string_view s) { return std::as_bytes(std::span(s)); }

std::string sha256(std::string_view s) {
  Sha256 h;
  h.update(bytes_of(s));
  return h.hex_digest();
}

}  // namespace

// Published values of the reference implementation.
TEST_CASE("checksum64 is XXH64 with seed zero, for every length of tail") {
  CHECK_EQ(checksum64({}), 0xef46db3751d8e999u);
  CHECK_EQ(checksum64(bytes_of("a")), 0xd24ec4f1a98c6e5bu);
  CHECK_EQ(checksum64(bytes_of("abc")), 0x44bc2cf5ad770999u);
  CHECK_EQ(checksum64(bytes_of("The quick brown fox jumps over the lazy dog")),
           0x0b242d361fda71bcu);
}

TEST_CASE("checksum64 changes with any flipped bit") {
  std::vector<std::byte> data(75);
  for (size_t i = 0; i < data.size(); ++i) data[i] = static_cast<std::byte>(i * 37);
  const uint64_t whole = checksum64(data);
  for (size_t bit = 0; bit < data.size() * 8; ++bit) {
    data[bit / 8] ^= static_cast<std::byte>(1u << (bit % 8));
    CHECK_NE(checksum64(data), whole);
    data[bit / 8] ^= static_cast<std::byte>(1u << (bit % 8));
  }
}

// FIPS 180-4 examples.
TEST_CASE("Sha256 gives the published digests") {
  CHECK_EQ(sha256(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  CHECK_EQ(sha256("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  CHECK_EQ(sha256("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
           "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
}

TEST_CASE("Sha256 does not care how its input is cut") {
  const std::string text(200, 'x');
  const std::string whole = sha256(text);
  for (size_t cut = 0; cut <= text.size(); ++cut) {
    Sha256 h;
    h.update(bytes_of(text).first(cut));
    h.update(bytes_of(text).subspan(cut));
    CHECK_EQ(h.hex_digest(), whole);
  }
}
