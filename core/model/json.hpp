// SPDX-License-Identifier: Apache-2.0
// As much of JSON (RFC 8259) as headers of tensor files use, read strictly and without recursion on
// the input's behalf.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "hone/status.hpp"

namespace hone {

/// Walks over a text whose structure the caller knows. Each call skips white space, takes what it
/// names, or fails with the offset.
class JsonCursor {
 public:
  explicit JsonCursor(std::string_view text) : text_(text) {}

  /// Takes `c` if it comes next.
  bool take(char c);
  Status expect(char c);
  /// Only white space is left.
  Status expect_end();
  Result<std::string> string();
  /// A whole number from 0 to 2^63 - 1, without sign, point or exponent.
  Result<int64_t> count();
  Status error(std::string_view what) const;

 private:
  void skip_space();
  Status escape(std::string& out);
  Result<uint32_t> hex4();

  std::string_view text_;
  size_t at_ = 0;
};

/// `s` in quotes, with what JSON wants escaped.
std::string json_quote(std::string_view s);

}  // namespace hone
