// SPDX-License-Identifier: Apache-2.0
#include "hone/npz.hpp"

#include <algorithm>
#include <cstring>

#include "core/base/bytes.hpp"
#include "core/base/checksum.hpp"
#include "core/data/inflate.hpp"
#include "core/data/zip.hpp"
#include "tests/support/check.hpp"
#include "tests/support/damage.hpp"
#include "tests/support/failing_sink.hpp"
#include "tests/support/source_path.hpp"
#include "tests/support/temp_dir.hpp"
#include "tests/support/tensors.hpp"

namespace hone {
namespace {

using test::must;
using test::source_path;
using test::TempDir;
using test::tensor_of;

using Arrays = std::vector<std::pair<std::string, TensorData>>;

const std::string kStored = source_path("tests/data/files/numpy.npz");
const std::string kDeflated = source_path("tests/data/files/numpy_compressed.npz");

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text));
}

void check_numpy_arrays(const NpzReader& npz) {
  const std::vector<double> quarters = {-0.5, -0.25, 0, 0.25, 0.5, 0.75},
                            small = {-3, -2, -1, 0, 1, 2};
  const auto same = [&](const char* name, const TensorData& want) {
    CAPTURE(name);
    CHECK(test::same_bits(must(npz.read(name)), want));
  };
  same("f64", test::tensor_from({DType::f64, {2, 3}}, quarters));
  same("f32", test::tensor_from({DType::f32, {2, 3}}, quarters));
  same("f16", test::tensor_from({DType::f16, {2, 3}}, quarters));
  same("i64", test::tensor_from({DType::i64, {2, 3}}, small));
  same("i32", test::tensor_from({DType::i32, {2, 3}}, small));
  same("i8", test::tensor_from({DType::i8, {2, 3}}, small));
  same("u8", tensor_of<uint8_t>({2, 3}, {250, 251, 252, 253, 254, 255}));
  same("bool", tensor_of<bool>({2, 3}, {0, 1, 0, 1, 0, 1}));
  same("scalar", tensor_of<float>({}, {2.5}));
  same("empty", tensor_of<float>({0, 3}, {}));
  same("in/nested", tensor_of<float>({1}, {1}));
  std::vector<double> counting(24);
  for (size_t i = 0; i < 24; ++i) counting[i] = static_cast<double>(i);
  same("fortran", test::tensor_from({DType::f32, {2, 3, 4}}, counting));
}

void check_numpy_strings(const NpzReader& npz) {
  CHECK(must(npz.read_strings("bytes")) == std::vector<std::string>{"ab", "", "cde"});
  CHECK(must(npz.read_strings("text")) ==
        std::vector<std::string>{"w", "gr\xc3\xbc\xc3\x9f", "\xe6\x97\xa5\xf0\x9f\x98\x80"});
  CHECK_ERROR(npz.read_strings("f32"), Code::unsupported, "array 'f32': it holds numbers");
}

void check_numpy_refusals(const NpzReader& npz) {
  CHECK_ERROR(npz.read("bytes"), Code::unsupported, "array 'bytes': it holds strings ('|S3')");
  CHECK_ERROR(npz.read("text"), Code::unsupported, "'<U4'");
  CHECK_ERROR(npz.read("big_endian"), Code::unsupported, "'>f4'");
  CHECK_ERROR(npz.read("complex"), Code::unsupported, "'<c8'");
  CHECK_ERROR(npz.read("records"), Code::unsupported, "structured");
  CHECK_ERROR(npz.read("f33"), Code::not_found, "no array 'f33' (it has: f64, f32, f16");
}

TEST_CASE("arrays that NumPy stored are read") {
  const NpzReader npz = must(NpzReader::open(kStored));
  CHECK_EQ(npz.names().size(), 17u);
  CHECK_EQ(npz.names()[1], "f32");
  CHECK(npz.contains("in/nested"));
  CHECK_FALSE(npz.contains("nested"));
  check_numpy_arrays(npz);
  check_numpy_strings(npz);
  check_numpy_refusals(npz);
}

TEST_CASE("arrays that NumPy compressed are read, or refused where there is no zlib") {
  const NpzReader npz = must(NpzReader::open(kDeflated));
  if (!can_inflate()) {
    CHECK_ERROR(npz.read("f32"), Code::unsupported, "built without zlib");
    return;
  }
  check_numpy_arrays(npz);
  check_numpy_strings(npz);
  check_numpy_refusals(npz);
  const TensorData t = must(npz.read("long"));
  REQUIRE_EQ(t.numel(), 5000);
  for (int64_t i = 0; i < 5000; ++i) REQUIRE_EQ(t.at(i), static_cast<double>(i % 17));
}

Arrays some_arrays() {
  return {{"w", test::random_tensor({DType::f32, {3, 5}}, 1)},
          {"grad/a.b", test::random_tensor({DType::i64, {4}}, 2, -9, 9)},
          {"mask", test::random_tensor({DType::bool_, {2, 2}}, 3)},
          {"x", tensor_of<double>({}, {3.25})},
          {"none", tensor_of<float>({0}, {})}};
}

TEST_CASE("arrays written are read back in order, in place and aligned") {
  const TempDir dir;
  const Arrays arrays = some_arrays();
  REQUIRE_OK(write_npz(dir.file("a.npz"), arrays));
  const NpzReader npz = must(NpzReader::open(dir.file("a.npz")));
  REQUIRE_EQ(npz.names().size(), arrays.size());
  for (size_t i = 0; i < arrays.size(); ++i) {
    CHECK_EQ(npz.names()[i], arrays[i].first);
    TensorData t = must(npz.read(arrays[i].first));
    CHECK(test::same_bits(t, arrays[i].second));
    CHECK(t.mutable_data() == nullptr);
    CHECK_EQ(reinterpret_cast<uintptr_t>(t.data()) % kAlignment, 0u);
  }
}

TEST_CASE("an array outlives its reader") {
  const TempDir dir;
  REQUIRE_OK(write_npz(dir.file("a.npz"), Arrays{{"x", tensor_of<float>({2}, {1, 2})}}));
  const TensorData t = must(must(NpzReader::open(dir.file("a.npz"))).read("x"));
  CHECK_EQ(t.at(1), 2.0);
}

TEST_CASE("the same arrays make the same file") {
  const TempDir dir;
  REQUIRE_OK(write_npz(dir.file("a.npz"), some_arrays()));
  REQUIRE_OK(write_npz(dir.file("b.npz"), some_arrays()));
  CHECK(test::read_text(dir.file("a.npz")) == test::read_text(dir.file("b.npz")));
}

TEST_CASE(
    "an archive of nothing, and one of more entries than 16 bits count, are written and read") {
  const TempDir dir;
  REQUIRE_OK(write_npz(dir.file("a.npz"), Arrays{}));
  CHECK_EQ(must(NpzReader::open(dir.file("a.npz"))).names().size(), 0u);

  AtomicFile file = must(AtomicFile::create(dir.file("many.zip")));
  ZipWriter zip(&file);
  const std::string_view text = "x";
  const std::span<const std::byte> piece[] = {bytes_of(text)};
  // Each add looks through the names before it: few enough that this stays quick.
  for (int i = 0; i < 3000; ++i) REQUIRE_OK(zip.add(format("e{}", i), piece, 1));
  REQUIRE_OK(zip.finish());
  REQUIRE_OK(file.commit());
  const MappedFile map = must(MappedFile::open(dir.file("many.zip")));
  CHECK_EQ(must(read_zip(map.bytes())).size(), 3000u);
}

TEST_CASE("names that cannot be told apart or do not exist are refused") {
  const TempDir dir;
  const TensorData t = tensor_of<float>({}, {1});
  CHECK_ERROR(write_npz(dir.file("a.npz"), Arrays{{"x", t}, {"x", t}}), Code::invalid_argument,
              "two entries 'x.npy'");
  CHECK_ERROR(write_npz(dir.file("a.npz"), Arrays{{std::string(70000, 'n'), t}}),
              Code::invalid_argument, "70004 bytes");
  CHECK_ERROR(write_npz(dir.file("a.npz"), Arrays{{"x", TensorData()}}), Code::invalid_argument,
              "array 'x' is undefined");
  CHECK_ERROR(NpzReader::open(dir.file("a.npz")), Code::not_found, "a.npz");
}

TEST_CASE("a file that is no zip is refused") {
  const TempDir dir;
  test::write_text(dir.file("a.npz"), "");
  CHECK_ERROR(NpzReader::open(dir.file("a.npz")), Code::invalid_model, "a.npz: not a zip archive");
  test::write_text(dir.file("a.npz"), std::string(1000, 'x'));
  CHECK_ERROR(NpzReader::open(dir.file("a.npz")), Code::invalid_model, "not a zip archive");
}

TEST_CASE("a changed element is noticed") {
  const TempDir dir;
  REQUIRE_OK(
      write_npz(dir.file("a.npz"), Arrays{{"x", tensor_of<uint8_t>({4}, {'h', 'o', 'n', 'e'})}}));
  std::string bytes = test::read_text(dir.file("a.npz"));
  bytes[bytes.find("hone")] = 'H';
  test::write_text(dir.file("a.npz"), bytes);
  CHECK_ERROR(must(NpzReader::open(dir.file("a.npz"))).read("x"), Code::invalid_model,
              "array 'x': its checksum is wrong");
}

// Whatever the damage, each array is refused or is the one that was written.
void check_damaged(const TempDir& dir, const std::string& bytes, const NpzReader& good) {
  test::write_text(dir.file("bad.npz"), bytes);
  const Result<NpzReader> npz = NpzReader::open(dir.file("bad.npz"));
  if (!npz.ok()) {
    CHECK(npz.status().code() != Code::internal);
    return;
  }
  for (const std::string& name : npz->names()) {
    const Result<TensorData> t = npz->read(name);
    if (t.ok()) CHECK(test::same_bits(*t, must(good.read(name))));
  }
}

TEST_CASE("no damage to an archive goes unnoticed or does harm") {
  const TempDir dir;
  REQUIRE_OK(write_npz(dir.file("ours.npz"), some_arrays()));
  for (const std::string& path : {dir.file("ours.npz"), kStored, kDeflated}) {
    const NpzReader good = must(NpzReader::open(path));
    const std::string bytes = test::read_text(path);
    // Every byte of our own small file; of the others enough to meet each kind of field in some
    // entry.
    const size_t step = path == dir.file("ours.npz") ? 1 : 3;
    test::for_each_truncation(bytes, step,
                              [&](const std::string& b) { check_damaged(dir, b, good); });
    test::for_each_bad_byte(bytes, step,
                            [&](const std::string& b) { check_damaged(dir, b, good); });
  }
}

TEST_CASE("wherever the disk fails, the old archive stays") {
  const TempDir dir;
  const std::string path = dir.file("a.npz");
  REQUIRE_OK(write_npz(path, Arrays{{"old", tensor_of<float>({}, {1})}}));
  const std::string content(100000, 'x');
  const std::span<const std::byte> piece[] = {bytes_of(content)};
  int failures = 0;
  test::for_each_disk_failure(
      path,
      [&](AtomicFile& file) -> Status {
        ZipWriter zip(&file);
        HONE_TRY(zip.add("a.npy", piece, kAlignment));
        HONE_TRY(zip.add("b.npy", piece, kAlignment));
        HONE_TRY(zip.finish());
        return file.commit();
      },
      [&](int) {
        ++failures;
        CHECK(must(NpzReader::open(path)).contains("old"));
      });
  CHECK_GE(failures, 4);
  CHECK(must(NpzReader::open(path)).contains("b"));
}

// ---- archives made by hand

// One entry "a.npy", stored unless told otherwise, whose 32-bit numbers may be moved to a zip64
// field.
struct HandMade {
  std::string contents = "contents";
  uint64_t claimed_bytes = 8, claimed_stored = 8;
  uint16_t method = 0, flags = 0;
  bool zip64 = false;
  uint32_t local_at = 0;

  std::string archive() const {
    const std::string name = "a.npy";
    std::string out;
    const auto u16 = [&](uint64_t v) { put(out, static_cast<uint16_t>(v)); };
    const auto u32 = [&](uint64_t v) { put(out, static_cast<uint32_t>(v)); };
    const auto u64 = [&](uint64_t v) { put(out, v); };
    u32(0x04034b50), u16(20), u16(flags), u16(method), u32(0);
    u32(crc32(bytes_of(contents))), u32(claimed_stored), u32(claimed_bytes), u16(name.size()),
        u16(0);
    out += name + contents;
    const size_t directory_at = out.size();
    u32(0x02014b50), u16(20), u16(20), u16(flags), u16(method), u32(0),
        u32(crc32(bytes_of(contents)));
    u32(zip64 ? 0xffffffff : claimed_stored), u32(zip64 ? 0xffffffff : claimed_bytes);
    u16(name.size()), u16(zip64 ? 28 : 0), u16(0), u16(0), u16(0), u32(0),
        u32(zip64 ? 0xffffffff : local_at);
    out += name;
    if (zip64) u16(1), u16(24), u64(claimed_bytes), u64(claimed_stored), u64(local_at);
    const size_t end_at = out.size();
    if (zip64) {
      u32(0x06064b50), u64(44), u16(45), u16(45), u32(0), u32(0), u64(1), u64(1);
      u64(end_at - directory_at), u64(directory_at);
      u32(0x07064b50), u32(0), u64(end_at), u32(1);
    }
    const bool wide = zip64;
    u32(0x06054b50), u16(0), u16(0), u16(wide ? 0xffff : 1), u16(wide ? 0xffff : 1);
    u32(wide ? 0xffffffff : end_at - directory_at), u32(wide ? 0xffffffff : directory_at), u16(0);
    return out;
  }

  template <class T>
  static void put(std::string& out, T v) {
    char raw[sizeof v];
    store_le(raw, v);
    out.append(raw, sizeof v);
  }
};

Status read_status(const HandMade& h) {
  const std::string archive = h.archive();
  return read_zip(bytes_of(archive)).status();
}

TEST_CASE("zip64 sizes, offsets and counts are read") {
  for (bool zip64 : {false, true}) {
    const std::string archive = HandMade{.zip64 = zip64}.archive();
    const std::vector<ZipEntry> entries = must(read_zip(bytes_of(archive)));
    REQUIRE_EQ(entries.size(), 1u);
    CHECK_EQ(entries[0].name, "a.npy");
    CHECK_EQ(entries[0].bytes, 8u);
    CHECK_EQ(std::memcmp(entries[0].data.data(), "contents", 8), 0);
  }
}

TEST_CASE("sizes that nothing backs are refused before room is made for them") {
  CHECK_OK(read_status({}));
  const uint64_t huge = uint64_t{1} << 60;
  CHECK_ERROR(read_status({.claimed_bytes = huge, .claimed_stored = 8, .zip64 = true}),
              Code::invalid_model, "claims 1152921504606846976 bytes and has 8");
  CHECK_ERROR(read_status({.claimed_bytes = huge, .claimed_stored = huge, .zip64 = true}),
              Code::invalid_model, "reaches past the end");
  CHECK_ERROR(
      read_status({.claimed_bytes = ~uint64_t{0}, .claimed_stored = ~uint64_t{0}, .zip64 = true}),
      Code::invalid_model, "reaches past the end");
  CHECK_ERROR(read_status({.claimed_bytes = 100000, .method = 8}), Code::invalid_model,
              "claims 100000 bytes");
  CHECK_ERROR(read_status({.local_at = 1}), Code::invalid_model,
              "not where the table of contents says");
  CHECK_ERROR(read_status({.local_at = 0xfffffff0}), Code::invalid_model,
              "not where the table of contents says");
}

TEST_CASE("entries that are encrypted or compressed some other way are named") {
  CHECK_ERROR(read_status({.flags = 1}), Code::unsupported, "'a.npy' is encrypted");
  CHECK_ERROR(read_status({.method = 12}), Code::unsupported, "method 12");
}

TEST_CASE("a comment after the archive is skipped") {
  std::string archive = HandMade().archive();
  archive[archive.size() - 2] = 5;
  archive += "hello";
  CHECK_EQ(must(read_zip(bytes_of(archive))).size(), 1u);
  archive += "!";
  CHECK_ERROR(read_zip(bytes_of(archive)), Code::invalid_model, "cut short");
}

}  // namespace
}  // namespace hone
