// SPDX-License-Identifier: Apache-2.0
// Checkpoints.
#include "hone/checkpoint.hpp"

#include <cmath>
#include <unordered_map>

#include "core/model/tensor_list.hpp"

namespace hone {

namespace {

Status check_counters(const Checkpoint& c) {
  if (c.step < 0 || c.loader.epoch < 0 || c.loader.index < 0)
    return invalid("the checkpoint stands at step {}, epoch {}, index {}: none may be negative",
                   c.step, c.loader.epoch, c.loader.index);
  if (!(c.loss_scale > 0 && std::isfinite(c.loss_scale)))
    return invalid("the checkpoint has loss scale {}: it must be positive", c.loss_scale);
  return {};
}

Result<Checkpoint> read_checkpoint(FileReader& r) {
  HONE_TRY(r.expect_kind(schema::FileKind::checkpoint));
  const schema::Checkpoint* from = r.file().checkpoint();
  if (!from) return invalid_model("the file says it is a checkpoint but has none");
  Checkpoint c;
  HONE_ASSIGN(c.tensors, read_named(r, from->tensors()));
  c.step = from->step();
  c.loader = {from->epoch(), from->index(), from->seed()};
  c.loss_scale = from->loss_scale();
  HONE_ASSIGN(c.base_hash, r.text(from->base_hash()));
  HONE_ASSIGN(c.metadata, r.metadata());
  const Status counters = check_counters(c);
  if (!counters.ok()) return Status(Code::invalid_model, counters.message());
  return c;
}

Status check(const Checkpoint& c) {
  std::unordered_map<std::string_view, const StateTensor*> seen;
  for (const StateTensor& t : c.tensors) {
    if (t.name.empty()) return invalid("a tensor of the checkpoint has no name");
    if (!t.data.defined()) return invalid("tensor '{}' of the checkpoint has no data", t.name);
    if (!seen.try_emplace(t.name, &t).second)
      return invalid("two tensors of the checkpoint have the name '{}'", t.name);
  }
  return check_counters(c);
}

}  // namespace

const StateTensor* Checkpoint::find(std::string_view name) const {
  for (const StateTensor& t : tensors)
    if (t.name == name) return &t;
  return nullptr;
}

Status save_checkpoint(const Checkpoint& checkpoint, const std::string& path) {
  HONE_TRY(check(checkpoint));
  FileWriter w;
  std::vector<Offset<schema::NamedTensor>> tensors;
  for (const StateTensor& t : checkpoint.tensors) tensors.push_back(write_named(w, t));
  const auto table = w.tables(tensors);
  const Text base_hash = w.text(checkpoint.base_hash);
  FileBody body;
  body.kind = schema::FileKind::checkpoint;
  body.checkpoint = schema::CreateCheckpoint(
      w.header(), table, checkpoint.step, checkpoint.loader.epoch, checkpoint.loader.index,
      checkpoint.loader.seed, checkpoint.loss_scale, base_hash);
  HONE_ASSIGN(AtomicFile file, AtomicFile::create(path));
  HONE_TRY(w.write(body, checkpoint.metadata, file));
  return file.commit();
}

Result<Checkpoint> load_checkpoint(const std::string& path) {
  Result<FileReader> r = FileReader::open(path, {});
  if (!r.ok()) return r.status().with_context(path);
  Result<Checkpoint> c = read_checkpoint(*r);
  if (!c.ok()) return c.status().with_context(path);
  return c;
}

Status apply_checkpoint(Model& model, const Checkpoint& checkpoint) {
  std::unordered_map<std::string_view, const StateTensor*> unused;
  for (const StateTensor& t : checkpoint.tensors)
    if (t.role == StateRole::parameter || t.role == StateRole::buffer) unused[t.name] = &t;
  Complaints complaints;
  std::vector<std::pair<ValueInfo*, const StateTensor*>> matches;
  for (ValueInfo& v : model.graph.values) {
    if (!is_weight(v)) continue;
    const auto at = unused.find(v.name);
    if (at == unused.end()) {
      complaints.add(format("'{}' is missing", v.name));
      continue;
    }
    compare(*at->second, v, complaints);
    matches.emplace_back(&v, at->second);
    unused.erase(at);
  }
  for (const StateTensor& t : checkpoint.tensors)
    if (unused.count(t.name) > 0) complaints.add(format("'{}' is not in the model", t.name));
  if (!complaints.empty())
    return invalid("the tensors are not those of the model: {}", complaints.text());
  for (const auto& [state, tensor] : matches) state->data = tensor->data;
  return {};
}

}  // namespace hone
