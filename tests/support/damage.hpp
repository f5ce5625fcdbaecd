// SPDX-License-Identifier: Apache-2.0
// Damaged copies of a file, for readers that must survive them.
#pragma once

#include <string>
#include <string_view>

#include "hone/function_ref.hpp"

namespace hone::test {

/// Calls `read` with each proper prefix of `bytes` whose length is a multiple of `step`.
inline void for_each_truncation(std::string_view bytes, size_t step,
                                FunctionRef<void(const std::string& damaged)> read) {
  for (size_t n = 0; n < bytes.size(); n += step) read(std::string(bytes.substr(0, n)));
}

/// Calls `read` with copies of `bytes` in which one byte is changed: each byte at a multiple of
/// `step`, in one bit, in all bits, and to 0xff.
inline void for_each_bad_byte(std::string_view bytes, size_t step,
                              FunctionRef<void(const std::string& damaged)> read) {
  std::string copy(bytes);
  for (size_t i = 0; i < copy.size(); i += step) {
    const unsigned char old = static_cast<unsigned char>(copy[i]);
    const int changes[] = {old ^ (1 << (i % 8)), old ^ 0xff, 0xff};
    for (int changed : changes) {
      if (changed == old) continue;
      copy[i] = static_cast<char>(changed);
      read(copy);
    }
    copy[i] = static_cast<char>(old);
  }
}

}  // namespace hone::test
