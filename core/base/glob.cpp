// SPDX-License-Identifier: Apache-2.0
// Globs, in time that grows with the product of both lengths at worst.
#include "hone/glob.hpp"

#include <algorithm>

namespace hone {

namespace {

// After a mismatch only the last star seen need take one character more: what an earlier one would
// take, the later one can too.
bool matches_one(std::string_view glob, std::string_view name) {
  constexpr size_t kNoStar = std::string_view::npos;
  size_t g = 0, n = 0, star = kNoStar, star_end = 0;
  while (n < name.size()) {
    if (g < glob.size() && glob[g] == '*') {
      star = g++;
      star_end = n;
    } else if (g < glob.size() && (glob[g] == '?' || glob[g] == name[n])) {
      ++g, ++n;
    } else if (star != kNoStar) {
      g = star + 1;
      n = ++star_end;
    } else {
      return false;
    }
  }
  return glob.find_first_not_of("*", g) == glob.npos;
}

std::string_view trimmed(std::string_view s) {
  while (s.starts_with(' ')) s.remove_prefix(1);
  while (s.ends_with(' ')) s.remove_suffix(1);
  return s;
}

}  // namespace

bool matches(std::string_view globs, std::string_view name) {
  while (!globs.empty()) {
    const size_t comma = std::min(globs.find(','), globs.size());
    const std::string_view glob = trimmed(globs.substr(0, comma));
    if (!glob.empty() && matches_one(glob, name)) return true;
    globs.remove_prefix(std::min(comma + 1, globs.size()));
  }
  return false;
}

}  // namespace hone
