// SPDX-License-Identifier: Apache-2.0
// A small "{}" formatter for messages: GCC 12 has no std::format, and messages are all we format.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>

namespace hone {

namespace detail {
void append_int(std::string& out, int64_t v);
void append_uint(std::string& out, uint64_t v);
void append_double(std::string& out, double v);

template <class T>
void append_value(std::string& out, const T& v) {
  if constexpr (std::is_same_v<T, bool>) {
    out += v ? "true" : "false";
  } else if constexpr (std::is_same_v<T, char>) {
    out += v;
  } else if constexpr (std::is_integral_v<T> && std::is_signed_v<T>) {
    append_int(out, v);
  } else if constexpr (std::is_integral_v<T>) {
    append_uint(out, v);
  } else if constexpr (std::is_floating_point_v<T>) {
    append_double(out, v);
  } else if constexpr (std::is_convertible_v<const T&, std::string_view>) {
    out += std::string_view(v);
  } else {
    out += to_string(v);  // found by argument-dependent lookup
  }
}

/// Appends `fmt` up to its next "{}" and returns what follows it.
std::string_view append_until_brace(std::string& out, std::string_view fmt);
}  // namespace detail

/// Returns `fmt` with each "{}" replaced, in order, by an argument: integers, floats (seven
/// significant digits), strings, bools, and anything with a `to_string` found by argument-dependent
/// lookup.
template <class... A>
std::string format(std::string_view fmt, const A&... args) {
  std::string out;
  out.reserve(fmt.size() + 16 * sizeof...(args));
  ((fmt = detail::append_until_brace(out, fmt), detail::append_value(out, args)), ...);
  out += fmt;
  return out;
}

/// "900 B", "1.5 MiB", "2.25 GiB".
std::string bytes_text(int64_t bytes);

}  // namespace hone
