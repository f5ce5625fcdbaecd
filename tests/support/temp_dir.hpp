// SPDX-License-Identifier: Apache-2.0
// A directory that lives as long as the test, and whole-file helpers for looking into it.
#pragma once

#include <string>
#include <string_view>

namespace hone::test {

/// A fresh, empty directory; removed with all it holds on destruction.
class TempDir {
 public:
  TempDir();
  ~TempDir();
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;

  const std::string& path() const { return path_; }
  std::string file(std::string_view name) const { return path_ + "/" + std::string(name); }

 private:
  std::string path_;
};

/// The bytes of a file; ends the test case when it cannot be read.
std::string read_text(const std::string& path);
void write_text(const std::string& path, std::string_view bytes);

}  // namespace hone::test
