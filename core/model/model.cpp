// SPDX-License-Identifier: Apache-2.0
// Loading and saving of models.
#include "hone/model.hpp"

#include "core/model/content_hash.hpp"
#include "core/model/graph_io.hpp"
#include "core/model/memory_sink.hpp"

namespace hone {

namespace {

Result<Model> read_model(FileReader& r) {
  HONE_TRY(r.expect_kind(schema::FileKind::model));
  Model m;
  HONE_ASSIGN(m.metadata, r.metadata());
  HONE_ASSIGN(m.graph, read_graph(r, r.file().model()));
  HONE_ASSIGN(m.plans, read_plans(r, *r.file().model()));
  return m;
}

Status write_model(const Model& model, AtomicFile& file) {
  FileWriter w;
  FileBody body;
  body.kind = schema::FileKind::model;
  body.model = write_graph(w, model);
  return w.write(body, model.metadata, file);
}

}  // namespace

Result<Model> load_model(const std::string& path, const LoadOptions& options) {
  Result<FileReader> r = FileReader::open(path, options);
  if (!r.ok()) return r.status().with_context(path);
  Result<Model> m = read_model(*r);
  if (!m.ok()) return m.status().with_context(path);
  return m;
}

Result<Model> load_model(std::span<const std::byte> bytes, std::shared_ptr<const void> owner,
                         const LoadOptions& options) {
  HONE_ASSIGN(FileReader r, FileReader::parse(bytes, std::move(owner), options));
  return read_model(r);
}

Status save_model(const Model& model, const std::string& path) {
  HONE_TRY(check_graph(model.graph));
  HONE_ASSIGN(AtomicFile file, AtomicFile::create(path));
  HONE_TRY(write_model(model, file));
  return file.commit();
}

Result<std::vector<std::byte>> save_model(const Model& model) {
  HONE_TRY(check_graph(model.graph));
  std::vector<std::byte> bytes;
  HONE_ASSIGN(AtomicFile file, AtomicFile::over(std::make_unique<MemorySink>(bytes)));
  HONE_TRY(write_model(model, file));
  HONE_TRY(file.commit());
  return bytes;
}

const ValueInfo* find_state(const Model& model, std::string_view name) {
  const ValueId id = model.graph.find(name);
  if (id == kNone || model.graph.value(id).kind != ValueKind::state) return nullptr;
  return &model.graph.value(id);
}

std::string content_hash(const Model& model) { return content_hash_without(model, {}); }

}  // namespace hone
