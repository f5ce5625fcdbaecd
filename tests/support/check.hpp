// SPDX-License-Identifier: Apache-2.0
// Assertions about Status and Result that print the message on failure.
#pragma once

#include <doctest/doctest.h>

#include <string>
#include <utility>

#include "hone/status.hpp"

namespace hone::test {

inline const Status& status_of(const Status& s) { return s; }
template <class T>
const Status& status_of(const Result<T>& r) {
  return r.status();
}

/// "" when ok, otherwise the code and the message: what an assertion prints.
inline std::string failure(const Status& s) {
  return s.ok() ? std::string() : format("{}: {}", to_string(s.code()), s.message());
}

/// "" when `s` failed with `code` and a message that contains `part`, otherwise what came instead.
inline std::string wrong_failure(const Status& s, Code code, std::string_view part) {
  if (s.code() == code && s.message().find(part) != std::string::npos) return {};
  return format("expected \"{}: ...{}...\", got \"{}: {}\"", to_string(code), part,
                to_string(s.code()), s.message());
}

/// The value of `result`; ends the test case with the message when there is none.
template <class T>
T must(Result<T> result, const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
  if (!result.ok()) ADD_FAIL_AT(file, line, failure(result.status()));
  return std::move(result).value();
}

}  // namespace hone::test

/// Passes when a Status or Result is ok; prints its message otherwise. REQUIRE_OK also ends the
/// test case.
#define CHECK_OK(...) CHECK_EQ(::hone::test::failure(::hone::test::status_of(__VA_ARGS__)), "")
#define REQUIRE_OK(...) REQUIRE_EQ(::hone::test::failure(::hone::test::status_of(__VA_ARGS__)), "")

/// Passes when a Status or Result failed with `code` and its message contains `part`:
/// CHECK_ERROR(Shape::make(dims), Code::invalid_argument, "9 dimensions").
#define CHECK_ERROR(expr, code, part) \
  CHECK_EQ(::hone::test::wrong_failure(::hone::test::status_of(expr), code, part), "")
