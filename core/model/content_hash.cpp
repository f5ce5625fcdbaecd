// SPDX-License-Identifier: Apache-2.0
// The canonical order is that of the names; every text is preceded by its length, so that no two
// models read alike.
#include "core/model/content_hash.hpp"

#include <algorithm>

#include "core/base/bytes.hpp"
#include "core/base/platform.hpp"
#include "core/base/sha256.hpp"

namespace hone {

namespace {

void add_number(Sha256& h, int64_t v) {
  std::byte bytes[sizeof v];
  store_le(bytes, static_cast<uint64_t>(v));
  h.update(bytes);
}

void add_text(Sha256& h, std::string_view s) {
  add_number(h, static_cast<int64_t>(s.size()));
  h.update(std::as_bytes(std::span(s)));
}

}  // namespace

std::string content_hash_without(const Model& model, const std::set<std::string>& names) {
  std::vector<const ValueInfo*> states;
  for (const ValueInfo& v : model.graph.values)
    if (v.kind == ValueKind::state && names.count(v.name) == 0 &&
        (v.role == StateRole::parameter || v.role == StateRole::buffer))
      states.push_back(&v);
  std::sort(states.begin(), states.end(),
            [](const ValueInfo* a, const ValueInfo* b) { return a->name < b->name; });
  Sha256 h;
  for (const ValueInfo* v : states) {
    add_text(h, v->name);
    add_number(h, static_cast<int64_t>(v->role));
    add_text(h, to_string(v->data.type()));
    platform::read_through(v->data.as_bytes(),
                           [&](std::span<const std::byte> block) { h.update(block); });
  }
  return to_hex(h.finish());
}

}  // namespace hone
