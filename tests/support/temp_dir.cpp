// SPDX-License-Identifier: Apache-2.0
// Temporary directories, through the standard library so that they do not lean on what they help to
// test.
#include "tests/support/temp_dir.hpp"

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>

namespace hone::test {

TempDir::TempDir() {
  std::random_device random;  // a name, not a value a test could depend on
  do {
    path_ = (std::filesystem::temp_directory_path() / ("hone-test-" + std::to_string(random())))
                .string();
  } while (!std::filesystem::create_directory(path_));
}

TempDir::~TempDir() {
  std::error_code
      ignored;  // a test that made the directory unreadable has its own failure to report
  std::filesystem::remove_all(path_, ignored);
}

std::string read_text(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  REQUIRE_MESSAGE(in.good(), "cannot read " << path);
  return {std::istreambuf_iterator<char>(in), {}};
}

void write_text(const std::string& path, std::string_view bytes) {
  // A new file rather than the old one cut short, which some file systems flush to the medium on
  // each close.
  std::filesystem::remove(path);
  std::ofstream out(path, std::ios::binary);
  out.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  out.close();
  REQUIRE_MESSAGE(out.good(), "cannot write " << path);
}

}  // namespace hone::test
