// SPDX-License-Identifier: Apache-2.0
// Files that the tests keep in the source tree.
#pragma once

#include <string>
#include <string_view>

namespace hone::test {

/// The path of a file given by its place in the project: source_path("tests/data/files/f32.npy").
std::string source_path(std::string_view in_project);

/// Checks that the file, given by its place in the project, says `text`. With HONE_UPDATE_DOCS set
/// it is written first: the documents that the tests make. `program` is named in the failure.
void check_written(std::string_view in_project, const std::string& text, std::string_view program);

}  // namespace hone::test
