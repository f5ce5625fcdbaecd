// SPDX-License-Identifier: Apache-2.0
#include "core/base/checksum.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/bytes.hpp"
#include "core/base/sha256.hpp"

namespace hone {
namespace {

std::span<const std::byte> bytes(std::string_view text) { return std::as_bytes(std::span(text)); }

std::string sha256_hex(std::string_view text) { return to_hex(sha256(bytes(text))); }

// The sanity buffer of the reference implementation's own self test.
std::vector<std::byte> xxh_sanity_buffer(size_t n) {
  std::vector<std::byte> out(n);
  uint64_t generator = 2654435761u;
  for (std::byte& b : out) {
    b = static_cast<std::byte>(generator >> 56);
    generator *= 11400714785074694797u;
  }
  return out;
}

TEST_CASE("xxh64 gives the published answers") {
  CHECK_EQ(xxh64(bytes("")), 0xEF46DB3751D8E999u);
  CHECK_EQ(xxh64(bytes("a")), 0xD24EC4F1A98C6E5Bu);
  CHECK_EQ(xxh64(bytes("abc")), 0x44BC2CF5AD770999u);
  CHECK_EQ(xxh64(bytes("xxhash"), 20141025), 0xb559b98d844e0635u);
}

TEST_CASE("xxh64 gives the reference implementation's sums for one, fourteen and 222 bytes") {
  constexpr uint64_t kSeed = 2654435761u;
  const auto buffer = xxh_sanity_buffer(222);
  const std::span<const std::byte> all = buffer;
  CHECK_EQ(xxh64(all.first(0), 0), 0xEF46DB3751D8E999u);
  CHECK_EQ(xxh64(all.first(0), kSeed), 0xAC75FDA2929B17EFu);
  CHECK_EQ(xxh64(all.first(1), 0), 0xE934A84ADB052768u);
  CHECK_EQ(xxh64(all.first(1), kSeed), 0x5014607643A9B4C3u);
  CHECK_EQ(xxh64(all.first(14), 0), 0x8282DCC4994E35C8u);
  CHECK_EQ(xxh64(all.first(14), kSeed), 0xC3BD6BF63DEB6DF0u);
  CHECK_EQ(xxh64(all, 0), 0xB641AE8CB691C174u);
  CHECK_EQ(xxh64(all, kSeed), 0x20CB8AB7AE10C14Au);
}

TEST_CASE("xxh64 gives the same sum whatever the pieces") {
  const auto buffer = xxh_sanity_buffer(222);
  const std::span<const std::byte> all = buffer;
  for (const size_t piece : {1u, 7u, 31u, 32u, 33u, 100u}) {
    CAPTURE(piece);
    Xxh64 hash(7);
    for (size_t at = 0; at < all.size(); at += piece)
      hash.update(all.subspan(at, std::min(piece, all.size() - at)));
    CHECK_EQ(hash.finish(), xxh64(all, 7));
  }
}

// "123456789" is the check input of every CRC catalogue.
TEST_CASE("the CRCs give the published answers") {
  CHECK_EQ(crc32(bytes("123456789")), 0xCBF43926u);
  CHECK_EQ(crc32c(bytes("123456789")), 0xE3069283u);
  CHECK_EQ(crc32(bytes("")), 0u);
  const std::vector<std::byte> zeros(32), ones(32, std::byte{0xff});
  CHECK_EQ(crc32c(zeros), 0x8A9136AAu);  // RFC 3720, B.4
  CHECK_EQ(crc32c(ones), 0x62A8AB43u);
}

TEST_CASE("a CRC goes on from where it stopped, at any point") {
  const std::string text = "The quick brown fox jumps over the lazy dog";
  for (size_t cut = 0; cut <= text.size(); ++cut) {
    const std::string_view head = std::string_view(text).substr(0, cut),
                           tail = std::string_view(text).substr(cut);
    CHECK_EQ(crc32(bytes(tail), crc32(bytes(head))), 0x414FA339u);
    CHECK_EQ(crc32c(bytes(tail), crc32c(bytes(head))), crc32c(bytes(text)));
  }
}

TEST_CASE("every single bit matters to each checksum") {
  std::string text(45, 'x');
  const uint64_t hash = xxh64(bytes(text));
  const uint32_t a = crc32(bytes(text)), b = crc32c(bytes(text));
  for (size_t bit = 0; bit < text.size() * 8; ++bit) {
    text[bit / 8] = static_cast<char>(text[bit / 8] ^ (1 << (bit % 8)));
    CHECK_NE(xxh64(bytes(text)), hash);
    CHECK_NE(crc32(bytes(text)), a);
    CHECK_NE(crc32c(bytes(text)), b);
    text[bit / 8] = static_cast<char>(text[bit / 8] ^ (1 << (bit % 8)));
  }
}

TEST_CASE("sha256 gives the answers of FIPS 180") {
  CHECK_EQ(sha256_hex("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  CHECK_EQ(sha256_hex(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  CHECK_EQ(sha256_hex("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
           "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  CHECK_EQ(
      sha256_hex(
          "abcdefghbcdefghicdefghijdefghijkefghijklfghijklmghijklmnhijklmnoijklmnopjklmnopqklmnopqr"
          "lmnopqrsmnopqrstnopqrstu"),
      "cf5b16a778af8380036ce59e7b0492370b249b11e8f07a51afac45037afee9d1");
  CHECK_EQ(sha256_hex(std::string(1000000, 'a')),
           "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST_CASE("sha256 does not care how its input is cut, around the padding's edges too") {
  for (size_t n : {1, 54, 55, 56, 57, 63, 64, 65, 119, 120, 128, 200}) {
    const std::string text(n, 'q');
    for (size_t cut = 0; cut <= n; ++cut) {
      Sha256 hash;
      hash.update(bytes(text).first(cut));
      hash.update(bytes(text).subspan(cut));
      CHECK(hash.finish() == sha256(bytes(text)));
    }
  }
}

TEST_CASE("integers load and store in either byte order") {
  const unsigned char raw[] = {0, 1, 2, 3, 4, 5, 6, 7, 8};
  CHECK_EQ(load_le<uint32_t>(raw + 1), 0x04030201u);
  CHECK_EQ(load_be<uint32_t>(raw + 1), 0x01020304u);
  CHECK_EQ(load_le<uint64_t>(raw + 1), 0x0807060504030201u);
  CHECK_EQ(load_be<uint16_t>(raw + 1), 0x0102);
  unsigned char out[4];
  store_be<uint32_t>(out, 0x01020304u);
  CHECK_EQ(out[0], 1);
  store_le<uint32_t>(out, 0x01020304u);
  CHECK_EQ(out[0], 4);
}

}  // namespace
}  // namespace hone
