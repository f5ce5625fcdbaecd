// SPDX-License-Identifier: Apache-2.0
#include <cstring>

#include "core/data/npy.hpp"
#include "hone/npz.hpp"
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

// A version 1.0 file with the given header text and data.
std::string npy_file(std::string_view header, std::string_view data) {
  std::string out("\x93NUMPY\x01\x00", 8);
  out += static_cast<char>(header.size() & 0xff);
  out += static_cast<char>(header.size() >> 8);
  return out.append(header).append(data);
}

Result<TensorData> read_bytes(const TempDir& dir, std::string_view bytes) {
  test::write_text(dir.file("x.npy"), bytes);
  return read_npy(dir.file("x.npy"));
}

TEST_CASE("a file of NumPy's is read in place") {
  const TensorData want = tensor_of<float>({2, 3}, {-0.5, -0.25, 0, 0.25, 0.5, 0.75});
  TensorData t = must(read_npy(source_path("tests/data/files/f32.npy")));
  CHECK(test::same_bits(t, want));
  CHECK(t.mutable_data() == nullptr);  // mapped
  CHECK(test::same_bits(must(read_npy(source_path("tests/data/files/version2.npy"))), want));
}

TEST_CASE("every element type and rank is written and read back") {
  const TempDir dir;
  for (int i = 0; i < kDTypeCount; ++i)
    for (const Shape& shape :
         {Shape{}, Shape{1}, Shape{7}, Shape{0, 3}, Shape{2, 3}, Shape{2, 1, 3, 1, 2, 1, 1, 2}}) {
      const TensorType type{static_cast<DType>(i), shape};
      CAPTURE(to_string(type));
      const TensorData t = test::random_tensor(type, 5, 0, 100);
      REQUIRE_OK(write_npy(dir.file("t.npy"), t));
      const TensorData back = must(read_npy(dir.file("t.npy")));
      if (type.dtype == DType::bf16)
        CHECK(test::same_bits(back, must(cast(t, DType::f32))));
      else
        CHECK(test::same_bits(back, t));
    }
}

TEST_CASE("the header is the one NumPy writes, and its end is aligned") {
  CHECK_EQ(make_npy_header({DType::f32, {2, 3}}).substr(10, 60),
           "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), } ");
  CHECK_EQ(make_npy_header({DType::i8, {3}}).substr(10, 59),
           "{'descr': '|i1', 'fortran_order': False, 'shape': (3,), }  ");
  CHECK_EQ(make_npy_header({DType::bool_, {}}).substr(10, 57),
           "{'descr': '|b1', 'fortran_order': False, 'shape': (), }  ");
  const Shape large = Shape::filled(8, int64_t{1} << 40);
  for (const Shape& s : {Shape{}, Shape{1000}, large}) {
    const std::string header = make_npy_header({DType::f64, s});
    CHECK_EQ(header.size() % kAlignment, 0u);
    CHECK_EQ(header.back(), '\n');
  }
}

TEST_CASE("headers are read however they are spelled") {
  const TempDir dir;
  const std::string data("\x01\x02", 2);
  const TensorData want = tensor_of<int8_t>({2}, {1, 2});
  for (const char* header : {
           "{'descr': '|i1', 'fortran_order': False, 'shape': (2,), }\n",
           "{\"shape\":(2,),\"descr\":\"<i1\",\"fortran_order\":False}",
           "{'descr': '|i1', 'fortran_order': True, 'shape': (2L,)}        \n",
       })
    CHECK(test::same_bits(must(read_bytes(dir, npy_file(header, data))), want));
}

TEST_CASE("a header that is not quite right is refused") {
  const TempDir dir;
  const std::string data("\x01\x02", 2);
  for (const char* header : {
           "",
           "{",
           "{}",
           "{'descr': '|i1', 'fortran_order': False}",
           "{'descr': '|i1', 'fortran_order': False, 'shape': (2,), } x",
           "{'descr': '|i1', 'fortran_order': Maybe, 'shape': (2,), }",
           "{'descr': '|i1', 'fortran_order': False, 'shape': (2,, ), }",
           "{'descr': '|i1', 'fortran_order': False, 'shape': (-2,), }",
           "{'descr': '|i1', 'fortran_order': False, 'shape': (2 2), }",
           "{'descr': '|i1', 'fortran_order': False, 'shape': 2, }",
           "{'descr': '|i1', 'descr': '|i1', 'fortran_order': False, 'shape': (2,), }",
           "{'descr': '|i1', 'fortran_order': False, 'shape': (2,), 'more': 1}",
           "{'descr: '|i1', 'fortran_order': False, 'shape': (2,), }",
           "{'descr': '|i1' 'fortran_order': False, 'shape': (2,), }",
           "{'descr': '|i1', 'fortran_order': False, 'shape': (99999999999999999999,), }",
       }) {
    CAPTURE(header);
    CHECK_ERROR(read_bytes(dir, npy_file(header, data)), Code::invalid_model, "header is damaged");
  }
  CHECK_ERROR(read_bytes(dir, "no array at all"), Code::invalid_model, "not a NumPy array");
  CHECK_ERROR(read_bytes(dir, ""), Code::invalid_model, "not a NumPy array");
  std::string future = npy_file("{}", "");
  future[6] = 9;
  CHECK_ERROR(read_bytes(dir, future), Code::invalid_model, "version 9");
}

TEST_CASE("a claim that the file does not back is refused") {
  const TempDir dir;
  const auto header = [](std::string_view shape) {
    return format("{'descr': '<f8', 'fortran_order': False, 'shape': {}, }", shape);
  };
  CHECK_ERROR(read_bytes(dir, npy_file(header("(2,)"), "12345678")), Code::invalid_model,
              "claims to be f64[2], which takes 16 bytes, but has 8");
  CHECK_ERROR(read_bytes(dir, npy_file(header("()"), "123456789")), Code::invalid_model, "has 9");
  CHECK_ERROR(read_bytes(dir, npy_file(header("(4611686018427387904, 8)"), "")),
              Code::invalid_model, "too large");
  CHECK_ERROR(read_bytes(dir, npy_file(header("(4611686018427387904, 0, 8)"), "")),
              Code::invalid_model, "too large");
  CHECK_ERROR(read_bytes(dir, npy_file(header("(1,1,1,1,1,1,1,1,1)"), "12345678")),
              Code::unsupported, "9 dimensions");
}

TEST_CASE("a byte that is no bool is refused") {
  const TempDir dir;
  const char* header = "{'descr': '|b1', 'fortran_order': False, 'shape': (2,), }";
  CHECK_OK(read_bytes(dir, npy_file(header, std::string("\x01\x00", 2))));
  CHECK_ERROR(read_bytes(dir, npy_file(header, std::string("\x01\x02", 2))), Code::invalid_model,
              "neither 0 nor 1");
}

TEST_CASE("element types that Hone lacks are named") {
  const TempDir dir;
  const auto header = [](std::string_view descr) {
    return format("{'descr': '{}', 'fortran_order': False, 'shape': (1,), }", descr);
  };
  CHECK_ERROR(read_bytes(dir, npy_file(header(">f4"), "1234")), Code::unsupported, "'>f4'");
  CHECK_ERROR(read_bytes(dir, npy_file(header("<c8"), "12345678")), Code::unsupported, "'<c8'");
  CHECK_ERROR(read_bytes(dir, npy_file(header("|S4"), "1234")), Code::unsupported, "strings");
  CHECK_ERROR(read_bytes(dir, npy_file(header(""), "1234")), Code::unsupported, "''");
}

TEST_CASE("Fortran order becomes C order") {
  const TempDir dir;
  // Columns first: (0,0) (1,0) (0,1) (1,1) (0,2) (1,2).
  const char* header = "{'descr': '|u1', 'fortran_order': True, 'shape': (2, 3), }";
  CHECK(test::same_bits(must(read_bytes(dir, npy_file(header, "adbecf"))),
                        tensor_of<uint8_t>({2, 3}, {'a', 'b', 'c', 'd', 'e', 'f'})));
}

TEST_CASE("no truncated or damaged file is taken for more than it is") {
  const TempDir dir;
  const std::string good = test::read_text(source_path("tests/data/files/f32.npy"));
  test::for_each_truncation(
      good, 1, [&](const std::string& bytes) { CHECK_FALSE(read_bytes(dir, bytes).ok()); });
  test::for_each_bad_byte(good, 1, [&](const std::string& bytes) {
    const Result<TensorData> t = read_bytes(dir, bytes);
    if (t.ok())
      CHECK_EQ(t->bytes(), 24);  // other values, or as many other elements
    else
      CHECK_NE(t.status().message(), "");
  });
}

TEST_CASE("what cannot be opened or written is named") {
  const TempDir dir;
  CHECK_ERROR(read_npy(dir.file("none.npy")), Code::not_found, "none.npy");
  CHECK_ERROR(write_npy(dir.file("no/folder.npy"), tensor_of<float>({}, {1})), Code::not_found,
              "no/folder.npy");
  CHECK_ERROR(write_npy(dir.file("x.npy"), TensorData()), Code::invalid_argument, "undefined");
}

}  // namespace
}  // namespace hone
