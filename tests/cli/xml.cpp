// SPDX-License-Identifier: Apache-2.0
#include "tests/cli/xml.hpp"

#include "hone/format.hpp"

namespace hone::test {

namespace {

class Reader {
 public:
  explicit Reader(std::string_view text) : rest_(text), size_(text.size()) {}

  Xml run() {
    check_characters();
    while (out_.wrong.empty() && !rest_.empty()) {
      if (rest_.front() == '<')
        tag();
      else
        text();
    }
    if (open_ >= 0) fail("an element is not closed");
    if (out_.elements.empty()) fail("there is no element");
    return std::move(out_);
  }

 private:
  void fail(std::string_view what) {
    if (out_.wrong.empty()) out_.wrong = format("at byte {}: {}", size_ - rest_.size(), what);
  }
  bool take(std::string_view s) {
    if (!rest_.starts_with(s)) return false;
    rest_.remove_prefix(s.size());
    return true;
  }

  void check_characters() {
    for (char c : rest_)
      if (static_cast<unsigned char>(c) < 0x20 && c != '\n' && c != '\t' && c != '\r')
        return fail("a control character");
  }

  std::string_view until(std::string_view ends) {
    const std::string_view part = rest_.substr(0, rest_.find_first_of(ends));
    rest_.remove_prefix(part.size());
    return part;
  }
  std::string_view name() { return until(" \n\t/>=<\"'&"); }
  void space() { rest_.remove_prefix(std::min(rest_.find_first_not_of(" \n\t"), rest_.size())); }

  // Each '&' begins one of the five entities or a number.
  void check_entities(std::string_view s) {
    for (size_t at = s.find('&'); at != s.npos; at = s.find('&', at + 1)) {
      const std::string_view entity = s.substr(at + 1, s.find(';', at) - at - 1);
      const bool known = entity == "amp" || entity == "lt" || entity == "gt" || entity == "quot" ||
                         entity == "apos";
      const bool number = entity.size() > 1 && entity[0] == '#' &&
                          entity.find_first_not_of("0123456789", 1) == entity.npos;
      if (s.find(';', at) == s.npos || (!known && !number)) fail("a bare '&'");
    }
  }

  void text() {
    const std::string_view part = until("<");
    check_entities(part);
    if (open_ >= 0)
      out_.elements[static_cast<size_t>(open_)].text += part;
    else if (part.find_first_not_of(" \n\t") != part.npos)
      fail("text outside the root");
  }

  void tag() {
    if (take("</")) {
      if (open_ < 0 || !take(out_.elements[static_cast<size_t>(open_)].name))
        return fail("a closing tag that closes nothing");
      space();
      if (!take(">")) fail("an unfinished closing tag");
      open_ = out_.elements[static_cast<size_t>(open_)].parent;
      return;
    }
    take("<");
    XmlElement e;
    e.parent = open_;
    e.name = name();
    if (e.name.empty() || e.name[0] == '!' || e.name[0] == '?') return fail("no element");
    if (open_ < 0 && !out_.elements.empty()) return fail("a second root");
    for (space();
         out_.wrong.empty() && !rest_.empty() && rest_.front() != '>' && rest_.front() != '/';
         space())
      attribute(e);
    const bool closed = take("/");
    if (!take(">")) fail("an unfinished tag");
    out_.elements.push_back(std::move(e));
    if (!closed) open_ = static_cast<int>(out_.elements.size()) - 1;
  }

  void attribute(XmlElement& e) {
    const std::string key(name());
    if (key.empty() || !take("=\"")) return fail("an attribute without a quoted value");
    const std::string_view value = until("\"<");
    check_entities(value);
    if (!take("\"")) fail("a '<' in an attribute");
    if (!e.attributes.emplace(key, value).second) fail("an attribute given twice");
  }

  std::string_view rest_;
  const size_t size_;
  int open_ = -1;
  Xml out_;
};

}  // namespace

Xml read_xml(std::string_view text) { return Reader(text).run(); }

}  // namespace hone::test
