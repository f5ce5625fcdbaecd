// SPDX-License-Identifier: Apache-2.0
#include "core/cli/markup.hpp"

#include <cstdint>

namespace hone::cli {

namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

bool continues(char c) { return (static_cast<unsigned char>(c) & 0xC0) == 0x80; }

// Length of the character at the front, 0 when it is none that may be shown. XML allows neither
// most control characters nor U+FFFE and U+FFFF; U+202A and the like turn what follows around.
size_t character(std::string_view s) {
  const unsigned char c = static_cast<unsigned char>(s[0]);
  if (c < 0x80) return c >= 0x20 && c != 0x7F ? 1 : 0;
  const size_t n = c >= 0xF0 ? 4 : c >= 0xE0 ? 3 : 2;
  if (c < 0xC2 || c > 0xF4 || s.size() < n) return 0;
  uint32_t code = c & (0xFFu >> (n + 1));
  for (size_t i = 1; i < n; ++i) {
    if (!continues(s[i])) return 0;
    code = code << 6 | (static_cast<unsigned char>(s[i]) & 0x3Fu);
  }
  constexpr uint32_t kLeast[] = {0, 0, 0x80, 0x800, 0x10000};
  const bool bad = code < kLeast[n] || code > 0x10FFFF || (code >= 0xD800 && code < 0xE000) ||
                   (code & 0xFFFE) == 0xFFFE || code < 0xA0 || (code >= 0x202A && code <= 0x202E) ||
                   (code >= 0x2066 && code <= 0x2069);
  return bad ? 0 : n;
}

size_t count_characters(std::string_view s) {
  size_t n = 0;
  for (char c : s) n += !continues(c);
  return n;
}

// The byte at which character number `n` starts.
size_t start_of(std::string_view s, size_t n) {
  for (size_t i = 0; i < s.size(); ++i)
    if (!continues(s[i]) && n-- == 0) return i;
  return s.size();
}

}  // namespace

std::string printable(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const size_t n = character(text);
    out += n > 0 ? text.substr(0, n) : kReplacement;
    text.remove_prefix(n > 0 ? n : 1);
  }
  return out;
}

std::string shortened(std::string_view text, size_t most) {
  constexpr std::string_view kCut = "...";
  const std::string clean = printable(text);
  const size_t n = count_characters(clean);
  if (n <= most) return clean;
  if (most <= kCut.size()) return clean.substr(0, start_of(clean, most));
  const size_t head = (most - kCut.size()) / 2, tail = most - kCut.size() - head;
  return clean.substr(0, start_of(clean, head)) + std::string(kCut) +
         clean.substr(start_of(clean, n - tail));
}

std::string xml_text(std::string_view text) {
  std::string out;
  for (char c : printable(text)) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      case '\'':
        out += "&#39;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

}  // namespace hone::cli
