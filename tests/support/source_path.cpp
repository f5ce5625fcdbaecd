// SPDX-License-Identifier: Apache-2.0
#include "tests/support/source_path.hpp"

#include <cstdlib>
#include <fstream>
#include <sstream>

#include "hone/format.hpp"
#include "tests/support/check.hpp"

namespace hone::test {

std::string source_path(std::string_view in_project) {
  return std::string(HONE_SOURCE_DIR "/").append(in_project);
}

void check_written(std::string_view in_project, const std::string& text, std::string_view program) {
  const std::string path = source_path(in_project);
  if (std::getenv("HONE_UPDATE_DOCS")) std::ofstream(path) << text;
  std::ostringstream there;
  there << std::ifstream(path).rdbuf();
  CHECK_MESSAGE(there.str() == text,
                format("run {} with HONE_UPDATE_DOCS=1 and commit the file", program));
}

}  // namespace hone::test
