// SPDX-License-Identifier: Apache-2.0
// hone bench --packing: the arena planner on a table of buffers.
#include "core/cli/packing.hpp"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <fstream>
#include <limits>

#include "core/base/platform.hpp"
#include "core/cli/common.hpp"
#include "core/cli/terminal.hpp"
#include "core/plan/arena.hpp"

namespace hone::cli {

namespace {

struct Buffers {
  std::string header;
  std::vector<std::string> lines;  ///< As in the file, so that the offsets can be put behind them.
  std::vector<Lifetime> lifetimes;
};

std::vector<std::string_view> cells(std::string_view line) {
  std::vector<std::string_view> out;
  for (size_t begin = 0;;) {
    const size_t end = std::min(line.find(',', begin), line.size());
    std::string_view cell = line.substr(begin, end - begin);
    while (!cell.empty() && cell.front() == ' ') cell.remove_prefix(1);
    while (!cell.empty() && cell.back() == ' ') cell.remove_suffix(1);
    out.push_back(cell);
    if (end == line.size()) return out;
    begin = end + 1;
  }
}

class Reader {
 public:
  explicit Reader(const std::string& path) : path_(path) {}

  Result<Buffers> read() {
    std::ifstream file(path_);
    if (!file) return io_error("cannot read '{}'", path_);
    Buffers out;
    std::string line;
    for (; std::getline(file, line);) {
      ++number_;
      if (!line.empty() && line.back() == '\r') line.pop_back();
      if (line.empty()) continue;
      if (out.header.empty()) {
        HONE_TRY(header(line));
        out.header = line;
        continue;
      }
      HONE_ASSIGN(const Lifetime v, row(line));
      out.lifetimes.push_back(v);
      out.lines.push_back(line);
    }
    if (file.bad()) return io_error("cannot read '{}' to its end", path_);
    if (out.header.empty())
      return invalid("{}: it is empty, expected the header id,lower,upper,size", path_);
    return out;
  }

 private:
  Status header(std::string_view line) {
    const std::vector<std::string_view> names = cells(line);
    columns_ = names.size();
    for (size_t k = 0; k < std::size(kNames); ++k) {
      const auto it = std::find(names.begin(), names.end(), kNames[k]);
      if (it == names.end())
        return invalid("{}:{}: no column '{}'; expected a header such as id,lower,upper,size",
                       path_, number_, kNames[k]);
      column_[k] = static_cast<size_t>(it - names.begin());
    }
    return {};
  }

  Result<Lifetime> row(std::string_view line) const {
    const std::vector<std::string_view> c = cells(line);
    if (c.size() != columns_)
      return invalid("{}:{}: {} columns, the header has {}", path_, number_, c.size(), columns_);
    int64_t v[3];
    for (size_t k = 0; k < std::size(kNames); ++k) {
      const std::string_view cell = c[column_[k]];
      const auto [end, error] = std::from_chars(cell.data(), cell.data() + cell.size(), v[k]);
      if (error != std::errc() || end != cell.data() + cell.size() || v[k] < 0)
        return invalid("{}:{}: '{}' is '{}', expected a whole number, 0 or more", path_, number_,
                       kNames[k], cell);
    }
    if (v[1] <= v[0])
      return invalid("{}:{}: upper is {}, expected more than lower, which is {}", path_, number_,
                     v[1], v[0]);
    if (v[1] > std::numeric_limits<int32_t>::max())
      return invalid("{}:{}: upper is {}, expected at most {}", path_, number_, v[1],
                     std::numeric_limits<int32_t>::max());
    return Lifetime{v[2], static_cast<int32_t>(v[0]), static_cast<int32_t>(v[1] - 1)};
  }

  static constexpr std::string_view kNames[] = {"lower", "upper", "size"};
  const std::string& path_;
  size_t columns_ = 0, column_[3] = {};
  int64_t number_ = 0;
};

// One line on a terminal, redrawn: what is found and how long it may still take.
class SearchLine {
 public:
  explicit SearchLine(double seconds) : seconds_(seconds) {}
  ~SearchLine() {
    if (drawn_) std::fprintf(stderr, "\r\033[K");
  }
  double elapsed() const { return static_cast<double>(platform::now_ns() - start_) * 1e-9; }

  void update(const ArenaPlan& best) {
    constexpr double kPause = 0.1;
    const double now = elapsed();
    if (!terminal_ || now - last_ < kPause) return;
    last_ = now;
    drawn_ = true;
    constexpr int kWidth = 20;
    const int filled = std::clamp(static_cast<int>(kWidth * now / seconds_), 0, kWidth);
    std::string bar;
    for (int i = 0; i < kWidth; ++i) bar += i < filled ? "█" : "░";
    std::fprintf(stderr, "\r\033[Ksearching %s  %s left  best %s, bound %s", bar.c_str(),
                 duration_text(std::max(0.0, seconds_ - now)).c_str(),
                 count_text(best.bytes).c_str(), count_text(best.lower_bound).c_str());
    std::fflush(stderr);
  }

 private:
  double seconds_, last_ = 0;
  int64_t start_ = platform::now_ns();
  bool terminal_ = platform::is_terminal(platform::Stream::error), drawn_ = false;
};

const char* why(PackingEnd end) {
  switch (end) {
    case PackingEnd::at_bound:
      return "at the lower bound: nothing smaller exists";
    case PackingEnd::proved:
      return "proved: nothing smaller exists";
    case PackingEnd::at_goal:
      return "at the capacity asked for: something smaller may exist";
    case PackingEnd::out_of_work:
    case PackingEnd::cancelled:
      break;
  }
  return "out of time: something smaller may exist";
}

void report(const PackingArgs& a, const Buffers& b, const ArenaPlan& plan, double seconds) {
  const double above =
      plan.lower_bound > 0
          ? static_cast<double>(plan.bytes) / static_cast<double>(plan.lower_bound) - 1
          : 0;
  if (a.json) {
    std::printf(
        "{\"file\": %s, \"buffers\": %zu, \"bytes\": %lld, \"lower_bound_bytes\": %lld, "
        "\"seconds\": %s, \"strategy\": %s, \"stopped\": %s}\n",
        json_text(a.file).c_str(), b.lifetimes.size(), static_cast<long long>(plan.bytes),
        static_cast<long long>(plan.lower_bound), json_number(seconds).c_str(),
        json_text(plan.strategy).c_str(), json_text(why(plan.end)).c_str());
    return;
  }
  Table table({"", ""});
  table.add({"bytes", count_text(plan.bytes)});
  table.add({"lower bound", count_text(plan.lower_bound)});
  table.add({"above the bound", number_text(above * 100, 3) + " %"});
  table.add({"time", duration_text(seconds)});
  table.add({"found by", std::string(plan.strategy)});
  table.add({"stopped", why(plan.end)});
  std::printf("%s: %s buffers\n%s", a.file.c_str(),
              count_text(static_cast<int64_t>(b.lifetimes.size())).c_str(), table.text().c_str());
}

Status write(const std::string& path, const Buffers& b, const ArenaPlan& plan) {
  std::ofstream file(path, std::ios::trunc);
  file << b.header << ",offset\n";
  for (size_t i = 0; i < b.lines.size(); ++i) file << b.lines[i] << ',' << plan.offsets[i] << '\n';
  file.close();
  if (!file) return io_error("cannot write '{}'", path);
  return {};
}

}  // namespace

Status bench_packing(const PackingArgs& a) {
  HONE_ASSIGN(const Buffers buffers, Reader(a.file).read());
  ArenaPlan plan;
  double seconds = 0;
  {
    SearchLine line(a.seconds);
    PackingOptions options;
    options.alignment = a.alignment;
    options.goal_bytes = a.capacity;
    options.max_work = std::numeric_limits<int64_t>::max();  // time is the limit
    options.keep_going = [&](const ArenaPlan& best) {
      line.update(best);
      return line.elapsed() < a.seconds;
    };
    HONE_ASSIGN(plan, plan_arena(buffers.lifetimes, options));
    seconds = line.elapsed();
  }
  report(a, buffers, plan, seconds);
  if (!a.out.empty()) HONE_TRY(write(a.out, buffers, plan));
  return {};
}

}  // namespace hone::cli
