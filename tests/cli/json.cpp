// SPDX-License-Identifier: Apache-2.0
#include "tests/cli/json.hpp"

#include <cstdlib>

namespace hone::test {

namespace {

class Reader {
 public:
  explicit Reader(std::string_view text) : text_(text) {}

  Json run(std::string& wrong) {
    Json out = value();
    space();
    if (wrong_.empty() && at_ != text_.size()) fail("something follows");
    wrong = wrong_;
    return out;
  }

 private:
  void fail(const std::string& what) {
    if (wrong_.empty()) wrong_ = what + " at " + std::to_string(at_);
    at_ = text_.size();
  }
  void space() { at_ = std::min(text_.find_first_not_of(" \t\r\n", at_), text_.size()); }
  bool take(std::string_view s) {
    space();
    if (text_.substr(at_, s.size()) != s) return false;
    at_ += s.size();
    return true;
  }

  Json value() {
    Json out;
    space();
    if (at_ == text_.size()) return fail("no value"), out;
    const char c = text_[at_];
    if (c == '{') return object();
    if (c == '[') return list();
    if (c == '"') return out.kind = Json::Kind::text, out.text = string(), out;
    if (take("null")) return out;
    if (take("true")) return out.kind = Json::Kind::boolean, out.number = 1, out;
    if (take("false")) return out.kind = Json::Kind::boolean, out;
    return number();
  }

  Json number() {
    const size_t end = std::min(text_.find_first_not_of("+-.eE0123456789", at_), text_.size());
    const std::string digits(text_.substr(at_, end - at_));
    char* stop = nullptr;
    Json out;
    out.kind = Json::Kind::number;
    out.number = std::strtod(digits.c_str(), &stop);
    const bool leading_zero = digits.size() > 1 && digits[0] == '0' && digits[1] >= '0';
    if (digits.empty() || *stop || digits[0] == '+' || digits[0] == '.' || leading_zero)
      fail("no value");
    at_ = std::max(at_, end);
    return out;
  }

  std::string string() {
    std::string out;
    if (!take("\"")) return fail("no string"), out;
    while (at_ < text_.size() && text_[at_] != '"') {
      if (static_cast<unsigned char>(text_[at_]) < 0x20) return fail("a control character"), out;
      if (text_[at_] == '\\') out += text_[at_++];
      if (at_ < text_.size()) out += text_[at_++];
    }
    if (!take("\"")) fail("a string without an end");
    return out;
  }

  Json list() {
    Json out;
    out.kind = Json::Kind::list;
    (void)take("[");
    if (take("]")) return out;
    do out.items.push_back(value());
    while (take(","));
    if (!take("]")) fail("no ]");
    return out;
  }

  Json object() {
    Json out;
    out.kind = Json::Kind::object;
    (void)take("{");
    if (take("}")) return out;
    do {
      space();
      const std::string name = string();
      if (!take(":")) fail("no :");
      if (!out.members.emplace(name, value()).second) fail("'" + name + "' twice");
    } while (take(","));
    if (!take("}")) fail("no }");
    return out;
  }

  std::string_view text_;
  size_t at_ = 0;
  std::string wrong_;
};

}  // namespace

const Json& Json::operator[](const std::string& name) const {
  static const Json kNull;
  const auto it = members.find(name);
  return it == members.end() ? kNull : it->second;
}

Json read_json(std::string_view text, std::string& wrong) { return Reader(text).run(wrong); }

}  // namespace hone::test
