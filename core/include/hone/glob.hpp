// SPDX-License-Identifier: Apache-2.0
// Choosing tensors by name.
#pragma once

#include <string_view>

namespace hone {

/// Whether `name` matches one of the comma-separated globs ('*' any run of characters, '?' one).
/// Spaces around a glob do not count.
bool matches(std::string_view globs, std::string_view name);

}  // namespace hone
