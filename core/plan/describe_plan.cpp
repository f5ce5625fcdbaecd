// SPDX-License-Identifier: Apache-2.0
// A program's plan as text.
#include <algorithm>

#include "core/plan/program.hpp"

namespace hone {

namespace {

std::string pad(std::string text, size_t width) {
  if (text.size() < width) text.append(width - text.size(), ' ');
  return text;
}

std::string name_of(const Program& p, const Buffer& b, BufferId id) {
  if (b.value == kNone) return format("temporary {}", id);
  const ValueInfo& v = p.graph.value(b.value);
  if (!v.name.empty()) return v.name;
  return v.producer == kNone ? format("value {}", b.value) : label(p.graph.node(v.producer));
}

}  // namespace

std::string describe_plan(const Program& p, int max_rows) {
  std::vector<BufferId> rows;
  int64_t shared = 0;
  for (size_t i = 0; i < p.buffers.size(); ++i) {
    const Buffer& b = p.buffers[i];
    if (b.kind != BufferKind::arena || b.first < 0) continue;
    if (b.shares != kNone)
      ++shared;
    else
      rows.push_back(static_cast<BufferId>(i));
  }
  std::sort(rows.begin(), rows.end(), [&](BufferId a, BufferId b) {
    return p.buffers[static_cast<size_t>(a)].bytes > p.buffers[static_cast<size_t>(b)].bytes;
  });
  std::string out = format(
      "{} steps, arena {} ({} bytes), lower bound {}, packed {}; placed {}; {} buffers in place of "
      "others\n",
      p.steps.size(), bytes_text(p.arena.bytes), p.arena.bytes, bytes_text(p.arena.lower_bound),
      bytes_text(p.packed_bytes), p.arena.strategy, shared);
  out += pad("buffer", 44) + pad("size", 16) + pad("offset", 12) + "steps\n";
  for (size_t i = 0; i < rows.size() && i < static_cast<size_t>(max_rows); ++i) {
    const Buffer& b = p.buffers[static_cast<size_t>(rows[i])];
    out += pad(name_of(p, b, rows[i]), 44) + pad(bytes_text(b.bytes), 16) +
           pad(format("{}", b.offset), 12) + format("{}..{}\n", b.first, b.last);
  }
  if (rows.size() > static_cast<size_t>(max_rows))
    out += format("... and {} smaller ones\n", rows.size() - static_cast<size_t>(max_rows));
  return out;
}

}  // namespace hone
