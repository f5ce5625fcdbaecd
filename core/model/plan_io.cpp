// SPDX-License-Identifier: Apache-2.0
// Stored plans between memory and file.
#include "core/model/graph_io.hpp"

namespace hone {

std::vector<Offset<schema::Plan>> write_plans(FileWriter& w, const std::vector<StoredPlan>& plans) {
  std::vector<Offset<schema::Plan>> out;
  for (const StoredPlan& p : plans) {
    const Text name = w.text(p.name);
    const auto runs = w.list<int32_t>(p.runs);
    out.push_back(schema::CreatePlan(w.header(), name, p.problem, p.room, p.bytes, runs,
                                     w.list<int64_t>(p.offsets)));
  }
  return out;
}

Result<std::vector<StoredPlan>> read_plans(FileReader& r, const schema::Model& m) {
  std::vector<StoredPlan> out;
  if (!m.plans()) return out;
  for (const schema::Plan* from : *m.plans()) {
    StoredPlan p{.problem = from->problem(), .room = from->room(), .bytes = from->bytes()};
    HONE_ASSIGN(p.name, r.text(from->name()));
    HONE_ASSIGN(p.runs, r.list(from->runs()));
    HONE_ASSIGN(p.offsets, r.list(from->offsets()));
    out.push_back(std::move(p));
  }
  return out;
}

}  // namespace hone
