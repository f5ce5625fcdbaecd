// SPDX-License-Identifier: Apache-2.0
// What the command line shows: tables, sizes, durations, progress.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "hone/format.hpp"

namespace hone::cli {

/// "1,234,567".
std::string count_text(int64_t n);
/// "850 us", "12.3 ms", "4.56 s", "2:05 min".
std::string duration_text(double seconds);
/// A number with `digits` significant digits.
std::string number_text(double v, int digits = 4);

/// Text of a JSON string, quotes included.
std::string json_text(std::string_view s);
/// A JSON number with all its digits; null when it is not finite.
std::string json_number(double v);

/// A table with aligned columns; cells that look like numbers are right-aligned.
class Table {
 public:
  explicit Table(std::vector<std::string> header) : rows_{std::move(header)} {}
  void add(std::vector<std::string> row) { rows_.push_back(std::move(row)); }
  size_t size() const { return rows_.size() - 1; }
  std::string text(std::string_view indent = "  ") const;

 private:
  std::vector<std::vector<std::string>> rows_;
};

/// Progress of long work on standard error: a bar with rate and time left on a terminal, a plain
/// line now and then elsewhere.
class Progress {
 public:
  Progress(std::string what, int64_t total, std::string unit);
  ~Progress();
  /// `note` stands behind the bar: "loss 0.312".
  void update(int64_t done, const std::string& note);
  /// Ends the bar's line; further text starts on a new one.
  void finish();

 private:
  void draw(int64_t done, const std::string& note, int64_t now);
  std::string what_, unit_;
  int64_t total_, start_, last_draw_ = 0;
  bool terminal_, drawn_ = false;
};

}  // namespace hone::cli
