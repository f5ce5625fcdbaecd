// SPDX-License-Identifier: Apache-2.0
// JSON (RFC 8259) for tests that read what the command wrote.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace hone::test {

struct Json {
  enum class Kind : uint8_t { null, boolean, number, text, list, object };
  Kind kind = Kind::null;
  double number = 0;  ///< 0 and 1 for booleans.
  std::string text;   ///< Escapes as they stand.
  std::vector<Json> items;
  std::map<std::string, Json> members;

  bool has(const std::string& name) const { return members.count(name) > 0; }
  /// A null where there is no such member.
  const Json& operator[](const std::string& name) const;
};

/// Reads one value and nothing behind it. `wrong` says what is not JSON, or stays empty. A member
/// that is there twice is an error.
Json read_json(std::string_view text, std::string& wrong);

}  // namespace hone::test
