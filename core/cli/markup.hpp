// SPDX-License-Identifier: Apache-2.0
// Names from files, made fit to be shown: they may hold anything.
#pragma once

#include <string>
#include <string_view>

namespace hone::cli {

/// Valid UTF-8 in which control characters, and bytes that are no UTF-8, have become U+FFFD.
std::string printable(std::string_view text);
/// `printable`, cut in the middle to at most `most` characters.
std::string shortened(std::string_view text, size_t most);
/// `printable`, with what means something in XML escaped: for text and attributes.
std::string xml_text(std::string_view text);

}  // namespace hone::cli
