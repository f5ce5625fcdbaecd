// SPDX-License-Identifier: Apache-2.0
// The out-of-line half of hone/format.hpp.
#include "hone/format.hpp"

#include <charconv>

namespace hone::detail {

void append_int(std::string& out, int64_t v) {
  char buf[24];
  out.append(buf, std::to_chars(buf, buf + sizeof buf, v).ptr);
}

void append_uint(std::string& out, uint64_t v) {
  char buf[24];
  out.append(buf, std::to_chars(buf, buf + sizeof buf, v).ptr);
}

void append_double(std::string& out, double v) {
  char buf[40];
  out.append(buf, std::to_chars(buf, buf + sizeof buf, v, std::chars_format::general, 7).ptr);
}

std::string_view append_until_brace(std::string& out, std::string_view fmt) {
  const size_t at = fmt.find("{}");
  out += fmt.substr(0, at);
  return at == std::string_view::npos ? std::string_view{} : fmt.substr(at + 2);
}

}  // namespace hone::detail

namespace hone {

std::string bytes_text(int64_t bytes) {
  constexpr double kStep = 1024;
  double size = static_cast<double>(bytes);
  if (size < kStep) return format("{} B", bytes);
  std::string_view unit = "KiB";
  for (const std::string_view next : {"MiB", "GiB"}) {
    if (size / kStep < kStep) break;
    size /= kStep;
    unit = next;
  }
  const int places = unit == "GiB" ? 2 : 1;
  char buf[40];
  char* const end =
      std::to_chars(buf, buf + sizeof buf, size / kStep, std::chars_format::fixed, places).ptr;
  return format("{} {}", std::string_view(buf, static_cast<size_t>(end - buf)), unit);
}

}  // namespace hone
