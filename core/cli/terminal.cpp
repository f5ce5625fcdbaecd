// SPDX-License-Identifier: Apache-2.0
// Tables and progress.
#include "core/cli/terminal.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "core/base/platform.hpp"

namespace hone::cli {

namespace {

std::string print(const char* format, double v) {
  char buf[64];
  std::snprintf(buf, sizeof buf, format, v);
  return buf;
}

// Columns a text takes: bytes that continue a UTF-8 character take none.
size_t width_of(std::string_view s) {
  return static_cast<size_t>(std::count_if(
      s.begin(), s.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

bool looks_numeric(std::string_view s) {
  return !s.empty() && ((s[0] >= '0' && s[0] <= '9') || s[0] == '-' || s[0] == '+') &&
         s.find('[') == std::string_view::npos;
}

}  // namespace

std::string count_text(int64_t n) {
  std::string digits = std::to_string(n < 0 ? -n : n);
  for (int i = static_cast<int>(digits.size()) - 3; i > 0; i -= 3)
    digits.insert(static_cast<size_t>(i), ",");
  return n < 0 ? "-" + digits : digits;
}

std::string duration_text(double s) {
  if (s < 1e-3) return print("%.0f us", s * 1e6);
  if (s < 1) return print("%.1f ms", s * 1e3);
  if (s < 60) return print("%.1f s", s);
  const int64_t whole = static_cast<int64_t>(s + 0.5);
  char buf[64];
  if (whole < 3600)
    std::snprintf(buf, sizeof buf, "%d:%02d min", static_cast<int>(whole / 60),
                  static_cast<int>(whole % 60));
  else
    std::snprintf(buf, sizeof buf, "%d:%02d h", static_cast<int>(whole / 3600),
                  static_cast<int>(whole / 60 % 60));
  return buf;
}

std::string number_text(double v, int digits) {
  char buf[64];
  std::snprintf(buf, sizeof buf, "%.*g", digits, v);
  return buf;
}

std::string Table::text(std::string_view indent) const {
  std::vector<size_t> widths(rows_[0].size(), 0);
  for (const auto& row : rows_)
    for (size_t c = 0; c < row.size(); ++c) widths[c] = std::max(widths[c], width_of(row[c]));
  std::string out;
  for (size_t r = 0; r < rows_.size(); ++r) {
    std::string line(indent);
    for (size_t c = 0; c < rows_[r].size(); ++c) {
      const std::string& cell = rows_[r][c];
      const std::string fill(widths[c] - width_of(cell), ' ');
      const bool right = r == 0
                             ? rows_.size() > 1 && c < rows_[1].size() && looks_numeric(rows_[1][c])
                             : looks_numeric(cell);
      line += right ? fill + cell : cell + fill;
      if (c + 1 < rows_[r].size()) line += "  ";
    }
    line.erase(line.find_last_not_of(' ') + 1);
    out += line + "\n";
    if (r > 0) continue;
    size_t total = 2 * (widths.size() - 1);
    for (size_t w : widths) total += w;
    out += std::string(indent) + std::string(total, '-') + "\n";
  }
  return out;
}

Progress::Progress(std::string what, int64_t total, std::string unit)
    : what_(std::move(what)),
      unit_(std::move(unit)),
      total_(total),
      start_(platform::now_ns()),
      terminal_(platform::is_terminal(platform::Stream::error)) {}

Progress::~Progress() { finish(); }

void Progress::update(int64_t done, const std::string& note) {
  const int64_t now = platform::now_ns();
  // Ten times a second on a terminal, every ten seconds elsewhere, and always at the end.
  const int64_t pause = terminal_ ? 100'000'000 : 10'000'000'000;
  if (done < total_ && drawn_ && now - last_draw_ < pause) return;
  draw(done, note, now);
}

void Progress::draw(int64_t done, const std::string& note, int64_t now) {
  const double elapsed = static_cast<double>(now - start_) * 1e-9;
  const double rate = elapsed > 0 ? static_cast<double>(done) / elapsed : 0;
  std::string tail = "  " + count_text(done) + "/" + count_text(total_);
  if (rate > 0) tail += "  " + number_text(rate, 3) + " " + unit_ + "/s";
  if (done < total_ && rate > 0)
    tail += "  " + duration_text(static_cast<double>(total_ - done) / rate) + " left";
  else
    tail += "  " + duration_text(elapsed);
  if (!note.empty()) tail += "  " + note;
  if (!terminal_) {
    std::fprintf(stderr, "%s%s\n", what_.c_str(), tail.c_str());
  } else {
    const int columns = platform::terminal_columns(platform::Stream::error);
    const int room = std::clamp(columns - static_cast<int>(what_.size() + tail.size()) - 4, 0, 30);
    const int filled = total_ > 0 ? static_cast<int>(room * done / total_) : room;
    std::string bar;
    for (int i = 0; i < room; ++i) bar += i < filled ? "█" : "░";
    std::string line = what_ + " " + bar + tail;
    std::fprintf(stderr, "\r\033[K%s", line.c_str());
    std::fflush(stderr);
  }
  drawn_ = true;
  last_draw_ = now;
}

void Progress::finish() {
  if (terminal_ && drawn_) std::fprintf(stderr, "\n");
  drawn_ = false;
}

std::string json_text(std::string_view s) {
  std::string out = "\"";
  for (char c : s) {
    const unsigned char u = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\')
      out += '\\', out += c;
    else if (u < 0x20) {
      char buf[8];
      std::snprintf(buf, sizeof buf, "\\u%04x", u);
      out += buf;
    } else
      out += c;
  }
  return out + "\"";
}

std::string json_number(double v) {
  if (!std::isfinite(v)) return "null";
  char buf[40];
  std::snprintf(buf, sizeof buf, "%.9g", v);
  return buf;
}

}  // namespace hone::cli
