// SPDX-License-Identifier: Apache-2.0
// Status and Result: how the library reports failure. Nothing throws.
#pragma once

#include <cassert>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "hone/format.hpp"

namespace hone {

enum class Code : uint8_t {
  ok,
  invalid_argument,  ///< The caller's mistake: wrong shape, dtype, name, value.
  invalid_model,     ///< A file that is damaged or contradicts itself.
  unsupported,       ///< Understood, but not offered.
  not_found,         ///< A named file, tensor or option that is not there.
  io_error,          ///< The system refused to read or write.
  out_of_memory,     ///< No memory, or a limit that cannot be met.
  cancelled,         ///< The caller asked to stop.
  internal,          ///< Our own bug.
};

/// "invalid argument", "input/output error", ...
std::string_view to_string(Code code);

/// The outcome of something that may fail: ok, or a code and one clear sentence.
class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(Code code, std::string message) : code_(code), message_(std::move(message)) {}

  bool ok() const { return code_ == Code::ok; }
  Code code() const { return code_; }
  const std::string& message() const { return message_; }
  /// The same failure with `where` and ": " put before the message; ok stays ok.
  Status with_context(std::string_view where) const;

 private:
  Code code_ = Code::ok;
  std::string message_;
};

#define HONE_DEFINE_ERROR(fn, code)                   \
  template <class... A>                               \
  Status fn(std::string_view fmt, const A&... args) { \
    return Status(code, format(fmt, args...));        \
  }
HONE_DEFINE_ERROR(invalid, Code::invalid_argument)
HONE_DEFINE_ERROR(invalid_model, Code::invalid_model)
HONE_DEFINE_ERROR(unsupported, Code::unsupported)
HONE_DEFINE_ERROR(not_found, Code::not_found)
HONE_DEFINE_ERROR(io_error, Code::io_error)
HONE_DEFINE_ERROR(out_of_memory, Code::out_of_memory)
HONE_DEFINE_ERROR(cancelled, Code::cancelled)
HONE_DEFINE_ERROR(internal, Code::internal)
#undef HONE_DEFINE_ERROR

/// A value, or the Status that says why there is none.
template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : value_(std::move(value)) {}         // NOLINT: `return value;` is the point
  Result(Status status) : status_(std::move(status)) {  // NOLINT
    assert(!status_.ok());
  }

  bool ok() const { return value_.has_value(); }
  const Status& status() const { return status_; }
  T& value() & {
    assert(ok());
    return *value_;
  }
  const T& value() const& {
    assert(ok());
    return *value_;
  }
  T&& value() && {
    assert(ok());
    return *std::move(value_);
  }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(*this).value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

 private:
  std::optional<T> value_;
  Status status_;
};

#define HONE_CONCAT_(a, b) a##b
#define HONE_CONCAT(a, b) HONE_CONCAT_(a, b)

/// Evaluates a Status and returns it from the enclosing function unless it is ok.
#define HONE_TRY(expr)                           \
  do {                                           \
    ::hone::Status hone_status_ = (expr);        \
    if (!hone_status_.ok()) return hone_status_; \
  } while (false)

/// HONE_ASSIGN(Plan plan, make_plan()): declares or assigns the value, or returns the error.
#define HONE_ASSIGN(lhs, ...) HONE_ASSIGN_(HONE_CONCAT(hone_result_, __LINE__), lhs, (__VA_ARGS__))
#define HONE_ASSIGN_(result, lhs, expr)     \
  auto result = expr;                       \
  if (!result.ok()) return result.status(); \
  lhs = std::move(result).value()

/// Our own bug if false: stops in a debug build, returns an `internal` status in a release build.
#define HONE_ENSURE(cond)                                                                \
  do {                                                                                   \
    if (!(cond)) {                                                                       \
      assert(false && #cond);                                                            \
      return ::hone::internal("internal error at {}:{}: {}", __FILE__, __LINE__, #cond); \
    }                                                                                    \
  } while (false)

}  // namespace hone
