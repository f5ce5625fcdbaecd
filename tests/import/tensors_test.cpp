// SPDX-License-Identifier: Apache-2.0
// Tensors of an ONNX file: each way to store elements, and files that lie about them.
#include <limits>

#include "core/base/bytes.hpp"
#include "tests/import/onnx_file.hpp"
#include "tests/support/check.hpp"
#include "tests/support/temp_dir.hpp"
#include "tests/support/tensors.hpp"

namespace hone {
namespace {

using namespace test;
using onnx::ElemType;

// A TensorProto with these dims and this element type; elements are added by the test.
wire::Writer head(std::vector<int64_t> dims, ElemType type) {
  wire::Writer w;
  w.packed(1, dims);
  w.integer(2, static_cast<int64_t>(type));
  w.text(8, "w");
  return w;
}

Result<TensorData> read(const wire::Writer& w, const std::string& directory = {}) {
  const auto bytes = std::make_shared<const std::string>(w.to_string());
  HONE_ASSIGN(const onnx::TensorProto t, onnx::read_tensor(std::as_bytes(std::span(*bytes))));
  return onnx::TensorReader(bytes, directory).read(t);
}

wire::Writer external(std::string_view location, std::string_view offset, std::string_view length) {
  wire::Writer w = head({2}, ElemType::float_);
  const auto entry = [&](std::string_view key, std::string_view value) {
    wire::Writer kv;
    kv.text(1, key);
    kv.text(2, value);
    w.message(13, std::move(kv));
  };
  entry("location", location);
  if (!offset.empty()) entry("offset", offset);
  if (!length.empty()) entry("length", length);
  w.integer(14, 1);
  return w;
}

TEST_CASE("raw bytes read as elements of every type") {
  for (int i = 0; i < kDTypeCount; ++i) {
    const TensorData want = random_tensor({static_cast<DType>(i), {2, 3}}, 7, 0, 100);
    CHECK(same_bits(must(read(onnx_tensor("w", want))), want));
  }
}

TEST_CASE("raw bytes that lie aligned are borrowed from the file") {
  const TensorData want = random_tensor({DType::f32, {64}}, 1);
  for (size_t shift = 0; shift < 4; ++shift) {
    const std::string bytes = onnx_tensor(std::string(shift + 1, 'w'), want).to_string();
    const auto owner = std::make_shared<const std::string>(bytes);
    const onnx::TensorProto t = must(onnx::read_tensor(std::as_bytes(std::span(*owner))));
    const TensorData got = must(onnx::TensorReader(owner).read(t));
    CHECK(same_bits(got, want));
    const bool aligned = reinterpret_cast<uintptr_t>(t.raw_data.data()) % 4 == 0;
    CHECK_EQ(got.data() == t.raw_data.data(), aligned);
  }
}

TEST_CASE("repeated fields read as elements, packed or not") {
  wire::Writer f = head({3}, ElemType::float_);
  const float floats[] = {0.5f, -1.0f};
  f.packed(4, floats);
  f.real(4, 7.0f);
  CHECK(same_bits(must(read(f)), tensor_of<float>({3}, {0.5, -1, 7})));

  wire::Writer i = head({2}, ElemType::int64);
  const int64_t ints[] = {-1, std::numeric_limits<int64_t>::max()};
  i.packed(7, ints);
  CHECK_EQ(must(read(i)).int_at(1), ints[1]);

  wire::Writer h = head({2}, ElemType::float16);  // the bits of 1 and -2
  const int64_t halves[] = {0x3c00, 0xc000};
  h.packed(5, halves);
  CHECK(same_bits(must(read(h)), tensor_of<f16>({2}, {1, -2})));

  wire::Writer s = head({3}, ElemType::int8);
  const int64_t bytes[] = {-128, 127, 5};
  s.packed(5, bytes);
  CHECK(same_bits(must(read(s)), tensor_of<int8_t>({3}, {-128, 127, 5})));

  wire::Writer b = head({3}, ElemType::bool_);
  const int64_t truths[] = {0, 1, 256};
  b.packed(5, truths);
  CHECK(same_bits(must(read(b)), tensor_of<bool>({3}, {0, 1, 1})));

  wire::Writer d = head({}, ElemType::double_);
  std::string raw(8, '\0');
  store_le(raw.data(), std::bit_cast<uint64_t>(2.5));
  d.text(10, raw);
  CHECK_EQ(must(read(d)).at(0), 2.5);
}

TEST_CASE("a raw bool other than 0 and 1 becomes 1") {
  wire::Writer w = head({3}, ElemType::bool_);
  w.text(9, std::string_view("\0\1\2", 3));
  CHECK(same_bits(must(read(w)), tensor_of<bool>({3}, {0, 1, 1})));
}

TEST_CASE("an empty tensor needs no bytes") {
  CHECK_EQ(must(read(head({0, 3}, ElemType::float_))).numel(), 0);
}

TEST_CASE("false sizes are refused before memory is asked for") {
  const int64_t huge = std::numeric_limits<int64_t>::max();
  CHECK_ERROR(read(head({2, 2}, ElemType::float_)), Code::invalid_model,
              "tensor 'w': f32[2, 2] has 4 elements, 0 are stored");
  wire::Writer cut = head({2, 2}, ElemType::float_);
  cut.text(9, "1234");
  CHECK_ERROR(read(cut), Code::invalid_model, "takes 16 bytes, 4 are stored");
  CHECK_ERROR(read(head({huge, 2}, ElemType::float_)), Code::invalid_model, "tensor 'w'");
  CHECK_ERROR(read(head({int64_t{1} << 32, int64_t{1} << 32}, ElemType::float_)),
              Code::invalid_model, "tensor 'w'");
  CHECK_ERROR(read(head({int64_t{1} << 40}, ElemType::float_)), Code::invalid_model,
              "0 are stored");
  CHECK_ERROR(read(head({-1}, ElemType::float_)), Code::invalid_model, "negative");
  CHECK_ERROR(read(head({1, 1, 1, 1, 1, 1, 1, 1, 1}, ElemType::float_)), Code::unsupported,
              "9 dimensions");
}

TEST_CASE("an element type that Hone lacks is named") {
  CHECK_ERROR(read(head({1}, ElemType::uint16)), Code::unsupported, "uint16");
  CHECK_ERROR(read(head({1}, static_cast<ElemType>(99))), Code::unsupported, "type 99");
}

TEST_CASE("external data is mapped from beside the model") {
  TempDir dir;
  const TensorData want = tensor_of<float>({2}, {3, 4});
  write_text(dir.file("w.bin"),
             std::string(8, 'x') + std::string(reinterpret_cast<const char*>(want.data()), 8));
  CHECK(same_bits(must(read(external("w.bin", "8", "8"), dir.path())), want));
  CHECK(same_bits(must(read(external("w.bin", "8", ""), dir.path())), want));
}

Result<TensorData> read_narrow(const wire::Writer& w) {
  const auto bytes = std::make_shared<const std::string>(w.to_string());
  HONE_ASSIGN(const onnx::TensorProto t, onnx::read_tensor(std::as_bytes(std::span(*bytes))));
  return onnx::TensorReader(bytes).read(t, onnx::NarrowElements::widen);
}

TEST_CASE("narrow integers are unpacked from the low bits up, raw or by field") {
  struct Stored {
    ElemType type;
    std::string raw;
    std::vector<int64_t> field;
    TensorData want;
  };
  const Stored all[] = {
      {ElemType::int4, "\x8f\x07", {0x8f, 0x07}, tensor_of<int8_t>({3}, {-1, -8, 7})},
      {ElemType::uint4, "\x8f\x07", {0x8f, 0x07}, tensor_of<uint8_t>({3}, {15, 8, 7})},
      {ElemType::int2, "\x1e", {0x1e}, tensor_of<int8_t>({3}, {-2, -1, 1})},
      {ElemType::uint2, "\x1e", {0x1e}, tensor_of<uint8_t>({3}, {2, 3, 1})},
      {ElemType::int16,
       std::string("\xff\xff\x00\x80\x02\x01", 6),
       {-1, -32768, 258},
       tensor_of<int32_t>({3}, {-1, -32768, 258})},
      {ElemType::uint16,
       std::string("\xff\xff\x00\x80\x02\x01", 6),
       {65535, 32768, 258},
       tensor_of<int32_t>({3}, {65535, 32768, 258})},
  };
  for (const Stored& s : all) {
    CAPTURE(onnx::to_string(s.type));
    wire::Writer raw = head({3}, s.type);
    raw.text(9, s.raw);
    CHECK(same_bits(must(read_narrow(raw)), s.want));
    wire::Writer field = head({3}, s.type);
    field.packed(5, s.field);
    CHECK(same_bits(must(read_narrow(field)), s.want));
    CHECK_ERROR(read(raw), Code::unsupported, onnx::to_string(s.type));
    wire::Writer cut = head({5}, s.type);
    cut.text(9, s.raw.substr(0, 1));
    CHECK_ERROR(read_narrow(cut), Code::invalid_model, "1 are stored");
  }
}

TEST_CASE("external data that goes beyond its file is refused") {
  TempDir dir;
  write_text(dir.file("w.bin"), std::string(12, 'x'));
  CHECK_ERROR(read(external("w.bin", "8", "8"), dir.path()), Code::invalid_model,
              "go beyond the 12 bytes");
  CHECK_ERROR(read(external("w.bin", "18446744073709551615", "8"), dir.path()), Code::invalid_model,
              "no number");
  CHECK_ERROR(read(external("w.bin", "1000000000000000000", "8"), dir.path()), Code::invalid_model,
              "go beyond");
  CHECK_ERROR(read(external("w.bin", "0", "4"), dir.path()), Code::invalid_model,
              "the length given is 4");
  CHECK_ERROR(read(external("w.bin", "-8", "8"), dir.path()), Code::invalid_model, "no number");
  CHECK_ERROR(read(external("none.bin", "0", "8"), dir.path()), Code::not_found, "none.bin");
}

TEST_CASE("external data outside the model's folder is refused") {
  for (const char* path : {"/etc/passwd", "../w.bin", "a/../../w.bin", "..", "a/..", "\\\\host\\w",
                           "c:w.bin", "a\\..\\w.bin", ""})
    CHECK_ERROR(read(external(path, "", "")), Code::invalid_model, "is not a path below");
}

}  // namespace
}  // namespace hone
