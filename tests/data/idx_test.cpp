// SPDX-License-Identifier: Apache-2.0
#include "hone/idx.hpp"

#include "core/data/inflate.hpp"
#include "tests/support/check.hpp"
#include "tests/support/damage.hpp"
#include "tests/support/source_path.hpp"
#include "tests/support/temp_dir.hpp"
#include "tests/support/tensors.hpp"

namespace hone {
namespace {

using test::must;
using test::source_path;
using test::TempDir;
using test::tensor_of;

std::string bytes(std::initializer_list<int> values) {
  std::string out;
  for (int v : values) out += static_cast<char>(v);
  return out;
}

Result<TensorData> read_bytes(const TempDir& dir, std::string_view data) {
  test::write_text(dir.file("x"), data);
  return read_idx(dir.file("x"));
}

TEST_CASE("pixels are read, gzipped or not") {
  const TensorData want = tensor_of<uint8_t>({2, 2, 3}, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11});
  CHECK(test::same_bits(must(read_idx(source_path("tests/data/files/pixels.idx"))), want));
  const Result<TensorData> gz = read_idx(source_path("tests/data/files/pixels.idx.gz"));
  if (can_inflate())
    CHECK(test::same_bits(must(gz), want));
  else
    CHECK_ERROR(gz, Code::unsupported, "built without zlib");
}

TEST_CASE("elements of each type are turned from big-endian") {
  const TempDir dir;
  CHECK(test::same_bits(must(read_bytes(dir, bytes({0, 0, 9, 1, 0, 0, 0, 2, 1, 255}))),
                        tensor_of<int8_t>({2}, {1, -1})));
  CHECK(
      test::same_bits(must(read_bytes(dir, bytes({0, 0, 11, 1, 0, 0, 0, 3, 1, 2, 255, 254, 0, 7}))),
                      tensor_of<int32_t>({3}, {258, -2, 7})));
  CHECK(test::same_bits(must(read_bytes(dir, bytes({0, 0, 12, 1, 0, 0, 0, 1, 255, 255, 255, 0}))),
                        tensor_of<int32_t>({1}, {-256})));
  CHECK(test::same_bits(must(read_bytes(dir, bytes({0, 0, 13, 1, 0, 0, 0, 1, 0x3f, 0xc0, 0, 0}))),
                        tensor_of<float>({1}, {1.5})));
  CHECK(test::same_bits(
      must(read_bytes(dir, bytes({0, 0, 14, 1, 0, 0, 0, 1, 0xbf, 0xf8, 0, 0, 0, 0, 0, 0}))),
      tensor_of<double>({1}, {-1.5})));
}

TEST_CASE("a file that is not IDX, or claims what it does not have, is refused") {
  const TempDir dir;
  CHECK_ERROR(read_idx(dir.file("none")), Code::not_found, "none");
  CHECK_ERROR(read_bytes(dir, ""), Code::invalid_model, "cut short");
  CHECK_ERROR(read_bytes(dir, "some text"), Code::invalid_model, "not an IDX file");
  CHECK_ERROR(read_bytes(dir, bytes({0, 0, 10, 1, 0, 0, 0, 0})), Code::invalid_model,
              "element type 10");
  CHECK_ERROR(read_bytes(dir, bytes({0, 0, 8, 9})), Code::unsupported, "9 dimensions");
  CHECK_ERROR(read_bytes(dir, bytes({0, 0, 8, 1, 0, 0, 0, 3, 1, 2})), Code::invalid_model,
              "claims 3 bytes of data and has 2");
  CHECK_ERROR(read_bytes(dir, bytes({0, 0, 8, 1, 0, 0, 0, 1, 1, 2})), Code::invalid_model,
              "claims 1 bytes of data and has 2");
  CHECK_ERROR(read_bytes(dir, bytes({0, 0, 8, 2, 255, 255, 255, 255, 255, 255, 255, 255})),
              Code::invalid_model, "too large");
  CHECK_ERROR(read_bytes(dir, bytes({0, 0, 8, 2, 127, 255, 255, 255, 127, 255, 255, 255})),
              Code::invalid_model, "claims");
}

TEST_CASE(
    "a gzipped file that claims more than it can hold is refused before room is made for it") {
  if (!can_inflate()) return;
  const TempDir dir;
  // gzip, one stored block: an IDX header for 2^40 bytes and nothing more.
  const std::string gz = bytes({0x1f, 0x8b, 8, 0, 0, 0,  0, 0, 0, 255, 1, 12, 0, 0xf3, 0xff,  //
                                0,    0,    8, 2, 0, 16, 0, 0, 0, 16,  0, 0});
  CHECK_ERROR(read_bytes(dir, gz), Code::invalid_model,
              "claims 1099511627776 bytes of data and has no more than");
}

TEST_CASE("damage to a gzipped file is noticed") {
  if (!can_inflate()) return;
  const TempDir dir;
  const std::string good = test::read_text(source_path("tests/data/files/pixels.idx.gz"));
  const TensorData want = must(read_idx(source_path("tests/data/files/pixels.idx")));
  test::for_each_truncation(good, 1,
                            [&](const std::string& b) { CHECK_FALSE(read_bytes(dir, b).ok()); });
  test::for_each_bad_byte(good, 1, [&](const std::string& b) {
    const Result<TensorData> t = read_bytes(dir, b);
    if (t.ok())
      CHECK(
          test::same_bits(*t, want));  // a field of gzip's header that says nothing about the data
  });
}

TEST_CASE("no prefix of a plain file is taken for the whole") {
  const TempDir dir;
  const std::string good = test::read_text(source_path("tests/data/files/pixels.idx"));
  test::for_each_truncation(good, 1,
                            [&](const std::string& b) { CHECK_FALSE(read_bytes(dir, b).ok()); });
  test::for_each_bad_byte(good.substr(0, 16), 1, [&](const std::string& b) {
    CHECK_FALSE(read_bytes(dir, b + good.substr(16) + "x").ok());
  });
}

}  // namespace
}  // namespace hone
