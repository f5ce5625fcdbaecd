// SPDX-License-Identifier: Apache-2.0
// The table of small cases says where their tests are.
#include <cctype>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <string>

#include <doctest/doctest.h>

namespace {

const std::filesystem::path kTests = std::filesystem::path(HONE_SOURCE_DIR) / "tests";

std::string read(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

// The ids ("C07", also in "C15a") that a text names.
std::set<std::string> ids_in(const std::string& text) {
  const auto digit = [&](size_t i) {
    return i < text.size() && std::isdigit(static_cast<unsigned char>(text[i]));
  };
  std::set<std::string> ids;
  for (size_t i = 0; i + 2 < text.size(); ++i) {
    const bool inside = i > 0 && std::isalnum(static_cast<unsigned char>(text[i - 1]));
    if (text[i] == 'C' && !inside && digit(i + 1) && digit(i + 2) && !digit(i + 3))
      ids.insert(text.substr(i, 3));
  }
  return ids;
}

// Id -> files, of the rows "| C01 | fault | `ops/a.cpp`, `ops/b.cpp` |".
std::map<std::string, std::set<std::string>> table() {
  std::map<std::string, std::set<std::string>> rows;
  std::istringstream lines(read(kTests / "CASES.md"));
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("| C")) continue;
    std::set<std::string>& files = rows[line.substr(2, 3)];
    for (size_t from = line.find('`'); from != std::string::npos;) {
      const size_t to = line.find('`', from + 1);
      const std::string name = line.substr(from + 1, to - from - 1);
      if (name.find('/') != std::string::npos) files.insert(name);
      from = line.find('`', to + 1);
    }
  }
  return rows;
}

TEST_CASE("every small case has the tests that CASES.md says, and every test's case stands there") {
  const auto rows = table();
  CHECK_EQ(rows.size(), 22);
  for (const auto& [id, files] : rows) {
    CAPTURE(id);
    CHECK(!files.empty());
    for (const std::string& file : files) {
      CAPTURE(file);
      CHECK(ids_in(read(kTests / file)).contains(id));
    }
  }
  for (const auto& entry : std::filesystem::recursive_directory_iterator(kTests)) {
    if (entry.path().extension() != ".cpp" || entry.path().parent_path() == kTests / "project")
      continue;
    const std::string file = std::filesystem::relative(entry.path(), kTests).generic_string();
    CAPTURE(file);
    for (const std::string& id : ids_in(read(entry.path()))) {
      CAPTURE(id);
      REQUIRE(rows.contains(id));
      CHECK(rows.at(id).contains(file));
    }
  }
}

}  // namespace
