// SPDX-License-Identifier: Apache-2.0
// A JSON reader for known structures, and the quoting of strings.
#include "core/model/json.hpp"

#include <limits>

namespace hone {

namespace {

// The UTF-8 form of a code point.
void append_utf8(std::string& out, uint32_t c) {
  const auto add = [&](uint32_t v) { out += static_cast<char>(v); };
  const auto tail = [&](int shift) { add(0x80 | ((c >> shift) & 0x3f)); };
  if (c < 0x80) {
    add(c);
  } else if (c < 0x800) {
    add(0xc0 | (c >> 6)), tail(0);
  } else if (c < 0x10000) {
    add(0xe0 | (c >> 12)), tail(6), tail(0);
  } else {
    add(0xf0 | (c >> 18)), tail(12), tail(6), tail(0);
  }
}

constexpr bool is_high_surrogate(uint32_t c) { return c >= 0xd800 && c < 0xdc00; }
constexpr bool is_low_surrogate(uint32_t c) { return c >= 0xdc00 && c < 0xe000; }

}  // namespace

Status JsonCursor::error(std::string_view what) const {
  return invalid_model("the JSON header, at byte {}: {}", at_, what);
}

void JsonCursor::skip_space() {
  while (at_ < text_.size() &&
         std::string_view(" \t\r\n").find(text_[at_]) != std::string_view::npos)
    ++at_;
}

bool JsonCursor::take(char c) {
  skip_space();
  if (at_ >= text_.size() || text_[at_] != c) return false;
  ++at_;
  return true;
}

Status JsonCursor::expect(char c) {
  if (take(c)) return {};
  return error(format("expected '{}'", c));
}

Status JsonCursor::expect_end() {
  skip_space();
  return at_ == text_.size() ? Status() : error("expected nothing more");
}

Result<std::string> JsonCursor::string() {
  HONE_TRY(expect('"'));
  std::string out;
  while (at_ < text_.size()) {
    const char c = text_[at_++];
    if (c == '"') return out;
    if (static_cast<unsigned char>(c) < 0x20) return error("a control character in a string");
    if (c == '\\')
      HONE_TRY(escape(out));
    else
      out += c;
  }
  return error("a string without an end");
}

Status JsonCursor::escape(std::string& out) {
  constexpr std::string_view kNames = "\"\\/bfnrt", kMeanings = "\"\\/\b\f\n\r\t";
  if (at_ >= text_.size()) return error("a string without an end");
  const char c = text_[at_++];
  if (const size_t i = kNames.find(c); i != std::string_view::npos) {
    out += kMeanings[i];
    return {};
  }
  if (c != 'u') return error("an unknown escape");
  HONE_ASSIGN(uint32_t code, hex4());
  if (is_high_surrogate(code)) {
    if (text_.substr(at_, 2) != "\\u") return error("half of a surrogate pair");
    at_ += 2;
    HONE_ASSIGN(const uint32_t low, hex4());
    if (!is_low_surrogate(low)) return error("half of a surrogate pair");
    code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
  } else if (is_low_surrogate(code)) {
    return error("half of a surrogate pair");
  }
  append_utf8(out, code);
  return {};
}

Result<uint32_t> JsonCursor::hex4() {
  uint32_t v = 0;
  for (int i = 0; i < 4; ++i) {
    const char c = at_ < text_.size() ? text_[at_++] : '\0';
    const char lower = static_cast<char>(c | 0x20);
    if (c >= '0' && c <= '9')
      v = v * 16 + static_cast<uint32_t>(c - '0');
    else if (lower >= 'a' && lower <= 'f')
      v = v * 16 + static_cast<uint32_t>(lower - 'a' + 10);
    else
      return error("expected four hexadecimal digits");
  }
  return v;
}

Result<int64_t> JsonCursor::count() {
  skip_space();
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  const size_t first = at_;
  int64_t v = 0;
  for (; at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9'; ++at_) {
    const int64_t digit = text_[at_] - '0';
    if (v > (kMost - digit) / 10) return error("a number beyond 2^63");
    v = v * 10 + digit;
  }
  if (at_ == first) return error("expected a whole number that is not negative");
  if (text_[first] == '0' && at_ - first > 1) return error("a number with a leading zero");
  return v;
}

std::string json_quote(std::string_view s) {
  std::string out = "\"";
  for (char c : s) {
    const auto u = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (u < 0x20) {
      constexpr std::string_view kHex = "0123456789abcdef";
      out += "\\u00";
      out += kHex[u >> 4];
      out += kHex[u & 15];
    } else {
      out += c;
    }
  }
  return out + '"';
}

}  // namespace hone
