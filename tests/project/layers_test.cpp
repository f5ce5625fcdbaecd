// SPDX-License-Identifier: Apache-2.0
// Reads the project's own sources and holds their includes against the order of the folders.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "doctest/doctest.h"

namespace fs = std::filesystem;

namespace {

const fs::path kRoot = HONE_SOURCE_DIR;

// What each folder may include besides itself and the public headers of the same folders.
const std::map<std::string, std::set<std::string>> kAllowed = {
    {"base", {}},
    {"tensor", {"base"}},
    {"ir", {"base", "tensor"}},
    {"ops", {"base", "tensor", "ir"}},
    {"autodiff", {"base", "tensor", "ir", "ops"}},
    {"passes", {"base", "tensor", "ir", "ops"}},
    {"model", {"base", "tensor", "ir", "ops"}},
    // An importer makes models, and tidies their graphs before it hands them out.
    {"import", {"base", "tensor", "ir", "ops", "passes", "model"}},
    {"plan", {"base", "tensor", "ir", "ops", "autodiff", "passes", "model", "import"}},
    {"runtime", {"base", "tensor", "ir", "ops", "autodiff", "passes", "model", "import", "plan"}},
    // Modules and optimizers compute with hone::Tensor, which the runtime has.
    {"nn", {"base", "tensor", "ir", "ops", "autodiff", "passes", "model", "plan", "runtime"}},
    {"optim", {"base", "tensor", "ir", "ops", "autodiff", "passes", "model", "plan", "runtime"}},
    {"data", {"base", "tensor", "ir", "ops"}},
    {"capi",
     {"base", "tensor", "ir", "ops", "autodiff", "passes", "model", "import", "plan", "runtime",
      "nn", "optim", "data"}},
    {"cli",
     {"base", "tensor", "ir", "ops", "autodiff", "passes", "model", "import", "plan", "runtime",
      "nn", "optim", "data", "capi"}},
};

struct Include {
  std::string name;
  int line;
};

std::vector<Include> quoted_includes(const fs::path& file) {
  std::vector<Include> found;
  std::ifstream in(file);
  std::string line;
  for (int number = 1; std::getline(in, line); ++number) {
    const size_t first = line.find_first_not_of(" \t");
    if (first == std::string::npos || line.compare(first, 8, "#include") != 0) continue;
    const size_t open = line.find('"');
    const size_t close = line.find('"', open + 1);
    if (open == std::string::npos || close == std::string::npos) continue;
    found.push_back({line.substr(open + 1, close - open - 1), number});
  }
  return found;
}

bool is_source(const fs::path& file) {
  static const std::set<std::string> kEndings = {".cpp", ".hpp", ".h", ".c", ".inc"};
  return kEndings.count(file.extension().string()) > 0;
}

std::vector<fs::path> sources_below(const fs::path& folder) {
  std::vector<fs::path> files;
  if (!fs::exists(folder)) return files;
  for (const auto& entry : fs::recursive_directory_iterator(folder))
    if (entry.is_regular_file() && is_source(entry.path())) files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  return files;
}

std::string project_path(const fs::path& file) {
  return fs::relative(file, kRoot).generic_string();
}

// "core/ops/conv.cpp" -> "ops"; empty outside core/.
std::string folder_of(const std::string& path) {
  if (path.rfind("core/", 0) != 0) return {};
  return path.substr(5, path.find('/', 5) - 5);
}

// The folder that a public header belongs to: where the source of the same name stands. A header
// without a source is as high as the highest header it includes, and may be used from there on.
class PublicHeaders {
 public:
  PublicHeaders() {
    for (const auto& [folder, allowed] : kAllowed)
      for (const fs::path& file : sources_below(kRoot / "core" / folder))
        if (file.extension() == ".cpp") homes_[file.stem().string()].insert(folder);
  }

  // All folders whose code one gets by including `name` ("hone/tensor.hpp").
  std::set<std::string> folders(const std::string& name) {
    const auto [it, is_new] = memo_.try_emplace(name);
    if (!is_new) return it->second;
    std::set<std::string> result;
    const std::string stem = fs::path(name).stem().string();
    if (const auto home = homes_.find(stem); home != homes_.end() && home->second.size() == 1)
      result.insert(*home->second.begin());
    for (const Include& include : quoted_includes(kRoot / "core" / "include" / name))
      if (include.name.rfind("hone/", 0) == 0) result.merge(folders(include.name));
    memo_[name] = result;
    return result;
  }

 private:
  std::map<std::string, std::set<std::string>> homes_;
  std::map<std::string, std::set<std::string>> memo_;
};

std::string place(const fs::path& file, const Include& include) {
  return project_path(file) + ":" + std::to_string(include.line) + " includes \"" + include.name +
         "\"";
}

}  // namespace

TEST_CASE("core folders include only what stands before them") {
  PublicHeaders headers;
  std::vector<std::string> wrong;
  for (const auto& [folder, allowed] : kAllowed) {
    for (const fs::path& file : sources_below(kRoot / "core" / folder)) {
      for (const Include& include : quoted_includes(file)) {
        std::set<std::string> needed;
        if (include.name.rfind("hone/", 0) == 0)
          needed = headers.folders(include.name);
        else
          needed.insert(folder_of(include.name));
        for (const std::string& other : needed)
          if (!other.empty() && other != folder && allowed.count(other) == 0)
            wrong.push_back(place(file, include) + " (" + other + " is not before " + folder + ")");
      }
    }
  }
  for (const std::string& line : wrong) MESSAGE(line);
  CHECK(wrong.empty());
}

TEST_CASE("core names no backend and no platform") {
  std::vector<std::string> wrong;
  for (const fs::path& file : sources_below(kRoot / "core"))
    for (const Include& include : quoted_includes(file))
      if (include.name.rfind("backends/", 0) == 0 || include.name.rfind("platform/", 0) == 0)
        wrong.push_back(place(file, include));
  for (const std::string& line : wrong) MESSAGE(line);
  CHECK(wrong.empty());
}

TEST_CASE("backends include public headers and their own only") {
  std::vector<std::string> wrong;
  for (const fs::path& file : sources_below(kRoot / "backends")) {
    const std::string path = project_path(file);
    const std::string own = path.substr(0, path.find('/', 9) + 1);  // "backends/cpu/"
    for (const Include& include : quoted_includes(file)) {
      const bool ours = include.name.rfind("core/", 0) == 0 ||
                        include.name.rfind("platform/", 0) == 0 ||
                        include.name.rfind("backends/", 0) == 0;
      if (ours && include.name.rfind(own, 0) != 0) wrong.push_back(place(file, include));
    }
  }
  for (const std::string& line : wrong) MESSAGE(line);
  CHECK(wrong.empty());
}

TEST_CASE("public headers include public headers only") {
  std::vector<std::string> wrong;
  for (const fs::path& file : sources_below(kRoot / "core" / "include"))
    for (const Include& include : quoted_includes(file))
      if (include.name.rfind("hone/", 0) != 0) wrong.push_back(place(file, include));
  for (const std::string& line : wrong) MESSAGE(line);
  CHECK(wrong.empty());
}

TEST_CASE("every source file says what it is under which licence") {
  std::vector<std::string> wrong;
  for (const char* top : {"core", "backends", "platform", "tests", "examples"})
    for (const fs::path& file : sources_below(kRoot / top)) {
      std::ifstream in(file);
      std::string first;
      std::getline(in, first);
      if (first.find("SPDX-License-Identifier: Apache-2.0") == std::string::npos)
        wrong.push_back(project_path(file));
    }
  for (const std::string& line : wrong) MESSAGE(line);
  CHECK(wrong.empty());
}
