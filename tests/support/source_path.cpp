// SPDX-License-Identifier: Apache-2.0
#include "tests/support/source_path.hpp"

namespace hone::test {

std::string source_path(std::string_view in_project) {
  return std::string(HONE_SOURCE_DIR "/").append(in_project);
}

}  // namespace hone::test
