// SPDX-License-Identifier: Apache-2.0
// Files that the tests keep in the source tree.
#pragma once

#include <string>
#include <string_view>

namespace hone::test {

/// The path of a file given by its place in the project: source_path("tests/data/files/f32.npy").
std::string source_path(std::string_view in_project);

}  // namespace hone::test
