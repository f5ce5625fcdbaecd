// SPDX-License-Identifier: Apache-2.0
// A reader of XML as small as a test needs it.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace hone::test {

struct XmlElement {
  std::string name;
  std::map<std::string, std::string> attributes;
  std::string text;  ///< Directly inside, entities as they stand.
  int parent = -1;   ///< Index into Xml::elements.
};

struct Xml {
  std::string wrong;  ///< What breaks the rules of XML, or empty.
  std::vector<XmlElement> elements;
};

/// Reads one element and all in it. Comments, instructions, CDATA and document types are errors
/// here: nothing that is tested writes them.
Xml read_xml(std::string_view text);

}  // namespace hone::test
