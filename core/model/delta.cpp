// SPDX-License-Identifier: Apache-2.0
// Deltas: the tensors that differ from a base, which is named by its content.
#include <cstring>
#include <unordered_map>

#include "core/model/content_hash.hpp"
#include "core/model/tensor_list.hpp"

namespace hone {

namespace {

bool same_bytes(const TensorData& a, const TensorData& b) {
  return a.shares_bytes_with(b) || a.bytes() == 0 ||
         std::memcmp(a.data(), b.data(), static_cast<size_t>(a.bytes())) == 0;
}

std::unordered_map<std::string_view, const ValueInfo*> weights_of(const Model& m) {
  std::unordered_map<std::string_view, const ValueInfo*> out;
  for (const ValueInfo& v : m.graph.values)
    if (is_weight(v)) out[v.name] = &v;
  return out;
}

Status check_base(const Model& base, const std::set<std::string>& added,
                  const std::string& wanted) {
  const std::string hash = content_hash_without(base, added);
  if (hash == wanted) return {};
  return invalid("the delta was made for the model with content hash {}, this one has {}", wanted,
                 hash);
}

Status apply(Model& base, FileReader& r) {
  HONE_TRY(r.expect_kind(schema::FileKind::delta));
  const schema::Delta* from = r.file().delta();
  if (!from) return invalid_model("the file says it is a delta but has none");
  HONE_ASSIGN(const auto tensors, read_named(r, from->tensors()));
  HONE_ASSIGN(const std::string wanted, r.text(from->base_hash()));
  HONE_ASSIGN(auto metadata, r.metadata());
  std::set<std::string> added;
  for (size_t i = 0; i < tensors.size(); ++i)
    if (from->tensors()->Get(static_cast<uint32_t>(i))->added()) added.insert(tensors[i].name);
  HONE_TRY(check_base(base, added, wanted));

  std::unordered_map<std::string_view, ValueInfo*> states;
  for (ValueInfo& v : base.graph.values)
    if (is_weight(v)) states[v.name] = &v;
  Complaints complaints;
  std::vector<std::pair<ValueInfo*, const StateTensor*>> matches;
  for (const StateTensor& t : tensors) {
    const auto at = states.find(t.name);
    if (at == states.end()) {
      complaints.add(format("the model has no '{}'", t.name));
      continue;
    }
    compare(t, *at->second, complaints);
    matches.emplace_back(at->second, &t);
  }
  if (!complaints.empty()) return invalid("the delta does not fit: {}", complaints.text());
  for (const auto& [state, tensor] : matches) state->data = tensor->data;
  for (auto& [key, value] : metadata) base.metadata[key] = std::move(value);
  return {};
}

}  // namespace

Status save_delta(const Model& base, const Model& tuned, const std::string& path) {
  auto old_weights = weights_of(base);
  FileWriter w;
  Complaints complaints;
  std::vector<Offset<schema::NamedTensor>> tensors;
  for (const ValueInfo& v : tuned.graph.values) {
    if (!is_weight(v)) continue;
    const StateTensor t{v.name, v.role, v.data};
    const auto at = old_weights.find(v.name);
    if (at == old_weights.end()) {
      tensors.push_back(write_named(w, t, Novelty::added));
      continue;
    }
    compare(t, *at->second, complaints);
    if (complaints.empty() && !same_bytes(v.data, at->second->data))
      tensors.push_back(write_named(w, t));
    old_weights.erase(at);
  }
  for (const ValueInfo& v : base.graph.values)
    if (old_weights.count(v.name) > 0)
      complaints.add(format("the tuned model has no '{}'", v.name));
  if (!complaints.empty())
    return invalid("the tuned model does not come from this base: {}", complaints.text());

  const auto table = w.tables(tensors);
  const Text hash = w.text(content_hash(base));
  FileBody body;
  body.kind = schema::FileKind::delta;
  body.delta = schema::CreateDelta(w.header(), table, hash);
  HONE_ASSIGN(AtomicFile file, AtomicFile::create(path));
  HONE_TRY(w.write(body, tuned.metadata, file));
  return file.commit();
}

Status apply_delta(Model& base, const std::string& path) {
  Result<FileReader> r = FileReader::open(path, {});
  if (!r.ok()) return r.status().with_context(path);
  return apply(base, *r).with_context(path);
}

}  // namespace hone
