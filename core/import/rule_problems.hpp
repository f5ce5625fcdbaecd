// SPDX-License-Identifier: Apache-2.0
// What an import rule reports, whatever format the file has: the first problem counts.
#pragma once

#include <string>

#include "hone/status.hpp"

namespace hone {

/// Base of the contexts that rules see. `Ctx` has `has(int)`: whether input i is there.
template <class Ctx>
class RuleProblems {
 public:
  /// The file contradicts itself or the format.
  template <class... A>
  void fail(std::string_view fmt, const A&... args) {
    if (status_.ok()) status_ = invalid_model(fmt, args...);
  }
  void fail(Status status) {
    if (status_.ok()) status_ = std::move(status);
  }
  /// Understood, but not offered: "with its second output", "with axes that are computed".
  template <class... A>
  void unsupported(std::string_view fmt, const A&... args) {
    if (missing_.empty()) missing_ = format(fmt, args...);
  }
  /// Whether the first `count` inputs are there; reports the first that is not.
  bool require(int count) {
    for (int i = 0; i < count; ++i)
      if (!static_cast<const Ctx*>(this)->has(i)) {
        fail("input {} is missing", i);
        return false;
      }
    return true;
  }
  const Status& status() const { return status_; }
  const std::string& missing() const { return missing_; }

 private:
  Status status_;
  std::string missing_;
};

}  // namespace hone
