// SPDX-License-Identifier: Apache-2.0
// What import rules of all formats share: what they report, of which the first problem counts, and
// what is computed ahead.
#pragma once

#include <string>

#include "hone/builder.hpp"
#include "hone/op_attrs_quantize.hpp"
#include "hone/op_table.hpp"

namespace hone {

/// Nodes of constants are computed when their outputs take no more.
inline constexpr int64_t kFoldLimitBytes = 64 << 10;

/// A dequantize_linear that stays a node when all is constant: weights are kept as they are stored.
inline Value dequantize(Builder& b, Value stored, Value scale, Value zero_point,
                        QuantizeAttrs attrs) {
  const TensorData* data = b.constant_data(stored);
  if (data && data->numel() > 1) b.set_fold_limit(0);
  const Value v = b.emit(op::dequantize_linear, {stored, scale, zero_point}, attrs);
  b.set_fold_limit(kFoldLimitBytes);
  return v;
}

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
