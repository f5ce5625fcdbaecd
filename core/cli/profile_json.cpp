// SPDX-License-Identifier: Apache-2.0
// Profiles for programs: JSON, and traces in the trace event format ("Trace Event Format", which
// chrome://tracing and ui.perfetto.dev read).
#include <algorithm>
#include <cstdio>

#include "core/cli/profile_view.hpp"
#include "core/cli/terminal.hpp"
#include "hone/format.hpp"

namespace hone::cli {

namespace {

constexpr const char* kPhases[] = {"forward", "backward", "update"};

std::string bound_json(const ProfileBound& b) {
  return "{\"time_share\": " + json_number(b.time_share) +
         ", \"of_peak\": " + json_number(b.of_peak) + "}";
}

std::string row_json(const ProfileRow& r) {
  return format(
             "{\"program\": {}, \"step\": {}, \"name\": {}, \"op\": {}, \"kernel\": {}, "
             "\"phase\": \"{}\", \"runs\": {}, \"start_ns\": {}, \"total_ns\": {}, ",
             r.program, r.step, json_text(r.name), json_text(r.op), json_text(r.kernel),
             kPhases[static_cast<size_t>(r.phase)], r.runs, r.start_ns, r.total_ns) +
         "\"flops\": " + json_number(r.flops) + format(", \"bytes\": {}}", r.bytes);
}

// Nanoseconds as microseconds with all digits.
std::string micros(int64_t ns) {
  char buf[32];
  std::snprintf(buf, sizeof buf, "%lld.%03lld", static_cast<long long>(ns / 1000),
                static_cast<long long>(ns % 1000));
  return buf;
}

constexpr int kStepsRow = 1, kSpansRow = 2;

std::string thread_name(int row, const char* name) {
  return format(
      "{\"ph\": \"M\", \"pid\": 1, \"tid\": {}, \"name\": \"thread_name\", \"args\": "
      "{\"name\": \"{}\"}}",
      row, name);
}

}  // namespace

std::string machine_json(const MachineSpeed& s) {
  return format(
      "{\"threads\": {}, \"f32_gflop_per_s\": {}, \"bf16_gflop_per_s\": {}, "
      "\"memory_gb_per_s\": {}}",
      s.threads, json_number(s.f32_flops * 1e-9),
      s.bf16_flops > 0 ? json_number(s.bf16_flops * 1e-9) : "null",
      json_number(s.memory_bytes * 1e-9));
}

std::string profile_json(const ProfileView& v) {
  const ProfileBounds b = profile_bounds(v.profile, v.machine);
  int64_t total = 0;
  std::string rows;
  for (const ProfileRow& r : v.profile.rows) {
    total += r.total_ns;
    rows += (rows.empty() ? "" : ", ") + row_json(r);
  }
  return format(
      "{\"runs\": {}, \"total_ns\": {}, \"machine\": {}, \"arithmetic_bound\": {}, "
      "\"memory_bound\": {}, \"rows\": [{}]}",
      v.runs, total, machine_json(v.machine), bound_json(b.arithmetic), bound_json(b.memory), rows);
}

std::string trace_json(const Profile& p, const std::vector<TraceSpan>& spans) {
  // Spans may have begun before the first step; a trace begins at 0.
  int64_t first = p.origin_ns;
  for (const TraceSpan& s : spans) first = std::min(first, s.start_ns);
  std::string out =
      "{\"displayTimeUnit\": \"ms\", \"traceEvents\": [\n" + thread_name(kStepsRow, "steps");
  if (!spans.empty()) out += ",\n" + thread_name(kSpansRow, "around the steps");
  for (const ProfileEvent& e : p.events) {
    const ProfileRow& r = p.rows[static_cast<size_t>(e.row)];
    out += format(
               ",\n{\"ph\": \"X\", \"pid\": 1, \"tid\": {}, \"ts\": {}, \"dur\": {}, \"name\": "
               "{}, \"cat\": {}, \"args\": {\"step\": {}, \"operator\": {}, \"kernel\": {}, ",
               kStepsRow, micros(p.origin_ns - first + e.start_ns), micros(e.duration_ns),
               json_text(r.name), json_text(kPhases[static_cast<size_t>(r.phase)]), r.step,
               json_text(r.op), json_text(r.kernel)) +
           "\"flops\": " + json_number(r.flops) + format(", \"bytes\": {}}}", r.bytes);
  }
  for (const TraceSpan& s : spans)
    out += format(
        ",\n{\"ph\": \"X\", \"pid\": 1, \"tid\": {}, \"ts\": {}, \"dur\": {}, \"name\": "
        "{}, \"cat\": \"around\"}",
        kSpansRow, micros(s.start_ns - first), micros(s.duration_ns), json_text(s.name));
  return out + "\n]}\n";
}

}  // namespace hone::cli
