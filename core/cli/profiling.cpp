// SPDX-License-Identifier: Apache-2.0
#include "core/cli/profiling.hpp"

#include <algorithm>
#include <map>

#include "core/cli/terminal.hpp"

namespace hone::cli {

namespace {

constexpr size_t kSlowest = 12;

struct Sum {
  int64_t steps = 0, ns = 0;
  double flops = 0, bytes = 0;  // of all runs

  void add(const ProfileRow& r) {
    ++steps;
    ns += r.total_ns;
    flops += r.flops * static_cast<double>(r.runs);
    bytes += static_cast<double>(r.bytes * r.runs);
  }
};

std::string rate(double amount, int64_t ns) {
  return ns > 0 && amount > 0 ? number_text(amount / static_cast<double>(ns), 3) : "";
}

std::vector<std::string> cells(const Sum& s, int64_t total, int64_t runs) {
  return {
      number_text(static_cast<double>(s.ns) * 1e-6 / static_cast<double>(runs), 3),
      number_text(
          100 * static_cast<double>(s.ns) / static_cast<double>(std::max<int64_t>(total, 1)), 3),
      rate(s.flops, s.ns), rate(s.bytes, s.ns)};
}

void append(std::vector<std::string>& row, const std::vector<std::string>& more) {
  row.insert(row.end(), more.begin(), more.end());
}

}  // namespace

std::string profile_text(const Profile& profile, int64_t runs) {
  std::map<std::pair<std::string, std::string>, Sum> kinds;
  int64_t total = 0;
  for (const ProfileRow& r : profile.rows) {
    kinds[{r.op, r.kernel}].add(r);
    total += r.total_ns;
  }
  std::vector<std::pair<std::pair<std::string, std::string>, Sum>> sorted(kinds.begin(),
                                                                          kinds.end());
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const auto& a, const auto& b) { return a.second.ns > b.second.ns; });
  Table by_kind({"operator", "kernel", "steps", "ms", "%", "Gflop/s", "GB/s"});
  for (const auto& [kind, sum] : sorted) {
    std::vector<std::string> row = {kind.first.empty() ? "-" : kind.first, kind.second,
                                    count_text(sum.steps)};
    append(row, cells(sum, total, runs));
    by_kind.add(std::move(row));
  }
  std::vector<const ProfileRow*> rows;
  for (const ProfileRow& r : profile.rows) rows.push_back(&r);
  std::stable_sort(rows.begin(), rows.end(), [](const ProfileRow* a, const ProfileRow* b) {
    return a->total_ns > b->total_ns;
  });
  Table slowest({"step", "kernel", "ms", "%", "Gflop/s", "GB/s"});
  for (const ProfileRow* r : rows) {
    if (slowest.size() == kSlowest) break;
    Sum one;
    one.add(*r);
    std::vector<std::string> row = {r->name, r->kernel};
    append(row, cells(one, total, runs));
    slowest.add(std::move(row));
  }
  return format("Time of a run by operator, mean of {} runs\n", runs) + by_kind.text() +
         "\nThe slowest steps\n" + slowest.text();
}

std::string trace_json(const Profile& profile) {
  std::string out = "{\"displayTimeUnit\": \"ms\", \"traceEvents\": [\n";
  bool first = true;
  for (const ProfileEvent& e : profile.events) {
    const ProfileRow& r = profile.rows[static_cast<size_t>(e.row)];
    const auto us = [](int64_t ns) { return json_number(static_cast<double>(ns) * 1e-3); };
    out +=
        format(R"({}{"name": {}, "cat": {}, "ph": "X", "ts": {}, "dur": {}, "pid": 1, "tid": {}, )",
               first ? "" : ",\n", json_text(r.name), json_text(r.kernel), us(e.start_ns),
               us(e.duration_ns), r.program + 1);
    out += format(R"("args": {"operator": {}, "step": {}, "flops": {}, "bytes": {}}})",
                  json_text(r.op), r.step, json_number(r.flops), r.bytes);
    first = false;
  }
  return out + "\n]}\n";
}

}  // namespace hone::cli
