// SPDX-License-Identifier: Apache-2.0
// safetensors files, ours and those of others.
#include "hone/safetensors.hpp"

#include <cstring>

#include "hone/weights.hpp"
#include "tests/model/samples.hpp"
#include "tests/support/check.hpp"
#include "tests/support/temp_dir.hpp"
#include "tests/support/tensors.hpp"

using namespace hone;
using namespace hone::test;

namespace {

// A file with that header and `bytes` zeros of data.
std::string file_with(const std::string& header, size_t bytes) {
  const uint64_t size = header.size();
  std::string file(reinterpret_cast<const char*>(&size), sizeof size);
  return file + header + std::string(bytes, '\0');
}

Result<TensorFile> load(const std::string& file) {
  return load_safetensors(std::as_bytes(std::span(file)), nullptr);
}

}  // namespace

TEST_CASE("tensors of every element type come back from a safetensors file") {
  const TempDir dir;
  TensorFile file;
  file.metadata = {{"format", "pt"}, {"note", "a \"quoted\"\nline \\ \x01 ü"}};
  for (int t = 0; t < kDTypeCount; ++t) {
    const DType dtype = static_cast<DType>(t);
    file.tensors.push_back(
        {"t." + std::string(to_string(dtype)), random_tensor({dtype, {2, 3}}, 5, -9, 9)});
  }
  file.tensors.push_back({"empty", random_tensor({DType::f32, {0}}, 5)});
  file.tensors.push_back({"scalar", random_tensor({DType::f64, {}}, 5)});
  REQUIRE_OK(save_safetensors(file, dir.file("s")));
  const TensorFile back = must(load_safetensors(dir.file("s")));
  CHECK_EQ(back.metadata, file.metadata);
  REQUIRE_EQ(back.tensors.size(), file.tensors.size());
  const auto find = [&](const std::string& name) {
    for (const NamedTensor& t : back.tensors)
      if (t.name == name) return t.data;
    return TensorData();
  };
  for (const NamedTensor& t : file.tensors) CHECK(same_bits(find(t.name), t.data));
}

TEST_CASE("the weights of a model go to a safetensors file and back") {
  const TempDir dir;
  REQUIRE_OK(save_safetensors({weights(sample_model()), {}}, dir.file("s")));
  const TensorFile file = must(load_safetensors(dir.file("s")));
  Model m = sample_model();
  m.graph.value(m.graph.find("w")).data = random_tensor({DType::f32, {4, 3}}, 99);
  REQUIRE_OK(set_weights(m, file.tensors));
  CHECK_EQ(content_hash(m), content_hash(sample_model()));
  Model other = tiny_model();
  CHECK_ERROR(set_weights(other, file.tensors), Code::invalid_argument,
              "'bias' is not in the model");
  CHECK_EQ(content_hash(other), content_hash(tiny_model()));
}

// As PyTorch's safetensors package writes it: a key order of its own, blanks behind.
TEST_CASE("a file of another writer is read") {
  const std::string header =
      "{ \"b\" : {\"shape\":[2],\"data_offsets\":[4,8],\"dtype\":\"F16\"},\n"
      "  \"a\\u00fc\\ud83d\\ude00\":{\"dtype\":\"I32\",\"shape\":[],\"data_offsets\":[0,4]}}   ";
  const TensorFile file = must(load(file_with(header, 8)));
  REQUIRE_EQ(file.tensors.size(), 2u);
  CHECK_EQ(file.tensors[0].name, "aü😀");
  CHECK(file.tensors[1].data.type() == TensorType{DType::f16, {2}});
  CHECK(must(load(file_with("{}", 0))).tensors.empty());
}

TEST_CASE("a safetensors header that lies is refused") {
  const auto entry = [](const std::string& dtype, const std::string& shape,
                        const std::string& offsets) {
    return load(file_with("{\"a\":{\"dtype\":\"" + dtype + "\",\"shape\":[" + shape +
                              "],\"data_offsets\":[" + offsets + "]}}",
                          8))
        .status();
  };
  CHECK_OK(entry("F32", "2", "0,8"));
  CHECK_ERROR(entry("F32", "3", "0,8"), Code::invalid_model, "needs 12 bytes");
  CHECK_ERROR(entry("F32", "2", "0,9"), Code::invalid_model, "at most 8");
  CHECK_ERROR(entry("F32", "2", "4,12"), Code::invalid_model, "from 0");
  CHECK_ERROR(entry("F32", "2", "8,0"), Code::invalid_model, "offsets 8 to 0");
  CHECK_ERROR(entry("F32", "1", "0,4"), Code::invalid_model, "4 bytes of data follow");
  CHECK_ERROR(entry("F32", "4294967296,4294967296", "0,8"), Code::invalid_model, "too large");
  CHECK_ERROR(entry("F32", "9223372036854775808", "0,8"), Code::invalid_model, "beyond 2^63");
  CHECK_ERROR(entry("F32", "-2", "0,8"), Code::invalid_model, "whole number");
  CHECK_ERROR(entry("F32", "2.0", "0,8"), Code::invalid_model, "expected ']'");
  CHECK_ERROR(entry("F32", "1,1,1,1,1,1,1,1,2", "0,8"), Code::invalid_model,
              "more than 8 dimensions");
  CHECK_ERROR(entry("F8_E4M3", "8", "0,8"), Code::unsupported, "'F8_E4M3'");
}

TEST_CASE("a safetensors header that is no JSON of the right form is refused with its place") {
  const char* const kWrong[] = {
      "",
      "[]",
      "{",
      "{\"a\"}",
      "{\"a\":1}",
      "{\"a\":{}}",
      "{\"a\":{\"dtype\":\"F32\"}}",
      "{\"a\":{\"dtype\":\"F32\",\"dtype\":\"F32\"}}",
      "{\"a\":{\"type\":\"F32\"}}",
      "{\"__metadata__\":{\"a\":1}}",
      "{\"a",
      "{\"a\\",
      "{\"a\\u12",
      "{\"a\\ud83d\":{}}",
      "{\"a\\q\":{}}",
      "{} x",
      "{\"a\":{\"dtype\":\"F32\",\"shape\":[01],\"data_offsets\":[0,4]}}",
      "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0]}}",
  };
  for (const char* header : kWrong) {
    CAPTURE(header);
    CHECK_ERROR(load(file_with(header, 0)), Code::invalid_model, "");
  }
  const std::string twice =
      "{\"a\":{\"dtype\":\"F32\",\"shape\":[0],\"data_offsets\":[0,0]},"
      "\"a\":{\"dtype\":\"F32\",\"shape\":[0],\"data_offsets\":[0,0]}}";
  CHECK_ERROR(load(file_with(twice, 0)), Code::invalid_model, "the name 'a'");
}

TEST_CASE(
    "a safetensors file cut at any length or with any bit of its header flipped does not crash the "
    "reader") {
  const TempDir dir;
  REQUIRE_OK(save_safetensors({weights(sample_model()), {}}, dir.file("s")));
  std::string file = read_text(dir.file("s"));
  for (size_t n = 0; n < file.size(); ++n)
    CHECK_ERROR(load(std::string(file.data(), n)), Code::invalid_model, "");
  uint64_t header_size = 0;
  std::memcpy(&header_size, file.data(), sizeof header_size);
  for (size_t bit = 0; bit < (header_size + 8) * 8; ++bit) {
    file[bit / 8] = static_cast<char>(file[bit / 8] ^ (1 << (bit % 8)));
    const Result<TensorFile> read = load(file);
    if (read.ok()) CHECK_EQ(read->tensors.size(), 3u);
    file[bit / 8] = static_cast<char>(file[bit / 8] ^ (1 << (bit % 8)));
  }
}

TEST_CASE("tensors that have no usable name are not saved") {
  const TempDir dir;
  const auto save = [&](const std::string& a, const std::string& b) {
    const TensorData t = random_tensor({DType::f32, {1}}, 1);
    return save_safetensors({{{a, t}, {b, t}}, {}}, dir.file("s"));
  };
  CHECK_ERROR(save("a", ""), Code::invalid_argument, "no usable name");
  CHECK_ERROR(save("a", "__metadata__"), Code::invalid_argument, "no usable name");
  CHECK_ERROR(save("a", "a"), Code::invalid_argument, "the name 'a'");
}
