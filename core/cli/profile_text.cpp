// SPDX-License-Identifier: Apache-2.0
// Profiles as tables.
#include <algorithm>
#include <cstdio>
#include <map>

#include "core/cli/profile_view.hpp"
#include "core/cli/terminal.hpp"

namespace hone::cli {

namespace {

constexpr size_t kSlowest = 15;

double total_ns(const Profile& p) {
  double sum = 0;
  for (const ProfileRow& r : p.rows) sum += static_cast<double>(r.total_ns);
  return sum;
}

std::string percent(double share) {
  char buf[40];
  std::snprintf(buf, sizeof buf, "%.1f %%", 100 * share);
  return buf;
}

// Speeds of some work, and their shares of the machine's.
std::vector<std::string> speeds(double flops, double bytes, double ns, const MachineSpeed& m) {
  const double flops_s = ns > 0 ? flops / ns * 1e9 : 0, bytes_s = ns > 0 ? bytes / ns * 1e9 : 0;
  std::vector<std::string> out = {number_text(flops_s * 1e-9, 3), number_text(bytes_s * 1e-9, 3)};
  if (m.f32_flops <= 0) return out;
  out.insert(out.begin() + 1, percent(flops_s / m.f32_flops));
  out.push_back(percent(bytes_s / m.memory_bytes));
  return out;
}

std::vector<std::string> with_speeds(std::vector<std::string> header, const MachineSpeed& m) {
  const bool known = m.f32_flops > 0;
  header.push_back("Gflop/s");
  if (known) header.push_back("of peak");
  header.push_back("GB/s");
  if (known) header.push_back("of peak");
  return header;
}

std::string ms(double ns) { return number_text(ns * 1e-6, 3); }

std::string operators(const ProfileView& v, double total) {
  Table t(with_speeds({"operator", "kernel", "steps", "ms a run", "share"}, v.machine));
  const double runs = static_cast<double>(std::max<int64_t>(1, v.runs));
  double flops = 0, bytes = 0;
  int64_t steps = 0;
  const auto add = [&](const std::string& op, const std::string& kernel, int64_t count, double ns,
                       double f, double b) {
    std::vector<std::string> row = {op, kernel, count_text(count), ms(ns / runs),
                                    percent(ns / total)};
    for (std::string& s : speeds(f, b, ns, v.machine)) row.push_back(std::move(s));
    t.add(std::move(row));
  };
  for (const ProfileGroup& g : group_profile(v.profile)) {
    add(g.op.empty() ? "-" : g.op, g.kernel, g.steps, static_cast<double>(g.total_ns), g.flops,
        g.bytes);
    flops += g.flops;
    bytes += g.bytes;
    steps += g.steps;
  }
  add("all", "", steps, total, flops, bytes);
  return t.text();
}

std::string phases(const ProfileView& v, double total) {
  constexpr const char* kNames[] = {"forward", "backward", "update"};
  double ns[3] = {};
  for (const ProfileRow& r : v.profile.rows)
    ns[static_cast<size_t>(r.phase)] += static_cast<double>(r.total_ns);
  std::string out;
  for (size_t i = 0; i < 3; ++i)
    out += std::string(i > 0 ? ", " : "") + kNames[i] + " " + percent(ns[i] / total);
  return out + "\n";
}

std::string slowest(const ProfileView& v, double total) {
  std::vector<const ProfileRow*> rows;
  for (const ProfileRow& r : v.profile.rows)
    if (r.runs > 0) rows.push_back(&r);
  std::stable_sort(rows.begin(), rows.end(), [](const ProfileRow* a, const ProfileRow* b) {
    return a->total_ns > b->total_ns;
  });
  Table t(with_speeds({"step", "kernel", "ms", "share"}, v.machine));
  for (size_t i = 0; i < std::min(kSlowest, rows.size()); ++i) {
    const ProfileRow& r = *rows[i];
    const double ns = static_cast<double>(r.total_ns), runs = static_cast<double>(r.runs);
    std::vector<std::string> row = {r.name, r.kernel, ms(ns / runs), percent(ns / total)};
    for (std::string& s :
         speeds(r.flops * runs, static_cast<double>(r.bytes) * runs, ns, v.machine))
      row.push_back(std::move(s));
    t.add(std::move(row));
  }
  return t.text();
}

std::string bounds(const ProfileView& v) {
  const ProfileBounds b = profile_bounds(v.profile, v.machine);
  std::string out = format("Peaks measured with {} threads: ", v.machine.threads) +
                    number_text(v.machine.f32_flops * 1e-9, 3) + " Gflop/s (f32), " +
                    number_text(v.machine.memory_bytes * 1e-9, 3) +
                    " GB/s of memory; what lies in caches can be faster.\n";
  out += "Bound by arithmetic (above " + number_text(b.balance, 2) +
         " flops a byte): " + percent(b.arithmetic.time_share) + " of the time, at " +
         percent(b.arithmetic.of_peak) +
         " of the peak. By memory: " + percent(b.memory.time_share) + ", at " +
         percent(b.memory.of_peak) + ".\n";
  return out;
}

}  // namespace

std::vector<ProfileGroup> group_profile(const Profile& profile) {
  std::map<std::pair<std::string, std::string>, ProfileGroup> groups;
  for (const ProfileRow& r : profile.rows) {
    if (r.runs == 0) continue;
    ProfileGroup& g = groups[{r.op, r.kernel}];
    g.op = r.op;
    g.kernel = r.kernel;
    ++g.steps;
    g.total_ns += r.total_ns;
    g.flops += r.flops * static_cast<double>(r.runs);
    g.bytes += static_cast<double>(r.bytes) * static_cast<double>(r.runs);
  }
  std::vector<ProfileGroup> out;
  for (auto& [key, g] : groups) out.push_back(std::move(g));
  std::stable_sort(out.begin(), out.end(), [](const ProfileGroup& a, const ProfileGroup& b) {
    return a.total_ns > b.total_ns;
  });
  return out;
}

ProfileBounds profile_bounds(const Profile& profile, const MachineSpeed& m) {
  ProfileBounds out;
  if (m.f32_flops <= 0 || m.memory_bytes <= 0) return out;
  out.balance = m.f32_flops / m.memory_bytes;
  double arithmetic_ns = 0, memory_ns = 0, flops = 0, bytes = 0;
  for (const ProfileRow& r : profile.rows) {
    const double ns = static_cast<double>(r.total_ns), runs = static_cast<double>(r.runs);
    if (r.flops > out.balance * static_cast<double>(r.bytes)) {
      arithmetic_ns += ns;
      flops += r.flops * runs;
    } else {
      memory_ns += ns;
      bytes += static_cast<double>(r.bytes) * runs;
    }
  }
  const double total = arithmetic_ns + memory_ns;
  if (total <= 0) return out;
  out.arithmetic.time_share = arithmetic_ns / total;
  out.memory.time_share = memory_ns / total;
  if (arithmetic_ns > 0) out.arithmetic.of_peak = flops / (arithmetic_ns * 1e-9) / m.f32_flops;
  if (memory_ns > 0) out.memory.of_peak = bytes / (memory_ns * 1e-9) / m.memory_bytes;
  return out;
}

std::string profile_text(const ProfileView& v) {
  const double total = total_ns(v.profile);
  if (total <= 0) return "No step has run.\n";
  std::string out = operators(v, total);
  if (v.trains) out += "\nPhases: " + phases(v, total);
  if (v.machine.f32_flops > 0) out += "\n" + bounds(v);
  out += "\nThe slowest steps\n" + slowest(v, total);
  return out;
}

}  // namespace hone::cli
